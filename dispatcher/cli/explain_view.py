"""The answer to `explain`: where a pod went and why there, or why nowhere. Words and columns only,
no colour needed.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dispatcher.cli.output import Column, harmless, print_trimmed, table_of
from dispatcher.cli.tables import PHASE_STYLES, age, heat, share

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

Record = Mapping[str, Any]
_BAR = 24
_FIGURE = re.compile(r"\d[\w.]*")
_VICTIMS = 3  # named in one line
_UNKNOWN = "unknown, by requests"  # of a reading, in the words of the plugins


_CONTROLLER = (
    Column("PODS", lambda row: str(row["pods"]), right=True),
    Column("READY", lambda row: str(row["ready"]), right=True),
    Column("CLUSTER", lambda row: row["cluster"] or "-", lambda row: "bold"),
    Column("PHASE", lambda row: row["phase"], lambda row: PHASE_STYLES.get(row["phase"], "")),
    Column("FOR EXAMPLE", lambda row: row["example"]),
    Column("WHY NOT READY", lambda row: row["why"] or "-", lambda row: "dim", wraps=True),
)


def print_explained(console: "Console", found: Record) -> None:
    """Print the whole record of one pod (see dispatcher.scheduling.views.explain) in sections."""
    from rich.text import Text

    for number, (heading, body) in enumerate(_sections(found)):
        if number:
            console.print()
        if heading:
            console.print(Text(harmless(heading), style="bold"))
        print_trimmed(console, body)


def print_controller(
    console: "Console", controller: str, namespace: str, rows: Sequence[Record]
) -> None:
    """Print how many pods of a controller are where, and why, by what they have in common."""
    from rich.table import Table
    from rich.text import Text

    kind, _, name = controller.partition("/")
    ready = sum(bool(row["ready"]) for row in rows)
    head = Table.grid(padding=(0, 3, 0, 0))
    title = (harmless(f"{namespace}/{name}"), "bold")
    head.add_row(
        Text(kind, style="dim"), Text.assemble(title, f"  {ready} of {len(rows)} pods ready")
    )
    submitted = ", ".join(sorted({str(row["source"]) for row in rows}))
    head.add_row(Text("From", style="dim"), Text(harmless(submitted)))
    print_trimmed(console, head)
    console.print()
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for row in rows:
        # What a pod that is well was placed for is its own: `explain` of it says that.
        why = "" if row["ready"] else str(row["reason"])
        alike = _FIGURE.sub("#", why)
        groups.setdefault((str(row["cluster"]), str(row["phase"]), alike), []).append(row)
    largest = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    table = [
        {
            "pods": len(found),
            "ready": sum(bool(row["ready"]) for row in found),
            "cluster": cluster,
            "phase": phase,
            "example": f"{found[0]['namespace']}/{found[0]['name']}",
            "why": found[0]["reason"] if alike else "",
        }
        for (cluster, phase, alike), found in largest
    ]
    print_trimmed(console, table_of(_CONTROLLER, table))
    console.print()
    example = table[0]["example"]
    console.print(Text(harmless(f"One of them in full: global-dispatcher explain {example}")))


def _sections(found: Record) -> Iterator[tuple[str, "RenderableType"]]:
    decision = found.get("decision") or {}
    yield "", _headline(found, decision)
    if decision.get("scores"):
        yield "Scores", _scores(decision)
    if refusals := _refusals(found, decision):
        yield "Why not", _by_cluster(refusals)
    if found.get("refusals"):
        yield (
            "Refused by clusters, which are passed over for a while",
            _passed_over(found["refusals"]),
        )
    elif decision.get("refusals"):
        yield "Refused by clusters before it was placed", _turned_away(decision["refusals"])
    if decision.get("rejected"):
        yield _rejected_heading(decision), _rejected(decision["rejected"])
    if decision.get("readings"):
        yield f"Live load of {decision['decision']['node']} when it was chosen", _readings(decision)
    if decision.get("extras"):
        yield "What plugins saw", _details(decision["extras"])


def _headline(found: Record, decision: Record) -> "RenderableType":
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 3, 0, 0))
    phase = harmless(str(found.get("phase", "")))
    title = harmless(f"{found.get('namespace', '')}/{found.get('name', '')}")
    table.add_row(
        Text("Pod", style="dim"),
        Text.assemble((title, "bold"), "  ", (phase, PHASE_STYLES.get(phase, ""))),
    )
    lines = [
        ("From", found.get("source") or decision.get("home") or "-"),
        ("Why", _why(found, decision)),
    ]
    if batch := decision.get("batch"):
        counted = "what is counted here is as it was before the first of them"
        place = f"pod {batch['place']} of {batch['of']} that were decided together"
        lines.append(("Batch", f"{place}; {counted}"))
    if found.get("also_in"):
        others = ", ".join(map(str, found["also_in"]))
        lines.append(
            (
                "Also",
                f"a pod of this name was submitted in {others}, too: `--cluster "
                f"{found['also_in'][0]}`",
            )
        )
    told: list[tuple[str, str, Callable[[Any], str]]] = [
        ("Now", "in_flight", "waiting for the agent's answer ({})".format),
        ("Now", "waiting", str),
        ("Frees", "quota", lambda quota: quota["text"]),
        ("Group", "group", _group),
        ("Not along", "left_behind", str),
        ("Priority", "lower_priority", str),
        ("Moved", "moved", _moved),
    ]
    lines += [(head, words(found[key])) for head, key, words in told if found.get(key)]
    if decision.get("nominated"):
        lines.append(("Now", _promised(decision)))
    rows = [(head, Text(harmless(str(text)))) for head, text in lines]
    for head, text in (rows[0], ("To", _place(found)), *rows[1:]):
        table.add_row(Text(head, style="dim"), text)
    return table


def _group(group: Record) -> str:
    """Like: train (PodGroup), starting: 8 of min 8 pods have a place, in zone a of cluster west."""
    if group["state"] == "apart":
        return f"{group['name']} ({group['kind']}): this pod does not count in it now"
    have = f"{group['placed']} of min {group['min_count']} pods have a place"
    where = f", in {', '.join(map(str, group['domains']))}" if group["domains"] else ""
    more = f", {group['waiting']} wait" if group["waiting"] else ""
    step = f" (step {group['step']}, {group['left']} left)" if group.get("step") else ""
    within = f"; all within one {group['within']}" if group["within"] != "fleet" else ""
    return f"{group['name']} ({group['kind']}), {group['state']}{step}: {have}{where}{more}{within}"


def _place(found: Record) -> "RenderableType":
    from rich.text import Text

    if not found.get("cluster"):
        return Text("nowhere yet", style="yellow")
    cluster = harmless(str(found["cluster"]))
    node = harmless(str(found.get("node") or "-"))
    return Text.assemble((cluster, "bold green"), " / ", (node, "bold"))


def _moved(move: Record) -> str:
    """What rebalancing did with the pod, or with the one that it replaces."""
    return f"{move['namespace']}/{move['name']} {move['result']}: {move['why']}"


def _promised(decision: Record) -> str:
    """The place that preemption makes for the pod, and for whom it still waits."""
    place = f"promised {decision['nominated']['cluster']} / {decision['nominated']['node']}"
    victims = [str(one["pod"]) for one in decision.get("victims") or ()]
    more = f" and {len(victims) - _VICTIMS} more" if len(victims) > _VICTIMS else ""
    return f"{place}, evicting {', '.join(victims[:_VICTIMS])}{more}" if victims else place


def _why(found: Record, decision: Record) -> str:
    chosen = decision.get("decision")
    rival = decision.get("runner_up")
    if not chosen:
        return str(
            found.get("message")
            or decision.get("message")
            or found.get("reason")
            or "no decision is known"
        )
    if not rival:
        return f"score {chosen['score']:.1f}, the only node of {decision['evaluated']} that fits"
    return (
        f"score {chosen['score']:.1f}, {_beside(decision['margin'])} {rival['cluster']} / "
        f"{rival['node']}; "
        f"{decision['feasible']} of {decision['evaluated']} nodes fit"
    )


def _scores(decision: Record) -> "RenderableType":
    rows = [{"plugin": plugin, **numbers} for plugin, numbers in decision["scores"].items()]
    rows.sort(key=lambda row: -abs(row["weighted"]))
    widest = max((abs(row["weighted"]) for row in rows), default=1.0) or 1.0
    total = {
        "plugin": "total",
        "weighted": decision["decision"]["score"],
        "runner_up_weighted": (decision.get("runner_up") or {}).get("score"),
    }
    columns = (
        Column(
            "PLUGIN", lambda row: row["plugin"], lambda row: "bold" if "weight" not in row else ""
        ),
        Column("RAW", lambda row: _number(row.get("raw")), right=True),
        Column("SCORE", lambda row: _number(row.get("normalized")), right=True),
        Column("WEIGHT", lambda row: f"{row['weight']:g}" if "weight" in row else "", right=True),
        Column("WEIGHTED", lambda row: _number(row["weighted"]), lambda row: "bold", right=True),
        Column(
            "RUNNER-UP",
            lambda row: _number(row.get("runner_up_weighted")),
            lambda row: "dim",
            right=True,
        ),
        Column("LEAD", _lead, _lead_style, right=True),
        Column("", lambda row: _bar(row, widest), _lead_style),
    )
    return table_of(columns, [*rows, total])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value + 0.0:.1f}"  # minus zero is zero


def _difference(row: Record) -> float | None:
    rival = row.get("runner_up_weighted")
    return None if rival is None else float(row["weighted"]) - float(rival)


def _lead(row: Record) -> str:
    ahead = _difference(row)
    return "" if ahead is None else "0.0" if abs(ahead) < 0.05 else f"{ahead:+.1f}"


def _lead_style(row: Record) -> str:
    ahead = _difference(row)
    if ahead is None or abs(ahead) < 0.05:
        return "dim"
    return "green" if ahead > 0 else "red"


def _bar(row: Record, widest: float) -> str:
    return "━" * round(_BAR * abs(row["weighted"]) / widest) if "weight" in row else ""


def _rejected_heading(decision: Record) -> str:
    return (
        f"Refused nodes ({decision['evaluated'] - decision['feasible']} of {decision['evaluated']})"
    )


def _rejected(rows: list[Record]) -> "RenderableType":
    clusters = sorted({row["cluster"] for row in rows})
    by_reason: dict[str, dict[str, int]] = {}
    for row in rows:
        by_reason.setdefault(row["reason"], {})[row["cluster"]] = row["count"]
    columns = (
        Column(
            "NODES", lambda row: str(sum(row["counts"].values())), lambda row: "bold", right=True
        ),
        *(_count_in(name) for name in clusters),
        Column("REASON", lambda row: row["reason"], wraps=True),
    )
    return table_of(
        columns, [{"reason": reason, "counts": counts} for reason, counts in by_reason.items()]
    )


def _count_in(cluster: str) -> Column:
    return Column(cluster.upper(), lambda row: str(row["counts"].get(cluster) or "-"), right=True)


def _refusals(found: Record, decision: Record) -> list[Record]:
    """By cluster; of the whole fleet only where the headline says something else."""
    message = decision.get("message")
    rows = (
        [{"cluster": "fleet", "message": message}]
        if message and message != _why(found, decision)
        else []
    )
    by_cluster = sorted((decision.get("clusters") or {}).items()) if message else []
    return rows + [{"cluster": name, "message": text} for name, text in by_cluster]


def _by_cluster(rows: list[Record]) -> "RenderableType":
    columns = (
        Column("CLUSTER", lambda row: row["cluster"], lambda row: "bold"),
        Column("MESSAGE", lambda row: row["message"], wraps=True),
    )
    return table_of(columns, rows)


def _passed_over(refusals: list[Record]) -> "RenderableType":
    columns = (
        Column("CLUSTER", lambda row: row["cluster"] or "all others", lambda row: "bold"),
        Column("AGO", lambda row: age(row["ago_s"]), right=True),
        Column("AGAIN IN", lambda row: age(row["again_in_s"]), right=True),
        Column("SAID", lambda row: row["message"], wraps=True),
    )
    return table_of(columns, refusals)


def _turned_away(refusals: list[Record]) -> "RenderableType":
    columns = (
        Column("CLUSTER", lambda row: row["cluster"] or "all others", lambda row: "bold"),
        Column("SAID", lambda row: row["message"], wraps=True),
    )
    return table_of(columns, refusals)


def _readings(decision: Record) -> "RenderableType":
    """A line for each signal: the mean and the last reading, who told it and when, which plugins
    went by it.
    """
    scores = decision.get("scores") or {}
    extras = decision.get("extras") or {}
    rows = []
    for signal, seen in decision["readings"].items():
        by = [
            plugin for plugin, numbers in scores.items() if signal in (numbers.get("signals") or ())
        ]
        notes = [_reading_note(plugin, extras.get(plugin), signal) for plugin in by]
        told = seen if isinstance(seen, Mapping) else None
        note = "; ".join(filter(None, notes)) if told else _UNKNOWN
        rows.append({"signal": signal, "seen": told, "by": ", ".join(by) or "-", "note": note})
    columns = (
        Column("SIGNAL", lambda row: row["signal"]),
        Column(
            "MEAN", lambda row: share((row["seen"] or {}).get("mean")), _reading_style, right=True
        ),
        Column(
            "LAST",
            lambda row: share(row["seen"]["used"]) if row["seen"] else "-",
            lambda row: "dim",
            right=True,
        ),
        Column("AGE", lambda row: age(row["seen"]["age_s"]) if row["seen"] else "-", right=True),
        Column("SOURCE", lambda row: (row["seen"] or {}).get("source") or "-"),
        Column("JUDGED BY", lambda row: row["by"]),
        Column("NOTE", lambda row: row["note"], lambda row: "yellow", wraps=True),
    )
    return table_of(columns, rows)


def _reading_note(plugin: str, explained: object, signal: str) -> str:
    """That a reading did not count in full for a plugin: 'LiveCPU: stale, by requests'; else
    nothing.
    """
    if isinstance(explained, Mapping) and isinstance(explained.get(signal), Mapping):
        explained = explained[signal]
    if not isinstance(explained, Mapping):
        return ""
    judged = str(explained.get("judged", ""))
    return "" if judged in ("", "fresh") else f"{plugin}: {judged}"


def _reading_style(row: Record) -> str:
    return heat((row["seen"] or {}).get("mean"))


def _details(extras: Record) -> "RenderableType":
    rows = [
        {"plugin": plugin if not number else "", "text": text}
        for plugin, numbers in extras.items()
        for number, text in enumerate(_lines(numbers))
    ]
    columns = (
        Column("PLUGIN", lambda row: row["plugin"]),
        Column("NUMBERS", lambda row: row["text"], wraps=True),
    )
    return table_of(columns, rows)


def _lines(value: object, path: str = "") -> Iterator[str]:
    """A plugin's own numbers, a line for each nested mapping: 'zone counts: a 2, b 1'."""
    if not isinstance(value, Mapping):
        yield f"{path}: {_plain(value)}" if path else _plain(value)
        return
    plain = {key: item for key, item in value.items() if not isinstance(item, Mapping)}
    if plain:
        yield f"{path}: {_plain(plain)}" if path else _plain(plain)
    for key, item in value.items():
        if isinstance(item, Mapping):
            yield from _lines(item, f"{path} {key}".strip())


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(
            f"{str(key).replace('_', ' ')} {_plain(item)}" for key, item in value.items()
        )
    if isinstance(value, list | tuple):
        return ", ".join(_plain(item) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def in_short(decision: Record | None) -> str:
    """One line of why: score, margin, and the two plugins that tell it from the runner-up most;
    empty if not placed.
    """
    if not decision or not decision.get("decision"):
        return ""
    rows = [
        {"plugin": plugin, **numbers} for plugin, numbers in (decision.get("scores") or {}).items()
    ]
    text = f"score {decision['decision']['score']:.1f}"
    rival = decision.get("runner_up")
    if not rival:
        return f"{text}, the only node that fits"
    leads = sorted(rows, key=lambda row: -abs(_difference(row) or 0.0))[:2]
    terms = [
        f"{row['plugin']} {_lead(row)}" for row in leads if abs(_difference(row) or 0.0) >= 0.05
    ]
    because = f": {', '.join(terms)}" if terms and decision["margin"] else ""
    return f"{text}, {_beside(decision['margin'])} {rival['cluster']}/{rival['node']}{because}"


def _beside(margin: float) -> str:
    """Equals are told apart by a rank of their names that never changes."""
    return f"{margin:.1f} ahead of" if margin else "level with"
