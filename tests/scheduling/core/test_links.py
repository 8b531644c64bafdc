"""What agents measure to each other goes into the fleet, and where they answer is told to the others."""

import math

import pytest

from dispatcher.scheduling.events import PeersAcknowledged, Tick
from dispatcher.scheduling.views import links_view, whole
from shared.messages import LinkReading, Peer, PeersAck, WireError, decode, encode
from shared.messages.peers import MAX_KINDS
from tests.laws.cores import make_core
from tests.scheduling.delegation.test_proxy_nodes import said, tell

UNKNOWN = {"rtt_ms": None, "jitter_ms": None, "loss": None, "age_s": None}


def test_what_an_agent_measured_is_in_the_matrix_until_it_is_too_old() -> None:
    core = make_core(("east", "west"))
    for name in ("east", "west"):
        tell(core, name)
    core.handle(PeersAcknowledged("east", links=(LinkReading("west", 40.0, 1.5, 0.1, 20.0),)), 100.0)
    core.handle(Tick(), 110.0)
    measured = {"rtt_ms": 40.0, "jitter_ms": 1.5, "loss": 0.1, "age_s": 30.0}
    counts = {"counts_ms": 40.0, "source": "measured"}
    assert whole(links_view(core)) == [
        {"from": "east", "to": "west", **measured, **counts},
        {"from": "west", "to": "east", **UNKNOWN, **counts},
    ]
    core.handle(PeersAcknowledged("east"), 199.0)  # it has nothing newer to say
    core.handle(Tick(), 201.0)
    unknown = {"counts_ms": None, "source": "unknown"}
    assert whole(links_view(core)) == [
        {"from": "east", "to": "west", **measured, "age_s": 121.0, **unknown},
        {"from": "west", "to": "east", **UNKNOWN, **unknown},
    ]
    assert math.isnan(core.fleet.links.rtt_ms()[0, 1])


def test_a_configured_time_counts_whatever_is_measured() -> None:
    core = make_core(("east", "west"))
    core.fleet.links.configure({("west", "east"): 7.0})
    core.handle(PeersAcknowledged("east", links=(LinkReading("west", 40.0),)), 100.0)
    assert [(row["counts_ms"], row["source"]) for row in whole(links_view(core))] == [(7.0, "configured")] * 2


@pytest.mark.parametrize(
    "reading",
    [
        LinkReading("west", math.nan),
        LinkReading("west", math.inf),
        LinkReading("west", -1.0),
        LinkReading("west", 0.0),
        LinkReading("west", 1e9),
        LinkReading("west", 5.0, jitter_ms=math.nan),
        LinkReading("west", 5.0, loss=1.5),
        LinkReading("west", 5.0, age_s=math.inf),
        LinkReading("west", 5.0, age_s=-3600.0),
        LinkReading("east", 5.0),
        LinkReading("moon", 5.0),
    ],
)
def test_what_cannot_be_is_no_news(reading: LinkReading) -> None:
    core = make_core(("east", "west"))
    core.handle(PeersAcknowledged("east", links=(LinkReading("west", 40.0),)), 100.0)
    core.handle(PeersAcknowledged("east", links=(reading,)), 101.0)
    assert [row["counts_ms"] for row in whole(links_view(core))] == [40.0, 40.0]


def test_others_are_told_where_an_agent_answers_probes_if_that_is_an_address() -> None:
    core = make_core(("east", "west"))
    for name in ("east", "west"):
        tell(core, name)
    assert said(core.handle(Tick(), 2.0))["west"].probe == ""
    core.handle(PeersAcknowledged("west", "192.0.2.7:7490"), 3.0)
    assert said(core.handle(Tick(), 10.0))["west"].probe == "192.0.2.7:7490"
    core.handle(PeersAcknowledged("west", "http://169.254.169.254/latest"), 11.0)
    assert said(core.handle(Tick(), 20.0))["west"].probe == ""


def test_links_survive_the_wire_and_an_older_agents_answer_has_none() -> None:
    whole = PeersAck("east", "word", probe="192.0.2.7:7490", links=(LinkReading("west", 40.0, 1.0, 0.0, 3.0),))
    assert decode(PeersAck, encode(whole)) == whole
    assert decode(PeersAck, encode(PeersAck("east", "word"))).links == ()
    assert Peer("west", ready=True).probe == ""


def test_others_are_told_which_kinds_an_agent_fetches_once_it_has_said_so() -> None:
    core = make_core(("east", "west"))
    for name in ("east", "west"):
        tell(core, name)
    assert said(core.handle(Tick(), 2.0))["west"].follows is None
    core.handle(PeersAcknowledged("west", follows=("ConfigMap",)), 3.0)
    assert said(core.handle(Tick(), 10.0))["west"].follows == ("ConfigMap",)
    core.handle(PeersAcknowledged("west"), 11.0)  # an agent of an older version has taken its place
    assert said(core.handle(Tick(), 20.0))["west"].follows == ()


def test_an_older_dispatcher_and_an_older_agent_say_that_nothing_is_fetched() -> None:
    assert decode(PeersAck, encode(PeersAck("east", "word"))).follows == Peer("west", ready=True).follows == ()
    with pytest.raises(WireError):
        decode(PeersAck, encode(PeersAck("east", follows=("x",) * (MAX_KINDS + 1))))
