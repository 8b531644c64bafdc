"""No setting of an agent can say to wait for ever."""

from typing import Any

import pytest

from agents.runtime.settings import AgentSettings

_SCHEMA = AgentSettings.model_json_schema()
_MODELS: dict[str, Any] = {"AgentSettings": _SCHEMA, **_SCHEMA["$defs"]}
_SECONDS = [(model, key) for model, one in _MODELS.items() for key in one.get("properties", ()) if key.endswith("_s")]


@pytest.mark.parametrize(("model", "key"), _SECONDS)
def test_each_number_of_seconds_has_an_end(model: str, key: str) -> None:
    assert _MODELS[model]["properties"][key]["maximum"] <= 7 * 86_400


def test_all_that_know_seconds_are_looked_at() -> None:
    assert {("ApiSettings", "request_s"), ("AgentSettings", "coalesce_s")} <= set(_SECONDS)
