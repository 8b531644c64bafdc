"""Which metrics and labels an expression of PromQL names, and which there are."""

import re
from collections.abc import Iterator

from prometheus_client import PROCESS_COLLECTOR

from docs.generate.metrics import families, labels_of, name_of, of_agents

# Put on every series by the scrape, as the Prometheus Operator does it.
_OF_TARGETS = {"namespace", "pod", "job", "instance", "container", "endpoint", "service"}
_PARTS = ("_bucket", "_sum", "_count")
_METRIC = re.compile(r"\b((?:global_dispatcher|scheduler|leader_election|process)_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')
_GROUPING = re.compile(r"\b(?:by|on|without|group_left|group_right)\s*\(([^)]*)\)")


def known() -> dict[str, set[str]]:
    """Every series' name -> its labels."""
    found: dict[str, set[str]] = {}
    for family in (*families(), *of_agents(), *PROCESS_COLLECTOR.collect()):
        labels = set(labels_of(family))
        if family.type == "histogram":
            found |= {name_of(family) + part: labels | ({"le"} if part == "_bucket" else set()) for part in _PARTS}
        else:
            found[name_of(family)] = labels
    return found


def wrong(expression: str, there: dict[str, set[str]]) -> Iterator[str]:
    """Metrics and labels of an expression that are not there; that it names no metric at all."""
    named = _METRIC.findall(expression)
    if not named:
        yield f"no metric in {expression}"
    usable = set(_OF_TARGETS)
    for name, matchers in named:
        if name not in there:
            yield f"no metric {name}"
            continue
        usable |= there[name]
        yield from (
            f"{name} has no label {one}" for one in _MATCHER.findall(matchers) if one not in there[name] | _OF_TARGETS
        )
    for group in _GROUPING.findall(expression):
        yield from (f"no label {one}" for one in re.findall(r"\w+", group) if one not in usable)
