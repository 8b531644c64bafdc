"""`global-dispatcher join`: a cluster gets identity, certificates and an entry; what is there
already stays.
"""

import asyncio
import re
import subprocess
import sys
from base64 import b64decode
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from cryptography import x509

from dispatcher.cli.joining import objects, opt_in, trusted_authority
from dispatcher.cli.joining.entry import entry_of, flow, with_entry
from dispatcher.cli.joining.gateway_secret import bring, left_to_do
from dispatcher.cli.joining.target import Place, Target, access_to, reached
from dispatcher.cli.operate.executor_words import own_key
from dispatcher.cli.operate.identity import called
from dispatcher.cli.operate.members import MemberError
from dispatcher.cli.output import Output, print_value
from dispatcher.config.certificates import ROLES, URI
from dispatcher.config.sections import CLUSTER_NAME
from dispatcher.service.errors import CommandError, ExitCode
from dispatcher.service.gateway.authority import SIGNING, Made, ensure, name_of
from dispatcher.service.gateway.folder import Folder, write_whole
from shared.security.signatures import is_key

Object = dict[str, Any]
PORT = 7443
URL_FILE = "gateway.url"  # beside the certificates: what agents dial, a URL a line
_URL = re.compile(
    r"(?:wss://)?(\[[0-9a-fA-F:]+\]|[A-Za-z0-9](?:[-A-Za-z0-9.]*[A-Za-z0-9])?)(?::([0-9]{1,5}))?/?"
)
_ELSEWHERE = (
    "left out, as an agent signs with a key already, which the chart's own Secret has; if it was "
    "in this Secret, put "
    "your copy back and join again, else the agent that comes next is refused"
)
_OURS = (
    "# Written by `global-dispatcher join`, and again by the next one: put what is yours into "
    "another file.\n"
)


@dataclass(frozen=True)
class Joining:
    """What the command was told; empty: not given. `chart`: Helm runs; `dispatcher`: where the
    gateway's Secret is.
    """

    cluster: str
    place: Place
    folder: Path
    gateway: tuple[str, ...]
    namespace: str
    config: Path | None
    values_out: Path | None
    secrets_out: Path | None
    chart: str
    dispatcher: Place | None
    new_authority: bool
    dry_run: bool
    output: Output

    @property
    def name(self) -> str:
        """The cluster's name in the fleet: by default that of its context. CommandError."""
        name = self.cluster or self.place.context
        if not re.fullmatch(CLUSTER_NAME, name):
            text = (
                f"{name!r} is no name of a cluster (a-z, 0-9, '-', at most 42 characters): give "
                "one with --cluster"
            )
            raise CommandError(text, ExitCode.USAGE)
        return name


@dataclass
class Told:
    """What came of it, for people and for programs."""

    target: Target
    lines: list[str]
    entry: dict[str, str]
    values: Object
    helm: list[str]
    to_do: list[str]


def join(wish: Joining) -> int:
    """Carry it out; the exit code. CommandError for what cannot be done; repeating it is safe."""
    name = wish.name
    for file in (wish.values_out, wish.secrets_out):
        _check_ours(file)
    _check_values(wish.values_out, name)
    _written(
        wish, objects.KEY_SECRET
    )  # that the file has no keys of another cluster, also where ours is known
    if wish.dispatcher is not None:
        access_to(wish.dispatcher)
    told = asyncio.run(_join(wish, name))
    if wish.output is Output.TABLE:
        sys.stdout.write(_text(wish, name, told))
    else:
        about = {
            "cluster": name,
            "uid": told.target.uid,
            "kubernetes": ".".join(map(str, told.target.version)),
        }
        row = {
            **about,
            "steps": told.lines,
            "entry": told.entry,
            "values": told.values,
            "helm": told.helm,
        }
        print_value({**row, "next": told.to_do}, wish.output)
    if not wish.chart or wish.dry_run:
        return int(ExitCode.OK)
    sys.stdout.flush()
    try:
        code = subprocess.run(told.helm, check=False).returncode  # noqa: S603 - the command that was told
    except OSError as error:
        raise CommandError(
            f"helm cannot be run: {error.strerror}: {objects.as_typed(told.helm)}"
        ) from None
    return int(ExitCode.FAILED if code else ExitCode.OK)


