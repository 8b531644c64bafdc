"""Events as controllers and kubelets record them: equal ones within the hour are counted, not
repeated.
"""

from collections import OrderedDict
from collections.abc import Callable
from itertools import count
from zlib import crc32

from localfleet.embedded.api import Api, ApiError
from localfleet.embedded.meta import Object, stamp

NORMAL = "Normal"
WARNING = "Warning"
_REMEMBERED = 4096
_LONGEST_MESSAGE = 1024
_Key = tuple[str, str, str]


class Recorder:
    """Writes core/v1 Events about objects, as `component`. A refused event is dropped: events are
    best effort.
    """

    def __init__(self, api: Api, clock: Callable[[], float], component: str) -> None:
        self._api = api
        self._clock = clock
        self._component = component
        # Two components that start at one moment do not give their events the same names.
        self._number = count(int(clock() * 1e6) + (crc32(component.encode()) << 52))
        self._seen: OrderedDict[_Key, tuple[str, int]] = OrderedDict()

    def record(
        self, regarding: Object, kind: str, severity: str, reason: str, message: str, host: str = ""
    ) -> None:
        """Record that `reason` happened to the object `regarding` of kind `kind` (Pod, Node,
        ReplicaSet...).
        """
        key = (regarding["metadata"].get("uid", ""), reason, message)
        try:
            if not self._count_again(key, regarding):
                self._seen[key] = (
                    self._create(regarding, kind, (severity, reason, message), host),
                    1,
                )
        except ApiError:
            self._seen.pop(key, None)
        while len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)

    def _count_again(self, key: _Key, regarding: Object) -> bool:
        if key not in self._seen:
            return False
        name, times = self._seen[key]
        change = {"count": times + 1, "lastTimestamp": stamp(self._clock())}
        try:
            self._api.patch("events", name, _namespace(regarding), change, kind="merge")
        except ApiError:
            return False
        self._seen[key] = (name, times + 1)
        self._seen.move_to_end(key)
        return True

    def _create(self, regarding: Object, kind: str, what: tuple[str, str, str], host: str) -> str:
        metadata = regarding["metadata"]
        now = stamp(self._clock())
        severity, reason, message = what
        involved = {
            "kind": kind,
            "apiVersion": regarding.get("apiVersion", "v1"),
            "name": metadata["name"],
            "uid": metadata.get("uid", ""),
            **({"namespace": metadata["namespace"]} if metadata.get("namespace") else {}),
        }
        namespace = _namespace(regarding)
        name = f"{metadata['name']}.{next(self._number):x}"
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": involved,
            "type": severity,
            "reason": reason,
            "message": message[:_LONGEST_MESSAGE],
            "source": {"component": self._component, **({"host": host} if host else {})},
            "reportingComponent": self._component,
            "reportingInstance": host,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self._api.create("events", event, namespace)
        return name


def _namespace(regarding: Object) -> str:
    return regarding["metadata"].get("namespace") or "default"
