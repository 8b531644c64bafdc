"""What `explain` shows of a record."""

import io
from typing import Any

import pytest
from rich.console import Console

from dispatcher.cli.explain_view import in_short, print_explained

SCORES = {
    "LiveCPU": {"raw": 81.2, "normalized": 81.2, "weight": 2.0, "weighted": 162.4, "runner_up_weighted": 150.0},
    "HomeCluster": {"raw": 0.0, "normalized": 0.0, "weight": 0.1, "weighted": 0.0, "runner_up_weighted": 10.0},
}
DECISION = {
    "outcome": "scheduled",
    "decision": {"cluster": "west", "node": "w1", "score": 162.4},
    "runner_up": {"cluster": "east", "node": "e1", "score": 160.0},
    "margin": 2.4,
    "scores": SCORES,
    "rejected": [
        {"reason": "Insufficient cpu", "cluster": "east", "count": 3},
        {"reason": "Insufficient cpu", "cluster": "west", "count": 1},
    ],
    "feasible": 2,
    "evaluated": 6,
    "readings": {
        "cpu": {"used": 0.34, "mean": 0.31, "age_s": 3.2, "source": "kubelet"},
        "memory": {"used": 0.9, "mean": 0.88, "age_s": 3.2},
        "network": "unknown",
    },
    "extras": {"TenantQuota": {"tenant": "team-a", "cpu": {"used": "12", "limit": "40"}}},
}
POD = {"namespace": "default", "name": "web-1", "source": "east", "phase": "Running"}


def shown(**record: Any) -> list[str]:
    out = io.StringIO()
    print_explained(Console(file=out, width=200), {**POD, **record})
    return [" ".join(line.split()) for line in out.getvalue().splitlines()]


def test_clusters_that_have_a_pod_of_the_same_name_are_named_with_the_way_to_it() -> None:
    line = "Also a pod of this name was submitted in north, west, too: `--cluster north`"
    assert line in shown(also_in=["north", "west"])
    assert not any(line.startswith("Also") for line in shown(also_in=[]))


def test_one_of_a_batch_shows_its_place_in_it() -> None:
    counted = "what is counted here is as it was before the first of them"
    line = f"Batch pod 187 of 256 that were decided together; {counted}"
    assert line in shown(cluster="west", node="w1", decision={**DECISION, "batch": {"place": 187, "of": 256}})
    assert not any(one.startswith("Batch") for one in shown(cluster="west", node="w1", decision=DECISION))


def test_a_member_is_told_how_its_group_stands_or_that_it_does_not_count() -> None:
    group = {"name": "train", "kind": "PodGroup", "min_count": 8, "within": "rack", "waiting": 2, "placed": 0}
    group |= {"state": "incomplete", "step": None, "left": None, "domains": []}
    have = "0 of min 8 pods have a place, 2 wait; all within one rack"
    assert f"Group train (PodGroup), incomplete: {have}" in shown(group=group)
    assert "Group train (PodGroup): this pod does not count in it now" in shown(group={**group, "state": "apart"})


def test_what_did_not_go_along_and_a_lower_priority_are_named() -> None:
    lines = shown(left_behind="cluster west takes these: a/b", lower_priority="is PriorityClass high, 5 in west")
    assert "Not along cluster west takes these: a/b" in lines
    assert "Priority is PriorityClass high, 5 in west" in lines
    assert not any(line.startswith(("Not along", "Priority")) for line in shown(left_behind=None, lower_priority=None))


def test_a_placed_pod_shows_which_clusters_refused_it_before_and_for_what() -> None:
    said = 'ConfigMap "default/cm" does not exist in cluster "north"'
    before = [{"cluster": "north", "message": said, "ago_s": 1.0, "again_in_s": 29.0}]
    lines = shown(cluster="west", node="w1", decision={**DECISION, "refusals": before}, refusals=[])
    at = lines.index("Refused by clusters before it was placed")
    assert lines[at + 1 : at + 3] == ["CLUSTER SAID", f"north {said}"]


