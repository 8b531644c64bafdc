"""Failing cases are made small."""

from tests.parity.case import Case
from tests.parity.generate import Size, seeded_case
from tests.parity.shrink import shrink


def test_what_has_no_part_in_a_failure_is_left_out() -> None:
    def fails(case: Case) -> bool:
        wanted = any("tolerations" in pod["spec"] for pod in case.pending)
        return wanted and any("disk" in node["metadata"].get("labels", {}) for node in case.nodes)

    case = next(found for at in range(50) if fails(found := seeded_case("shrink", f"f{at}", Size())))
    small = shrink(case, fails)
    assert (len(small.bound), len(small.nodes), small.objects) == (0, 1, [])
    assert list(small.nodes[0]["metadata"]["labels"]) == ["disk"]
    assert [list(pod["spec"]) for pod in small.pending if "tolerations" in pod["spec"]] == [
        ["containers", "tolerations"]
    ]
