"""Whether Services follow a pod into another cluster."""

from dispatcher.scheduling.clusters import brings_services
from dispatcher.scheduling.core.state import CoreState
from dispatcher.scheduling.delegation.tracking import Tracked
from shared.model import names
from shared.model.objects import Namespace


def follow(state: CoreState, tracked: Tracked, cluster: str) -> bool:
    """Whether those of its namespace are to be in that cluster before it runs there: both clusters
    do that, and it calls some, as far as is said.
    """
    source = tracked.source
    if source is None or source.annotations.get(names.SERVICES) == names.NONE:
        return False
    if not brings_services(state.clusters[tracked.home], state.clusters[cluster]):
        return False
    space = state.fleet.kept.of(tracked.home, Namespace).get(source.namespace)
    return space is None or space.labels.get(names.SERVICES) != names.NONE
