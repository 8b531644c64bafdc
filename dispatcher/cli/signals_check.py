"""`global-dispatcher signals check`: the sources of each cluster are tried from here, and what they
tell is shown.
"""

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.observer.signals import CPU, LINK_SPEED, MEMORY, RECEIVE, TRANSMIT
from agents.runtime.join.settings import WrongConfiguration, read_settings
from agents.runtime.settings import AgentSettings
from agents.runtime.source_trial import Choice, Trial, TrialError, Tried, raw_measures, try_sources
from dispatcher.cli.output import Column, Output, print_advice, print_table, print_value
from dispatcher.cli.remedies import about_ambiguous, about_silent, about_unmatched, remedy
from dispatcher.cli.tables import age, heat, share
from dispatcher.config import ConfigError, load_config, plugin_registry
from dispatcher.config.agents import agent_settings
from dispatcher.config.document import read_document
from dispatcher.config.gateway import here
from dispatcher.service.errors import CommandError, ExitCode

Row = Mapping[str, Any]
_MOST_NAMES = 3


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for."""

    cluster: str
    nodes: tuple[str, ...]
    count: int
    wait_s: float


@dataclass(frozen=True, slots=True)
class Checked:
    """One cluster: its settings, where they stand in the file, and what came of it."""

    settings: AgentSettings
    place: str
    trial: Trial | TrialError


def check_signals(config: Path, wanted: Wanted, output: Output) -> int:
    """Try, print, and say by the exit code whether all is well."""
    found = _chosen(_clusters(config), wanted.cluster)
    if sys.stderr.isatty():
        sys.stderr.write(
            f"asking the sources of {', '.join(one.cluster for _, one in found)} ...\n"
        )
    checked = asyncio.run(_try_all(found, wanted))
    told = [_row(one) for one in checked]
    if output is not Output.TABLE:
        print_value({"ok": not any(row["problems"] for row in told), "clusters": told}, output)
    else:
        for number, row in enumerate(told):
            if number:
                sys.stdout.write("\n")
            _print(row)
    return int(ExitCode.FAILED if any(row["problems"] for row in told) else ExitCode.OK)


def _clusters(file: Path) -> list[tuple[str, AgentSettings]]:
    """(where it stands, settings of an agent) of each cluster of the file; CommandError says what
    is wrong with it.
    """
    try:
        data = read_document(file).data
        if isinstance(data, Mapping) and "cluster" in data:
            return [("", read_settings(file).agent)]
        clusters = here(load_config(file, registry=plugin_registry()).clusters)
    except (ConfigError, WrongConfiguration) as error:
        raise CommandError(str(error)) from None
    if not clusters:
        raise CommandError(
            f"{file}: clusters: none is listed whose agent runs here: give the agent's own file"
        )
    return [(f"clusters[{at}].agent.", agent_settings(one)) for at, one in enumerate(clusters)]


def _chosen(
    found: list[tuple[str, AgentSettings]], cluster: str
) -> list[tuple[str, AgentSettings]]:
    chosen = [one for one in found if cluster in ("", one[1].cluster)]
    if not chosen:
        known = ", ".join(settings.cluster for _, settings in found)
        raise CommandError(f"no cluster {cluster}; known: {known}", ExitCode.NOT_FOUND)
    return chosen


async def _try_all(found: list[tuple[str, AgentSettings]], wanted: Wanted) -> list[Checked]:
    choice = Choice(wanted.nodes, wanted.count, wanted.wait_s)

    async def one(place: str, settings: AgentSettings) -> Checked:
        try:
            return Checked(settings, place, await try_sources(settings, choice))
        except TrialError as error:
            return Checked(settings, place, error)

    return await asyncio.gather(*(one(*each) for each in found))


# --- as rows
# --------------------------------------------------------------------------------------------------


def _row(checked: Checked) -> dict[str, Any]:
    """JSON-ready: nodes, sources, readings, and problems and notes as {key, problem, fix}."""
    trial = checked.trial
    cluster = checked.settings.cluster
    nothing: dict[str, Any] = {
        "cluster": cluster,
        "nodes": 0,
        "shown": [],
        "sources": [],
        "readings": [],
        "notes": [],
    }
    if isinstance(trial, TrialError):
        key = checked.place.removesuffix(".agent.") or "kubeconfig"
        return {**nothing, "problems": [{"key": key, "problem": str(trial), "fix": trial.fix}]}
    problems = [one for tried in trial.sources for one in _problems(tried, checked.place)]
    return {
        **nothing,
        "nodes": trial.nodes,
        "shown": list(trial.shown),
        "sources": [_source_row(tried, checked.place, trial.shown) for tried in trial.sources],
        "readings": list(
            _reading_rows(trial, [one.name for one in checked.settings.all_signals()])
        ),
        "problems": problems,
        "notes": [one for tried in trial.sources for one in _notes(tried, checked.place)],
    }


def _source_row(tried: Tried, place: str, shown: tuple[str, ...]) -> dict[str, Any]:
    matching = tried.answer.matching
    return {
        "name": tried.name,
        "key": place + tried.key,
        "ok": not (tried.problem or tried.failing),
        "took_s": round(tried.took_s, 3),
        "nodes": tried.told,
        "of": tried.of,
        "unmatched": matching.unmatched,
        "ambiguous": matching.ambiguous,
        "rejected": dict(tried.answer.rejected),
        "measures": [
            {
                "measure": name,
                "nodes": tried.measures[name],
                "values": {
                    node: by_node[node].value if node in by_node else None for node in shown
                },
            }
            for name, by_node in raw_measures(tried).items()
        ],
    }


def _reading_rows(trial: Trial, signals: list[str]) -> Iterator[dict[str, Any]]:
    for node in trial.shown:
        reading = trial.readings.get(node)
        told = {name: (used, old) for name, used, old in reading.signals()} if reading else {}
        for signal in signals:
            used, old = told.get(signal, (None, None))
            yield {
                "node": node,
                "signal": signal,
                "used": used,
                "age_s": None if old is None else round(old, 1),
                "source": reading.source_of(signal) if reading and used is not None else "",
                "by": {
                    one.name: found
                    for one in trial.sources
                    if (found := _value_by(one, node, signal)) is not None
                },
            }


def _value_by(tried: Tried, node: str, signal: str) -> float | None:
    reading = tried.readings.get(node)
    return (
        next((used for name, used, _ in reading.signals() if name == signal), None)
        if reading
        else None
    )


def _problems(tried: Tried, place: str) -> Iterator[dict[str, str]]:
    key = place + tried.key

    def wrong(problem: str, fix: str) -> dict[str, str]:
        return {"key": key, "problem": problem, "fix": fix}

    for node, why in sorted(tried.failing.items()):
        yield wrong(why if node in why else f"{node}: {why}", remedy(why, key))
    if tried.problem:
        yield wrong(tried.problem, remedy(tried.problem, key))
        return
    matching = tried.answer.matching
    if tried.told and tried.silent:
        some = _some(tried.silent)
        yield wrong(
            f"tells nothing of {len(tried.silent)} of {tried.of} nodes ({some})", about_silent(key)
        )
    if not tried.told and not tried.failing:
        yield wrong(
            f"answers, but tells nothing of any of the {tried.of} nodes", _nothing_fix(tried, key)
        )
    elif empty := [
        name for name, nodes in tried.measures.items() if not nodes and name != LINK_SPEED
    ]:
        fix = (
            f"name sets that fit what is scraped there in {key}.sets, or leave it to the next "
            "source of telemetry.order"
        )
        yield wrong(f"no node's {', '.join(empty)} is told: the queries find nothing", fix)
    if matching.ambiguous:
        some = _some(matching.ambiguous_names)
        text = (
            f"{matching.ambiguous} series of several nodes, or several of one node ({some}) do "
            "not count"
        )
        yield wrong(text, about_ambiguous(key))


def _notes(tried: Tried, place: str) -> Iterator[dict[str, str]]:
    """What need not be wrong: one server may know more than this cluster."""
    matching = tried.answer.matching
    key = place + tried.key
    if tried.told and matching.unmatched:
        text = f"{matching.unmatched} series of no known node ({_some(matching.unmatched_names)})"
        yield {"key": key, "problem": text, "fix": about_unmatched(key)}


def _some(names: Sequence[str]) -> str:
    """Some names; a name may be that of many series."""
    more = len(names) - min(len(names), _MOST_NAMES)
    return "; ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _nothing_fix(tried: Tried, key: str) -> str:
    matching = tried.answer.matching
    if matching.unmatched:
        some = _some(matching.unmatched_names)
        return f"what it tells is of no known node ({some}): {about_unmatched(key)}"
    if reasons := ", ".join(tried.answer.rejected):
        return f"its numbers are not believed ({reasons}): see docs/telemetry.md"
    if not tried.measures:
        return about_silent(key)
    return f"see that {key}.sets are for what is scraped there, and {key}.cluster_label"


# --- as tables
# --------------------------------------------------------------------------------------------------


def _print(row: Row) -> None:

    sys.stdout.write(
        f"{row['cluster']}: {row['nodes']} node{'' if row['nodes'] == 1 else 's'}\n\n"
        if row["shown"]
        else ""
    )
    if row["sources"]:
        print_table(_SOURCES, row["sources"])
    for source in row["sources"]:
        if source["measures"] and source["nodes"]:
            sys.stdout.write(f"\nWhat the queries of {source['name']} say\n")
            print_table(_measure_columns(row["shown"]), source["measures"])
    if row["readings"]:
        sys.stdout.write("\nWhat would be read\n")
        print_table(_reading_columns(row), row["readings"])
    if row["problems"] or row["notes"]:
        sys.stdout.write("\n")
    for level, style in (("problems", "bold red"), ("notes", "yellow")):
        for one in row[level]:
            print_advice((f"{level[:-1]}: {one['key']}", style), one["problem"], one["fix"])


_SOURCES = (
    Column("SOURCE", lambda row: row["name"]),
    Column(
        "STATE",
        lambda row: "ok" if row["ok"] else "fails",
        lambda row: "green" if row["ok"] else "bold red",
    ),
    Column("NODES", lambda row: f"{row['nodes']}/{row['of']}", right=True),
    Column("TOOK", lambda row: f"{row['took_s'] * 1000:.0f}ms", right=True),
    Column("UNMATCHED", lambda row: str(row["unmatched"]), right=True),
    Column("AMBIGUOUS", lambda row: str(row["ambiguous"]), right=True),
    Column(
        "NOT BELIEVED",
        lambda row: ", ".join(f"{n} {why}" for why, n in row["rejected"].items()) or "-",
    ),
)


def _measure_columns(shown: list[str]) -> tuple[Column, ...]:
    def value(node: str) -> Column:
        return Column(node, lambda row: _plain(row["measure"], row["values"][node]), right=True)

    return (
        Column("MEASURE", lambda row: row["measure"]),
        Column(
            "NODES",
            lambda row: str(row["nodes"]),
            lambda row: "" if row["nodes"] else "yellow",
            right=True,
        ),
        *map(value, shown),
    )


def _reading_columns(row: Row) -> tuple[Column, ...]:
    """With a column for each source that tells anything, where there are several."""
    sources = [
        one["name"]
        for one in row["sources"]
        if any(one["name"] in each["by"] for each in row["readings"])
    ]

    def by(source: str) -> Column:
        return Column(
            f"BY {source.upper()}", lambda each: share(each["by"].get(source)), right=True
        )

    return (
        Column("NODE", lambda row: row["node"]),
        Column("SIGNAL", lambda row: row["signal"]),
        Column("USED", lambda row: share(row["used"]), lambda row: heat(row["used"]), right=True),
        Column("AGE", lambda row: age(row["age_s"]), right=True),
        *(map(by, sources) if len(sources) > 1 else ()),
        Column("SOURCE", lambda row: row["source"] or "unknown: by requests"),
    )


def _plain(measure: str, value: float | None) -> str:
    """A measure in the unit that people read."""
    if value is None:
        return "-"
    if measure == CPU:
        return f"{value:.2f} cores"
    if measure == MEMORY:
        return f"{value / 2**30:.1f}Gi"
    if measure in (RECEIVE, TRANSMIT, LINK_SPEED):
        return f"{value / 1e6:.2f}MB/s"
    return share(value)
