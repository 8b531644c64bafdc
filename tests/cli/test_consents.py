"""What doctor says of clusters that consents name and that are none, and of Services that a target has itself."""

from collections.abc import Iterator
from typing import Any

import pytest

from dispatcher.cli.diagnosis import NOTE, Finding
from dispatcher.cli.joining import consents
from dispatcher.cli.joining.agents import DEPLOYMENTS
from dispatcher.cli.joining.consents import all_unknown
from dispatcher.cli.joining.own_services import all_conflicts, all_left
from dispatcher.cli.operate.members import Member, MemberError, reached
from dispatcher.config import DispatcherConfig
from dispatcher.config.sections import ClusterSection
from localfleet.embedded.fleet import EmbeddedFleet
from shared.model import names
from tests.cli.cluster_world import delegate, end
from tests.system.cluster_api import ClusterApi

DEFAULT = "/api/v1/namespaces/default"
SERVICES = {"executor": {"services": True}}


@pytest.fixture
def east(fleet: EmbeddedFleet) -> Iterator[ClusterApi]:
    with made(fleet, "east") as api:
        yield api


@pytest.fixture
def west(fleet: EmbeddedFleet) -> Iterator[ClusterApi]:
    with made(fleet, "west") as api:
        yield api


class made:  # noqa: N801 - reads as what it does
    """A cluster, from which goes what was put there."""

    def __init__(self, fleet: EmbeddedFleet, name: str) -> None:
        self.api = ClusterApi(fleet.kubeconfig, name)

    def __enter__(self) -> ClusterApi:
        return self.api

    def __exit__(self, *_: object) -> None:
        for kind in ("services", "secrets", "configmaps"):
            for one in self.api.get(f"{DEFAULT}/{kind}")["items"]:
                if one["metadata"]["name"] not in ("kubernetes", "kube-root-ca.crt"):
                    self.api.delete(f"{DEFAULT}/{kind}/{one['metadata']['name']}")
        self.api.merge(DEFAULT, {"metadata": {"annotations": {names.SECRETS_CONSENT: None}}})
        for one in self.api.pods():
            end(self.api, one)
        self.api.close()


def config_of(fleet: EmbeddedFleet, **agents: Any) -> DispatcherConfig:
    """East and west in one pod network, with settings of their agents."""
    rows = [
        ClusterSection(
            name=name, context=name, kubeconfig=str(fleet.kubeconfig), network="flat", agent=agents.get(name, {})
        )
        for name in ("east", "west")
    ]
    return DispatcherConfig(clusters=tuple(rows))


async def unknown(config: DispatcherConfig, only: str = "") -> list[Finding]:
    async with reached(config) as members:
        return await all_unknown(config, members, only)


async def conflicts(config: DispatcherConfig, only: str = "") -> list[Finding]:
    async with reached(config) as members:
        return await all_conflicts(config, members, only)


def marked(api: ClusterApi, kind: str, name: str, **annotations: str) -> None:
    body = {"metadata": {"name": name, "annotations": {f"global-dispatcher.io/{k}": v for k, v in annotations.items()}}}
    assert api.create(f"{DEFAULT}/{kind}", body).is_success


def service(api: ClusterApi, name: str, *, labels: dict[str, str] | None = None, **annotations: str) -> None:
    marks = {f"global-dispatcher.io/{k}": v for k, v in annotations.items()}
    body = {
        "metadata": {"name": name, "labels": labels or {}, "annotations": marks},
        "spec": {"ports": [{"port": 80}]},
    }
    assert api.create(f"{DEFAULT}/services", body).is_success


async def test_rows_of_accept_that_name_no_cluster_are_told_with_the_names_that_there_are(fleet: EmbeddedFleet) -> None:
    rows = [{"clusters": ["norht", "w*"]}, {"clusters": ["eats", "norht"]}, {}]
    (found,) = await unknown(config_of(fleet, east={"executor": {"accept": rows}}))
    assert (found.cluster, found.about, found.level) == ("east", "consent", NOTE)
    assert found.text == "executor.accept of its agent names norht, eats, of which there is no cluster"
    assert found.fix.endswith("the clusters of the configuration are east, west")


async def test_what_owners_say_of_clusters_that_are_none_is_told_by_the_object(
    fleet: EmbeddedFleet, east: ClusterApi
) -> None:
    marked(east, "secrets", "db", follow="wset, west")
    marked(east, "secrets", "well", follow="we*,east")
    marked(east, "secrets", "kept", follow="none")
    marked(east, "configmaps", "conf", follow="norht")
    marked(east, "configmaps", "plain")
    east.merge(DEFAULT, {"metadata": {"annotations": {names.SECRETS_CONSENT: "moon"}}})
    found = await unknown(config_of(fleet))
    assert {(one.cluster, one.level) for one in found} == {("east", NOTE)}
    assert [one.text for one in found] == [
        "Namespace default says global-dispatcher.io/secrets-follow: moon, and there is no cluster moon",
        "Secret default/db says global-dispatcher.io/follow: wset, west, and there is no cluster wset",
        "ConfigMap default/conf says global-dispatcher.io/follow: norht, and there is no cluster norht",
    ]
    assert await unknown(config_of(fleet), "west") == []


