"""The keys of the tenants file."""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field

from dispatcher.config.sections import TENANT_NAME, Section

T = TypeVar("T")

MOST_WEIGHT = 1000
MOST_TOLERATIONS = 8
LONGEST_S = 30 * 86_400.0
HIGHEST_PRIORITY = 1_000_000_000  # of pods that are not the system's


def _said(value: T) -> T:
    if value is None:  # as where a file was cut off: that must not lift what the key limits
        raise ValueError("is empty: say what holds, or take the key out")
    return value


_SAID = BeforeValidator(_said)


class PartEntry(Section):
    """Quota of a part of the fleet, beside that of the whole: nodes of a cluster, or with labels."""

    cluster: str = ""
    nodes: dict[str, str] = {}
    nominal: Annotated[dict[str, Any], Field(min_length=1)]
    borrowing_limit: dict[str, Any] = {}
    lending_limit: dict[str, Any] = {}


class TolerationEntry(Section):
    """A toleration of Kubernetes, of one key and without an end."""

    key: str
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""


class NodesEntry(Section):
    """The only nodes that a tenant's pods go to; `exclusive`: nobody else's do. `tolerations`: what
    its pods are given.
    """

    selector: Annotated[dict[str, str], Field(min_length=1)]
    exclusive: bool = False
    tolerations: Annotated[tuple[TolerationEntry, ...], Field(max_length=MOST_TOLERATIONS)] = ()


class TenantEntry(Section):
    """One tenant: `namespaces` are 'namespace' or 'cluster/namespace', the last part may end in
    '*'; none for one that other tenants are part of.
    """

    name: Annotated[str, Field(pattern=TENANT_NAME)]
    namespaces: tuple[str, ...] = ()
    parent: str = ""
    nominal: dict[str, Any] = {}
    borrowing_limit: dict[str, Any] = {}
    lending_limit: dict[str, Any] = {}
    weight: Annotated[float, Field(ge=0, le=MOST_WEIGHT)] = 1
    quotas: tuple[PartEntry, ...] = ()
    clusters: tuple[str, ...] = ()
    nodes: Annotated[NodesEntry | None, _SAID] = None
    max_priority: Annotated[int | None, Field(ge=-HIGHEST_PRIORITY, le=HIGHEST_PRIORITY), _SAID] = (
        None
    )
    spread: bool = False
    reclaim: Literal["", "never", "lower_priority", "any"] = ""
    reclaim_strategies: tuple[
        Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"], ...
    ] = ()
    min_runtime_s: Annotated[float | None, Field(ge=0, le=LONGEST_S), _SAID] = None


class DefaultEntry(Section):
    """Everybody whose namespace belongs to no tenant, charged together."""

    nominal: dict[str, Any]


class TenantsFile(Section):
    """The whole file. Without `default`, namespaces of no tenant are not limited."""

    tenants: tuple[TenantEntry, ...] = ()
    default: Annotated[DefaultEntry | None, _SAID] = None
