"""Submits the demo's objects through the API server of one cluster, as any client would."""

import asyncio
import base64
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
import yaml

from dispatcher.service.errors import CommandError
from localfleet.demo.workloads import Submission
from shared.kube.memory import memory_file

_IN_FLIGHT = 8
_ATTEMPTS = 5


class Submitter:
    """A client of one kubeconfig context: CA, and token or client certificate, from the file
    itself.
    """

    def __init__(self, kubeconfig: Path, context: str) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = _entry(config, "contexts", context)["cluster"]
        user = _entry(config, "contexts", context)["user"]
        found = _entry(config, "clusters", cluster)
        identity = _entry(config, "users", user)
        self._client = httpx.AsyncClient(
            base_url=found["server"],
            headers={"Authorization": f"Bearer {identity['token']}"} if "token" in identity else {},
            verify=_tls(found, identity),
            timeout=10.0,
            trust_env=False,
            limits=httpx.Limits(max_connections=_IN_FLIGHT),
        )
        self._context = context

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def submit(self, submissions: Iterable[Submission]) -> int:
        """Create all, begun in order, a few at once; returns how many pods they will have."""
        room = asyncio.Semaphore(_IN_FLIGHT)

        async def one(submission: Submission) -> int:
            try:
                await self._create(submission)
            finally:
                room.release()
            return submission.pods

        begun: list[asyncio.Task[int]] = []
        try:
            async with asyncio.TaskGroup() as group:
                for submission in submissions:
                    await room.acquire()
                    begun.append(group.create_task(one(submission)))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return sum(task.result() for task in begun)

    async def annotate_nodes(self, annotations: dict[str, str]) -> None:
        """Put annotations on every node of the cluster (the embedded ones take their background
        load from there).
        """
        for node in (await self._client.get("/api/v1/nodes")).json()["items"]:
            await self._client.patch(
                f"/api/v1/nodes/{node['metadata']['name']}",
                json={"metadata": {"annotations": annotations}},
                headers={"Content-Type": "application/merge-patch+json"},
            )

    async def _create(self, submission: Submission) -> None:
        problem = ""
        for attempt in range(_ATTEMPTS):
            try:
                answer = await self._client.post(submission.path, json=submission.manifest)
            except httpx.HTTPError as error:
                problem = repr(error)
            else:
                if answer.status_code < 300 or (answer.status_code == 409 and attempt):
                    return
                problem = _message(answer)
                if answer.status_code < 500 and answer.status_code != 429:
                    break
            await asyncio.sleep(0.1 * 2**attempt)
        name = submission.manifest["metadata"]["name"]
        raise CommandError(
            f"cluster {self._context} did not take {submission.manifest['kind']} {name}: {problem}"
        )


def _tls(cluster: dict[str, Any], identity: dict[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context(
        cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
    )
    if "client-key-data" in identity:
        parts = (
            base64.b64decode(identity[part])
            for part in ("client-certificate-data", "client-key-data")
        )
        with memory_file(b"\n".join(parts)) as pair:
            context.load_cert_chain(pair)
    return context


def _entry(config: dict[str, Any], section: str, name: str) -> dict[str, Any]:
    for entry in config.get(section) or []:
        if entry.get("name") == name:
            found: dict[str, Any] = entry[section.removesuffix("s")]
            return found
    raise CommandError(f"the kubeconfig has no entry {name!r} in {section}")


def _message(answer: httpx.Response) -> str:
    try:
        return f"{answer.status_code} {answer.json()['message']}"
    except (ValueError, KeyError, TypeError):
        return f"status {answer.status_code}"
