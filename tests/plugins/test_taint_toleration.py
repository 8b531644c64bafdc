from collections.abc import Sequence

import pytest

from dispatcher.plugins import taint_toleration
from dispatcher.plugins.taint_toleration import TAINT_ABROAD, TaintToleration
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.records.decision import Decision
from dispatcher.scheduling.rules.eligibility import untolerated
from shared.model.crossing import Opening
from shared.model.node import NO_EXECUTE, PREFER_NO_SCHEDULE, Taint
from shared.model.pod import Toleration
from shared.model.reasons import Reasons, Why
from tests.builders import NodeBuilder, PodBuilder, fleet, node, pod
from tests.plugins.asking import make, scores, whys
from tests.scheduling.tiny_plugins import profile as tiny_profile


def gpu(effect: str = "NoSchedule") -> NodeBuilder:
    return node("n").taint("gpu", "a100", effect)


@pytest.mark.parametrize(
    ("where", "asking", "want"),
    [
        (node("n"), pod(), ""),
        (gpu(), pod(), "gpu=a100:NoSchedule"),
        (gpu(NO_EXECUTE), pod(), "gpu=a100:NoExecute"),
        (gpu(PREFER_NO_SCHEDULE), pod(), ""),
        (gpu(), pod().tolerates("gpu", "a100"), ""),
        (gpu(), pod().tolerates("gpu", "h100"), "gpu=a100:NoSchedule"),
        (gpu(), pod().tolerates("gpu", operator="Exists"), ""),
        (gpu(), pod().tolerates(operator="Exists"), ""),
        (gpu(), pod().tolerates("gpu", "a100", effect=NO_EXECUTE), "gpu=a100:NoSchedule"),
        (gpu().taint("drain", "", NO_EXECUTE), pod().tolerates("gpu", "a100"), "drain:NoExecute"),
    ],
    ids=[
        "no taint", "NoSchedule", "NoExecute", "soft taint", "tolerated", "other value", "any value", "everything",
        "other effect", "the first one not tolerated is named",
    ],
)  # fmt: skip
def test_taint_toleration_names_the_taint(where: NodeBuilder, asking: PodBuilder, want: str) -> None:
    found = whys(make("TaintToleration"), asking, fleet(a=[where]))
    assert found == ({"n": (Why(Reasons.TAINT, want),)} if want else {})
    assert all(one.text == "node(s) had untolerated taint(s)" for refused in found.values() for one in refused)
    assert all(one.detail == f"{one.text} ({want})" for refused in found.values() for one in refused)


def test_taint_toleration_prefers_nodes_with_fewer_soft_taints() -> None:
    one = node("one").taint("a", "", PREFER_NO_SCHEDULE)
    two = node("two").taint("a", "", PREFER_NO_SCHEDULE).taint("b", "", PREFER_NO_SCHEDULE)
    state = fleet(a=[node("clean"), one, two])
    assert scores(make("TaintToleration"), pod(), state) == {"clean": 100, "one": 50, "two": 0}
    tolerant = pod().tolerates("a", operator="Exists")
    assert scores(make("TaintToleration"), tolerant, state) == {"clean": 100, "one": 100, "two": 0}


def test_taint_toleration_scores_are_whole_numbers() -> None:
    tainted = [node(f"n{count}") for count in range(4)]
    for count, one in enumerate(tainted):
        for at in range(count):
            one.taint(f"k{at}", "", PREFER_NO_SCHEDULE)
    assert scores(make("TaintToleration"), pod(), fleet(a=tainted)) == {"n0": 100, "n1": 67, "n2": 34, "n3": 0}


def test_taint_toleration_scores_all_alike_without_soft_taints() -> None:
    assert scores(make("TaintToleration"), pod(), fleet(a=["n1", "n2"])) == {"n1": 100, "n2": 100}


def test_taint_toleration_class_is_the_set_of_tolerations() -> None:
    plugin = make("TaintToleration")
    one, same = pod().tolerates("a").tolerates("b"), pod().tolerates("b").tolerates("a")
    assert plugin.class_key(one.placed()) == plugin.class_key(same.placed())
    assert plugin.class_key(one.placed()) != plugin.class_key(pod().placed())


# --- in another cluster, where an agent leaves some tolerations behind ------------------------------------------------

