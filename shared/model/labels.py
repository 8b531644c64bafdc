"""Label selectors and node selector terms, as Kubernetes defines them (apimachinery labels, core/v1
NodeSelector).
"""

import re
from collections.abc import Mapping

import msgspec

IN = "In"
NOT_IN = "NotIn"
EXISTS = "Exists"
NOT_EXISTS = "DoesNotExist"
GT = "Gt"
LT = "Lt"
_DECIMAL = re.compile(r"[+-]?[0-9]+", re.ASCII)
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?", re.ASCII)
_LONGEST = 63  # characters of a label value
OPERATORS = (IN, NOT_IN, EXISTS, NOT_EXISTS, GT, LT)


def is_label_value(text: str) -> bool:
    """Whether Kubernetes lets a label have this value."""
    return len(text) <= _LONGEST and _LABEL_VALUE.fullmatch(text) is not None


class Requirement(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One `key operator values` clause. Gt and Lt compare integers; a non-integer never matches."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a set of labels satisfies this clause; an unknown operator matches nothing."""
        return self.matches_value(labels.get(self.key))

    def matches_value(self, value: str | None) -> bool:
        """The same for the value of the key alone, None if the key is absent."""
        if self.operator == IN:
            return value is not None and value in self.values
        if self.operator == NOT_IN:
            return value is None or value not in self.values
        if self.operator == EXISTS:
            return value is not None
        if self.operator == NOT_EXISTS:
            return value is None
        if self.operator in (GT, LT):
            return self._compares(value)
        return False

    @property
    def readable(self) -> bool:
        """Whether Kubernetes can read it as a clause on labels: values might be a label's, Gt and
        Lt have a number.
        """
        if self.operator in (EXISTS, NOT_EXISTS):
            return not self.values
        if not all(map(is_label_value, self.values)):
            return False
        if self.operator in (GT, LT):
            return len(self.values) == 1 and integer(self.values[0]) is not None
        return self.operator in (IN, NOT_IN) and bool(self.values)

    def _compares(self, value: str | None) -> bool:
        left = integer(value)
        right = integer(self.values[0] if len(self.values) == 1 else None)
        if left is None or right is None:
            return False
        return left > right if self.operator == GT else left < right


def integer(text: str | None) -> int | None:
    """A decimal number that fits 64 bits, as Go's ParseInt reads it."""
    if text is None or len(text) > _LONGEST or not _DECIMAL.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


class LabelSelector(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """matchLabels and matchExpressions, all of which must hold. Empty matches everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether `labels` satisfy every clause."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            clause.matches(labels) for clause in self.match_expressions
        )


class NodeSelectorTerm(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Clauses on node labels and on fields (only metadata.name); all must hold.

    An empty term matches no node, nor does one with a clause on labels that cannot be read.
    """

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a node with these labels and this name satisfies the term."""
        if not self.match_expressions and not self.match_fields:
            return False
        fields = {"metadata.name": name}
        return all(
            clause.readable and clause.matches(labels) for clause in self.match_expressions
        ) and all(clause.matches(fields) for clause in self.match_fields)


class PreferredTerm(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A node selector term that is worth `weight` (1-100) where it matches."""

    weight: int
    term: NodeSelectorTerm
