"""An agent obeys what the leader has signed for it, and nothing else: whoever carries the bytes can place nothing."""

import datetime as dt
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from agents.executor.trust.orders import Refused, _Taken
from agents.runtime.order_gate import LOOK_S, TELL_S, OrderGate
from agents.runtime.outbound.answering import hear_of_peers, obey
from agents.runtime.settings import OrderSettings
from dispatcher.config.certificates import ROLES
from dispatcher.service.gateway.authority import ensure, name_of, read_authority
from dispatcher.service.gateway.revocation import with_list
from dispatcher.service.links.signing import Signer
from shared.messages import (
    BOUND,
    DONE,
    STALE,
    UNKNOWN,
    IntentBatch,
    MirrorStatus,
    OutcomeBatch,
    Peer,
    Peers,
    decode,
    encode,
)
from shared.security.seals import LIFE_S, ORDERS, PEERS, Audience, Seal, SigningKey, read_seal
from tests.agents.executor.test_loop import Stage, batch, bind, stage
from tests.agents.executor.test_mirror import source as remote_source
from tests.agents.executor.test_mirror import status as delegate_status
from tests.agents.executor.test_mirror import status_of
from tests.agents.executor.world import pod_object, proxy_object
from tests.agents.runtime.leader import AUDIENCE, NAMED, NOW, certified, header, make_fleet, sealed, signing_section

SKEW_S = 60.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fleet")


@pytest.fixture(scope="module")
def leader(folder: Path) -> SigningKey:
    return make_fleet(folder)


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> SigningKey:
    """The leader of another fleet, whose authority has the same name."""
    return make_fleet(tmp_path_factory.mktemp("other"))


@dataclass
class Door:
    """A gate whose clocks stand still until they are moved."""

    settings: OrderSettings
    uid: str = "a-cluster-uid"
    now: float = NOW
    pace: float = 100.0
    gate: OrderGate = field(init=False)

    def __post_init__(self) -> None:
        self.gate = OrderGate(
            self.settings, lambda: Audience("a", self.uid, "agent-life"), lambda: self.now, lambda: self.pace
        )

    def refusal(self, body: bytes, seal: bytes, kind: str = ORDERS) -> str:
        """Why these bytes are refused, '' if they are not."""
        try:
            self.gate.let_in(kind, body, seal)
        except Refused as error:
            return error.reason
        return ""


def door(folder: Path, **settings: Any) -> Door:
    return Door(OrderSettings(ca_file=str(folder / "ca.crt"), **settings))


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


BODY = encode(batch())

Make = Callable[[Path, SigningKey, SigningKey], bytes]
CASES: dict[str, tuple[str, Make]] = {
    "what the leader has signed": ("", lambda _, leader, __: sealed(leader, BODY)),
    "no seal": ("unsigned", lambda *_: b""),
    "a seal that is none": ("unreadable", lambda *_: b"\xff" * 64),
    "a seal that is too long": ("unreadable", lambda _, leader, __: sealed(leader, BODY) + b"\0" * 20_000),
    "the seal of other orders": ("signature", lambda _, leader, __: sealed(leader, encode(batch(epoch=2)))),
    "a key without a certificate of its own": (
        "signature",
        lambda _, leader, __: sealed(SigningKey(Ed25519PrivateKey.generate(), leader.certificate), BODY),
    ),
    "the leader of another fleet": ("certificate", lambda _, __, stranger: sealed(stranger, BODY)),
    "a certificate of a cluster": (
        "certificate",
        lambda folder, *_: sealed(certified(folder, [NAMED("spiffe://global-dispatcher.io/cluster/a")]), BODY),
    ),
    "a certificate of a host": (
        "certificate",
        lambda folder, *_: sealed(certified(folder, [x509.DNSName("localhost")]), BODY),
    ),
    "a certificate with another URI beside ours": (
        "certificate",
        lambda folder, *_: sealed(
            certified(folder, [NAMED("spiffe://global-dispatcher.io/dispatcher"), NAMED("spiffe://other/x")]), BODY
        ),
    ),
    "a certificate that has expired": (
        "certificate",
        lambda folder, *_: sealed(certified(folder, days=(-90, -1)), BODY),
    ),
    "a certificate of tomorrow": ("certificate", lambda folder, *_: sealed(certified(folder, days=(1, 90)), BODY)),
    "a certificate of an authority": (
        "certificate",
        lambda folder, *_: sealed(certified(folder, is_authority=True), BODY),
    ),
    "orders for another cluster": (
        "audience",
        lambda _, leader, __: sealed(leader, BODY, header(audience=("b", "b-cluster-uid", "agent-life"))),
    ),
    "orders for another cluster of this name": (
        "audience",
        lambda _, leader, __: sealed(leader, BODY, header(audience=("a", "another-uid", "agent-life"))),
    ),
    "orders for a cluster whose UID the leader did not know": (
        "audience",
        lambda _, leader, __: sealed(leader, BODY, header(audience=("a", "", "agent-life"))),
    ),
    "orders for this agent before it restarted": (
        "audience",
        lambda _, leader, __: sealed(leader, BODY, header(audience=("a", "a-cluster-uid", "its life before"))),
    ),
    "word of peers as orders": ("audience", lambda _, leader, __: sealed(leader, BODY, header(PEERS))),
    "within what clocks may differ": (
        "",
        lambda _, leader, __: sealed(leader, BODY, header(expires=NOW - SKEW_S + 1)),
    ),
    "expired": ("expired", lambda _, leader, __: sealed(leader, BODY, header(expires=NOW - SKEW_S - 1))),
    "signed for long after": (
        "early",
        lambda _, leader, __: sealed(leader, BODY, header(expires=NOW + LIFE_S + SKEW_S + 1)),
    ),
    "an end that is no number": ("early", lambda _, leader, __: sealed(leader, BODY, header(expires=float("nan")))),
    "no end": ("early", lambda _, leader, __: sealed(leader, BODY, header(expires=float("inf")))),
}


