"""Pods of one class that fit nowhere: told together they are told what each would be told alone, records included."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.scheduling.records.decision import Decision, Unschedulable
from shared.model.pod import Pod, PodId
from shared.model.tenant import Share, Tenant
from tests.builders import fleet, node, pod, put
from tests.laws.examples import examples
from tests.laws.grain import as_in_batches, recorded

Item = tuple[PodId, PodInfo]
TENANT = Tenant("red", ("red",), {"cpu": Share(absolute=2500)})


def scheduler(running: list[tuple[int, int]]) -> Scheduler:
    """Three nodes of 2 CPU; `running`: (node, priority) of pods of one CPU there."""
    state = fleet(a=[node(f"n{at}").cpu(2) for at in range(3)])
    for number, (at, priority) in enumerate(running):
        put(state, pod(f"low-{number}").cpu(1).priority(priority).set(started=100.0 + number), "a", f"n{at}")
    plugins = build(DEFAULT_PROFILE, PluginContext(quota=QuotaLedger([TENANT])))
    return Scheduler(DEFAULT_PROFILE, plugins, state)


@st.composite
def asking(draw: st.DrawFn) -> list[Pod]:
    """Pods of one class, but for what makes single ones special."""
    namespace, cpu = draw(st.sampled_from(("default", "red"))), draw(st.sampled_from((1, 2, 3)))
    items = []
    for number in range(draw(st.integers(1, 8))):
        built = pod(f"p{number}").namespace(namespace).cpu(cpu).priority(draw(st.sampled_from((0, 0, 0, 5)))).build()
        strange = draw(st.sampled_from(("", "", "", "", "never", "problem", "gated")))
        if strange == "never":
            built = msgspec.structs.replace(built, preempts=False)
        elif strange == "problem":
            built = msgspec.structs.replace(built, problems=("spec.odd",))
        elif strange == "gated":
            built = msgspec.structs.replace(built, gated=True, gates=("wait",))
        items.append(built)
    return items


def numbered(at: int, pods: list[Pod]) -> list[Item]:
    """With ids that no other batch has."""
    renamed = [msgspec.structs.replace(one, uid=f"{at}-{one.uid}", name=f"{at}-{one.name}") for one in pods]
    return [(("a", one.uid), PodInfo(one, "a")) for one in renamed]


def told(results: list[Decision | Unschedulable]) -> list[object]:
    return [(getattr(one, "victims", ()), getattr(one, "reasons", ())) for one in results]


@settings(max_examples=examples(200), deadline=None)
@given(
    running=st.lists(st.tuples(st.integers(0, 2), st.sampled_from((-3, 0, 2, 9))), max_size=6),
    batches=st.lists(asking(), min_size=1, max_size=3),
)
def test_together_they_are_told_what_each_is_told_alone(
    running: list[tuple[int, int]], batches: list[list[Pod]]
) -> None:
    fitting = [one for at, one in enumerate(running) if sum(other[0] == one[0] for other in running[:at]) < 2]
    together, alone = scheduler(fitting), scheduler(fitting)
    for batch in (numbered(at, pods) for at, pods in enumerate(batches)):
        found = together.schedule_class(batch)
        one_by_one = [alone.schedule(placed, pod_id) for pod_id, placed in batch]
        assert told(found) == told(one_by_one)
        assert as_in_batches(recorded(one_by_one), recorded(found)) == recorded(found)
        for one in (together, alone):
            for pod_id, _ in batch:
                one.nominations.drop(pod_id)
