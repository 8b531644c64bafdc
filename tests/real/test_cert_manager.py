"""cert-manager as signer of what the charts render: a real API server, its controllers, a dispatcher and an agent.

The program is not built for this test, as it takes minutes. Build it once:

    cd tests/real/cert_manager && go build -o ~/.cache/global-dispatcher/cert-manager-v1.21.2 .
"""

import contextlib
import json
import re
import ssl
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.x509 import ExtendedKeyUsage, SubjectAlternativeName
from cryptography.x509.oid import ExtendedKeyUsageOID

from dispatcher.config.certificates import ROLES
from dispatcher.service.gateway.authority import ensure
from localfleet.controlplane import binaries
from localfleet.controlplane.components import PlaneSpec
from localfleet.controlplane.plane import ControlPlane
from tests.charts.dispatcher_values import ON_RAY
from tests.charts.rendering import KUBELET_ACCOUNT, NAMESPACE, Helm, of_kind
from tests.charts.split_install import write_private_key
from tests.controlplane.fixtures import ControlPlanes
from tests.real.test_joining import ACCOUNTS, SECRETS, Dispatcher, command
from tests.system.cluster_api import eventually
from tests.system.ray_fleet import JoinedAgent, Process, environment, free_ports

Object = dict[str, Any]
SOURCE = Path(__file__).parent / "cert_manager"
MODULE = "github.com/cert-manager/cert-manager"
VERSION = re.search(rf"{MODULE} (v\S+)", (SOURCE / "go.mod").read_text())
PROGRAM = binaries.cache_directory().parent / f"cert-manager-{VERSION[1] if VERSION else ''}"
API = f"/apis/cert-manager.io/v1/namespaces/{NAMESPACE}/certificates"
SIGNER: Object = {"enabled": True, "issuerRef": {"name": "fleet", "kind": "ClusterIssuer"}}
WAIT_S = 20.0
GATEWAY, LIST = "global-dispatcher-gateway", b"-----BEGIN X509 CRL-----\n"
EAST = "spiffe://global-dispatcher.io/cluster/east"
SERVER, CLIENT, CODE = (
    ExtendedKeyUsageOID.SERVER_AUTH,
    ExtendedKeyUsageOID.CLIENT_AUTH,
    ExtendedKeyUsageOID.CODE_SIGNING,
)
# Of each Secret: the names in its certificate, and what it may be used for.
MADE: dict[str, tuple[set[str], set[x509.ObjectIdentifier]]] = {
    GATEWAY: ({"127.0.0.1"}, {SERVER}),
    "global-dispatcher-signing": ({"spiffe://global-dispatcher.io/dispatcher"}, {CODE}),
    "dispatcher-ray-tls": (
        {f"dispatcher.dispatcher-ray.{NAMESPACE}.svc"},
        {SERVER, CLIENT},
    ),
    "global-dispatcher-agent-observer": ({f"{EAST}/observer"}, {CLIENT}),
    "global-dispatcher-agent-executor": ({f"{EAST}/executor"}, {CLIENT}),
    "agent-webhook-tls": ({f"agent-webhook.{NAMESPACE}.svc"}, {SERVER}),
}


def crds() -> list[Object]:
    """Of the module that the program was built from."""
    line = ["go", "list", "-m", "-f", "{{.Dir}}", MODULE]
    told = subprocess.run(line, cwd=SOURCE, capture_output=True, text=True, check=True, timeout=60)
    files = sorted((Path(told.stdout.strip()) / "deploy" / "crds").glob("*.yaml"))
    return [yaml.safe_load(one.read_text()) for one in files]


