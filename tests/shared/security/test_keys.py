"""Keys of clusters: what is signed verifies for that alone, and no key is believed that no known key vouches for."""

import os
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from shared.model.pod import SourceRef
from shared.process.keyfile import KeyFileError, default_path, load_keys
from shared.security.keys import MAX_CLUSTERS, OwnKeys, TrustedKeys
from shared.security.signatures import SignedClaim, is_claim_of, is_key, is_proof_of, read_claim, vouches

CLAIM = SignedClaim(SourceRef("a", "ua", "ns", "web", "u1", 3), "b", "ub", "n1", b"digest")


def key(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(sha256(name.encode()).digest())


def keys(*names: str) -> OwnKeys:
    return OwnKeys([key(name) for name in names])


def test_a_claim_verifies_by_the_key_that_signed_it_and_by_no_other() -> None:
    mark = keys("A").sign_claim(CLAIM)
    assert read_claim(mark) == CLAIM
    assert is_claim_of(keys("A").public, mark)
    assert is_claim_of(keys("B", "A").public, mark)
    assert not is_claim_of(keys("B").public, mark)
    assert not is_claim_of((), mark)


@given(st.data())
def test_a_claim_of_which_one_character_is_another_does_not_verify(data: st.DataObject) -> None:
    mark = keys("A").sign_claim(CLAIM)
    at = data.draw(st.integers(0, len(mark) - 1))
    other = data.draw(st.sampled_from("ABCxyz019_-.").filter(lambda one: one != mark[at]))
    changed = mark[:at] + other + mark[at + 1 :]
    assert not is_claim_of(keys("A").public, changed)


ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def spellings(text: str, alphabet: str, padding: str = "") -> list[str]:
    """Other texts that lenient decoders read as the same bytes."""
    body = text.rstrip("=")
    spare = (0, 0, 4, 2)[len(body) % 4]  # bits of the last character that stand for nothing
    last = alphabet.index(body[-1])
    loose = [body[:-1] + alphabet[last + more] + padding for more in range(1, 2**spare)]
    return [*loose, f"{body}\n{padding}", f" {text}", f"{body[:4]}\n{body[4:]}{padding}", f"{text}="]


def test_a_mark_has_one_spelling() -> None:
    mine = keys("A")
    mark = mine.sign_claim(CLAIM)
    payload, _, signature = mark.partition(".")
    others = [f"{one}.{signature}" for one in spellings(payload, ALPHABET + "-_")]
    others += [f"{payload}.{one}" for one in spellings(signature, ALPHABET + "-_")]
    others.append(mark.replace("-", "+").replace("_", "/"))
    assert [one for one in others if one != mark and (is_claim_of(mine.public, one) or read_claim(one))] == []
    proof = mine.sign_proof("d1", mark)
    assert [one for one in spellings(proof, ALPHABET + "-_") if is_proof_of(mine.public, "d1", mark, one)] == []


def test_a_public_key_and_what_vouches_for_it_have_one_spelling() -> None:
    (old,), (new,) = keys("A1").public, keys("A2").public
    assert is_key(old)
    assert [one for one in spellings(old, ALPHABET + "+/", "=") if is_key(one)] == []
    told = keys("A2", "A1").endorsed_keys()[0].partition(" ")[2]
    assert vouches(old, new, told)
    assert [one for one in spellings(told, ALPHABET + "+/", "==") if vouches(old, new, one)] == []


def test_what_is_no_key_is_not_believed_so_that_the_real_one_is() -> None:
    trusted = TrustedKeys()
    assert "a key that is none" in trusted.trust("a", "ua", ("bm8ga2V5",))
    assert trusted.trust("a", "ua", keys("A1").endorsed_keys()) == ""
    assert trusted.of("ua") == keys("A1").public


@given(st.text(max_size=200))
def test_any_text_is_read_without_harm(text: str) -> None:
    assert not is_claim_of(keys("A").public, text)
    assert not is_proof_of(keys("A").public, "uid", text, text)


def test_a_proof_is_good_for_one_delegate_and_one_claim() -> None:
    mine = keys("B")
    claim, other = keys("A").sign_claim(CLAIM), keys("A").sign_claim(msgspec.structs.replace(CLAIM, node="n2"))
    proof = mine.sign_proof("d1", claim)
    assert is_proof_of(mine.public, "d1", claim, proof)
    assert not is_proof_of(mine.public, "d2", claim, proof)
    assert not is_proof_of(mine.public, "d1", other, proof)
    assert not is_proof_of(keys("A").public, "d1", claim, proof)


def test_a_claim_is_no_proof_and_a_proof_no_claim() -> None:
    mine = keys("A")
    mark = mine.sign_claim(CLAIM)
    payload, _, signature = mark.partition(".")
    assert not is_proof_of(mine.public, "d1", payload, signature)
    assert not is_claim_of(mine.public, f"{payload}.{mine.sign_proof('d1', mark)}")


def trusting(*told: str, name: str = "a", uid: str = "ua") -> TrustedKeys:
    trusted = TrustedKeys()
    assert trusted.trust(name, uid, told) == ""
    return trusted


def test_the_first_keys_that_are_heard_of_a_cluster_are_believed() -> None:
    trusted = trusting(*keys("A1").endorsed_keys())
    assert trusted.of("ua") == keys("A1").public
    assert trusted.name_of("ua") == "a"
    assert trusted.of("ub") == ()


@pytest.mark.parametrize(
    ("told", "believed"),
    [
        pytest.param(keys("A2", "A1").endorsed_keys(), ("A2", "A1"), id="a new key that the old one vouches for"),
        pytest.param(keys("A3", "A2", "A1").endorsed_keys(), ("A3", "A2", "A1"), id="two steps at once"),
        pytest.param(
            (*keys("A1").endorsed_keys(), *keys("X").endorsed_keys()),
            ("A1",),
            id="an older key out of nowhere is left out",
        ),
        pytest.param(keys("X").endorsed_keys(), None, id="another key"),
        pytest.param(keys("X", "Y").endorsed_keys(), None, id="another key with a voucher of its own"),
        pytest.param((keys("X").public[0], keys("A1").public[0]), None, id="another key without a voucher"),
        pytest.param((f"{keys('X').public[0]} !!", keys("A1").public[0]), None, id="a voucher that is none"),
        pytest.param((keys("A1", "X").endorsed_keys()), ("A1",), id="one that vouches for the known key"),
        pytest.param((), ("A1",), id="nothing"),
        pytest.param(("not base64",), None, id="nonsense"),
    ],
)
def test_later_keys_are_believed_where_a_known_one_vouches(told: tuple[str, ...], believed: tuple[str, ...]) -> None:
    trusted = trusting(*keys("A1").endorsed_keys())
    problem = trusted.trust("a", "ua", told)
    assert bool(problem) == (believed is None)
    assert trusted.of("ua") == keys(*(believed or ("A1",))).public


def test_an_old_key_that_was_taken_away_does_not_come_back() -> None:
    trusted = trusting(*keys("A1").endorsed_keys())
    assert trusted.trust("a", "ua", keys("A2", "A1").endorsed_keys()) == ""
    assert trusted.trust("a", "ua", keys("A1").endorsed_keys()) != ""
    assert trusted.of("ua") == keys("A2", "A1").public
    assert trusted.trust("a", "ua", keys("A2").endorsed_keys()) == ""
    assert trusted.of("ua") == keys("A2").public
    assert trusted.trust("a", "ua", keys("A1").endorsed_keys()) != ""


def test_another_cluster_under_a_known_name_and_a_known_one_under_another_are_refused() -> None:
    trusted = trusting(*keys("A1").endorsed_keys())
    assert "kube-system UID ux" in trusted.trust("a", "ux", keys("X").endorsed_keys())
    assert trusted.of("ux") == ()
    assert trusted.trust("b", "ua", keys("A1").endorsed_keys()) != ""
    assert trusted.name_of("ua") == "a"


def test_what_was_kept_is_believed_by_the_next_life_and_what_cannot_be_read_is_not() -> None:
    kept = trusting(*keys("A1").endorsed_keys()).text().text
    assert TrustedKeys(kept).of("ua") == keys("A1").public
    assert TrustedKeys("{").of("ua") == ()
    later = TrustedKeys()
    later.trust("a", "ua", keys("X").endorsed_keys())
    later.recall(kept)
    assert later.of("ua") == keys("A1").public


def test_what_was_kept_of_a_name_goes_before_another_cluster_that_was_heard_under_it() -> None:
    later = TrustedKeys()
    later.trust("a", "ux", keys("X").endorsed_keys())
    later.trust("b", "ub", keys("B").endorsed_keys())
    later.recall(trusting(*keys("A1").endorsed_keys()).text().text)
    assert (later.of("ux"), later.of("ua"), later.of("ub")) == ((), keys("A1").public, keys("B").public)
    assert "kube-system UID ua" in later.trust("a", "ux", keys("X").endorsed_keys())


def test_of_two_clusters_that_were_kept_under_one_name_the_next_that_is_heard_is_believed() -> None:
    kept = {"ua": ("a", *keys("A1").public), "ux": ("a", *keys("X").public), "ub": ("b", *keys("B").public)}
    trusted = TrustedKeys(msgspec.json.encode(kept).decode())
    assert (trusted.of("ua"), trusted.of("ux"), trusted.of("ub")) == ((), (), keys("B").public)
    assert trusted.trust("a", "ua", keys("A1").endorsed_keys()) == ""
    assert trusted.of("ua") == keys("A1").public


def test_what_is_kept_fits_and_those_known_longest_go_first() -> None:
    trusted = trusting(*keys("A1").endorsed_keys())
    for name in ("b", "c"):
        assert trusted.trust(name, f"u{name}", keys(name).endorsed_keys()) == ""
    whole = trusted.text()
    assert whole.left_out == ()
    part = trusted.text(len(whole.text.encode()) - 1)
    assert part.left_out == ("c",)
    assert (TrustedKeys(part.text).of("ub"), TrustedKeys(part.text).of("uc")) == (keys("b").public, ())
    assert trusted.text(len(whole.text.encode()) + 1) == whole


def test_a_cluster_too_many_is_refused_with_words_and_the_way_out() -> None:
    trusted = TrustedKeys()
    told = keys("A1").endorsed_keys()
    assert {trusted.trust(f"c{number}", f"u{number}", told) for number in range(MAX_CLUSTERS)} == {""}
    said = trusted.trust("more", "u-more", told)
    assert 'those of cluster "more" are one too many' in said
    assert "cluster forget-keys NAME" in said
    assert trusted.of("u-more") == ()


def pem(private: object) -> bytes:
    made: bytes = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())  # type: ignore[attr-defined]
    return made