@pytest.mark.parametrize("case", CASES)
def test_only_what_the_leader_has_signed_for_this_cluster_and_for_now_is_let_in(
    folder: Path, leader: SigningKey, stranger: SigningKey, case: str
) -> None:
    reason, make = CASES[case]
    it = door(folder)
    assert it.refusal(BODY, make(folder, leader, stranger)) == reason
    assert it.gate.verified == (not reason)
    assert {why: count for why, count in it.gate.refused.items() if count} == ({reason: 1} if reason else {})


def test_no_bit_of_orders_header_or_signature_can_be_changed(folder: Path, leader: SigningKey) -> None:
    it, good = door(folder), read_seal(sealed(leader, BODY))
    assert good is not None
    for at in range(len(BODY)):
        assert it.refusal(flipped(BODY, at), sealed(leader, BODY)) == "signature"
    for at in range(len(good.header)):
        other = msgspec.msgpack.encode(Seal(flipped(good.header, at), good.signature, good.certificate))
        assert it.refusal(BODY, other) == "signature"
    for at in range(len(good.signature)):
        other = msgspec.msgpack.encode(Seal(good.header, flipped(good.signature, at), good.certificate))
        assert it.refusal(BODY, other) == "signature"
    assert it.gate.verified == 0


def test_bytes_cannot_be_moved_between_header_and_orders(folder: Path, leader: SigningKey) -> None:
    good = read_seal(sealed(leader, BODY))
    assert good is not None
    moved = msgspec.msgpack.encode(Seal(good.header + BODY[:1], good.signature, good.certificate))
    assert door(folder).refusal(BODY[1:], moved) == "signature"


def test_an_agent_that_does_not_know_its_own_cluster_yet_obeys_nobody(folder: Path, leader: SigningKey) -> None:
    it = door(folder)
    it.uid = ""
    assert it.refusal(BODY, sealed(leader, BODY, header(audience=("a", "", "agent-life")))) == "audience"


def test_word_of_peers_counts_once_and_in_its_order_and_of_each_life_of_a_dispatcher(
    folder: Path, leader: SigningKey
) -> None:
    it, body = door(folder), encode(Peers("dispatcher", 1))

    def heard(number: int, life: str = "one") -> str:
        return it.refusal(body, sealed(leader, body, header(PEERS, number=number, life=life)), PEERS)

    assert [heard(5), heard(5), heard(4), heard(6)] == ["", "overtaken", "overtaken", ""]
    assert [heard(1, "two"), heard(5), heard(7)] == ["", "overtaken", ""]


@pytest.mark.parametrize(
    ("unsigned", "seals", "refused"),
    [("refuse", False, "unsigned"), ("take", False, ""), ("take", True, "signature"), ("refuse", True, "signature")],
)
def test_unsigned_orders_are_taken_where_the_settings_say_so_and_a_wrong_signature_never(
    folder: Path, leader: SigningKey, unsigned: str, seals: bool, refused: str
) -> None:
    seal = sealed(leader, encode(batch(epoch=2))) if seals else b""
    assert door(folder, unsigned=unsigned).refusal(BODY, seal) == refused


def test_without_an_authority_nothing_is_verified() -> None:
    assert Door(OrderSettings()).refusal(BODY, b"") == ""


