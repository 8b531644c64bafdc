"""What a pod wants to be near to: the annotation `global-dispatcher.io/near`, read alike by agents
and by plugins.
"""

import re
from difflib import get_close_matches
from typing import NamedTuple

CLUSTER = "cluster"
SERVICE = "service"
ZONE = "zone"
_SHAPES = {CLUSTER: "cluster/NAME", SERVICE: "service/NAMESPACE/NAME", ZONE: "zone/NAME"}
_PARTS = {CLUSTER: 1, SERVICE: 2, ZONE: 1}
_DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_READ = 64  # characters of a user's text that are repeated
_ALIKE = 0.6  # of difflib
NAME_PATTERN = r"^[a-z0-9]([-a-z0-9_.]{0,61}[a-z0-9])?$"  # of a dataset
_DATASET = re.compile(NAME_PATTERN)


class Near(NamedTuple):
    """One thing to be near to. `namespace` is that of a service, else ''."""

    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        """As it is written."""
        return "/".join(filter(None, (self.kind, self.namespace, self.name)))


def read_near(text: str) -> Near:
    """'cluster/a', 'service/shop/db' or 'zone/eu-1a'; ValueError says what is wrong and what may be
    meant.
    """
    kind, _, rest = text.partition("/")
    shapes = ", ".join(_SHAPES.values())
    if kind not in _SHAPES:
        close = get_close_matches(kind[:_READ].strip().lower(), _SHAPES, 1, _ALIKE)
        hint = f"; did you mean {_SHAPES[close[0]]}?" if close else ""
        raise ValueError(f"must be one of {shapes}, not {text[:_READ]!r}{hint}")
    parts = rest.split("/", 2)
    name = _LABEL_VALUE if kind == ZONE else _DNS_NAME
    if len(parts) != _PARTS[kind] or not all(map(name.fullmatch, parts)):
        raise ValueError(f"{text[:_READ]!r} cannot be read; write {_SHAPES[kind]}")
    return Near(kind, parts[-1], parts[0] if kind == SERVICE else "")


def read_dataset(text: str) -> str:
    """The name of a set of data; ValueError for what can be none."""
    if not _DATASET.fullmatch(text):
        raise ValueError(
            f"must be the name of one dataset (a-z, 0-9, '-', '_', '.'), not {text[:_READ]!r}"
        )
    return text
