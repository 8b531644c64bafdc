"""What is answered and not stored: reviews of rights and of who one is."""

from collections.abc import Callable

import msgspec

from localfleet.embedded.apiserver.status import FieldError, Object, bad_request, invalid
from localfleet.embedded.rest.users import Asked, User
from localfleet.embedded.tls import MASTERS

_ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


class _Attributes(msgspec.Struct):
    """Of a resource, or of a path that is none."""

    verb: str | None = ""
    group: str | None = ""
    resource: str | None = ""
    subresource: str | None = ""
    namespace: str | None = ""
    name: str | None = ""

    @property
    def asked(self) -> Asked:
        parts = (self.verb, self.group, self.resource, self.subresource, self.namespace, self.name)
        return Asked(*(part or "" for part in parts))


class _Spec(msgspec.Struct, rename="camel"):
    resource_attributes: _Attributes | None = None
    non_resource_attributes: _Attributes | None = None
    user: str | None = ""
    groups: list[str] | None = None


def _spec(sent: Object, kind: str) -> _Spec:
    """ApiError 400 for fields of another type, in kube-apiserver's words."""
    try:
        return msgspec.convert(sent.get("spec") or {}, _Spec)
    except msgspec.ValidationError as error:
        raise bad_request(
            f'{kind} in version "v1" cannot be handled as a {kind}: {error}'
        ) from None


def access_review(sent: Object, user: User) -> Object:
    """SelfSubjectAccessReview. Paths that are no resources may be read by all."""
    spec = _spec(sent, "SelfSubjectAccessReview")
    about = spec.resource_attributes
    path = spec.non_resource_attributes
    allowed = (
        user.may(about.asked)
        if about
        else path is None or path.verb in user.path_verbs or user.may_all
    )
    return _review(sent, "authorization.k8s.io/v1", "SelfSubjectAccessReview", {"allowed": allowed})


def subject_access_review(sent: Object, user: User) -> Object:
    """SubjectAccessReview: there are no roles here, so masters may do everything and nobody else
    anything. ApiError.
    """
    spec = _spec(sent, "SubjectAccessReview")
    about = spec.resource_attributes
    who = spec.groups or ()
    errors = []
    if (about is None) == (spec.non_resource_attributes is None):
        told = sent.get("spec", {}).get("nonResourceAttributes")
        errors.append(FieldError("invalid", "spec", _ONE_OF, told))
    if not (spec.user or who):
        errors.append(
            FieldError(
                "invalid", "spec.user", "at least one of user or group must be specified", ""
            )
        )
    if errors:
        raise invalid("SubjectAccessReview", "authorization.k8s.io", "", errors)
    return _review(
        sent, "authorization.k8s.io/v1", "SubjectAccessReview", {"allowed": MASTERS in who}
    )


def rules_review(sent: Object, user: User) -> Object:
    """SelfSubjectRulesReview."""
    paths = [{"verbs": list(user.path_verbs), "nonResourceURLs": ["*"]}]
    status: Object = {"resourceRules": user.rules, "nonResourceRules": paths, "incomplete": False}
    return _review(sent, "authorization.k8s.io/v1", "SelfSubjectRulesReview", status)


def subject_review(sent: Object, user: User) -> Object:
    """SelfSubjectReview (`kubectl auth whoami`)."""
    return _review(sent, "authentication.k8s.io/v1", "SelfSubjectReview", {"userInfo": user.info})


def _review(sent: Object, version: str, kind: str, status: Object) -> Object:
    return {
        "kind": kind,
        "apiVersion": version,
        "metadata": {},
        "spec": sent.get("spec", {}),
        "status": status,
    }


REVIEWS: dict[str, Callable[[Object, User], Object]] = {
    "selfsubjectaccessreviews": access_review,
    "selfsubjectrulesreviews": rules_review,
    "selfsubjectreviews": subject_review,
    "subjectaccessreviews": subject_access_review,
}
