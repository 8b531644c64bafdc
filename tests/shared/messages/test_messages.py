"""The wire: what goes in comes out, and what is not ours is refused with a clear error."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.messages import (
    Bind,
    Changes,
    Claim,
    CreateDelegate,
    DeleteDelegate,
    DeleteSource,
    FinishSource,
    Hello,
    IntentBatch,
    MirrorStatus,
    PodRef,
    ReportUnschedulable,
    SignManifest,
    Unclaim,
    UpdateDelegate,
    WireError,
    decode,
    encode,
)
from shared.model.pod import Pod, SourceRef

REF = PodRef("default", "web-1", "uid-1")
SOURCE = SourceRef("east", "cluster-uid", "default", "web-1", "uid-1", 7)


def test_every_intent_survives_the_wire() -> None:
    batch = IntentBatch(
        "me",
        3,
        (
            Bind("1", REF, 7, "n1", {"a": "b"}, proxy=True),
            Claim("2", REF, 7, "west", "n2"),
            Unclaim("3", REF, 7),
            CreateDelegate("4", REF, 7, SOURCE, "n2", b"{}"),
            DeleteDelegate("5", REF, 7),
            MirrorStatus("6", REF, 7, b'{"phase":"Running"}'),
            DeleteSource("9", REF, 7),
            FinishSource("7", REF, 7),
            SignManifest("10", REF, 7),
            UpdateDelegate("11", REF, 7, SOURCE, "n2", b"{}", "x.y"),
            ReportUnschedulable("8", REF, 7, "0/3 nodes are available."),
        ),
    )
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
