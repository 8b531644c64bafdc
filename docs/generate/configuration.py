"""The page of settings: every key of dispatcher.yaml and of an agent, with unit, bounds and default."""

import json
from collections.abc import Iterator

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from agents.runtime.settings import AgentSettings
from agents.runtime.telemetry_settings import (
    CustomQuery,
    FileSettings,
    LoadWatcherSettings,
    NodeExporterSettings,
    PrometheusSettings,
)
from dispatcher.config.sections import ConfigFile
from docs.generate.markdown import code, page, table

SOURCES: dict[str, type[BaseModel]] = {
    "prometheus": PrometheusSettings,
    "prometheus[].queries": CustomQuery,
    "node_exporter": NodeExporterSettings,
    "load_watcher": LoadWatcherSettings,
    "file": FileSettings,
}
_BOUNDS = ((Ge, "ge", ">="), (Gt, "gt", ">"), (Le, "le", "<="), (Lt, "lt", "<"))


def bounds(field: FieldInfo) -> str:
    """'>= 1, <= 256'."""
    limits = [
        f"{sign} {getattr(one, name):_}"
        for kind, name, sign in _BOUNDS
        for one in field.metadata
        if isinstance(one, kind)
    ]
    return ", ".join(limits)


def default(field: FieldInfo) -> str:
    """As YAML would have it."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    plain = isinstance(value, bool | int | float | str | None) or value in ((), {}, [])
    return code(json.dumps(value)) if plain else "see there"


def rows(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    """(key, default, bounds, meaning) of a section and those in it."""
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from rows(inner, f"{prefix}{name}.")
        else:
            yield code(f"{prefix}{name}"), default(field), bounds(field), field.description or ""


def render() -> str:
    """The page."""
    head = ("key", "default", "bounds", "meaning")
    return page(
        "Configuration",
        "Times are seconds unless a key says otherwise. `global-dispatcher config check FILE` finds mistakes and says the "
        "line; [`configs/dispatcher.yaml`](../../configs/dispatcher.yaml) is a commented file to begin with.",
        "## dispatcher.yaml",
        "Each key may be overridden by the environment: `GLOBAL_DISPATCHER_HTTP__PORT=8080` sets `http.port`.",
        table(head, rows(ConfigFile)),
        "## An agent",
        "Under `clusters[].agent` of dispatcher.yaml, and under `config` of the agent's chart.",
        table(head, rows(AgentSettings)),
        *(
            part
            for key, model in SOURCES.items()
            for part in (f"### {code(f'telemetry.{key}[]')}", (model.__doc__ or "").strip(), table(head, rows(model)))
        ),
    )
