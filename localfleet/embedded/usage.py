"""What a container or a node uses, as metrics.k8s.io tells it."""

from typing import NamedTuple


class Usage(NamedTuple):
    """A mean over the `window_s` seconds before `at` (unix seconds): CPU in cores; memory in bytes,
    as it was last.
    """

    at: float
    window_s: float
    cpu: float
    memory: float
