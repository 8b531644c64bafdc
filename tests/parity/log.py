"""kube-scheduler's log as a stream of facts: nodes come and gone, and a verdict for each attempt to place a pod.

Needs text format with schedule_one at level 10 and eventhandlers at level 3. In its log a score is already normalised
and multiplied by the plugin's weight (framework/runtime RunScorePlugins; schedule_one prioritizeNodes).
"""

import json
import re
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from tests.parity.case import Verdict

_LINE = re.compile(rb'^[IWE]\d{4} [\d:.]+ +\d+ ([\w.]+):\d+\] "((?:[^"\\]|\\.)*)"(.*)$', re.MULTILINE)
_VALUE = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\S+)')
_POLL_S = 0.001
Handler = Callable[[Any, dict[str, str]], None]


@dataclass
class _Attempt:
    scores: dict[str, dict[str, float]] = field(default_factory=dict)
    totals: dict[str, float] = field(default_factory=dict)
    without: frozenset[str] = frozenset()


class _Told(NamedTuple):
    verdict: Verdict
    without: frozenset[str]


class SchedulerLog:
    """Follows the log file. Scores of its verdicts are as logged: times the weights.

    `gone`: pods that have left their nodes. `verdicts`: pod -> the verdicts that nobody has taken yet, in order.
    """

    handlers: ClassVar[dict[bytes, Handler]]

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""
        self._attempt = _Attempt()
        self.nodes: set[str] = set()
        self.gone: set[str] = set()
        self.verdicts: defaultdict[str, deque[_Told]] = defaultdict(deque)

    def follow(self, done: Callable[[], bool], what: str, timeout_s: float = 180.0) -> None:
        """Read on until `done`; TimeoutError that names what did not come."""
        deadline = time.monotonic() + timeout_s
        while not done():
            if not self._read():
                if time.monotonic() > deadline:
                    raise TimeoutError(f"kube-scheduler did not say within {timeout_s:.0f} s: {what}")
                time.sleep(_POLL_S)

    def _read(self) -> bool:
        with self._path.open("rb") as log:
            log.seek(self._offset)
            fresh = log.read()
        self._offset += len(fresh)
        whole, newline, self._rest = (self._rest + fresh).rpartition(b"\n")
        for _, text, values in _LINE.findall(whole + newline):
            handler = self.handlers.get(text)
            if handler is not None:
                handler(self, _values(values.decode()))
        return bool(fresh)

    def _node_came(self, values: dict[str, str]) -> None:
        self.nodes.add(values["node"])

    def _node_went(self, values: dict[str, str]) -> None:
        self.nodes.discard(values["node"])

    def _pod_went(self, values: dict[str, str]) -> None:
        self.gone.add(values["pod"])

    def _began(self, values: dict[str, str]) -> None:
        self._attempt = _Attempt(without=frozenset(self.gone))

    def _scored(self, values: dict[str, str]) -> None:
        self._attempt.scores.setdefault(values["plugin"], {})[values["node"]] = int(values["score"])

    def _totalled(self, values: dict[str, str]) -> None:
        self._attempt.totals[values["node"]] = int(values["score"])

    def _bound(self, values: dict[str, str]) -> None:
        pod, node, found = values["pod"], values["node"], self._attempt
        alone = int(values["feasibleNodes"]) == 1
        feasible = frozenset((node,)) if alone else frozenset(found.totals)
        scores, totals = (None, None) if alone else (found.scores, found.totals)
        self._note(Verdict(pod, node, feasible, scores, totals))

    def _refused(self, values: dict[str, str]) -> None:
        self._note(Verdict(values["pod"], feasible=frozenset(), message=values.get("err", "")))

    def _found_no_nodes(self, values: dict[str, str]) -> None:
        # Of this the log has no words, the pod's condition has (schedule_one ErrNoNodesAvailable).
        self._refused({**values, "err": "no nodes available to schedule pods"})

    def _failed(self, values: dict[str, str]) -> None:
        self._note(Verdict(values["pod"], message=values.get("err", ""), failed=True))

    def _note(self, verdict: Verdict) -> None:
        self.verdicts[verdict.pod].append(_Told(verdict, self._attempt.without))

    def take(self, pod: str, without: Iterable[str] = ()) -> Verdict | None:
        """The first verdict on a pod by an attempt that began after those were gone; None while there is none."""
        told = self.verdicts[pod]
        while told:
            one = told.popleft()
            if one.without.issuperset(without):
                return one.verdict
        return None


def _values(text: str) -> dict[str, str]:
    return {key: json.loads(value) if value[0] == '"' else value for key, value in _VALUE.findall(text)}


HANDLERS: dict[bytes, Handler] = {
    b"Add event for node": SchedulerLog._node_came,
    b"Delete event for node": SchedulerLog._node_went,
    b"Delete event for scheduled pod": SchedulerLog._pod_went,
    b"Attempting to schedule pod": SchedulerLog._began,
    b"Plugin scored node for pod": SchedulerLog._scored,
    b"Calculated node's final score for pod": SchedulerLog._totalled,
    b"Successfully bound pod to node": SchedulerLog._bound,
    b"Unable to schedule pod; no fit; waiting": SchedulerLog._refused,
    b"Unable to schedule pod; no nodes are registered to the cluster; waiting": SchedulerLog._found_no_nodes,
    b"Error scheduling pod; retrying": SchedulerLog._failed,
}
SchedulerLog.handlers = HANDLERS