async def test_of_the_patterns_of_one_list_few_are_looked_at_and_of_its_names_all(
    fleet: EmbeddedFleet, east: ClusterApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def none_of(patterns: tuple[str, ...], name: str) -> bool:
        asked.append(name)
        return False

    monkeypatch.setattr(consents, "matches", none_of)
    marked(east, "configmaps", "conf", follow=",".join([*(f"we*{n}" for n in range(500)), "east", "moon"]))
    (found,) = await unknown(config_of(fleet))
    assert found.text.endswith("there is no cluster we*0, we*1, we*2 and 30 more")
    assert len(asked) == 32 * 2


async def test_secrets_are_listed_without_what_they_hold(fleet: EmbeddedFleet, east: ClusterApi) -> None:
    body = {"metadata": {"name": "db", "annotations": {names.CONSENT: "west"}}, "stringData": {"password": "marker"}}
    assert east.create(f"{DEFAULT}/secrets", body).is_success
    async with reached(config_of(fleet)) as members:
        found = await members["east"].metadata(f"{DEFAULT}/secrets", 10)
    assert [one["metadata"]["annotations"] for one in found] == [{names.CONSENT: "west"}]
    assert not any("data" in one for one in found)


@pytest.mark.parametrize(("status", "told"), [(403, 0), (500, 1)])
async def test_who_may_not_list_secrets_does_without_and_an_error_is_told(
    fleet: EmbeddedFleet, monkeypatch: pytest.MonkeyPatch, status: int, told: int
) -> None:
    whole = Member.metadata

    async def metadata(member: Member, path: str, most: int, **query: str) -> list[dict[str, Any]]:
        if path == "/api/v1/secrets":
            raise MemberError(status, "secrets is refused")
        return await whole(member, path, most, **query)

    monkeypatch.setattr(Member, "metadata", metadata)
    found = await unknown(config_of(fleet), "east")
    assert [one.text.startswith("not known: ") for one in found] == [True] * told


async def test_services_of_the_targets_own_are_told_where_pods_of_the_other_cluster_run(
    fleet: EmbeddedFleet, east: ClusterApi, west: ClusterApi
) -> None:
    for name in ("db", "joined", "web"):
        service(east, name)
    service(west, "db")
    service(west, "joined", join="true")
    service(west, "web", labels={names.COPY: "1f0c"})  # made of that at home
    service(west, "other")
    both = config_of(fleet, east=SERVICES, west=SERVICES)
    assert await conflicts(both) == []  # nobody calls them
    delegate(west, "web-1", "east")
    (found,) = await conflicts(both)
    assert (found.cluster, found.about, found.level) == ("west", "Services", NOTE)
    assert found.text == "pods of east in namespace default call its own Services db here, not those of east"
    assert f"annotate service db {names.JOIN}=true" in found.fix
    assert await conflicts(both, "east") == []
    assert await conflicts(config_of(fleet, east=SERVICES)) == []  # Services do not follow there


async def test_who_may_not_see_deployments_is_told_so_where_rights_are_and_not_here(
    fleet: EmbeddedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Member.items

    async def items(member: Member, path: str, **query: str) -> list[dict[str, Any]]:
        if path == DEPLOYMENTS:
            raise MemberError(403, "deployments is refused")
        return await whole(member, path, **query)

    monkeypatch.setattr(Member, "items", items)
    config = config_of(fleet, east={"executor": {"accept": [{"clusters": ["wset"]}], "services": True}})
    assert [one.text for one in await unknown(config)] == [
        "executor.accept of its agent names wset, of which there is no cluster"
    ]
    assert await conflicts(config) == []


async def test_services_that_were_made_for_others_and_that_nobody_keeps_up_are_told(
    fleet: EmbeddedFleet, east: ClusterApi, west: ClusterApi
) -> None:
    service(east, "own")
    service(west, "db", labels={names.COPY: "0123456789abcdef"})

    async def left(**agents: Any) -> list[Finding]:
        config = config_of(fleet, **agents)
        async with reached(config) as members:
            return await all_left(config, members)

    (found,) = await left()
    assert (found.cluster, found.level, "left there (default/db)" in found.text) == ("west", NOTE, True)
    assert found.fix.startswith("kubectl delete services,endpointslices -A -l global-dispatcher.io/copy")
    assert await left(west=SERVICES) == []
