"""The real kubectl against the embedded API: its daily verbs, as far as they need no controllers or kubelets."""

import asyncio
import base64
import json
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
import pytest_asyncio
import trustme
from aiohttp import web

from localfleet.embedded.api import Api
from localfleet.embedded.http import make_app
from localfleet.embedded.storage import Storage
from tests.controlplane.programs import KUBECTL, NO_KUBECTL
from tests.embedded.api_client import TOKEN, deployment, node, pod

pytestmark = pytest.mark.skipif(not KUBECTL, reason=NO_KUBECTL)


@dataclass
class Kubectl:
    """kubectl with a kubeconfig and a cache of its own."""

    home: Path
    api: Api

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        command = [KUBECTL, f"--kubeconfig={self.home}/config", f"--cache-dir={self.home}/cache", *arguments]
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)

    async def run(self, *arguments: str, stdin: Any = None) -> tuple[int, str, str]:
        """Exit code, output and errors; `stdin` is sent as JSON."""
        process = await self.start(*arguments)
        sent = b"" if stdin is None else json.dumps(stdin).encode()
        async with asyncio.timeout(120):
            out, err = await process.communicate(sent)
        return process.returncode or 0, out.decode(), err.decode()

    async def watching(self, resource: str) -> None:
        """Wait until somebody watches `resource`."""
        while not self.api.objects.shelves[resource].followers:  # noqa: ASYNC110 - the server offers no event for it
            await asyncio.sleep(0.02)

    async def __call__(self, *arguments: str, stdin: Any = None) -> str:
        """The output of a call that must succeed."""
        code, out, err = await self.run(*arguments, stdin=stdin)
        assert code == 0, (arguments, out, err)
        return out


