"""What of the gateway's files and of agents' certificates ends soon, or has ended: read from the
metrics of a running dispatcher.
"""

import datetime as dt
import re
import time

from dispatcher.cli.diagnosis import NOTE, PROBLEM, Finding

# as SOON of dispatcher.config.certificates, which the plugin of kubectl cannot import
SOON_S = 14 * 86_400.0
_SAMPLE = re.compile(r"^(\w+) ([0-9.eE+]+)$", re.MULTILINE)
# metric -> (what it is about, what follows when it has ended)
_ENDS = {
    "global_dispatcher_gateway_certificate_expiry_timestamp_seconds": (
        "the gateway's certificate",
        "no agent can connect",
    ),
    "global_dispatcher_signing_certificate_expiry_timestamp_seconds": (
        "the certificate of the signing key",
        "agents refuse all orders",
    ),
    "global_dispatcher_gateway_revocation_list_expiry_timestamp_seconds": (
        "a revocation list in gateway.client_ca_file",
        "all clusters of its authority are refused",
    ),
}
_FIX = (
    "run `global-dispatcher certificates` where the authority is, and bring the files here "
    "(docs/connectivity.md)"
)
_OF_AGENT = re.compile(
    r'^global_dispatcher_agent_certificate_expiry_timestamp_seconds\{cluster="([^"]+)",role="([^"]+)"\} ([0-9.eE+]+)$',
    re.MULTILINE,
)
_FIX_OF_AGENT = (
    "run `global-dispatcher join --context CONTEXT` of this cluster again, or see what else "
    "renews its Secrets "
    "(docs/connectivity.md); it shows a new certificate within a day"
)


def about_expiry(metrics: str, now: float | None = None, only: str = "") -> list[Finding]:
    """Findings of a page of metrics in Prometheus' text format; `now` in Unix time, `only`: this
    cluster's agents.
    """
    at = time.time() if now is None else now
    return [*_of_gateway(metrics, at), *_of_agents(metrics, at, only)]


def _of_agents(metrics: str, at: float, only: str) -> list[Finding]:
    ends: dict[tuple[str, float], list[str]] = {}
    for cluster, role, value in _OF_AGENT.findall(metrics):
        if only in ("", cluster):
            ends.setdefault((cluster, float(value)), []).append(role)
    found = []
    for (cluster, until), roles in sorted(ends.items()):
        if (left := until - at) <= SOON_S:
            when = dt.datetime.fromtimestamp(until, dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
            did, level = ("expired", PROBLEM) if left <= 0 else ("expires", NOTE)
            text = (
                f"the certificate of its agent ({', '.join(roles)}) {did} at {when}; then it "
                "cannot connect"
            )
            found.append(Finding(cluster, "certificate", level, text, _FIX_OF_AGENT))
    return found


def _of_gateway(metrics: str, at: float) -> list[Finding]:
    found = []
    for name, value in _SAMPLE.findall(metrics):
        if name not in _ENDS:
            continue
        (what, then), left = _ENDS[name], float(value) - at
        until = dt.datetime.fromtimestamp(float(value), dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
        if left <= 0:
            found.append(
                Finding("", "gateway", PROBLEM, f"{what} expired at {until}: {then}", _FIX)
            )
        elif left <= SOON_S:
            found.append(
                Finding("", "gateway", NOTE, f"{what} expires at {until}; then {then}", _FIX)
            )
    return found
