"""The HTTP API: whose tokens it takes, and whether it is open to whoever reaches it."""

from collections.abc import Callable
from ipaddress import ip_address

from dispatcher.config.document import Document
from dispatcher.config.problems import Problem
from dispatcher.config.sections import HttpSection


def http_placed(section: HttpSection, whole: Callable[[str], str]) -> HttpSection:
    """The section with whole paths."""
    login = section.login.model_copy(update={"token_file": whole(section.login.token_file)})
    return section.model_copy(update={"login": login})


def http_notes(section: HttpSection, document: Document) -> list[Problem]:
    """That others than this machine may read the HTTP API, and nobody asks who they are."""
    login = section.login
    if login.token_file or login.user_header or _loopback(section.host):
        return []
    text = (
        f"is {section.host!r} and http.login asks nobody who he is: whoever reaches port {section.port} reads names, "
        "load and decisions of all clusters. Set http.login.token_file (httpTokens of the chart), unless a "
        "NetworkPolicy, which is not seen from here, lets only those reach it who may read (networkPolicy of the chart)"
    )
    return [document.problem(("http", "host"), text)]


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
