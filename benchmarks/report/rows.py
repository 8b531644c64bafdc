"""One measured figure, and how good it is beside its target and its baseline."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """`value` in `unit`; `target` is DESIGN section 5's; `baseline` the same work done another way
    in the same run.

    `beside` says whose figure the baseline is; empty: a plain loop's. `baseline` is None where
    there is nothing to compare with. `counts` says in words what was counted. A figure over time is
    known by its `key`.
    """

    name: str
    nodes: int
    pods: int
    value: float
    unit: str
    target: float | None
    baseline: float | None
    counts: str = ""
    beside: str = ""

    @property
    def key(self) -> tuple[str, int, str]:
        """What makes two rows of different days the same figure."""
        return self.name, self.nodes, self.beside

    @property
    def more_is_better(self) -> bool:
        """Rates and shares shall be high; seconds, milliseconds and sizes low."""
        return self.unit.endswith("/s") or self.unit == "%"

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.target is None:
            return None
        return self.value >= self.target if self.more_is_better else self.value <= self.target

    @property
    def ratio(self) -> float | None:
        """How many times better than the baseline."""
        return self.times_better_than(self.baseline)

    def times_better_than(self, other: float | None) -> float | None:
        """How many times better than another figure of the same unit; None where one of the two is
        none.
        """
        if not other or not self.value:
            return None
        return self.value / other if self.more_is_better else other / self.value