def test_an_authority_may_be_given_as_text_and_a_missing_file_lets_nothing_in(folder: Path, tmp_path: Path) -> None:
    key = make_fleet(tmp_path)
    text = (tmp_path / "ca.crt").read_text()
    assert Door(OrderSettings(authority=text)).refusal(BODY, sealed(key, BODY)) == ""
    assert door(folder).refusal(BODY, sealed(key, BODY)) == "certificate"
    assert Door(OrderSettings(ca_file=str(folder / "none.crt"))).refusal(BODY, sealed(key, BODY)) == "certificate"


def test_a_renewed_key_counts_at_once_and_the_one_before_until_it_expires_or_is_revoked(tmp_path: Path) -> None:
    old = make_fleet(tmp_path)
    it = door(tmp_path)
    for suffix in ("crt", "key"):
        os.unlink(tmp_path / f"signing.{suffix}")
    new = make_fleet(tmp_path)
    assert old.certificate != new.certificate
    assert [it.refusal(BODY, sealed(key, BODY)) for key in (old, new)] == ["", ""]

    file, pair = tmp_path / "ca.crt", read_authority(tmp_path / "ca")
    assert pair is not None
    serial = x509.load_der_x509_certificate(old.certificate).serial_number
    now = dt.datetime.fromtimestamp(NOW, dt.UTC)
    file.write_bytes(with_list(file.read_bytes(), (pair.certificate, pair.key), [serial], now))
    it.pace += LOOK_S
    assert [it.refusal(BODY, sealed(key, BODY)) for key in (old, new)] == ["certificate", ""]


def test_another_authority_in_the_file_counts_without_a_restart(
    tmp_path: Path, leader: SigningKey, folder: Path
) -> None:
    make_fleet(tmp_path)
    it = door(tmp_path)
    assert it.refusal(BODY, sealed(leader, BODY)) == "certificate"
    both = (tmp_path / "ca.crt").read_bytes() + (folder / "ca.crt").read_bytes()
    (tmp_path / "ca.crt").write_bytes(both)
    it.pace += LOOK_S
    assert it.refusal(BODY, sealed(leader, BODY)) == ""
    (tmp_path / "ca.crt").write_bytes(b"nothing")
    it.pace += LOOK_S
    assert it.refusal(BODY, sealed(leader, BODY)) == "", "a file that cannot be read changes nothing"


@pytest.mark.parametrize("odd", [b"-----BEGIN X509 CRL-----\nMII", b"-----BEGIN CRL-----\nMII\n-----END CRL-----\n"])
def test_a_file_whose_revocation_list_cannot_be_read_is_not_taken_over(tmp_path: Path, odd: bytes) -> None:
    key = make_fleet(tmp_path)
    file = tmp_path / "ca.crt"
    whole = file.read_bytes()
    file.write_bytes(whole + odd)
    it = door(tmp_path)
    assert it.refusal(BODY, sealed(key, BODY)) == "certificate", "nobody knows what the list revoked"
    file.write_bytes(whole)
    it.pace += LOOK_S
    assert it.refusal(BODY, sealed(key, BODY)) == ""


def test_whatever_a_certificate_is_made_of_it_is_refused_and_counted(folder: Path, leader: SigningKey) -> None:
    it, der = door(folder), leader.certificate
    odd = [der[:at] + bytes([der[at] ^ bit]) + der[at + 1 :] for at in range(len(der)) for bit in (1, 128)]
    told = [it.refusal(BODY, sealed(SigningKey(leader.key, one), BODY)) for one in odd]
    assert set(told) == {"certificate"}
    assert it.gate.refused["certificate"] == len(odd)


def test_who_takes_unsigned_orders_is_told_so_again_and_again(folder: Path) -> None:
    it = door(folder, unsigned="take")
    with capture_logs() as lines:
        for _ in range(3):
            assert it.refusal(BODY, b"") == ""
        it.pace += TELL_S
        assert it.refusal(BODY, b"") == ""
    assert [line["event"] for line in lines] == ["an unsigned message is obeyed"] * 2


def test_a_dispatcher_signs_with_the_key_of_its_files_and_seals_nothing_twice_with_one_number(
    folder: Path, leader: SigningKey
) -> None:
    it, signer, body = door(folder), Signer(signing_section(folder), lambda: NOW), encode(Peers("dispatcher", 1))
    for _ in range(3):
        assert it.refusal(body, signer.seal(PEERS, body, 1, AUDIENCE), PEERS) == ""
    assert it.refusal(BODY, signer.seal(ORDERS, BODY, 1, Audience("b", "a-cluster-uid", "agent-life"))) == "audience"
    assert leader.certificate == read_seal(signer.seal(ORDERS, BODY, 1, AUDIENCE)).certificate  # type: ignore[union-attr]


