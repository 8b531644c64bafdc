"""Which of the dispatcher's own files do not hold, or are not written: read from the metrics of one
that runs.
"""

from dispatcher.cli.diagnosis import NOTE, PROBLEM, Finding

_RESTART = (
    "run `global-dispatcher config check FILE` of the dispatcher's dispatcher.yaml, then restart it"
)
# series that is 1 -> (what it is about, level, what is so, what to do)
_FOUND = {
    "global_dispatcher_policies_refused": (
        "profiles",
        PROBLEM,
        "profiles or plugin files have changed and fail their checks: the old ones hold",
        "see the dispatcher's log (changed policies are refused), or run `global-dispatcher "
        "config check FILE` of its "
        "dispatcher.yaml; what is mended is taken over within seconds",
    ),
    'global_dispatcher_file_not_written{file="journal"}': (
        "journal.path",
        PROBLEM,
        "the journal cannot be written: decisions are missing in it",
        "make room on its disk, or mend the folder of journal.path (the dispatcher's log says "
        "what fails); it is tried "
        "again each minute",
    ),
    'global_dispatcher_file_not_written{file="quota_ledger"}': (
        "quota.ledger",
        PROBLEM,
        "the quota in use cannot be written: after a restart tenants wait for clusters that are "
        "silent",
        "make room on its disk, or mend the folder of quota.ledger (the dispatcher's log says "
        "what fails); it is tried "
        "again every few seconds",
    ),
    'global_dispatcher_restart_needed{file="dispatcher"}': (
        "dispatcher.yaml",
        NOTE,
        "the file has changed since the start, and is read at the start alone",
        _RESTART,
    ),
}


def about_own_files(metrics: str) -> list[Finding]:
    """Findings of a page of metrics in Prometheus' text format."""
    on = {line.removesuffix(" 1.0") for line in metrics.splitlines() if line.endswith(" 1.0")}
    return [Finding("", *told) for series, told in _FOUND.items() if series in on]
