"""Notes of copies of Secrets: a ConfigMap without data beside each, of its name and with its marks.

An agent that starts anew finds by them which copies an earlier life has made. Without them it had
to list Secrets, a right that shows the content of all there are.
"""

from typing import Any

import msgspec

from agents.executor.objects.kinds import CONFIG_MAP, KINDS, Kind
from agents.executor.objects.reads import get, read_object
from shared.kube.deletes import delete_request
from shared.kube.http import Procedure, Request, Response
from shared.kube.verdicts import CONFLICT, NOT_FOUND, error_text
from shared.model.names import COPY_KIND


def written(metadata: dict[str, Any], kind: str) -> Procedure[Response | None]:
    """Note a copy with this metadata that is about to be made; what went wrong, None if nothing."""
    marks = {**metadata["annotations"], COPY_KIND: kind}
    note = {**metadata, "annotations": marks}
    body = msgspec.json.encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": note})
    response = yield Request("POST", CONFIG_MAP.path(metadata["namespace"]), body)
    return None if response.ok or response.status == CONFLICT else response


def kind_noted(annotations: dict[str, str] | None) -> Kind | None:
    """The kind of copy that a ConfigMap with these annotations is, or notes."""
    return KINDS.get((annotations or {}).get(COPY_KIND, CONFIG_MAP.word))


def removed(metadata: dict[str, Any], kind: str) -> Procedure[str]:
    """Remove the note of a copy with this metadata that is no more; why it is still there, ''."""
    path = CONFIG_MAP.path(metadata["namespace"], metadata["name"])
    response = yield from get(path, NOT_FOUND)
    if not response.ok:
        return "" if response.status == NOT_FOUND else f"{path}: {error_text(response)}"
    there = read_object(response.body).metadata
    marks = {**metadata["annotations"], COPY_KIND: kind}
    if there.labels != metadata["labels"] or there.annotations != marks:
        return ""  # somebody else's by now
    response = yield delete_request(path, there.uid, there.resource_version)
    gone = response.ok or response.status == NOT_FOUND
    return "" if gone else f"{path}: {error_text(response)}"
