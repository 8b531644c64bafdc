"""Pods that may not preempt, or that evictions do not help, and the message each gets."""

from dispatcher.scheduling.fleet.nominations import Nominee
from shared.model.objects import CSIDriver
from tests.builders import fleet, node, pod, put
from tests.plugins.asking import make
from tests.plugins.preempting import Low, full, names, needing, refused, scheduler, urgent
from tests.plugins.storage import bound, keep, volume


def test_where_leaving_does_not_help_it_is_said_why() -> None:
    state = fleet(a=[node("n1").cpu(4), node("n2").cpu(4).ready(False), node("n3").cpu(4)])
    put(state, pod("peer").cpu(4).priority(100), "a", "n1")
    put(state, pod("half").cpu(2).priority(100), "a", "n3")
    put(state, pod("low").cpu(2).priority(1), "a", "n3")
    assert refused(scheduler(state), urgent()).message.endswith(
        " preemption: 0/3 nodes are available: 1 Insufficient cpu, "
        "1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
    )


def test_where_there_is_no_node_nothing_is_said_of_preemption() -> None:
    assert refused(scheduler(fleet(a=[])), urgent()).message == "no nodes available to schedule pods"


def test_a_pod_that_may_not_preempt_does_not() -> None:
    result = refused(scheduler(full(n1=[Low("low", cpu=4)])), urgent().set(preempts=False))
    assert result.nominated is None
    assert result.message.endswith(" preemption: not eligible due to preemptionPolicy=Never.")


def test_a_pod_whose_room_is_being_cleared_waits() -> None:
    state = full(n1=[Low("low", cpu=4)], n2=[Low("other", cpu=4)])
    one = scheduler(state)
    first = refused(one, urgent())
    assert first.nominated == ("a", "n1")
    again = refused(one, urgent())
    assert again.message.endswith(" preemption: not eligible due to a terminating pod on the nominated node.")
    assert (again.nominated, again.victims) == (("a", "n1"), ())


def test_a_pod_that_prefilter_refuses_is_told_that_evictions_do_not_help() -> None:
    state = full(n1=[Low("l", cpu=4)], n2=[])
    found = refused(scheduler(state, make("VolumeBinding")), needing("missing"))
    assert found.victims == ()
    assert found.message == (
        '0/2 nodes are available: persistentvolumeclaim "missing" not found. '
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )


def test_a_node_that_lacks_a_csi_driver_is_searched_for_victims_in_vain_as_by_kube_scheduler() -> None:
    """Its plugin (nodevolumelimits/csi.go) answers Unschedulable, and not UnschedulableAndUnresolvable."""
    driver = "ebs.csi.aws.com"
    state = keep(full(n1=[Low("l")]), bound("c", "pv"), volume("pv", driver=driver, handle="h"))
    found = refused(scheduler(keep(state, CSIDriver(driver, required=True)), make("NodeVolumeLimits")), needing("c"))
    assert found.victims == ()
    lacking = f"0/1 nodes are available: 1 {driver} CSI driver is not installed on the node."
    assert found.message == f"{lacking} preemption: {lacking}"


def test_a_pod_that_prefilter_refuses_and_that_never_preempts_is_told_that() -> None:
    found = refused(scheduler(full(n1=[]), make("VolumeBinding")), needing("missing").set(preempts=False))
    assert found.message.endswith("not found. preemption: not eligible due to preemptionPolicy=Never.")


def test_a_node_that_empties_itself_for_nobody_is_not_waited_for() -> None:
    """Only pods that a scheduler has evicted are: kube-scheduler's podTerminatingByPreemption."""
    state = full(n1=[Low("l", cpu=4)], n2=[Low("m", cpu=4)])
    for name, preempted, victims in (("l", False, ["l"]), ("m", True, [])):
        one, node_name = scheduler(state), "n1" if name == "l" else "n2"
        going = pod(name).cpu(4).set(terminating=True, preempted=preempted)
        state.remove(("a", going.build().uid))
        put(state, going, "a", node_name)
        placed = urgent().placed()
        one.nominations.put(Nominee(("a", placed.pod.uid), placed, "a", node_name))
        assert names(refused(one, urgent()).victims) == victims
