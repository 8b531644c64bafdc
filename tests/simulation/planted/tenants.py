"""Tenants: a file that changes while pods run, and groups whose quota is asked for."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from shared.model.pod import Toleration
from shared.model.tenant import Tenant
from tests.simulation.acts import plain_pod
from tests.simulation.faults import OF_TEAM, TENANTS, team
from tests.simulation.planted.scripted import Hint, Scene, Wait
from tests.simulation.planted.table import Patches, plant
from tests.simulation.world.apiserver import NAMESPACES, NODES
from tests.simulation.world.fleet import Sizes

GENEROUS = Sizes(tenants=team(1200))
GIVING = Sizes(tenants=team(1200, "team", OF_TEAM))
TREE = Sizes(tenants=TENANTS[0])


def two_run(at: Scene, then: tuple[Tenant, ...]) -> Iterator[Wait]:
    """Two of a tenant run when its file changes; a moment later all dispatchers have read it."""
    for name in ("a", "b"):
        at.submit(name, "west", namespace="team")
    yield at.shows("Running", "a", "b", namespace="team")
    at.fleet.take_tenants(then)
    yield 10.0


def lowered(at: Scene) -> Iterator[Wait]:
    """A tenant may use half of what it does; a third pod has to wait."""
    yield from two_run(at, team(300))
    at.submit("c", "east", namespace="team")
    yield 20.0


def moved(at: Scene) -> Iterator[Wait]:
    """The namespace of two pods is another tenant's now, who may use no more than they do."""
    yield from two_run(at, team(600, "crew"))
    at.submit("c", "east", namespace="team")
    yield 20.0


def lowered_and_led_again(at: Scene) -> Iterator[Wait]:
    """The dispatcher loses its Lease after the change, and leads again."""
    yield from two_run(at, team(300))
    at.act("lease-down", "north", 60.0)
    yield 90.0
    at.submit("c", "east", namespace="team")
    yield 40.0


def no_quota_for_all(at: Scene) -> Iterator[Wait]:
    """Quota is left for two of three that start together."""
    at.fleet.take_tenants(team(600))
    yield 10.0
    for name in ("a", "b", "c"):
        pod = plain_pod(name, "team", 300, group="train", **{"group-min": "3"})
        at.cluster("north").api.ask("user", "POST", f"{NAMESPACES}/team/pods", pod)
    yield 40.0


def given(at: Scene) -> Iterator[Wait]:
    """Pods of a tenant that gives a toleration, here and elsewhere, and one of nobody's."""
    at.submit("a", "north", namespace="team")
    at.submit("b", "west", namespace="team")
    at.submit("c", "west")
    yield at.shows("Running", "a", "b", namespace="team")
    yield 5.0


def given_later(at: Scene) -> Iterator[Wait]:
    """A tenant gives a toleration once two of its pods run."""
    yield from two_run(at, GIVING.tenants)
    at.submit("c", "north", namespace="team")
    yield at.shows("Running", "c", namespace="team")


def nodes_kept(at: Scene) -> Iterator[Wait]:
    """All nodes of a cluster are kept for a tenant when a pod comes that is not of it."""
    for node in at.cluster("west").nodes:
        taint = {"key": OF_TEAM.key, "effect": OF_TEAM.effect}
        at.cluster("west").api.ask("admin", "PATCH", f"{NODES}/{node}", {"spec": {"taints": [taint]}})
    yield 100.0
    at.submit("a", "west")
    yield 10.0


def all_used(at: Scene) -> Iterator[Wait]:
    """Each tenant uses what it was given, and no more, when one of them asks for more."""
    for name in ("a", "b"):
        at.submit(name, "west", home="west", namespace="team")
        at.submit(name, "north", namespace="team")
    yield at.shows("Running", "a", "b", namespace="team")
    at.submit("c", namespace="team")
    yield 20.0


@plant("a changed tenants file is not taken over", hint=Hint(lowered, GENEROUS))
def tenants_as_at_the_start(patches: Patches) -> None:
    from dispatcher.service import assembly

    patches.set(assembly, "changed_tenants", lambda tenants, ledger, fleet: nullcontext())


