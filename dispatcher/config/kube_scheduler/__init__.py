"""KubeSchedulerConfiguration files: kube-scheduler's own settings, read where they mean the same
here.

What has no meaning for us is noted and left out (`notes`); what would decide otherwise than it says
is a problem that names the key and the fix. Source: kubescheduler.config.k8s.io/v1 of Kubernetes
1.37.
"""

from dispatcher.config.kube_scheduler.read import (
    KIND,
    KubeScheduler,
    is_kube_scheduler,
    read_kube_scheduler,
)

__all__ = ["KIND", "KubeScheduler", "is_kube_scheduler", "read_kube_scheduler"]
