"""What a service account was given, and what its audit log says it used."""

from collections.abc import Iterable
from urllib.parse import urlsplit

from localfleet.controlplane.audit import AuditEvent
from tests.charts.rendering import NAMESPACE, Object
from tests.charts.test_split_agent import rights

Right = tuple[str, str, str, str]  # verb, API group (of a URL: its path), resource, name where only one is meant


def granted(objects: list[Object], account: str) -> set[Right]:
    """By all bindings of a release, anywhere, one right for each verb."""
    return {(verb, *row[:3]) for row in rights(objects, account) for verb in row[3].split()}


def used(events: Iterable[AuditEvent], account: str) -> set[Right]:
    """Whatever the account asked for, with the object's name."""
    who = f"system:serviceaccount:{NAMESPACE}:{account}"
    return {_right(event) for event in events if event.user.username == who}


def unused(granted: set[Right], used: set[Right]) -> set[Right]:
    """Rights of which no request made use. One that is limited to a name was used where that very object was meant:

    >>> unused({("get", "", "pods", ""), ("get", "", "pods", "a")}, {("get", "", "pods", "b")})
    {('get', '', 'pods', 'a')}
    """
    anything = {(*right[:3], "") for right in used}
    return granted - used - anything


def _right(event: AuditEvent) -> Right:
    verb, group, resource = event.action
    return (
        (verb, group, resource, event.object_ref.name) if resource else (verb, urlsplit(event.request_uri).path, "", "")
    )
