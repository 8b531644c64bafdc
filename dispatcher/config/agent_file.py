"""agent.yaml as `config check` looks at it, where the agent is to run: keys and values, then the
files it names.
"""

import datetime as dt
import os
from collections.abc import Iterator
from pathlib import Path as FilePath

from pydantic import ValidationError

from agents.runtime.join.settings import JoinSettings
from agents.runtime.outbound.settings import GatewaySettings, undialable
from agents.runtime.settings import OrderSettings
from dispatcher.config.access import AccessError, check_context
from dispatcher.config.certificates import (
    CLIENT,
    PairFiles,
    authority_problems,
    pair_problems,
    untimely,
    uri_of,
    uris_of,
)
from dispatcher.config.document import Document
from dispatcher.config.listeners import agent_listener_problems
from dispatcher.config.problems import Problem
from dispatcher.config.validation import findings
from dispatcher.scheduling.framework.plugin_args import shown
from shared.process.file_paths import relative_to, with_whole_paths
from shared.process.keyfile import KeyFileError, default_path, read_keys
from shared.security.leader_certificate import Authorities
from shared.streams.calls import OBSERVER


def is_agent_file(document: Document) -> bool:
    """Whether this is agent.yaml: it is about one `cluster`, and lists no `clusters`."""
    return (
        isinstance(document.data, dict)
        and "cluster" in document.data
        and "clusters" not in document.data
    )


def agent_yaml_problems(document: Document, now: dt.datetime | None = None) -> list[Problem]:
    """Everything that is wrong with it, and with the files that it names; empty if it can be used
    here.
    """
    try:
        placed = with_whole_paths(document.data, relative_to(FilePath(document.file)))
        settings = JoinSettings.model_validate(placed)
    except ValidationError as error:
        return findings(JoinSettings, document, error, ())
    # which signs nothing
    problems = [*_key_problems(settings, document)] if settings.role != OBSERVER else []
    problems += [
        *_access_problems(settings, document),
        *agent_listener_problems(settings, document),
    ]
    ca_file = settings.kubelet.ca_file
    if ca_file and not os.path.isfile(ca_file):
        problems.append(document.problem(("kubelet", "ca_file"), f"there is no file {ca_file}"))
    if settings.orders.verified:
        problems += _order_problems(settings.orders, document, now or dt.datetime.now(dt.UTC))
    problems += _gateway_problems(
        settings.gateway, settings, document, now or dt.datetime.now(dt.UTC)
    )
    return problems


def _access_problems(settings: JoinSettings, document: Document) -> Iterator[Problem]:
    """Without a kubeconfig it is the pod's own cluster, of which only the pod knows."""
    if settings.kubeconfig:
        try:
            check_context(settings.kubeconfig, settings.context)
        except AccessError as error:
            yield document.problem((error.key,), str(error))


def _key_problems(settings: JoinSettings, document: Document) -> Iterator[Problem]:
    file = FilePath(settings.key_file) if settings.key_file else default_path(settings.cluster)
    if settings.key_file or os.path.exists(file):  # the default file is made where there is none
        try:
            read_keys(file, settings.cluster)
        except KeyFileError as error:
            yield document.problem(("key_file",), str(error))


def _order_problems(
    orders: OrderSettings, document: Document, now: dt.datetime
) -> Iterator[Problem]:
    """Authorities as the agent will read them: where it cannot, it refuses every order."""
    key, name = ("ca_file", orders.ca_file) if orders.ca_file else ("authority", "the text")
    try:
        pem = FilePath(orders.ca_file).read_bytes() if orders.ca_file else orders.authority.encode()
        found = list(untimely(Authorities.read(pem).certificates, name, now))
    except FileNotFoundError:
        found = [f"there is no file {name}"]
    except (OSError, ValueError) as error:
        found = [f"{name} holds no authorities (PEM), so all orders would be refused: {error}"]
    yield from (document.problem(("orders", key), text) for text in found)


def _gateway_problems(
    gateway: GatewaySettings, settings: JoinSettings, document: Document, now: dt.datetime
) -> Iterator[Problem]:
    for at, url in enumerate(gateway.urls):
        if wrong := undialable(url):
            yield document.problem(("gateway", "urls", at), f"{wrong}, not {shown(url)}")
    found = [
        *authority_problems("ca_file", gateway.ca_file, now, itself_too=True),
        *pair_problems(PairFiles(gateway.cert_file, gateway.key_file, CLIENT), now),
    ]
    yield from (document.problem(("gateway", one.key), one.text) for one in found)
    own = uri_of(settings.cluster, settings.role)
    uris = uris_of(gateway.cert_file)
    good = (own,), (uri_of(settings.cluster),)
    if not any(one.key == "cert_file" for one in found) and uris not in good:
        text = (
            f"{gateway.cert_file} is not of cluster {settings.cluster}: its URIs are "
            f"{shown(list(uris))}, not {own}"
        )
        yield document.problem(("gateway", "cert_file"), text)
