import pytest

from dispatcher.model.node import NO_EXECUTE, PREFER_NO_SCHEDULE
from dispatcher.model.reasons import Reason, Why
from tests.builders import NodeBuilder, PodBuilder, fleet, node, pod
from tests.plugins.asking import make, scores, whys


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
    assert found == ({"n": (Why(Reason.TAINT, want),)} if want else {})
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
