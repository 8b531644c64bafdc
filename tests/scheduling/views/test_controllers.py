"""The pods of a controller are found by its name."""

import pytest

from dispatcher.scheduling.events import ClusterChanged
from dispatcher.scheduling.views import pods_view, whole
from shared.messages import Changes
from shared.model.names import SCHEDULER_NAME
from shared.model.pod import Pod
from tests.laws.cores import make_core


@pytest.mark.parametrize(
    ("owner", "labels", "controller", "deployment"),
    [
        pytest.param("", {}, "", "", id="nobody's"),
        pytest.param("Job/train/u", {}, "Job/train", "", id="a Job's"),
        pytest.param("StatefulSet/db/u", {}, "StatefulSet/db", "", id="a StatefulSet's"),
        pytest.param(
            "ReplicaSet/web-5d4f/u",
            {"pod-template-hash": "5d4f"},
            "ReplicaSet/web-5d4f",
            "Deployment/web",
            id="a Deployment's",
        ),
        pytest.param("ReplicaSet/web-5d4f/u", {}, "ReplicaSet/web-5d4f", "", id="a ReplicaSet's own"),
        pytest.param(
            "ReplicaSet/web/u", {"pod-template-hash": "5d4f"}, "ReplicaSet/web", "", id="a label that is no hash"
        ),
        pytest.param(
            "Job/web-5d4f/u", {"pod-template-hash": "5d4f"}, "Job/web-5d4f", "", id="a Job with a Deployment's label"
        ),
    ],
)
def test_a_row_names_the_controller_and_its_deployment(
    owner: str, labels: dict[str, str], controller: str, deployment: str
) -> None:
    core = make_core(("east",))
    pod = Pod("uid-a", "default", "a", labels=labels, owner=owner, scheduler_name=SCHEDULER_NAME)
    core.handle(ClusterChanged(Changes("east", "uid", "life", 0, 1, full=True, pods=(pod,))), 1.0)
    (row,) = whole(pods_view(core))
    assert (row["controller"], row["deployment"]) == (controller, deployment)
