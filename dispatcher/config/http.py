"""The HTTP API: whose tokens it takes, and whether it is open to whoever reaches it."""

from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path

from dispatcher.config.document import Document
from dispatcher.config.problems import Problem
from dispatcher.config.sections import HttpSection

LEAST = 16  # characters of a token: shorter ones are found by trying


def read_tokens(file: Path) -> list[str]:
    """The tokens of a file, one a line; empty lines and those that begin with '#' do not count.
    OSError, ValueError.
    """
    lines = [line.strip() for line in file.read_text("utf-8-sig").splitlines()]
    tokens = [line for line in lines if line and not line.startswith("#")]
    if not tokens:
        raise ValueError(f"{file} has no token: write one in a line (openssl rand -hex 32)")
    if min(map(len, tokens)) < LEAST:
        raise ValueError(
            f"{file} has a token of less than {LEAST} characters: openssl rand -hex 32 makes one"
        )
    return tokens


def http_placed(section: HttpSection, whole: Callable[[str], str]) -> HttpSection:
    """With the path of its file made whole."""
    login = section.login.model_copy(update={"token_file": whole(section.login.token_file)})
    return section.model_copy(update={"login": login})


def http_problems(section: HttpSection, document: Document) -> list[Problem]:
    """That the file of tokens cannot be used: nothing would be served."""
    try:
        if section.login.token_file:
            read_tokens(Path(section.login.token_file))
    except OSError as error:
        text = f"{section.login.token_file} cannot be read: {error.strerror}"
    except ValueError as error:
        text = str(error)
    else:
        return []
    return [document.problem(("http", "login", "token_file"), text)]


def http_notes(section: HttpSection, document: Document) -> list[Problem]:
    """That others than this machine may read the HTTP API, and nobody asks who they are."""
    login = section.login
    if login.token_file or login.user_header or _loopback(section.host):
        return []
    text = (
        f"is {section.host!r} and http.login asks nobody who he is: whoever reaches port "
        f"{section.port} reads names, "
        "load and decisions of all clusters. Set http.login.token_file (httpTokens of the chart), "
        "unless a "
        "NetworkPolicy, which is not seen from here, lets only those reach it who may read "
        "(networkPolicy of the chart)"
    )
    return [document.problem(("http", "host"), text)]


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
