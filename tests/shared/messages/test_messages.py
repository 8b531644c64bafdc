"""The wire: what goes in comes out, and what is not ours is refused with a clear error."""

from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.messages import (
    Changes,
    Hello,
    IntentBatch,
    PodRef,
    WireError,
    decode,
    encode,
)
from shared.messages.intents import AnyIntent, Intent
from shared.model.pod import Pod, SourceRef, Toleration

REF = PodRef("default", "web-1", "uid-1")
SOURCE = SourceRef("east", "cluster-uid", "default", "web-1", "uid-1", 7)


# One value for each type that a field of an intent may have.
VALUES: dict[Any, Any] = {
    str: "x", int: 7, bool: True, bytes: b"{}", PodRef: REF, SourceRef: SOURCE,
    dict[str, str]: {"a": "b"}, dict[str, int]: {"cpu": 1},
    tuple[Toleration, ...]: (Toleration("pool"),),
}  # fmt: skip


def _filled(kind: type[Intent]) -> Intent:
    """One with a value in each field."""
    hints = get_type_hints(kind)
    types = [hints[name] for name in kind.__struct_fields__]
    given = [one if one in VALUES else next(iter(get_args(one))) for one in types]
    return kind(*[VALUES[one] for one in given])


@pytest.mark.parametrize("kind", get_args(AnyIntent), ids=lambda kind: kind.__name__)
def test_every_intent_survives_the_wire(kind: type[Intent]) -> None:
    batch = IntentBatch("me", 3, (_filled(kind),))  # type: ignore[arg-type]
    assert decode(IntentBatch, encode(batch)) == batch


def test_changes_of_another_version_are_refused_with_the_fix() -> None:
    alien = msgspec.structs.replace(Hello("east", "u", "i"), version=99)
    with pytest.raises(WireError, match="version 99, this side speaks 1: upgrade"):
        decode(Hello, encode(alien))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused_and_never_crash(data: bytes) -> None:
    try:
        message = decode(Changes, data)
    except WireError as error:
        assert "Changes" in str(error)
    else:
        assert isinstance(message, Changes)


def test_a_field_appended_by_a_newer_peer_is_ignored() -> None:
    raw = msgspec.msgpack.decode(encode(Hello("east", "u", "i", server_version="v1")))
    assert decode(Hello, msgspec.msgpack.encode([*raw, "from the future"])) == Hello(
        "east", "u", "i", server_version="v1"
    )


def test_app_labels_leave_out_what_controllers_generate() -> None:
    pod = Pod("u", "ns", "n", labels={"app": "web", "pod-template-hash": "abc", "job-name": "j"})
    assert pod.app_labels == {"app": "web"}


def test_bytes_nested_too_deep_are_no_message() -> None:
    """Elements beyond those that are known are skipped, however deep."""
    hello = encode(Hello("east", "uid", "life"))
    with pytest.raises(WireError, match="not a Hello"):
        decode(Hello, bytes([0x9F]) + hello[1:] + b"\x91" * 200_000)
