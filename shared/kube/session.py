"""One HTTP session to one API server, from a kubeconfig context or the pod's service account.

Configuration and authentication are the `kubernetes` package's (tokens, client certificates, exec
plugins, in-cluster files that rotate); the requests are plain aiohttp. Proxies of the environment
are not used: only the kubeconfig's own.
"""

import asyncio
import os
import ssl
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import load_incluster_config, load_kube_config

from shared.kube.exchange import Exchanges
from shared.kube.memory import files_in_memory
from shared.kube.pipe import Pipe, TlsPipe
from shared.kube.rendering import USER_AGENT, Rendering
from shared.kube.trust import Trust

MAX_CONNECTIONS = 64
FRESH_S = 1.0  # how long a token is used before it is asked for again


class AccessError(RuntimeError):
    """The way to the API server could not be prepared; the text names the file and context."""


@dataclass(frozen=True, slots=True)
class Access:
    """Where credentials come from: `kubeconfig` file and `context`; no file means the pod's service
    account.
    """

    kubeconfig: str = ""
    context: str = ""

    def describe(self) -> str:
        """For messages."""
        if not self.kubeconfig:
            return "the pod's service account"
        return (
            f"{f'context {self.context!r}' if self.context else 'the current context'} of "
            f"{self.kubeconfig}"
        )


class ApiSession:
    """Connections, the server's address, and an authorization header that is never older than a
    second.

    `authority` is the host that requests name, `prefix` comes before their paths. `exchanges` are
    for short calls; None behind a proxy, which only `http` knows to speak to.
    """

    def __init__(self, configuration: Any, connect_s: float = 3.0) -> None:
        self._configuration = configuration
        self.host: str = configuration.host.rstrip("/")
        self.proxy: str | None = configuration.proxy
        self.server_hostname: str | None = configuration.tls_server_name
        self.trust = Trust.read(configuration)
        context = self.trust.context()
        self.http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=MAX_CONNECTIONS, ssl=context),
            headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        url = urlsplit(self.host)
        self._where = url
        self._tls = context
        self.authority = url.netloc.rpartition("@")[2]
        self.prefix = url.path.rstrip("/")
        direct = Exchanges(url, context, self.server_hostname, connect_s)
        self.exchanges: Exchanges | None = None if self.proxy else direct
        self.rendering = Rendering(url)
        self._token = ""
        self._token_at = -float("inf")

    @classmethod
    async def open(cls, access: Access, connect_s: float = 3.0) -> "ApiSession":
        """Load the configuration and make the pool; AccessError says what is wrong with it."""
        configuration = Configuration()
        try:
            with files_in_memory():
                await _load(access, configuration)
                return cls(configuration, connect_s)
        except Exception as error:  # whatever the loaders raise, it means no access
            raise AccessError(
                f"cannot use {access.describe()}: {type(error).__name__}: {error}"
            ) from error

    async def authorization(self) -> str:
        """The header that proves who we are, '' with client certificates; AccessError if the token
        hook fails.
        """
        now = time.monotonic()
        if now - self._token_at > FRESH_S:
            self._token = await self._authorization()
            self._token_at = now
        return self._token

    async def connect(self) -> Pipe:
        """A connection of one's own, for bytes that are no HTTP. OSError, or AccessError where a
        proxy is between.
        """
        if self.proxy:
            raise AccessError("logs and exec are not relayed through the proxy of a kubeconfig")
        secure = self._where.scheme == "https"
        host = self._where.hostname or ""
        reader, writer = await asyncio.open_connection(
            host, self._where.port or (443 if secure else 80)
        )
        if not secure:
            return Pipe(reader, writer)
        pipe = TlsPipe(reader, writer, self._tls, self.server_hostname or host)
        try:
            await pipe.handshake()
        except BaseException:
            pipe.abort()
            raise
        return pipe

    async def _authorization(self) -> str:
        try:
            settings = await self._configuration.auth_settings()
        except Exception as error:  # the hook reads files or runs a program
            raise AccessError(
                f"cannot refresh the token: {type(error).__name__}: {error}"
            ) from error
        token = settings.get("BearerToken")
        return str(token["value"]) if token else ""

    def kubelet_tls(self, ca_file: str, insecure: bool) -> ssl.SSLContext:
        """The context for kubelets: the cluster's CA unless another is given, and the same client
        certificate.
        """
        return self.trust.context(ca_file=ca_file, insecure=insecure)

    async def close(self) -> None:
        """Close all connections."""
        if self.exchanges is not None:
            self.exchanges.close()
        await self.http.close()


async def _load(access: Access, configuration: Any) -> None:
    if not access.kubeconfig:
        load_incluster_config(client_configuration=configuration)
        return
    if not os.path.isfile(access.kubeconfig):  # noqa: ASYNC240 - a small local file, read once
        raise FileNotFoundError("no such file")
    await load_kube_config(
        config_file=access.kubeconfig,
        context=access.context or None,
        client_configuration=configuration,
        persist_config=False,
    )
