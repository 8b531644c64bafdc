"""Reasons have 16-bit codes. Whatever names users make up, all are told, and what nodes have keeps its codes."""

from dispatcher.scheduling.cycle.cycle import Scheduler, Unschedulable
from dispatcher.scheduling.fleet.fleet import FleetState
from shared.model.crossing import Opening
from shared.model.pod import Need, Needs
from shared.model.reasons import ReasonTable
from tests.builders import PodBuilder, fleet, node, pod
from tests.plugins.asking import make
from tests.scheduling.tiny_plugins import Ready, profile

LIMIT = 40


def _scheduler() -> tuple[Scheduler, FleetState]:
    state = fleet(a=[node("n1").cpu(4), node("n2").cpu(4).resource("example.com/fpga", 1)])
    state.reasons = ReasonTable(LIMIT)
    plugins = (Ready(), make("NodeResourcesFit"))
    return Scheduler(profile(**{one.name: 1.0 for one in plugins}), plugins, state), state


def _refused(one: Scheduler, what: PodBuilder) -> Unschedulable:
    placed = what.placed()
    result = one.schedule(placed, ("a", placed.pod.uid))
    assert isinstance(result, Unschedulable)
    return result


def _wanting(name: str, *resources: str) -> PodBuilder:
    wanting = pod(name).cpu(1)
    for one in resources:
        wanting.request(one, 2)
    return wanting


def test_after_many_names_that_no_node_has_all_are_told_by_their_names() -> None:
    one, state = _scheduler()
    before = _refused(one, _wanting("first", "x.io/gone"))
    for at in range(4 * LIMIT):
        _refused(one, _wanting(f"evil-{at}", f"x.io/r{at}", f"x.io/s{at % 7}", "example.com/fpga"))
    assert len(state.reasons._whys) < LIMIT
    good = _refused(one, _wanting("good", "nvidia.com/gpu1", "nvidia.com/gpu2"))
    assert good.message == "0/2 nodes are available: 2 Insufficient nvidia.com/gpu1, 2 Insufficient nvidia.com/gpu2."
    assert [row["reason"] for row in good.record()["rejected"]] == [
        "Insufficient nvidia.com/gpu1",
        "Insufficient nvidia.com/gpu2",
    ]
    assert good.again(("a", "u2"), good.pod_info, 9.0).record()["rejected"] == good.record()["rejected"]
    assert _refused(one, _wanting("fpga", "example.com/fpga")).message.endswith("2 Insufficient example.com/fpga.")
    assert before.record()["rejected"][0]["reason"] == "Insufficient x.io/gone"


def test_after_many_secrets_that_no_cluster_lets_in_a_pod_is_told_of_its_own() -> None:
    state = fleet(a=[node("n1").cpu(4)], b=[node("n2").cpu(4)])
    state.reasons = ReasonTable(LIMIT)
    for cluster in "ab":
        state.set_cluster(cluster, ready=True, synced=True, opens=(Opening(("*",), ("*",), (), closed=()),))
    plugins = (Ready(), make("NamespaceOpen"), make("NodeResourcesFit"))
    one = Scheduler(profile(**{each.name: 1.0 for each in plugins}), plugins, state)
    for at in range(LIMIT):
        _refused(one, pod(f"evil-{at}").cpu(9).set(needs=_secret(f"s{at}")))
    good = _refused(one, pod("good").cpu(9).set(needs=_secret("mine")))
    for told in (good.message, *(row["reason"] for row in good.record()["rejected"] if row["cluster"] == "b")):
        assert 'spec.volumes[0].secret.secretName is Secret "mine"; they take it only if' in told


def _secret(name: str) -> Needs:
    return Needs(of_policy=(Need("secrets", name, "spec.volumes[0].secret.secretName", f'is Secret "{name}"'),))


def test_a_record_says_what_no_node_had_when_it_was_made() -> None:
    one, state = _scheduler()
    for at in range(LIMIT):
        _refused(one, _wanting(f"evil-{at}", f"x.io/r{at}"))
    good = _refused(one, _wanting("good", "nvidia.com/gpu"))
    state.axis.intern("nvidia.com/gpu")
    assert [row["reason"] for row in good.record()["rejected"]] == ["Insufficient nvidia.com/gpu"]
