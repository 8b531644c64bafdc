"""Who gets nothing: callers that are not the API server, and clusters that ask for what is not theirs."""

import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agents.executor.relayed import relay
from agents.runtime.outbound import dialling
from shared.messages.relay import decode_ask, decode_signed, encode_relay
from shared.model.pod import Pod
from shared.security.keys import OwnKeys
from tests.relay.fake_api import Asked
from tests.relay.world import CALLER, DELEGATE, HOME, THIRD, World, ask, delegate, world

LOGS = "/containerLogs/default/web/main"
EXEC = "/exec/default/web/main?command=id&output=1"


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path) as made:
        made.target.api.script = _said
        yield made


async def _said(asked: Asked) -> None:
    await asked.begin_log()
    await asked.chunk(b"secret\n")
    await asked.chunk(b"")


async def told(fleet: World, context: ssl.SSLContext, path: str = LOGS, extra: str = "") -> tuple[int, str]:
    reader, writer = await fleet.open(context)
    answer = await ask(reader, writer, path, method="GET", upgrade="", extra=extra)
    return answer.status, (await answer.rest()).decode()


async def test_without_a_certificate_401(fleet: World) -> None:
    assert (await told(fleet, fleet.trust(None)))[0] == 401


async def test_a_certificate_of_another_authority_is_no_use(fleet: World) -> None:
    with pytest.raises((ssl.SSLError, OSError, EOFError)):
        await told(fleet, fleet.trust(CALLER, trustme.CA()))


async def test_another_name_403(fleet: World) -> None:
    fleet.home.api.allowed.add("alice")
    assert await told(fleet, fleet.trust("alice")) == (403, 'user "alice" is none of relay.client_names')


async def test_without_the_right_403_and_the_answer_is_kept_for_a_while(fleet: World) -> None:
    fleet.home.api.allowed.clear()
    for _ in range(3):
        status, text = await told(fleet, fleet.trust())
        assert (status, "nodes/proxy" in text) == (403, True)
    (review,) = fleet.home.api.reviews
    fleet.now += 2.1
    await told(fleet, fleet.trust())
    assert len(fleet.home.api.reviews) == 2, "a refusal is soon asked about anew"
    about = {"verb": "create", "version": "v1", "resource": "nodes", "subresource": "proxy"}
    assert review["resourceAttributes"] == {**about, "name": "global-dispatcher-west"}
    assert (review["user"], "system:authenticated" in review["groups"]) == (CALLER, True)
    assert not fleet.target.api.asked


@pytest.mark.parametrize(
    ("path", "extra"),
    [
        ("/pods", ""),
        ("/run/default/web/main", ""),
        ("/containerLogs/default/web", ""),
        ("/containerLogs/default/other/main", ""),
        ("/containerLogs/default/web/main", "X-Forwarded-Uri: /api/v1/nodes/x/proxy/containerLogs/default/web/main"),
    ],
)
async def test_all_else_is_not_found(fleet: World, path: str, extra: str) -> None:
    assert (await told(fleet, fleet.trust(), path, extra))[0] == 404
    assert not fleet.target.api.asked


@pytest.mark.parametrize("path", ["/exec/default/web/main", "/attach/default/web/main", LOGS])
async def test_what_an_upgrade_by_nodes_proxy_leaves_of_a_request_is_refused(fleet: World, path: str) -> None:
    """API servers (1.36) send it without X-Forwarded-Uri and without its query."""
    answer = await fleet.ask(path, upgrade="SPDY/3.1", extra="X-Forwarded-For: 127.0.0.1")
    assert answer.status == 400
    assert not fleet.target.api.asked


async def test_an_address_that_cannot_be_read_is_answered(fleet: World) -> None:
    assert (await told(fleet, fleet.trust(), "//["))[0] == 400


async def test_a_pod_that_runs_at_home_is_its_own_kubelets(fleet: World) -> None:
    fleet.home.view.pods["default", "web"] = Pod("uid-web", "default", "web", node="n1")
    assert (await told(fleet, fleet.trust()))[0] == 404


@pytest.mark.parametrize(("policy", "allowed"), [("all", True), ("logs", True), ("none", False)])
async def test_the_target_says_whether_logs_may_be_read(fleet: World, policy: str, allowed: bool) -> None:
    fleet.target.allow(policy)
    assert (await told(fleet, fleet.trust()))[0] == (200 if allowed else 403)


async def test_logs_alone_are_no_exec(fleet: World) -> None:
    fleet.target.allow("logs")
    answer = await fleet.ask(EXEC, upgrade="SPDY/3.1")
    assert (answer.status, b"exec into their pods" in await answer.rest()) == (403, True)
    assert not fleet.target.api.asked