def test_refusals_are_told_by_reason_and_not_more_often_than_twice_a_minute(folder: Path) -> None:
    it = door(folder)
    with capture_logs() as lines:
        for _ in range(1000):
            it.refusal(BODY, b"")
        it.refusal(BODY, b"\xff")
        it.pace += TELL_S
        it.refusal(BODY, b"")
    told = [(line["reason"], line["times"]) for line in lines]
    assert told == [("unsigned", 1), ("unreadable", 1), ("unsigned", 1000)]
    assert "signing" in lines[0]["problem"]


# --- what the executor does with them --------------------------------------------------------------------------------


@dataclass
class Attack:
    """An executor behind its door, on a model API server, with a pod that may be bound."""

    it: Stage
    door: Door
    leader: SigningKey
    numbers: Iterator[int] = field(default_factory=lambda: count(100))

    async def send(self, orders: IntentBatch, seal: bytes | None = None, body: bytes | None = None) -> OutcomeBatch:
        sent = encode(orders) if body is None else body
        made = self.seal(orders) if seal is None else seal
        return decode(OutcomeBatch, await obey(self.it.loop, self.door.gate, sent, made))  # type: ignore[arg-type]

    def seal(self, orders: IntentBatch) -> bytes:
        told = header(epoch=orders.dispatcher_epoch, number=next(self.numbers))
        return sealed(self.leader, encode(orders), told)

    @property
    def writes(self) -> list[str]:
        return [f"{one.method} {one.path}" for one in self.it.api.requests if one.method != "GET"]


HOSTILE: dict[str, Callable[[Attack, IntentBatch], tuple[bytes, bytes]]] = {
    "orders of its own, unsigned": lambda _, orders: (encode(orders), b""),
    "orders of its own under a seal it has seen": lambda at, orders: (
        encode(orders),
        sealed(at.leader, encode(batch())),
    ),
    "orders of its own, signed by itself": lambda at, orders: (
        encode(orders),
        sealed(SigningKey(Ed25519PrivateKey.generate(), at.leader.certificate), encode(orders)),
    ),
    "orders that the leader gave another cluster": lambda at, orders: (
        encode(orders),
        sealed(at.leader, encode(orders), header(audience=("b", "b-cluster-uid", "agent-life"))),
    ),
    "orders that it held back until the agent had restarted": lambda at, orders: (
        encode(orders),
        sealed(at.leader, encode(orders), header(audience=("a", "a-cluster-uid", "its life before"))),
    ),
    "orders that it held back": lambda at, orders: (
        encode(orders),
        sealed(at.leader, encode(orders), header(expires=NOW - SKEW_S - 1)),
    ),
    "orders with another node": lambda at, orders: (
        encode(orders).replace(b"n1", b"n2"),
        sealed(at.leader, encode(orders)),
    ),
    "orders that say another epoch than their seal": lambda at, orders: (
        encode(orders),
        sealed(at.leader, encode(orders), header(epoch=9)),
    ),
    "bytes that nobody could decode": lambda at, _: (b"\xc1" * 64, sealed(at.leader, BODY)),
}


@pytest.mark.parametrize("case", HOSTILE)
async def test_a_captured_gateway_or_ray_worker_makes_an_executor_write_nothing(
    folder: Path, leader: SigningKey, case: str
) -> None:
    async with stage() as it:
        at = Attack(it, door(folder), leader)
        orders = batch(bind(it.world.submit(pod_object("web"))))
        body, seal = HOSTILE[case](at, orders)
        with pytest.raises(Refused):
            await at.send(orders, seal, body)
        assert it.api.requests == [], "not even a question"
        assert sum(at.door.gate.refused.values()) == 1
        assert [one.verdict for one in (await at.send(orders)).outcomes] == [BOUND], "the leader's own does it"


async def test_orders_of_a_leader_of_before_are_signed_well_and_write_nothing(folder: Path, leader: SigningKey) -> None:
    async with stage() as it:
        at = Attack(it, door(folder), leader)
        await at.send(batch(epoch=7))
        it.api.requests.clear()
        answer = await at.send(batch(bind(it.world.submit(pod_object("web"))), epoch=6))
        assert ([one.verdict for one in answer.outcomes], answer.obeys, at.writes) == ([UNKNOWN], 7, [])


