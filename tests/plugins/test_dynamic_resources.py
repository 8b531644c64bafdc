from tests.builders import fleet, pod
from tests.plugins.asking import make, refused


def test_a_pod_that_claims_devices_is_told_the_field_and_what_to_do() -> None:
    asking = pod().set(resource_claims=("gpu", "nic"))
    assert refused(make("DynamicResources"), asking, fleet(a=["n1"])) == (
        "spec.resourceClaims (gpu, nic) are not supported: request an extended resource instead, or name the scheduler "
        "of the pod's own cluster in spec.schedulerName"
    )
    assert refused(make("DynamicResources"), pod(), fleet(a=["n1"])) == ""
