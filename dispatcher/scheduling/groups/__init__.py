"""Groups whose pods start together: which they are, and the best place for one as a whole."""

from dispatcher.scheduling.framework.pod_info import GroupId, group_id

__all__ = ["GroupId", "group_id"]
