from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.plugins.node_affinity import PROXY_ASKED
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework.coded_values import CodedValues
from dispatcher.scheduling.rules import eligibility
from dispatcher.scheduling.rules.eligibility import LabelMasks
from shared.model import labels as model_labels
from shared.model.labels import GT, IN, NOT_IN, OPERATORS, NodeSelectorTerm, PreferredTerm, Requirement
from shared.model.names import HOSTNAME, PROXY_LABEL
from shared.model.pod import Affinity
from shared.model.reasons import Why
from tests.builders import PodBuilder, fleet, node, pod
from tests.plugins.asking import make, reasons, scores

WHY = "node(s) didn't match Pod's node affinity/selector"
NODES = [
    node("ssd-1").labels(disk="ssd", cores="8"),
    node("ssd-2").labels(disk="ssd", cores="32"),
    node("hdd").labels(disk="hdd", cores="many"),
    node("bare"),
]


def named(operator: str, *names: str) -> PodBuilder:
    term = NodeSelectorTerm((), (Requirement("metadata.name", operator, names),))
    return pod().set(affinity=Affinity((term,)))


@pytest.mark.parametrize(
    ("asking", "want"),
    [
        (pod(), ["bare", "hdd", "ssd-1", "ssd-2"]),
        (pod().node_selector({"disk": "ssd"}), ["ssd-1", "ssd-2"]),
        (pod().node_selector({"disk": "ssd", "cores": "8"}), ["ssd-1"]),
        (pod().node_selector({"nobody-has": "it"}), []),
        (pod().requires("disk", "In", "ssd", "hdd"), ["hdd", "ssd-1", "ssd-2"]),
        (pod().requires("disk", "NotIn", "ssd"), ["bare", "hdd"]),
        (pod().requires("disk", "Exists"), ["hdd", "ssd-1", "ssd-2"]),
        (pod().requires("disk", "DoesNotExist"), ["bare"]),
        (pod().requires("cores", "Gt", "8"), ["ssd-2"]),
        (pod().requires("cores", "Lt", "32"), ["ssd-1"]),
        (pod().requires("cores", "Gt", "x"), []),
        (pod().requires("disk", "In", "hdd").requires("cores", "In", "8"), ["hdd", "ssd-1"]),
        (pod().node_selector({"disk": "ssd"}).requires("cores", "Gt", "8"), ["ssd-2"]),
        (pod().set(affinity=Affinity(())), []),
        (pod().set(affinity=Affinity((NodeSelectorTerm(),))), []),
        (named("In", "hdd"), ["hdd"]),
        (named("NotIn", "hdd"), ["bare", "ssd-1", "ssd-2"]),
        (named("Exists"), []),
    ],
    ids=[
        "no wish", "selector", "selector of two labels", "label that no node has", "In", "NotIn", "Exists",
        "DoesNotExist", "Gt", "Lt", "Gt something that is no number", "terms are alternatives",
        "selector and affinity must both hold", "no term matches nothing", "an empty term matches nothing",
        "by node name", "all but a node name", "operator that field selectors do not have",
    ],
)  # fmt: skip
def test_node_affinity_refuses_nodes_that_do_not_match(asking: PodBuilder, want: list[str]) -> None:
    state = fleet(a=NODES)
    found = reasons(make("NodeAffinity"), asking, state)
    assert sorted({"ssd-1", "ssd-2", "hdd", "bare"} - set(found)) == want
    assert set(found.values()) <= {WHY}
    plugin, view = make("NodeAffinity"), view_of(state)
    opened = plugin.open_rows(asking.build(), view)
    assert opened is not None
    rows, code = opened
    codes = np.full(state.n, code)
    codes[rows] = 0
    assert codes.tolist() == plugin.filter(asking.build(), view, slice(0, state.n)).tolist()


@pytest.mark.parametrize(
    ("asking", "cluster"),
    [
        (pod().node_selector({HOSTNAME: "global-dispatcher-b"}), "b"),
        (pod().node_selector({PROXY_LABEL: "b"}), "b"),
        (pod().requires(HOSTNAME, "In", "n", "global-dispatcher-b"), "b"),
        (pod().requires(PROXY_LABEL, "In", "b"), "b"),
        (named("In", "global-dispatcher-b"), "b"),
        (named("NotIn", "far", "global-dispatcher-b"), ""),
        (pod().requires(PROXY_LABEL, "NotIn", "b").node_selector({"disk": "ssd"}), ""),
        (pod().node_selector({HOSTNAME: "global-dispatcher-elsewhere"}), ""),
        (pod().node_selector({"disk": "global-dispatcher-b"}), ""),
    ],
    ids=[
        "hostname of one", "label of one", "hostname in a term", "label in a term", "name in a term", "not that name",
        "not that label",
        "hostname of no cluster", "another label",
    ],
)  # fmt: skip
def test_a_pod_that_asks_for_a_proxy_node_is_told_how_to_ask_for_its_cluster(asking: PodBuilder, cluster: str) -> None:
    state, plugin = fleet(a=["far"], b=["far"]), make("NodeAffinity")
    assert plugin.node_names(asking.placed(), view_of(state)) is None
    want = Why(PROXY_ASKED, cluster).detail if cluster else WHY
    assert reasons(plugin, asking, state) == {"a/far": want, "b/far": want}
    opened = plugin.open_rows(asking.build(), view_of(state))
    assert opened is not None
    assert state.reasons.why(opened[1]).detail == want
    assert not cluster or f'global-dispatcher.io/clusters: "{cluster}"' in want