@pytest_asyncio.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    """kubectl and a fresh server behind TLS."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    api = Api(clock=time.time, storage=Storage(), random=Random(3), name="test")
    runner = web.AppRunner(make_app(api, TOKEN), shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    certificate = base64.b64encode(authority.cert_pem.bytes()).decode()
    server = f"https://127.0.0.1:{runner.addresses[0][1]}"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority-data": certificate}}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (tmp_path / "config").write_text(json.dumps(config))
    yield Kubectl(tmp_path, api)
    await runner.cleanup()


async def test_apply_creates_then_changes_nothing_then_configures(kubectl: Kubectl) -> None:
    both = {"apiVersion": "v1", "kind": "List", "items": [pod(), deployment()]}
    assert await kubectl("apply", "-f", "-", stdin=both) == "pod/web created\ndeployment.apps/shop created\n"
    assert await kubectl("apply", "-f", "-", stdin=both) == "pod/web unchanged\ndeployment.apps/shop unchanged\n"
    both["items"] = [pod(), deployment(replicas=5)]
    assert await kubectl("apply", "-f", "-", stdin=both) == "pod/web unchanged\ndeployment.apps/shop configured\n"
    assert kubectl.api.get("deployments.apps", "shop", "default")["spec"]["replicas"] == 5
    assert "replicas: 5" in await kubectl("diff", "-f", "-", stdin=both) + "replicas: 5"


async def test_apply_on_the_server_works_twice(kubectl: Kubectl) -> None:
    for _ in range(2):
        out = await kubectl("apply", "--server-side", "-f", "-", stdin=deployment())
        assert out == "deployment.apps/shop serverside-applied\n"


async def test_validation_is_done_by_the_server(kubectl: Kubectl) -> None:
    code, _, err = await kubectl.run("apply", "-f", "-", stdin=pod(spec={"colour": "red"}))
    assert (code, 'strict decoding error: unknown field "spec.colour"' in err) == (1, True)
    code, _, err = await kubectl.run("create", "-f", "-", stdin=pod("Bad"))
    assert (code, 'The Pod "Bad" is invalid: metadata.name: Invalid value' in err) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "resource", "name"),
    [
        ("create deployment d --image=busybox --replicas=3", "deployments.apps", "d"),
        ("create job j --image=busybox -- sleep 1", "jobs.batch", "j"),
        ("create configmap c --from-literal=a=b", "configmaps", "c"),
        ("create secret generic s --from-literal=a=b", "secrets", "s"),
        ("create service clusterip svc --tcp=80:8080", "services", "svc"),
        ("create serviceaccount robot", "serviceaccounts", "robot"),
        ("create priorityclass high --value=1000", "priorityclasses.scheduling.k8s.io", "high"),
        ("create poddisruptionbudget b --selector=app=x --min-available=1", "poddisruptionbudgets.policy", "b"),
        ("create namespace n", "namespaces", "n"),
        ("run r --image=busybox", "pods", "r"),
    ],
)
async def test_create_and_run_speak_protobuf_and_are_understood(
    kubectl: Kubectl, arguments: str, resource: str, name: str
) -> None:
    await kubectl(*arguments.split())
    namespaced = (
        "namespace"
        in (made := next(found for found in kubectl.api.list(resource) if found["metadata"]["name"] == name))[
            "metadata"
        ]
    )
    assert namespaced == (resource not in ("namespaces", "priorityclasses.scheduling.k8s.io"))
    if resource == "deployments.apps":
        assert made["spec"]["replicas"] == 3
        assert made["spec"]["template"]["spec"]["containers"][0]["image"] == "busybox"
    if resource == "poddisruptionbudgets.policy":
        assert made["spec"] == {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
    if resource == "secrets":
        assert made["data"] == {"a": "Yg=="}


async def test_get_shows_tables(kubectl: Kubectl) -> None:
    kubectl.api.create("nodes", node())
    kubectl.api.create("pods", pod(), "default")
    kubectl.api.bind("default", "web", {"metadata": {"name": "web"}, "target": {"name": "n1"}})
    kubectl.api.create("deployments.apps", deployment(), "default")
    pods = (await kubectl("get", "pods", "-o", "wide")).splitlines()
    assert pods[0].split("  ")[0] == "NAME"
    assert [cell for cell in pods[1].split() if cell][:4] == ["web", "0/1", "Pending", "0"]
    assert "n1" in pods[1]
    nodes = (await kubectl("get", "nodes")).splitlines()
    assert nodes[0].split() == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert nodes[1].split()[:3] == ["n1", "Ready", "<none>"]
    everything = await kubectl("get", "all")
    assert "pod/web" in everything
    assert "deployment.apps/shop   0/2" in everything
    assert json.loads(await kubectl("get", "pod", "web", "-o", "json"))["spec"]["nodeName"] == "n1"
    assert await kubectl("get", "pods", "-l", "none=such", "-o", "name") == ""
    chunked = await kubectl("get", "pods", "--chunk-size=1", "-A", "-o", "name")
    assert chunked == "pod/web\n"


async def test_get_watch_follows_changes(kubectl: Kubectl) -> None:
    process = await kubectl.start("get", "pods", "-w", "--no-headers")
    assert process.stdout is not None
    try:
        async with asyncio.timeout(120):
            await kubectl.watching("pods")
            kubectl.api.create("pods", pod("late"), "default")
            assert (await process.stdout.readline()).split()[:3] == [b"late", b"0/1", b"Pending"]
            kubectl.api.patch(
                "pods", "late", "default", {"status": {"phase": "Succeeded"}}, kind="merge", subresource="status"
            )
            assert (await process.stdout.readline()).split()[2] == b"Succeeded"
    finally:
        process.kill()
        await process.wait()


async def test_nodes_are_cordoned_tainted_labelled_and_described(kubectl: Kubectl) -> None:
    kubectl.api.create("nodes", node())
    await kubectl("cordon", "n1")
    assert "Ready,SchedulingDisabled" in await kubectl("get", "nodes")
    await kubectl("uncordon", "n1")
    await kubectl("taint", "node", "n1", "a=b:NoSchedule")
    await kubectl("label", "node", "n1", "zone=z1")
    await kubectl("annotate", "node", "n1", "note=hello")
    described = await kubectl("describe", "node", "n1")
    assert "Taints:             a=b:NoSchedule" in described
    assert "zone=z1" in described
    await kubectl("taint", "node", "n1", "a-")
    left = [taint["key"] for taint in kubectl.api.get("nodes", "n1")["spec"]["taints"]]
    assert left == ["node.kubernetes.io/not-ready"], "which only a controller takes away"
    await kubectl("drain", "n1", "--force")


async def test_describe_pod_shows_its_events(kubectl: Kubectl) -> None:
    made = kubectl.api.create("pods", pod(), "default")
    about = {"kind": "Pod", "namespace": "default", "name": "web", "uid": made["metadata"]["uid"]}
    event = {"metadata": {"name": "e"}, "involvedObject": about, "reason": "FailedScheduling", "message": "0/3 nodes"}
    kubectl.api.create("events", event | {"type": "Warning", "count": 2}, "default")
    described = await kubectl("describe", "pod", "web")
    assert "FailedScheduling" in described
    assert "0/3 nodes" in described
    assert "FailedScheduling" in await kubectl("get", "events")


async def test_workloads_are_scaled_patched_and_edited(kubectl: Kubectl) -> None:
    kubectl.api.create("deployments.apps", deployment(), "default")
    await kubectl("scale", "deployment/shop", "--replicas=0")
    await kubectl("set", "image", "deployment/shop", "main=busybox:2")
    await kubectl("rollout", "restart", "deployment/shop")
    await kubectl(
        "patch", "deployment", "shop", "-p", '{"spec":{"template":{"spec":{"containers":[{"name":"b","image":"i"}]}}}}'
    )
    spec = kubectl.api.get("deployments.apps", "shop", "default")["spec"]
    assert spec["replicas"] == 0
    assert {item["name"]: item["image"] for item in spec["template"]["spec"]["containers"]} == {
        "main": "busybox:2",
        "b": "i",
    }
    assert "kubectl.kubernetes.io/restartedAt" in spec["template"]["metadata"]["annotations"]
    await kubectl("replace", "-f", "-", stdin=kubectl.api.get("deployments.apps", "shop", "default"))


async def test_delete_and_wait(kubectl: Kubectl) -> None:
    kubectl.api.create("pods", pod(finalizers=["a.io/one"]), "default")
    await kubectl("delete", "pod", "web", "--wait=false")
    waiting = asyncio.create_task(kubectl("wait", "--for=delete", "pod/web", "--timeout=120s"))
    await kubectl.watching("pods")
    kubectl.api.patch("pods", "web", "default", {"metadata": {"finalizers": None}}, kind="merge")
    await waiting
    await kubectl("create", "namespace", "n")
    assert await kubectl("delete", "namespace", "n") == 'namespace "n" deleted\n'
    code, _, err = await kubectl.run("get", "namespace", "n")
    assert (code, err) == (1, 'Error from server (NotFound): namespaces "n" not found\n')


async def test_kubectl_finds_out_what_there_is(kubectl: Kubectl) -> None:
    names = (await kubectl("api-resources", "-o", "name")).split()
    assert {"pods", "nodes", "deployments.apps", "jobs.batch", "leases.coordination.k8s.io"} <= set(names)
    assert "v1.37.2" in await kubectl("version")
    assert await kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert "embedded:admin" in await kubectl("auth", "whoami")
    assert await kubectl("get", "--raw", "/readyz") == "ok"
