"""The queue of slots: fair among lanes, nobody idle while there is work, and what hangs delays itself alone."""

from collections import Counter
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.executor.bounds.slots import SlotRules, Slots
from agents.executor.bounds.throttle import REST_S, Throttle

RULES = SlotRules(limit=8, share=2, cap=24, slow_s=1.0, forget_s=60.0)


class Desk:
    """Slots with named tickets: 'a3' is the third of lane 'a'."""

    def __init__(self, rules: SlotRules = RULES) -> None:
        self.slots = Slots(rules)
        self._numbers = count()
        self.names: dict[int, str] = {}
        self.tickets: dict[str, int] = {}

    def ask(self, lane: str, times: int = 1, *, first: bool = False) -> None:
        for _ in range(times):
            number = sum(name.startswith(lane) for name in self.tickets) + 1
            ticket = next(self._numbers)
            self.names[ticket], self.tickets[f"{lane}{number}"] = f"{lane}{number}", ticket
            self.slots.ask(ticket, lane, first=first)

    def grant(self, now: float = 0.0) -> list[str]:
        return [self.names[ticket] for ticket in self.slots.grant(now)]

    def free(self, *names: str, now: float = 0.0) -> None:
        for name in names:
            self.slots.free(self.tickets[name], now)


def test_one_lane_alone_has_all_slots_and_no_more() -> None:
    desk = Desk()
    desk.ask("a", 20)
    assert desk.grant() == [f"a{number}" for number in range(1, 9)]
    desk.free("a1")
    assert desk.grant() == ["a9"]


def test_a_lane_that_comes_late_goes_first_however_many_wait_in_another() -> None:
    desk = Desk()
    desk.ask("a", 1000)
    desk.grant()
    desk.ask("b")
    desk.free("a3")
    assert desk.grant() == ["b1"]


def test_lanes_take_turns_and_what_nobody_else_wants_is_for_those_above_their_share() -> None:
    desk = Desk()
    desk.ask("a", 9)
    desk.ask("b", 9)
    desk.ask("c", 1)
    assert desk.grant() == ["a1", "b1", "c1", "a2", "b2", "a3", "b3", "a4"]


def test_one_that_was_held_up_goes_before_the_others_of_its_lane() -> None:
    desk = Desk(SlotRules(limit=1, share=1, cap=3))
    desk.ask("a", 3)
    assert desk.grant() == ["a1"]
    desk.ask("a", first=True)
    desk.free("a1")
    assert desk.grant() == ["a4"]


def test_slots_that_hang_are_opened_anew_for_others_alone() -> None:
    desk = Desk()
    desk.ask("a", 100)
    desk.grant(0.0)
    desk.ask("b", 3)
    assert desk.grant(0.9) == []
    assert desk.slots.due() == 1.0
    assert desk.grant(1.0) == ["b1", "b2", "b3"]
    assert desk.grant(1.0) == []


def test_a_lane_that_hung_holds_its_share_until_it_is_answered_in_time() -> None:
    desk = Desk()
    desk.ask("a", 100)
    first = desk.grant(0.0)
    desk.free(*first, now=10.0)
    assert desk.grant(10.0) == ["a9", "a10"]
    desk.free("a9", now=10.1)
    assert len(desk.grant(10.1)) == 7


def test_a_lane_of_which_some_hang_and_some_are_answered_keeps_to_its_share_of_hanging_ones() -> None:
    desk = Desk()
    desk.ask("a", 100)
    first = desk.grant(0.0)
    desk.free(*first[2:], now=0.5)
    assert len(desk.grant(0.5)) == 6
    desk.free("a9", "a10", "a11", now=1.2)
    assert desk.grant(1.2) == []


def test_a_lane_is_slow_no_longer_after_a_while() -> None:
    desk = Desk()
    desk.ask("a", 8)
    first = desk.grant(0.0)
    desk.free(*first, now=10.0)
    desk.ask("a", 8)
    assert len(desk.grant(69.9)) == 2
    assert len(desk.grant(70.0)) == 6


def test_all_that_hang_together_stay_below_the_cap() -> None:
    desk = Desk()
    for lane in "abcdefghijklmnop":
        desk.ask(lane, 100)
    for now in range(10):
        desk.grant(float(now))
        assert desk.slots.held <= RULES.cap
    assert desk.slots.full


def test_one_that_waits_no_longer_is_passed_over() -> None:
    desk = Desk(SlotRules(limit=1, share=1, cap=3))
    desk.ask("a", 2)
    desk.ask("b", 1)
    desk.grant()
    desk.free("b1")
    desk.free("a1")
    assert desk.grant() == ["a2"]


def test_a_lower_limit_takes_no_slot_away_and_gives_none_until_it_is_met() -> None:
    desk = Desk()
    desk.ask("a", 20)
    desk.grant()
    desk.slots.limit = 4
    desk.free("a1", "a2", "a3", "a4")
    assert desk.grant() == []
    desk.free("a5")
    assert desk.grant() == ["a9"]


