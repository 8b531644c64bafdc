"""metav1 Status: what the API answers when it refuses, worded as kube-apiserver words it."""

import json
from typing import Any, NamedTuple

Object = dict[str, Any]

MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class FieldError(NamedTuple):
    """One finding about one field. `kind` is a key of CAUSES; `value` is shown only for kinds that
    show it.
    """

    kind: str
    field: str
    detail: str = ""
    value: Any = None

    def __str__(self) -> str:
        words, shows_value, _ = CAUSES[self.kind]
        shown = f": {_shown(self.value)}" if shows_value else ""
        return f"{self.field}: {words}{shown}" + (f": {self.detail}" if self.detail else "")


# kind -> (words, whether the value is shown, the cause's reason)
CAUSES = {
    "required": ("Required value", False, "FieldValueRequired"),
    "invalid": ("Invalid value", True, "FieldValueInvalid"),
    "forbidden": ("Forbidden", False, "FieldValueForbidden"),
    "duplicate": ("Duplicate value", True, "FieldValueDuplicate"),
    "unsupported": ("Unsupported value", True, "FieldValueNotSupported"),
    "toolong": ("Too long", False, "FieldValueTooLong"),
    "notfound": ("Not found", True, "FieldValueNotFound"),
}
_SHOWN_CHARACTERS = 1000  # a refused value may be huge


def _shown(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."


def supported(values: list[str] | tuple[str, ...]) -> str:
    """The tail of an "Unsupported value" message."""
    return "supported values: " + ", ".join(f'"{value}"' for value in values)


class ApiError(Exception):
    """A refusal; `.status` is the metav1 Status to send, `.code` its HTTP code."""

    def __init__(self, code: int, reason: str, message: str, details: Object | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.status: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
        }
        self.status |= {"message": message, "reason": reason}
        if not reason:
            del self.status["reason"]
        if details is not None:
            self.status["details"] = details
        self.status["code"] = code

    @property
    def reason(self) -> str:
        """The machine-readable reason, such as NotFound or Conflict."""
        return str(self.status.get("reason", ""))


def success(details: Object | None = None) -> Object:
    """The Status of a call that has no object to answer with."""
    status: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return status | ({"details": details} if details else {})


def _details(resource: str, name: str) -> Object:
    plural, _, group = resource.partition(".")
    details: Object = {"name": name} if name else {}
    return details | ({"group": group} if group else {}) | {"kind": plural}


def not_found(resource: str, name: str) -> ApiError:
    """404. `resource` is the plural with its group, as everywhere here."""
    return ApiError(404, "NotFound", f'{resource} "{name}" not found', _details(resource, name))


def no_such_path() -> ApiError:
    """404 for a path or a subresource that does not exist."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: str, name: str) -> ApiError:
    """409 for a create."""
    return ApiError(
        409, "AlreadyExists", f'{resource} "{name}" already exists', _details(resource, name)
    )


def being_deleted(resource: str, name: str) -> ApiError:
    """409 for a create of a name that a terminating object still has."""
    message = f'object is being deleted: {resource} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, _details(resource, name))


def conflict(resource: str, name: str, why: str = MODIFIED) -> ApiError:
    """409 for an update whose premise no longer holds."""
    message = f'Operation cannot be fulfilled on {resource} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(resource, name))


def precondition(
    resource: str, namespace: str, name: str, what: str, asked: str, found: str
) -> ApiError:
    """409 for a UID or resourceVersion precondition, in the words of the storage layer."""
    plural = resource.partition(".")[0].partition("/")[0]
    key = "/".join(part for part in ("/registry", plural, namespace, name) if part)
    why = f"Precondition failed: {what} in precondition: {asked}, {what} in object meta: {found}"
    text = (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: {why}"
    )
    return conflict(resource, name, text)


def invalid(kind: str, group: str, name: str, errors: list[FieldError]) -> ApiError:
    """422 that lists every finding, and each as a cause."""
    unique = list(dict.fromkeys(str(error) for error in errors))
    what = f"{kind}.{group}" if group else kind
    text = unique[0] if len(unique) == 1 else "[" + ", ".join(unique) + "]"
    causes = [
        {
            "reason": CAUSES[error.kind][2],
            "message": str(error).removeprefix(error.field + ": "),
            "field": error.field,
        }
        for error in errors
    ]
    details: Object = {"name": name} if name else {}
    details |= ({"group": group} if group else {}) | {"kind": kind, "causes": causes}
    return ApiError(422, "Invalid", f'{what} "{name}" is invalid: {text}', details)


def bad_option(kind: str, *errors: FieldError) -> ApiError:
    """422 for parameters of a request; `kind` is such as CreateOptions or ListOptions."""
    return invalid(kind, "meta.k8s.io", "", list(errors))


def unexplained(message: str) -> ApiError:
    """500 without a reason: what the real server answers where it forgot to make a Status of an
    error.
    """
    return ApiError(500, "", message)


def bad_request(message: str) -> ApiError:
    """400."""
    return ApiError(400, "BadRequest", message)


def forbidden(resource: str, name: str, why: str, causes: list[Object] | None = None) -> ApiError:
    """403."""
    details = _details(resource, name) | ({"causes": causes} if causes else {})
    return ApiError(403, "Forbidden", f'{resource} "{name}" is forbidden: {why}', details)


def terminating(resource: str, name: str, namespace: str) -> ApiError:
    """403 for a create in a namespace that is on its way out."""
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    message = f"namespace {namespace} is being terminated"
    cause = {"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}
    return forbidden(resource, name, why, [cause])


def expired(message: str) -> ApiError:
    """410: the resourceVersion or the continue token is older than what is kept."""
    return ApiError(410, "Expired", message)


def future_version(asked: int, current: int) -> ApiError:
    """504: a resourceVersion that this server has not reached."""
    message = f"Too large resource version: {asked}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return ApiError(
        504, "Timeout", f"Timeout: {message}", {"causes": [cause], "retryAfterSeconds": 1}
    )


def too_many_requests(message: str, cause: str, retry_after_s: int) -> ApiError:
    """429 of an eviction that a PodDisruptionBudget forbids."""
    details: Object = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    if retry_after_s:
        details["retryAfterSeconds"] = retry_after_s
    return ApiError(429, "TooManyRequests", message, details)


PLAIN: dict[int, tuple[str, str]] = {
    401: ("Unauthorized", "Unauthorized"),
    405: ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
    406: (
        "NotAcceptable",
        "only the following media types are accepted: application/json, application/yaml",
    ),
    413: ("RequestEntityTooLarge", "Request entity too large: limit is 3145728"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
}


def plain(code: int) -> ApiError:
    """A refusal that needs no more than its code."""
    reason, message = PLAIN[code]
    return ApiError(code, reason, message, {} if code in (405, 406) else None)