def test_a_placed_pod_shows_scores_refusals_readings_and_extras() -> None:
    lines = shown(cluster="west", node="w1", decision=DECISION)
    for want in (
        "To west / w1",
        "Why score 162.4, 2.4 ahead of east / e1; 2 of 6 nodes fit",
        "total 162.4 160.0 +2.4",
        "Refused nodes (4 of 6)",
        "4 3 1 Insufficient cpu",
        "SIGNAL MEAN LAST AGE SOURCE JUDGED BY NOTE",
        "cpu 31% 34% 3s kubelet -",
        "memory 88% 90% 3s - -",
        "network - - - - - unknown, by requests",
        "TenantQuota tenant team-a",
        "cpu: used 12, limit 40",
    ):
        assert want in lines


def test_plugins_are_listed_by_what_they_gave_and_show_their_lead() -> None:
    rows = [line for line in shown(cluster="west", node="w1", decision=DECISION) if line.startswith(("Live", "Home"))]
    assert rows[0].startswith("LiveCPU 81.2 81.2 2 162.4 150.0 +12.4 ━")
    assert rows[1] == "HomeCluster 0.0 0.0 0.1 0.0 10.0 -10.0"


def live_load(scores: dict[str, Any], extras: dict[str, Any]) -> dict[str, str]:
    """The line of each signal in 'Live load of ...'."""
    lines = shown(cluster="west", node="w1", decision={**DECISION, "scores": scores, "extras": extras})
    return {line.split()[0]: line for line in lines if line.startswith(("cpu ", "memory ", "network "))}


def test_each_reading_names_the_plugins_that_went_by_it() -> None:
    scores = {
        "LiveCPU": {**SCORES["LiveCPU"], "signals": ["cpu"]},
        "LiveHeadroom": {**SCORES["LiveCPU"], "signals": ["cpu", "network"]},
        "HomeCluster": SCORES["HomeCluster"],
    }
    assert live_load(scores, {}) == {
        "cpu": "cpu 31% 34% 3s kubelet LiveCPU, LiveHeadroom",
        "memory": "memory 88% 90% 3s - -",
        "network": "network - - - - LiveHeadroom unknown, by requests",
    }


def test_a_reading_that_did_not_count_in_full_stands_beside_it() -> None:
    scores = {name: {**SCORES["LiveCPU"], "signals": ["cpu"]} for name in ("Fresh", "Flat")}
    scores["Fading"] = {**SCORES["LiveCPU"], "signals": ["memory"]}
    extras = {
        "Fresh": {"cpu": {"mean": 0.31, "reading": 0.34, "judged": "fresh"}},
        "Flat": {"judged": "stale, by requests"},
        "Fading": {"memory": {"judged": "fading, 40% by reading, rest by requests"}},
    }
    lines = live_load(scores, extras)
    assert lines["cpu"].endswith("Flat Flat: stale, by requests")
    assert lines["memory"].endswith("Fading Fading: fading, 40% by reading, rest by requests")


def test_on_a_narrow_terminal_no_score_is_cut_and_long_text_goes_on_below() -> None:
    scores = {"ExpectedLoad": {**SCORES["LiveCPU"], "signals": ["cpu", "memory", "network"]}, **SCORES}
    message = "0/6 nodes are available: " + ", ".join(f"{count} reason-{count}" for count in range(1, 12)) + "."
    decision = {**DECISION, "scores": scores, "message": message, "extras": {"Quota": {"words": message}}}
    out = io.StringIO()
    print_explained(Console(file=out, width=90), {**POD, "cluster": "west", "node": "w1", "decision": decision})
    lines = [line.split() for line in out.getvalue().splitlines()]
    assert ["ExpectedLoad", "81.2", "81.2", "2", "162.4", "150.0", "+12.4"] in [line[:7] for line in lines]
    assert sum("reason-11." in line for line in lines) == 2  # the refusal's, and what the plugin saw


def test_a_pod_with_one_place_says_so() -> None:
    alone = {**DECISION, "runner_up": None, "margin": None, "scores": {}, "feasible": 1}
    assert "Why score 162.4, the only node of 6 that fits" in shown(cluster="west", node="w1", decision=alone)


