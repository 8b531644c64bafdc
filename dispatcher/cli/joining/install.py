"""`global-dispatcher install`: what a cluster needs whose agent `run` starts, where no chart is
installed.
"""

import asyncio
import sys
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from agents.runtime import admission
from dispatcher.cli.joining import opt_in
from dispatcher.cli.joining.guards import UNDONE
from dispatcher.cli.joining.installed import beyond, labelled
from dispatcher.cli.joining.target import Place, Target, reached
from dispatcher.cli.operate.members import MemberError
from dispatcher.cli.output import Output, print_value
from dispatcher.service.errors import CommandError, ExitCode

Object = dict[str, Any]
POLICIES = [
    Path(admission.__file__).with_name(name) for name in ("opt_in.yaml", "proxy_nodes.yaml")
]
GUARD = Path(admission.__file__).with_name("gone_pods.yaml")
ROLES = Path(__file__).with_name("roles.yaml")
MORE_ROLES = ROLES.with_name("roles_more.yaml")
_VALIDATING = "validatingadmissionpolicies"
_WAIT_S = 30.0
_POLL_S = 0.2
_SERVICE_ACCOUNT = "system:serviceaccount:"
_BETA = (
    "start it with --feature-gates=MutatingAdmissionPolicy=true and "
    "--runtime-config=admissionregistration.k8s.io/v1beta1=true, or "
)


class May(StrEnum):
    """What an agent may do only where its settings ask for it (roles_more.yaml)."""

    NAMESPACES = "namespaces"
    REMOVAL = "removal"
    ACCOUNTS = "accounts"
    SECRETS = "secrets"
    SERVICES = "services"


@dataclass(frozen=True)
class Installing:
    """`user`: who is given the roles; empty: whom the context stands for. `may`: what more than
    agents may by default; `secrets_in`: in which namespaces it may Secrets, none: in all. What an
    earlier install gave beyond that is taken away.
    """

    place: Place
    user: str
    uninstall: bool
    dry_run: bool
    output: Output
    may: frozenset[May] = frozenset()
    secrets_in: tuple[str, ...] = ()


def install(wish: Installing) -> int:
    """Carry it out; the exit code. CommandError for what cannot be done."""
    return int(asyncio.run(_install(wish)))


async def _install(wish: Installing) -> ExitCode:
    if not _whole_name(wish.user):
        text = f"--user {wish.user!r}: a service account is {_SERVICE_ACCOUNT}NAMESPACE:NAME"
        raise CommandError(text, ExitCode.USAGE)
    async with reached(wish.place, wish.dry_run) as target:
        version = await _policy_version(target)
        guards = await _policy_version(target, _VALIDATING)
        user = wish.user or await _user(target)
        admission = [*(policies(version) if version else ()), *(guard() if guards else ())]
        most = [*roles(user, frozenset(May)), *admission]
        objects = [*roles(user, wish.may, wish.secrets_in), *admission]
        for one in reversed(most) if wish.uninstall else map(labelled, objects):
            await (target.delete(one) if wish.uninstall else target.apply(one))
        for one in await beyond(target, most if wish.uninstall else objects, most):
            await target.delete(one)
        if not guards:
            target.steps.append(f"ValidatingAdmissionPolicy: it is not served, so that {UNDONE}")
        row: Object = {"user": user, "steps": target.steps}
        problem = ""
        if not wish.uninstall:  # what a server was told to forget it does for some seconds more
            force = await _in_force(target, wait=bool(version) and not wish.dry_run)
            problem = _problem(target, version, force, dry_run=wish.dry_run)
            row["opt_in"] = {**force._asdict(), "problem": problem or force.problem}
    if wish.output is Output.TABLE:
        lines = [*target.steps, *([] if wish.uninstall else [f"opt-in: {force}"])]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stderr.write(f"error: {problem}\n" if problem else "")
    else:
        print_value(row, wish.output)
    return ExitCode.FAILED if problem else ExitCode.OK


def _whole_name(user: str) -> bool:
    """Whether a service account has its two parts; users of other kinds have any form."""
    parts = user.removeprefix(_SERVICE_ACCOUNT).split(":")
    return not user.startswith(_SERVICE_ACCOUNT) or (len(parts) == 2 and all(parts))


def policies(version: str) -> list[Object]:
    """The mutating admission policies of the agent's chart, for the version that a server has."""
    return [
        {**one, "apiVersion": f"admissionregistration.k8s.io/{version}"}
        for file in POLICIES
        for one in yaml.safe_load_all(file.read_text())
    ]