async def test_older_kubectl_is_told_in_a_status_why_it_may_not_exec(fleet: World) -> None:
    """It reads a text with ": " in it as YAML, and says nothing but "Error from server: "."""
    fleet.home.api.allowed.clear()
    answer = await fleet.ask(EXEC, upgrade="SPDY/3.1")
    told = json.loads(await answer.rest())
    assert (answer.status, answer.headers["content-type"]) == (403, "application/json")
    assert (told["apiVersion"], told["kind"], told["status"], told["code"]) == ("v1", "Status", "Failure", 403)
    assert "may not create nodes/proxy" in told["message"]


def _none() -> Any:
    return None


def _unproved(fleet: World) -> Any:
    found = fleet.target.api.pods[f"default/{DELEGATE}"]
    return delegate(found["metadata"]["annotations"]["global-dispatcher.io/claim"], fleet.members[THIRD])


@pytest.mark.parametrize("what", ["none", "unproved"])
async def test_no_delegate_no_log(fleet: World, what: str) -> None:
    fleet.target.api.pods[f"default/{DELEGATE}"] = None if what == "none" else _unproved(fleet)
    status, text = await told(fleet, fleet.trust())
    assert (status, text) == (500, 'pod default/web has no copy in cluster "west"')
    assert not fleet.target.api.asked


async def test_the_gateway_passes_nothing_between_clusters_without_such_a_pod(fleet: World) -> None:
    fleet.gateway.objection = lambda home, target, pod: "no such pod is known"
    status, text = await told(fleet, fleet.trust())
    assert (status, "cannot be asked: no such pod is known; ask that cluster" in text) == (500, True)


async def test_a_cluster_cannot_ask_for_the_pod_of_another(fleet: World) -> None:
    """North's agent, hostile, with a gateway that lets it: it signs that it were east, or asks as itself."""
    fleet.gateway.objection = lambda home, target, pod: ""
    fleet.home.local.keys = fleet.members[THIRD].local.keys
    status, text = await told(fleet, fleet.trust())
    assert (status, text) == (403, 'the request is not signed by a key known here of cluster "east"')
    fleet.home.local.cluster, fleet.home.local.cluster_uid = THIRD, f"uid-{THIRD}"
    status, text = await told(fleet, fleet.trust())
    assert (status, text) == (500, 'pod default/web has no copy in cluster "west"')
    assert not fleet.target.api.asked


@pytest.mark.parametrize("change", [{"challenge": b"0" * 16}, {"target": "north"}, {"target_uid": "another"}])
async def test_what_was_signed_for_another_moment_or_cluster_is_refused(fleet: World, change: Any) -> None:
    keys = fleet.home.local.keys

    class Replaying(OwnKeys):
        def sign_ask(self, ask: bytes) -> bytes:
            return keys.sign_ask(ask)

    replaying = Replaying([Ed25519PrivateKey.generate()])
    fleet.home.local.keys = replaying

    def changed(body: bytes) -> bytes:
        ask = encode_relay(msgspec.structs.replace(decode_ask(decode_signed(body).ask), **change))
        return encode_relay(msgspec.structs.replace(decode_signed(body), ask=ask, signature=keys.sign_ask(ask)))

    whole = relay.signed_ask
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relay, "signed_ask", lambda *given: changed(whole(*given)))
        status, text = await told(fleet, fleet.trust())
    assert (status, text.startswith("the request is not meant for this cluster")) == (403, True)


async def test_a_target_that_is_not_connected_is_said(fleet: World) -> None:
    fleet.diallers["west"].cancel()
    for _ in range(2):
        status, text = await told(fleet, fleet.trust())
    assert status == 500
    assert 'runs in cluster "west", which cannot be asked' in text
    assert text.endswith(f"ask that cluster itself about its pod default/{DELEGATE}")


async def test_a_gateway_or_agent_that_knows_no_relayed_streams_is_sent_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialling, "SUBPROTOCOL", "another.1")
    async with world(tmp_path) as made:
        status, text = await told(made, made.trust())
        assert (status, "connected to no dispatcher's gateway that relays" in text) == (500, True)
        found = made.gateway.relay_line("west")
        assert found == "its agent does not relay: upgrade it"


async def test_an_agent_without_a_gateway_says_so(fleet: World) -> None:
    fleet.diallers[HOME].cancel()
    status, text = await told(fleet, fleet.trust())
    assert (status, "connected to no dispatcher's gateway" in text) == (500, True)
