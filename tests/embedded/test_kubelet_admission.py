"""What a pod takes of its node, and the kubelet's refusals."""

import pytest

from localfleet.embedded.kubelet.admission import admit, effective_requests
from localfleet.embedded.kubelet.shapes import ShapeError, parse_shape
from shared.model.resources import QuantityError
from tests.embedded.simulated import Object


def one(cpu: str, **more: object) -> Object:
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}


@pytest.mark.parametrize(
    ("spec", "millicpu"),
    [
        ({"containers": [one("100m"), one("200m")]}, 300),
        ({"containers": [one("100m")], "initContainers": [one("1")]}, 1000),
        ({"containers": [one("100m")], "initContainers": [one("50m", restartPolicy="Always")]}, 150),
        ({"containers": [one("100m")], "initContainers": [one("50m", restartPolicy="Always"), one("1")]}, 1050),
        ({"containers": [one("100m")], "overhead": {"cpu": "7m"}}, 107),
        ({"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}, 2000),
    ],
    ids=["containers add up", "init peak", "sidecar adds", "init beside sidecar", "overhead", "limit is request"],
)
def test_effective_requests_follow_kubernetes(spec: Object, millicpu: int) -> None:
    requests = effective_requests(spec)
    assert requests["cpu"] == millicpu
    assert requests["pods"] == 1


def test_an_unreadable_request_names_its_container() -> None:
    with pytest.raises(QuantityError, match=r"container c requests\[cpu\]"):
        effective_requests({"containers": [one("1e999999")]})


def test_a_pod_that_fits_exactly_is_admitted() -> None:
    assert admit({"cpu": 500, "pods": 1}, {"cpu": 500, "pods": 1}, {"cpu": 1000, "pods": 2}) is None


def test_the_refusal_names_resource_request_use_and_capacity() -> None:
    rejection = admit({"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 8}, {"nvidia.com/gpu": 8})
    assert rejection is not None
    assert rejection.reason == "OutOfnvidia.com/gpu"
    assert rejection.event_message == (
        "Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 8, capacity: 8"
    )


def test_a_shape_is_read_from_the_command_line() -> None:
    shape = parse_shape("cpu=96,memory=384Gi,pods=50,gpu=8,count=3,zone=b,bandwidth=10G,type=G2")
    assert (shape.count, shape.zone, shape.type) == (3, "b", "G2")
    assert shape.resources["nvidia.com/gpu"] == "8"


@pytest.mark.parametrize(
    ("text", "word"),
    [("cpus=8", "cpus=8"), ("cpu", "cpu"), ("cpu=many", "cpu"), ("count=-1", "count"), ("count=0", "count")],
)
def test_a_bad_shape_names_the_key(text: str, word: str) -> None:
    with pytest.raises(ShapeError, match=word):
        parse_shape(text)