class Site:
    """A plane with cert-manager and what the charts render for it; the files that pods would have mounted."""

    def __init__(self, plane: ControlPlane, helm: Helm, folder: Path) -> None:
        self.plane, self.folder, self.fleet = plane, folder, folder / "fleet"
        self.port, self.gateway_port = free_ports(2)
        ensure(self.fleet, [], [])  # the fleet's authority
        dispatcher = {
            "config": {
                "clusters": [{"name": "east", "via": "gateway"}, *ON_RAY["config"]["clusters"][1:]],
                "ray": ON_RAY["config"]["ray"],
            },
            "gateway": {"certManager": {**SIGNER, "ipAddresses": ["127.0.0.1"]}},
            "ray": {"tls": {"existingSecret": "dispatcher-ray-tls", "certManager": SIGNER}},
        }
        agent = {
            "cluster": "east",
            "gateway": {"urls": [f"wss://127.0.0.1:{self.gateway_port}"], "split": True, "certManager": SIGNER},
            "admissionPolicy": {"webhook": {"certManager": SIGNER}},
        }
        self.dispatcher, self.agent_chart = (
            helm.template("dispatcher", dispatcher),
            helm.template("agent", agent, apis=()),
        )

    def install(self) -> None:
        """The issuer that signs with the fleet's authority, and the rendered objects that cert-manager acts on."""
        self.plane.apply(*crds())
        self.plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": one}} for one in (NAMESPACE, "pki")]
        pair = {"tls.crt": self.fleet / "ca.crt", "tls.key": self.fleet / "ca.key"}
        data = {key: b64encode(file.read_bytes()).decode() for key, file in pair.items()}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "fleet", "namespace": "pki"}, "data": data}
        issuer = {"apiVersion": "cert-manager.io/v1", "kind": "ClusterIssuer", "metadata": {"name": "fleet"}}
        self.plane.apply(*spaces, secret, {**issuer, "spec": {"ca": {"secretName": "fleet"}}})
        self.plane.apply(*of_kind(self.dispatcher, "Certificate"), *self.agent_chart)

    def secret(self, name: str) -> dict[str, bytes]:
        """What is in a Secret."""
        data = self.plane.admin.get(f"{SECRETS}/{name}").get("data") or {}
        return {key: b64decode(text) for key, text in data.items()}

    def ready(self) -> bool:
        """Whether all certificates are issued, and none is being renewed."""
        items = self.plane.admin.get(API)["items"]
        said = [{one["type"]: one["status"] for one in item.get("status", {}).get("conditions", ())} for item in items]
        return len(said) == len(MADE) and all(one.get("Ready") == "True" != one.get("Issuing") for one in said)

    def renew(self) -> None:
        """As `cmctl renew --all`."""
        for item in self.plane.admin.get(API)["items"]:
            kept = [one for one in item["status"]["conditions"] if one["type"] != "Issuing"]
            issuing = {"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "by a test"}
            status = {"status": {"conditions": [*kept, issuing]}}
            self.plane.admin.patch(f"{API}/{item['metadata']['name']}/status", status)

    def mount(self) -> None:
        """Each Secret as a folder, as a kubelet brings it."""
        for name in MADE:
            folder = self.folder / name
            folder.mkdir(exist_ok=True)
            for key, data in self.secret(name).items():
                (folder / f"{key}.new").write_bytes(data)
                (folder / f"{key}.new").replace(folder / key)

    def file(self, secret: str, key: str) -> str:
        return str(self.folder / secret / key)

    def config(self) -> Path:
        """dispatcher.yaml with the keys of the mounted Secrets."""
        gateway, signing = GATEWAY, "global-dispatcher-signing"
        settings = {
            "clusters": [{"name": "east", "via": "gateway"}],
            "gateway": {
                "port": self.gateway_port,
                "cert_file": self.file(gateway, "tls.crt"),
                "key_file": self.file(gateway, "tls.key"),
                "client_ca_file": self.file(gateway, "ca.crt"),
            },
            "signing": {"cert_file": self.file(signing, "tls.crt"), "key_file": self.file(signing, "tls.key")},
            "http": {"port": self.port},
            "leader_election": {"enabled": False},
        }
        path = self.folder / "dispatcher.yaml"
        path.write_text(yaml.safe_dump(settings))
        return path

    def half(self, role: str) -> JoinedAgent:
        """A process of the agent."""
        secret, folder = f"global-dispatcher-agent-{role}", self.folder / role
        folder.mkdir(exist_ok=True)
        write_private_key(self.agent_chart, key := folder / "key.pem")
        files = {"cert_file": "tls.crt", "key_file": "tls.key", "ca_file": "ca.crt"}
        gateway = {key: self.file(secret, file) for key, file in files.items()}
        settings = {
            "cluster": "east",
            "role": role,
            "kubeconfig": str(self.plane.kubeconfig_for(ACCOUNTS[role], NAMESPACE, 3600)),
            "context": "east",
            **({"key_file": str(key)} if role == "executor" else {}),
            "kubelet": {"interval_s": 60, "account": KUBELET_ACCOUNT},
            "gateway": {"urls": [f"wss://127.0.0.1:{self.gateway_port}"], "longest_pause_s": 1, **gateway},
        }
        return JoinedAgent(folder, settings, ip="127.0.0.1")

    @contextlib.contextmanager
    def agent(self) -> Iterator[list[JoinedAgent]]:
        """Both."""
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(self.half(role)) for role in ROLES]

    def served(self) -> int:
        """The serial number of the certificate that the gateway shows to who connects now."""
        return serial(ssl.get_server_certificate(("127.0.0.1", self.gateway_port), timeout=5).encode())

    def serials(self) -> dict[str, int]:
        """Of the certificate in each Secret."""
        return {name: serial(self.secret(name)["tls.crt"]) for name in MADE}


