"""`global-dispatcher doctor`: each cluster's sources of live load as a table, then what is wrong
and what to do.
"""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dispatcher.cli.api_client import ApiClient
from dispatcher.cli.diagnosis import NOTE, PROBLEM, Finding, diagnose
from dispatcher.cli.expiry import about_expiry
from dispatcher.cli.one_network import about_networks
from dispatcher.cli.output import Column, Output, print_advice, print_table, print_value
from dispatcher.cli.own_files import about_own_files
from dispatcher.cli.tables import age
from dispatcher.service.errors import CommandError, ExitCode

Row = Mapping[str, Any]
_SILENT_FIX = "see whether it is up, and reached from here by its context, and run doctor again"


def examine(client: ApiClient, cluster: str, config: Path | None, output: Output) -> int:
    """Ask, judge and print; the exit code says whether anything is wrong. `config`: ask the
    clusters, too.
    """
    clusters, fleet = _clusters(client)
    telemetry = client.rows("telemetry")
    if cluster:
        known = [row["cluster"] for row in telemetry]
        if cluster not in known:
            raise CommandError(
                f"no cluster {cluster}; known: {', '.join(known)}", ExitCode.NOT_FOUND
            )
        telemetry = [row for row in telemetry if row["cluster"] == cluster]
    opted, lacks = asyncio.run(_asked(config, cluster)) if config is not None else ([], [])
    metrics = client.content("/metrics").decode()
    own = [*about_own_files(metrics), *about_expiry(metrics, only=cluster)]
    networks = about_networks(clusters, cluster)
    clusters = [row for row in clusters if cluster in ("", row["name"])]
    found = diagnose(clusters, telemetry, client.version())
    findings = [*fleet, *own, *found, *networks, *lacks]
    wrong = [one for one in findings if one.level == PROBLEM]
    if output is not Output.TABLE:
        rows = [one.row() for one in findings]
        print_value(
            {"ok": not wrong, "findings": rows, "telemetry": telemetry, "opt_in": opted}, output
        )
    else:
        _print(telemetry, opted, findings)
    return int(ExitCode.FAILED if wrong else ExitCode.OK)


def _clusters(client: ApiClient) -> tuple[list[dict[str, Any]], list[Finding]]:
    """The rows of all clusters; of a dispatcher that does not lead there are none, which is a
    finding.
    """
    try:
        return client.rows("clusters"), []
    except CommandError as error:
        if error.code is not ExitCode.FAILED:
            raise
        fix = (
            "ask the dispatcher that leads; if none does, see whether the API server that holds "
            "the lease answers"
        )
        return [], [Finding("", "dispatcher", PROBLEM, str(error), fix)]


async def _asked(file: Path, only: str) -> tuple[list[dict[str, Any]], list[Finding]]:
    """What API servers say: what gives annotated pods our schedulerName there, and what agents wait
    for or may not.
    """
    from dispatcher.cli.joining.consents import all_unknown
    from dispatcher.cli.joining.daemon_sets import (
        all_on_proxy_nodes,
    )  # the plugin of kubectl does without
    from dispatcher.cli.joining.opt_in import all_in_force
    from dispatcher.cli.joining.own_services import all_conflicts, all_left
    from dispatcher.cli.joining.pod_networks import all_overlaps
    from dispatcher.cli.joining.rights import all_lacking
    from dispatcher.cli.joining.serving import all_lacks
    from dispatcher.cli.operate.identity import wrong_contexts
    from dispatcher.cli.operate.members import reached
    from dispatcher.service.run import read_config

    config = read_config(file)[0]
    async with reached(config, patient=False) as members:
        wrong = await wrong_contexts(file, config, members, only)
        found = await all_in_force(config, members, only)
        lacks = await all_lacks(config, members, only)
        networks = await all_overlaps(config, members, only)
        networks += await all_conflicts(config, members, only)
        networks += await all_left(config, members, only)
        unknown = await all_unknown(config, members, only)
        stuck = await all_on_proxy_nodes(config, members, only)
        lacking = await all_lacking(config, members, only)
    opted = [{"cluster": name, **one._asdict(), "text": str(one)} for name, one in found.items()]
    waiting = [
        Finding(one.cluster, "logs of remote pods", NOTE, one.text, one.fix) for one in lacks
    ]
    silent = [
        Finding(name, "API server", NOTE, f"{one.silent}: it was asked nothing more", _SILENT_FIX)
        for name, one in members.items()
        if one.silent and only in ("", name)
    ]
    misled = {one.cluster for one in wrong}
    opt_ins = _about_opt_ins([row for row in opted if row["cluster"] not in misled])
    return opted, [*wrong, *silent, *opt_ins, *waiting, *networks, *unknown, *stuck, *lacking]


