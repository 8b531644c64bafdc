"""Which plugin refuses for which reason."""

import inspect
import re

import pytest

from dispatcher.plugins.registry import REGISTRY
from dispatcher.service.refused_by import REFUSED_BY
from shared.model.reasons import Reason
from tests.plugins.asking import make

# Any plugin may give these, or none does: they are the dispatcher's own.
OF_NO_PLUGIN = {
    Reason.INVALID,
    Reason.LABELS_CUT,
    Reason.NAMED_APART,
    Reason.NOT_NAMED,
    Reason.NO_PROFILE,
    Reason.PERMIT,
    Reason.PLUGIN_ERROR,
    Reason.POLICY,
    Reason.PRE_BIND,
    Reason.PREEMPTED,
    Reason.REFUSED,
    Reason.STILL_ELSEWHERE,
    Reason.TOO_SLOW,
    Reason.UNANSWERED,
}


def test_each_reason_is_of_one_plugin_or_known_to_be_of_none() -> None:
    assert REFUSED_BY.keys() ^ OF_NO_PLUGIN == set(Reason)
    assert set(REFUSED_BY.values()) <= set(REGISTRY)


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_what_a_plugin_listens_for_and_names_is_told_of_it(name: str) -> None:
    plugin = make(name)
    named = {Reason[one] for one in re.findall(r"Reason\.([A-Z_]+)", inspect.getsource(type(plugin)))}
    listed = {reason for reason, of in REFUSED_BY.items() if of == name}
    others = named - listed - OF_NO_PLUGIN
    assert not set(plugin.EVENTS) - listed
    assert not others - SHARED


# VolumeBinding's, which ClusterAllowed looks at first; NodeResourcesFit's, which GpuFragmentation counts.
SHARED = {Reason.VOLUMES_ELSEWHERE, Reason.INSUFFICIENT}
