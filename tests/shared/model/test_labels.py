"""Selectors: each operator as Kubernetes defines it."""

import pytest

from shared.model.labels import LabelSelector, NodeSelectorTerm, Requirement

LABELS = {"tier": "web", "cores": "16", "empty": ""}


@pytest.mark.parametrize(
    ("clause", "want"),
    [
        pytest.param(Requirement("tier", "In", ("web", "db")), True, id="In with the value"),
        pytest.param(Requirement("tier", "In", ("db",)), False, id="In without the value"),
        pytest.param(Requirement("none", "In", ("",)), False, id="In never matches an absent key"),
        pytest.param(Requirement("none", "NotIn", ("web",)), True, id="NotIn matches an absent key"),
        pytest.param(Requirement("tier", "NotIn", ("web",)), False, id="NotIn with the value"),
        pytest.param(Requirement("empty", "Exists"), True, id="Exists with an empty value"),
        pytest.param(Requirement("none", "DoesNotExist"), True, id="DoesNotExist without the key"),
        pytest.param(Requirement("cores", "Gt", ("8",)), True, id="Gt compares numbers"),
        pytest.param(Requirement("cores", "Lt", ("8",)), False, id="Lt compares numbers"),
        pytest.param(Requirement("tier", "Gt", ("8",)), False, id="Gt on text never matches"),
        pytest.param(Requirement("cores", "Gt", ("8", "9")), False, id="Gt needs exactly one value"),
        pytest.param(Requirement("tier", "Sounds", ("web",)), False, id="an unknown operator matches nothing"),
    ],
)
def test_requirement_matches_as_kubernetes_defines(clause: Requirement, want: bool) -> None:
    assert clause.matches(LABELS) is want


def test_label_selector_needs_every_clause() -> None:
    assert LabelSelector({"tier": "web"}, (Requirement("cores", "Exists"),)).matches(LABELS)
    assert not LabelSelector({"tier": "web"}, (Requirement("none", "Exists"),)).matches(LABELS)
    assert LabelSelector().matches({})


def test_node_selector_term_reads_labels_and_the_name_and_empty_matches_nothing() -> None:
    by_name = NodeSelectorTerm(match_fields=(Requirement("metadata.name", "In", ("n1",)),))
    assert by_name.matches({}, "n1")
    assert not by_name.matches({}, "n2")
    assert not NodeSelectorTerm().matches(LABELS, "n1")
