"""Of several sources, which one a signal is read from."""

import pytest

from agents.observer.changes import ChangeLog
from agents.observer.loads import Loads, Measure, NodeLoad, Preference, Sample
from agents.observer.seen import NodeTarget

TARGET = NodeTarget("n", cpu=1000, memory=1000, bandwidth=1000)
ORDER = Preference(("prometheus", "kubelet"), {"memory": ("kubelet", "prometheus")}, stale_s=60.0)


def told(source: str, at: float, **values: float) -> Sample:
    return Sample(source, {name: Measure(value, at) for name, value in values.items()})


def a_load(preference: Preference = ORDER) -> NodeLoad:
    """prometheus says 0.1 of both, kubelet 0.2, both at 0."""
    load = NodeLoad(TARGET, 0.0, preference=preference)
    for source, cores, used in (("kubelet", 0.2, 200.0), ("prometheus", 0.1, 100.0)):
        load.add(told(source, 1.0, cpu=cores, memory=used), 0.0, source)
    return load


def test_each_signal_is_read_from_the_first_source_of_its_order() -> None:
    reading = a_load().reading(1.0)
    assert (reading.cpu, reading.memory, reading.source) == (0.1, 0.2, "prometheus+kubelet")
    assert [reading.source_of(name) for name in ("cpu", "memory")] == ["prometheus", "kubelet"]


def test_a_source_that_fell_silent_is_passed_over_for_one_that_did_not_until_it_is_back() -> None:
    load = a_load()
    load.add(told("kubelet", 61.0, cpu=0.3), 60.0, "kubelet")
    assert [load.reading(now).cpu for now in (60.0, 61.0)] == [0.1, 0.3]
    load.add(told("prometheus", 70.0, cpu=0.4), 70.0, "prometheus")
    assert load.reading(70.0).cpu == 0.4


def test_where_all_are_silent_the_freshest_counts_with_its_age() -> None:
    load = a_load()
    load.add(told("kubelet", 31.0, cpu=0.3), 30.0, "kubelet")
    reading = load.reading(500.0)
    assert (reading.cpu, reading.cpu_age_s, reading.memory, reading.memory_age_s) == (0.3, 470.0, 0.2, 500.0)


def test_a_source_that_an_order_does_not_name_is_not_believed() -> None:
    assert a_load(Preference(("kubelet",), {"memory": ("prometheus",)})).reading(0.0).cpu == 0.2
    assert a_load(Preference(("file",))).reading(0.0).cpu is None


def test_the_age_that_a_source_tells_is_the_age_of_its_value() -> None:
    load = NodeLoad(TARGET, 0.0)
    load.add(Sample("kubelet", {"cpu": Measure(0.5, 1000.0, age=40.0)}), 100.0)
    assert load.reading(105.0).cpu_age_s == 45.0


def test_the_same_old_sample_again_does_not_become_younger() -> None:
    load = NodeLoad(TARGET, 0.0)
    for now in (100.0, 115.0, 130.0):
        load.add(Sample("kubelet", {"cpu": Measure(0.5, 1000.0, age=now - 100.0)}), now)
    assert load.reading(130.0).cpu_age_s == 30.0


def test_rates_are_those_of_the_source_that_the_network_is_read_from() -> None:
    load = NodeLoad(TARGET, 0.0, preference=Preference(("prometheus", "kubelet")))
    load.add(told("kubelet", 1.0, network_receive=500.0), 0.0, "kubelet")
    load.add(told("prometheus", 1.0, network_receive=250.0, network_transmit=100.0), 0.0, "prometheus")
    reading = load.reading(1.0)
    assert (reading.net, reading.receive_bytes_s, reading.transmit_bytes_s) == (0.25, 250.0, 100.0)


def test_a_link_speed_makes_a_share_of_bytes() -> None:
    load = NodeLoad(NodeTarget("n"), 0.0)
    load.add(told("kubelet", 1.0, network_receive=5e8, link_speed=1e9), 0.0)
    assert load.reading(0.0).net == 0.5


def test_ages_are_told_by_source_and_signal() -> None:
    loads = Loads(ChangeLog(), tau_s=0, preference=ORDER)
    loads.add(TARGET, told("prometheus", 1.0, cpu=0.1), 0.0, "prometheus")
    loads.add(NodeTarget("m", cpu=1000), told("prometheus", 1.0, cpu=0.1), 20.0, "prometheus")
    loads.add(TARGET, told("kubelet", 1.0, memory=0.1), 30.0, "kubelet")
    assert sorted(loads.values(["m", "n", "gone"], 40.0)) == [
        ("m", "prometheus", "cpu", 20.0),
        ("n", "kubelet", "memory", 10.0),
        ("n", "prometheus", "cpu", 40.0),
    ]


@pytest.mark.parametrize("signal", ["cpu", "memory", "network", "disk"])
def test_without_a_word_about_it_kubelets_are_believed(signal: str) -> None:
    assert Preference().of(signal) == ("kubelet",)
    assert Preference().sources() == {"kubelet"}
