"""The admission policy by which a pod's annotation asks for our scheduler, on planes that no chart
is installed on.
"""

import time
from pathlib import Path
from typing import Any

import yaml

from agents.runtime import admission
from localfleet.controlplane.api import Api
from localfleet.controlplane.binaries import release
from shared.model import names

MANIFEST = Path(admission.__file__).with_name("opt_in.yaml")
_PATH = "/apis/admissionregistration.k8s.io/v1"
_PLURALS = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
}
_PODS = "/api/v1/namespaces/default/pods?dryRun=All"
_PROBE: dict[str, Any] = {
    "metadata": {"name": "probe", "annotations": {names.SCHEDULE: "true"}},
    "spec": {"containers": [{"name": "main", "image": "none"}]},
}
_POLL_S = 0.1


def version(minor: str) -> str:
    """The version of MutatingAdmissionPolicy that planes of a minor serve; "" before 1.34, which
    have none.
    """
    if release(minor) >= (1, 36):
        return "v1"
    return "v1beta1" if release(minor) >= (1, 34) else ""


def opt_in(api: Api, timeout_s: float = 30.0) -> None:
    """Install it and wait until the API server acts by it; TimeoutError else. Needs Kubernetes 1.36
    or newer.
    """
    for one in yaml.safe_load_all(MANIFEST.read_text()):
        api.create(f"{_PATH}/{_PLURALS[one['kind']]}", one)
    deadline = time.monotonic() + timeout_s
    while api.create(_PODS, _PROBE)["spec"]["schedulerName"] != names.SCHEDULER_NAME:
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"the API server does not act by {MANIFEST.name} after {timeout_s:.0f} s"
            )
        time.sleep(_POLL_S)
