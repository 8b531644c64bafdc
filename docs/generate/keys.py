"""The page of annotations, labels, taints and finalizers: who writes each, on what, and what it
means.
"""

from typing import NamedTuple

from docs.generate.markdown import code, page, table
from shared.model import names


class Key(NamedTuple):
    """One row. `name` is the constant of `shared/model/names.py`."""

    name: str
    on: str
    values: str
    meaning: str


USERS = (
    Key(
        "SCHEDULE",
        "pod, annotation",
        '`"true"`',
        "Place this pod. A pod that names our schedulerName does not need it.",
    ),
    Key("CLUSTERS", "pod, annotation", "names, separated by commas", "Only these clusters."),
    Key("STAY", "pod, annotation", '`"true"`', "Only the cluster in which the pod was submitted."),
    Key(
        "SPREAD",
        "pod, annotation",
        "`LEVEL=N[:soft]`, separated by commas",
        "At most N pods of this app apart between the domains of a level (provider, region, zone, "
        "rack, cluster, host, "
        "or a node label), counted over all clusters. Hard unless `:soft`.",
    ),
    Key(
        "DOMAIN_SCOPE",
        "pod, annotation",
        "`fleet` (default), `cluster`",
        "Whether a zone of one name in two clusters is one domain for the pod's spread and "
        "affinity, or two.",
    ),
    Key(
        "FAILOVER",
        "pod, annotation",
        "`strict` (default), `lease`, `asap`",
        "When a pod whose cluster is lost may be replaced: once its copy is known to be gone; "
        "once the copy's own "
        "agent has certainly stopped it; or at once.",
    ),
    Key(
        "NEAR",
        "pod, annotation",
        "`cluster/NAME`, `service/NAMESPACE/NAME`, `zone/NAME`",
        "Rather near to that, by the round-trip times between clusters (see [Between "
        "clusters](../links.md)).",
    ),
    Key("DATA", "pod, annotation", "name of a dataset", "Rather near to a cluster that has it."),
    Key(
        "REQUIRE_DATA",
        "pod, annotation",
        "name of a dataset",
        "The same, and only in clusters that have it.",
    ),
    Key(
        "SERVICES",
        "pod, annotation; Namespace, label",
        '`"none"`',
        "It calls no Service of its namespace by name: it may go where these are missing.",
    ),
    Key(
        "JOIN",
        "Service, annotation",
        '`"true"`',
        "Where pods of other clusters in the same pod network run here and have a Service of that "
        "name at home, the addresses of that one are added to it (see [Services]"
        "(../crossing.md#services)).",
    ),
    Key(
        "SERVICE_ACCOUNT",
        "pod, annotation",
        '`"none"`',
        "It needs neither rights nor token of its ServiceAccount: it may go where it runs without.",
    ),
    Key(
        "PRIORITY",
        "pod, annotation",
        '`"none"`',
        "In other clusters it does without its PriorityClass: it may go where that is lacking or "
        "too high, and has "
        "the default priority of that cluster.",
    ),
    Key(
        "CONSENT",
        "ConfigMap, Secret, annotation",
        "names, patterns, or `none`",
        "The clusters, with commas, to which it follows pods; patterns, or `none`: each of the others "
        "has its own of that name, or takes no pod that names it. Without the annotation a ConfigMap "
        "follows everywhere, and a Secret nowhere.",
    ),
    Key(
        "REBALANCE",
        "pod, annotation",
        '`"false"`, `"true"`',
        "Never move this pod off a hot node; or move it also if it has local data, or another "
        "controller than a "
        "ReplicaSet, StatefulSet or ReplicationController (see [Rebalancing](../rebalancing.md)).",
    ),
    Key(
        "GROUP",
        "pod, annotation",
        "a name",
        "The pods of this namespace and cluster with the same name here are one group (gang): they "
        "start together or not at all (see [Groups](../groups.md)).",
    ),
    Key(
        "GROUP_MIN",
        "pod, annotation",
        "a number of pods",
        "How many members of its group start together at the least; needed with `group`.",
    ),
    Key(
        "GROUP_WITHIN",
        "pod, annotation",
        "`cluster` (default), `rack`, `zone`, another level, `fleet`, or a node label",
        "All members go to nodes of one rack, zone, cluster ...: where their nodes have one and the "
        "same value. `fleet`: they may be in several clusters.",
    ),
)
ADMINS = (
    Key(
        "ACCEPT",
        "Namespace, label or annotation",
        '`"false"`',
        'Closes the namespace to pods of other clusters, as any value but `"true"` does, whatever '
        "the other of the two says.",
    ),
    Key(
        "SECRETS_CONSENT",
        "Namespace, annotation",
        "clusters, with commas; patterns",
        "To these the namespace's Secrets follow pods, but those that have an annotation of their "
        "own.",
    ),
    Key(
        "AFFINITY_FROM_OTHERS",
        "Namespace, label",
        '`"true"`',
        "Lets inter-pod terms of pods that other clusters submit mean its pods.",
    ),
    Key(
        "PROVIDER", "node, label", "any", "The level `provider`: whose data centre the node is in."
    ),
    Key(
        "BANDWIDTH",
        "node, label or annotation",
        "a quantity, **bytes**/s",
        "Network capacity in each direction: 10 Gbit/s is `1250M`.",
    ),
    Key(
        "METRIC_PREFIX",
        "node, annotation",
        "a number or quantity",
        "`metric.global-dispatcher.io/NAME`: read by plugins.",
    ),
    Key(
        "GPU_MILLI",
        "node, extended resource",
        "1000 for each GPU",
        "Thousandths of a GPU, for pods that share one.",
    ),
    Key(
        "FENCED",
        "proxy node, label",
        '`"true"`',
        "Nothing runs in that cluster any more (`cluster fence`).",
    ),
    Key(
        "CONFIRM_RESTORED",
        "agent's state Lease, annotation",
        '`"true"`',
        "What a restored cluster shows is meant (`cluster confirm`).",
    ),
    Key(
        "FORGET_KEYS",
        "agent's state Lease, annotation",
        '`"true"`',
        "Believe the next keys of that cluster (`cluster forget-keys`).",
    ),
)
OURS = (
    Key("FINALIZER", "source pod, finalizer", "", "The source goes when its delegate is gone."),
    Key(
        "CLAIM",
        "source and delegate, annotation",
        "a signed record",
        "Where the pod goes, signed by the source's cluster.",
    ),
    Key(
        "CLAIM_CLUSTER",
        "source, annotation",
        "a cluster",
        "Where the pod goes, for people; nothing is decided by it.",
    ),
    Key("CLAIM_NODE", "source, annotation", "a node", "The same."),
    Key("EPOCH", "source, annotation", "a number", "The attempt."),
    Key("DECISION", "source, annotation", "one line", "Why there: score, runner-up, margin."),
    Key(
        "PROXY_NODES",
        "DaemonSet or pod of others, annotation",
        '`"left-out"`',
        "Tolerates the taint of proxy nodes; admission gave it a node affinity that keeps it off "
        "them.",
    ),
    Key("DELEGATE_LABEL", "delegate, label", "", "Marks a delegate."),
    Key(
        "DELEGATE_SCHEDULER",
        "delegate, spec.schedulerName",
        "",
        "No scheduler's name, so nobody else places it.",
    ),
    Key(
        "DELEGATE_PROOF",
        "delegate, annotation",
        "a signature",
        "The target cluster made this delegate.",
    ),
    Key("BUDGET", "delegate, label", "a name", "The shadow budget that covers it."),
    Key(
        "BUDGET_OF",
        "shadow budget, label",
        "a cluster",
        "Whose PodDisruptionBudgets it keeps here.",
    ),
    Key(
        "MADE_FOR",
        "Namespace that an agent has made, label",
        "a cluster",
        "For whose pods it was made here first.",
    ),
    Key(
        "MADE_OF",
        "Namespace that an agent has made, annotation",
        "a digest",
        "Of its labels then: one with others, or with other annotations, is never removed.",
    ),
    Key("BUDGETS", "shadow budget, annotation", "names", "Which budgets, for people."),
    Key("SOURCE_CLUSTER", "delegate, annotation", "a cluster", "Whose copy it is."),
    Key(
        "SOURCE_CLUSTER_UID",
        "delegate, annotation",
        "a UID",
        "The same: the UID of that cluster's kube-system.",
    ),
    Key("SOURCE_NAMESPACE", "delegate, annotation", "a namespace", "The same."),
    Key("SOURCE_NAME", "delegate, annotation", "a name", "The same."),
    Key("SOURCE_UID", "delegate, annotation", "a UID", "The same."),
    Key(
        "FOLLOWERS",
        "delegate, annotation",
        "`KIND/NAME`, separated by spaces",
        "What it names that was copied from its own cluster.",
    ),
    Key(
        "FOLLOWED",
        "delegate and source, condition",
        "`False`, `True`",
        "Whether the last change that was made at home reached the delegate; no condition: all did.",
    ),
    Key(
        "COPY",
        "copy of a ConfigMap or Secret, label",
        "a hash",
        "Of its original's cluster, namespace, kind and name, which annotations as of a delegate "
        "tell.",
    ),
    Key("COPY_OF", "copy of a ConfigMap or Secret, annotation", "a name", "The original's."),
    Key(
        "COPY_KIND",
        "ConfigMap beside a copy of a Secret, annotation",
        "`Secret`",
        "By it an agent that starts anew finds the copy, without the right to list Secrets.",
    ),
    Key(
        "DOWNWARD",
        "delegate, annotations",
        "any text",
        "What files of the downward API show (see [Fields of a pod](pod-fields.md)).",
    ),
    Key(
        "CARRIES",
        "source and delegate, annotation",
        "words, on a delegate also digests",
        "Which writes on the source [reach the delegate](../crossing.md#after-a-pod-went), and "
        "digests of what last did.",
    ),
    Key(
        "PROXY_LABEL",
        "proxy node, label",
        "a cluster",
        "The cluster that the proxy node stands for.",
    ),
    Key("PROXY_TAINT", "proxy node, taint", "NoSchedule", "Keeps pods of other schedulers away."),
    Key(
        "CLUSTER_READY", "proxy node, label", "`true`, `false`", "The last word about that cluster."
    ),
    Key(
        "ASKED_FOR_BY",
        "Lease of the executors, annotation",
        "who, and a number",
        "Another executor of the cluster waits for it; the number says that it still does.",
    ),
    Key(
        "CLOSED_BY_LEAVE",
        "proxy node, annotation",
        '`"true"`',
        "Cordoned because the cluster that has it leaves.",
    ),
)
# Constants that are no keys.
OTHERS = frozenset(("PREFIX",))


def declared() -> dict[str, str]:
    """Constants of the model that name a key of ours -> the key."""
    every = {
        name: value
        for name, value in vars(names).items()
        if name.isupper() and isinstance(value, str)
    }
    return {
        name: value for name, value in every.items() if names.PREFIX in value and name not in OTHERS
    }


def render() -> str:
    """The page."""
    known = declared()

    def rows(keys: tuple[Key, ...]) -> str:
        return table(
            ("key", "on", "values", "meaning"),
            ((code(known[one.name]), one.on, one.values, one.meaning) for one in keys),
        )

    return page(
        "Annotations and labels",
        "What a user writes only narrows where a pod may go (but for `none`, which says what the "
        "pod does "
        "without); a value or key that cannot be followed keeps the pod pending with the reason. "
        "Keys that begin with `global-dispatcher.io/x-` belong to your own plugins.",
        "## Written by users, on pods",
        rows(USERS),
        "## Written by administrators",
        rows(ADMINS),
        "## Written by agents",
        "Nobody else has to write these, and nothing is believed because it stands there: what "
        "matters is signed "
        "([the protocol](../protocol.md)).",
        rows(OURS),
    )
