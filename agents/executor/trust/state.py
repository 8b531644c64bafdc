"""Durable state of an executor: the dispatcher epoch that it obeys, its cluster's name, and small
values of others.

All of it is one Lease in the cluster's own API server, beside those of the proxy nodes; no
cluster's name holds a dot, so none of them can have its name. Its transitions are the highest
dispatcher epoch that was obeyed, its holder is that dispatcher, an annotation holds the values as
JSON. Epoch and name are written before they are acted upon. Every write is guarded by the
resourceVersion: of two executors of one cluster the one that knows less reads again.

Operators of the cluster write words for its executor there: other annotations, which it takes off
as it heeds them. A backup of etcd may hold a word that was heeded long ago. So a word counts only
as the answer to a question that this life of the executor has asked (`ASKS`, and something no other
life asks): "true" is met with the question, and the question, without `ASKS`, is the word.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from shared.kube.http import MERGE_PATCH, Procedure, Request, Response
from shared.kube.verdicts import NOT_FOUND, TRIES, error_text, is_ambiguous
from shared.model import names

NAMESPACE = "kube-node-lease"
NAME = "global-dispatcher-agent.state"
_LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
PATH = f"{_LEASES}/{NAME}"
VALUES = names.PREFIX + "state"  # the annotation
CLUSTER = "cluster"  # the value that says under which name the cluster is served
KEYS = "keys"  # the value with the keys of other clusters
# the value with the public keys of this one, the one it signs with first; compared, never believed
OWN_KEYS = "own_keys"
# the value with the time (seconds since 1970) at which an operator last confirmed a restore
CONFIRMED = "confirmed"
MAX_VALUES = 224 * 1024  # bytes of JSON; the API server takes 256 KiB of annotations
ASKS = "answer "  # before a question
_UNREADABLE = "what this executor has obeyed cannot be read"


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_transitions: int | None = None


class _Lease(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)


_LEASE = msgspec.json.Decoder(_Lease)
_VALUES = msgspec.json.Decoder(dict[str, str])


_NO_WORDS: Mapping[str, str | None] = {}


class _Wanted(NamedTuple):
    epoch: int
    dispatcher: str
    values: dict[str, str]
    # what operators' annotations are to hold; None takes one off
    words: Mapping[str, str | None] = _NO_WORDS


@dataclass(slots=True)
class ExecutorState:
    """The stored state as last read or written; `known` is False until it was read once.

    Each procedure returns '' or an error text. The caller must not run two of them at once.
    """

    epoch: int = 0
    dispatcher: str = ""
    values: dict[str, str] = field(default_factory=dict)
    known: bool = False
    words: Mapping[str, str] = field(
        default_factory=dict
    )  # annotations of operators, and what they hold
    # the epoch as the server has it: less than ours where it lost some of its past
    _stored: int = 0
    _version: str = ""  # resourceVersion; "": there is none

    def load(self) -> Procedure[str]:
        """Read the Lease. An epoch lower than the one obeyed in this life (a restored backup) is
        ignored.
        """
        response = yield Request("GET", PATH)
        if response.status == NOT_FOUND:
            self._stored = 0
            self._version = ""
            self.known = True
            return ""
        return self._read(response) if response.ok else f"{_UNREADABLE}: {error_text(response)}"

    def obey(self, epoch: int, dispatcher: str) -> Procedure[str]:
        """Read, and store this dispatcher if its epoch is higher. Afterwards the fields say which
        one is obeyed.
        """

        def wanted() -> _Wanted | None:
            if epoch > self.epoch or not self.dispatcher:
                return _Wanted(epoch, dispatcher, self.values)
            return (
                _Wanted(self.epoch, self.dispatcher, self.values)
                if self._stored < self.epoch
                else None
            )

        return (yield from self._change(wanted))

    def be_called(self, cluster: str, before: str = "") -> Procedure[str]:
        """Store the cluster's name; an error text if another one than `before` is stored."""

        def wanted() -> _Wanted | str | None:
            name = self.values.get(CLUSTER, "")
            if name == cluster:
                return None
            return (
                other_name(name, cluster)
                if name not in ("", before)
                else self._with(CLUSTER, cluster)
            )

        return (yield from self._change(wanted))

    def remember(self, key: str, value: str) -> Procedure[str]:
        """Store a value under a key, the other keys unchanged; '' removes the key."""
        return (
            yield from self._change(
                lambda: self._with(key, value) if self.values.get(key, "") != value else None
            )
        )

    def ask(self, questions: Mapping[str, str]) -> Procedure[str]:
        """Write challenges (`ASKS` and a nonce) over operators' annotations that hold neither these
        nor the answer.
        """

        def wanted() -> _Wanted | None:
            asked: dict[str, str | None] = {
                word: text
                for word, text in questions.items()
                if self.words.get(word, text) not in ("", text, text.removeprefix(ASKS))
            }
            return _Wanted(self.epoch, self.dispatcher, self.values, asked) if asked else None

        return (yield from self._change(wanted))

    def hold_keys(
        self, keys: str, objection: Callable[[str], str], lift: Mapping[str, str]
    ) -> Procedure[str]:
        """Store this executor's own public `keys`, unless there is an objection to it from what is
        stored.

        A word of an operator in `lift` that holds the answer given there overrides the objection,
        and comes off.
        """

        def wanted() -> _Wanted | str | None:
            stored = self.values.get(OWN_KEYS, "")
            lifted = dict.fromkeys(
                word for word, answer in lift.items() if self.words.get(word) == answer
            )
            why = "" if lifted else objection(stored)
            if why:
                return why
            return (
                self._with(OWN_KEYS, keys)._replace(words=lifted)
                if lifted or stored != keys
                else None
            )

        return (yield from self._change(wanted))

    def heed(self, words: frozenset[str], key: str, value: str) -> Procedure[str]:
        """Remove operators' annotations that were carried out, and store the resulting value in the
        same write.
        """

        def wanted() -> _Wanted | None:
            left = self.words.keys() & words
            return self._with(key, value)._replace(words=dict.fromkeys(left)) if left else None

        return (yield from self._change(wanted))

    def _with(self, key: str, value: str) -> _Wanted:
        values = {**self.values, key: value}
        return _Wanted(
            self.epoch, self.dispatcher, {key: value for key, value in values.items() if value}
        )

    def _change(self, wanted: Callable[[], _Wanted | str | None]) -> Procedure[str]:
        """Read-modify-write with optimistic locking; tried again after a conflict or an unknown
        effect.
        """
        problem = ""
        for _ in range(TRIES):
            problem = yield from self.load()
            change = problem or wanted()
            if not isinstance(change, _Wanted):
                return change or ""
            body = msgspec.json.encode(change.values)
            if len(body) > MAX_VALUES:
                return f"lease {NAMESPACE}/{NAME} would hold more than {MAX_VALUES // 1024} KiB"
            response = yield self._write(change, body.decode())
            if response.ok:
                self.epoch, self.dispatcher, self.values, _ = change
                return self._read(response)
            problem = f"lease {NAMESPACE}/{NAME} cannot be written: {error_text(response)}"
            if response.status != NOT_FOUND and not is_ambiguous(response):
                break
        return problem

    def _write(self, change: _Wanted, values: str) -> Request:
        metadata = {"annotations": {VALUES: values, **change.words}}
        spec = {"holderIdentity": change.dispatcher or None, "leaseTransitions": change.epoch}
        if self._version:
            guarded = {"metadata": {**metadata, "resourceVersion": self._version}, "spec": spec}
            return Request("PATCH", PATH, msgspec.json.encode(guarded), MERGE_PATCH)
        kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        made = {
            **kind,
            "metadata": {**metadata, "name": NAME, "namespace": NAMESPACE},
            "spec": spec,
        }
        return Request("POST", _LEASES, msgspec.json.encode(made))

    def _read(self, response: Response) -> str:
        try:
            lease = _LEASE.decode(response.body)
            annotations = lease.metadata.annotations or {}
            values = _VALUES.decode(annotations.get(VALUES, "{}"))
        except msgspec.MsgspecError as error:
            return (
                f"{_UNREADABLE} ({error}): remove it with kubectl -n {NAMESPACE} delete lease "
                f"{NAME}"
            )
        self._version = lease.metadata.resource_version
        self._stored = lease.spec.lease_transitions or 0
        if self._stored >= self.epoch:
            self.epoch = self._stored
            self.dispatcher = lease.spec.holder_identity or ""
        self.values = values
        self.known = True
        self.words = {key: said for key, said in annotations.items() if _is_word(key)}
        return ""


def _is_word(annotation: str) -> bool:
    return annotation == names.CONFIRM_RESTORED or annotation.startswith(names.FORGET_KEYS)


def other_name(known: str, name: str) -> str:
    """Why a cluster that is served as `known` is not served as `name`, and what to do about it."""
    return (
        f'this cluster is served as "{known}", and shall be "{name}" now: if the kubeconfig or '
        "context is the wrong "
        "one, correct it. To rename the cluster, take all remote pods off it and set "
        f'rename_from: "{known}"'
    )
