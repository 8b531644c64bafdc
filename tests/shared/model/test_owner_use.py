"""Who the owner of a pod is: the controller that goes on making such pods, also of a delegate, by its source's name."""

import pytest

from shared.model.owner_use import owner_of
from tests.builders import pod

HASH = {"pod-template-hash": "5d4f8c9b7"}


@pytest.mark.parametrize(
    ("owner", "labels", "want"),
    [
        ("ReplicaSet/web-5d4f8c9b7/u1", HASH, "Deployment/web"),
        ("ReplicaSet/web-5d4f8c9b7/u1", {}, "ReplicaSet/web-5d4f8c9b7"),
        ("ReplicaSet/web/u1", HASH, "ReplicaSet/web"),
        ("StatefulSet/db/u1", {}, "StatefulSet/db"),
        ("Job/report-28123456/u1", {}, "CronJob/report"),
        ("Job/report/u1", {}, "Job/report"),
        ("Job/train-workers-0/u1", {}, "Job/train-workers"),
        ("DaemonSet/agent/u1", {}, "DaemonSet/agent"),
        ("Node/n1/u1", {}, None),
        ("", {}, None),
        ("odd", {}, None),
        ("//", {}, None),
    ],
)
def test_the_owner_is_who_goes_on_making_such_pods(owner: str, labels: dict[str, str], want: str | None) -> None:
    found = owner_of(pod("p").namespace("shop").labels(**labels).set(owner=owner).build())
    assert found == (("shop", want) if want else None)


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("web-5d4f8c9b7-x2kq9", "Deployment/web"),
        ("report-28123456-x2kq9", "CronJob/report"),
        ("db-0", "StatefulSet/db"),
        ("report-x2kq9", "Job/report"),
        ("report-0-x2kq9", "Job/report"),
        ("report-17-x2kq9", "Job/report"),
        ("report-28123456-3-x2kq9", "CronJob/report"),
        ("train-workers-0-1-x2kq9", "Job/train-workers"),
        ("bare", None),
        ("a" * 100_000, None),
    ],
)
def test_the_owner_of_a_delegate_is_read_from_the_name_of_its_source(name: str, want: str | None) -> None:
    found = owner_of(pod(name).namespace("shop").delegate_of("a", "u1").build())
    assert found == (("shop", want) if want else None)
