"""The endpoint's certificate by a CertificateSigningRequest: asked once, taken when issued, renewed in time."""

import asyncio
import base64
import datetime as dt
import ipaddress
import tempfile
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from structlog.testing import capture_logs

from agents.runtime.relay.callers import Callers
from agents.runtime.relay.endpoint import Endpoint
from agents.runtime.relay.serving import AGAIN_S, LATE_S, ServingCertificate
from agents.runtime.relay.settings import RelaySettings
from shared.kube.client import KubeClient
from shared.kube.http import Request, Response

ADDRESS, DAY_S = "10.1.2.3", 24 * 3600.0
NODE = "global-dispatcher-east"


class Signer:
    """An API server with requests, whose signer issues for 30 days what is approved. `now`: Unix time, s."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0
        self.requests: dict[str, Any] = {}
        self.made: list[Any] = []  # in order, whatever became of them
        self.broken = False
        self.forbids = False
        self.tries = 0  # to make one
        self._key = ec.generate_private_key(ec.SECP256R1())

    async def send(self, request: Request) -> Response:
        """One call."""
        if self.broken:
            return Response(500, b'{"message": "etcd is away"}')
        if request.method == "POST":
            self.tries += 1
            if self.forbids:
                return Response(403, b'{"message": "forbidden"}')
            told = msgspec.json.decode(request.body)
            made_at = dt.datetime.fromtimestamp(self.now, dt.UTC).isoformat().replace("+00:00", "Z")
            told["metadata"]["creationTimestamp"] = made_at
            told["status"] = {}
            self.requests[told["metadata"]["name"]] = told
            self.made.append(told)
            return Response(201, msgspec.json.encode(told))
        found = self.requests.get(request.path.rpartition("/")[2])
        return Response(200, msgspec.json.encode(found)) if found else Response(404, b'{"message": "not found"}')

    def judge(self, kind: str, message: str = "") -> None:
        """Set a condition of the latest request."""
        self.made[-1]["status"]["conditions"] = [{"type": kind, "message": message}]

    def issue(self, address: str = ADDRESS) -> None:
        """A certificate for the latest request."""
        asked = x509.load_pem_x509_csr(base64.b64decode(self.made[-1]["spec"]["request"]))
        begins = dt.datetime.fromtimestamp(self.now, dt.UTC)
        alternatives = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        leaf = (
            x509.CertificateBuilder()
            .subject_name(asked.subject)
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "signer")]))
            .public_key(asked.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins)
            .not_valid_after(begins + dt.timedelta(days=30))
            .add_extension(alternatives, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.judge("Approved")
        pem = leaf.public_bytes(serialization.Encoding.PEM)
        self.made[-1]["status"]["certificate"] = base64.b64encode(pem).decode()

    def asker(self, folder: Path | str = "", address: str = ADDRESS) -> ServingCertificate:
        """An agent's start."""
        settings = RelaySettings(address=address, certificate="csr", folder=str(folder))
        return ServingCertificate(cast(KubeClient, self), settings, NODE, lambda: self.now)


@pytest.fixture
def signer() -> Signer:
    return Signer()


async def test_the_request_is_what_the_signer_of_kubelets_demands(signer: Signer) -> None:
    assert await signer.asker().pair() is None
    (told,) = signer.made
    spec = told["spec"]
    assert (spec["signerName"], spec["usages"]) == (
        "kubernetes.io/kubelet-serving",
        ["digital signature", "server auth"],
    )
    asked = x509.load_pem_x509_csr(base64.b64decode(spec["request"]))
    assert asked.subject.rfc4514_string() == f"CN=system:node:{NODE},O=system:nodes"
    (names,) = asked.extensions
    assert isinstance(names.value, x509.SubjectAlternativeName)
    assert list(names.value) == [x509.IPAddress(ipaddress.ip_address(ADDRESS))]


