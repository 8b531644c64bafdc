"""What doctor says of serving certificates that agents wait for: the latest request of a cluster, with what to do."""

from typing import Any, cast

import pytest

from agents.runtime.relay.signing_request import REQUESTS
from dispatcher.cli.joining.serving import Lack, lacks
from dispatcher.cli.operate.members import Member, MemberError


class Cluster:
    """One whose list of requests is given; None: it may not be read."""

    name = "east"

    def __init__(self, *requests: dict[str, Any] | None) -> None:
        self._requests = requests

    async def items(self, path: str, **query: str) -> list[dict[str, Any]]:
        assert (path, query) == (REQUESTS, {"labelSelector": "app.kubernetes.io/managed-by=global-dispatcher"})
        if None in self._requests:
            raise MemberError(403, "forbidden")
        return [one for one in self._requests if one is not None]


def request(name: str, made: str, **status: Any) -> dict[str, Any]:
    metadata = {"name": name, "creationTimestamp": f"2026-01-01T{made}:00Z"}
    return {"metadata": metadata, "spec": {"signerName": "kubernetes.io/kubelet-serving"}, "status": status}


def conditions(kind: str) -> list[dict[str, str]]:
    return [{"type": kind, "status": "True", "message": "no"}]


async def told(*requests: dict[str, Any] | None) -> list[Lack]:
    return await lacks(cast(Member, Cluster(*requests)))


async def test_one_that_waits_is_told_with_the_command_that_approves_it() -> None:
    (lack,) = await told(request("new", "11:00"), request("old", "10:00", conditions=conditions("Denied")))
    assert lack.text == "new waits for approval; until then the serving certificate is self-signed"
    assert lack.fix.endswith("kubectl certificate approve new")


@pytest.mark.parametrize(
    ("kind", "words", "fix"),
    [
        ("Denied", "new: Denied: no", "kubectl delete csr new"),
        ("Failed", "new: Failed: no", "kubectl delete csr new"),
        ("Approved", "new is approved, but kubernetes.io/kubelet-serving has issued", "--cluster-signing-cert-file"),
    ],
)
async def test_one_that_nobody_issues_is_told_with_what_to_do(kind: str, words: str, fix: str) -> None:
    (lack,) = await told(request("new", "11:00", conditions=conditions(kind)))
    assert words in lack.text
    assert fix in lack.fix


async def test_flags_of_kube_controller_manager_are_no_help_with_another_signer() -> None:
    waits = request("new", "11:00", conditions=conditions("Approved"))
    waits["spec"]["signerName"] = "clusterissuers.cert-manager.io/kubelets"
    (lack,) = await told(waits)
    assert "but clusterissuers.cert-manager.io/kubelets has issued nothing" in lack.text
    assert "signs for clusterissuers.cert-manager.io/kubelets" in lack.fix
    assert "--cluster-signing" not in lack.fix


async def test_nothing_is_told_where_the_latest_is_issued_or_none_can_be_seen() -> None:
    assert await told(request("new", "11:00", certificate="LS0="), request("old", "10:00")) == []
    assert await told() == []
    assert await told(None) == []
