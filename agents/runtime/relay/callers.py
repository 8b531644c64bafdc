"""Who asks at the kubelet endpoint: a client certificate of the cluster, whose user may do what
kubelets ask for.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from agents.executor.relayed.relay import FORBIDDEN, Refusal
from agents.runtime.relay.settings import RelaySettings
from shared.kube.client import KubeClient
from shared.kube.http import Request
from shared.kube.verdicts import error_text

UNAUTHORIZED = 401
_CONFIG = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
# for so long an answer counts
_GOOD_S = 10.0
_BAD_S = 2.0
_MOST = 256


class Caller(NamedTuple):
    """The user of a certificate or a token, as API servers read it."""

    name: str
    groups: tuple[str, ...]
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class _Data(msgspec.Struct):
    data: dict[str, str] = {}


class _Status(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


class Callers:
    """Judges callers by the API server of this cluster."""

    def __init__(
        self,
        client: KubeClient,
        settings: RelaySettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._answers: OrderedDict[tuple[Caller, str, str, str], tuple[bool, float]] = OrderedDict()

    async def authorities(self) -> str:
        """Certificates (PEM) of who signs client certificates. ValueError, OSError: why they are
        not known.
        """
        if self._settings.client_ca_file:
            return await asyncio.to_thread(
                Path(self._settings.client_ca_file).read_text, "ascii", "replace"
            )
        response = await self._client.send(Request("GET", _CONFIG))
        if not response.ok:
            raise ValueError(
                "the ConfigMap extension-apiserver-authentication cannot be read: "
                f"{error_text(response)}"
            )
        found = msgspec.json.decode(response.body, type=_Data).data.get("client-ca-file", "")
        if not found:
            raise ValueError(
                "the ConfigMap extension-apiserver-authentication has no client-ca-file"
            )
        return found

    async def check(self, caller: Caller, node: str) -> None:
        """Refusal if this caller may not ask this node."""
        names = self._settings.client_names
        if names and caller.name not in names:
            raise Refusal(FORBIDDEN, f'user "{caller.name}" is none of relay.client_names')
        if not await self.may(caller, "create", "proxy", node):
            raise Refusal(
                FORBIDDEN, f'user "{caller.name}" may not create nodes/proxy of node "{node}"'
            )

    async def may(self, caller: Caller, verb: str, subresource: str, node: str) -> bool:
        """Whether the caller has a right on a subresource of a node, '' of all nodes. Refusal:
        nobody can say.
        """
        known = self._answers.get((caller, verb, subresource, node))
        if known is not None and self._clock() < known[1]:
            return known[0]
        about = {
            "verb": verb,
            "version": "v1",
            "resource": "nodes",
            "subresource": subresource,
            "name": node,
        }
        spec: dict[str, Any] = {
            "user": caller.name,
            "groups": caller.groups,
            "resourceAttributes": about,
        }
        if caller.uid or caller.extra:
            spec |= {"uid": caller.uid, "extra": dict(caller.extra)}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": spec,
        }
        response = await self._client.send(Request("POST", _REVIEWS, msgspec.json.encode(review)))
        if not response.ok:
            raise Refusal(
                500, f"whether the caller may ask cannot be reviewed: {error_text(response)}"
            )
        may = msgspec.json.decode(response.body, type=_Review).status.allowed
        self._answers[caller, verb, subresource, node] = (
            may,
            self._clock() + (_GOOD_S if may else _BAD_S),
        )
        while len(self._answers) > _MOST:
            self._answers.popitem(last=False)
        return may


def caller_of(certificate: Mapping[str, Any] | None) -> Caller:
    """The user of a verified certificate (as ssl's getpeercert gives it). Refusal without one."""
    names = [pair for part in (certificate or {}).get("subject", ()) for pair in part]
    common = next((value for key, value in names if key == "commonName"), "")
    if not common:
        raise Refusal(UNAUTHORIZED, "a client certificate is needed")
    groups = tuple(value for key, value in names if key == "organizationName")
    return Caller(common, (*groups, "system:authenticated"))
