"""The ServiceAccount of this cluster as which a delegate runs: looked for before it is made.

The API server's admission asks for it, too, so what is not known here is known there.
"""

from urllib.parse import quote

import msgspec

from agents.executor.context.local import KNOWN_S, Local, Moment
from shared.kube.http import Procedure, Request
from shared.kube.verdicts import NOT_FOUND
from shared.model.names import DEFAULT_ACCOUNT, SERVICE_ACCOUNT, STAY

_HINT = b'"serviceAccountName"'  # in each manifest that names one


class _Spec(msgspec.Struct, rename="camel"):
    service_account_name: str = ""


class _Pod(msgspec.Struct):
    spec: _Spec


def missing(namespace: str, delegate: bytes, local: Local, now: Moment) -> Procedure[str]:
    """In words, that the account which the delegate (JSON of a pod) names is lacking; '' if it is
    not, as far as is known.
    """
    name = _named(delegate)
    if name in ("", DEFAULT_ACCOUNT):
        return ""
    found = local.accounts.get((namespace, name))
    if found is not None and now.mono - found < KNOWN_S:
        return ""
    where = (quote(namespace, safe=""), quote(name, safe=""))
    response = yield Request("GET", "/api/v1/namespaces/{}/serviceaccounts/{}".format(*where))
    if response.ok:
        local.accounts.put((namespace, name), now.mono)
    if response.status != NOT_FOUND:
        return ""
    return (
        f'ServiceAccount "{namespace}/{name}" (spec.serviceAccountName) does not exist in cluster '
        f'"{local.cluster}": make it there, or say by annotation {SERVICE_ACCOUNT}: none that the '
        f'pod does not need it, or keep the pod at home with annotation {STAY}: "true"'
    )


def _named(delegate: bytes) -> str:
    if _HINT not in delegate:
        return ""
    return msgspec.json.decode(delegate, type=_Pod).spec.service_account_name
