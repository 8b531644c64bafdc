"""Names that users and peers see: annotations, labels, finalizers, the scheduler name."""

from functools import lru_cache

PREFIX = "global-dispatcher.io/"
SCHEDULER_NAME = "global-dispatcher"

# What users write on a pod.
SCHEDULE = PREFIX + "schedule"  # "true": this pod is ours (admission turns it into schedulerName)
CLUSTERS = PREFIX + "clusters"  # "a,b": the allowed set of clusters
STAY = PREFIX + "stay"  # "true": only the cluster of submission
SPREAD = PREFIX + "spread"  # "zone=1,cluster=2:soft": max skew per fault-domain level
# "cluster": no fault domain of its spread and affinity spans clusters
DOMAIN_SCOPE = PREFIX + "domain-scope"
# "strict", "lease" or "asap": when a copy in a lost cluster may be replaced
FAILOVER = PREFIX + "failover"
NEAR = PREFIX + "near"  # "cluster/a", "service/ns/name" or "zone/x": rather near to that
DATA = PREFIX + "data"  # the name of a dataset: rather near to where it is
REQUIRE_DATA = PREFIX + "require-data"  # the same, and nowhere else than where it is
# "none", also as a label of its namespace: it calls no Service of its namespace by name
SERVICES = PREFIX + "services"
# "none": it needs neither rights nor token of its ServiceAccount
SERVICE_ACCOUNT = PREFIX + "service-account"
DEFAULT_ACCOUNT = "default"  # a ServiceAccount of each namespace, of pods that name none
PRIORITY = PREFIX + "priority"  # "none": in other clusters it does without its PriorityClass
NONE = "none"  # what says so in the three above, and in CONSENT
# "false": never moved off a hot node; "true": also if a Job or the like controls it
REBALANCE = PREFIX + "rebalance"

# the gang that the pod is a member of; how many of its members start together; "rack", "zone",
# "cluster" (the default), "fleet" or a node label: of which all members share one value
GROUP = PREFIX + "group"
GROUP_MIN = PREFIX + "group-min"
GROUP_WITHIN = PREFIX + "group-within"

# What we write on a source pod.
FINALIZER = PREFIX + "delegate"
CLAIM_CLUSTER = PREFIX + "cluster"
CLAIM_NODE = PREFIX + "node"
EPOCH = PREFIX + "epoch"
DECISION = PREFIX + "decision"  # one line of why: score, runner-up, margin
CLAIM = PREFIX + "claim"  # the claim as a record signed by the source cluster; also on the delegate

# What we write on a delegate pod. The label is what the observer selects delegates by.
DELEGATE_LABEL = PREFIX + "delegate"
# spec.schedulerName of delegates: no scheduler's, so nobody else places them
DELEGATE_SCHEDULER = PREFIX + "delegate"
BUDGET = PREFIX + "budget"  # label of a delegate: the name of the shadow budget that covers it
# label of a proxy node, "true": an operator says that nothing runs in its cluster any more
FENCED = PREFIX + "fenced"
# the target cluster's signature over the delegate's own UID
DELEGATE_PROOF = PREFIX + "delegate-proof"
SOURCE_CLUSTER = PREFIX + "source-cluster"
SOURCE_CLUSTER_UID = PREFIX + "source-cluster-uid"
SOURCE_NAMESPACE = PREFIX + "source-namespace"
SOURCE_NAME = PREFIX + "source-name"
SOURCE_UID = PREFIX + "source-uid"
# what it names that follows it from home: in a manifest with digests, on a delegate by name
FOLLOWERS = PREFIX + "follows"
FOLLOWED = PREFIX + "followed"  # condition of a delegate: "False" while a change is refused
DOWNWARD = PREFIX + "downward-"  # begins annotations that hold what files of the downward API show
# On a delegate: which writes on its source reach it, and digests of what did last. On a source that
# runs elsewhere: which of its writes do, so that admission lets them through.
CARRIES = PREFIX + "carries"

# Copies of what delegates name (ConfigMaps, Secrets). The label is the hash in the copy's own name.
COPY = PREFIX + "copy"
COPY_OF = PREFIX + "copy-of"  # annotation: name of the original; its cluster is told as a source's
COPY_KIND = PREFIX + "copy-kind"  # on a note of a copy: of which kind that is (copy_notes)