def _about_opt_ins(opted: list[dict[str, Any]]) -> list[Finding]:
    wrong = (row for row in opted if not row["acts"])
    return [Finding(row["cluster"], "opt-in", NOTE, row["text"], _opt_in_fix(row)) for row in wrong]


def _opt_in_fix(row: Row) -> str:
    if row["acts"] is None:
        return (
            "give the context of the cluster, and the right to create pods there; nothing is stored"
        )
    if row["by"].startswith("webhook"):
        return (
            "see whether the pods of the agent's webhook run, and whether the API server reaches "
            "them"
        )
    if row["by"]:
        return (
            "see that its binding is there (kubectl get mutatingadmissionpolicybindings), which "
            "the chart or `install` "
            "makes anew; else turn on the API server's feature gate MutatingAdmissionPolicy, or "
            "upgrade the agent's "
            "chart with admissionPolicy.by: webhook"
        )
    return "install the agent's chart, or run `global-dispatcher install --context CONTEXT`"


def _print(
    telemetry: list[dict[str, Any]], opted: list[dict[str, Any]], findings: list[Finding]
) -> None:
    rows = [
        {"cluster": row["cluster"], "all": row["nodes"], **source}
        for row in telemetry
        for source in row["sources"]
    ]
    if rows:
        print_table(SOURCES, rows)
        sys.stdout.write("\n")
    if opted:
        print_table(OPT_INS, opted)
        sys.stdout.write("\n")
    if not findings:
        sys.stdout.write("nothing is wrong\n")
        return
    for one in findings:
        name = ": ".join(filter(None, (one.level, one.cluster, one.about)))
        print_advice((name, "bold red" if one.level == PROBLEM else "yellow"), one.text, one.fix)


def _state(row: Row) -> str:
    if not row["asked"]:
        return "not asked yet"
    if row["failing"]:
        return f"{row['failing']} failing"
    if row["problem"]:
        return "failing"
    return "ok" if row["nodes"] else "no readings"


def _state_style(row: Row) -> str:
    return {"ok": "green", "not asked yet": "dim"}.get(_state(row), "bold red")


def _oldest(row: Row) -> float | None:
    return max((oldest for _, _, oldest in row["ages"].values()), default=None)


def _median(row: Row) -> float | None:
    return max((median for _, median, _ in row["ages"].values()), default=None)


OPT_INS = (Column("CLUSTER", lambda row: row["cluster"]), Column("OPT-IN", lambda row: row["text"]))
SOURCES = (
    Column("CLUSTER", lambda row: row["cluster"]),
    Column("SOURCE", lambda row: row["name"]),
    Column("STATE", _state, _state_style),
    Column("NODES", lambda row: f"{row['nodes']}/{row['all']}", right=True),
    Column("ANSWERED", lambda row: age(row["answered_s"]), right=True),
    Column("TOOK", lambda row: f"{row['lag_s'] * 1000:.0f}ms" if row["asked"] else "-", right=True),
    Column("AGE", lambda row: age(_median(row)), right=True),
    Column("OLDEST", lambda row: age(_oldest(row)), right=True),
    Column("ERRORS", lambda row: f"{row['errors']}/{row['asked']}", right=True),
    Column("SIGNALS", lambda row: ", ".join(row["ages"]) or "-"),
)
