from tests.builders import fleet, pod
from tests.plugins.asking import make, scores


def test_home_cluster_prefers_the_cluster_of_submission() -> None:
    state = fleet(a=["n1", "n2"], b=["n1"])
    assert scores(make("HomeCluster"), pod().placed("b"), state) == {"a/n1": 0, "a/n2": 0, "b/n1": 100}


def test_home_cluster_prefers_nothing_for_an_unknown_home() -> None:
    assert scores(make("HomeCluster"), pod().placed("gone"), fleet(a=["n1"])) == {"n1": 0}