@plant("pods of namespaces that move are charged to nobody", hint=Hint(moved, GENEROUS))
def moved_uncharged(patches: Patches) -> None:
    from dispatcher.plugins.tenant_quota import TenantQuota

    patches.set(TenantQuota, "restore", lambda self, pod_info, row, fleet: None)


@plant("changed tenants hold until the dispatcher leads again", hint=Hint(lowered_and_led_again, GENEROUS))
def tenants_of_one_term(patches: Patches) -> None:
    from dispatcher.service.leading.term_runner import TermRunner

    real = TermRunner.take_policies

    def take(self: Any, changed: Any) -> None:
        real(self, changed)
        self._config = replace(self._config, tenants=GENEROUS.tenants)

    patches.set(TermRunner, "take_policies", take)


@plant("for a group no quota is asked", hint=Hint(no_quota_for_all, GENEROUS))
def groups_unlimited(patches: Patches) -> None:
    from dispatcher.plugins.tenant_quota import TenantQuota

    real: Any = TenantQuota._refusal

    def refusal(self: Any, tenant: Any, asked: Any, pod_info: Any, fleet: Any) -> Any:
        return None if pod_info.pod.group is not None else real(self, tenant, asked, pod_info, fleet)

    patches.set(TenantQuota, "_refusal", refusal)


@plant("of a group those start for whom quota is left", hint=Hint(no_quota_for_all, GENEROUS))
def partly_paid_groups(patches: Patches) -> None:
    from tests.simulation.planted.groups import partial_groups

    partial_groups(patches)


@plant("pods are decided before they have what their tenant gives", hint=Hint(given, GIVING))
def decided_ungiven(patches: Patches) -> None:
    from dispatcher.plugins.tenant_nodes import TenantNodes

    patches.set(TenantNodes, "pre_enqueue", lambda self, pod_info: None)


@plant("what a tenant gives everybody gets", hint=Hint(given, GIVING))
def given_to_everybody(patches: Patches) -> None:
    from dispatcher.scheduling.quota import QuotaLedger

    def ungiven(self: Any, pod_info: Any) -> tuple[Toleration, ...]:
        wanted = (one for tenant in self.tenants for one in tenant.tolerations)
        return tuple(one for one in wanted if one not in pod_info.pod.tolerations)

    patches.set(QuotaLedger, "ungiven", ungiven)


@plant("what a tenant gives is as it was at the start", hint=Hint(given_later, GENEROUS))
def given_as_at_the_start(patches: Patches) -> None:
    from dispatcher.scheduling.quota import QuotaLedger

    real: Any = QuotaLedger.take

    def take(self: Any, tenants: Any) -> None:
        places = self.places
        real(self, tenants)
        self.places = places

    patches.set(QuotaLedger, "take", take)


@plant("what a pod tolerates itself is written over", hint=Hint(given, GIVING))
def given_instead(patches: Patches) -> None:
    from agents.executor.intents import tolerate

    real = tolerate._read

    def read(raw: bytes) -> Any:
        stored = real(raw)
        stored.spec.tolerations = None
        return stored

    patches.set(tolerate, "_read", read)


@plant("nobody looks at taints", hint=Hint(nodes_kept))
def taints_unseen(patches: Patches) -> None:
    from agents.executor.objects import recheck
    from dispatcher.plugins import taint_toleration

    patches.set(taint_toleration, "_codes", lambda reasons, kinds, taints: [0 for _ in kinds])
    patches.set(recheck, "_CHECKS", tuple(one for one in recheck._CHECKS if one is not recheck._tainted))


@plant("quota is taken back from whoever uses its own", hint=Hint(all_used, TREE))
def nobodys_own(patches: Patches) -> None:
    from dispatcher.scheduling.core import reclaiming

    patches.set(
        reclaiming,
        "victims",
        lambda tree, claimant, candidates: [one for one in candidates if one.tenant != claimant.tenant][:1],
    )