@pytest.mark.parametrize(
    ("victims", "want"),
    [
        ((), "Now promised east / e1"),
        (("a/x",), "Now promised east / e1, evicting a/x"),
        (("a/v", "a/w", "a/x", "a/y", "a/z"), "Now promised east / e1, evicting a/v, a/w, a/x and 2 more"),
    ],
    ids=["after a restart", "one", "many"],
)
def test_a_pod_that_others_make_room_for_says_where_and_who(victims: tuple[str, ...], want: str) -> None:
    place = {"cluster": "east", "node": "e1"}
    going = [{"pod": pod, **place} for pod in victims]
    refusal = {"message": "0/6 nodes.", "clusters": {}, "rejected": [], "nominated": place, "victims": going}
    assert want in shown(cluster="", node="", phase="Pending", decision=refusal)


def test_a_pending_pod_says_why_once_for_the_fleet_and_then_for_each_cluster() -> None:
    message = "0/6 nodes are available: 6 Insufficient cpu."
    refusal = {"message": message, "clusters": {"east": "0/3 nodes ..."}, "feasible": 0, "evaluated": 6}
    lines = shown(cluster="", node="", phase="Pending", decision={**refusal, "rejected": DECISION["rejected"]})
    for want in (
        "To nowhere yet",
        f"Why {message}",
        "east 0/3 nodes ...",
        "Refused nodes (6 of 6)",
    ):
        assert want in lines
    assert sum(message in line for line in lines) == 1


def test_a_pending_pod_whose_headline_says_something_newer_keeps_what_was_decided() -> None:
    lines = shown(cluster="", node="", phase="Pending", message="it waits", decision={"message": "0/6 nodes."})
    assert ("Why it waits" in lines, "fleet 0/6 nodes." in lines) == (True, True)


def test_a_pod_without_a_decision_shows_its_message() -> None:
    assert "Why pod has scheduling gates" in shown(
        cluster="", node="", message="pod has scheduling gates", decision=None
    )


def test_a_pod_in_flight_says_what_it_waits_for() -> None:
    assert "Now waiting for the agent's answer (claim)" in shown(
        cluster="west", node="w1", in_flight="claim", decision=None
    )


HOSTILE = (
    "[red]x[/red]",
    "[/] nothing to close",
    "[link=http://example.invalid]here[/link]",
    "node(s) [...] :smile:",
    "[[bold]]",
    "back\\[slash]",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_what_others_wrote_is_shown_as_it_stands(text: str) -> None:
    place = {"cluster": text, "node": text}
    decision = {
        **DECISION,
        "decision": {**place, "score": 1.0},
        "runner_up": None,
        "scores": {text: SCORES["HomeCluster"]},
        "message": text,
        "clusters": {text: text},
        "rejected": [{"reason": text, "cluster": "west", "count": 1}],
        "extras": {text: {text: text}},
        "nominated": place,
    }
    says = dict.fromkeys(("name", "source", "phase", "in_flight", "waiting", "cluster", "node"), text)
    lines = shown(**says, decision=decision)
    assert f"Pod default/{text} {text}" in lines
    assert f"From {text}" in lines
    assert f"To {text} / {text}" in lines
    assert f"Now waiting for the agent's answer ({text})" in lines
    assert f"Now {text}" in lines
    assert f"Now promised {text} / {text}" in lines
    assert f"{text} {text}" in lines
    assert f"1 1 {text}" in lines
    assert f"Live load of {text} when it was chosen" in lines
    assert f"{text} {text.replace('_', ' ')} {text}" in lines


@pytest.mark.parametrize("text", HOSTILE)
def test_why_a_pod_waits_is_shown_as_it_stands(text: str) -> None:
    assert f"Why {text}" in shown(cluster="", node="", message=text, decision=None)


def test_what_would_steer_a_terminal_is_shown_and_not_sent() -> None:
    lines = shown(cluster="", node="", message="a\x1b[2Jb\x07c\u202ed\ne", decision={"message": "x\x9by"})
    assert "Why a\\x1b[2Jb\\x07c\\u202ed e" in lines
    assert "fleet x\\x9by" in lines


def test_in_short_names_the_plugins_that_made_the_lead_and_that_took_from_it() -> None:
    assert in_short(DECISION) == "score 162.4, 2.4 ahead of east/e1: LiveCPU +12.4, HomeCluster -10.0"
    assert in_short({**DECISION, "runner_up": None}) == "score 162.4, the only node that fits"
    assert in_short({**DECISION, "margin": 0.0}) == "score 162.4, level with east/e1"
    assert in_short(None) == ""
