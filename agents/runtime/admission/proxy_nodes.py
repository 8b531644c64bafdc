"""What keeps pods and DaemonSets that tolerate every taint off proxy nodes, as a JSON patch.

It does what proxy_nodes.yaml does where the API server has MutatingAdmissionPolicy; `doctor` shows
it for DaemonSets that were there before.
"""

from typing import Any

import msgspec

from shared.model import names
from shared.model.node import NO_SCHEDULE

Patch = list[dict[str, Any]]
AWAY = {"key": names.PROXY_LABEL, "operator": "DoesNotExist"}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class _Requirement(msgspec.Struct):
    key: str = ""
    operator: str = ""


class _Term(msgspec.Struct, rename="camel"):
    match_expressions: list[_Requirement] | None = None
    match_fields: list[_Requirement] | None = None


class _Terms(msgspec.Struct, rename="camel"):
    node_selector_terms: list[_Term] = []


class _NodeAffinity(msgspec.Struct):
    required: _Terms | None = msgspec.field(name=_REQUIRED, default=None)


class _Affinity(msgspec.Struct, rename="camel"):
    node_affinity: _NodeAffinity | None = None


class _Toleration(msgspec.Struct):
    key: str = ""
    effect: str = ""


class PodSpec(msgspec.Struct):
    """What of a pod's spec says whether it may be put on proxy nodes."""

    affinity: _Affinity | None = None
    tolerations: list[_Toleration] | None = None

    def tolerates_proxy_nodes(self) -> bool:
        """Whether the taint of proxy nodes, of some cluster at least, does not keep the pod away."""
        return any(
            one.key in ("", names.PROXY_TAINT) and one.effect in ("", NO_SCHEDULE)
            for one in self.tolerations or ()
        )

    def away_patch(self, path: str) -> Patch:
        """Has the spec, which is at `path`, leave proxy nodes out; empty if it does, or if it
        matches no node.
        """
        affinity = self.affinity
        node = affinity.node_affinity if affinity is not None else None
        at = f"{path}/affinity/nodeAffinity/{_REQUIRED}"
        if node is not None and node.required is not None:
            terms = enumerate(node.required.node_selector_terms)
            return [
                _added_to(one, f"{at}/nodeSelectorTerms/{place}")
                for place, one in terms
                if _may_match_proxy(one)
            ]
        return [
            *([] if affinity is not None else [_add(f"{path}/affinity", {})]),
            *([] if node is not None else [_add(f"{path}/affinity/nodeAffinity", {})]),
            _add(at, {"nodeSelectorTerms": [{"matchExpressions": [AWAY]}]}),
        ]


def mark_patch(annotations: dict[str, str] | None) -> Patch:
    """Says on the object that it was changed."""
    key = names.PROXY_NODES.replace("/", "~1")
    return [
        *([] if annotations is not None else [_add("/metadata/annotations", {})]),
        _add(f"/metadata/annotations/{key}", names.LEFT_OUT),
    ]


def _may_match_proxy(term: _Term) -> bool:
    """A term that asks for nothing matches no node."""
    asks = term.match_expressions or term.match_fields
    return bool(asks) and not any(
        msgspec.structs.asdict(one) == AWAY for one in term.match_expressions or ()
    )


def _added_to(term: _Term, path: str) -> dict[str, Any]:
    if term.match_expressions:
        return _add(f"{path}/matchExpressions/-", AWAY)
    return _add(f"{path}/matchExpressions", [AWAY])


def _add(path: str, value: object) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}
