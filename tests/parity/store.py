"""The API server as a place to put manifests: created as they are, statuses and deletions included, refusals noted."""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import httpx

from localfleet.controlplane.api import Api
from tests.parity.case import Object, key_of
from tests.parity.creatable import creatable, held, status_of
from tests.parity.kinds import KINDS

_IN_FLIGHT = 8
_THERE_BEFORE = {"Namespace", "PriorityClass"}  # of these every API server has some
_REFUSALS = {400, 403, 404, 409, 413, 422}
_LONG_S = 3600  # as long as a pod that is being deleted is given to end


class Store:
    """`refused`: kind -> objects that the API server did not take; `refusals`: its words."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._shared: dict[tuple[str, str], Object | None] = {}
        self.refused: Counter[str] = Counter()
        self.refusals: list[str] = []

    def share(self, obj: Object) -> Object | None:
        """Create an object once: those of several cases may have the same name if they are the same."""
        name = (obj["kind"], key_of(obj))
        if name not in self._shared:
            self._shared[name] = self.create(self._linked(obj))
        return self._shared[name]

    def create_all(self, objects: Sequence[Object]) -> list[Object]:
        """Create many at a time; those that were taken, in order."""
        with ThreadPoolExecutor(_IN_FLIGHT) as pool:
            return [made for made in pool.map(self.create, objects) if made is not None]

    def create(self, obj: Object) -> Object | None:
        """As the API server made it, with the status and the deletion that the manifest has; None if there is none."""
        kind = KINDS[obj["kind"]]
        path, body = kind.of(obj), creatable(obj)
        made: Object | None
        try:
            made = self._create(obj, path, body)
            if made is not None and "deletionTimestamp" in obj["metadata"]:
                made = self._deleted(made)
        except httpx.HTTPStatusError as error:
            if error.response.status_code == 409 and obj["kind"] in _THERE_BEFORE:
                made = self._api.patch(f"{path}/{obj['metadata']['name']}", {"metadata": body["metadata"]})
            elif error.response.status_code in _REFUSALS:
                self.refused[obj["kind"]] += 1
                self.refusals.append(f"{obj['kind']} {key_of(obj)}: {_words(error)}")
                return None
            else:
                raise
        return made and {"apiVersion": obj.get("apiVersion"), **made, "kind": obj["kind"]}

    def _create(self, obj: Object, path: str, body: Object) -> Object:
        status = status_of(obj)
        hold = bool(status) and obj["kind"] == "Pod" and not obj["spec"].get("nodeName")
        made = self._api.create(path, held(body) if hold else body)
        path = f"{path}/{made['metadata']['name']}"
        if status:
            try:
                made = self._api.patch(f"{path}/status", {"status": status})
            except httpx.HTTPStatusError:
                self._api.delete(path)  # an object without its status would be another one
                raise
        if hold:
            gates = obj["spec"].get("schedulingGates") or None
            made = self._api.patch(path, {"spec": {"schedulingGates": gates}})
        return made

    def _linked(self, obj: Object) -> Object:
        """A volume that names its claim is given the claim's uid."""
        reference = (obj.get("spec") or {}).get("claimRef") if obj["kind"] == "PersistentVolume" else None
        if not isinstance(reference, dict):
            return obj
        claim = self._shared.get(("PersistentVolumeClaim", f"{reference.get('namespace')}/{reference.get('name')}"))
        uid = claim["metadata"]["uid"] if claim else reference.get("uid", "")
        kept = {key: value for key, value in reference.items() if key != "resourceVersion"}
        return {**obj, "spec": {**obj["spec"], "claimRef": {**kept, "uid": uid}}}

    def delete(self, obj: Object, grace_s: int = 0) -> None:
        """Delete it; one that is gone already is none the worse."""
        path = f"{KINDS[obj['kind']].of(obj)}/{obj['metadata']['name']}"
        try:
            self._api.delete(path, gracePeriodSeconds=str(grace_s))
        except httpx.HTTPStatusError as error:
            if error.response.status_code != httpx.codes.NOT_FOUND:
                raise

    def _deleted(self, obj: Object) -> Object | None:
        """Being deleted; None if that was all it took."""
        self.delete(obj, _LONG_S)
        return self.read(obj)

    def read(self, obj: Object) -> Object | None:
        """As it is now, None if it is not there."""
        try:
            return self._api.get(f"{KINDS[obj['kind']].of(obj)}/{obj['metadata']['name']}")
        except httpx.HTTPStatusError as error:
            if error.response.status_code == httpx.codes.NOT_FOUND:
                return None
            raise

    def terminating_pods(self) -> frozenset[str]:
        """The keys of all pods that are being deleted."""
        pods = self._api.get("/api/v1/pods")["items"]
        return frozenset(key_of(pod) for pod in pods if "deletionTimestamp" in pod["metadata"])


def _words(error: httpx.HTTPStatusError) -> str:
    """The message of the server's answer."""
    try:
        return str(error.response.json()["message"])
    except (ValueError, KeyError, TypeError):
        return str(error)
