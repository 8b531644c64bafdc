"""What is answered and not stored: reviews of rights and of who one is."""

from collections.abc import Callable

from localfleet.embedded.apiserver.status import FieldError, Object, invalid
from localfleet.embedded.rest.users import Asked, User
from localfleet.embedded.tls import MASTERS

_ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
_PARTS = ("verb", "group", "resource", "subresource", "namespace", "name")


def access_review(sent: Object, user: User) -> Object:
    """SelfSubjectAccessReview. Paths that are no resources may be read by all."""
    about = (sent.get("spec") or {}).get("resourceAttributes")
    allowed = not about or user.may(Asked(*(str(about.get(part) or "") for part in _PARTS)))
    return _review(sent, "authorization.k8s.io/v1", "SelfSubjectAccessReview", {"allowed": allowed})


def subject_access_review(sent: Object, user: User) -> Object:
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


def rules_review(sent: Object, user: User) -> Object:
    """SelfSubjectRulesReview."""
    paths = [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
    status: Object = {"resourceRules": user.rules, "nonResourceRules": paths, "incomplete": False}
    return _review(sent, "authorization.k8s.io/v1", "SelfSubjectRulesReview", status)


def subject_review(sent: Object, user: User) -> Object:
    """SelfSubjectReview (`kubectl auth whoami`)."""
    return _review(sent, "authentication.k8s.io/v1", "SelfSubjectReview", {"userInfo": user.info})


def _review(sent: Object, version: str, kind: str, status: Object) -> Object:
    return {"kind": kind, "apiVersion": version, "metadata": {}, "spec": sent.get("spec", {}), "status": status}


REVIEWS: dict[str, Callable[[Object, User], Object]] = {
    "selfsubjectaccessreviews": access_review,
    "selfsubjectrulesreviews": rules_review,
    "selfsubjectreviews": subject_review,
    "subjectaccessreviews": subject_access_review,
}
