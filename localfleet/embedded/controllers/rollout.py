"""The Deployment controller: carries out what `deployment` decides."""

from collections.abc import Iterable

from localfleet.embedded.api import Api
from localfleet.embedded.controllers import deployment as decide
from localfleet.embedded.controllers.adoption import family_of, owners_to_look_at
from localfleet.embedded.controllers.deployment import (
    DESIRED,
    MAXIMUM,
    REVISION,
    Family,
    replicas_of,
)
from localfleet.embedded.controllers.replicaset import REPLICASETS
from localfleet.embedded.controllers.world import Ref, World, ref_of
from localfleet.embedded.controllers.writes import Delete, Merge, PutStatus, carry_out
from localfleet.embedded.meta import Object, annotations_of, condition, is_terminating
from localfleet.embedded.recorder import NORMAL, Recorder

DEPLOYMENTS = "deployments.apps"
_DEADLINE_CHECK_S = 5.0


class DeploymentController:
    """Makes, sizes and collects ReplicaSets, and writes the status."""

    name = "deployment-controller"

    def __init__(self, api: Api, world: World, recorder: Recorder) -> None:
        self._api = api
        self._world = world
        self._recorder = recorder

    def keys(self, ref: Ref, obj: Object, old: Object | None) -> Iterable[Ref]:
        """The Deployment itself, or those that a ReplicaSet concerns."""
        if ref.resource == DEPLOYMENTS:
            yield ref
        elif ref.resource == REPLICASETS:
            yield from owners_to_look_at(
                self._world, ref, obj, old, Ref(DEPLOYMENTS, "", "Deployment")
            )

    def reconcile(self, key: Ref, now: float) -> float | None:
        """One Deployment."""
        deployment = self._world.get(key)
        if deployment is None or is_terminating(deployment):
            return None
        of = decide.family(
            deployment, family_of(self._api, self._world, deployment, "Deployment", REPLICASETS)
        )
        if of.new is None and not deployment["spec"].get("paused"):
            of = self._make(deployment, of)
        self._annotate(key, deployment, of)
        for name, size in decide.sizes(deployment, of).items():
            self._scale(deployment, of, name, size)
        for surplus in decide.outdated(deployment, of):
            carry_out(self._api, Delete(ref_of(REPLICASETS, surplus), surplus["metadata"]["uid"]))
        fresh = self._api.get(DEPLOYMENTS, key.name, key.namespace)
        status = decide.status(fresh, of, now)
        carry_out(self._api, PutStatus(key, fresh, status))
        waiting = condition({"status": status}, "Progressing").get("reason") == "ReplicaSetUpdated"
        return _DEADLINE_CHECK_S if waiting else None

    def _make(self, deployment: Object, of: Family) -> Family:
        made = self._api.create(
            REPLICASETS, decide.new_replicaset(deployment, of), deployment["metadata"]["namespace"]
        )
        self._tell(deployment, made["metadata"]["name"], 0, replicas_of(made))
        return Family(made, of.old)

    def _annotate(self, key: Ref, deployment: Object, of: Family) -> None:
        """Keep revision and size annotations true on the new ReplicaSet, and the revision on the
        Deployment.
        """
        if of.new is None:
            return
        present = annotations_of(of.new)
        number = present.get(REVISION, "")
        highest = decide.revision(of)
        if not number.isdigit() or int(number) < highest:
            number = str(highest)
        wanted = decide.replicaset_annotations(deployment, int(number))
        if any(present.get(name) != wanted[name] for name in (REVISION, DESIRED, MAXIMUM)):
            carry_out(
                self._api, Merge(ref_of(REPLICASETS, of.new), {"metadata": {"annotations": wanted}})
            )
        if annotations_of(deployment).get(REVISION) != number:
            carry_out(self._api, Merge(key, {"metadata": {"annotations": {REVISION: number}}}))

    def _scale(self, deployment: Object, of: Family, name: str, size: int) -> None:
        one = next(member for member in of.members if member["metadata"]["name"] == name)
        carry_out(self._api, Merge(ref_of(REPLICASETS, one), {"spec": {"replicas": size}}))
        self._tell(deployment, name, replicas_of(one), size)

    def _tell(self, deployment: Object, name: str, before: int, after: int) -> None:
        way = "up" if after >= before else "down"
        text = f"Scaled {way} replica set {name} from {before} to {after}"
        self._recorder.record(deployment, "Deployment", NORMAL, "ScalingReplicaSet", text)