ABROAD = "node(s) of other clusters had taint(s) that the pod tolerates in its own cluster alone"
MASTER = "node-role.kubernetes.io/control-plane"


def two_clusters(opens: tuple[Opening, ...] | None) -> FleetState:
    """A tainted node at home in a, another in b, which lets in what `opens` says."""
    state = fleet(a=[node("home").taint("gpu", "")], b=[node("abroad").taint("gpu", ""), node("open")])
    state.set_cluster("b", ready=True, synced=True, opens=opens)
    return state


@pytest.mark.parametrize(
    ("asking", "opens", "refused"),
    [
        pytest.param(pod().tolerates(operator="Exists"), (), True, id="a blanket toleration"),
        pytest.param(pod().tolerates(operator="Exists"), None, False, id="by an agent that does not tell its policy"),
        pytest.param(pod().tolerates(operator="Exists"), (Opening(("a",), ("*",), ("*",)),), False, id="opened"),
        pytest.param(pod().tolerates(operator="Exists"), (Opening(("c",), ("*",), ("*",)),), True, id="to another"),
        pytest.param(
            pod().tolerates(operator="Exists"), (Opening(("a",), ("x",), ("*",)),), True, id="to another namespace"
        ),
        pytest.param(pod().tolerates("gpu", operator="Exists"), (), False, id="a toleration with a key"),
    ],
)
def test_in_another_cluster_the_tolerations_count_that_cross(
    asking: PodBuilder, opens: tuple[Opening, ...] | None, refused: bool
) -> None:
    found = whys(make("TaintToleration"), asking, two_clusters(opens))
    assert found == ({"b/abroad": (Why(TAINT_ABROAD, "gpu:NoSchedule"),)} if refused else {})
    assert all(why[0].detail == f"{ABROAD} (gpu:NoSchedule)" for why in found.values())


def test_a_toleration_of_a_nodes_role_does_not_cross() -> None:
    state = fleet(a=[node("home").taint(MASTER, "")], b=[node("abroad").taint(MASTER, "")])
    state.set_cluster("b", ready=True, synced=True, opens=())
    asking = pod().tolerates(MASTER, operator="Exists")
    assert set(whys(make("TaintToleration"), asking, state)) == {"b/abroad"}
    state.set_cluster("b", ready=True, synced=True, opens=(Opening(("*",), ("*",), ("node-role.*",)),))
    assert whys(make("TaintToleration"), asking, state) == {}


def test_soft_taints_abroad_count_by_the_tolerations_that_cross() -> None:
    state = fleet(
        a=[node("home").taint("x", "", PREFER_NO_SCHEDULE)], b=[node("abroad").taint("x", "", PREFER_NO_SCHEDULE)]
    )
    state.set_cluster("b", ready=True, synced=True, opens=())
    assert scores(make("TaintToleration"), pod().tolerates(operator="Exists"), state) == {"a/home": 100, "b/abroad": 0}


def test_pods_of_two_clusters_are_one_class_unless_they_would_leave_tolerations_behind() -> None:
    plugin = make("TaintToleration")
    harmless, blanket = pod().tolerates("gpu", operator="Exists"), pod().tolerates(operator="Exists")
    assert plugin.class_key(harmless.placed(home="a")) == plugin.class_key(harmless.placed(home="b"))
    assert plugin.class_key(blanket.placed(home="a")) != plugin.class_key(blanket.placed(home="b"))


def test_a_node_that_changes_costs_no_look_at_the_taints_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    state = fleet(a=[node(f"n{at}").taint("until", str(at)) for at in range(300)])
    judged, plugin = list[object](), TaintToleration()

    def judge(tolerations: Sequence[Toleration], taints: Sequence[Taint]) -> Taint | None:
        judged.append(taints)
        return untolerated(tolerations, taints)

    monkeypatch.setattr(taint_toleration, "untolerated", judge)
    one = Scheduler(tiny_profile(TaintToleration=1), [plugin], state)
    for at in range(4):
        placed = pod("p").tolerates("until", "7").placed("a")
        [found] = one.schedule_class([(("a", f"u{at}"), placed)])
        assert isinstance(found, Decision)
        assert found.node == "n7"
        state.put_node("a", node("n3").taint("until", f"later than {at}").build())
    assert len(judged) == 1 + 300 + 3  # no taints, those at the start, and each new one
