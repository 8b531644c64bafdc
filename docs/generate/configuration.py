"""The page of settings: every key of dispatcher.yaml and of an agent, with unit, bounds and
default.
"""

import inspect
import json
from collections.abc import Iterator
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from agents.runtime.join.settings import JoinSettings
from agents.runtime.settings import AcceptSettings, SignalSettings
from agents.runtime.telemetry_settings import (
    CustomQuery,
    FileSettings,
    LoadWatcherSettings,
    NodeExporterSettings,
    PrometheusSettings,
)
from dispatcher.config.sections import ClusterSection, ConfigFile
from docs.generate.markdown import code, page, table

SOURCES: dict[str, type[BaseModel]] = {
    "prometheus": PrometheusSettings,
    "prometheus[].queries": CustomQuery,
    "node_exporter": NodeExporterSettings,
    "load_watcher": LoadWatcherSettings,
    "file": FileSettings,
}
ASKED = (PrometheusSettings, NodeExporterSettings, LoadWatcherSettings)  # over the network
LISTS: dict[str, type[BaseModel]] = {
    "signals": SignalSettings,
    "executor.accept": AcceptSettings,
    **{f"telemetry.{key}": model for key, model in SOURCES.items()},
}
_BOUNDS = ((Ge, "ge", ">="), (Gt, "gt", ">"), (Le, "le", "<="), (Lt, "lt", "<"))


_USUAL = {"> 0, <= 86_400", ">= 0, <= 65_535", ">= 1, <= 65_535"}  # of seconds and of ports
_LONGEST = 120  # characters of a default


def bounds(field: FieldInfo) -> str:
    """'>= 1, <= 256', or what may stand there: 'wait, ignore'; nothing for `_USUAL`."""
    limits = [
        f"{sign} {getattr(one, name):_}"
        for kind, name, sign in _BOUNDS
        for one in field.metadata
        if isinstance(one, kind)
    ]
    if any(isinstance(one, Ge) and one.ge for one in field.metadata):
        limits = [one for one in limits if one != "> 0"]
    if ", ".join(limits) in _USUAL:
        return ""
    return ", ".join([*limits, *map(code, filter(None, _choices(field.annotation)))])


def _choices(annotation: Any) -> Iterator[str]:
    """The texts of a Literal, also of one among others."""
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    elif not isinstance(annotation, type):
        for one in get_args(annotation):
            yield from _choices(one)


def default(field: FieldInfo) -> str:
    """As YAML would have it; nothing for an empty one, a link for the one too long for a table."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    shown = code(json.dumps(value, default=_section))
    if value in ("", [], (), {}):
        return ""
    return shown if len(shown) <= _LONGEST else "[these](../crossing.md#what-of-them)"


def _section(model: BaseModel) -> dict[str, Any]:
    """What a section has beside its own defaults."""
    return model.model_dump(mode="json", exclude_defaults=True)


def rows(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """(key, default, meaning and bounds) of a section and those in it."""
    for name, field in model.model_fields.items():
        if (inner := _model_of(field.annotation)) is not None:
            yield from rows(inner, f"{prefix}{name}.")
        else:
            limits = f" ({bounds(field)})" if bounds(field) else ""
            meaning = (field.description or "").removesuffix(".")
            yield code(f"{prefix}{name}"), default(field), f"{meaning}{limits}"


def _model_of(annotation: Any) -> type[BaseModel] | None:
    """The section of a field, also of one that may be left out; of a list of sections there is
    none.
    """
    if isinstance(annotation, type):
        return annotation if issubclass(annotation, BaseModel) else None
    if get_origin(annotation) not in (Union, UnionType):
        return None
    return next((one for one in map(_model_of, get_args(annotation)) if one is not None), None)


def render() -> str:
    """The page."""
    head = ("key", "default", "meaning")
    return page(
        "Configuration",
        "A key without a default is empty. Keys that end in `_s` are seconds, above 0 and at most "
        "86,400, and ports 0 to 65,535, unless bounds stand in brackets. `global-dispatcher config "
        "check FILE` finds mistakes and says the line; "
        "[`configs/dispatcher.yaml`](../../configs/dispatcher.yaml) is a commented file to begin "
        "with. Paths are relative to the folder of the file in which they stand; `~` is the home "
        "of who runs the process.",
        "## dispatcher.yaml",
        "Each key may be overridden by the environment: `GLOBAL_DISPATCHER_HTTP__PORT=8080` sets "
        "`http.port`.",
        table(head, rows(ConfigFile)),
        f"### {code('clusters[]')}",
        inspect.getdoc(ClusterSection) or "",
        table(head, rows(ClusterSection)),
        "## An agent",
        "Keys of agent.yaml, the file of `global-dispatcher agent`. Under `clusters[].agent` of "
        "dispatcher.yaml stand all but "
        "`cluster`, `kubeconfig` and `context` (there keys of the cluster itself), `gateway` and "
        "`health`. In the agent's chart "
        "`cluster`, `metrics`, `gateway`, `relay`, `health` and, for `key_file`, `keySecret` are "
        "values of their own; `kubeconfig`, `context` "
        "and `log_file` are not there, and the rest is under `config`. `config check` takes this "
        "file, too, on the machine where the agent is to run.",
        table(head, rows(JoinSettings)),
        *(
            part
            for key, model in LISTS.items()
            for part in (
                f"### {code(f'{key}[]')}",
                inspect.getdoc(model) or "",
                table(head, _own_rows(model)),
            )
        ),
        "### Keys of "
        f"{', '.join(code(f'telemetry.{key}[]') for key, model in SOURCES.items() if model in ASKED)}",
        "Each of these has them, beside its own above.",
        table(head, _shared_rows()),
    )


def _own_rows(model: type[BaseModel]) -> list[tuple[str, str, str]]:
    """Those of a list's entries, without what all sources that are asked over the network have
    alike.
    """
    shared = _shared_rows() if model in ASKED else []
    return [row for row in rows(model) if row not in shared]


def _shared_rows() -> list[tuple[str, str, str]]:
    first, *others = (list(rows(model)) for model in ASKED)
    return [row for row in first if all(row in other for other in others)]
