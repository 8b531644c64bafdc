"""What a pod counts as by what its owner's pods use: by hand, within bounds whatever is told, and exactly undone."""

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.scheduling.fleet import owner_uses
from dispatcher.scheduling.fleet.owner_uses import MAX_OWNERS, OwnerUses
from dispatcher.scheduling.fleet.usual import HIGHEST, LOWEST
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import PodInfo
from shared.messages import Changes, decode, encode
from shared.model.owner_use import OwnerUse
from shared.model.pod import Pod
from tests.builders import fleet, node, pod, reading
from tests.plugins.asking import make

GIB = 2**30


def web(name: str = "web-1", cpu: str = "1", memory: str = "1Gi") -> Pod:
    return pod(name).cpu(cpu).memory(memory).set(owner="StatefulSet/web/u1").build()


def use(
    cpu: float = 1000.0, memory: float = float(GIB), minutes: float = 60.0, owner: str = "StatefulSet/web"
) -> OwnerUse:
    return OwnerUse("default", owner, cpu, memory, minutes)


def told(*uses: OwnerUse, usual: tuple[float, float] = (1.0, 1.0), asked: Pod | None = None) -> tuple[int, int] | None:
    found = OwnerUses()
    for at, one in enumerate(uses):
        found.put(f"c{at}", [one])
    return found.counts_as(asked or web(), usual)


@pytest.mark.parametrize(
    ("cpu", "minutes", "usual", "want"),
    [
        (200.0, 30.0, 0.5, 595),  # the example of the module
        (1000.0, 60.0, 1.0, 1000),
        (1050.0, 60.0, 1.0, 1000),  # a step is a quarter of a factor of two
        (4000.0, 1e9, 1.0, 3364),
        (4000.0, 1.0, 1.0, 1189),  # the request counts for ten minutes
        (500.0, 60.0, 0.5, 1000),  # as much as others use of such requests
    ],
)
def test_a_pod_counts_as_what_is_known_of_its_owner(cpu: float, minutes: float, usual: float, want: int) -> None:
    found = told(use(cpu, GIB * usual, minutes), usual=(usual, usual)) or (1000, GIB)
    assert found == (want, GIB)


def test_nothing_known_is_the_request() -> None:
    assert told() is None
    assert told(use(owner="StatefulSet/other")) is None
    assert told(use(4000.0), asked=pod("bare").cpu(1).build()) is None


def test_pods_that_name_one_replica_set_may_be_of_two_owners() -> None:
    """Anybody may write any owner; a Deployment's pods have its template's hash as well."""
    uses, one = OwnerUses(), pod("web-1").cpu("1").memory("1Gi").set(owner="ReplicaSet/web-5c9/u1")
    uses.put("c", [use(4000.0, owner="Deployment/web")])
    pretends, belongs = one.build(), one.labels(**{"pod-template-hash": "5c9"}).build()
    assert [uses.counts_as(pretends, (1.0, 1.0)), uses.counts_as(belongs, (1.0, 1.0)) is None] == [None, False]


def test_clusters_count_by_what_they_saw_and_none_for_more_than_an_hour() -> None:
    alike = told(use(500.0, minutes=60.0), use(2000.0, minutes=1e12))
    assert alike == told(use(1250.0, minutes=120.0), use(1250.0, minutes=120.0))
    assert told(use(500.0, minutes=1.0), use(2000.0)) == told(use(2000.0), use(500.0, minutes=1.0))


@pytest.mark.parametrize(
    "wrong",
    [
        use(math.nan),
        use(cpu=math.inf),
        use(cpu=-1.0),
        use(memory=math.nan),
        use(minutes=math.nan),
        use(minutes=0.0),
        use(minutes=-5.0),
        use(owner=""),
        use(owner="x" * 10_000),
    ],
)
def test_absurd_reports_are_dropped_and_counted(wrong: OwnerUse) -> None:
    uses = OwnerUses()
    uses.put("a", [wrong])
    assert (len(uses), uses.dropped) == (0, 1)


amounts = st.one_of(st.just(0.0), st.floats(0, 1e30), st.floats(1, 1e6))


