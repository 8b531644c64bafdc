"""How to write: what a request says of it beside the object."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Write:
    """How to write: `strict` refuses unknown fields; `manager` names the writer ("" is never
    recorded), `tracked` says that it named itself; `force` takes over what others applied.
    """

    dry_run: bool = False
    strict: bool = False
    manager: str = ""
    force: bool = False
    tracked: bool = False


AS_IS = Write()
