"""An API server that is made ready: checked first, then written to by server-side apply, or only
asked in a dry run.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from dispatcher.cli.operate.members import Member, MemberError
from dispatcher.config.access import AccessError, check_context, usual_kubeconfig
from dispatcher.service.errors import CommandError, ExitCode
from shared.kube.client import KubeClient, Patience
from shared.kube.session import Access

Object = dict[str, Any]
OLDEST_MINOR = 31
MANAGER = "global-dispatcher"
_APPLY = "application/apply-patch+yaml"
# kind -> its plural, and whether it is of a namespace
_KINDS = {
    "Namespace": ("namespaces", False),
    "Secret": ("secrets", True),
    "ServiceAccount": ("serviceaccounts", True),
    "ClusterRole": ("clusterroles", False),
    "ClusterRoleBinding": ("clusterrolebindings", False),
    "Role": ("roles", True),
    "RoleBinding": ("rolebindings", True),
    "MutatingAdmissionPolicy": ("mutatingadmissionpolicies", False),
    "MutatingAdmissionPolicyBinding": ("mutatingadmissionpolicybindings", False),
    "ValidatingAdmissionPolicy": ("validatingadmissionpolicies", False),
    "ValidatingAdmissionPolicyBinding": ("validatingadmissionpolicybindings", False),
}
_REVIEWS = "authorization.k8s.io/v1"
_OF_THE_SERVER = ("managedFields", "resourceVersion", "generation")


@dataclass(frozen=True)
class Place:
    """A kubeconfig context; an empty kubeconfig is kubectl's choice, an empty context the current
    one.

    `option`: the one that names the context.
    """

    context: str
    kubeconfig: str = ""
    option: str = "context"


@dataclass
class Target:
    """One cluster. `version` is (1, minor), `uid` that of kube-system. `steps`: what was done, for
    people.
    """

    where: str
    member: Member
    version: tuple[int, int]
    uid: str
    dry_run: bool
    steps: list[str] = field(default_factory=list)

    async def apply(self, one: Object) -> None:
        """Make an object, or make it as given; what others have written beside it stays.
        CommandError.
        """
        before = await self.found(one)
        if before is None and self.dry_run:  # its namespace may not be there yet
            self._did(one, "made")
            return
        query = f"fieldManager={MANAGER}&force=true" + ("&dryRun=All" if self.dry_run else "")
        after = await self._asked("PATCH", one, f"{path_of(one)}?{query}", _APPLY)
        if before is not None and _kept(before) == _kept(after):
            self._noted(one, "is as it should be")
        else:
            self._did(one, "made" if before is None else "changed")

    async def create(self, one: Object) -> None:
        """Make an object that is not there. CommandError, also if somebody makes it meanwhile."""
        if not self.dry_run:
            await self._asked("POST", one, path_of(one).rpartition("/")[0])
        self._did(one, "made")

    async def delete(self, one: Object) -> None:
        """Remove an object if it is there. CommandError."""
        if await self.found(one) is None:
            self._noted(one, "is not there")
            return
        if not self.dry_run:
            await self._asked("DELETE", one, path_of(one))
        self._did(one, "removed")

    async def need(self, namespace: str, *rights: tuple[str, str]) -> None:
        """Rights as (verb, resource), in a namespace or, of '', in the cluster. CommandError names
        those that lack.
        """
        lacking = []
        for verb, resource in rights:
            asked = {"namespace": namespace, "verb": verb, "resource": resource}
            review = {
                "apiVersion": _REVIEWS,
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": asked},
            }
            try:
                answer = await self.member.call(
                    "POST", f"/apis/{_REVIEWS}/selfsubjectaccessreviews", review
                )
            except MemberError as error:
                raise CommandError(
                    f"{self.where}: does not say what you may do: {error}", code_of(error)
                ) from None
            if not answer["status"]["allowed"]:
                lacking.append(f"{verb} {resource}")
        if lacking:
            inside = f" in namespace {namespace}" if namespace else ""
            text = (
                f"{self.where}: you may not {', '.join(lacking)}{inside}; use a context that may, "
                "or ask who gives it"
            )
            raise CommandError(text)

    async def found(self, one: Object) -> Object | None:
        """The object of that kind and name as it is there; None where there is none. CommandError."""
        try:
            return await self.member.call("GET", path_of(one))
        except MemberError as error:
            if error.status == 404:
                return None
            raise self.failed(one, error) from None

    async def listed(self, kind: str, version: str, **query: str) -> list[Object]:
        """Those of a kind in the whole cluster; none where it is not served. CommandError."""
        one = {"apiVersion": version, "kind": kind, "metadata": {"name": "", "namespace": ""}}
        try:
            items = await self.member.items(_collection(one), **query)
        except MemberError as error:
            if error.status == 404:
                return []
            raise self.failed(one, error) from None
        return [{**item, "apiVersion": version, "kind": kind} for item in items]

    async def _asked(
        self, method: str, one: Object, path: str, kind: str = "application/json"
    ) -> Object:
        try:
            return await self.member.call(method, path, None if method == "DELETE" else one, kind)
        except MemberError as error:
            raise self.failed(one, error) from None

    def failed(self, one: Object, error: MemberError) -> CommandError:
        """What the API server said of an object, with the way out where that is known."""
        fix = (
            "; use a context that has the right, or ask who gives it" if error.status == 403 else ""
        )
        return CommandError(f"{self.where}: {shown(one)}: {error}{fix}", code_of(error))

    def _did(self, one: Object, what: str) -> None:
        self._noted(one, f"would be {what}" if self.dry_run else what)

    def _noted(self, one: Object, what: str) -> None:
        self.steps.append(f"{shown(one)}: {what}")


def path_of(one: Mapping[str, Any]) -> str:
    """Where an object of a known kind is. What is found by a label may have any name, and names of
    RBAC may have question marks.
    """
    return f"{_collection(one)}/{quote(one['metadata']['name'], safe=':')}"


def _collection(one: Mapping[str, Any]) -> str:
    """Where all of that kind are in its namespace, or, of '', in the cluster."""
    plural, namespaced = _KINDS[one["kind"]]
    version = one["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = one["metadata"]["namespace"] if namespaced else ""
    inside = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{inside}/{plural}"


def shown(one: Mapping[str, Any]) -> str:
    """Kind, namespace and name."""
    meta = one["metadata"]
    return f"{one['kind']} {'/'.join(filter(None, (meta.get('namespace'), meta['name'])))}"


def access_to(place: Place) -> Access:
    """The way to the API server of a context. CommandError: the file or the context is not there."""
    kubeconfig = place.kubeconfig or usual_kubeconfig()
    if not kubeconfig:
        raise CommandError(
            "there is no kubeconfig: name one with --kubeconfig, or in $KUBECONFIG", ExitCode.USAGE
        )
    try:
        check_context(kubeconfig, place.context)
    except AccessError as error:
        option = place.option if error.key == "context" else error.key
        raise CommandError(f"--{option}: {error}", ExitCode.USAGE) from None
    return Access(kubeconfig, place.context)


@asynccontextmanager
async def reached(place: Place, dry_run: bool) -> AsyncIterator[Target]:
    """The cluster of a context. CommandError: it does not answer, is too old, or hides who it is."""
    access = access_to(place)
    client = KubeClient(access, Patience())
    try:
        yield await _checked(access.describe(), Member(place.context, client), dry_run)
    finally:
        await client.close()


async def _checked(where: str, member: Member, dry_run: bool) -> Target:
    try:
        told = await member.call("GET", "/version")
        version = _version(told)
        if version < (1, OLDEST_MINOR):
            text = (
                f"{where}: Kubernetes {told.get('gitVersion')} is older than 1.{OLDEST_MINOR}: "
                "upgrade it first"
            )
            raise CommandError(text)
        system = await member.call("GET", "/api/v1/namespaces/kube-system")
    except MemberError as error:
        text = (
            f"{where}: its API server cannot be asked for its version and its namespace "
            f"kube-system: {error}"
        )
        raise CommandError(text, code_of(error)) from None
    return Target(where, member, version, system["metadata"]["uid"], dry_run)


def _version(told: Object) -> tuple[int, int]:
    """(major, minor); managed clusters say '31+'. (0, 0) where it says no numbers."""
    try:
        return int(told["major"]), int("".join(one for one in told["minor"] if one.isdigit()))
    except (KeyError, ValueError, TypeError):
        return 0, 0


def code_of(error: MemberError) -> ExitCode:
    """The exit code of a command that stops at this."""
    return ExitCode.UNREACHABLE if error.status == 0 else ExitCode.FAILED


def _kept(one: Object) -> Object:
    """What is compared: all but what the server writes with each change."""
    meta = {key: value for key, value in one["metadata"].items() if key not in _OF_THE_SERVER}
    return {**one, "metadata": meta}