def test_a_key_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    first = load_keys("", "a")
    assert load_keys("", "a").public == first.public
    assert load_keys("", "b").public != first.public
    assert default_path("a").stat().st_mode & 0o777 == 0o600


def test_a_file_holds_the_newest_key_first(tmp_path: Path) -> None:
    file = tmp_path / "keys.pem"
    file.write_bytes(pem(key("A2")) + b"\n" + pem(key("A1")))
    assert load_keys(str(file), "a").public == keys("A2", "A1").public


def test_a_key_that_is_made_is_told_once_with_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with capture_logs() as told:
        load_keys("", "a")
        load_keys("", "a")
    assert [(one["log_level"], one["cluster"], one["path"]) for one in told] == [("info", "a", str(default_path("a")))]


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o400, False), (0o640, True), (0o604, True)])
def test_a_key_file_that_others_can_read_is_told_with_the_fix(tmp_path: Path, mode: int, warned: bool) -> None:
    file = tmp_path / "keys.pem"
    file.write_bytes(pem(key("A1")))
    file.chmod(mode)
    with capture_logs() as told:
        load_keys(str(file), "a")
    assert [(one["log_level"], one["fix"]) for one in told] == [("warning", f"chmod 600 {file}")] * warned


def test_a_key_on_a_volume_that_nobody_writes_may_be_its_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes(pem(key("A1")))
    monkeypatch.setattr("shared.process.keyfile.os.statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
    for mode, warned in ((0o440, False), (0o444, True)):
        file.chmod(mode)
        with capture_logs() as told:
            load_keys(str(file), "a")
        assert bool(told) == warned


def test_a_key_file_that_everybody_can_write_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "keys.pem"
    file.write_bytes(pem(key("A1")))
    file.chmod(0o602)
    with pytest.raises(KeyFileError, match=f"everybody may write it.*chmod 600 {file}"):
        load_keys(str(file), "a")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "holds no private key"),
        (b"-----BEGIN PRIVATE KEY-----\nnonsense\n-----END PRIVATE KEY-----\n", "not a readable private key"),
        (pem(generate_private_key(SECP256R1())), "not an Ed25519 key"),
        (None, "No such file or directory: make one with openssl genpkey -algorithm ed25519 -out /"),
    ],
    ids=["empty", "nonsense", "another kind", "missing"],
)
def test_a_file_without_a_good_key_is_an_error_that_names_it(tmp_path: Path, content: bytes | None, says: str) -> None:
    file = tmp_path / "keys.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(KeyFileError, match=says) as told:
        load_keys(str(file), "a")
    assert str(file) in str(told.value)
