"""A cluster's entry is added to a file as people write it: everything else stays, also the comments."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.cli.joining.entry import entry_of, with_entry
from dispatcher.service.errors import CommandError

UID = "0f0e0d0c-0000-4000-8000-000000000001"
EAST = entry_of("east", UID)
FLOW = f"{{name: east, via: gateway, uid: {UID}}}"


def edited(folder: Path, text: str) -> str:
    file = folder / "file.yaml"
    file.write_text(text)
    return with_entry(file, EAST)[0]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("clusters: []\n", f"clusters: [{FLOW}]\n"),
        ("clusters:\n", f"clusters: [{FLOW}]\n"),
        ("clusters: [{name: west}]  # all\n", f"clusters: [{{name: west}}, {FLOW}]  # all\n"),
        (
            "clusters:\n  # first\n  - name: west  # far\n    via: gateway\n\n# then\nlog: {level: info}\n",
            "clusters:\n  # first\n  - name: west  # far\n    via: gateway\n"
            f"  - {FLOW}\n\n# then\nlog: {{level: info}}\n",
        ),
        ("clusters:\n- name: west", f"clusters:\n- name: west\n- {FLOW}"),
        ("config:\n  clusters:\n    - {name: west}\n", f"config:\n  clusters:\n    - {{name: west}}\n    - {FLOW}\n"),
        ("clusters:\n  - name: east\n", f"clusters:\n  - name: east\n    via: gateway\n    uid: {UID}\n"),
        ("clusters: [{name: east, via: gateway}]\n", f"clusters: [{FLOW}]\n"),
        (f"clusters: [{FLOW}]\n", f"clusters: [{FLOW}]\n"),
    ],
)
def test_the_entry_is_added_where_it_belongs(tmp_path: Path, before: str, after: str) -> None:
    assert edited(tmp_path, before) == after


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("log: {}\n", "has neither `clusters`, as dispatcher.yaml, nor `config.clusters`"),
        ("clusters: east\n", "clusters is no list of clusters"),
        ("clusters: [east]\n", "clusters is no list of clusters"),
        ("clusters: [{name: west},]\n", f"add `- {FLOW}` to clusters by hand"),
        ("clusters: [\n", "is no YAML"),
    ],
)
def test_what_cannot_be_edited_is_told_with_what_to_write(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(CommandError) as told:
        edited(tmp_path, text)
    assert words in str(told.value)


NAMES = st.lists(st.sampled_from(["a", "b", "c", "north", "west"]), unique=True, max_size=4)


@given(names=NAMES, block=st.booleans(), inner=st.booleans(), indent=st.integers(0, 4), after=st.booleans())
def test_whatever_the_form_nothing_else_changes_and_a_second_time_nothing_at_all(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], block: bool, inner: bool, indent: int, after: bool
) -> None:
    rows = [{"name": name, "agent": {"log_level": "info"}} for name in names]
    text = yaml.safe_dump(rows, default_flow_style=not block or not rows)
    if block and rows:
        text = "clusters:\n" + "".join(f"{' ' * indent}{line}\n" for line in text.splitlines())
    else:
        text = f"clusters: {text}"
    if inner:
        text = "config:\n" + "".join(f"  {line}\n" for line in text.splitlines())
    text += "log: {level: info}\n" if after else ""
    folder = tmp_path_factory.mktemp("entry")
    once = edited(folder, text)
    before, now = yaml.safe_load(text), yaml.safe_load(once)
    where = before["config"] if inner else before
    where["clusters"].append(EAST)
    assert now == before
    assert edited(folder, once) == once
