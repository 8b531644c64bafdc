"""What doctor says of serving certificates that agents wait for: the latest request of a cluster, with what to do."""

from typing import Any, cast

import pytest

from agents.runtime.relay.signing_request import REQUESTS
from dispatcher.cli.joining.serving import Lack, lacks
from dispatcher.cli.operate.members import Member, MemberError

LABEL = "app.kubernetes.io"
SIGNER, AGENT = "kubernetes.io/kubelet-serving", "system:serviceaccount:global-dispatcher:agent"
NEW, OLD = "global-dispatcher-east-0123456789", "global-dispatcher-east-9876543210"


class Cluster:
    """One whose list of requests is given; None: it may not be read."""

    name = "east"

    def __init__(self, *requests: dict[str, Any] | None, account: str = "") -> None:
        self._requests, self._account = requests, account

    async def items(self, path: str, **query: str) -> list[dict[str, Any]]:
        if path.endswith("/clusterrolebindings"):
            assert query["labelSelector"].split(",") == [
                f"{LABEL}/part-of=global-dispatcher",
                f"{LABEL}/component=agent",
            ]
            if not self._account:
                raise MemberError(403, "forbidden")
            _, _, namespace, name = self._account.split(":")
            subject = {"kind": "ServiceAccount", "namespace": namespace, "name": name}
            return [{"metadata": {"name": "global-dispatcher-agent-relay"}, "subjects": [subject]}]
        assert (path, query) == (REQUESTS, {"labelSelector": "app.kubernetes.io/managed-by=global-dispatcher"})
        if None in self._requests:
            raise MemberError(403, "forbidden")
        return [one for one in self._requests if one is not None]


def request(name: str, made: str, **status: Any) -> dict[str, Any]:
    metadata = {"name": name, "creationTimestamp": f"2026-01-01T{made}:00Z"}
    spec = {"signerName": SIGNER, "username": AGENT, "usages": ["digital signature", "server auth"]}
    return {"metadata": metadata, "spec": spec, "status": status}


def conditions(kind: str) -> list[dict[str, str]]:
    return [{"type": kind, "status": "True", "message": "no"}]


async def told(*requests: dict[str, Any] | None) -> list[Lack]:
    return await lacks(cast(Member, Cluster(*requests)))


async def test_one_that_waits_is_told_with_the_command_that_approves_it() -> None:
    (lack,) = await told(request(NEW, "11:00"), request(OLD, "10:00", conditions=conditions("Denied")))
    assert lack.text == f"{NEW} waits for approval; until then the serving certificate is self-signed"
    assert lack.fix.endswith(f"kubectl certificate approve {NEW}")


@pytest.mark.parametrize(
    ("kind", "words", "fix"),
    [
        ("Denied", f"{NEW}: Denied: no", f"kubectl delete csr {NEW}"),
        ("Failed", f"{NEW}: Failed: no", f"kubectl delete csr {NEW}"),
        ("Approved", f"{NEW} is approved, but kubernetes.io/kubelet-serving has issued", "--cluster-signing-cert-file"),
    ],
)
async def test_one_that_nobody_issues_is_told_with_what_to_do(kind: str, words: str, fix: str) -> None:
    (lack,) = await told(request(NEW, "11:00", conditions=conditions(kind)))
    assert words in lack.text
    assert fix in lack.fix


async def test_flags_of_kube_controller_manager_are_no_help_with_another_signer() -> None:
    waits = request(NEW, "11:00", conditions=conditions("Approved"))
    waits["spec"]["signerName"] = "clusterissuers.cert-manager.io/kubelets"
    (lack,) = await told(waits)
    assert "but clusterissuers.cert-manager.io/kubelets has issued nothing" in lack.text
    assert "signs for clusterissuers.cert-manager.io/kubelets" in lack.fix
    assert "--cluster-signing" not in lack.fix


async def test_who_may_not_see_requests_is_told_that_nothing_is_known() -> None:
    (lack,) = await told(None)
    assert (lack.text, lack.fix.endswith("list certificatesigningrequests")) == (
        "not known: forbidden",
        True,
    )


async def test_nothing_is_told_where_the_latest_is_issued_or_there_is_none() -> None:
    assert await told(request(NEW, "11:00", certificate="LS0="), request(OLD, "10:00")) == []
    assert await told() == []


@pytest.mark.parametrize(
    "odd",
    [
        {"signerName": "kubernetes.io/kube-apiserver-client"},
        {"signerName": "kubernetes.io/kube-apiserver-client-kubelet"},
        {"username": "system:node:n7"},
        {"usages": ["digital signature", "server auth", "client auth"]},
        {"usages": None},
        {"username": "system:serviceaccount:elsewhere:agent"},
    ],
)
async def test_nobody_is_told_to_approve_what_somebody_else_asks_for(odd: dict[str, Any]) -> None:
    """A later request with our label, of somebody else: ours is told."""
    theirs = request("global-dispatcher-east-ffffffffff", "12:00")
    theirs["spec"] |= odd
    (lack,) = await lacks(cast(Member, Cluster(request(NEW, "11:00"), theirs, account=AGENT)))
    assert (NEW in lack.text, AGENT in lack.fix) == (True, True)


async def test_a_request_of_another_name_than_the_agents_is_none_of_ours() -> None:
    assert await told(request("global-dispatcher-west-0123456789", "11:00")) == []
