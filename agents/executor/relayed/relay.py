"""Logs, exec, attach and port-forward of remote pods: what an API server asks of a kubelet, as what
its own cluster's agent asks of another one's, and what that asks of its API server.

The source's agent translates the request (`wanted_of`) and signs it; the target's agent answers for
the delegate of exactly that pod, which it finds by its name and by its own signature on it, and for
nothing else. Neither the gateway between them, nor another source cluster, can ask for it.
"""

from typing import Literal, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from agents.executor.context.local import Local
from agents.executor.intents.delegate import delegate_name
from agents.executor.objects import pods
from shared.kube.http import Procedure
from shared.messages.relay import (
    ATTACH,
    EXEC,
    LOG,
    METRICS,
    OBJECTS,
    PORT_FORWARD,
    RelayAsk,
    SignedAsk,
    decode_ask,
    decode_signed,
    encode_relay,
)
from shared.model.pod import Pod, SourceRef
from shared.security import signatures

Relayed = Literal["all", "logs", "none"]
CHALLENGE = 16  # bytes, at least
BAD = 400
FORBIDDEN = 403
NOT_FOUND = 404
WRONG_METHOD = 405
FAILED = 500
_LOG_QUERY = frozenset(
    (
        "follow",
        "previous",
        "timestamps",
        "sinceSeconds",
        "sinceTime",
        "tailLines",
        "limitBytes",
        "stream",
    )
)
# As a kubelet calls them, and as pods/exec and pods/attach do.
_STREAM_QUERY = {"input": "stdin", "output": "stdout", "error": "stderr", "tty": "tty"}
_NEEDED = {EXEC: {"command"}, ATTACH: {"stdin", "stdout", "stderr"}}
_VERBS = {"containerLogs": LOG, "exec": EXEC, "attach": ATTACH, "portForward": PORT_FORWARD}
# Of the request, and of the answer. Others, such as cookies, are nobody's business elsewhere.
_SOCKET = ("sec-websocket-protocol", "sec-websocket-extensions")
_UPGRADE = ("upgrade", "x-stream-protocol-version", *_SOCKET)
ASKED_HEADERS = frozenset((*_UPGRADE, "sec-websocket-key", "sec-websocket-version"))
ANSWERED_HEADERS = frozenset((*_UPGRADE, "sec-websocket-accept", "connection", "content-type"))
# on what comes by nodes/proxy: whoever may that may more than pods/log and pods/exec
PROXIED = "x-forwarded-uri"
Headers = tuple[tuple[str, str], ...]


class Refusal(Exception):  # noqa: N818 - reads as what it is
    """The answer to a request that is not carried out."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class Wanted(NamedTuple):
    """A request to a kubelet, understood. `headers` are those of an upgrade."""

    verb: str
    method: str
    namespace: str
    pod: str
    query: tuple[tuple[str, str], ...]
    headers: Headers


class Call(NamedTuple):
    """A request to the target's own API server."""

    method: str
    path: str
    headers: Headers
    delegate: str


def wanted_of(method: str, target: str, headers: Headers) -> Wanted:
    """What a request to a kubelet is about. Refusal."""
    try:
        url = urlsplit(target)
    except ValueError as error:
        raise Refusal(BAD, f"the request's address cannot be read: {error}") from None
    named = {name.lower() for name, _ in headers}
    query = parse_qsl(url.query, keep_blank_values=True)
    kind, *rest = url.path.strip("/").split("/")
    verb = _VERBS.get(kind, "")
    if PROXIED in named or len(rest) != (2 if verb == PORT_FORWARD else 3) or not verb:
        raise Refusal(
            NOT_FOUND, "this is no kubelet: logs, exec, attach and port-forward alone are passed on"
        )
    if method not in (("GET",) if verb == LOG else ("GET", "POST")):
        raise Refusal(WRONG_METHOD, f"{method} is not served")
    if (verb == LOG) == ("upgrade" in named):
        raise Refusal(BAD, "an upgrade of the connection is needed, but for logs")
    kept = tuple((name.lower(), value) for name, value in headers if name.lower() in ASKED_HEADERS)
    asked = _query(verb, query, rest[2:])
    if verb in _NEEDED and not _NEEDED[verb] & {
        name for name, _ in asked
    }:  # upgrades by nodes/proxy lose their query
        raise Refusal(BAD, f"{verb} needs one of {', '.join(sorted(_NEEDED[verb]))}")
    return Wanted(verb, method, rest[0], rest[1], asked, kept if verb != LOG else ())


def _query(
    verb: str, given: list[tuple[str, str]], container: list[str]
) -> tuple[tuple[str, str], ...]:
    if verb == LOG:
        found = [(name, value) for name, value in given if name in _LOG_QUERY]
    elif verb == PORT_FORWARD:
        found = [
            ("ports", port) for name, value in given if name == "port" for port in value.split(",")
        ]
    else:
        found = [
            (_STREAM_QUERY[name], "true")
            for name, value in given
            if name in _STREAM_QUERY and value in _TRUE
        ]
        found += [("command", value) for name, value in given if name == "command" and verb == EXEC]
    return (*found, *(("container", one) for one in container))


_TRUE = ("1", "true", "True", "TRUE", "t", "T")


