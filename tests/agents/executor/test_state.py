"""What an executor must not forget: stored before it is acted upon, and never lower than it was."""

from collections.abc import Callable

import msgspec
import pytest

from agents.executor.trust import state
from agents.executor.trust.state import CLUSTER, ExecutorState
from shared.kube.http import Request, Response
from tests.agents.executor.one_executor import stored
from tests.agents.executor.world import ApiModel, lost_reply, run, scripted

Answer = Callable[[Request], Response]


def test_whom_it_obeys_outlives_the_executor() -> None:
    api = ApiModel()
    assert run(ExecutorState().obey(7, "one"), api.answer) == ""
    later = ExecutorState()
    assert run(later.load(), api.answer) == ""
    assert (later.known, later.epoch, later.dispatcher) == (True, 7, "one")


def test_a_lower_epoch_is_not_written_and_the_fields_say_who_is_obeyed() -> None:
    api = ApiModel()
    run(ExecutorState().obey(7, "one"), api.answer)
    later = ExecutorState()
    assert run(later.obey(6, "old"), api.answer) == ""
    assert (later.epoch, later.dispatcher, stored(api)[:2]) == (7, "one", (7, "one"))


def test_the_same_dispatcher_again_costs_no_write() -> None:
    api, known = ApiModel(), ExecutorState()
    run(known.obey(7, "one"), api.answer)
    run(known.obey(7, "one"), api.answer)
    assert (api.count("create"), api.count("patch")) == (1, 0)


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_a_lost_reply_to_the_write_is_cleared_up_by_reading(method: str) -> None:
    api, known = ApiModel(), ExecutorState()
    if method == "PATCH":
        run(known.obey(1, "first"), api.answer)
    assert run(known.obey(7, "one"), lost_reply(api.answer, method)) == ""
    assert (known.epoch, stored(api)[:2]) == (7, (7, "one"))


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_of_two_executors_that_write_at_once_the_one_that_knows_less_learns_of_the_other(method: str) -> None:
    api, mine = ApiModel(), ExecutorState()
    if method == "PATCH":
        run(mine.obey(1, "first"), api.answer)

    def race(request: Request) -> Response:
        if request.method == method and state.PATH.startswith(request.path):
            run(ExecutorState().obey(8, "newer"), api.answer)
        return api.answer(request)

    assert run(mine.obey(7, "one"), race) == ""
    assert (mine.epoch, mine.dispatcher, stored(api)[:2]) == (8, "newer", (8, "newer"))


@pytest.mark.parametrize("status", [0, 500, 403, 429])
def test_without_an_answer_nobody_is_obeyed(status: int) -> None:
    known = ExecutorState()
    problem = run(known.obey(7, "one"), lambda _: Response(status))
    assert "cannot be read" in problem
    assert (known.known, known.epoch) == (False, 0)


def test_a_write_that_is_forbidden_is_not_acted_upon() -> None:
    api, known = ApiModel(), ExecutorState()
    problem = run(known.obey(7, "one"), scripted(404, 403, then=api.answer))
    assert "cannot be written" in problem
    assert (known.epoch, known.dispatcher) == (0, "")


@pytest.mark.parametrize("lost", ["deleted", "restored"])
def test_a_server_that_lost_its_past_is_told_again(lost: str) -> None:
    api, known = ApiModel(), ExecutorState()
    run(known.obey(3, "early"), api.answer)
    backup = msgspec.json.decode(msgspec.json.encode(api.objects[state.PATH]))
    run(known.obey(7, "one"), api.answer)
    del api.objects[state.PATH]
    if lost == "restored":
        api.objects[state.PATH] = backup
    assert run(known.obey(7, "one"), api.answer) == ""
    assert (known.epoch, known.dispatcher, stored(api)[:2]) == (7, "one", (7, "one"))


@pytest.mark.parametrize("text", ["{", "[1]", '{"a": 1}'])
def test_what_cannot_be_read_is_told_with_the_way_out(text: str) -> None:
    api = ApiModel()
    api.put(state.PATH, {"metadata": {"name": state.NAME, "annotations": {state.VALUES: text}}})
    assert f"delete lease {state.NAME}" in run(ExecutorState().load(), api.answer)


def test_values_are_kept_beside_each_other_and_by_two_executors() -> None:
    api, one, other = ApiModel(), ExecutorState(), ExecutorState()
    run(one.obey(7, "one"), api.answer)
    assert run(one.remember("a", "1"), api.answer) == ""
    assert run(other.remember("b", "2"), api.answer) == ""
    assert run(one.remember("c", "3"), api.answer) == ""
    assert stored(api) == (7, "one", {"a": "1", "b": "2", "c": "3"})
    assert run(other.remember("a", ""), api.answer) == ""
    assert other.values == {"b": "2", "c": "3"}


def test_values_are_bounded() -> None:
    api, known = ApiModel(), ExecutorState()
    assert f"more than {state.MAX_VALUES // 1024} KiB" in run(known.remember("a", "x" * state.MAX_VALUES), api.answer)
    assert (known.values, api.objects) == ({}, {})


def test_a_cluster_has_one_name_until_that_is_given_up() -> None:
    api, north, twin = ApiModel(), ExecutorState(), ExecutorState()
    assert run(north.be_called("north"), api.answer) == ""
    assert '"north"' in run(twin.be_called("north2"), api.answer)
    assert run(twin.be_called("north2", before="north"), api.answer) == ""
    assert stored(api)[2] == {CLUSTER: "north2"}
