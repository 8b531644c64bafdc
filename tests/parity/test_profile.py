"""What is compared is what our own profile `kube-scheduler` decides by."""

from dispatcher.config.kube_scheduler.read import OF_THE_FLEET
from dispatcher.scheduling.profile import KUBE_SCHEDULER_PROFILE
from tests.parity.profile import DEFAULT, PREEMPTING, WEIGHTS, profiles


def test_a_kube_scheduler_configuration_without_a_word_is_our_profile_kube_scheduler() -> None:
    read = [use for use in profiles()[PREEMPTING].plugins if use.name not in OF_THE_FLEET]
    assert {use.name: use for use in read} == {use.name: use for use in KUBE_SCHEDULER_PROFILE.plugins}


def test_weights_of_the_default_profile_are_those_that_scores_are_compared_with() -> None:
    names = {"FaultDomainSpread": "PodTopologySpread"}
    weights = {names.get(use.name, use.name): use.weight for use in profiles()[DEFAULT].plugins}
    assert {name: weights[name] for name in WEIGHTS[DEFAULT]} == WEIGHTS[DEFAULT]
