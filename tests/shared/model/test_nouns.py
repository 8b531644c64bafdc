"""Small rules on nouns: tolerations, tenants, fault-domain levels, reasons."""

import pytest

from shared.model.node import Taint
from shared.model.pod import Toleration
from shared.model.reasons import Reasons, ReasonTable
from shared.model.tenant import Tenant
from shared.model.topology import LEVELS, label_key, label_of, level_of, meant_level, within_cluster

TAINT = Taint("gpu", "yes", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "want"),
    [
        pytest.param(Toleration("gpu", "Equal", "yes", "NoSchedule"), True, id="all agree"),
        pytest.param(Toleration("gpu", "Equal", "yes"), True, id="no effect means every effect"),
        pytest.param(Toleration("gpu", "Equal", "no"), False, id="another value"),
        pytest.param(Toleration("gpu", "Exists"), True, id="Exists asks for no value"),
        pytest.param(Toleration("", "Exists"), True, id="Exists without a key tolerates all"),
        pytest.param(Toleration("", "Equal", "yes"), False, id="Equal without a key tolerates nothing"),
        pytest.param(Toleration("gpu", "Equal", "yes", "NoExecute"), False, id="another effect"),
        pytest.param(Toleration("gpu", "Sounds", "yes"), False, id="an unknown operator tolerates nothing"),
    ],
)
def test_toleration_tolerates_as_kubernetes_defines(toleration: Toleration, want: bool) -> None:
    assert TAINT.tolerated_by(toleration) is want


@pytest.mark.parametrize(
    ("pattern", "want"),
    [
        pytest.param("team-a", True, id="the namespace in any cluster"),
        pytest.param("east/team-a", True, id="the namespace in this cluster"),
        pytest.param("west/team-a", False, id="the namespace in another cluster"),
        pytest.param("team-*", True, id="a prefix"),
        pytest.param("team", False, id="a prefix needs its star"),
    ],
)
def test_tenant_owns_what_its_patterns_say(pattern: str, want: bool) -> None:
    assert Tenant("t", (pattern,), {}).owns("east", "team-a") is want


def test_levels_are_named_by_word_or_by_label() -> None:
    assert level_of("topology.kubernetes.io/zone") == "zone" == level_of("zone")
    assert level_of("kubernetes.io/hostname") == "host"
    assert level_of("example.com/room") == "example.com/room"


@pytest.mark.parametrize(
    ("label", "level"),
    [
        ("topology.kubernetes.io/zone", "zone"),
        ("topology.kubernetes.io/region", "region"),
        ("topology.kubernetes.io/rack", "rack"),
        ("global-dispatcher.io/provider", "provider"),
        ("kubernetes.io/hostname", "host"),
        ("example.com/zone", "example.com/zone"),
        ("disk", "disk"),
    ],
)
def test_a_label_that_a_field_of_kubernetes_names_is_the_level_behind_it_or_itself(label: str, level: str) -> None:
    assert label_key(label) == level


@pytest.mark.parametrize("name", [*LEVELS, "zones", "hosts", "Rack"])
def test_a_label_with_the_name_of_a_level_is_that_label_and_no_level(name: str) -> None:
    key = label_key(name)
    assert key not in LEVELS
    assert level_of(key) == key
    assert label_of(key) == (name, False)
    assert label_of(within_cluster(key)) == (name, True)
    assert not meant_level(key)


def test_reason_codes_are_small_stable_and_turn_back_into_words() -> None:
    table = ReasonTable()
    cpu = table.code(Reasons.INSUFFICIENT, "cpu")
    memory = table.code(Reasons.INSUFFICIENT, "memory")
    assert (cpu, memory) == (1, 2) == (table.code(Reasons.INSUFFICIENT, "cpu"), memory)
    assert table.why(cpu).text == "Insufficient cpu"
    with pytest.raises(KeyError):
        table.why(0)


def test_reasons_that_stand_together_share_a_code_and_keep_their_texts() -> None:
    table = ReasonTable()
    cpu, taint = table.code(Reasons.INSUFFICIENT, "cpu", lasting=True), table.code(Reasons.TAINT, "a=b:NoSchedule")
    both = table.joint((cpu, taint))
    assert both == table.joint((cpu, taint)) not in (cpu, taint)
    assert [why.text for why in table.whys(both)] == ["Insufficient cpu", "node(s) had untolerated taint(s)"]
    assert [why.detail for why in table.whys(both)][1] == "node(s) had untolerated taint(s) (a=b:NoSchedule)"
    assert [why.lasting for why in table.whys(both)] == [True, False]
    assert cpu != table.code(Reasons.INSUFFICIENT, "cpu")


def test_reason_codes_stay_few_whatever_pods_ask_for() -> None:
    table = ReasonTable(limit=3)
    codes = [table.code(Reasons.INSUFFICIENT, f"example.com/{at}") for at in range(20)]
    assert max(codes) <= 4
    assert table.why(codes[0]).argument == "example.com/0"
    assert {table.why(code).text for code in codes[2:]} == {"Insufficient others"}
    assert table.joint(codes[:3]) == codes[0]


def test_taints_that_never_come_again_leave_other_reasons_their_arguments() -> None:
    table = ReasonTable(limit=40)
    told = [f"ToBeDeleted={at}:NoSchedule" for at in range(100)]
    codes = [table.code(Reasons.TAINT, one) for one in told]
    assert [table.why(code).argument for code in codes[8:12]] == [*told[8:10], "others", "others"]
    assert table.code(Reasons.TAINT, told[3]) == codes[3]
    assert table.why(table.code(Reasons.INSUFFICIENT, "example.com/gpu")).argument == "example.com/gpu"