async def test_it_is_served_once_issued_and_another_is_asked_for_when_a_third_is_left(signer: Signer) -> None:
    asker = signer.asker()
    waits = [await asker.pair() is None and asker.waits]
    signer.issue()
    first = await asker.pair()
    assert first is not None
    assert [*waits, asker.waits] == [True, False]
    signer.now += 19 * DAY_S
    assert await asker.pair() == first
    assert len(signer.made) == 1
    signer.now += 2 * DAY_S
    assert await asker.pair() == first, "the one before is served while its successor waits"
    assert len(signer.made) == 2
    signer.issue()
    second = await asker.pair()
    assert second is not None
    assert second[1] != first[1], "each has a key of its own"
    signer.now += 31 * DAY_S
    assert await asker.pair() is None, "none that has ended is served"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("", "waits for approval"),
        ("Denied", "Denied: not of ours"),
        ("Failed", "Failed: not of ours"),
        ("Approved", "kubernetes.io/kubelet-serving has issued nothing"),
    ],
)
async def test_one_that_is_not_issued_is_told_once_and_not_asked_for_again_within_a_day(
    signer: Signer, kind: str, words: str
) -> None:
    asker = signer.asker()
    with capture_logs() as lines:
        assert await asker.pair() is None
        if kind:
            signer.judge(kind, "not of ours")
        begun = signer.now
        while signer.now < begun + AGAIN_S - 2 * LATE_S:
            signer.now += LATE_S * 2
            assert await asker.pair() is None
            if signer.now > begun + 3600:
                signer.requests.clear()  # as kube-controller-manager does in time
    assert len(signer.made) == 1
    told = [line for line in lines if words in line["problem"]]
    assert len(told) == 1
    name = signer.made[0]["metadata"]["name"]
    assert kind == "Approved" or f"kubectl {'delete csr' if kind else 'certificate approve'}" in told[0]["fix"]
    assert name in told[0]["problem"]
    signer.now += AGAIN_S
    await asker.pair()
    assert len(signer.made) == 2


async def test_without_the_right_to_ask_it_is_said_once_and_tried_once_a_minute(signer: Signer) -> None:
    signer.forbids = True
    asker = signer.asker()
    with capture_logs() as lines:
        for _ in range(60):
            assert await asker.pair() is None
            signer.now += 5
    assert signer.tries == 5
    assert [line["problem"] for line in lines] == ["a serving certificate cannot be asked for: forbidden (HTTP 403)"]


async def test_an_address_may_be_written_in_any_way(signer: Signer) -> None:
    asker = signer.asker(address="fd00:0:0::1")
    await asker.pair()
    signer.issue("fd00::1")
    assert await asker.pair() is not None


async def test_an_agent_that_starts_again_goes_on_with_what_it_has_asked_and_got(
    signer: Signer, tmp_path: Path
) -> None:
    await signer.asker(tmp_path).pair()
    signer.issue()
    issued = await signer.asker(tmp_path).pair()
    assert issued is not None
    signer.broken = True
    assert await signer.asker(tmp_path).pair() == issued
    assert len(signer.made) == 1
    assert modes(tmp_path) == {0o600}


def modes(folder: Path) -> set[int]:
    return {file.stat().st_mode & 0o777 for file in folder.iterdir()}


async def test_another_address_is_asked_for_anew_and_the_old_certificate_not_served(
    signer: Signer, tmp_path: Path
) -> None:
    await signer.asker(tmp_path).pair()
    signer.issue()
    await signer.asker(tmp_path).pair()
    assert await signer.asker(tmp_path, "10.1.2.4").pair() is None
    assert len(signer.made) == 2


