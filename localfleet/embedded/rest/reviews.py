"""What is answered and not stored: reviews of rights and of who one is."""

from collections.abc import Callable

from localfleet.embedded.apiserver.status import FieldError, Object, invalid
from localfleet.embedded.tls import MASTERS

USER: Object = {"username": "embedded:admin", "groups": [MASTERS, "system:authenticated"]}
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