def remote_pod(wanted: Wanted, local: Local) -> tuple[Pod, str]:
    """The source pod that is meant, and the cluster of its delegate. Refusal."""
    pod = local.view.pod_by_name(wanted.namespace, wanted.pod)
    cluster = local.behind(pod.node) if pod is not None else ""
    if pod is None or not cluster:
        raise Refusal(
            NOT_FOUND, f"pod {wanted.namespace}/{wanted.pod} is not on a proxy node of this cluster"
        )
    return pod, cluster


def source_of(pod: Pod, local: Local) -> SourceRef:
    """What other clusters know of a pod of this one."""
    return SourceRef(local.cluster, local.cluster_uid, pod.namespace, pod.name, pod.uid, 0)


def signed_ask(wanted: Wanted, pod: Pod, cluster: str, challenge: bytes, local: Local) -> bytes:
    """What is sent to the agent of the other cluster."""
    ask = RelayAsk(
        source_of(pod, local),
        cluster,
        local.trusted.uid_of(cluster),
        challenge,
        wanted.verb,
        wanted.method,
        wanted.query,
        wanted.headers,
    )
    body = encode_relay(ask)
    return encode_relay(SignedAsk(body, local.keys.sign_ask(body)))


def checked_ask(body: bytes, challenge: bytes, relayed: Relayed, local: Local) -> RelayAsk:
    """What another cluster asks, if that cluster asks it, of us and now, and our policy lets it.
    Refusal.
    """
    try:
        signed = decode_signed(body)
        ask = decode_ask(signed.ask)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Refusal(BAD, f"the request cannot be read: {error}") from None
    source = (ask.source.cluster, ask.source.cluster_uid)
    target = (ask.target, ask.target_uid)
    asker, asked = (target, source) if ask.verb == OBJECTS else (source, target)
    if not signatures.is_ask_of(local.trusted.of(asker[1]), signed.ask, signed.signature):
        raise Refusal(
            FORBIDDEN,
            f'the request is not signed by a key known here of cluster "{asker[0]}"',
        )
    elsewhere = asked[0] != local.cluster or asked[1] not in ("", local.cluster_uid)
    if ask.challenge != challenge or elsewhere:
        raise Refusal(
            FORBIDDEN, "the request is not meant for this cluster, or not for this connection"
        )
    if ask.verb == OBJECTS:  # of pods that went there: no policy has a say
        if local.trusted.name_of(asker[1]) != asker[0]:
            raise Refusal(FORBIDDEN, f'cluster "{asker[0]}" is known here under another name')
        return ask
    if ask.verb not in _SAID or ask.method not in ("GET", "POST"):
        raise Refusal(BAD, "nothing that is passed on")
    if relayed == "none" or (relayed == "logs" and ask.verb not in (LOG, METRICS)):
        raise Refusal(
            FORBIDDEN,
            f'cluster "{local.cluster}" does not let other clusters {_SAID[ask.verb]} (`relay`)',
        )
    return ask


_SAID = {
    LOG: "read logs of their pods",
    METRICS: "read what their pods use",
    EXEC: "exec into their pods",
    ATTACH: "attach to their pods",
    PORT_FORWARD: "forward ports of their pods",
}


def call_of(ask: RelayAsk, local: Local) -> Procedure[Call]:
    """The request to our own API server, after a look at the delegate there. Refusal."""
    source = ask.source
    name = delegate_name(ask.source)
    what = f'pod {source.namespace}/{source.name} has no copy in cluster "{local.cluster}"'
    look = yield from pods.look_up(source.namespace, name)
    if not look.answered:
        raise Refusal(
            FAILED, f'the API server of cluster "{local.cluster}" does not answer: {look.problem}'
        )
    signed = look.pod.delegated(local.keys.public) if look.pod is not None else None
    if signed is None or _identity(signed.source) != _identity(source):
        raise Refusal(FAILED, what)
    headers = tuple(
        (one, value) for one, value in ask.headers if one in ASKED_HEADERS and _plain(value)
    )
    path = f"{pods.path(source.namespace, name, ask.verb)}?{urlencode(_allowed(ask))}"
    return Call(ask.method, path, headers if ask.verb != LOG else (), name)


def _identity(source: SourceRef) -> tuple[str, str, str, str]:
    return source.cluster_uid, source.uid, source.namespace, source.name


def _allowed(ask: RelayAsk) -> list[tuple[str, str]]:
    """The query, checked once more: nothing is believed of another cluster."""
    named = {
        LOG: _LOG_QUERY | {"container"},
        PORT_FORWARD: {"ports"},
        EXEC: {*_STREAM_QUERY.values(), "command", "container"},
        ATTACH: {*_STREAM_QUERY.values(), "container"},
    }[ask.verb]
    return [(name, value) for name, value in ask.query if name in named]


def _plain(value: str) -> bool:
    return value.isascii() and value.isprintable()


def kubelet_refusal(status: int, body: bytes, ask: RelayAsk, delegate: str) -> tuple[int, str]:
    """An API server's refusal as a kubelet would write it: plain text, the source's name, 400 or
    500.

    API servers show the text of these two statuses alone.
    """
    try:
        parsed = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        text = msgspec.json.decode(parsed["message"], type=str)
    except (msgspec.MsgspecError, KeyError, UnicodeDecodeError):
        text = body.decode("utf-8", "replace")
    return BAD if status == BAD else FAILED, text.replace(delegate, ask.source.name)[:4_000]