async def _join(wish: Joining, name: str) -> Told:
    async with reached(wish.place, wish.dry_run) as target:
        await _check_identity(target, name)
        await _check_rights(target, wish)
        if wish.config is not None:
            with_entry(wish.config, entry_of(name, target.uid))  # before anything is made
        by = await opt_in.for_chart(target.member)
        folder = Folder(wish.folder, wish.dry_run)
        if not wish.new_authority:
            await _check_authority(wish, target, folder)
        urls, hosts = _gateways(folder, wish.gateway)
        made = ensure(folder, hosts, [name])
        folder.write(URL_FILE, "".join(f"{url}\n" for url in urls).encode(), 0o644)
        lines = [_line(wish, one) for one in made]
        made_there = await _secrets(wish, target, folder, name, by)
        if wish.dispatcher is not None:
            lines += await bring(folder, wish.dispatcher, wish.namespace)
        stale = any(one.made for one in made if one.file.stem in ("ca", "gateway", SIGNING))
        to_do = left_to_do(folder, wish.namespace) if wish.dispatcher is None and stale else []
    entry = entry_of(name, target.uid, made_there.keys)
    edited, change = with_entry(wish.config, entry, made_there.keys) if wish.config else ("", "")
    values = objects.values(name, urls, by, own_key=made_there.own_key, webhook=made_there.webhook)
    lines += [*target.steps, *_files(wish, edited, change, values)]
    place = wish.place.context, wish.place.kubeconfig
    helm = objects.helm_words(
        wish.chart or "helm/agent", wish.namespace, place, values, wish.values_out
    )
    return Told(target, lines, entry, values, helm, to_do)


async def _check_identity(target: Target, name: str) -> None:
    """Refuse a cluster whose agent serves it under another name: its pods elsewhere carry that one."""
    known = await called(target.member)
    if known not in ("", name):
        raise CommandError(
            f"{target.where} is served by an agent as cluster {known!r}: join it with --cluster "
            f"{known}, or give it "
            "another name as docs/operations.md says"
        )


async def _check_authority(wish: Joining, target: Target, folder: Folder) -> None:
    await trusted_authority.check(target, wish.namespace, trusted_authority.AGENTS, folder)
    if wish.dispatcher is not None:
        async with reached(wish.dispatcher, wish.dry_run) as central:
            await trusted_authority.check(
                central, wish.namespace, trusted_authority.DISPATCHERS, folder
            )


async def _check_rights(target: Target, wish: Joining) -> None:
    """Before anything is made."""
    writes = () if wish.secrets_out else (("create", "secrets"), ("patch", "secrets"))
    await target.need(wish.namespace, ("get", "secrets"), *writes)
    if not wish.secrets_out and await target.found(objects.namespace(wish.namespace)) is None:
        await target.need("", ("create", "namespaces"), ("patch", "namespaces"))


def _gateways(folder: Folder, given: Sequence[str]) -> tuple[list[str], list[str]]:
    """(the URLs that the agent dials, all hosts of the gateway's certificate: those it has, and
    those of the URLs).
    """
    try:
        hosts, known = (
            _hosts(folder.read("gateway.crt")),
            (folder.read(URL_FILE) or b"").decode().split(),
        )
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{folder} cannot be read: {error}") from None
    if not (given or known or hosts):
        text = (
            f"--gateway HOST[:PORT]: say where agents reach the gateway; {folder} does not tell yet"
        )
        raise CommandError(text, ExitCode.USAGE)
    wanted = given or known or [f"[{hosts[0]}]" if ":" in hosts[0] else hosts[0]]
    dialled = [_host_and_port(one) for one in wanted]
    urls = [f"wss://{host}:{port}" for host, port in dialled]
    return urls, list(dict.fromkeys([*hosts, *(host.strip("[]") for host, _ in dialled)]))


