"""`join` of an embedded cluster: what is made there, in the folder and in the dispatcher's files; what is refused."""

import json
import os
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from typer.testing import CliRunner, Result

from agents.executor.trust.state import PATH as STATE
from agents.executor.trust.state import VALUES
from dispatcher.cli.joining import target
from dispatcher.cli.joining.gateway_secret import LOOKED
from dispatcher.cli.joining.opt_in import WEBHOOK
from dispatcher.cli.main import app
from dispatcher.config import check_config
from dispatcher.service.errors import ExitCode
from localfleet.embedded.fleet import EmbeddedFleet
from shared.security.signatures import public_key
from tests.charts.rendering import WORKLOADS, Helm
from tests.system.cluster_api import ClusterApi

NAMESPACE = "/api/v1/namespaces/global-dispatcher"
SECRETS = f"{NAMESPACE}/secrets"
TLS, KEY, GATEWAY, SIGNING = (
    f"{SECRETS}/global-dispatcher-{name}" for name in ("agent-executor", "key", "gateway", "signing")
)
OBSERVER = f"{SECRETS}/global-dispatcher-agent-observer"


class World:
    """East, a folder without an authority, and a dispatcher.yaml without clusters."""

    def __init__(self, fleet: EmbeddedFleet, folder: Path) -> None:
        self.folder, self.kubeconfig, self.fleet = folder, fleet.kubeconfig, folder / "fleet"
        self.api = ClusterApi(fleet.kubeconfig, "east")
        self.config = folder / "dispatcher.yaml"
        self.config.write_text("# ours\nclusters: []\n")
        self.wipe()

    def wipe(self) -> None:
        for path in (TLS, OBSERVER, KEY, GATEWAY, SIGNING):
            self.api.delete(path)
        self.api.delete(STATE)

    def run(self, *said: str) -> Result:
        words = ["--kubeconfig", str(self.kubeconfig), "--folder", str(self.fleet), *said]
        return CliRunner().invoke(app, ["join", "--context", "east", *words])

    def joined(self, *said: str) -> dict[str, Any]:
        result = self.run(*said, "-o", "json")
        assert result.exit_code == 0, result.output
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    def data(self, path: str) -> dict[str, bytes]:
        return {key: b64decode(value) for key, value in self.api.get(path)["data"].items()}

    def there(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return name in [one["metadata"]["name"] for one in self.api.get(folder)["items"]]

    def annotations(self, pod: str) -> dict[str, str]:
        found: dict[str, str] = self.api.get(f"{NAMESPACE}/pods/{pod}")["metadata"].get("annotations", {})
        return found

    def revoke(self, *said: str) -> Result:
        words = ["--kubeconfig", str(self.kubeconfig), "--folder", str(self.fleet), *said]
        return CliRunner().invoke(app, ["revoke", *words])


@pytest.fixture
def world(fleet: EmbeddedFleet, tmp_path: Path) -> Iterator[World]:
    made = World(fleet, tmp_path)
    yield made
    made.wipe()
    made.api.close()


def public_keys(world: World) -> tuple[str, ...]:
    """Of the private ones in the Secret."""
    blocks = world.data(KEY)["key.pem"].replace(b"-----\n-----", b"-----\n\n-----").split(b"\n\n")
    keys = [load_pem_private_key(block, None) for block in blocks]
    return tuple(public_key(key) for key in keys if isinstance(key, Ed25519PrivateKey))


def add_key(world: World, *, alone: bool = False) -> None:
    """A new key before the old one, or in its place."""
    new = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    pem = new if alone else new + world.data(KEY)["key.pem"]
    world.api.merge(KEY, {"data": {"key.pem": b64encode(pem).decode()}})


def test_one_command_makes_identity_certificates_and_values(world: World) -> None:
    values = world.folder / "east.yaml"
    told = world.joined("--gateway", "gw.example:443", "--config", str(world.config), "--values-out", str(values))
    uid = world.api.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
    (signs,) = public_keys(world)
    assert told["entry"] == {"name": "east", "via": "gateway", "uid": uid, "key": signs}
    for path, role in ((TLS, "executor"), (OBSERVER, "observer")):
        assert world.data(path) == {
            "tls.crt": (world.fleet / f"cluster-east.{role}.crt").read_bytes(),
            "tls.key": (world.fleet / f"cluster-east.{role}.key").read_bytes(),
            "ca.crt": (world.fleet / "ca.crt").read_bytes(),
        }
    key = world.data(KEY)
    assert key["key.pem"].startswith(b"-----BEGIN PRIVATE KEY-----")
    assert yaml.safe_load(values.read_text()) == {
        "cluster": "east",
        "gateway": {"urls": ["wss://gw.example:443"], "tlsSecret": "global-dispatcher-agent"},
        "keySecret": "global-dispatcher-key",
        "admissionPolicy": {"by": "webhook"},
    }
    assert world.config.read_text().startswith("# ours\n")
    assert yaml.safe_load(world.config.read_text())["clusters"] == [told["entry"]]
    assert told["helm"][-2:] == ["--values", str(values)]


def test_what_it_writes_is_a_configuration_that_a_dispatcher_takes(world: World) -> None:
    files = f"cert_file: {world.fleet}/gateway.crt, key_file: {world.fleet}/gateway.key"
    world.config.write_text(
        f"clusters: []\ngateway: {{{files}, client_ca_file: {world.fleet}/ca.crt}}\n"
        "leader_election: {enabled: false}\n"
    )
    world.joined("--gateway", "gw.example", "--config", str(world.config))
    assert check_config(world.config, reach=True) == []


def test_an_agent_dials_each_of_several_dispatchers(world: World) -> None:
    said = ("--gateway", "gw.example:443", "--gateway", "gw1.example")
    urls = ["wss://gw.example:443", "wss://gw1.example:7443"]
    assert world.joined(*said)["values"]["gateway"]["urls"] == urls
    assert world.joined()["values"]["gateway"]["urls"] == urls


def trusted(world: World, path: str) -> bytes:
    return world.data(path)["ca.crt"]


@pytest.mark.parametrize("path", [TLS, GATEWAY])
def test_a_folder_with_another_authority_takes_over_no_fleet_unless_it_is_said(world: World, path: str) -> None:
    both = ("--gateway", "gd.example", "--dispatcher-context", "east")
    assert world.run(*both).exit_code == 0
    before = trusted(world, path)
    if path == GATEWAY:  # of a cluster that is new: only the dispatcher's Secret can tell
        world.api.delete(TLS)
        world.api.delete(OBSERVER)
    world.fleet = world.folder / "another"
    refused = world.run(*both)
    assert refused.exit_code != 0
    assert "--new-authority" in refused.output
    assert "--folder" in refused.output
    assert trusted(world, path) == before
    assert not world.fleet.exists()
    assert world.run(*both, "--new-authority").exit_code == 0
    assert trusted(world, path) != before


def test_a_revocation_from_another_folder_does_not_replace_whom_the_gateway_trusts(world: World) -> None:
    both = ("--gateway", "gd.example", "--dispatcher-context", "east")
    assert world.run(*both).exit_code == 0
    before = trusted(world, GATEWAY)
    world.fleet = world.folder / "another"
    assert world.run("--gateway", "gd.example", "--new-authority").exit_code == 0
    refused = world.revoke("east", "--dispatcher-context", "east")
    assert refused.exit_code != 0
    assert "authority" in refused.output
    assert trusted(world, GATEWAY) == before


def test_a_second_run_changes_nothing_and_needs_no_gateway(world: World) -> None:
    first = world.joined("--gateway", "gw.example:443", "--config", str(world.config))
    before = {path: world.data(path) for path in (TLS, KEY)}, world.config.read_text()
    again = world.joined("--config", str(world.config))
    assert again["values"] == first["values"]
    assert ({path: world.data(path) for path in (TLS, KEY)}, world.config.read_text()) == before
    assert not [line for line in again["steps"] if "made" in line or "changed" in line], again["steps"]


def test_while_a_key_is_rotated_the_one_that_vouches_stays_pinned_and_either_may_be(world: World) -> None:
    joined = partial(world.joined, "--gateway", "gw.example", "--config", str(world.config))
    old = joined()["entry"]["key"]
    add_key(world)
    new = public_keys(world)[0]
    assert joined()["entry"]["key"] == old
    world.config.write_text(world.config.read_text().replace(old, new))
    joined()
    assert new in world.config.read_text()


def test_a_key_that_was_replaced_is_not_pinned_without_a_word(world: World) -> None:
    said = ("--gateway", "gw.example", "--config", str(world.config))
    old = world.joined(*said)["entry"]["key"]
    add_key(world, alone=True)
    result = world.run(*said)
    assert result.exit_code != 0
    assert (
        f"clusters[0].key is '{old}', and this is '{public_keys(world)[0]}': write this one there if" in result.output
    )


def test_what_was_changed_by_hand_is_mended(world: World) -> None:
    world.joined("--gateway", "gw.example")
    world.api.merge(TLS, {"data": {"tls.crt": "bm9uZQ=="}})
    assert "Secret global-dispatcher/global-dispatcher-agent-executor: changed" in world.joined()["steps"]
    assert world.data(TLS)["tls.crt"] == (world.fleet / "cluster-east.executor.crt").read_bytes()


def test_a_dry_run_shows_all_of_it_and_changes_nothing(world: World) -> None:
    values = world.folder / "east.yaml"
    before = world.config.read_text()
    said = ("--gateway", "gw.example", "--config", str(world.config), "--values-out", str(values))
    told = world.joined(*said, "--dry-run")
    steps = told["steps"]
    assert any("create secret generic global-dispatcher-signing" in line for line in told["next"])
    assert f"{world.fleet}/cluster-east.crt: would be made, until" in "\n".join(steps)
    assert "Secret global-dispatcher/global-dispatcher-agent-executor: would be made" in steps
    assert f"{world.config}: would have cluster east added" in steps
    assert not world.fleet.exists()
    assert not values.exists()
    assert world.config.read_text() == before
    assert not world.there(TLS)


@pytest.fixture
def written() -> Iterator[list[str]]:
    """The files that were opened to be written since, in whatever folder."""
    found: list[str] = []
    listening = True

    def hear(event: str, about: tuple[Any, ...]) -> None:
        # A number is a file that is open already.
        if listening and event == "open" and about[2] & (os.O_WRONLY | os.O_RDWR) and not isinstance(about[0], int):
            found.append(str(about[0]))

    sys.addaudithook(hear)  # for good: Python takes none away
    yield found
    listening = False


@pytest.mark.parametrize("there", [True, False], ids=["of an authority", "of a new one"])
def test_a_dry_run_writes_no_key_and_nothing_else_to_any_disk(world: World, written: list[str], *, there: bool) -> None:
    dispatcher = ("--dispatcher-context", "east")
    if there:
        world.joined("--gateway", "gw.example", *dispatcher)
    before = {file.name: file.read_bytes() for file in world.fleet.glob("*")}
    written.clear()
    assert "would be made" in world.run("--gateway", "other.example", *dispatcher, "--dry-run").output
    if there:
        assert world.revoke("east", *dispatcher, "--dry-run").exit_code == 0
    assert [file for file in written if "__pycache__" not in file] == []
    assert {file.name: file.read_bytes() for file in world.fleet.glob("*")} == before


@pytest.mark.parametrize("own_keys", [public_key(Ed25519PrivateKey.generate()), "no-key"], ids=["a key", "none"])
def test_a_key_that_an_agent_signs_with_already_is_left_alone(world: World, own_keys: str) -> None:
    lease = {
        "metadata": {
            "name": STATE.rpartition("/")[2],
            "annotations": {VALUES: json.dumps({"cluster": "east", "own_keys": own_keys})},
        }
    }
    assert world.api.create(STATE.rpartition("/")[0], lease).is_success
    told = world.joined("--gateway", "gw.example")
    assert "keySecret" not in told["values"]
    assert not world.there(KEY)
    (line,) = [one for one in told["steps"] if "global-dispatcher-key" in one]
    assert "put your copy back and join again" in line  # who has deleted the Secret is to know
    assert told["entry"].get("key", "no-key") == own_keys


def test_for_git_the_secrets_are_written_as_manifests_and_the_cluster_stays_as_it_is(world: World) -> None:
    secrets = world.folder / "secrets.yaml"
    world.joined("--gateway", "gw.example", "--secrets-out", str(secrets))
    written = list(yaml.safe_load_all(secrets.read_text()))
    assert not world.there(TLS)
    assert not world.there(KEY)
    assert secrets.stat().st_mode & 0o077 == 0
    names = [f"global-dispatcher-{name}" for name in ("agent-observer", "agent-executor", "key", "webhook")]
    assert [one["metadata"]["name"] for one in written] == names
    world.joined("--secrets-out", str(secrets))
    assert list(yaml.safe_load_all(secrets.read_text())) == written


def test_for_git_the_values_name_whom_to_trust_of_the_webhook_for_good_and_no_other_release_is_asked(
    world: World,
) -> None:
    given = ["--gateway", "gw.example", "--secrets-out", str(world.folder / "secrets.yaml")]
    values = world.joined(*given)["values"]
    *_, written = yaml.safe_load_all((world.folder / "secrets.yaml").read_text())
    hook, pem = values["admissionPolicy"]["webhook"], {key: b64decode(one) for key, one in written["data"].items()}
    assert (hook["tlsSecret"], b64decode(hook["caBundle"])) == (written["metadata"]["name"], pem["ca.crt"])
    serving = x509.load_pem_x509_certificate(pem["tls.crt"])
    serving.verify_directly_issued_by(x509.load_pem_x509_certificate(pem["ca.crt"]))
    names = serving.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["*.global-dispatcher.svc"]  # NAME-webhook, by the release's name
    assert world.joined(*given)["values"] == values
    assert world.joined("--secrets-out", str(world.folder / "other.yaml"))["values"] != values, "keys are not shared"


def test_for_git_another_namespace_has_secrets_of_its_own(world: World) -> None:
    secrets = world.folder / "secrets.yaml"
    world.joined("--gateway", "gw.example", "--secrets-out", str(secrets))
    world.joined("--secrets-out", str(secrets), "--namespace", "elsewhere")
    written = list(yaml.safe_load_all(secrets.read_text()))
    assert {one["metadata"]["namespace"] for one in written} == {"elsewhere"}
    serving = x509.load_pem_x509_certificate(b64decode(written[-1]["data"]["tls.crt"]))
    names = serving.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["*.elsewhere.svc"]


def test_for_git_one_cluster_is_not_given_the_key_of_another(world: World) -> None:
    secrets = world.folder / "secrets.yaml"
    world.joined("--gateway", "gw.example", "--secrets-out", str(secrets))
    before = secrets.read_text()
    result = world.run("--secrets-out", str(secrets), "--cluster", "west")
    assert (result.exit_code, "the keys of another cluster" in result.output) == (2, True), result.output
    assert secrets.read_text() == before


def test_no_files_of_another_cluster_are_written_over_by_one_that_has_its_key_already(world: World) -> None:
    secrets, values = world.folder / "secrets.yaml", world.folder / "values.yaml"
    world.joined("--gateway", "gw.example", "--cluster", "west", "--secrets-out", str(secrets))
    world.joined("--cluster", "west", "--values-out", str(values))
    assert world.there(KEY)
    before = [file.read_text() for file in (secrets, values)]
    for option, file, words in (
        ("--secrets-out", secrets, "the keys of another cluster"),
        ("--values-out", values, "the values of cluster west"),
    ):
        result = world.run(option, str(file))
        assert (result.exit_code, words in result.output) == (2, True), result.output
    assert [file.read_text() for file in (secrets, values)] == before
    assert not (world.fleet / "cluster-east.crt").exists()


@contextmanager
def dispatcher_pods(world: World, helm: Helm, **values: Any) -> Iterator[list[str]]:
    """A pod of each workload of the dispatcher's chart, with its labels and the Secrets that it mounts; their names."""
    clusters = [{"name": "east", "via": "gateway"}]
    values["config"] = {"clusters": clusters}
    made = []
    for one in helm.template("dispatcher", values):
        if one["kind"] in WORKLOADS:
            name, pod = one["metadata"]["name"], one["spec"]["template"]
            volumes = [volume for volume in pod["spec"]["volumes"] if "secret" in volume]
            spec = {"containers": [{"name": "main", "image": "busybox"}], "volumes": volumes}
            labels = pod["metadata"]["labels"]
            answer = world.api.create(f"{NAMESPACE}/pods", {"metadata": {"name": name, "labels": labels}, "spec": spec})
            assert answer.is_success, answer.text
            made.append(name)
    try:
        yield made
    finally:
        for name in made:
            world.api.delete(f"{NAMESPACE}/pods/{name}", gracePeriodSeconds="0")


def test_a_revocation_reaches_the_gateways_secret_and_all_pods_that_check_certificates_look_at_once(
    world: World, helm: Helm
) -> None:
    world.joined("--gateway", "gw.example", "--dispatcher-context", "east")
    with dispatcher_pods(world, helm) as pods:
        done = world.revoke("east", "--dispatcher-context", "east")
        assert done.exit_code == 0, done.output
        assert world.data(GATEWAY)["ca.crt"] == (world.fleet / "ca.crt").read_bytes()
        assert b"X509 CRL" in world.data(GATEWAY)["ca.crt"]
        told = [name for name in pods if LOOKED in world.annotations(name)]
        assert told == ["dispatcher"]


def test_a_revocation_makes_no_secret_that_nobody_reads(world: World) -> None:
    world.joined("--gateway", "gw.example")
    for said in (("east",), ("east", "--namespace", "none"), ("east", "--dry-run")):
        done = world.revoke(*said, "--dispatcher-context", "east")
        assert done.exit_code == ExitCode.FAILED, done.output
        assert "/global-dispatcher-gateway, so no dispatcher reads it: name the dispatcher's namespace" in done.stderr
    assert not world.there(GATEWAY)
    assert not world.there(SIGNING)


def test_a_revocation_names_the_secret_that_the_pods_mount_in_place_of_the_one_it_writes(
    world: World, helm: Helm
) -> None:
    world.joined("--gateway", "gw.example", "--dispatcher-context", "east")
    before = world.data(GATEWAY)
    with dispatcher_pods(world, helm, gateway={"tlsSecret": "ours"}):
        done = world.revoke("east", "--dispatcher-context", "east")
        assert done.exit_code == ExitCode.FAILED, done.output
        assert "the dispatcher's pods mount Secret ours, not global-dispatcher-gateway" in done.stderr
        assert world.data(GATEWAY) == before
        steps = world.joined("--dispatcher-context", "east")["steps"]
        assert [one for one in steps if "Pod dispatcher: mounts Secret ours" in one], steps


def test_a_revocation_brings_no_signing_key_to_a_dispatcher_that_has_none(world: World) -> None:
    world.joined("--gateway", "gw.example", "--dispatcher-context", "east")
    world.api.delete(SIGNING)
    done = world.revoke("east", "--dispatcher-context", "east")
    assert (done.exit_code, "no pod of a dispatcher was seen beside it" in done.stdout) == (0, True), done.output
    assert not world.there(SIGNING)


def test_a_join_after_a_revocation_brings_another_certificate(world: World) -> None:
    world.joined("--gateway", "gw.example")
    before = x509.load_pem_x509_certificate(world.data(TLS)["tls.crt"])
    assert world.revoke("east").exit_code == 0
    assert "Secret global-dispatcher/global-dispatcher-agent-executor: changed" in world.joined()["steps"]
    after = x509.load_pem_x509_certificate(world.data(TLS)["tls.crt"])
    assert before.serial_number != after.serial_number


def test_a_revocation_for_a_context_that_is_none_takes_nothing_back(world: World) -> None:
    world.joined("--gateway", "gw.example")
    before = (world.fleet / "ca.crt").read_bytes()
    done = world.revoke("east", "--dispatcher-context", "none")
    assert (done.exit_code, "--dispatcher-context: " in done.stderr) == (ExitCode.USAGE, True), done.output
    assert (world.fleet / "ca.crt").read_bytes() == before


def test_a_revocation_that_does_not_reach_the_dispatcher_says_what_is_done_and_what_is_not(
    world: World, tmp_path: Path
) -> None:
    world.joined("--gateway", "gw.example")
    away = yaml.safe_load(world.kubeconfig.read_text())
    for one in away["clusters"]:
        one["cluster"]["server"] = "https://127.0.0.1:1"
    world.kubeconfig = tmp_path / "away"
    world.kubeconfig.write_text(yaml.safe_dump(away))
    done = world.revoke("east", "--dispatcher-context", "east")
    assert done.exit_code == ExitCode.UNREACHABLE, done.output
    assert "of cluster east revoked" in done.stderr
    assert "the gateway does not know yet of what is revoked in the folder: run this again" in done.stderr


def test_a_dry_run_of_a_revocation_names_the_certificate_and_changes_nothing(world: World) -> None:
    world.joined("--gateway", "gw.example")
    before = (world.fleet / "ca.crt").read_bytes()
    done = world.revoke("east", "--dry-run")
    serial = x509.load_pem_x509_certificate((world.fleet / "cluster-east.crt").read_bytes()).serial_number
    assert f"certificate {serial:x} of cluster east would be revoked" in done.output
    assert (world.fleet / "ca.crt").read_bytes() == before


@pytest.mark.parametrize(
    ("clusters", "words"),
    [
        ("[{name: east, via: gateway, uid: 00000000-0000-4000-8000-000000000000}]", "clusters[0].uid is '00000000-"),
        ("[{name: east, via: ray}]", "clusters[0].via is 'ray', and this is 'gateway'"),
        ("[{name: other, uid: UID}]", "clusters[0] is this very cluster"),
    ],
)
def test_an_entry_that_says_otherwise_is_refused_before_anything_is_made(
    world: World, clusters: str, words: str
) -> None:
    uid = world.api.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
    world.config.write_text(f"clusters: {clusters.replace('UID', uid)}\n")
    done = world.run("--gateway", "gw.example", "--config", str(world.config))
    assert done.exit_code == ExitCode.FAILED
    assert words in done.stderr
    assert not world.fleet.exists()
    assert not world.there(TLS)


def test_a_cluster_that_an_agent_serves_under_another_name_is_refused(world: World) -> None:
    lease = {"metadata": {"name": STATE.rpartition("/")[2], "annotations": {VALUES: json.dumps({"cluster": "west"})}}}
    assert world.api.create(STATE.rpartition("/")[0], lease).is_success
    done = world.run("--gateway", "gw.example")
    assert "is served by an agent as cluster 'west'" in done.stderr


@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        ((), ExitCode.USAGE, "--gateway HOST[:PORT]: say where agents reach the gateway"),
        (("--gateway", "http://gw"), ExitCode.USAGE, "--gateway 'http://gw' is no host"),
        (("--gateway", "gw:99999"), ExitCode.USAGE, "--gateway 'gw:99999': 99999 is no port: 1 to 65535"),
        (("--gateway", "gw", "--dispatcher-context", "none"), ExitCode.USAGE, "--dispatcher-context: "),
        (("--gateway", "gw", "--cluster", "East_1"), ExitCode.USAGE, "'East_1' is no name of a cluster"),
        (("--gateway", "gw", "--context", "none"), ExitCode.USAGE, "has no context 'none'; known: east, west"),
        (("--gateway", "gw", "--config", "none.yaml"), ExitCode.FAILED, "none.yaml: No such file"),
        (("--gateway", "gw", "--values-out", __file__), ExitCode.USAGE, "was not written by `global-dispatcher join`"),
    ],
)
def test_what_cannot_be_done_is_told_with_the_fix(
    world: World, said: tuple[str, ...], code: ExitCode, words: str
) -> None:
    done = world.run(*said)
    assert (done.exit_code, words in done.stderr) == (code, True), done.output
    assert not world.there(TLS)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "has no key.pem"),
        ({"key": "bm9uZQ=="}, "has no key.pem"),
        ({"key.pem": "bm9uZQ=="}, "key.pem is no private key in PEM"),
    ],
)
def test_a_secret_that_holds_no_key_to_sign_with_is_told_and_left_as_it_is(
    world: World, data: dict[str, str], words: str
) -> None:
    world.joined("--gateway", "gw.example")
    world.api.delete(KEY)
    body = {"metadata": {"name": "global-dispatcher-key"}, **({"data": data} if data else {})}
    assert world.api.create(SECRETS, body).is_success
    for said in ((), ("--secrets-out", str(world.folder / "secrets.yaml"))):
        done = world.run(*said)
        told = f"Secret global-dispatcher/global-dispatcher-key: {words}: put your copy of the key there"
        assert (done.exit_code, told in done.stderr) == (ExitCode.FAILED, True), done.output
    assert world.api.get(KEY).get("data", {}) == data


@pytest.mark.parametrize("text", ["kind: [\n", "- none\n", "kind: Secret\n"])
def test_manifests_that_were_spoilt_are_not_replaced_as_the_key_may_be_in_them(world: World, text: str) -> None:
    secrets = world.folder / "secrets.yaml"
    world.joined("--gateway", "gw.example", "--secrets-out", str(secrets))
    spoilt = secrets.read_text().partition("\n")[0] + f"\n{text}"
    secrets.write_text(spoilt)
    done = world.run("--secrets-out", str(secrets))
    assert (done.exit_code, f"{secrets} is not as `join` has written it" in done.stderr) == (ExitCode.FAILED, True)
    assert secrets.read_text() == spoilt


def test_an_old_kubernetes_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "OLDEST_MINOR", 99)
    assert "is older than 1.99: upgrade it first" in world.run("--gateway", "gw").stderr


def test_the_webhook_of_the_chart_has_the_name_that_is_looked_for() -> None:
    chart = Path(__file__).parents[2] / "helm" / "agent" / "templates" / "webhook.yaml"
    assert f"- name: {WEBHOOK}\n" in chart.read_text()
