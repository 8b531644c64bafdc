"""Agents and dispatcher are upgraded and go back under load, each beside the other of either version: nothing is lost.

There is no second version to run, so the next one is this one with a field more in every record that it sends
(`next_version`); tests/shared/messages/wire has the bytes of those before.
"""

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from dispatcher.service.gateway.authority import ensure
from localfleet.embedded.fleet import ClusterSpec, EmbeddedFleet
from tests.system.cluster_api import DELEGATE, SOURCE_UID, ClusterApi, eventually, running_places
from tests.system.dialled import CLUSTERS, Dispatcher, pod, settings
from tests.system.load import Load
from tests.system.ray_fleet import JoinedAgent, Process, environment

HOME, AWAY = CLUSTERS
NOT_UNDERSTOOD = ("upgrade the older side", "not a Changes", "not a IntentBatch", "not a Peers", "not a Hello")
THIS, NEXT = "dispatcher.cli.main", "tests.system.next_version"


class Site:
    """A dispatcher and the agents of two clusters, each of a version that may change."""

    def __init__(
        self, folder: Path, fleet: EmbeddedFleet, stack: ExitStack, more: Mapping[str, Any] | None = None
    ) -> None:
        """`more`: sections of the dispatcher's configuration."""
        self._folder, self._stack, certificates = folder, stack, folder / "certificates"
        ensure(certificates, ["127.0.0.1"], CLUSTERS)
        dispatcher = stack.enter_context(Dispatcher(folder, certificates, more=more))
        self._port = dispatcher.port
        self.running: dict[str, Process] = {"dispatcher": dispatcher}
        for name in CLUSTERS:
            (folder / name).mkdir()
            told = settings(fleet, name, certificates, dispatcher.gateway_port)
            self.running[name] = stack.enter_context(JoinedAgent(folder / name, told))

    def replace(self, names: Sequence[str], module: str) -> None:
        """End processes, and start them with the same settings as another version."""
        for name in names:
            self._end(name)
        for name in names:
            self._start(name, module)

    def _end(self, name: str) -> None:
        old = self.running[name]
        assert old.terminate() == 0, old.tail()

    def _start(self, name: str, module: str) -> None:
        folder = self._folder if name == "dispatcher" else self._folder / name
        file = folder / ("dispatcher.yaml" if name == "dispatcher" else "agent.yaml")
        words = ["run"] if name == "dispatcher" else ["agent", "--node-ip", "127.0.0.1"]
        command = [sys.executable, "-m", module, words[0], "--config", str(file), *words[1:]]
        log = folder / f"{name}-{len(list(folder.glob('*.log')))}.log"
        new = Process(command, log, environment(PYTHONPATH=str(Path(__file__).parents[2])))
        self.running[name] = self._stack.enter_context(new)

    def well(self) -> bool:
        """Whether all run, and the dispatcher hears both."""
        ended = [one.tail() for one in self.running.values() if one.code is not None]
        assert not ended, ended
        answer = httpx.get(f"http://127.0.0.1:{self._port}/v1/clusters", timeout=5, trust_env=False).json()
        return [row["ready"] for row in answer.get("clusters", ())] == [True, True]

    def tails(self) -> str:
        return "\n---\n".join(one.tail() for one in self.running.values())

    def complaints(self) -> list[str]:
        """Lines of all logs about messages that somebody did not understand."""
        lines = [line for file in self._folder.rglob("*.log") for line in file.read_text().splitlines()]
        return [line for line in lines if any(words in line for words in NOT_UNDERSTOOD)]


STEPS = (
    ("next agents beside this dispatcher", CLUSTERS, NEXT),
    ("next agents and dispatcher", ("dispatcher",), NEXT),
    ("this version's agents beside the next dispatcher", CLUSTERS, THIS),
    ("back in this version", ("dispatcher",), THIS),
)


def test_each_pod_runs_once_whoever_is_upgraded_or_goes_back_first(tmp_path: Path) -> None:
    specs = [ClusterSpec(name, nodes=2) for name in CLUSTERS]
    with ExitStack() as stack:
        fleet = stack.enter_context(EmbeddedFleet.start(specs, tmp_path / "fleet"))
        apis = {name: ClusterApi(fleet.kubeconfig, name) for name in CLUSTERS}
        (tmp_path / "site").mkdir()
        site = Site(tmp_path / "site", fleet, stack)
        eventually(site.well, 60, site.tails)
        feeder = ClusterApi(fleet.kubeconfig, HOME)
        with Load(feeder, lambda number: pod(f"load-{number}", (HOME, AWAY)[number % 2]), deletes=True) as load:
            for what, names, module in STEPS:
                site.replace(names, module)
                eventually(site.well, 60, site.tails)
                newer = partial(new_ones_run, apis, load, load.made)
                eventually(newer, 60, lambda: f"{what}\n{site.tails()}")  # noqa: B023
        places = eventually(lambda: all_run(apis, load.made - load.deleted), 60, site.tails)
        eventually(lambda: not left_over(apis), 60, site.tails)
        once(places, apis)
        assert not site.complaints()
        for api in (*apis.values(), feeder):
            api.close()


def all_run(apis: dict[str, ClusterApi], total: int) -> dict[str, list[str]]:
    """Where each pod runs, once all do."""
    found = running_places(apis, HOME)
    return found if len(found) == total else {}


def new_ones_run(apis: dict[str, ClusterApi], load: Load, before: int) -> bool:
    """Whether pods run that came after so many."""
    return len(running_places(apis, HOME)) + load.deleted > before


def left_over(apis: dict[str, ClusterApi]) -> list[str]:
    """Sources that end and do not go, and delegates of those that went."""
    sources = apis[HOME].pods()
    known = {one["metadata"]["uid"] for one in sources}
    ending = [one["metadata"]["name"] for one in sources if "deletionTimestamp" in one["metadata"]]
    copies = [one["metadata"] for one in apis[AWAY].pods() if DELEGATE in one["metadata"].get("labels", {})]
    return ending + [one["name"] for one in copies if one["annotations"][SOURCE_UID] not in known]


def once(places: dict[str, list[str]], apis: dict[str, ClusterApi]) -> None:
    """No pod of these runs twice, and no delegate is left of a pod that is not there."""
    assert {uid: found for uid, found in places.items() if len(found) > 1} == {}
    sources = {one["metadata"]["uid"] for one in apis[HOME].pods()}
    copies = [one["metadata"] for one in apis[AWAY].pods() if DELEGATE in one["metadata"].get("labels", {})]
    assert {one["annotations"][SOURCE_UID] for one in copies} <= sources, "a delegate is left over"