# the label of all that is made of Services of a source's namespace is the same; what makes slices
MANAGER = "global-dispatcher.io"
# What users write on a Service of theirs: "true": addresses of pods of other clusters' Services of
# that name are added to it.
JOIN = PREFIX + "join"

# What users write on an object that pods of theirs name. "none": it does not follow them, each
# cluster has its own of that name. On a Secret also the clusters to which it does, with commas;
# patterns.
CONSENT = PREFIX + "follow"
SECRETS_CONSENT = PREFIX + "secrets-follow"  # on a Namespace: the same, of Secrets that do not say

# Shadow budgets: PodDisruptionBudgets that keep the budgets of other clusters for their delegates
# here.
BUDGET_OF = PREFIX + "budget-of"  # label: the cluster whose budgets it keeps
BUDGETS = PREFIX + "budgets"  # annotation: which budgets, for people
BUDGET_PREFIX = "global-dispatcher-"  # begins their names

# What admins write on a Namespace, as label or annotation: anything but "true" closes it to pods of
# other clusters.
ACCEPT = PREFIX + "accept"
# on a Namespace that an executor has made: label, the cluster for whose pods; annotation, what it
# was made of
MADE_FOR = PREFIX + "made-for"
MADE_OF = PREFIX + "made-of"
OPEN = "true"

# What a cluster's executor that waits writes on the Lease of the one that acts: that it does, and
# how often it said so.
ASKED_FOR_BY = PREFIX + "asked-for-by"

# The same, "true": inter-pod terms of pods of other clusters, and of any namespace there, may mean
# its pods.
AFFINITY_FROM_OTHERS = PREFIX + "affinity-from-other-clusters"

# What operators write on the Lease of an agent's state; the agent takes it off when it has done so.
# "true": what the API server shows since it went back is meant
CONFIRM_RESTORED = PREFIX + "confirm-restored"
# and a cluster's name, "true": believe the next keys that are heard of it
FORGET_KEYS = PREFIX + "forget-keys."

# Proxy nodes.
PROXY_NODE_PREFIX = "global-dispatcher-"  # proxy node of cluster x is "global-dispatcher-x"
OWN_NETWORK = "own"  # value of `network` of a cluster whose pod network no other cluster is part of
# Pods of another cluster of the same network answer at their addresses, do not, or are not tried (or
# not often enough yet to be one of the others)
REACHED = "reached"
UNREACHED = "unreached"
UNTRIED = "untried"
REACH = (REACHED, UNREACHED, UNTRIED)
PROXY_LABEL = PREFIX + "proxy-for"
PROXY_TAINT = PREFIX + "proxy"  # key of the NoSchedule taint on every proxy node
# annotation: what our admission policy has done to a pod or DaemonSet of others
PROXY_NODES = PREFIX + "proxy-nodes"
LEFT_OUT = "left-out"  # its value: given a requirement on nodes that proxy nodes do not meet
# annotation, "true": cordoned because the cluster that has it leaves
CLOSED_BY_LEAVE = PREFIX + "closed-by-leave"
# label: "true" or "false", the last word about that cluster
CLUSTER_READY = PREFIX + "cluster-ready"

# As whom kubelets are asked where no chart says otherwise: NAMESPACE/NAME of a ServiceAccount that
# may do nothing else.
KUBELET_ACCOUNT = "kube-node-lease/global-dispatcher-kubelets"

# Well-known labels of Kubernetes.
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
RACK = "topology.kubernetes.io/rack"
CONTROL_PLANE = (
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
)  # node labels
PROVIDER = PREFIX + "provider"
TOPOLOGY_LABELS = (
    REGION,
    ZONE,
)  # of a node, which its pods show, too: API servers from 1.35 write them at the binding
SHARED_LABELS = (
    REGION,
    ZONE,
    PROVIDER,
)  # of a cluster, where all its nodes agree; its proxy nodes show them
# node label or annotation: network capacity in bytes/s per direction (a quantity)
BANDWIDTH = PREFIX + "bandwidth"

# node annotation: any number or quantity, which plugins may read
METRIC_PREFIX = "metric." + PREFIX

# extended resource: thousandths of a GPU, 1000 for each that the node has
GPU_MILLI = PREFIX + "gpu-milli"

