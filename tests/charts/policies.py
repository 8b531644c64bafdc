"""When the validating policies of a chart are in force."""

from localfleet.controlplane.plane import ControlPlane
from tests.system.cluster_api import eventually

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
SCOPE = "/api/v1/namespaces/default/configmaps"
NAMED = {"metadata": {"name": "last-policy"}}


def wait_for_policies(plane: ControlPlane) -> None:
    """Return once every ValidatingAdmissionPolicy made so far is in force.

    An API server reads policies anew about once a second, all that it has seen by then. Each that was there before one
    made now is in force when that one is: it refuses ConfigMaps of its own name.
    """
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    spec = {
        "matchConstraints": {"resourceRules": [{**rule, "resourceNames": ["last-policy"]}]},
        "validations": [{"expression": "false"}],
    }
    plane.admin.create(f"{ADMISSION}/validatingadmissionpolicies", {**NAMED, "spec": spec})
    bound = {"policyName": "last-policy", "validationActions": ["Deny"]}
    plane.admin.create(f"{ADMISSION}/validatingadmissionpolicybindings", {**NAMED, "spec": bound})
    probe = f"{SCOPE}?dryRun=All"
    eventually(lambda: plane.admin.http.post(probe, json=NAMED).status_code == 422, 30)
