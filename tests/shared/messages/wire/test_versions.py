"""Peers of different versions: what each release has sent is read for ever, and what it can read is what is sent.

`recorded/VERSION` holds, of each release, every message with all fields set (as bytes, and what they mean), and which
fields each record had. A release adds a folder: `python -m tests.shared.messages.wire.schema VERSION`.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from tests.shared.messages.wire.schema import (
    FORMATS,
    MESSAGES,
    RECORDED,
    as_read_by,
    fields,
    format_of,
    longer,
    name_of,
    sample,
    suffix_of,
    told,
    walked,
)

RELEASES = sorted(RECORDED.iterdir())
BY_NAME = {kind.__name__: kind for kind in MESSAGES}
OLD = [
    pytest.param(file, BY_NAME[file.stem], id=f"{folder.name} {file.stem}")
    for folder in RELEASES
    for file in sorted(folder.iterdir())
    if file.suffix in FORMATS
]


@pytest.mark.parametrize(("file", "kind"), OLD)
def test_what_an_older_peer_sends_means_what_it_meant(file: Path, kind: type[Any]) -> None:
    read = FORMATS[file.suffix].decode(file.read_bytes(), type=kind)
    assert told(read) == json.loads(file.with_suffix(".json").read_text())


@pytest.mark.parametrize(("file", "kind"), OLD)
def test_what_an_older_peer_reads_of_a_message_is_what_was_meant(file: Path, kind: type[Any]) -> None:
    then = json.loads((file.parent / "fields.json").read_text())
    form = FORMATS[file.suffix]
    today = form.encode(form.decode(file.read_bytes(), type=kind))
    read = as_read_by(then, inspect.type_info(kind), form.decode(today))
    assert form.encode(read) == file.read_bytes()


@pytest.mark.parametrize("folder", RELEASES, ids=lambda one: one.name)
def test_an_older_peer_finds_each_field_where_it_was(folder: Path) -> None:
    today, then = fields(), json.loads((folder / "fields.json").read_text())
    moved = {
        name: (names, today.get(name)) for name, names in then.items() if today.get(name, [])[: len(names)] != names
    }
    assert not moved, "a field may only be appended: put these back in their order"


@pytest.mark.parametrize("folder", RELEASES, ids=lambda one: one.name)
def test_what_was_appended_since_may_be_missing(folder: Path) -> None:
    then = json.loads((folder / "fields.json").read_text())
    needed = [
        f"{name_of(one)}.{field.name}"
        for one in walked()
        if name_of(one) in then
        for field in one.fields
        if field.required and field.name not in then[name_of(one)]
    ]
    assert not needed, "an older peer does not send these: give them a default"


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_what_the_next_version_appends_to_any_record_is_ignored(kind: type[Any]) -> None:
    described = inspect.type_info(kind)
    raw = sample(described)
    newer = longer(described, raw)
    assert newer != raw
    form = format_of(kind)
    assert form.decode(form.encode(newer), type=kind) == msgspec.convert(raw, kind)


def test_each_kind_of_message_that_was_ever_sent_is_known_and_all_of_today_are_recorded_of_the_last_release() -> None:
    recorded = [{file.name for file in folder.iterdir() if file.suffix in FORMATS} for folder in RELEASES]
    known = {f"{name}{suffix_of(kind)}" for name, kind in BY_NAME.items()}
    assert all(names <= known for names in recorded)
    assert recorded[-1] == known
