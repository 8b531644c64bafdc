"""Which of very many label selectors match some labels, found without a look at each selector.

Bit n of a number stands for selector n, so that one operation on two numbers is one on all
selectors. What a selector needs, and what speaks against it, is filed under the label that it
names. A number for each selector is kept as planes: bit n of plane p is bit p of the number of
selector n.
"""

from collections.abc import Iterable, Mapping, Sequence

from shared.model.labels import EXISTS, IN, NOT_EXISTS, NOT_IN, LabelSelector

Planes = tuple[int, ...]
_Label = tuple[str, str | None]  # None: whatever the value is
_MEMORY = 1 << 22  # bytes, about, of answers that are kept
_MOST_KEPT = 64  # labels of one answer that is kept


def bits(places: Iterable[int], count: int) -> int:
    """The number in which the bits of these places, all less than `count`, are set."""
    found = bytearray(count // 8 + 1)
    for at in places:
        found[at >> 3] |= 1 << (at & 7)
    return int.from_bytes(found, "little")


def planes(numbers: Sequence[int]) -> Planes:
    """The planes of these numbers, of which none is negative."""
    width = max(numbers, default=0).bit_length()
    places: list[list[int]] = [[] for _ in range(width)]
    for at, number in enumerate(numbers):
        for place in range(number.bit_length()):
            if number >> place & 1:
                places[place].append(at)
    return tuple([bits(some, len(numbers)) for some in places])


def less(numbers: Planes, which: int) -> tuple[Planes, int]:
    """One less for each of `which`; and those of them that were 0, whose number means nothing from
    now on.
    """
    found = list(numbers)
    for at, plane in enumerate(numbers):
        if not which:
            break
        found[at] = plane ^ which
        which &= ~plane
    return tuple(found), which


class _Filed:
    """Selectors by a label that they name; as bits where that takes less than their places."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._places: dict[_Label, list[int]] = {}
        self._bits: dict[_Label, int] = {}

    def add(self, label: _Label, at: int) -> None:
        """One more, of a greater place than those before."""
        self._places.setdefault(label, []).append(at)

    def of(self, label: _Label) -> int:
        """The bits of those under a label."""
        if label in self._bits:
            return self._bits[label]
        places = self._places.get(label)
        if places is None:
            return 0
        found = bits(places, self._count)
        if len(places) * 64 > self._count:
            self._bits[label] = found
        return found

    def keys(self) -> set[str]:
        """The keys of all labels."""
        return {key for key, _ in self._places}


class SelectorIndex:
    """Selectors by what they name. Those with operators that label selectors do not have are asked
    one by one.
    """

    def __init__(self, selectors: Sequence[LabelSelector]) -> None:
        self._count = len(selectors)
        self._met = _Filed(self._count)  # what is needed -> by whom
        self._barred = _Filed(self._count)  # what must not be -> to whom
        self._odd = [(at, one) for at, one in enumerate(selectors) if not _is_plain(one)]
        odd = {at for at, _ in self._odd}
        needs = [0 if at in odd else self._file(at, one) for at, one in enumerate(selectors)]
        self._needs = planes(needs)
        self._plain = bits((at for at in range(self._count) if at not in odd), self._count)
        self._keys = self._met.keys() | self._barred.keys()
        self._keys |= {key for _, one in self._odd for key in one.match_labels}
        self._keys |= {clause.key for _, one in self._odd for clause in one.match_expressions}
        self._known: dict[tuple[tuple[str, str], ...], int] = {}
        self._most_known = _MEMORY // (64 + self._count // 8) + 1

    def _file(self, at: int, selector: LabelSelector) -> int:
        """File a selector; how many keys a pod's labels must have for it."""
        wanted: dict[str, set[str] | None] = {
            key: {value} for key, value in selector.match_labels.items()
        }
        barred = set[_Label]()
        for clause in selector.match_expressions:
            key = clause.key
            values = set(clause.values)
            if clause.operator == IN:
                known = wanted.get(key)
                wanted[key] = values if known is None else values & known
            elif clause.operator == EXISTS:
                wanted.setdefault(key, None)
            else:
                barred |= (
                    {(key, None)}
                    if clause.operator == NOT_EXISTS
                    else {(key, value) for value in values}
                )
        for key, some in wanted.items():
            for value in (None,) if some is None else some:
                self._met.add((key, value), at)
        for label in barred:
            self._barred.add(label, at)
        return len(wanted)

    def matching(self, labels: Mapping[str, str]) -> int:
        """The bits of the selectors that match."""
        keys = self._keys
        asked = tuple([label for label in labels.items() if label[0] in keys])
        found = self._known.get(asked)
        if found is None:
            found = self._matching(asked)
            if len(self._known) >= self._most_known:
                self._known.clear()
            if len(asked) <= _MOST_KEPT:
                self._known[asked] = found
        return found

    def _matching(self, labels: Sequence[tuple[str, str]]) -> int:
        needs = self._needs
        out = 0
        for key, value in labels:
            for label in ((key, value), (key, None)):
                needs, _ = less(needs, self._met.of(label))
                out |= self._barred.of(label)
        for plane in needs:
            out |= plane
        odd = [at for at, one in self._odd if one.matches(dict(labels))] if self._odd else ()
        return self._plain & ~out | bits(odd, self._count)


def _is_plain(selector: LabelSelector) -> bool:
    return all(
        one.operator in (IN, NOT_IN, EXISTS, NOT_EXISTS) for one in selector.match_expressions
    )