def test_a_machine_with_the_hostname_of_a_proxy_node_takes_the_pods_that_ask_for_it() -> None:
    machine = node("far").labels(**{HOSTNAME: "global-dispatcher-b"})
    asking = pod().node_selector({HOSTNAME: "global-dispatcher-b"})
    assert set(reasons(make("NodeAffinity"), asking, fleet(a=[machine], b=["other"]))) == {"b/other"}
    assert make("NodeAffinity").node_names(named("In", "far").placed(), view_of(fleet(b=["far"]))) == {"far"}


def test_node_affinity_scores_by_weight_of_the_preferred_terms_that_match() -> None:
    asking = pod().prefers(20, "disk", "In", "ssd").prefers(5, "cores", "Gt", "8").prefers(1, "disk", "In", "hdd")
    want = {"ssd-1": 80.0, "ssd-2": 100.0, "hdd": 4.0, "bare": 0.0}
    assert scores(make("NodeAffinity"), asking, fleet(a=NODES)) == want


def test_node_affinity_scores_nothing_for_a_selector_alone() -> None:
    asking = pod().node_selector({"disk": "ssd"})
    assert scores(make("NodeAffinity"), asking, fleet(a=NODES)) == dict.fromkeys(("ssd-1", "ssd-2", "hdd", "bare"), 0.0)


def test_node_affinity_scores_nothing_where_no_preferred_term_matches() -> None:
    asking = pod().set(affinity=Affinity(None, (PreferredTerm(10, NodeSelectorTerm()),)))
    assert set(scores(make("NodeAffinity"), asking, fleet(a=NODES)).values()) == {0.0}


def test_node_affinity_adds_the_affinity_of_the_profile() -> None:
    plugin = make("NodeAffinity", added_affinity=[{"key": "disk", "operator": "In", "values": ["ssd"]}])
    assert set(reasons(plugin, pod(), fleet(a=NODES))) == {"hdd", "bare"}


def test_node_affinity_sees_labels_that_nodes_get_later() -> None:
    plugin, state, asking = make("NodeAffinity"), fleet(a=[node("n1")]), pod().node_selector({"disk": "ssd"})
    assert set(reasons(plugin, asking, state)) == {"n1"}
    state.put_node("a", node("n1").labels(disk="hdd").build())
    state.put_node("a", node("n2").labels(disk="ssd").build())
    assert set(reasons(plugin, asking, state)) == {"n1"}
    state.put_node("a", node("n1").labels(disk="ssd").build())
    assert reasons(plugin, asking, state) == {}


def test_node_affinity_class_is_the_selection_alone() -> None:
    plugin = make("NodeAffinity")
    assert plugin.class_key(pod("a").cpu("1").placed()) is None
    one, same = pod("a").node_selector({"x": "1", "y": "2"}), pod("b").node_selector({"y": "2", "x": "1"}).cpu(3)
    assert plugin.class_key(one.placed()) == plugin.class_key(same.placed())
    assert plugin.class_key(one.placed()) != plugin.class_key(pod().prefers(1, "x", "Exists").placed())


values = st.sampled_from(["1", "2", "10", "x", ""])
clauses = st.builds(Requirement, st.sampled_from(["k", "l", "none"]), st.sampled_from(OPERATORS), st.tuples(values))


@given(clauses, st.lists(st.dictionaries(st.sampled_from(["k", "l"]), values), min_size=1, max_size=6))
def test_label_masks_agree_with_the_model_clause_by_clause(clause: Requirement, labels: list[dict[str, str]]) -> None:
    state = fleet(a=[node(f"n{at}").label(one) for at, one in enumerate(labels)])
    mask = LabelMasks().clause(clause, view_of(state), slice(0, state.n))
    assert mask.tolist() == [clause.matches(one) for one in labels]


def test_values_are_read_as_numbers_once_for_all_clauses_that_compare_them(monkeypatch: pytest.MonkeyPatch) -> None:
    state, masks, read = fleet(a=[node(f"n{at}").labels(rank=f"{at}") for at in range(5)]), LabelMasks(), list[str]()

    def integer(text: str) -> int | None:
        read.append(text)
        return model_labels.integer(text)

    monkeypatch.setattr(eligibility, "integer", integer)
    for bound in range(3):
        above = masks.clause(Requirement("rank", GT, (str(bound),)), view_of(state), slice(0, state.n))
        assert above.tolist() == [at > bound for at in range(5)]
    assert len(read) == 5 + 3  # the values, and each bound


def test_listed_values_are_looked_up_and_never_compared_with_what_nodes_have() -> None:
    class Unread:
        """Values of nodes that can be looked up alone."""

        def __init__(self, values: CodedValues[str]) -> None:
            self.find, self._count = values.find, len(values)

        def __len__(self) -> int:
            return self._count

        def __iter__(self) -> Iterator[str]:
            raise AssertionError("a pass over all values of the nodes")

    view = view_of(fleet(a=[f"n{at}" for at in range(9)]))
    read = view.nodes.label_values
    with patch.object(type(view.nodes), "label_values", lambda _, key: Unread(read(key))):
        for operator, want in ((IN, [2, 5]), (NOT_IN, [0, 1, 3, 4, 6, 7, 8])):
            clause = Requirement("kubernetes.io/hostname", operator, ("n2", "n5", "no-node"))
            assert np.flatnonzero(LabelMasks().clause(clause, view, slice(0, 9))).tolist() == want
