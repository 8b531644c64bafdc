"""The Grafana dashboard of the dispatcher's chart: a table of panels here, Grafana's JSON there."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).parents[2] / "helm" / "dispatcher" / "dashboards" / "global-dispatcher.json"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT, _COLUMNS = 8, 7, 24
_RATE = "[$__rate_interval]"
_CLUSTER = '{cluster=~"$cluster"}'
# Every program that Prometheus asks may have process_* metrics.
_OF_DISPATCHERS = 'and on (instance) leader_election_master_status{name="global-dispatcher"}'
_OF_AGENTS = "and on (instance) global_dispatcher_agent_synced"
_STALLS = "global_dispatcher_time_without_decisions_seconds"


class Panel(NamedTuple):
    """One panel; each query with what its lines are called."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    kind: str = "timeseries"


def _quantile(share: float, histogram: str) -> tuple[str, str]:
    return (
        f"histogram_quantile({share}, sum by (le) (rate({histogram}_bucket{_RATE})))",
        f"p{share * 100:.0f}",
    )


def _quantiles(histogram: str) -> tuple[tuple[str, str], ...]:
    return tuple(_quantile(share, histogram) for share in (0.5, 0.99))


def _of_processes(query: str) -> tuple[tuple[str, str], ...]:
    whose = (("dispatcher", _OF_DISPATCHERS), ("agent", _OF_AGENTS))
    return tuple((f"{query} {condition}", f"{who} {{{{instance}}}}") for who, condition in whose)


def _load(quantile: str) -> str:
    return f'global_dispatcher_node_load_ratio{{cluster=~"$cluster", quantile="{quantile}"}}'


def _of_limit(name: str) -> tuple[str, str]:
    query = f"global_dispatcher_quota_{name} / (global_dispatcher_quota_limit > 0)"
    return query, "{{tenant}} {{resource}}"