@pytest.mark.parametrize("odd", ["certificate of another address", "no certificate", "certificate of another key"])
async def test_what_does_not_fit_is_not_served_and_breaks_nothing(signer: Signer, odd: str) -> None:
    asker = signer.asker()
    await asker.pair()
    if odd == "certificate of another address":
        signer.issue("10.9.9.9")
    else:
        other = Signer()
        await other.asker().pair()
        other.issue()
        text = other.made[0]["status"]["certificate"] if odd == "certificate of another key" else "bm9uZQ=="
        signer.made[0]["status"]["certificate"] = text
    with capture_logs() as lines:
        for _ in range(3):
            assert await asker.pair() is None
    assert len(lines) == 1


async def test_the_endpoint_serves_a_certificate_of_its_own_until_one_is_issued(signer: Signer) -> None:
    async def authorities() -> str:
        return "authorities"

    async def serve(*_: object) -> None:
        """Nothing is asked here."""

    settings = RelaySettings(address=ADDRESS, certificate="csr")
    endpoint = Endpoint(settings, authorities, serve, signer.asker())
    before = await endpoint._material()
    subject = x509.load_pem_x509_certificate(before.certificate).subject.rfc4514_string()
    assert subject == "CN=global-dispatcher proxy nodes"
    signer.issue()
    after = await endpoint._material()
    assert x509.load_pem_x509_certificate(after.certificate).subject.rfc4514_string().startswith("CN=system:node:")


async def nothing(*_: object) -> None:
    """Nothing is asked here."""


async def test_authorities_with_words_between_them_are_read(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_bytes("# Autorité du cluster\n".encode() + trustme.CA().cert_pem.bytes())
    settings = RelaySettings(address=ADDRESS, host="127.0.0.1", port=0, client_ca_file=str(file))
    endpoint = Endpoint(settings, Callers(cast(KubeClient, None), settings).authorities, nothing)
    await listens(endpoint)


async def listens(endpoint: Endpoint) -> None:
    listening = asyncio.Event()
    running = asyncio.create_task(endpoint.run(lambda port: listening.set()))
    waiting = asyncio.create_task(listening.wait())
    await asyncio.wait({running, waiting}, timeout=10, return_when=asyncio.FIRST_COMPLETED)
    assert listening.is_set()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_its_key_is_in_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    async def authorities() -> str:
        return authority

    authority = trustme.CA().cert_pem.bytes().decode()
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    await listens(Endpoint(RelaySettings(address=ADDRESS, host="127.0.0.1", port=0), authorities, nothing))


@pytest.mark.parametrize("odd", [TypeError("not text"), KeyError("data"), ValueError("no PEM")])
async def test_no_failure_ends_the_endpoint_for_good(odd: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.runtime.relay.endpoint.REFRESH_S", 0.01)
    tries = [odd]

    async def authorities() -> str:
        if tries:
            raise tries.pop()
        return trustme.CA().cert_pem.bytes().decode()

    settings = RelaySettings(address=ADDRESS, host="127.0.0.1", port=0)
    endpoint = Endpoint(settings, authorities, nothing)
    listening = asyncio.Event()
    with capture_logs() as lines:
        running = asyncio.create_task(endpoint.run(lambda port: listening.set()))
        waiting = asyncio.create_task(listening.wait())
        await asyncio.wait({running, waiting}, timeout=10, return_when=asyncio.FIRST_COMPLETED)
    assert listening.is_set()
    assert [line["problem"] for line in lines if "problem" in line] == [str(odd)]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_what_is_issued_with_names_of_an_odd_kind_is_said_and_not_served(signer: Signer) -> None:
    asker = signer.asker()
    await asker.pair()
    with pytest.MonkeyPatch.context() as patched, capture_logs() as lines:
        patched.setattr("agents.runtime.relay.serving._issued", odd_names)
        signer.issue()
        assert await asker.pair() is None
    assert ["only absolute names" in line["problem"] for line in lines] == [True]


def odd_names(certificate: bytes, key: bytes) -> Any:
    """As cryptography does for kinds of names that it does not know."""
    raise x509.UnsupportedGeneralNameType("only absolute names", 5)
