"""What an operator says about rebalancing: when a node is a hot spot, which pods may give way, and
how many.
"""

from dataclasses import dataclass

from shared.model.signals import BASE_SIGNALS


@dataclass(frozen=True, slots=True)
class RebalancingRules:
    """Utilisations are shares 0..1, times seconds; ValueError where `cool` is not below `hot`.

    hot, hot_s: a node is a hot spot once any of `signals` was above `hot` at every look for that
    long. cool: a hot spot is none any more once all signals are below it; where a pod goes, all
    must stay below it. gain: what a move must win at least, in points of a node's cost (see
    `utilisation.cost`). moves_per_minute, under_way: of the whole fleet, of one cluster at most
    half while others have moves; of one node at most one pod a look. rest_s: a pod that came to its
    node less long ago is not moved. app_rest_s: nor is one of an app of which another pod was moved
    less long ago.
    """

    signals: tuple[str, ...] = BASE_SIGNALS
    hot: float = 0.7
    cool: float = 0.6
    hot_s: float = 60.0
    gain: float = 1.0
    moves_per_minute: int = 5
    under_way: int = 10
    rest_s: float = 1800.0
    app_rest_s: float = 300.0

    def __post_init__(self) -> None:
        if not 0.0 < self.cool < self.hot <= 1.0:
            raise ValueError(
                f"cool ({self.cool:g}) must be above 0 and below hot ({self.hot:g}), and that at "
                "most 1"
            )
