"""What a seed draws: sizes, work, and a list of faults. A list, so that a failing seed can be made smaller.

Swarm testing: each seed takes some of the themes only, and each with a weight of its own.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from msgspec.structs import replace as replace_tenant

from shared.model.pod import Toleration
from shared.model.tenant import ANY_PRIORITY, Share, Tenant
from tests.simulation.world.fleet import Sizes

CLUSTERS = ("east", "north", "west")
TROUBLE_S = 100


class Fault(NamedTuple):
    """Something that happens `at` seconds to `cluster`, and for `seconds` where it lasts. `dice` chooses the rest."""

    at: float
    kind: str
    cluster: str
    seconds: float
    dice: int

    def __str__(self) -> str:
        return f"{self.at:6.1f} s {self.kind} {self.cluster} for {self.seconds:.0f} s #{self.dice}"


# Theme -> kinds of faults with their weights, and the longest that one lasts.
THEMES: dict[str, dict[str, tuple[float, float]]] = {
    "agents": {"agent-dies": (1, 20), "agent-pauses": (1, 25)},
    "servers": {"server-down": (1, 40), "server-refuses": (1, 20), "server-slow": (1, 30)},
    "wire": {"requests-lost": (1, 30), "replies-lost": (2, 30), "cut-there": (1, 30), "cut-back": (1, 30)},
    "watches": {"watch-late": (2, 30), "watch-frozen": (2, 15), "watch-cut": (1, 0), "watch-expired": (1, 0)},
    "links": {"link-there": (1, 40), "link-back": (1, 40), "link-loses": (1, 30), "link-twice": (2, 60)},
    "dispatchers": {"dispatcher-dies": (3, 10), "dispatcher-pauses": (1, 40)},
    "silence": {"dispatcher-dies": (1, 240)},
    "rivals": {"second-dispatcher": (3, 60), "dispatcher-pauses": (2, 40)},
    "elections": {"second-dispatcher": (2, 60), "lease-down": (1, 40), "lease-deleted": (1, 0)},
    "clocks": {"clock-jumps": (1, 0), "dispatcher-dies": (1, 5), "agent-dies": (1, 5)},
    "nodes": {"cordon": (2, 40), "node-dies": (1, 40), "rival": (2, 0), "node-cut-off": (1, 30)},
    "people": {"delete": (3, 0), "drain": (2, 0), "delete-namespace": (1, 0), "ends": (1, 60), "slow-stop": (1, 60)},
    "hostile": {
        "forge-delegate": (2, 0),
        "forge-claim": (2, 0),
        "strip-annotation": (2, 0),
        "strip-finalizer": (1, 0),
        "replay-annotation": (1, 0),
        "bind-to-proxy": (1, 0),
        "relabel": (1, 0),
    },
    "refusals": {"no-namespace": (2, 0), "webhook-refuses": (1, 0), "quota-refuses": (1, 0)},
    "webhooks": {"sidecar": (2, 0), "webhook-hangs": (1, 40)},
    "restores": {"restore": (1, 0), "restore-bumped": (1, 0)},
    "lost": {"cluster-lost": (1, 240)},
    "stale": {"stale-frontend": (2, 60), "agent-dies": (2, 4), "watch-expired": (2, 0), "delete": (1, 0)},
    "half-open": {"watch-dead": (2, 0), "delete": (1, 0)},
    "replaced": {"recreate": (3, 0), "link-twice": (1, 60)},
    "quota": {"burst": (1, 0)},
}
# Themes that a few seeds have besides those that are drawn: the share of seeds.
BESIDES: dict[str, float] = {
    "growth": 0.04,
    "fleet": 0.04,
    "standbys": 0.15,
    "executors": 0.1,
    "followers": 0.15,
    "secrets": 0.1,
    "groups": 0.15,
    "tenants": 0.15,
    "answers": 0.1,
}
NAMED = ("", "shared", "shared own", "shared ?own", "?own ?lacking", "?stays shared")  # by one pod
SPREAD = 0.2  # the share of seeds whose ReplicaSets are spread over zones
THEMES["growth"] = {"cluster-joins": (1, 0)}
THEMES["fleet"] = {
    "cluster-named-twice": (1, 40),
    "cluster-swapped": (1, 60),
    "cluster-removed": (1, 60),
    "cluster-gone": (1, 0),
}
THEMES["executors"] = {"second-executor": (3, 60), "agent-pauses": (1, 25), "cut-there": (1, 30)}
THEMES["standbys"] = {"fail-over": (2, 40), "standby-cut": (1, 40)}
THEMES["followers"] = {  # ConfigMaps follow pods, and in no world without this theme or the next
    "config-changes": (4, 0),
    "config-deleted": (2, 60),
    "config-stays": (1, 40),
    "copy-edited": (2, 0),
    "copy-deleted": (2, 0),
    "copy-replaced": (1, 40),
    "copy-stripped": (1, 0),
    "asks-for-more": (2, 0),
    "relay-cut": (1, 40),
    "relay-slow": (1, 40),
}
THEMES["secrets"] = {  # Secrets, too, by consent of both
    "secret-changes": (3, 0),
    "secret-kept": (2, 60),
    "secret-narrowed": (2, 60),
    "namespace-keeps": (1, 60),
    "secret-replaced": (2, 40),
    "secret-deleted": (1, 40),
    "row-narrowed": (1, 40),
    "key-rotated": (1, 0),
    "asks-wrongly": (2, 0),
    "copy-edited": (1, 0),
    "copy-deleted": (1, 0),
    "copy-replaced": (1, 40),
    "asks-for-more": (1, 0),
    "relay-cut": (1, 40),
    "relay-slow": (1, 40),
    "agent-dies": (1, 10),
    "restore": (1, 0),
}
THEMES["groups"] = {"gang": (4, 0), "delete": (1, 0), "webhook-refuses": (1, 0)}
THEMES["tenants"] = {"tenants-change": (4, 40), "gang": (3, 0), "burst": (1, 0), "nodes-kept": (2, 60)}
THEMES["answers"] = {"server-fails": (3, 30), "others-write": (2, 40)}
SECRETS = ("$pass", "$lent", "$pass $lent", "$pass shared", "?$lent $pass", "?$pass", "shared")  # by one pod
# What the product copes with by its own account goes into every mix; the rest is drawn seldom enough to see the first.
WEIGHTS = dict.fromkeys((theme for theme in THEMES if theme not in BESIDES), 1.0) | {
    "dispatchers": 2.0,
    "watches": 2.0,
    "wire": 2.0,
    "people": 3.0,
    "quota": 0.5,
    "silence": 0.5,
}
# Themes that show faults not mended yet: why. They are left out unless they are asked for by name (`--themes`).
NOT_MENDED: dict[str, str] = {}


@dataclass(frozen=True)
class Submission:
    """Pods that a user submits: alone (`replicas` 0) or as a ReplicaSet."""

    at: float
    cluster: str
    namespace: str
    name: str
    cpu: int
    away: str = ""  # clusters that it may run in, "" any
    replicas: int = 0
    priority: int = 0
    spread: bool = False  # as many in each zone, which is each cluster
    names: tuple[str, ...] = ()  # objects, as of `naming`


@dataclass(frozen=True)
class Story:
    """Everything that a seed stands for."""

    seed: int
    sizes: Sizes
    work: tuple[Submission, ...]
    faults: tuple[Fault, ...]
    themes: tuple[str, ...]

    def without(self, gone: Sequence[Fault]) -> "Story":
        """The same with fewer faults."""
        return replace(self, faults=tuple(one for one in self.faults if one not in gone))


def draw(seed: int, themes: Sequence[str] | None = None) -> Story:
    """The story of a seed."""
    dice = random.Random(f"story {seed}")
    if themes is None:
        weights = {theme: weight for theme, weight in WEIGHTS.items() if theme not in NOT_MENDED}
        chosen = {dice.choices([*weights], [*weights.values()])[0] for _ in range(dice.choice((1, 2, 2, 3, 4)))}
        besides = random.Random(f"besides {seed}")
        themes = [*sorted(chosen), *(theme for theme, share in BESIDES.items() if besides.random() < share)]
    sizes = replace(
        _sizes(dice, themes), every_kind=seed % 10 == 0, followers=bool({"followers", "secrets"} & {*themes})
    )
    work = _work(dice)
    if random.Random(f"spread {seed}").random() < SPREAD:
        work = [replace(one, spread=bool(one.replicas and not one.away)) for one in work]
    if sizes.followers:
        which = random.Random(f"followers {seed}")
        named = SECRETS if "secrets" in themes else NAMED
        work = [replace(one, names=tuple(which.choice(named).split())) for one in work]
    return Story(seed, sizes, tuple(work), tuple(sorted(_faults(dice, themes))), tuple(themes))


_OF_TREE = 1200
# of taints by which nodes may be kept for their pods
OF_WEST, OF_TEAM = (Toleration(f"example.com/{name}", "Exists", "", "NoSchedule") for name in ("west", "team"))
# of the 1200 that all have together the pods of one cluster may have 900, and those of the others all
_WEST = {"cpu": Share(absolute=600)}, "all", {"cpu": Share(absolute=300)}
_TREE = (
    Tenant("all", (), {"cpu": Share(absolute=600)}, reclaim=ANY_PRIORITY),
    Tenant("teams", ("east/team", "north/team"), {}, "all"),
    Tenant(
        "west",
        ("west/team",),
        {"cpu": Share(absolute=600)},
        "all",
        {"cpu": Share(absolute=300)},
        tolerations=(OF_WEST,),
    ),
)


def team(limit: int, name: str = "team", *gives: Toleration) -> tuple[Tenant, ...]:
    """One tenant, of the namespace `team`, with so much CPU, whose pods are given these."""
    return (Tenant(name, ("team",), {"cpu": Share(absolute=limit)}, tolerations=gives),)


# what a tenants file may say next: others, less of each, other namespaces, or nothing
TENANTS = (
    _TREE,
    (replace_tenant(_TREE[0], nominal={"cpu": Share(absolute=300)}), *_TREE[1:]),
    (
        _TREE[0],
        replace_tenant(_TREE[1], namespaces=("north/team",)),
        replace_tenant(_TREE[2], namespaces=("east/team", "west/team")),
    ),
    (replace_tenant(_TREE[0], tolerations=(OF_TEAM,)), *_TREE[1:]),
    team(600),
    team(1200, "team", OF_TEAM),
    (),
)


def _sizes(dice: random.Random, themes: Sequence[str]) -> Sizes:
    tenants: tuple[Tenant, ...] = ()
    if dice.random() < 0.3 or {"quota", "tenants"} & {*themes}:
        limit = dice.choice((600, 1200, 2400))
        tenants = _TREE if limit == _OF_TREE else team(limit)
    return Sizes(
        nodes=dice.choice((1, 2, 2, 3)),
        node_cpu=dice.choice((1000, 2000, 4000)),
        silence_s=dice.choice((12.0, 20.0)),
        peer_ttl_s=60.0,
        cluster_lost_s=dice.choice((10.0, 30.0)),
        silent_s=dice.choice((6.0, 12.0)),
        tenants=tenants,
    )


def _work(dice: random.Random) -> list[Submission]:
    work = []
    for number in range(dice.randrange(3, 14)):
        home = dice.choice(CLUSTERS)
        others = [one for one in CLUSTERS if one != home]
        away = dice.choice(("", ",".join(others), ",".join(others), others[0]))
        replicas = dice.choice((0, 0, 0, 0, 3))
        work.append(
            Submission(
                at=dice.random() * TROUBLE_S * 0.7,
                cluster=home,
                namespace=dice.choice(("default", "team", "team")),
                name=f"p{number}",
                cpu=dice.choice((100, 300, 300, 700)),
                away=away,
                replicas=replicas,
                priority=dice.choice((0, 0, 0, 0, 10)),
            )
        )
    return work


def _faults(dice: random.Random, themes: Sequence[str]) -> list[Fault]:
    faults = []
    for theme in themes:
        kinds = THEMES[theme]
        for _ in range(dice.choice((1, 2, 3, 6))):
            kind = dice.choices([*kinds], [weight for weight, _ in kinds.values()])[0]
            longest = kinds[kind][1]
            at = round(2 + dice.random() * (TROUBLE_S - 5), 1)
            seconds = round(dice.random() * longest, 1)
            faults.append(Fault(at, kind, dice.choice(CLUSTERS), seconds, dice.randrange(10**6)))
    return faults
