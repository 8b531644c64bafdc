"""Pods, and the scheduler that each is given: by the webhook, and by the admission policy on a real server."""

from typing import Any

import pytest

from shared.model import names

ASKS = {names.SCHEDULE: "true"}


def pod(annotations: dict[str, str] | None, **spec: Any) -> dict[str, Any]:
    """As an API server hands it to a webhook: with defaults."""
    main = {"name": "main", "image": "example.invalid/app:1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "probe",
            "namespace": "default",
            **({} if annotations is None else {"annotations": annotations}),
        },
        "spec": {"containers": [main], "schedulerName": "default-scheduler", **spec},
    }


CASES = [
    pytest.param(ASKS, {}, names.SCHEDULER_NAME, id="asks"),
    pytest.param({**ASKS, "team/a": "b"}, {}, names.SCHEDULER_NAME, id="asks, among others"),
    pytest.param({names.SCHEDULE: "false"}, {}, "default-scheduler", id="asks not"),
    pytest.param({names.SCHEDULE: "True"}, {}, "default-scheduler", id="asks in another word"),
    pytest.param(None, {}, "default-scheduler", id="has no annotations"),
    pytest.param({}, {}, "default-scheduler", id="says nothing"),
    pytest.param(ASKS, {"schedulerName": "other"}, "other", id="names another scheduler"),
    pytest.param(ASKS, {"schedulerName": names.SCHEDULER_NAME}, names.SCHEDULER_NAME, id="names us already"),
    pytest.param(ASKS, {"nodeName": "n-1"}, "default-scheduler", id="has a node"),
]
