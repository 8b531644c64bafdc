"""An order of names that only grows: what the columns of the fleet are numbered by."""

from collections.abc import Iterable


class Axis:
    """One fixed order: name <-> column. New names append; columns never move."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names: list[str] = list(names)
        self._column = {name: column for column, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def column(self, name: str) -> int | None:
        """Column of `name`, None if no node has ever had it."""
        return self._column.get(name)

    def append(self, name: str) -> int:
        """Column of `name`, which is new."""
        column = self._column[name] = len(self.names)
        self.names.append(name)
        return column
