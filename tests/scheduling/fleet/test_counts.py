"""How pods of a set are counted when somebody first asks."""

from dataclasses import replace

from dispatcher.model.pod import Pod
from dispatcher.scheduling.framework.pod_sets import LabelsOf, pods_in
from tests.builders import fleet, node, pod, put, selector


def test_pods_of_one_template_are_asked_once_whether_they_are_of_a_set() -> None:
    state = fleet(a=[node("n1").labels(zone="x"), node("n2").labels(zone="y")])
    for at in range(6):
        put(state, pod(f"web-{at}").labels(tier="web"), "a", f"n{1 + at % 2}")
    put(state, pod("db").labels(tier="db"), "a", "n1")
    wanted, asked = pods_in("default", selector(tier="web")), list[str]()

    def matches(one: Pod, home: str, labels_of: LabelsOf) -> bool:
        asked.append(one.labels["tier"])
        return wanted.matches(one, home, labels_of)

    count = state.count_in(replace(wanted, matches=matches, clues=()), "zone")
    assert state.counted(count).tolist() == [3, 3]
    assert sorted(asked) == ["db", "web"]
