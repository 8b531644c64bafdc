"""Rows by the volumes in use there, and what is made of objects once for all pods."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from dispatcher.scheduling.fleet.volumes import VolumesInUse
from shared.model.objects import PersistentVolume, StorageClass
from tests.plugins.storage import keep, storing, using, volume

uses = st.lists(st.tuples(st.integers(0, 3), st.lists(st.sampled_from("cdef"), max_size=4)), max_size=12)


@given(uses, st.lists(st.booleans(), min_size=12, max_size=12))
def test_rows_have_as_many_volumes_as_counting_finds(uses: list[tuple[int, list[str]]], leave: list[bool]) -> None:
    kept, there = VolumesInUse(), dict[int, list[str]]()
    for at, (row, claims) in enumerate(uses):
        kept.take(row, "a", using(*claims).build())
        if leave[at]:
            kept.release(row, "a", using(*claims).build())
        else:
            there.setdefault(row, []).extend(claims)
    counted = [len(set(there.get(row, ()))) for row in range(6)]
    assert kept.rows() == [row for row, count in enumerate(counted) if count]
    assert kept.counts(slice(0, 6), 6)[0].tolist() == counted


def test_what_is_made_of_objects_is_made_again_when_a_kind_of_them_changes() -> None:
    state = storing(volume("pv1"))
    asked = list[list[str]]()

    def make(volumes: Mapping[str, PersistentVolume], classes: Mapping[str, StorageClass]) -> int:
        asked.append([*volumes])
        return len(volumes)

    found = [state.kept.derived("a", make, PersistentVolume, StorageClass) for _ in range(2)]
    keep(state, volume("pv2"))
    found += [state.kept.derived("a", make, PersistentVolume, StorageClass) for _ in range(2)]
    keep(state, StorageClass("new", "csi.example.com"))
    found.append(state.kept.derived("a", make, PersistentVolume, StorageClass))
    assert (found, asked) == ([1, 1, 2, 2, 2], [["pv1"], ["pv1", "pv2"], ["pv1", "pv2"]])
