"""What is answered and not stored: metrics, reviews of rights and of who one is."""

from collections.abc import Callable

from localfleet.embedded.api import Api
from localfleet.embedded.apiserver.metadata import timestamp
from localfleet.embedded.apiserver.status import FieldError, Object, invalid, not_found
from localfleet.embedded.tls import MASTERS

USER: Object = {"username": "embedded:admin", "groups": [MASTERS, "system:authenticated"]}
_METRICS = "metrics.k8s.io/v1beta1"
_ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
_EVERYTHING = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}


def access_review(sent: Object) -> Object:
    """SelfSubjectAccessReview: whoever has the token may do everything."""
    return _review(sent, "authorization.k8s.io/v1", "SelfSubjectAccessReview", {"allowed": True})


def subject_access_review(sent: Object) -> Object:
    """SubjectAccessReview: there are no roles here, so masters may do everything and nobody else anything. ApiError."""
    spec = sent.get("spec") or {}
    about, who = spec.get("resourceAttributes"), spec.get("groups") or ()
    errors = []
    if bool(about) == bool(spec.get("nonResourceAttributes")):
        errors.append(FieldError("invalid", "spec.resourceAttributes", _ONE_OF, about))
    if not (spec.get("user") or who):
        errors.append(FieldError("invalid", "spec.user", "at least one of user or group must be specified", ""))
    if errors:
        raise invalid("SubjectAccessReview", "authorization.k8s.io", "", errors)
    return _review(sent, "authorization.k8s.io/v1", "SubjectAccessReview", {"allowed": MASTERS in who})


def rules_review(sent: Object) -> Object:
    """SelfSubjectRulesReview."""
    paths = [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
    status: Object = {"resourceRules": [_EVERYTHING], "nonResourceRules": paths, "incomplete": False}
    return _review(sent, "authorization.k8s.io/v1", "SelfSubjectRulesReview", status)


def subject_review(sent: Object) -> Object:
    """SelfSubjectReview (`kubectl auth whoami`)."""
    return _review(sent, "authentication.k8s.io/v1", "SelfSubjectReview", {"userInfo": USER})


def _review(sent: Object, version: str, kind: str, status: Object) -> Object:
    return {"kind": kind, "apiVersion": version, "metadata": {}, "spec": sent.get("spec", {}), "status": status}


REVIEWS: dict[str, Callable[[Object], Object]] = {
    "selfsubjectaccessreviews": access_review,
    "selfsubjectrulesreviews": rules_review,
    "selfsubjectreviews": subject_review,
    "subjectaccessreviews": subject_access_review,
}


def metrics(api: Api, plural: str, namespace: str, name: str, labels: str) -> Object:
    """metrics.k8s.io: usage of one node or pod, or of all that have readings; ApiError 404."""
    kind = {"nodes": "NodeMetrics", "pods": "PodMetrics"}[plural]
    resource = f"{plural}.metrics.k8s.io"
    objects = [api.get(plural, name, namespace)] if name else api.list(plural, namespace, labels=labels)
    found = [reading for obj in objects if (reading := _reading(api, kind, obj)) is not None]
    if not name:
        return {"kind": f"{kind}List", "apiVersion": _METRICS, "metadata": {}, "items": found}
    if not found:
        raise not_found(resource, f"{namespace}/{name}" if namespace else name)
    return found[0]


def _reading(api: Api, kind: str, obj: Object) -> Object | None:
    meta = obj["metadata"]
    if kind == "NodeMetrics":
        body = api.node_metrics_source(meta["name"])
    else:
        body = api.pod_metrics_source(meta["namespace"], meta["name"])
    if body is None:
        return None
    kept = {key: meta[key] for key in ("name", "namespace", "labels") if key in meta}
    kept["creationTimestamp"] = timestamp(api.objects.now())
    return {"kind": kind, "apiVersion": _METRICS, "metadata": kept} | {
        key: value for key, value in body.items() if key not in ("kind", "apiVersion", "metadata")
    }
