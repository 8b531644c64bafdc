"""The page of reasons why a pod waits, with what to do about each; its texts are those that pods
are told.
"""

from docs.generate.markdown import code, page, table
from shared.model.reasons import Reason

REMEDIES: dict[Reason, str] = {
    Reason.INSUFFICIENT: "No such node has enough free of that resource. `explain` counts the "
    "nodes; ask for less, or add nodes.",
    Reason.TOO_MANY_PODS: "The node runs as many pods as its kubelet allows "
    "(`status.allocatable.pods`).",
    Reason.NOT_NAMED: "A plugin's PreFilter left other nodes than these; `explain` names it.",
    Reason.NODE_NAME: "`spec.nodeName` or a node affinity by name asks for another node.",
    Reason.UNSCHEDULABLE: "The node is cordoned: `kubectl uncordon`.",
    Reason.AFFINITY: "Compare `spec.nodeSelector` and node affinity with `kubectl get nodes "
    "--show-labels`, in each cluster.",
    Reason.PROXY_ASKED: "A proxy node stands for a cluster, and no node of the fleet has its "
    "labels. Take that clause out of `spec.nodeSelector` or node affinity, and name the cluster "
    "in the annotation.",
    Reason.ADDED_AFFINITY: "The profile's NodeAffinity argument `added_affinity` (`addedAffinity` "
    "in a KubeSchedulerConfiguration) leaves the node out.",
    Reason.TAINT: "Tolerate the taint, or use other nodes. In other clusters a toleration without "
    "a key reaches less: see [what crosses](../crossing.md).",
    Reason.TAINT_ABROAD: "In other clusters a toleration without a key reaches less ([what "
    "crosses](../crossing.md)): name the key, or ask that cluster's administrators.",
    Reason.HOT: "The node was too busy by that signal, and is not cool yet (HotNode): `top nodes` "
    "shows since when. It is tried again when a node is cool.",
    Reason.NODE_FEATURES: "The pod needs a feature of kubelet or runtime that the node does not "
    "list in `status.declaredFeatures`, of restartPolicyRules with RestartAllContainers, "
    "bindMountOptions, or hostNetwork with hostUsers false. Turn it on there, or take the field "
    "out.",
    Reason.PORTS: "Another pod has the host port on that node.",
    Reason.SPREAD: "One more pod there would be further ahead of the emptiest domain than "
    "`maxSkew` allows; the message names that domain, whose nodes cannot take the pod.",
    Reason.SPREAD_LABEL: "The node lacks the label of a hard topology spread constraint.",
    Reason.POD_AFFINITY: "No pod that the required affinity asks for is in the node's domain.",
    Reason.POD_ANTI_AFFINITY: "A pod that the required anti-affinity avoids is in the node's "
    "domain.",
    Reason.EXISTING_ANTI_AFFINITY: "A pod in the node's domain has an anti-affinity that avoids "
    "this pod.",
    Reason.DISK_CONFLICT: "Another pod on the node uses the same disk, in a way that excludes "
    "this one.",
    Reason.CLAIM_IN_USE: "The claim is ReadWriteOncePod, and another pod uses it.",
    Reason.VOLUME_LIMIT: "The CSI driver attaches no more volumes to that node (CSINode).",
    Reason.CSI_DRIVER: "The pod has a volume of that CSI driver, whose CSIDriver object says "
    "`preventPodSchedulingIfMissing`, and the node's CSINode does not list it: install the driver "
    "there.",
    Reason.VOLUME_AFFINITY: "The claim's volume cannot be reached from that node.",
    Reason.VOLUME_BINDING: "No free volume fits the claim, and its class provisions none for that "
    "node.",
    Reason.STORAGE_SPACE: "The CSI driver reports too little capacity there (CSIStorageCapacity).",
    Reason.VOLUME_MISSING: "The claim is bound to a volume that is not there.",
    Reason.VOLUME_ZONE: "The claim's volume is in another zone.",
    Reason.NOT_READY: "The node's kubelet does not report: `kubectl describe node`.",
    Reason.CLUSTER_NOT_READY: "`global-dispatcher clusters` says what is wrong with that cluster.",
    Reason.VOLUMES_ELSEWHERE: "A pod with claims or an inline disk stays in its own cluster.",
    Reason.DATA_ELSEWHERE: "The pod's `global-dispatcher.io/require-data` names data that is in "
    "other clusters: see "
    "`datasets` of DataLocality in the profile.",
    Reason.CLUSTER_NOT_ALLOWED: "The pod's `global-dispatcher.io/clusters` or `stay` leaves it "
    "out.",
    Reason.PROXY_TAINT: "Somebody has tainted the proxy node in the pod's own cluster: take the "
    "taint off, or let the pod tolerate it.",
    Reason.CLUSTER_CORDONED: "`global-dispatcher cluster uncordon NAME`, once it may take pods "
    "again.",
    Reason.CLUSTER_REFUSED: "`explain` says what that cluster answered and when it is tried "
    "again. Mend "
    "the cause there. To have it tried at once, change a label of the Namespace there.",
    Reason.NAMESPACE_ABSENT: "Create a namespace of the same name in that cluster, or list it "
    "there in `executor.namespaces.create`, if the pod may go there.",
    Reason.NAMESPACE_CLOSED: "The namespace there is `kube-*`, listed in `executor.closed`, "
    "covered by no row of `executor.accept`, or has the label, or annotation, "
    '`global-dispatcher.io/accept` with anything but `"true"`: `explain` says so.',
    Reason.CANNOT_CROSS: "Do what the text says: change the field, write the annotation, or add "
    "the word to a row of `executor.accept` in that "
    "cluster ([what crosses](../crossing.md)).",
    Reason.SERVICES_ABSENT: "Create the Services there. Pods that call none by name say so with "
    "`global-dispatcher.io/services: none` (the pod's "
    "annotation, a label of its namespace at home, or `services: none` in a row of "
    "`executor.accept` there). In one pod network they can [follow](../crossing.md#services).",
    Reason.REFUSED: "The node's agent had fresher knowledge. The pod is tried again by itself.",
    Reason.POLICY: "A plugin of your own refuses the node.",
    Reason.PLUGIN_ERROR: "The plugin failed: the dispatcher's log has the error.",
    Reason.NAMED_APART: "Two plugins' PreFilters leave no common node; `explain` names them.",
    Reason.AFFINITY_CONFLICT: "The node affinity names nodes that exclude each other.",
    Reason.QUOTA: "The tenant has used its quota. `explain` says how much of what; wait, delete, "
    "or raise the quota.",
    Reason.QUOTA_UNKNOWN: "A cluster was not heard since the dispatcher started, so nobody knows "
    "what the tenant uses there. Mend the cluster, or set `quota.unheard: ignore`.",
    Reason.GATED: "Whoever put the scheduling gate on has to take it off.",
    Reason.INVALID: "The text says what of the pod cannot be read, or means nothing. Correct it.",
    Reason.NOT_FOUND: "Create the object that the pod refers to.",
    Reason.CLAIM_AWAITED: "Kubernetes makes this claim; if it lasts, look at the controller "
    "manager.",
    Reason.CLAIM_LOST: "The claim has lost its volume: `kubectl describe pvc`.",
    Reason.CLAIM_DELETED: "The claim is going. Create another one, or do not delete it while pods "
    "use it.",
    Reason.CLAIM_NOT_OWNED: "A claim of the ephemeral volume's name is there, and is not this "
    "pod's. Delete or rename it.",
    Reason.CLAIM_UNBOUND: "The claim's class binds at once and has not: `kubectl describe pvc`.",
    Reason.CLAIM_WITHOUT_CLASS: "Name a storage class or a volume in the claim.",
    Reason.CLAIM_WITHOUT_VOLUME: "The volume object is broken: `kubectl get pv -o yaml`.",
    Reason.DEVICES: "Ask for an extended resource instead (`resources.limits`), or leave the pod "
    "to kube-scheduler.",
    Reason.NO_PROFILE: "Use one of the schedulerNames that are listed, or configure a profile of "
    "that name.",
    Reason.PERMIT: "The other pods of its group did not come in time, or had no place. It is "
    "tried again.",
    Reason.UNANSWERED: "Wait until the cluster is back; or, if nothing runs there any more, "
    "`global-dispatcher cluster fence NAME`.",
    Reason.STILL_ELSEWHERE: "An earlier copy ends there; the pod goes on by itself when it is "
    "gone.",
    Reason.TOO_SLOW: "A pod of the namespace took more than 50 ms to decide, again and again. It "
    "is tried again within a minute.",
    Reason.TOO_MANY_TERMS: "Let the pods of a namespace share their terms (one template, "
    "selectors without the name of "
    "a pod), or raise `most_terms_about_others` of InterPodAffinity. It is tried again when a pod "
    "of it goes, or one comes that holds its terms already.",
    Reason.LABELS_CUT: "Remove labels of the pod that is named, or the pod (its labels take more "
    "than 16 KiB of memory, or "
    "large pods of its namespace take more than 64 MiB together). It is tried again when that "
    "changes.",
    Reason.PREEMPTED: "It is tried again by itself.",
    Reason.PRE_BIND: "Volumes could not be prepared; the text says why. It is tried again.",
}


def render() -> str:
    """The page."""
    rows = ((code(reason.value), REMEDIES[reason]) for reason in Reason)
    return page(
        "Reasons",
        "Why a pod waits is a condition of the pod (`kubectl describe pod`), an event, and in full "
        "`global-dispatcher explain NAMESPACE/POD`. The texts are kube-scheduler's where it has "
        "one; `{}` stands for what it is about.",
        table(("reason", "what to do"), rows),
    )
