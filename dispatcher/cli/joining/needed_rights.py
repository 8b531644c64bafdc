"""Which rights an agent needs, and what is lost without. A test holds them to the roles of the
agent's chart.
"""

from typing import NamedTuple

import msgspec

from agents.executor.trust.state import NAME, NAMESPACE
from agents.runtime.executor_lease import PLACE
from dispatcher.cli.diagnosis import NOTE, PROBLEM
from shared.kube.plain_yaml import is_plain
from shared.model.group_kinds import COSCHEDULING, COSCHEDULING_OF_OLD, KAI, POD_GROUPS, VOLCANO

# the namespace of the agent's account; as `name`: the account beside it as which kubelets are asked
OWN = "."
# instead of a namespace: the namespaces that the executor serves, all or those of its RoleBindings
SERVED = "*"
_SEE = "list watch"


class Need(NamedTuple):
    """`half`: observer or executor. `kinds`: with spaces, as kubectl has them: RESOURCE[.GROUP],
    RESOURCE/SUBRESOURCE. `when`: the feature that needs it; empty: each agent does. `name`: of the
    only object that is meant.
    """

    half: str
    kinds: str
    verbs: str
    lost: str
    level: str = NOTE
    when: str = ""
    namespace: str = ""
    name: str = ""


_BLIND = "it sees no nodes or pods, and the cluster takes no part"
_IDENTITY = "it does not learn the cluster's identity, and the cluster takes no part"
_VOLUMES = (
    "persistentvolumes persistentvolumeclaims storageclasses.storage.k8s.io "
    "csinodes.storage.k8s.io "
    "csidrivers.storage.k8s.io csistoragecapacities.storage.k8s.io volumeattachments.storage.k8s.io"
)
_OWNERS = "services replicationcontrollers replicasets.apps statefulsets.apps"
_ADOPTERS = "replicationcontrollers replicasets.apps"
_ADOPTED = "controllers here may take remote pods for their own"
_BUDGETS = "poddisruptionbudgets.policy"
_PRIORITIES = "priorityclasses.scheduling.k8s.io"
_RUNTIMES = "runtimeclasses.node.k8s.io"
_PROXIES = "it keeps no proxy nodes, without which no pod of this cluster runs in another"
_RIVALS = "it cannot tell whether another executor acts here, and does not act"
_UNKNOWN = "it cannot tell which keys and orders hold here"
_CLAIMS = "pods whose volumes are not bound yet wait"
_UNSEEN = (
    "ConfigMaps of its pods do not follow them, and it takes remote pods whose ConfigMaps are not "
    "here; they wait, and are moved on after a while"
)
_LATE = "it makes remote pods before it is known that the account is there as which they are to run"
_UNMADE = "it makes no namespaces for remote pods (executor.namespaces.create)"
_KEPT = (
    "it removes no namespace that it has made, however empty (executor.namespaces.remove_after_s)"
)
_NO_COPIES = "it takes remote pods only where their ConfigMaps are here under the same name"
_LEFT_COPIES = "copies of ConfigMaps stay whose last remote pod went while it was away"
_NO_SECRETS = (
    "no Secret follows a remote pod here (secrets_follow of executor.accept), unless secrets.take of "
    "the chart lists the namespace"
)
_WRITES = "list create update delete"
_SLICES = "endpointslices.discovery.k8s.io"
_IMPORTS = "serviceimports.multicluster.x-k8s.io"
_NO_SERVICES = "remote pods that call Services of their namespace do not come, or go from here"
_IMPORTED = "Services are made beside those of the Multi-Cluster Services API"
_CALLERS = "subjectaccessreviews.authorization.k8s.io tokenreviews.authentication.k8s.io"
_REFUSES = "it cannot tell who asks for logs and metrics of remote pods, and refuses"
_PROXIED = "pods/exec pods/attach pods/portforward"
_FOLLOWING = "pods/ephemeralcontainers pods/resize"
_LEFT_AS_THEY_WENT = "debug containers and resizes of pods elsewhere do not reach their copies here"
_GROUPS_OF_OTHERS = f"{COSCHEDULING} {COSCHEDULING_OF_OLD} {VOLCANO} {KAI}"
_GROUP_STATUS = "podgroups/status.scheduling.k8s.io"
_UNTOLD = "PodGroups do not show whether their pods have places"
_REQUESTS = "certificatesigningrequests.certificates.k8s.io"
_TOP = "kubectl top shows nothing of remote pods here"
_CONFIG = "extension-apiserver-authentication"

_GROUPS = (
    "machinedeployments.cluster.x-k8s.io machinesets.cluster.x-k8s.io machinepools.cluster.x-k8s.io"
)
_NO_GROUPS = "it does not tell what nodes this cluster's autoscaler could make (node_groups)"
_OF_GROUPS = "groups"
_BACKS_OFF = "it does not tell for which node groups the autoscaler has given up for a while"

