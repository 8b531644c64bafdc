"""The API server's verbs on plain JSON objects: what the HTTP front and the controllers both call,
in one thread.

Objects handed out are shared: copy before changing. Everything refused raises ApiError with a
metav1 Status.
"""

import random
import ssl
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from localfleet.embedded.apiserver import binding, deletion, eviction, metadata, namespaces
from localfleet.embedded.apiserver.bootstrap import FIRST_OBJECTS
from localfleet.embedded.apiserver.deletion import DEFAULTS, Options
from localfleet.embedded.apiserver.objects import HISTORY, Objects
from localfleet.embedded.apiserver.patch import apply, live_pod, ownership, patching
from localfleet.embedded.apiserver.resources import RESOURCES, Resource
from localfleet.embedded.apiserver.schema import object_type
from localfleet.embedded.apiserver.show import events, scale
from localfleet.embedded.apiserver.status import (
    ApiError,
    FieldError,
    Object,
    already_exists,
    bad_request,
    being_deleted,
    conflict,
    invalid,
    no_such_path,
    not_found,
    precondition,
    success,
)
from localfleet.embedded.apiserver.store import Event, Record, Subscription
from localfleet.embedded.apiserver.validate import validation, validation_kinds
from localfleet.embedded.apiserver.validate.selectors import Matcher, matcher, parse_fields
from localfleet.embedded.apiserver.validate.topology import topology_labels
from localfleet.embedded.apiserver.write import AS_IS, Write
from localfleet.embedded.storage import Storage
from localfleet.embedded.usage import Usage

__all__ = ["Api", "ApiError", "Event", "Object", "Subscription"]

# Named here because `list` is a verb of the class below.
ObjectList = list[Object]
RecordList = list[Record]
OwnedList = list[tuple[str, Object]]

_NAME_ATTEMPTS = 8  # as often as the real server tries another generated name
_LEAST_TOKEN_S = 600
_TOKEN_LASTS_S = 3600
_SCALE = "autoscaling.v1.Scale"