@given(
    lies=st.lists(st.tuples(amounts, amounts, st.floats(1e-6, 1e30)), min_size=1, max_size=4),
    cpu=st.integers(0, 10**6),
    memory=st.integers(0, 2**50),
    usual=st.tuples(st.floats(LOWEST, HIGHEST), st.floats(LOWEST, HIGHEST)),
)
def test_no_lie_makes_a_pod_count_as_nothing_or_as_all(
    lies: list[tuple[float, float, float]], cpu: int, memory: int, usual: tuple[float, float]
) -> None:
    asked = msgspec.structs.replace(web(), requests={}, expected=(cpu, memory))
    found = told(*(use(*one) for one in lies), usual=usual, asked=asked) or (cpu, memory)
    for counted, request, default, factor in zip(found, (cpu, memory), (100, 200 * 2**20), usual, strict=True):
        round_off = 2 ** (1 / 8) * (1 + 1e-9)
        assert counted >= min(request, LOWEST * request / factor) / round_off - 1
        assert counted <= max(request, HIGHEST * max(request, default) / factor) * round_off + 1


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.floats(1, 9999)), max_size=12))
def test_what_counts_is_what_each_cluster_told_last_in_any_order(script: list[tuple[str, str, float]]) -> None:
    one, other = OwnerUses(), OwnerUses()
    for cluster, owner, cpu in script:
        one.put(cluster, [use(cpu, owner=f"StatefulSet/{owner}")])
    last = {(cluster, owner): cpu for cluster, owner, cpu in script}
    for (cluster, owner), cpu in sorted(last.items(), reverse=True):
        other.put(cluster, [use(cpu, owner=f"StatefulSet/{owner}")])
    for owner in "xyz":
        asked = pod("p").cpu(1).set(owner=f"StatefulSet/{owner}/u").build()
        assert one.counts_as(asked, (1.0, 1.0)) == other.counts_as(asked, (1.0, 1.0))


def test_an_agent_that_tells_of_100_000_owners_drives_out_nobody_elses() -> None:
    uses = OwnerUses()
    uses.put("honest", [use(4000.0)])
    uses.put("liar", (use(owner=f"Job/\u0000{at}/../é") for at in range(100_000)))
    assert (len(uses), uses.dropped) == (MAX_OWNERS + 1, 100_000 - MAX_OWNERS)
    assert uses.counts_as(web(), (1.0, 1.0)) is not None


def test_what_is_remembered_of_pods_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner_uses, "MAX_OWNERS", 10)
    uses = OwnerUses()
    uses.put("a", [use()])
    for at in range(100):
        uses.counts_as(pod("p").cpu(1).set(owner=f"StatefulSet/s{at}/u").build(), (1.0, 1.0))
    assert len(uses._found) <= 11


def test_agents_and_dispatchers_of_before_understand_each_other() -> None:
    changes = Changes("a", "u", "i", 0, 1, uses=(use(),))
    assert decode(Changes, encode(changes)).uses == (use(),)
    fields = msgspec.msgpack.decode(encode(changes))
    before = fields[: Changes.__struct_fields__.index("uses")]
    assert decode(Changes, msgspec.msgpack.encode(before)).uses == ()


def test_what_settles_is_what_the_pod_counted_as_and_goes_with_it() -> None:
    state = fleet(a=[node("n1").cpu(10)])
    state.uses.put("a", [use(4000.0)])
    placed = state.with_use(PodInfo(web(), "a"))
    assert placed.counts_as == (3364, GIB)
    assert state.with_use(placed) is placed
    state.place(("a", "u"), placed, "a", "n1", assumed=True)
    assert state.settling[:, 0].tolist() == [3364, GIB]
    assert state.nonzero[:, 0].tolist() == [1000, GIB]
    state.uses.put("a", [use(1.0)])
    state.place(("a", "u"), PodInfo(web(), "a"), "a", "n1", assumed=False)  # its cluster shows it, and knows nothing
    assert state.settling[:, 0].tolist() == [3364, GIB]
    state.now += 300
    state.put_reading("a", reading("n1", cpu=0.1, memory=0.1))
    assert 0 < state.settling[0, 0] < 3364
    state.remove(("a", "u"))
    assert not state.settling.any()


def test_use_by_request_is_learnt_from_requests_however_pods_count() -> None:
    def usual(counts_as: tuple[int, int] | None) -> np.ndarray:
        state = fleet(a=[node("n1").cpu(10)])
        state.place(("a", "old"), pod("old").cpu(4).on("n1").placed(), "a", "n1", assumed=False)
        state.place(("a", "new"), PodInfo(web(), "a", counts_as=counts_as), "a", "n1", assumed=True)
        state.put_reading("a", reading("n1", cpu=0.2, memory=0.1))
        state.learn_usual()
        return state.signals.usual("cpu")

    assert usual(None).tolist() == usual((4000, GIB)).tolist() == usual((10, GIB)).tolist() == [0.5]


def test_expected_load_and_explain_go_by_what_the_pod_counts_as() -> None:
    state = fleet(a=[node("n1").cpu(10).memory("10Gi")])
    state.put_reading("a", reading("n1", cpu=0.2, memory=0.2, net=0.2))
    plugin = make("ExpectedLoad")
    small, large = PodInfo(web(), "a"), PodInfo(web(), "a", counts_as=(4000, GIB))
    assert plugin.class_key(small) != plugin.class_key(large)
    found = {}
    for one in (small, large):
        told = plugin.explain(plugin.pre_filter(one, view_of(state)), one, view_of(state), 0)["cpu"]
        found[told["pod_by"]] = told["pod"], told["utilisation"]
    assert found["its request"] == (0.1, pytest.approx(0.3))
    assert found["what pods of its owner use"] == (0.4, pytest.approx(0.6))
