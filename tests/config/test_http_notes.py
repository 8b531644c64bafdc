"""Which HTTP APIs are called open."""

import pytest

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
