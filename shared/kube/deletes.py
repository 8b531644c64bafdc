"""DELETE of exactly one object, by its UID: nothing made anew under its name goes instead."""

from typing import Any

import msgspec

from shared.kube.http import Request


def delete_options(
    uid: str, version: str | None = None, grace_seconds: int | None = None
) -> dict[str, Any]:
    """DeleteOptions with preconditions; with a `version`, only as it was seen at that
    resourceVersion. None leaves a pod its own grace period.
    """
    only = {"uid": uid} if version is None else {"uid": uid, "resourceVersion": version}
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": only}
    return options if grace_seconds is None else {**options, "gracePeriodSeconds": grace_seconds}


def delete_request(
    path: str, uid: str, version: str | None = None, grace_seconds: int | None = None
) -> Request:
    """DELETE of what is at this path, as of `delete_options`."""
    return Request("DELETE", path, msgspec.json.encode(delete_options(uid, version, grace_seconds)))