@pytest.fixture(scope="module")
def site(control_plane: ControlPlanes, helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Certificates issued once."""
    if not PROGRAM.exists():
        pytest.skip(f"no cert-manager: cd {SOURCE} && go build -o {PROGRAM} .")
    (plane,) = control_plane.together(PlaneSpec("east"))
    made = Site(plane, helm, tmp_path_factory.mktemp("site"))
    made.install()
    line = [str(PROGRAM), "-to", str(plane.kubeconfig), "-cluster-resource-namespace", "pki"]
    with Process(line, made.folder / "cert-manager.log", environment()) as signer:
        eventually(made.ready, WAIT_S, lambda: signer.tail() + json.dumps(plane.admin.get(API)["items"])[:8000])
        made.mount()
        yield made


def serial(pem: bytes) -> int:
    return x509.load_pem_x509_certificate(pem).serial_number


@pytest.mark.parametrize("name", MADE)
def test_each_secret_has_the_names_and_usages_that_its_readers_ask_for(site: Site, name: str) -> None:
    found = site.secret(name)
    assert found.keys() == {"tls.crt", "tls.key", "ca.crt"}
    made = x509.load_pem_x509_certificate(found["tls.crt"])
    names = made.extensions.get_extension_for_class(SubjectAlternativeName).value
    usages = made.extensions.get_extension_for_class(ExtendedKeyUsage).value
    assert ({str(name.value) for name in names}, set(usages)) == MADE[name]
    assert found["ca.crt"].strip() == (site.fleet / "ca.crt").read_bytes().strip()
    made.verify_directly_issued_by(x509.load_pem_x509_certificate(found["ca.crt"]))


def test_the_api_server_is_told_whom_to_trust_of_the_webhook(site: Site) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"

    def told() -> list[str]:
        return [
            hook["clientConfig"].get("caBundle", "")
            for one in site.plane.admin.get(path)["items"]
            for hook in one["webhooks"]
        ]

    eventually(lambda: all(told()), WAIT_S, lambda: (site.folder / "cert-manager.log").read_text()[-4000:])
    assert [b64decode(one) for one in told()] == [site.secret("agent-webhook-tls")["ca.crt"]]


def test_dispatcher_and_agent_serve_with_them_and_take_renewed_ones_while_they_run(site: Site) -> None:
    config = site.config()
    done = command("config", "check", str(config))
    assert done.returncode == 0, done.stdout + done.stderr
    with site.agent() as agent:

        def tails() -> str:
            return "\n".join(one.tail() for one in agent)

        with Dispatcher(site.folder, config, site.port) as dispatcher:
            eventually(lambda: dispatcher.ready() == [True], WAIT_S, lambda: dispatcher.tail() + tails())
            before, authority = site.serials(), site.secret(GATEWAY)["ca.crt"]
            site.plane.admin.patch(f"{SECRETS}/{GATEWAY}", {"data": {"ca.crt": b64encode(authority + LIST).decode()}})
            assert site.served() == before[GATEWAY]
            site.renew()
            eventually(lambda: site.ready() and not set(site.serials().values()) & set(before.values()), WAIT_S)
            assert site.secret(GATEWAY)["ca.crt"] == authority  # so a revocation list has to be in another Secret
            site.mount()
            eventually(lambda: site.served() == site.serials()[GATEWAY], WAIT_S, dispatcher.tail)
            eventually(lambda: "the signing key was read again" in dispatcher.tail(), WAIT_S, dispatcher.tail)
            assert dispatcher.ready() == [True]
        with Dispatcher(site.folder, config, site.port) as dispatcher:  # so all connect anew, with what is there now
            eventually(lambda: dispatcher.ready() == [True], WAIT_S, lambda: dispatcher.tail() + tails())
        assert not [one.code for one in agent if one.code is not None]
        words = [json.loads(line) for one in agent for line in one.log.read_text().splitlines() if "not obeyed" in line]
        assert not [
            word for word in words if word["reason"] != "audience"
        ]  # one may be signed before it has said hello