async def test_orders_that_are_sent_again_or_in_another_order_bind_each_pod_once(
    folder: Path, leader: SigningKey
) -> None:
    async with stage() as it:
        at = Attack(it, door(folder), leader)
        ref = it.world.submit(pod_object("web"))
        first = batch(bind(ref))
        newer = batch(msgspec.structs.replace(bind(ref), epoch=2, id="newer"))
        assert [one.verdict for one in (await at.send(newer)).outcomes] == [BOUND]
        done = it.world.api.count("bind")
        assert [one.verdict for one in (await at.send(first)).outcomes] == [STALE], "overtaken by a later attempt"
        for _ in range(3):
            assert [one.verdict for one in (await at.send(newer)).outcomes] == [BOUND], "it holds already"
        assert it.world.api.count("bind") == done == 1


async def test_orders_that_were_taken_are_not_taken_again_and_may_overtake_each_other(
    folder: Path, leader: SigningKey
) -> None:
    async with stage() as it:
        at = Attack(it, door(folder), leader)
        refs = [it.world.submit(pod_object(name)) for name in ("first", "second")]
        first, second = (batch(bind(ref)) for ref in refs)
        seal = at.seal(first)
        assert [one.verdict for one in (await at.send(second)).outcomes] == [BOUND]
        assert [one.verdict for one in (await at.send(first, seal)).outcomes] == [BOUND], "it was on its way for longer"
        it.api.requests.clear()
        with capture_logs() as lines, pytest.raises(Refused, match=r"repeated.*came before"):
            await at.send(first, seal)
        assert it.api.requests == []
        assert [(line["event"], line["reason"]) for line in lines] == [("a message was not obeyed", "repeated")]
        assert [one.verdict for one in (await at.send(first)).outcomes] == [BOUND], "the leader has signed it anew"


async def test_an_old_status_that_is_sent_again_does_not_bring_its_address_back(
    folder: Path, leader: SigningKey
) -> None:
    async with stage() as it:
        it.world.api.put_node(proxy_object("b"))
        it.world.sync()
        at, ref = Attack(it, door(folder), leader), remote_source(it.world)
        old, new = (
            batch(MirrorStatus(ip, ref, 1, msgspec.json.encode(delegate_status(ip=ip)), routed=True))
            for ip in ("10.9.9.9", "10.0.0.7")
        )
        seal = at.seal(old)
        for orders, made in ((old, seal), (new, at.seal(new))):
            assert [one.verdict for one in (await at.send(orders, made)).outcomes] == [DONE]
            it.world.sync()
        with pytest.raises(Refused):
            await at.send(old, seal)
        assert status_of(it.world)["podIP"] == "10.0.0.7"


def test_what_was_taken_is_remembered_of_the_latest_batches_and_nothing_older_is_taken() -> None:
    taken = _Taken(2)
    assert [taken.take(number) for number in (1, 3, 2, 3, 4, 1, 2, 5)] == [
        True,
        True,
        True,
        False,
        True,
        False,
        False,
        True,
    ]


@given(st.lists(st.integers(1, 40)), st.integers(1, 12))
def test_no_number_is_ever_taken_twice_and_what_is_ahead_always_is(numbers: list[int], most: int) -> None:
    taken, known = _Taken(most), list[int]()
    for number in numbers:
        new = taken.take(number)
        assert not (new and number in known)
        assert new or number in known or sum(one > number for one in known) >= most
        known += [number] if new else []
        assert len(taken._numbers) <= most


async def test_forged_word_of_peers_renews_no_lease_and_shows_no_cluster(folder: Path, leader: SigningKey) -> None:
    async with stage() as it:
        gate, body = door(folder).gate, encode(Peers("dispatcher", 1, (Peer("b", ready=True, uid="b-uid"),)))
        for seal in (b"", sealed(leader, encode(Peers("dispatcher", 1)), header(PEERS)), sealed(leader, body)):
            with pytest.raises(Refused):
                await hear_of_peers(it.loop, gate, body, seal)  # type: ignore[arg-type]
        assert it.loop._newest_peers is None
        await hear_of_peers(it.loop, gate, body, sealed(leader, body, header(PEERS)))  # type: ignore[arg-type]
        assert it.loop._newest_peers is not None


def test_the_authority_keeps_a_signing_key_that_is_good_and_makes_it_beside_the_gateways(tmp_path: Path) -> None:
    made = {one.file.name: one.made for one in ensure(tmp_path, ["localhost"], ["a"])}
    assert made == {
        f"{stem}.crt": True for stem in ("ca", "gateway", "signing", *map(partial(name_of, "a"), ("", *ROLES)))
    }
    assert (tmp_path / "signing.key").stat().st_mode & 0o777 == 0o600
    assert not any(one.made for one in ensure(tmp_path, ["localhost"], ["a"]))
