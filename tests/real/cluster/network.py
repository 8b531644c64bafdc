"""A pod network: a namespace that routes between those of pods, and obeys NetworkPolicies and Services.

What a network plugin and kube-proxy do, by iptables of that one namespace. Rules know pods by their labels.
"""

import subprocess
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.charts.rendering import Object
from tests.real.cluster.container import enter
from tests.real.spaces import Space

T = TypeVar("T")
_NET = 0x40000000


@dataclass
class Place:
    """Of a pod in the network. `labels` none: it is outside of the cluster."""

    name: str
    address: str
    space: Space
    labels: Mapping[str, str] = field(default_factory=dict)


class Network:
    """Of one cluster."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._router = Space(folder, "router")
        self._inside = ThreadPoolExecutor(4, initializer=lambda: enter(self._router.path, _NET))
        self.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        self.places: list[Place] = []
        self._made = 0

    def run(self, *words: str, given: str = "") -> None:
        """A command in the router's namespace."""
        subprocess.run([*self._router.inside, *words], check=True, input=given, text=True)

    def ask(self, question: Callable[[], T]) -> T:
        """What a function finds that runs there, as a kubelet on the pods' node would."""
        return self._inside.submit(question).result(30)

    def place(self, name: str, labels: Mapping[str, str] | None = None) -> Place:
        """A namespace with an address of its own, from which all others are reached."""
        self._made += 1
        number = self._made
        space = Space(self._folder, name)
        inner, outer, device = f"10.244.{number}.2", f"10.244.{number}.1", f"pod{number}"
        self.run("ip", "link", "add", device, "type", "veth", "peer", "name", "eth0", "netns", str(space.pid))
        self.run("ip", "addr", "add", f"{outer}/30", "dev", device)
        self.run("ip", "link", "set", device, "up")
        for words in (f"addr add {inner}/30 dev eth0", "link set eth0 up", f"route add default via {outer}"):
            subprocess.run([*space.inside, "ip", *words.split()], check=True)
        made = Place(name, inner, space, labels or {})
        self.places.append(made)
        return made

    def remove(self, place: Place) -> None:
        """Nobody has this address any more."""
        self.places.remove(place)
        place.space.close()

    def obey(self, policies: Iterable[Object]) -> None:
        """NetworkPolicies of the pods that are there."""
        rules = ["*filter", ":FORWARD ACCEPT", *_filter(self.places, list(policies)), "COMMIT", ""]
        self.run("iptables-restore", given="\n".join(rules))

    def lead(self, services: Mapping[str, str], port: int) -> None:
        """Services of this port: from the address of each to that of its pod."""
        rules = [
            f"-A PREROUTING -d {address} -p tcp --dport {port} -j DNAT --to-destination {target}:{port}"
            for address, target in services.items()
        ]
        self.run("iptables-restore", given="\n".join(["*nat", ":PREROUTING ACCEPT", *rules, "COMMIT", ""]))

    def close(self) -> None:
        """Nothing of it is left."""
        self._inside.shutdown()
        for one in self.places:
            one.space.close()
        self._router.close()


_REFUSED = "-j REJECT --reject-with tcp-reset"


def _filter(places: list[Place], policies: list[Object]) -> list[str]:
    """Where policies choose a pod, what none of them lists is refused, on its way out (E) and in (I)."""
    rules = ["-A FORWARD -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT"]
    chains: list[str] = []
    for number, place in enumerate(places):
        for letter, key, option in (("E", "egress", "-s"), ("I", "ingress", "-d")):
            mine = [one["spec"] for one in policies if _chosen(one["spec"]["podSelector"], place)]
            if not any(key.title() in spec["policyTypes"] for spec in mine):
                continue
            chain = f"{letter}{number}"
            chains.append(f":{chain} -")
            rules.append(f"-A FORWARD {option} {place.address} -p tcp -j {chain}")
            rules += [
                f"-A {chain} {words} -j RETURN"
                for spec in mine
                for rule in spec.get(key, ())
                for words in _words(rule, "to" if key == "egress" else "from", places)
            ]
            rules.append(f"-A {chain} -p tcp {_REFUSED}")
    return [*chains, *rules]


def _words(rule: Object, key: str, places: list[Place]) -> list[str]:
    """The matches of iptables for a rule: each port with each peer."""
    option = "-d" if key == "to" else "-s"
    peers = [
        f"{option} {place.address}"
        for peer in rule.get(key, ())
        for place in places
        if place.labels and _chosen(peer["podSelector"], place)
    ]
    ports = [
        f"-p {port['protocol'].lower()} --dport {port['port']}" + (f":{port['endPort']}" if "endPort" in port else "")
        for port in rule["ports"]
    ]
    return [f"{peer} {port}" for peer in (peers if key in rule else [""]) for port in ports]


def _chosen(selector: Mapping[str, Any], place: Place) -> bool:
    wanted = selector.get("matchLabels", {}).items()
    return bool(place.labels) and wanted <= place.labels.items()
