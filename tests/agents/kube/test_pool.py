"""One object for all that are equal, and a bound on what users can make an agent keep."""

import pytest

from agents.kube import convert
from agents.kube.pool import MAX_BYTES, OVERHEAD, Pool
from shared.model import names
from shared.security import signatures
from tests.agents.kube.objects import pod_object, raw, read_pod


def labelled(number: int, size: int = 0) -> dict[str, object]:
    return {"labels": {"app": "web", "number": f"{number}", **({"large": "x" * size} if size else {})}}


def test_equal_values_become_one() -> None:
    pool: Pool[str, list[int]] = Pool()
    first = pool.one("a", [1], 1)
    assert pool.one("a", [1], 1) is first
    assert pool.one("b", [1], 1) is not first


def test_a_pool_that_is_full_begins_anew() -> None:
    pool: Pool[int, int] = Pool(most=4 * (OVERHEAD + 100))
    for number in range(4):
        pool.one(number, number, 100)
    assert len(pool) == 4
    assert pool.one(5, 5, 100) == 5
    assert len(pool) == 1


def test_replicas_have_the_same_labels() -> None:
    one, other = (read_pod(pod_object(name, metadata=labelled(1))) for name in ("web-1", "web-2"))
    assert one.labels is other.labels


def test_a_pod_whose_large_labels_change_again_and_again_fills_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "_POOL", Pool())
    size = 60_000
    for number in range(2 * MAX_BYTES // size):
        read_pod(pod_object(metadata=labelled(number, size)))
    assert len(convert._POOL) * size <= MAX_BYTES


def test_what_is_too_long_for_a_mark_is_not_remembered() -> None:
    before = signatures._read_claim.cache_info().currsize
    for number in range(10):
        annotations = {names.CLAIM: f"{number}" + "x" * 200_000, names.DELEGATE_PROOF: "x"}
        metadata = {"annotations": annotations, "labels": {names.DELEGATE_LABEL: "true"}}
        convert.pod_seen(raw(pod_object(metadata=metadata, schedulerName=names.DELEGATE_SCHEDULER)))
    assert signatures._read_claim.cache_info().currsize == before
