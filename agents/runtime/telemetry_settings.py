"""Where an agent's readings come from beside kubelets, and which source goes first. Times are
seconds.
"""

import ipaddress
import re
from typing import Literal, Protocol, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from agents.observer.loads import DEFAULT_SOURCE, Preference
from agents.observer.signals import Signal
from agents.runtime.seconds import Seconds
from agents.telemetry import queries
from agents.telemetry.matching import LABELS
from agents.telemetry.queries import Filling, Query
from agents.telemetry.source import Range
from agents.telemetry.web import Credentials, Limits, Network, Tls
from shared.model.signals import NAME_PATTERN

METRICS_API = "metrics.k8s.io"
SOURCE_PATTERN = r"^[a-z][a-z0-9._-]{0,39}$"
_NEVER = "loopback, pods' ends, bridges and overlays never do"
_LABEL = re.compile(r"^[a-zA-Z_][a-zA-Z0-9_]*$")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Named(Protocol):
    @property
    def name(self) -> str: ...


class _Connected(_Section):
    """How a source over HTTP is asked."""

    name: str = Field(pattern=SOURCE_PATTERN, description="What `order` calls it.")
    interval_s: Seconds = Field(default=15.0, ge=0.1, description="Seconds between two questions.")
    timeout_s: Seconds = Field(
        default=5.0, gt=0, description="Seconds for a whole answer, however slowly it drips."
    )
    max_mib: int = Field(
        default=16, ge=1, le=256, description="MiB of an answer after decompression."
    )
    allow_addresses: tuple[str, ...] = Field(
        default=(),
        description="Networks asked although they are loopback, link-local or a metadata service.",
    )
    token_file: str = Field(
        default="", description="File with a bearer token; read anew for each request."
    )
    user: str = Field(default="", description="User of HTTP basic authentication.")
    password_file: str = Field(default="", description="File with that user's password.")
    headers: dict[str, str] = Field(
        default_factory=dict, description="More headers; not for secrets."
    )
    header_files: dict[str, str] = Field(
        default_factory=dict, description="Headers whose values are secret: name to file."
    )
    ca_file: str = Field(
        default="", description="CA of the server's certificate; empty: the system's."
    )
    cert_file: str = Field(default="", description="Certificate of our own, with key_file.")
    key_file: str = Field(default="", description="Its private key.")
    insecure: bool = Field(
        default=False,
        description="Send credentials over http, and trust any certificate. Only where nobody "
        "listens.",
    )

    @field_validator("allow_addresses")
    @classmethod
    def _networks(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for one in given:
            ipaddress.ip_network(one)
        return given

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if bool(self.user) != bool(self.password_file):
            raise ValueError("user and password_file belong together: set both, or none")
        if self.token_file and self.user:
            raise ValueError(
                "token_file and user exclude each other: both would be the header Authorization"
            )
        if self.key_file and not self.cert_file:
            raise ValueError("key_file needs cert_file")
        return self

    def check_secrecy(self, scheme: str) -> None:
        """ValueError where a request would carry credentials in clear."""
        secrets = self.token_file or self.password_file or self.header_files
        if scheme == "http" and secrets and not self.insecure:
            raise ValueError(
                "over http everybody on the way reads the credentials: use https, or insecure: true"
            )

    def limits(self) -> Limits:
        """As the client knows them."""
        allowed: tuple[Network, ...] = tuple(
            ipaddress.ip_network(one) for one in self.allow_addresses
        )
        return Limits(self.timeout_s, self.max_mib * 2**20, allowed)

    def credentials(self) -> Credentials:
        """As the client knows them."""
        return Credentials(
            self.token_file, self.user, self.password_file, self.headers, self.header_files
        )

    def tls(self) -> Tls:
        """As the client knows it."""
        return Tls(self.ca_file, self.cert_file, self.key_file, self.insecure)


class _Addressed(_Connected):
    """The same at one address."""

    url: str = Field(
        min_length=1, description="http:// or https:// and what comes before the source's own path."
    )

    @model_validator(mode="after")
    def _address(self) -> Self:
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("url must begin with http:// or https:// and name a host")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("url must hold no user, password, ? or #: credentials come from files")
        _ = parts.port  # ValueError for one that is none
        self.check_secrecy(parts.scheme)
        return self


class CustomQuery(_Section):
    """A signal by a query of one's own: one instant vector for all nodes."""

    signal: str = Field(pattern=NAME_PATTERN, description="What profiles call it.")
    query: str = Field(
        min_length=1, description="PromQL with the placeholders of docs/telemetry.md."
    )
    sampled_at: str = Field(
        min_length=1, description="PromQL for the Unix time of the samples, timestamp(...)."
    )
    range: tuple[float, float] = Field(
        default=(0.0, 1.0), description="What the value may be, [lowest, highest]."
    )
    direction: Literal["load", "headroom"] = Field(
        default="load",
        description="Whether the highest value is a full node (load) or an idle one (headroom).",
    )

    @field_validator("range")
    @classmethod
    def _ordered(cls, given: tuple[float, float]) -> tuple[float, float]:
        if not -1e18 < given[0] < given[1] < 1e18:
            raise ValueError("must be two numbers, the lower first")
        return given

    def as_query(self) -> Query:
        """As the source knows it."""
        within = Range(*self.range, headroom=self.direction == "headroom")
        return Query(self.signal, self.query, self.sampled_at, "range", within)


class PrometheusSettings(_Addressed):
    """A Prometheus, or what speaks its API: Thanos, Mimir, VictoriaMetrics."""

    name: str = Field(
        default="prometheus", pattern=SOURCE_PATTERN, description="What `order` calls it."
    )
    sets: tuple[str, ...] = Field(
        default=("node_exporter", "psi"),
        description="Sets of queries: node_exporter, kube_prometheus, cadvisor, dcgm, psi. An "
        "earlier one goes first.",
    )
    queries: tuple[CustomQuery, ...] = Field(
        default=(), description="More signals, each by a query."
    )
    window: str = Field(
        default="2m", pattern=r"^[1-9][0-9]{0,4}[smh]$", description="Window of rates, for $window."
    )
    interfaces: str = Field(
        default=".+",
        min_length=1,
        description=f"Network interfaces that count, for $interfaces; {_NEVER} ($virtual).",
    )
    node_labels: tuple[str, ...] = Field(
        default=LABELS,
        min_length=1,
        description="Labels that may name a node; those that do have to agree.",
    )
    cluster_label: str = Field(
        default="", description="Label that tells this cluster from others; empty: none."
    )
    cluster_value: str = Field(
        default="", description="Its value; empty: the cluster's name in the fleet."
    )

    @model_validator(mode="after")
    def _askable(self) -> Self:
        for label in (*self.node_labels, *filter(None, (self.cluster_label,))):
            if not _LABEL.match(label):
                raise ValueError(f"{label[:40]!r} is no name of a label")
        self.all_queries("cluster")
        return self

    def all_queries(
        self, cluster: str, measures: frozenset[str] | None = None
    ) -> tuple[Query, ...]:
        """The queries as PromQL, one a measure; of the sets only `measures`. QueryError for one
        that cannot be.
        """
        own = [one.as_query() for one in self.queries]
        chosen: dict[str, Query] = {}
        for query in (*own, *(query for name in self.sets for query in queries.load(name))):
            if query.unit == "range" or measures is None or query.measure in measures:
                chosen.setdefault(query.measure, query)
        matcher = (
            (self.cluster_label, self.cluster_value or cluster) if self.cluster_label else ("", "")
        )
        return Filling(self.node_labels, self.window, self.interfaces, matcher).fill(
            chosen.values()
        )


class NodeExporterSettings(_Connected):
    """node_exporter on every node, asked at its InternalIP."""

    name: str = Field(
        default="node_exporter", pattern=SOURCE_PATTERN, description="What `order` calls it."
    )
    scheme: Literal["http", "https"] = Field(default="http", description="How it is served.")
    port: int = Field(default=9100, ge=1, le=65_535, description="Port on every node.")
    concurrency: int = Field(default=32, ge=1, description="Nodes asked at once.")
    interfaces: str = Field(
        default=".+",
        min_length=1,
        description=f"Network interfaces that count, an expression; {_NEVER}.",
    )

    @model_validator(mode="after")
    def _safe(self) -> Self:
        self.check_secrecy(self.scheme)
        return self


class LoadWatcherSettings(_Addressed):
    """A load-watcher, as Trimaran uses it: CPU and memory, averages over 15 minutes."""

    name: str = Field(
        default="load-watcher", pattern=SOURCE_PATTERN, description="What `order` calls it."
    )
    interval_s: Seconds = Field(default=30.0, ge=0.1, description="Seconds between two questions.")


class FileSettings(_Section):
    """A file that somebody else writes."""

    name: str = Field(default="file", pattern=SOURCE_PATTERN, description="What `order` calls it.")
    path: str = Field(min_length=1, description="The file, YAML or JSON; see docs/telemetry.md.")
    interval_s: Seconds = Field(default=5.0, ge=0.1, description="Seconds between two looks.")
    constant: bool = Field(default=False, description="What it says holds however old it is.")


class MetricsApiSettings(_Section):
    """metrics.k8s.io asked for all nodes, and not only for those whose kubelet does not answer."""

    enabled: bool = Field(
        default=False, description="Whether it is a source of its own, `metrics.k8s.io` in `order`."
    )
    interval_s: Seconds = Field(default=15.0, ge=0.1, description="Seconds between two questions.")


class TelemetrySettings(_Section):
    """Sources of readings beside kubelets, and the order in which they are believed."""

    prometheus: tuple[PrometheusSettings, ...] = Field(
        default=(), max_length=8, description="Prometheus servers; keys below."
    )
    node_exporter: tuple[NodeExporterSettings, ...] = Field(
        default=(), max_length=1, description="node_exporter asked directly, one entry; keys below."
    )
    load_watcher: tuple[LoadWatcherSettings, ...] = Field(
        default=(), max_length=4, description="load-watchers; keys below."
    )
    file: tuple[FileSettings, ...] = Field(
        default=(), max_length=8, description="Files; keys below."
    )
    metrics_api: MetricsApiSettings = Field(default_factory=MetricsApiSettings)
    order: dict[str, tuple[str, ...]] = Field(
        default_factory=dict,
        description="By signal, and for all others under `default`, the names of sources, the one "
        "to believe first "
        "first. `kubelet` is the kubelets with metrics.k8s.io for nodes whose kubelet does not "
        "answer; they are not "
        "asked where no order names it. Empty: the sources above as they stand here, `kubelet`, "
        "metrics.k8s.io.",
    )
    stale_s: Seconds = Field(
        default=60.0,
        gt=0,
        description="A value older than that is passed over where a later source has a fresher "
        "one.",
    )

    @model_validator(mode="after")
    def _known(self) -> Self:
        names = self.names()
        if len({*names}) < len(names):
            raise ValueError(
                f"two sources have one name: give each a name of its own ({', '.join(names)})"
            )
        for signal, order in self.order.items():
            if not order:
                raise ValueError(f"order.{signal} must name a source at least")
            for name in order:
                if name not in names:
                    raise ValueError(
                        f"order.{signal} names {name[:40]!r}, which is no source: "
                        f"{', '.join(names)}"
                    )
        return self

    def names(self) -> list[str]:
        """All sources, as they are believed where no order is given."""
        servers = [one.name for one in (*self.prometheus, *self.node_exporter, *self.load_watcher)]
        more = [METRICS_API] if self.metrics_api.enabled else []
        return [*servers, *(one.name for one in self.file), DEFAULT_SOURCE, *more]

    def keys(self) -> dict[str, str]:
        """Where each source stands in the agent's configuration, for messages:
        'telemetry.prometheus[0]'.
        """
        lists: dict[str, tuple[_Named, ...]] = {
            "prometheus": self.prometheus,
            "node_exporter": self.node_exporter,
            "load_watcher": self.load_watcher,
            "file": self.file,
        }
        found = {
            one.name: f"telemetry.{key}[{at}]"
            for key, ones in lists.items()
            for at, one in enumerate(ones)
        }
        return {DEFAULT_SOURCE: "kubelet", METRICS_API: "telemetry.metrics_api", **found}

    def preference(self) -> Preference:
        """As the observer knows it."""
        order = dict(self.order)
        return Preference(order.pop("default", tuple(self.names())), order, self.stale_s)

    def signals(self) -> tuple[Signal, ...]:
        """Those of the queries of one's own."""
        found = {query.signal: None for one in self.prometheus for query in one.queries}
        return tuple(Signal(name, (name,)) for name in found)