ROWS: dict[str, tuple[Panel, ...]] = {
    "Fleet": (
        Panel("Leading", "none", (("sum(leader_election_master_status)", "leaders"),), "stat"),
        Panel(
            "Ready clusters", "none", (("sum(global_dispatcher_cluster_ready)", "ready"),), "stat"
        ),
        Panel(
            "Nodes, proxies included",
            "none",
            (("sum(global_dispatcher_cluster_nodes)", "nodes"),),
            "stat",
        ),
    ),
    "Decisions": (
        Panel(
            "Attempts a second",
            "ops",
            (
                (
                    f"sum by (result, profile) (rate(scheduler_schedule_attempts_total{_RATE}))",
                    "{{result}} {{profile}}",
                ),
            ),
        ),
        Panel(
            "Time of a decision", "s", _quantiles("scheduler_scheduling_attempt_duration_seconds")
        ),
        Panel(
            "From queue to bind", "s", _quantiles("scheduler_pod_scheduling_sli_duration_seconds")
        ),
        Panel(
            "Time of plugins a second, of the tenth of rounds that is timed",
            "s",
            (
                (
                    "topk(10, sum by (plugin, extension_point) "
                    f"(rate(scheduler_plugin_execution_duration_seconds_sum{_RATE})))",
                    "{{plugin}} {{extension_point}}",
                ),
            ),
        ),
        Panel(
            "Time of an extension point, p99",
            "s",
            (
                (
                    "histogram_quantile(0.99, sum by (le, extension_point) "
                    f"(rate(scheduler_framework_extension_point_duration_seconds_bucket{_RATE})))",
                    "{{extension_point}}",
                ),
            ),
        ),
    ),
    "Dispatchers and agents themselves": (
        Panel("Memory", "bytes", _of_processes("process_resident_memory_bytes")),
        Panel("CPU, in cores", "none", _of_processes(f"rate(process_cpu_seconds_total{_RATE})")),
        Panel(
            "Longest time without decisions, CPU, up to",
            "s",
            (
                (f"histogram_quantile(1, sum by (le) (rate({_STALLS}_bucket{_RATE})))", "longest"),
                _quantile(0.99, _STALLS),
            ),
        ),
        Panel(
            "Classes kept",
            "none",
            (("sum by (profile) (global_dispatcher_classes_kept)", "{{profile}}"),),
        ),
        Panel(
            "Classes that made room, and passes for others, a second",
            "ops",
            tuple(
                (
                    f"sum by (profile) (rate(global_dispatcher_{name}_total{_RATE}))",
                    f"{legend} {{{{profile}}}}",
                )
                for name, legend in (
                    ("classes_dropped", "made room"),
                    ("class_passes", "passes"),
                )
            ),
        ),
        Panel(
            "Parts of large reports a second",
            "ops",
            (
                (
                    "sum by (cluster) "
                    f"(rate(global_dispatcher_cluster_report_parts_total{_CLUSTER}{_RATE}))",
                    "{{cluster}}",
                ),
            ),
        ),
    ),
    "Queue": (
        Panel(
            "Pods that wait", "none", (("sum by (queue) (scheduler_pending_pods)", "{{queue}}"),)
        ),
        Panel(
            "Pods into queues a second, by event",
            "ops",
            (
                (
                    f"sum by (queue, event) (rate(scheduler_queue_incoming_pods_total{_RATE}))",
                    "{{queue}} {{event}}",
                ),
            ),
        ),
        Panel(
            "Pods refused, by plugin",
            "none",
            (
                (
                    "sum by (plugin, profile) (scheduler_unschedulable_pods)",
                    "{{plugin}} {{profile}}",
                ),
            ),
        ),
        Panel(
            "Errors of the core",
            "none",
            (
                (
                    "sum by (event) (increase(global_dispatcher_core_errors_total[$__range]))",
                    "{{event}}",
                ),
            ),
        ),
    ),
    "Tenants": (
        *(
            Panel(f"{title}, of what the tenant may use", "percentunit", (_of_limit(name),))
            for title, name in (("Used", "used"), ("Borrowed", "borrowed"), ("Lent", "lent"))
        ),
        Panel("Share", "percentunit", (("global_dispatcher_tenant_share", "{{tenant}}"),)),
        Panel(
            "Pods that wait",
            "none",
            tuple(
                (f"global_dispatcher_tenant_{name}_pods", f"{{{{tenant}}}} {name}")
                for name in ("waiting", "starved")
            ),
        ),
        Panel(
            "Evictions that give quota back, a second",
            "ops",
            (
                (
                    f"sum by (tenant) (rate(global_dispatcher_reclaimed_pods_total{_RATE}))",
                    "for {{tenant}}",
                ),
            ),
        ),
    ),
    "Clusters": (
        Panel("Ready", "none", ((f"global_dispatcher_cluster_ready{_CLUSTER}", "{{cluster}}"),)),
        Panel(
            "Age of the last report",
            "s",
            ((f"global_dispatcher_cluster_report_age_seconds{_CLUSTER}", "{{cluster}}"),),
        ),
        Panel("Pods", "none", ((f"global_dispatcher_cluster_pods{_CLUSTER}", "{{cluster}}"),)),
        Panel(
            "Outcomes of intents a second",
            "ops",
            (
                (
                    "sum by (cluster, verdict) "
                    f"(rate(global_dispatcher_outcomes_total{_CLUSTER}{_RATE}))",
                    "{{cluster}} {{verdict}}",
                ),
            ),
        ),
        Panel(
            "Intents that wait",
            "none",
            ((f"global_dispatcher_intents_waiting{_CLUSTER}", "{{cluster}}"),),
        ),
        Panel(
            "Calls without answer",
            "none",
            ((f"global_dispatcher_calls_in_flight{_CLUSTER}", "{{cluster}}"),),
        ),
    ),
    "Load of clusters": (
        Panel(
            "Requested of what can be allocated",
            "percentunit",
            (
                (
                    f"global_dispatcher_cluster_requested{_CLUSTER} / "
                    f"global_dispatcher_cluster_allocatable{_CLUSTER}",
                    "{{cluster}} {{resource}}",
                ),
            ),
        ),
        Panel(
            "Load of the median node",
            "percentunit",
            ((_load("0.5"), "{{cluster}} {{signal}}"),),
        ),
        Panel(
            "Load of the hottest node",
            "percentunit",
            ((_load("1"), "{{cluster}} {{signal}}"),),
        ),
    ),
    "Live load, as agents tell it": (
        Panel(
            "Age of readings, median",
            "s",
            (
                (
                    "max by (source, signal) "
                    '(global_dispatcher_agent_reading_age_seconds{quantile="0.5"})',
                    "{{source}} {{signal}}",
                ),
            ),
        ),
        Panel(
            "Nodes without a fresh reading",
            "none",
            (("sum by (signal) (global_dispatcher_agent_unread_nodes)", "{{signal}}"),),
        ),
        Panel(
            "Questions to sources that fail",
            "ops",
            (
                (
                    f"sum by (source) (rate(global_dispatcher_agent_source_errors_total{_RATE}))",
                    "{{source}}",
                ),
            ),
        ),
    ),
}


def _panel(number: int, panel: Panel, top: int, column: int) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": {"h": _HEIGHT, "w": _WIDTH, "x": column * _WIDTH, "y": top},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": "AB"[at], "datasource": _SOURCE, "expr": query, "legendFormat": legend}
            for at, (query, legend) in enumerate(panel.queries)
        ],
    }


def _panels() -> Iterator[dict[str, Any]]:
    number, top, in_a_line = 0, 0, _COLUMNS // _WIDTH
    for title, panels in ROWS.items():
        number += 1
        place = {"h": 1, "w": _COLUMNS, "x": 0, "y": top}
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "collapsed": False,
            "gridPos": place,
            "panels": [],
        }
        for at, panel in enumerate(panels):
            number += 1
            yield _panel(number, panel, top + 1 + at // in_a_line * _HEIGHT, at % in_a_line)
        top += 1 + -(-len(panels) // in_a_line) * _HEIGHT


def render() -> str:
    """Grafana's JSON."""
    clusters = "label_values(global_dispatcher_cluster_ready, cluster)"
    variables: list[dict[str, Any]] = [
        {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"},
        {
            "name": "cluster",
            "type": "query",
            "label": "Cluster",
            "datasource": _SOURCE,
            "query": clusters,
            "refresh": 2,
            "includeAll": True,
            "multi": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        },
    ]
    page = {
        "uid": "global-dispatcher",
        "title": "Global Dispatcher",
        "tags": ["global-dispatcher"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables},
        "panels": list(_panels()),
    }
    return json.dumps(page, indent=1) + "\n"