class Api:
    """One cluster's API. `clock` is unix seconds; `name` is the cluster's.

    `resource` is always the plural with its group: "pods", "deployments.apps",
    "events.events.k8s.io".
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        storage: Storage,
        random: random.Random,
        name: str,
        history: int = HISTORY,
    ) -> None:
        self.name = name
        self.storage = storage
        self.objects = Objects(storage, clock, random, name, history)
        self._namespaces = namespaces.Namespaces(self.objects, self.create, self.delete)
        self.log_source: Callable[[Object, str, dict[str, str]], str] = (
            lambda pod, container, query: ""
        )
        self.account_token: Callable[[str, str], str] = lambda namespace, name: ""
        self.kubelet_credentials: Callable[[], ssl.SSLContext] = ssl.create_default_context
        self.node_usage: Callable[[str], Usage | None] = lambda node: None
        self.pod_usage: Callable[[str, str], dict[str, Usage] | None] = lambda namespace, pod: (
            None
        )  # by container
        for resource, namespace, obj in FIRST_OBJECTS:
            if self._find(RESOURCES[resource], obj["metadata"]["name"], namespace) is None:
                self.create(resource, obj, namespace)

    # --- reading ---

    def get(self, resource: str, name: str, namespace: str = "") -> Object:
        """One object; ApiError 404."""
        row = self._row(resource)
        return _outgoing(row, self._require(row, name, namespace).object)

    def find(self, resource: str, name: str, namespace: str = "") -> Object | None:
        """One object, None if there is none."""
        row = self._row(resource)
        record = self._find(row, name, namespace)
        return _outgoing(row, record.object) if record else None

    def list(
        self, resource: str, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> ObjectList:
        """Objects in the order of namespace and name; "" is every namespace."""
        row = self._row(resource)
        return [
            _outgoing(row, record.object) for record in self.select(row, namespace, labels, fields)
        ]

    def select(
        self, row: Resource, namespace: str = "", labels: str = "", fields: str = ""
    ) -> RecordList:
        """The records behind `list`; records of stored_as for a resource that is a view."""
        wanted = self.matcher(row, labels, fields)
        shelf = self.objects.shelves[row.stored_as or row.key]
        terms = parse_fields(fields) if fields else ()
        node = next(
            (value for path, equal, value in terms if path == "spec.nodeName" and equal), ""
        )
        records = shelf.select(namespace, node)
        return [record for record in records if wanted(record.object)] if wanted else records

    def matcher(self, row: Resource, labels: str, fields: str) -> Matcher | None:
        """The function behind a label and a field selector, None if everything matches; ApiError
        400.
        """
        return matcher(labels, fields, row.fields, events.core_path if row.stored_as else str)

    def owned(self, uid: str) -> OwnedList:
        """(resource, object) of everything that names `uid` among its owners."""
        found = (
            (resource, self.objects.get(resource, key))
            for resource, key in self.objects.owned.get(uid, {})
        )
        return [(resource, record.object) for resource, record in found if record is not None]

    def watch(self, resource: str) -> Subscription:
        """Changes of a resource from now on."""
        row = self._row(resource)
        return self.objects.shelves[row.stored_as or row.key].follow()

    # --- writing ---

    def create(
        self, resource: str, obj: Object, namespace: str = "", *, options: Write = AS_IS
    ) -> Object:
        """Default, admit, check and store a new object."""
        row = self._row(resource)
        clean = _incoming(row, metadata.read(row, obj, options.strict))
        if row.stored_as:
            _refuse(row, clean, validation_kinds.new_event(clean))
        row = RESOURCES[row.stored_as] if row.stored_as else row
        generated = not clean["metadata"].get("name")
        namespace = metadata.place(row, clean, namespace)
        self._namespaces.admit(row, namespace, clean)
        for _ in range(_NAME_ATTEMPTS if generated else 1):
            attempt = clean | {"metadata": dict(clean["metadata"])}
            objects = self.objects
            metadata.begin(
                row, attempt, now=objects.now(), uid=objects.new_uid(), letter=objects.letter
            )
            key = (namespace, attempt["metadata"].get("name", ""))
            if (there := objects.get(row.key, key)) is None:
                break
        else:
            going = there is not None and there.object["metadata"].get("deletionTimestamp")
            raise (being_deleted if going else already_exists)(row.key, attempt["metadata"]["name"])
        self._prepare(row, attempt)
        if options.tracked and not attempt["metadata"].get("managedFields"):
            nothing: Object = {"metadata": {}}
            attempt["metadata"]["managedFields"] = self._owners(row, nothing, attempt, options, "")
        if not options.dry_run:
            self.objects.expire_events()
            attempt = self.objects.set(row.key, key, attempt).object
            if row.key == namespaces.KEY:
                self._namespaces.furnish(key[1])
        return _outgoing(self._row(resource), attempt)

    def _prepare(self, row: Resource, obj: Object) -> None:
        row.defaults(obj)
        row.admit(obj, self)
        _refuse(row, obj, validation.metadata(obj, row.names) + row.validate(obj))
        if row.first_status is not None:
            obj["status"] = row.first_status(obj)

    def update(
        self, resource: str, obj: Object, *, subresource: str = "", options: Write = AS_IS
    ) -> Object:
        """Replace an object, or its part behind `subresource` ("status", "scale"); 409 when it has
        moved on.
        """
        row = self._row(resource)
        meta = obj.get("metadata") or {}
        name = meta.get("name", "")
        namespace = meta.get("namespace", "")
        record = self._require(row, name, namespace)
        if meta.get("uid") and meta["uid"] != record.object["metadata"]["uid"]:
            raise precondition(
                row.key, namespace, name, "UID", meta["uid"], record.object["metadata"]["uid"]
            )
        if subresource == "scale":
            return self._rescale(row, record, obj, options)
        clean = _incoming(row, metadata.read(row, obj, options.strict))
        return _outgoing(row, self._replace(row, record, clean, subresource, options))

    def _rescale(self, row: Resource, record: Record, sent: Any, options: Write) -> Object:
        scaled = metadata.read_sent(_SCALE, sent)
        name = record.object["metadata"]["name"]
        if errors := validation.nonnegative(scaled.get("spec") or {}, "spec", "replicas"):
            raise invalid("Scale", "autoscaling", name, errors)
        return scale.of(self._replace(row, record, scale.onto(record.object, scaled), "", options))

    def _replace(
        self, row: Resource, record: Record, new: Object, subresource: str, options: Write
    ) -> Object:
        """Check `new` against the current record and store it; nothing is written when nothing
        changes.
        """
        old = record.object
        frozen = validation_kinds.event_frozen(new, old) if row.stored_as else []
        row = RESOURCES[row.stored_as] if row.stored_as else row
        asked = new["metadata"].get("resourceVersion")
        if asked and asked != old["metadata"]["resourceVersion"]:
            raise conflict(row.key, old["metadata"]["name"])
        new = new | {"metadata": dict(new["metadata"])}
        frozen += validation.marked(new, old)
        row.defaults(new)
        metadata.carry_over(row, new, old, subresource)
        if new == old and not frozen:
            return old
        judged = row.validate_status if subresource == "status" else live_pod.judge(subresource)
        _refuse(row, old, frozen + (judged(new, old) if judged else row.update_errors(new, old)))
        if options.manager and (options.tracked or old["metadata"].get("managedFields")):
            new["metadata"]["managedFields"] = self._owners(row, old, new, options, subresource)
        if options.dry_run:
            return new
        key = (old["metadata"].get("namespace", ""), old["metadata"]["name"])
        if deletion.complete(new):
            return self._remove(row, key, new)
        return self.objects.set(row.key, key, new).object

    def patch(  # noqa: PLR0913 - what a PATCH request says: path, body, content type and query
        self,
        resource: str,
        name: str,
        namespace: str,
        patch: Any,
        *,
        kind: str,
        subresource: str = "",
        options: Write = AS_IS,
    ) -> Object:
        """Patch an object. `kind` is merge, json, strategic or apply; apply creates what does not
        exist.

        A resourceVersion in the patch is a condition (409); a foreign uid is refused (422).
        """
        row = self._row(resource)
        record = self._find(row, name, namespace)
        if record is None:
            if kind != "apply" or subresource:
                raise not_found(row.key, name)
            return self._apply_new(row, name, namespace, patch, options)
        current = _outgoing(row, record.object)
        if subresource == "scale":
            patched = patching.patched(kind, scale.of(current), patch, object_type(_SCALE))
            return self._rescale(row, record, patched, options)
        if kind == "apply":
            applied = metadata.read_applied(row, patch, name)
            applier = apply.Applier(options.manager, self._timestamp(), options.force, subresource)
            patched = apply.apply(current, applied, row.type, applier)
            options = replace(options, manager="")  # the applier has recorded itself
        else:
            patched = patching.patched(kind, current, patch, row.type)
        metadata.check_place(patched, name, namespace)
        clean = _incoming(row, metadata.read_patched(row, patched, options.strict))
        return _outgoing(row, self._replace(row, record, clean, subresource, options))

    def _timestamp(self) -> str:
        return metadata.timestamp(self.objects.now())

    def _owners(
        self, row: Resource, old: Object, new: Object, options: Write, subresource: str
    ) -> ObjectList:
        writer = ownership.Writer(options.manager, self._timestamp(), row.api_version, subresource)
        return ownership.after_write(old, new, row.type, writer)

    def _apply_new(
        self, row: Resource, name: str, namespace: str, patch: Any, options: Write
    ) -> Object:
        applied = metadata.read_applied(row, patch, name)
        applier = apply.Applier(options.manager, self._timestamp(), force=True)
        first = apply.apply({"metadata": {}}, applied, row.type, applier)
        return self.create(row.key, first, namespace, options=options)

    # --- deleting ---

    def delete(
        self, resource: str, name: str, namespace: str = "", options: Options = DEFAULTS
    ) -> Object:
        """Delete, or begin to: returns the terminating object, or the last state of what is gone."""
        row = self._row(resource)
        record = self._require(row, name, namespace)
        row = RESOURCES[row.stored_as] if row.stored_as else row
        deletion.check(row, record.object, options)
        if row.key == namespaces.KEY:
            return self._namespaces.end(record, options.dry_run)
        left = deletion.after(row, record.object, options, self.objects.now())
        gone = deletion.complete(left)
        if options.dry_run or (left == record.object and not gone):
            return record.object
        key = (namespace, name) if row.namespaced else ("", name)
        if gone and not row.graceful:
            return self._remove(row, key, dict(record.object))
        marked = self.objects.set(row.key, key, left).object
        return self._remove(row, key, dict(marked)) if gone else marked

    def _remove(self, row: Resource, key: tuple[str, str], last: Object) -> Object:
        gone = self.objects.remove(row.key, key, last).object
        if row.namespaced:
            self._namespaces.finish(key[0])
        return gone

    # --- pods ---

    def bind(
        self, namespace: str, name: str, binding_object: Object, *, dry_run: bool = False
    ) -> Object:
        """Give a pod its node (pods/binding); returns a Status."""
        binding_object = metadata.read_sent("core.v1.Binding", binding_object)
        binding.check(namespace, name, binding_object)
        record = self._require(RESOURCES["pods"], name, namespace)
        topology = topology_labels(self.find("nodes", binding_object["target"]["name"]))
        bound = binding.bind(record.object, binding_object, self.objects.now(), topology)
        if not dry_run:
            self.objects.set("pods", (namespace, name), bound)
        return success() | {"code": 201}

    def evict(
        self, namespace: str, name: str, eviction_object: Object, *, dry_run: bool = False
    ) -> Object:
        """Delete a pod as far as its disruption budget allows (pods/eviction); returns a Status."""
        eviction_object = metadata.read_sent("policy.v1.Eviction", eviction_object)
        if (eviction_object.get("metadata") or {}).get("name", "") != name:
            raise bad_request("name in URL does not match name in Eviction object")
        pod = self._require(RESOURCES["pods"], name, namespace).object
        options = eviction_object.get("deleteOptions") or {}
        conditions = options.get("preconditions") or {}
        dry_run = dry_run or bool(options.get("dryRun"))
        now = self.objects.now()
        deletion.check(
            RESOURCES["pods"],
            pod,
            Options(conditions.get("uid", ""), conditions.get("resourceVersion", "")),
        )
        if not eviction.ignores_budgets(pod):
            budget = eviction.budget_of(pod, self.list("poddisruptionbudgets.policy", namespace))
            spent = eviction.spend(pod, budget, now) if budget else None
            if spent is not None and not dry_run:
                self.update("poddisruptionbudgets.policy", spent, subresource="status")
        if not dry_run:
            target = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
            }
            status = binding.set_condition(
                pod["status"], target | {"message": "Eviction API: evicting"}, now
            )
            self.objects.set("pods", (namespace, name), pod | {"status": status})
            self.delete(
                "pods", name, namespace, Options(grace_seconds=options.get("gracePeriodSeconds"))
            )
        return success() | {"code": 201}

    def request_token(
        self, namespace: str, name: str, token_request: Object, *, dry_run: bool = False
    ) -> Object:
        """A token of a service account (serviceaccounts/token); the TokenRequest with its status."""
        self._require(RESOURCES["serviceaccounts"], name, namespace)
        lasts_s = (token_request.get("spec") or {}).get("expirationSeconds") or _TOKEN_LASTS_S
        if lasts_s < _LEAST_TOKEN_S:
            field = FieldError(
                "invalid",
                "spec.expirationSeconds",
                "may not specify a duration less than 10 minutes",
                lasts_s,
            )
            raise invalid("TokenRequest", "authentication.k8s.io", name, [field])
        status = {
            "token": self.account_token(namespace, name),
            "expirationTimestamp": metadata.timestamp(self.objects.now() + lasts_s),
        }
        return token_request | {"status": status}

    # --- finding ---

    def _row(self, resource: str) -> Resource:
        row = RESOURCES.get(resource)
        if row is None:
            raise no_such_path()
        return row

    def _find(self, row: Resource, name: str, namespace: str = "") -> Record | None:
        return self.objects.get(
            row.stored_as or row.key, (namespace if row.namespaced else "", name)
        )

    def _require(self, row: Resource, name: str, namespace: str) -> Record:
        record = self._find(row, name, namespace)
        if record is None:
            raise not_found(row.key, name)
        return record


def _refuse(row: Resource, obj: Object, errors: list[FieldError]) -> None:
    if errors:
        raise invalid(row.kind, row.group, obj["metadata"].get("name", ""), errors)


def _incoming(row: Resource, obj: Object) -> Object:
    return events.to_core(obj) if row.stored_as else obj


def _outgoing(row: Resource, obj: Object) -> Object:
    return events.from_core(obj) if row.stored_as else obj
