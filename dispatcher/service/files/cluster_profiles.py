"""What agents read of each cluster, written into its ClusterProfile (`status.properties`, KEP-4322)
for others to see.

Properties of other authors stay: theirs are read, and the write is refused by the API server if one
changed meanwhile.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any

import msgspec
import structlog

from dispatcher.config.sections import ClusterProfilesSection
from dispatcher.service.background_task import background_task
from dispatcher.service.metrics.load import LoadCollector
from shared.kube.client import KubeClient
from shared.kube.http import MERGE_PATCH, Request
from shared.kube.leader_lease import Client
from shared.kube.session import Access
from shared.kube.times import rfc3339
from shared.kube.verdicts import CONFLICT, NOT_FOUND, error_text

log = structlog.get_logger("cluster_profiles")

Object = dict[str, Any]
PREFIX = "global-dispatcher.io/"
_TIMEOUT_S = 10.0
_SHOWN = 10  # names in a line of the log
_AGE = "global_dispatcher_node_load_age_seconds"
# Metric -> what its property is called, and the labels that follow.
_PROPERTIES = {
    "global_dispatcher_cluster_allocatable": ("allocatable", ("resource",)),
    "global_dispatcher_cluster_requested": ("requested", ("resource",)),
    "global_dispatcher_node_load_ratio": ("load", ("signal", "quantile")),
    "global_dispatcher_node_load_known_nodes": ("load-known-nodes", ("signal",)),
}


def folder_of(namespace: str) -> str:
    """The path of all ClusterProfiles of a namespace."""
    return f"/apis/multicluster.x-k8s.io/v1alpha1/namespaces/{namespace}/clusterprofiles"


def properties_of(loads: LoadCollector, now: float) -> dict[str, list[Object]]:
    """Properties by cluster, in the units of the metrics of the same meaning; `now` is unix
    seconds.

    A load was observed when its oldest reading was taken, everything else now.
    """
    samples = [sample for metric in loads.collect() for sample in metric.samples]
    ages = {
        (one.labels["cluster"], one.labels["signal"]): one.value
        for one in samples
        if one.name == _AGE
    }
    found: dict[str, list[Object]] = {}
    for one in samples:
        if one.name not in _PROPERTIES:
            continue
        name, labels = _PROPERTIES[one.name]
        cluster = one.labels["cluster"]
        age = ages.get((cluster, one.labels.get("signal", "")), 0.0)
        named = ".".join((name, *(one.labels[label] for label in labels)))
        row = {
            "name": PREFIX + named,
            "value": f"{one.value:.10g}",
            "lastObservedTime": rfc3339(now - max(age, 0.0)),
        }
        found.setdefault(cluster, []).append(row)
    return found


class _Meta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion")


class _Status(msgspec.Struct):
    properties: list[Object] | None = None


class _Profile(msgspec.Struct):
    """Of a ClusterProfile what a write of its properties needs."""

    metadata: _Meta
    status: _Status | None = None


_PROFILE = msgspec.json.Decoder(_Profile)


class ClusterProfiles:
    """The ClusterProfiles of one namespace, named like clusters of ours. Each is asked for by
    itself: what others write into theirs, and how many there are, costs nothing here.
    """

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._folder = folder_of(namespace)
        self._told: dict[str, str] = {}  # cluster -> what went wrong last
        self._named: list[str] | None = None

    async def publish(self, properties: Mapping[str, list[Object]]) -> int:
        """Write the properties of each cluster that has a profile; how many were written. What
        fails is logged.
        """
        written = 0
        named = []
        for cluster, ours in properties.items():
            response = await self._client.send(
                Request("GET", f"{self._folder}/{cluster}"), timeout_s=_TIMEOUT_S
            )
            if response.status == NOT_FOUND:
                continue
            named.append(cluster)
            if response.ok and await self._write(cluster, response.body, ours):
                written += 1
                self._told.pop(cluster, None)
            elif not response.ok:
                self._say(cluster, f"its ClusterProfile cannot be read: {error_text(response)}")
        if named != self._named:
            without = sorted(set(properties) - set(named))
            log.info(
                "readings are published in ClusterProfiles",
                clusters=len(named),
                without_one=without[:_SHOWN],
            )
        self._named = named
        return written

    async def _write(self, cluster: str, body: bytes, ours: Iterable[Object]) -> bool:
        try:
            profile = _PROFILE.decode(body)
        except msgspec.MsgspecError as error:
            self._say(cluster, f"its ClusterProfile is odd: {error}")
            return False
        known = (profile.status.properties if profile.status else None) or ()
        theirs = [one for one in known if not str(one.get("name", "")).startswith(PREFIX)]
        wanted = {
            "metadata": {"resourceVersion": profile.metadata.resource_version},
            "status": {"properties": [*theirs, *ours]},
        }
        request = Request(
            "PATCH", f"{self._folder}/{cluster}/status", msgspec.json.encode(wanted), MERGE_PATCH
        )
        response = await self._client.send(request, timeout_s=_TIMEOUT_S)
        if (
            not response.ok and response.status != CONFLICT
        ):  # another author was faster: the next round reads theirs
            self._say(
                cluster,
                f"the status of its ClusterProfile cannot be written: {error_text(response)}",
            )
        return bool(response.ok)

    def _say(self, cluster: str, text: str) -> None:
        """Each thing once, until a write succeeds again."""
        if text != self._told.get(cluster):
            log.warning("readings are not published", cluster=cluster, why=text)
        self._told[cluster] = text


@contextlib.asynccontextmanager
async def publishing(
    section: ClusterProfilesSection, access: Access, loads: Callable[[], LoadCollector | None]
) -> AsyncIterator[None]:
    """Publish while this is open, if the settings say so; `loads` gives None while this dispatcher
    does not lead.
    """
    if not section.namespace:
        yield
        return
    client = KubeClient(access)
    profiles = ClusterProfiles(client, section.namespace)
    try:
        async with background_task(lambda: _publish(profiles, section.every_s, loads), "publish"):
            yield
    finally:
        await client.close()


async def _publish(
    profiles: ClusterProfiles, every_s: float, loads: Callable[[], LoadCollector | None]
) -> None:
    while True:
        await asyncio.sleep(every_s)
        try:
            if (found := loads()) is not None:
                await profiles.publish(properties_of(found, time.time()))
        except Exception:  # nothing that a profile holds may end what is beside scheduling
            log.exception("readings are not published")
