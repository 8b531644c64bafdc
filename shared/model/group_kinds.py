"""What may define a group of pods: the values of `Group.kind`."""

from typing import Final

from shared.model.names import GROUP

# A PodGroup, by the API that has it, as kubectl names that.
POD_GROUPS: Final = "podgroups.scheduling.k8s.io"
COSCHEDULING: Final = "podgroups.scheduling.x-k8s.io"
COSCHEDULING_OF_OLD: Final = "podgroups.scheduling.sigs.k8s.io"  # before 0.24; Koordinator still
VOLCANO: Final = "podgroups.scheduling.volcano.sh"
KAI: Final = "podgroups.scheduling.run.ai"
OBJECTS: Final = (POD_GROUPS, COSCHEDULING, COSCHEDULING_OF_OLD, VOLCANO, KAI)
# What the members themselves say: an annotation, or a label.
OURS: Final = GROUP
KOORDINATOR: Final = "gang.scheduling.koordinator.sh/name"
LIGHTWEIGHT: Final = "pod-group.scheduling.sigs.k8s.io/name"

# Versions of the API of POD_GROUPS, the newest first: v1beta1 came with Kubernetes 1.37, v1alpha2
# is 1.36's alone.
VERSIONS: Final = ("v1", "v1beta1", "v1alpha3", "v1alpha2")