NEEDS = (
    Need("observer", "nodes pods", _SEE, _BLIND, PROBLEM),
    Need("observer", "namespaces", "get", _IDENTITY, PROBLEM, name="kube-system"),
    Need(
        "observer", "leases.coordination.k8s.io", "get", _UNKNOWN, PROBLEM, "split", NAMESPACE, NAME
    ),
    Need("observer", "namespaces", _SEE, "namespace selectors of pods do not count"),
    Need("observer", _VOLUMES, _SEE, "what volumes need does not count where pods are placed"),
    Need("observer", _BUDGETS, _SEE, "budgets do not count where pods are to be evicted"),
    Need(
        "observer", _PRIORITIES, _SEE, "no pod is evicted here for a remote one of a PriorityClass"
    ),
    Need(
        "observer",
        _RUNTIMES,
        _SEE,
        "remote pods of a RuntimeClass that is not here are refused as they are made, and not "
        "before",
    ),
    Need(
        "observer",
        _OWNERS,
        _SEE,
        "default spread constraints do not know which pods belong together",
    ),
    Need("observer", POD_GROUPS, _SEE, "pods that name a PodGroup wait"),
    Need("observer", _GROUPS_OF_OTHERS, _SEE, "pods that bear the mark of such a group wait"),
    Need(
        "observer", "events", _SEE, "warning events of remote pods here are not shown at their home"
    ),
    Need(
        "observer",
        "serviceaccounts/token",
        "create",
        "kubelets do not tell it live load",
        NOTE,
        "",
        OWN,
        OWN,
    ),
    Need(
        "observer",
        "nodes.metrics.k8s.io pods.metrics.k8s.io",
        "list",
        "no live load where kubelets do not answer",
    ),
    Need("observer", _GROUPS, _SEE, _NO_GROUPS, NOTE, _OF_GROUPS),
    Need(
        "observer",
        "configmaps",
        _SEE,
        _BACKS_OFF,
        NOTE,
        _OF_GROUPS,
        "kube-system",
        "cluster-autoscaler-status",
    ),
    Need(
        "executor",
        "nodes pods namespaces",
        _SEE,
        "it cannot check orders, and carries out none",
        PROBLEM,
        "split",
    ),
    Need("executor", "namespaces", "get", _IDENTITY, PROBLEM, "split", name="kube-system"),
    Need("executor", _BUDGETS, _SEE, "budgets do not count where it checks orders", NOTE, "split"),
    Need(
        "executor",
        _PRIORITIES,
        _SEE,
        "remote pods are made before their priority is known",
        NOTE,
        "split",
    ),
    Need("executor", _ADOPTERS, _SEE, _ADOPTED, NOTE, "split"),
    Need("executor", "daemonsets.apps", _SEE, _ADOPTED),
    Need(
        "executor",
        "pods",
        "get create patch delete",
        "it carries out no orders",
        PROBLEM,
        "",
        SERVED,
    ),
    Need("executor", "pods/binding", "create", "no pod is bound here", PROBLEM, "", SERVED),
    Need(
        "executor",
        "pods/status",
        "patch",
        "pods do not show how their copies elsewhere do",
        PROBLEM,
        "",
        SERVED,
    ),
    Need("executor", _FOLLOWING, "patch", _LEFT_AS_THEY_WENT, NOTE, "", SERVED),
    Need("executor", "nodes", "get create patch delete", _PROXIES, PROBLEM),
    Need("executor", "nodes/status", "patch", _PROXIES, PROBLEM),
    Need(
        "executor",
        "leases.coordination.k8s.io",
        "create patch delete",
        _PROXIES,
        PROBLEM,
        "",
        NAMESPACE,
    ),
    Need("executor", "leases.coordination.k8s.io", "get", _UNKNOWN, PROBLEM, "", NAMESPACE, NAME),
    Need(
        "executor",
        "leases.coordination.k8s.io",
        "get update",
        _RIVALS,
        PROBLEM,
        "",
        NAMESPACE,
        PLACE.name,
    ),
    Need(
        "executor",
        "events.events.k8s.io",
        "create",
        "no event says why a pod waits",
        NOTE,
        "",
        SERVED,
    ),
    Need(
        "executor",
        _BUDGETS,
        "get create patch delete",
        "remote pods here have no budgets",
        NOTE,
        "",
        SERVED,
    ),
    Need("executor", POD_GROUPS, "get", _UNTOLD, NOTE, "", SERVED),
    Need("executor", _GROUP_STATUS, "patch", _UNTOLD, NOTE, "", SERVED),
    Need("executor", "configmaps", "get", _UNSEEN, NOTE, "", SERVED),
    Need("executor", "serviceaccounts", "get", _LATE, NOTE, "accounts", SERVED),
    Need("executor", "services", _WRITES, _NO_SERVICES, NOTE, "services", SERVED),
    Need("executor", "services", "get", _NO_SERVICES, NOTE, "services", SERVED),
    Need("executor", _SLICES, _WRITES, _NO_SERVICES, NOTE, "services", SERVED),
    Need("executor", _IMPORTS, "list", _IMPORTED, NOTE, "services", SERVED),
    Need("executor", "namespaces", "create get", _UNMADE, NOTE, "namespaces"),
    Need("executor", "namespaces", "delete", _KEPT, NOTE, "removal"),
    Need("executor", "*.*", "list", _KEPT, NOTE, "removal"),
    Need("executor", "configmaps", "create update delete", _NO_COPIES, NOTE, "", SERVED),
    Need("executor", "configmaps", "list", _LEFT_COPIES, NOTE, "", SERVED),
    Need("executor", "secrets", "get create update delete", _NO_SECRETS, NOTE, "secrets", SERVED),
    Need("executor", "persistentvolumeclaims", "get patch", _CLAIMS, NOTE, "", SERVED),
    Need("executor", "persistentvolumes", "get patch", _CLAIMS),
    Need(
        "executor",
        "pods/eviction",
        "create",
        "no pod is moved by rebalancing, or gives quota back",
        NOTE,
        "evicting",
        SERVED,
    ),
    Need(
        "executor", "pods/log", "get", "no kubectl logs of remote pods here", NOTE, "logs", SERVED
    ),
    Need("executor", "serviceaccounts/token", "create", _TOP, NOTE, "logs", OWN, OWN),
    Need(
        "executor",
        _PROXIED,
        "get create",
        "no kubectl exec and port-forward of remote pods",
        NOTE,
        "exec",
        SERVED,
    ),
    Need("executor", _CALLERS, "create", _REFUSES, NOTE, "relay"),
    Need("executor", "configmaps", "get", _REFUSES, NOTE, "relay", "kube-system", _CONFIG),
    Need(
        "executor",
        _REQUESTS,
        "create get",
        "its serving certificate stays self-signed",
        NOTE,
        "csr",
    ),
)


