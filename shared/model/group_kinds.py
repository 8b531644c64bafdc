"""What may define a group of pods: the values of `Group.kind`."""

from shared.model.names import GROUP

# A PodGroup, by the API that has it, as kubectl names that.
POD_GROUPS = "podgroups.scheduling.k8s.io"
COSCHEDULING = "podgroups.scheduling.x-k8s.io"
COSCHEDULING_OF_OLD = "podgroups.scheduling.sigs.k8s.io"  # before 0.24; Koordinator still
VOLCANO = "podgroups.scheduling.volcano.sh"
KAI = "podgroups.scheduling.run.ai"
# Annotations of the members themselves.
OURS = GROUP
KOORDINATOR = "gang.scheduling.koordinator.sh/name"

# Versions of the API of POD_GROUPS, the newest first: v1beta1 came with Kubernetes 1.37, v1alpha2
# is 1.36's alone.
VERSIONS = ("v1", "v1beta1", "v1alpha3", "v1alpha2")