def _host_and_port(wanted: str) -> tuple[str, str]:
    found = _URL.fullmatch(wanted)
    if found is None:
        raise CommandError(
            f"--gateway {wanted!r} is no host: write HOST, HOST:PORT or wss://HOST:PORT",
            ExitCode.USAGE,
        )
    port = found[2] or str(PORT)
    if not 1 <= int(port) <= 65535:
        raise CommandError(f"--gateway {wanted!r}: {port} is no port: 1 to 65535", ExitCode.USAGE)
    return found[1], port


def _hosts(pem: bytes | None) -> list[str]:
    """Names and addresses of a certificate; none where there is none."""
    try:
        certificate = x509.load_pem_x509_certificate(pem or b"")
        named = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return []
    return [str(one.value) for one in named if isinstance(one, x509.DNSName | x509.IPAddress)]


class _Brought(NamedTuple):
    """What the agent mounts. `own_key`: its key is in the Secret that is ours to name. `webhook`:
    the Secret of its webhook, for charts that are only rendered: each rendering would make another
    certificate. `keys`: the cluster's public keys, the one it signs with first; none where a dry
    run would make them.
    """

    own_key: bool
    webhook: Object | None
    keys: tuple[str, ...]


async def _secrets(
    wish: Joining, target: Target, folder: Folder, name: str, opt_in_by: str
) -> _Brought:
    """Bring or write what the agent mounts."""
    tls = [
        objects.tls_secret(
            wish.namespace, f"{objects.TLS_SECRET}-{role}", folder, name_of(name, role)
        )
        for role in ROLES
    ]
    key = await _cluster_key(wish, target)
    if wish.secrets_out is None:
        space = objects.namespace(wish.namespace)
        if await target.found(space) is None:
            await target.apply(space)
        for one in tls:
            await target.apply(one)
        if key.secret is not None and not key.there:
            await target.create(key.secret)
        return _Brought(key.secret is not None, None, key.public)
    webhook = None
    if opt_in_by == "webhook":
        webhook = _written(wish, objects.WEBHOOK_SECRET) or objects.webhook_secret(wish.namespace)
    if not wish.dry_run:
        text = _OURS + yaml.safe_dump_all(
            [*tls, *(one for one in (key.secret, webhook) if one)], sort_keys=False
        )
        write_whole(wish.secrets_out, text.encode(), 0o600)
    target.steps.append(
        f"{wish.secrets_out}: {'would be written' if wish.dry_run else 'written'}: private keys"
    )
    return _Brought(key.secret is not None, webhook, key.public)


class _ClusterKey(NamedTuple):
    """`secret`: the Secret of ours with the key that the cluster signs with; None where an agent
    has it from elsewhere. `there`: that is in the cluster already. `public`: as of _Brought.
    """

    secret: Object | None
    there: bool
    public: tuple[str, ...]


async def _cluster_key(wish: Joining, target: Target) -> _ClusterKey:
    """The one that is there, that an agent uses, that was written before, or a new one."""
    here = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": objects.KEY_SECRET, "namespace": wish.namespace},
    }
    found = await target.found(here)
    if found is not None:
        if problem := objects.key_problem(found):
            raise CommandError(
                f"{target.where}: Secret {wish.namespace}/{objects.KEY_SECRET}: {problem}"
            )
        return _ClusterKey(
            {**here, "data": found["data"]}, there=True, public=objects.public_keys(found)
        )
    if signs := await _signs(target, wish.namespace):
        return _ClusterKey(None, there=True, public=(signs,) if is_key(signs) else ())
    written = _written(wish, objects.KEY_SECRET)
    secret = written or objects.key_secret(wish.namespace)
    public = () if wish.dry_run and written is None else objects.public_keys(secret)
    return _ClusterKey(secret, there=False, public=public)


async def _signs(target: Target, namespace: str) -> str:
    """The public key of an agent that has served the cluster before: that is in another Secret, and
    another is refused. '' if none has.
    """
    try:
        signs = await own_key(target.member)
    except MemberError as error:
        if error.status == 404:
            return ""
        raise CommandError(
            f"{target.where}: Lease kube-node-lease/global-dispatcher-agent.state: {error}"
        ) from None
    if signs:
        target.steps.append(f"Secret {namespace}/{objects.KEY_SECRET}: {_ELSEWHERE}")
    return signs


