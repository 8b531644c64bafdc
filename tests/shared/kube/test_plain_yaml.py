"""Which YAML of others may be loaded."""

import msgspec
import pytest
import yaml

from shared.kube.plain_yaml import DEEPEST, is_plain

MERGED = "x0: &x0 {a: b}\n" + "".join(f"x{n}: &x{n} {{<<: [{f'*x{n - 1},' * 10}]}}\n" for n in range(1, 10))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("- " * 60_000 + "a", id="so deep that libyaml's loader takes the process with it"),
        pytest.param("[" * 60_000, id="as deep, in one line"),
        pytest.param("? " * 60_000 + "a", id="as deep, by keys"),
        pytest.param("- " * (DEEPEST + 1) + "a", id="a level too deep"),
        pytest.param(MERGED, id="a gigabyte of merged keys"),
        pytest.param("a: &a [*a]", id="within itself"),
        pytest.param("a: [", id="no YAML"),
        pytest.param("a: \x00", id="no text of YAML"),
    ],
)
def test_what_would_take_the_process_or_its_memory_is_not_to_be_loaded(text: str) -> None:
    assert not is_plain(text)


def test_what_programs_write_is_to_be_loaded() -> None:
    value = {"a": [{"b": [1, None, "*c", "&d"]}] * 3}
    assert is_plain(yaml.dump(value, Dumper=Plain))
    assert is_plain(msgspec.json.encode(value).decode())
    assert is_plain("- " * DEEPEST + "a")
    assert is_plain("")


class Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True
