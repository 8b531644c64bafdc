"""The fields that the baseline level of Kubernetes' Pod Security Standards forbids in a pod.

Source: https://kubernetes.io/docs/concepts/security/pod-security-standards (baseline, as of 1.34).
Its host namespaces, privileged containers, hostPath volumes and HostProcess never cross
(`manifest`); the rows here cross where the policy of the target names them. AppArmor's older
annotations are of a reserved domain and never cross, either.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from agents.executor.crossing.fields import Object, Tree, walk

CAPABILITIES = frozenset(
    (
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    )
)
SELINUX_TYPES = frozenset(
    ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
)
SYSCTLS = frozenset(
    (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_syncookies",
    )
)
PROFILES = frozenset(("", "RuntimeDefault", "Localhost"))
_CONTAINERS = ("spec.containers[*]", "spec.initContainers[*]", "spec.ephemeralContainers[*]")
_HANDLERS = (
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle.postStart",
    "lifecycle.preStop",
)


def of_containers(*fields: str) -> tuple[str, ...]:
    """Paths of these fields of every container."""
    return tuple(f"{one}.{field}" for field in fields for one in _CONTAINERS)


def of_security(*fields: str) -> tuple[str, ...]:
    """Paths of these fields of the pod's security context and of every container's."""
    holders = ("spec.securityContext", *of_containers("securityContext"))
    return tuple(f"{one}.{field}" for field in fields for one in holders)


HANDLER_HOSTS = of_containers(
    *(f"{one}.{kind}.host" for one in _HANDLERS for kind in ("httpGet", "tcpSocket"))
)


class Rule(NamedTuple):
    """`fine` tells which values of the fields baseline admits; any other needs `allow` in the
    target's policy. `why` is the message for a value that is refused.
    """

    allow: str
    paths: tuple[str, ...]
    fine: Callable[[Any], bool]
    why: str


def _unset(value: Any) -> bool:
    return value in ("", 0, False)


RULES: tuple[Rule, ...] = (
    Rule("hostPort", of_containers("ports[*].hostPort"), _unset, "takes port {} of the node"),
    Rule(
        "capabilities",
        of_containers("securityContext.capabilities.add[*]"),
        CAPABILITIES.__contains__,
        'adds capability "{}"',
    ),
    Rule("seccomp", of_security("seccompProfile.type"), PROFILES.__contains__, "is {}"),
    Rule("appArmor", of_security("appArmorProfile.type"), PROFILES.__contains__, "is {}"),
    Rule(
        "procMount",
        of_containers("securityContext.procMount"),
        ("", "Default").__contains__,
        "is {}",
    ),
    Rule("seLinux", of_security("seLinuxOptions.type"), SELINUX_TYPES.__contains__, "is {}"),
    Rule("seLinux", of_security("seLinuxOptions.user", "seLinuxOptions.role"), _unset, "is {}"),
    Rule("sysctls", ("spec.securityContext.sysctls[*].name",), SYSCTLS.__contains__, 'sets "{}"'),
    Rule("probeHost", HANDLER_HOSTS, _unset, 'calls another host than the pod, "{}"'),
)


class Violation(NamedTuple):
    """One field that is outside baseline, and the word of a policy that lets it in."""

    allow: str
    field: str
    why: str


_TREE = Tree((path, rule) for rule in RULES for path in rule.paths)


def violations(pod: Object) -> Iterator[Violation]:
    """What is outside baseline in a manifest ({metadata, spec}); TypeError if it is not shaped like
    one.
    """
    for hit in walk(pod, _TREE):
        rule = hit.leaf
        if not rule.fine(hit.value):
            yield Violation(rule.allow, hit.field, rule.why.format(str(hit.value)[:80]))