# Annotations with a domain that mean the same in every cluster; a row of the target's policy may
# list others.
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"  # "true", "false"
SAFE_LOCAL_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"  # names: "a,b"
CARRIED_ANNOTATIONS = (
    "checksum/*",  # Helm charts roll pods out by them
    "prometheus.io/*",
    SAFE_TO_EVICT,
    SAFE_LOCAL_VOLUMES,
    "karpenter.sh/do-not-disrupt",
    "descheduler.alpha.kubernetes.io/evict",
    "descheduler.alpha.kubernetes.io/prefer-no-eviction",
    "kubectl.kubernetes.io/default-container",
    "kubectl.kubernetes.io/restartedAt",
    "sidecar.istio.io/inject",
    "linkerd.io/inject",
    # Read by the kubelets of embedded clusters alone, which run no containers.
    "embedded.global-dispatcher.io/*",
)
# Whose labels and annotations say as whom a pod speaks to others, or through what: meshes, cloud
# identities, networks.
_STEERING_DOMAINS = (
    "istio.io",
    "linkerd.io",
    "kuma.io",
    "consul.hashicorp.com",
    "vault.hashicorp.com",
    "spiffe.io",
    "azure.workload.identity",
    "aadpodidbinding",
    "iam.amazonaws.com",
    "eks.amazonaws.com",
    "vpc.amazonaws.com",
    "iam.gke.io",
    "cni.cncf.io",
    "cilium.io",
    "projectcalico.org",
)
_APP_LABELS = "app.kubernetes.io/"
_RESERVED_DOMAINS = ("kubernetes.io", "k8s.io")
# Labels that controllers make anew for each template, job or replica.
GENERATED_LABELS = frozenset(
    (
        "pod-template-hash",
        "controller-revision-hash",
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "controller-uid",
        "job-name",
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-name",
        "batch.kubernetes.io/job-completion-index",
    )
)
# By which schedulers know the groups that a pod is a member of, also those that are placed whole
# here: a delegate comes alone, and whoever counts members where it runs is not to count it.
_GROUP_MARKS = frozenset(
    (
        "scheduling.x-k8s.io/pod-group",
        "pod-group.scheduling.sigs.k8s.io",
        "scheduling.k8s.io/group-name",
        "scheduling.volcano.sh/group-name",
        "pod-group-name",
        "kai.scheduler/subgroup-name",
        "yunikorn.apache.org/task-group-name",
        "yunikorn.apache.org/task-groups",
    )
)
_GROUP_DOMAINS = ("pod-group.scheduling.sigs.k8s.io/", "gang.scheduling.koordinator.sh/")


def is_ours(scheduler_name: str) -> bool:
    """Whether a spec.schedulerName asks for us: our name, or our name and a profile's suffix,
    'global-dispatcher-x'.
    """
    return scheduler_name == SCHEDULER_NAME or scheduler_name.startswith(f"{SCHEDULER_NAME}-")


def is_reserved(key: str) -> bool:
    """Whether a label or annotation key is Kubernetes' or ours to write: *.kubernetes.io, *.k8s.io,
    our prefix.
    """
    domain, slash, _ = key.partition("/")
    if not slash:
        return False
    return f"{domain}/" == PREFIX or any(
        domain == name or domain.endswith(f".{name}") for name in _RESERVED_DOMAINS
    )


def steers(key: str) -> bool:
    """Whether a label or annotation key is of a mesh, a network or a provider of identities."""
    domain, _, _ = key.partition("/")
    return any(domain == name or domain.endswith(f".{name}") for name in _STEERING_DOMAINS)


def marks_group(key: str) -> bool:
    """Whether a label or annotation key says of which group a pod is, to some scheduler."""
    return key in _GROUP_MARKS or key.startswith(_GROUP_DOMAINS)


@lru_cache(maxsize=4096)
def is_app_label(key: str) -> bool:
    """Whether a label says what a pod is, rather than who made it: those travel with a delegate,
    the others do not.
    """
    if key in GENERATED_LABELS or steers(key) or marks_group(key):
        return False
    return key.startswith(_APP_LABELS) or not is_reserved(key)


def proxy_node_name(cluster: str) -> str:
    """Name of the virtual node that stands for `cluster` in every other cluster."""
    return PROXY_NODE_PREFIX + cluster


def marks_lost(node: str) -> str:
    """What to do with a Node that is named as a proxy node, and has neither its label nor its taint
    any more.
    """
    return (
        "if it is no machine but a proxy node that lost our label and taint (`kubectl get nodes` "
        "shows VERSION "
        f"{SCHEDULER_NAME}), delete that Node object (kubectl delete node {node}): it is made anew"
    )
