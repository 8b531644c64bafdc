"""A server that went back in time is held for a while, and says so."""

from agents.observer.server_restore import ServerRestore, higher


def test_a_server_that_went_back_is_held_for_its_time_and_says_from_where_to_where() -> None:
    restored = ServerRestore(600)
    assert (restored.holds(0.0), restored.problem(0.0)) == (False, "")
    restored.tell(5000, 3000, 10.0, {})
    assert restored.holds(609.9)
    assert "went back from version 5000 to 3000: restored from a backup?" in restored.problem(609.9)
    assert (restored.holds(610.0), restored.problem(610.0)) == (False, "")


def test_another_step_back_renews_the_time() -> None:
    restored = ServerRestore(600)
    restored.tell(5000, 3000, 0.0, {})
    restored.tell(3100, 2000, 500.0, {})
    assert restored.holds(1000.0)
    assert "from version 3100 to 2000" in restored.problem(1000.0)


def test_an_operator_ends_it_and_the_next_step_back_is_held_again() -> None:
    restored = ServerRestore(600)
    restored.tell(5000, 3000, 0.0, {})
    restored.confirm()
    assert not restored.holds(1.0)
    restored.tell(3000, 1000, 2.0, {})
    assert restored.holds(2.0)


def test_what_was_seen_before_is_remembered_while_it_is_held_and_no_longer() -> None:
    restored = ServerRestore(600)
    restored.tell(5000, 3000, 0.0, {"pods": 5000, "nodes": 4990})
    restored.tell(3100, 2000, 1.0, {"pods": 3100})
    assert restored.highest(1.0) == {"pods": 5000, "nodes": 4990}
    assert restored.highest(601.0) == {}
    restored.tell(200, 100, 700.0, {"pods": 200})
    assert restored.highest(700.0) == {"pods": 200}


def test_the_higher_of_each_key_is_taken() -> None:
    assert higher({"a": 1, "b": 5}, {"a": 3, "c": 2}) == {"a": 3, "b": 5, "c": 2}
