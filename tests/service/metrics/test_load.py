"""What /metrics says of the load of clusters."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from dispatcher.service.metrics.load import LoadCollector, _quantiles_of
from tests.builders import fleet, node, put, reading
from tests.builders import pod as a_pod


def test_requests_and_readings_are_told_by_cluster() -> None:
    state = fleet(now=100.0, a=[node("n1").cpu(6), node("n2").cpu(2), node("mute").cpu(4)], b=["n1"])
    put(state, a_pod("p").cpu("500m").memory("1Gi"), "a", "n2")
    state.put_reading("a", reading("n1", age=5.0, cpu=0.25))
    state.put_reading("a", reading("n2", age=9.0, cpu=0.75))
    registry = CollectorRegistry()
    registry.register(LoadCollector(state))

    def told(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"global_dispatcher_{name}", labels)

    assert told("cluster_allocatable", cluster="a", resource="cpu") == 12
    assert told("cluster_requested", cluster="a", resource="cpu") == 0.5
    assert told("cluster_requested", cluster="a", resource="memory") == 1 << 30
    assert told("cluster_requested", cluster="b", resource="pods") == 0
    loads = [told("node_load_ratio", cluster="a", signal="cpu", quantile=one) for one in ("0.5", "0.9", "1")]
    assert loads == pytest.approx([0.5, 0.7, 0.75])
    assert told("node_load_known_nodes", cluster="a", signal="cpu") == 2
    assert told("node_load_age_seconds", cluster="a", signal="cpu") == 9.0


def test_what_was_never_read_has_no_load_rather_than_none() -> None:
    state = fleet(b=["n1"])
    state.remove_node("b", "n1")
    families = {one.name: one.samples for one in LoadCollector(state).collect()}
    assert families["global_dispatcher_node_load_ratio"] == []
    assert {one.value for one in families["global_dispatcher_node_load_known_nodes"]} == {0}


@given(st.lists(st.floats(0, 2, width=32) | st.just(float("nan")), max_size=40))
def test_quantiles_are_numpys_of_what_is_known(used: list[float]) -> None:
    known = [one for one in used if not math.isnan(one)]
    found = list(_quantiles_of(np.array(used, dtype=np.float32)))
    want = np.quantile(np.array(known, dtype=np.float32), [0.5, 0.9, 1.0]).tolist() if known else []
    assert [value for _, value in found] == pytest.approx(want, rel=1e-5, abs=1e-6)
