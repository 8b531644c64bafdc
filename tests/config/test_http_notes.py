"""Which HTTP APIs are called open."""

from pathlib import Path

import pytest

from dispatcher.config import check_config, load_config
from dispatcher.config.document import Document
from dispatcher.config.http import http_notes
from dispatcher.config.sections import HttpSection, LoginSection

PROXY = LoginSection(user_header="X-User", proxies=("10.0.0.1",))


@pytest.mark.parametrize(
    ("section", "is_open"),
    [
        (HttpSection(host="0.0.0.0"), True),
        (HttpSection(host="::"), True),
        (HttpSection(host="dispatcher.example"), True),
        (HttpSection(host="::", login=LoginSection(token_file="tokens")), False),
        (HttpSection(host="::", login=PROXY), False),
        (HttpSection(), False),
        (HttpSection(host="127.9.9.9"), False),
        (HttpSection(host="::1"), False),
        (HttpSection(host="localhost"), False),
    ],
    ids=lambda one: (
        f"{one.host}, {one.login.token_file}{one.login.user_header}" if isinstance(one, HttpSection) else None
    ),
)
def test_an_http_api_is_open_that_others_reach_and_that_asks_nobody_who_he_is(
    section: HttpSection, is_open: bool
) -> None:
    assert [one.key for one in http_notes(section, Document("dispatcher.yaml"))] == ["http.host"] * is_open


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (None, "tokens cannot be read: No such file or directory"),
        ("# none\n", "tokens has no token"),
        ("short\n", "tokens has a token of less than 16 characters"),
        (f"{'x' * 16}\n", ""),
    ],
)
def test_a_file_of_tokens_lies_beside_the_configuration_and_one_that_is_no_good_is_told(
    tmp_path: Path, written: str | None, words: str
) -> None:
    file = tmp_path / "dispatcher.yaml"
    file.write_text("http: {login: {token_file: tokens}}\n")
    if written is not None:
        (tmp_path / "tokens").write_text(written)
    found = [one for one in check_config(file, reach=True) if one.key.startswith("http")]
    assert [(one.key, one.line) for one in found] == [("http.login.token_file", 1)] * bool(words)
    assert all(f"{tmp_path}/{words}" in one.text for one in found)
    if not words:
        assert load_config(file).http.login.token_file == str(tmp_path / "tokens")
