"""Gateway actors on Ray, dispatcher and agents are upgraded under load in one order and go back in another: nothing is
lost.

The next version is as in `test_upgrades`. The actors have a Ray node of their own, apart from the head.
"""

import json
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from localfleet.embedded.fleet import ClusterSpec, EmbeddedFleet
from shared.version import version
from tests.system import next_version
from tests.system.cluster_api import ClusterApi, eventually
from tests.system.dialled import CLUSTERS, pod
from tests.system.load import Load
from tests.system.ray_fleet import Head, Node, environment, free_ports
from tests.system.test_upgrades import AWAY, HOME, NEXT, THIS, Site, all_run, left_over, new_ones_run, once

ACTORS = 2
NODE_IP = "127.0.0.4"
EVERY_S = 0.4  # between two pods
VERSIONS = {THIS: version(), NEXT: next_version.VERSION}
GATEWAYS, DISPATCHER, AGENTS = ("gateways",), ("dispatcher",), CLUSTERS
# One order to the next version, another back: each of the three is replaced beside older and beside newer others.
STEPS = (
    (AGENTS, NEXT),
    (DISPATCHER, NEXT),
    (GATEWAYS, NEXT),
    (DISPATCHER, THIS),
    (AGENTS, THIS),
    (GATEWAYS, THIS),
)
TOLD = "a gateway actor passes over settings"
PASSED_OVER = "settings that this version does not know are passed over"


class RaySite(Site):
    """With a Ray head, and a node for the gateway actors."""

    def __init__(self, folder: Path, specs: Sequence[ClusterSpec], stack: ExitStack) -> None:
        self._ray_folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gd-")))
        (port,) = free_ports(1)
        self._head = stack.enter_context(Head(folder, self._ray_folder, port))
        self.fleet = stack.enter_context(EmbeddedFleet.start(specs, folder / "fleet"))
        self._head.wait_ready()
        more = {"ray": {"address": self._head.address}, "gateway": {"actors": ACTORS}}
        super().__init__(folder, self.fleet, stack, more)
        self._start("gateways", THIS)
        self._modules = {"gateways": THIS, "dispatcher": THIS}
        self.lives = [self._made()]  # that each actor should have had

    def replace(self, names: Sequence[str], module: str) -> None:
        """And, agents apart, this means another life of the actors."""
        super().replace(names, module)
        self._modules |= dict.fromkeys(names, module)
        if names != AGENTS:
            self.lives.append(self._made())

    def _made(self) -> tuple[str, str, bool]:
        """Of an actor that begins now: its version, that of who made it, and whether it passes settings over."""
        node, dispatcher = self._modules["gateways"], self._modules["dispatcher"]
        return VERSIONS[node], VERSIONS[dispatcher], (node, dispatcher) == (THIS, NEXT)

    def _end(self, name: str) -> None:
        if name == "gateways":
            self.running[name].terminate()  # `ray start` ends with 1
        else:
            super()._end(name)

    def _start(self, name: str, module: str) -> None:
        if name != "gateways":
            super()._start(name, module)
            return
        env = environment(XDG_STATE_HOME=str(self._folder / "state"))
        env |= next_version.node_environment(self._folder) if module == NEXT else {}
        log = self._folder / f"gateways-{len(list(self._folder.glob('*.log')))}.log"
        node = Node(log, self._ray_folder, self._head.address, NODE_IP, {"gateway": ACTORS}, env)
        self.running[name] = self._stack.enter_context(node)

    def well(self) -> bool:
        """And the actors have begun as often as they should, each time of the right version, and the dispatcher has met
        those that pass settings over: one may begin, serve nobody, and be replaced before it is heard.
        """
        met = not any(passes_over for _, _, passes_over in self.lives) or len(self.passed_over()) == ACTORS
        return met and super().well() and [self.begun(number) for number in range(ACTORS)] == [self.lives] * ACTORS

    def begun(self, number: int) -> list[tuple[str, str, bool]]:
        """The lives of an actor, as its log tells them."""
        lines = self._log(number)
        begun = [at for at, line in enumerate(lines) if line["event"] == "gateway actor begins"]
        lives = [lines[at:end] for at, end in zip(begun, [*begun[1:], len(lines)], strict=True)]
        passed_over = [any(line["event"].startswith(PASSED_OVER) for line in life) for life in lives]
        return [(life[0]["version"], life[0]["made_by"], over) for life, over in zip(lives, passed_over, strict=True)]

    def passed_over(self) -> set[tuple[str, str]]:
        """Actors and their versions of which a dispatcher's log says that they pass a setting over."""
        lines = [line for file in self._folder.glob("dispatcher*.log") for line in file.read_text().splitlines()]
        told = [json.loads(line) for line in lines if TOLD in line]
        assert all(line["settings"] == [next_version.SETTING, f"gateway.{next_version.SETTING}"] for line in told)
        return {(line["actor"], line["version"]) for line in told}

    def _log(self, number: int) -> list[dict[str, Any]]:
        file = self._folder / "state" / "global-dispatcher" / "logs" / f"gateway-{number}.log"
        return list(map(json.loads, file.read_text().splitlines())) if file.exists() else []

    def tails(self) -> str:
        last = [json.dumps(line) for number in range(ACTORS) for line in self._log(number)[-8:]]
        begun = [self.begun(number) for number in range(ACTORS)]
        return "\n".join((super().tails(), "---", *last, f"actors should have begun so: {self.lives}", f"and: {begun}"))


def test_each_pod_runs_once_whichever_of_gateway_actors_dispatcher_and_agents_is_newer(tmp_path: Path) -> None:
    with ExitStack() as stack:
        site = RaySite(tmp_path, [ClusterSpec(name, nodes=3) for name in CLUSTERS], stack)
        apis = {name: ClusterApi(site.fleet.kubeconfig, name) for name in CLUSTERS}
        feeder = ClusterApi(site.fleet.kubeconfig, HOME)
        eventually(site.well, 60, site.tails)
        with Load(
            feeder, lambda number: pod(f"load-{number}", (HOME, AWAY)[number % 2]), EVERY_S, deletes=True
        ) as load:
            for names, module in STEPS:
                site.replace(names, module)
                made = load.made
                eventually(lambda: site.well() and new_ones_run(apis, load, made), 60, site.tails)  # noqa: B023
        places = eventually(lambda: all_run(apis, load.made - load.deleted), 60, site.tails)
        eventually(lambda: not left_over(apis), 60, site.tails)
        once(places, apis)
        assert not site.complaints()
        assert site.passed_over() == {(f"gateway-{number}", version()) for number in range(ACTORS)}
        for api in (*apis.values(), feeder):
            api.close()
