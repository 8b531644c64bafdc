"""The clusters of a configuration that is wrong, as far as they can be read: what else is wrong is
told with it.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from dispatcher.config.document import Document
from dispatcher.config.sections import ClusterSection


def readable_clusters(document: Document) -> tuple[ClusterSection, ...]:
    """The clusters without their unknown keys, with a stand-in for a name that is none; () if that
    is not enough.
    """
    entries = document.data.get("clusters") if isinstance(document.data, Mapping) else None
    if not isinstance(entries, list) or not all(isinstance(one, Mapping) for one in entries):
        return ()
    try:
        return tuple(_readable(at, one) for at, one in enumerate(entries))
    except ValidationError:
        return ()


def _readable(at: int, entry: Mapping[str, Any]) -> ClusterSection:
    known = {key: value for key, value in entry.items() if key in ClusterSection.model_fields}
    try:
        return ClusterSection.model_validate(known)
    except ValidationError:
        return ClusterSection.model_validate({**known, "name": f"unnamed-{at}"})