def guard() -> list[Object]:
    """The validating admission policy of the agent's chart that asks for no account: changes that
    would not be made.
    """
    return list(yaml.safe_load_all(GUARD.read_text()))


def roles(
    user: str, may: frozenset[May] = frozenset(), secrets_in: tuple[str, ...] = ()
) -> list[Object]:
    """The rights that an agent which `run` starts uses, and the Lease by which a dispatcher leads,
    for one user; with those that it `may` have besides, Secrets in these namespaces alone.
    """
    subject: Object = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    if user.startswith(_SERVICE_ACCOUNT):
        namespace, _, name = user.removeprefix(_SERVICE_ACCOUNT).partition(":")
        subject = {"kind": "ServiceAccount", "namespace": namespace, "name": name}
    more = yaml.safe_load_all(MORE_ROLES.read_text())
    objects: list[Object] = [
        *yaml.safe_load_all(ROLES.read_text()),
        *(one for one in more if one["metadata"]["name"].rpartition("-")[2] in may),
    ]
    kubelets = [one for one in objects if one["kind"] == "ServiceAccount"]
    account: Object = {"kind": "ServiceAccount", **_named(kubelets[0])}
    bound = [
        _binding(one, account if one["metadata"]["name"] == account["name"] else subject)
        for one in objects
        if one not in kubelets
    ]
    return [*objects, *(held for one in bound for held in _limited(one, secrets_in))]


def _limited(binding: Object, secrets_in: tuple[str, ...]) -> list[Object]:
    """The bindings in place of one that is for all namespaces, where it is of Secrets."""
    if not secrets_in or not binding["roleRef"]["name"].endswith(f"-{May.SECRETS}"):
        return [binding]
    name = binding["metadata"]["name"]
    return [
        {**binding, "kind": "RoleBinding", "metadata": {"name": name, "namespace": namespace}}
        for namespace in secrets_in
    ]


def _named(one: Object) -> Object:
    return {"namespace": one["metadata"]["namespace"], "name": one["metadata"]["name"]}


def _binding(role: Object, subject: Object) -> Object:
    reference = {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": role["kind"],
        "name": role["metadata"]["name"],
    }
    return {
        "apiVersion": role["apiVersion"],
        "kind": f"{role['kind']}Binding",
        "metadata": role["metadata"],
        "roleRef": reference,
        "subjects": [subject],
    }


async def _policy_version(target: Target, policies: str = opt_in.POLICIES) -> str:
    try:
        return await opt_in.served(target.member, policies)
    except MemberError as error:
        raise CommandError(
            f"{target.where}: admissionregistration.k8s.io cannot be asked: {error}"
        ) from None


async def _user(target: Target) -> str:
    """Whom the context stands for, as its API server says."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = await target.member.call(
            "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review
        )
    except MemberError as error:
        text = (
            f"{target.where}: does not say who you are ({error}): name with --user who is given "
            "the roles"
        )
        raise CommandError(text) from None
    return str(answer["status"]["userInfo"]["username"])


def _problem(target: Target, version: str, force: opt_in.OptIn, *, dry_run: bool) -> str:
    """Why the annotation alone is not enough now, and what to do; '' where it is, or where that is
    not known. A dry run has made no policy that could do anything.
    """
    if force.acts or (version and (force.acts is None or dry_run)):
        return ""
    major, minor = target.version
    beta = _BETA if minor >= 34 and version != "v1" else ""
    lacks = f"has no {opt_in.POLICY_KIND} turned on"
    if version:
        lacks = (
            f"serves {opt_in.POLICY_KIND} {version}, but the policy does nothing within "
            f"{_WAIT_S:g} s"
        )
        if version == "v1beta1":
            lacks += " (its feature gate is off)"
    return (
        f"{target.where}: Kubernetes {major}.{minor} {lacks}: {beta}install the "
        "agent's chart with admissionPolicy.by: webhook (docs/connectivity.md), or name our "
        "schedulerName in pods"
    )


async def _in_force(target: Target, *, wait: bool) -> opt_in.OptIn:
    """What is in force; `wait`: API servers read a new policy after a moment."""
    until = time.monotonic() + (_WAIT_S if wait else 0.0)
    while True:
        force = await opt_in.in_force(target.member)
        if force.acts is not False or time.monotonic() >= until:
            return force
        await asyncio.sleep(_POLL_S)