class _Relay(msgspec.Struct):
    port: int = 0
    certificate: str = ""


class _Row(msgspec.Struct):
    clusters: tuple[str, ...] = ("*",)
    local_accounts: list[str] = []
    secrets_follow: list[str] = []


class _Namespaces(msgspec.Struct):
    create: list[str] = []
    remove_after_s: float = 0.0


class _Executor(msgspec.Struct):
    relay: str = "logs"
    accept: list[_Row] = []
    services: bool = False
    namespaces: _Namespaces = msgspec.field(default_factory=_Namespaces)


class _NodeGroups(msgspec.Struct):
    read: bool = False
    namespace: str = ""


class _File(msgspec.Struct):
    relay: _Relay = msgspec.field(default_factory=_Relay)
    executor: _Executor = msgspec.field(default_factory=_Executor)
    node_groups: _NodeGroups = msgspec.field(default_factory=_NodeGroups)


def accepted(text: str) -> list[str]:
    """Names of clusters, or patterns, in executor.accept of an agent.yaml."""
    return [name for row in _read(text).executor.accept for name in row.clusters]


def _read(text: str) -> _File:
    """An agent.yaml; of one that cannot be read nothing is known. Whoever may make a Deployment in
    that cluster may have written it.
    """
    try:
        if is_plain(text):
            return msgspec.yaml.decode(text, type=_File)
    except msgspec.DecodeError:
        pass
    return _File(executor=_Executor(relay="none"))


def features(text: str) -> set[str]:
    """What an agent.yaml turns on that needs rights of its own. With a slash, and in which
    namespace.
    """
    file = _read(text)
    makes = bool(file.executor.namespaces.create)
    on = {
        "logs": file.executor.relay in ("logs", "all"),
        "exec": file.executor.relay == "all",
        "accounts": any(row.local_accounts for row in file.executor.accept),
        "secrets": any(row.secrets_follow for row in file.executor.accept),
        "services": file.executor.services,
        "namespaces": makes,
        "removal": makes and file.executor.namespaces.remove_after_s > 0,
        "relay": file.relay.port > 0,
        _OF_GROUPS: file.node_groups.read,
        f"{_OF_GROUPS}/{file.node_groups.namespace}": file.node_groups.read,
        "csr": file.relay.port > 0 and file.relay.certificate == "csr",
    }
    return {name for name, wanted in on.items() if wanted}


def needs(component: str, on: set[str], evicting: bool = False) -> list[Need]:
    """Of a Deployment of the agent's chart, by its label: `observer`, `executor`, or `agent`, which
    is both. `evicting`: rebalancing moves pods, or tenants take quota back.
    """
    split = component != "agent"
    wanted = {"", *on, *(("split",) if split else ()), *(("evicting",) if evicting else ())}
    found = [one for one in NEEDS if one.when in wanted and (not split or one.half == component)]
    within = dict(one.split("/", 1) for one in on if "/" in one)
    return [
        one._replace(namespace=one.namespace or within.get(one.when, one.namespace))
        for one in found
    ]