def _written(wish: Joining, name: str) -> Object | None:
    """A Secret of manifests that were written before, for this namespace: the webhook's certificate
    names it. CommandError for those of another cluster, whose key would be shared, or lost.
    """
    file = wish.secrets_out
    try:
        written = (
            list(yaml.safe_load_all(file.read_text())) if file is not None and file.exists() else []
        )
        certificates = [
            b64decode(one["data"]["tls.crt"]) for one in written if "tls.crt" in one["data"]
        ]
        found = {(one["metadata"]["name"], one["metadata"]["namespace"]): one for one in written}
        clusters = {of for one in certificates for of in _names(one)}
    except (yaml.YAMLError, TypeError, KeyError, ValueError, x509.ExtensionNotFound):
        text = (
            f"{file} is not as `join` has written it, and the cluster's key may be in it: put the "
            "file back"
        )
        raise CommandError(text) from None
    if not clusters <= {wish.name}:
        raise CommandError(
            f"{file} has the keys of another cluster: name another file", ExitCode.USAGE
        )
    return found.get((name, wish.namespace))


def _names(certificate: bytes) -> set[str]:
    """Of which clusters it is; of none, if it is a server's."""
    names = x509.load_pem_x509_certificate(certificate).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    uris = names.value.get_values_for_type(x509.UniformResourceIdentifier)
    return {one.removeprefix(URI).partition("/")[0] for one in uris}


def _check_ours(file: Path | None) -> None:
    try:
        if file is not None and file.exists() and not file.read_text().startswith(_OURS):
            raise CommandError(
                f"{file} was not written by `global-dispatcher join`: name another file",
                ExitCode.USAGE,
            )
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file} cannot be read: {error}") from None


def _check_values(file: Path | None, name: str) -> None:
    """Refuse to write over the values of another cluster."""
    with suppress(OSError, yaml.YAMLError, AttributeError, TypeError):
        of = (
            yaml.safe_load(file.read_text()).get("cluster", name)
            if file is not None and file.exists()
            else name
        )
        if of != name:
            raise CommandError(
                f"{file} has the values of cluster {of}: name another file", ExitCode.USAGE
            )


def _files(wish: Joining, edited: str, change: str, values: Object) -> list[str]:
    """Write what was asked for; a line each."""
    lines = []
    try:
        if wish.config is not None:
            if change and not wish.dry_run:
                wish.config.write_text(edited)
            lines.append(
                f"{wish.config}: "
                f"{'would have ' if change and wish.dry_run else ''}{change or 'lists it'}"
            )
        if wish.values_out is not None:
            if not wish.dry_run:
                wish.values_out.write_text(_OURS + yaml.safe_dump(values, sort_keys=False))
            lines.append(f"{wish.values_out}: {'would be written' if wish.dry_run else 'written'}")
    except OSError as error:
        raise CommandError(f"{error.filename} cannot be written: {error.strerror}") from None
    return lines


def _line(wish: Joining, one: Made) -> str:
    did = ("would be made" if wish.dry_run else "made") if one.made else "is good"
    return f"{wish.folder / one.file.name}: {did}, until {one.until:%Y-%m-%d}"


def _text(wish: Joining, name: str, told: Told) -> str:
    version = ".".join(map(str, told.target.version))
    lines = [
        f"cluster {name}: Kubernetes {version}, uid {told.target.uid}, {told.target.where}",
        *told.lines,
        "",
    ]
    if wish.config is None:
        lines += [
            "Tell the dispatcher, in `clusters` of dispatcher.yaml or `config.clusters` of its "
            "chart's values:"
        ]
        lines += [f"  - {flow(told.entry)}", ""]
    lines += ["The dispatcher reads a changed list of clusters when it starts again.", *told.to_do]
    if not wish.chart:
        lines += ["Install the agent, or upgrade it:", f"  {objects.as_typed(told.helm)}"]
    lines += [f"Run this again before {_first_end(told)}, from a timer, to renew what needs it."]
    return "".join(f"{line}\n" for line in lines)


def _first_end(told: Told) -> str:
    dates: list[str] = re.findall(r"until (\d{4}-\d\d-\d\d)", "\n".join(told.lines))
    return min(dates)
