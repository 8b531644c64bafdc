"""A crowd within one scrape interval: readings are as old for the last pod as for the first, and no node is hot."""

from collections import Counter

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from tests.builders import fleet, node, pod, reading

NODES, IDLE, PODS, CPUS = 100, 10, 1000, 10
LOAD = 0.5  # of all nodes but the idle ones


def crowd(*, counted: bool) -> float:
    """The largest node's use after the crowd, each pod of which uses the 0.1 CPU that it requests.

    Not `counted`: as if each pod were taken for one that the readings show.
    """
    state = fleet(a=[node(f"n{at}").cpu(CPUS).memory("100Gi").pods(500) for at in range(NODES)])
    loads = {f"n{at}": 0.0 if at < IDLE else LOAD for at in range(NODES)}
    for name, load in loads.items():
        state.put_reading("a", reading(name, cpu=load, memory=load, net=load))
    taken = placed_on(state, counted=counted)
    return max(loads[name] + taken[name] * 0.1 / CPUS for name in loads)


def placed_on(state: FleetState, *, counted: bool) -> Counter[str]:
    """node -> pods."""
    scheduler = Scheduler(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext()), state)
    taken: Counter[str] = Counter()
    for at in range(PODS):
        one = pod(f"p{at}").cpu("100m").memory("1Mi")
        result = scheduler.schedule(one.placed("a"), ("a", f"p{at}"))
        assert isinstance(result, Decision)
        taken[result.node] += 1
        if not counted:
            state.remove(result.pod_id)
            seen = one.on(result.node).set(phase="Running").placed("a")
            state.place(result.pod_id, seen, "a", result.node, assumed=False)
    return taken


def test_a_thousand_pods_at_once_do_not_crowd_on_ten_idle_nodes() -> None:
    filled = LOAD * IDLE * CPUS  # CPU that the idle nodes take until they are as loaded as the others
    ideal = LOAD + (PODS * 0.1 - filled) / (NODES * CPUS)
    assert crowd(counted=True) <= 1.2 * ideal
    assert crowd(counted=False) > 1.5 * ideal, "without what was placed the same test shows the herd"