def test_lanes_that_are_idle_are_forgotten() -> None:
    desk = Desk()
    for number in range(5000):
        lane = f"n{number}-"
        desk.ask(lane)
        desk.grant(float(number))
        desk.free(f"{lane}1", now=number + 2.0)
    assert len(desk.slots._lanes) <= 1001


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.sampled_from("abcde")),
        st.tuples(st.just("free"), st.integers(0, 30)),
        st.tuples(st.just("leave"), st.integers(0, 30)),
        st.tuples(st.just("wait"), st.floats(0.0, 2.0)),
        st.tuples(st.just("limit"), st.integers(1, 4)),
    ),
    max_size=50,
)


class Watched:
    """Slots of which each step is judged by what was asked and granted alone."""

    def __init__(self) -> None:
        self.rules = SlotRules(limit=4, share=1, cap=8, slow_s=1.0, forget_s=5.0)
        self.slots = Slots(self.rules)
        self.now = 0.0
        self.lane_of: dict[int, str] = {}
        self.since: dict[int, float] = {}
        self.waiting: list[int] = []
        self.granted: set[int] = set()
        self.slow_until: dict[str, float] = {}

    def step(self, what: str, argument: object) -> None:
        if what == "ask":
            ticket = len(self.lane_of)
            self.lane_of[ticket] = str(argument)
            self.waiting.append(ticket)
            self.slots.ask(ticket, str(argument))
        elif what == "free" and self.since:
            self.free(sorted(self.since)[int(str(argument)) % len(self.since)])
        elif what == "leave" and self.waiting:
            ticket = self.waiting.pop(int(str(argument)) % len(self.waiting))
            self.slots.free(ticket, self.now)
        elif what == "wait":
            self.now += float(str(argument))
        elif what == "limit":
            self.slots.limit = int(str(argument))
        self.grant()

    def free(self, ticket: int) -> None:
        lane, slow = self.lane_of[ticket], self.now - self.since.pop(ticket) >= self.rules.slow_s
        self.slow_until[lane] = self.now + self.rules.forget_s if slow else float("-inf")
        self.slots.free(ticket, self.now)

    def grant(self) -> None:
        for ticket in self.slots.grant(self.now):
            assert ticket in self.waiting
            mates = [one for one in self.waiting if self.lane_of[one] == self.lane_of[ticket]]
            assert ticket == mates[0]
            hung = [one for one in self._hanging() if self.lane_of[one] == self.lane_of[ticket]]
            held = [one for one in self.since if self.lane_of[one] == self.lane_of[ticket]]
            assert len(held) < self.rules.share or len(hung) < self.rules.share
            self.waiting.remove(ticket)
            self.since[ticket] = self.now
            self.granted.add(ticket)
        self.judge()

    def _hanging(self) -> list[int]:
        return [one for one, since in self.since.items() if self.now - since >= self.rules.slow_s]

    def judge(self) -> None:
        quick = self.since.keys() - set(self._hanging())
        assert len(self.since) <= self.rules.cap
        assert len(quick) <= self.rules.limit
        if len(quick) < self.slots.limit and len(self.since) < self.rules.cap:
            held = Counter(self.lane_of[one] for one in self.since)
            hanging = {self.lane_of[one] for one in self.since if one not in quick}
            for ticket in self.waiting:
                lane = self.lane_of[ticket]
                slow = lane in hanging or self.now < self.slow_until.get(lane, float("-inf"))
                assert slow, f"{ticket} of {lane} waits beside a free slot"
                assert held[lane] >= self.rules.share, f"{ticket} of {lane} waits though it holds less than its share"


@given(STEPS)
@settings(max_examples=100, deadline=None)
def test_never_more_than_the_limit_and_nobody_waits_beside_a_slot_that_it_may_have(
    steps: list[tuple[str, object]],
) -> None:
    watched = Watched()
    for step in steps:
        watched.step(*step)


@given(STEPS)
@settings(max_examples=40, deadline=None)
def test_nobody_starves_as_long_as_slots_are_given_back(steps: list[tuple[str, object]]) -> None:
    watched = Watched()
    for step in steps:
        watched.step(*step)
    for _ in range(len(watched.waiting) + 1):
        watched.now += 0.1
        for ticket in sorted(watched.since):
            watched.free(ticket)
        watched.grant()
    assert not watched.waiting


@given(st.lists(st.integers(1, 20), min_size=2, max_size=6))
@settings(max_examples=40, deadline=None)
def test_the_first_of_each_lane_is_among_the_first_turns(queues: list[int]) -> None:
    desk = Desk(SlotRules(limit=1, share=1, cap=3))
    for lane, length in zip("abcdef", queues, strict=False):
        desk.ask(lane, length)
    order = []
    while granted := desk.grant():
        order += granted
        desk.free(*granted)
    assert sorted(order[: len(queues)]) == [f"{lane}1" for lane, _ in zip("abcdef", queues, strict=False)]
    assert len(order) == sum(queues)


def test_a_throttle_halves_once_for_refusals_that_come_together_and_grows_by_one_a_round() -> None:
    throttle = Throttle(16)
    for _ in range(16):
        throttle.refused(10.0)
    assert throttle.limit == 8
    throttle.refused(10.0 + REST_S)
    assert throttle.limit == 4
    for _ in range(5):
        throttle.answered()
    assert throttle.limit == 5
    for _ in range(1000):
        throttle.answered()
    assert throttle.limit == 16


def test_a_throttle_never_closes() -> None:
    throttle = Throttle(3)
    for second in range(20):
        throttle.refused(float(second) * REST_S)
    assert throttle.limit == 1
