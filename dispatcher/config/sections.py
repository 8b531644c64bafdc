"""The sections of dispatcher.yaml, as pydantic models: every key with its meaning, unit, bounds and
default.

Each may be overridden by the environment: GLOBAL_DISPATCHER_HTTP__PORT=8080 sets `http.port`.
"""

from ipaddress import ip_network
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from dispatcher.scheduling.rebalancing.rules import RebalancingRules
from shared.model import names
from shared.model.bounds import REPORT_MIB
from shared.model.signals import NAME_PATTERN

ENV_PREFIX = "GLOBAL_DISPATCHER_"
ENV_NESTING = "__"
IN_CLUSTER = "in-cluster"  # a kubeconfig of this name means the pod's service account
CLUSTER_NAME = r"^[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?$"  # leaves room for the names of proxy nodes
CLUSTER_UID = r"^([A-Za-z0-9][-A-Za-z0-9]{0,62})?$"
PUBLIC_KEY = r"^([A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=)?$"  # base64 of 32 bytes, in its one spelling
TENANT_NAME = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
PATTERNS = {
    NAME_PATTERN: "must be lower case letters, digits and '_', at most 40, beginning with a letter",
    CLUSTER_NAME: "must be a DNS label (a-z, 0-9 and '-') of at most 42 characters",
    CLUSTER_UID: "must be what `kubectl get ns kube-system -o jsonpath={.metadata.uid}` says there",
    PUBLIC_KEY: "must be an Ed25519 public key in base64, 44 characters, as `global-dispatcher "
    "join` prints it",
    TENANT_NAME: "must be a DNS label (a-z, 0-9 and '-') of at most 63 characters",
}

Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]


class Section(BaseModel):
    """A section: no key that is not listed, never changed after it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ClusterSection(Section):
    """A member cluster and the agent that is started for it."""

    name: Annotated[str, Field(pattern=CLUSTER_NAME, description="name in the fleet, a DNS label")]
    context: Annotated[str, Field(description="kubeconfig context; empty: the current one")] = ""
    kubeconfig: Annotated[
        str, Field(description="path; empty: $KUBECONFIG, ~/.kube/config, or in-cluster")
    ] = ""
    agent: Annotated[dict[str, Any], Field(description="settings of this cluster's agent")] = {}
    uid: Annotated[
        str,
        Field(
            pattern=CLUSTER_UID,
            description="UID of its kube-system namespace; another cluster is kept out; empty: "
            "the first that is heard",
        ),
    ] = ""
    key: Annotated[
        str,
        Field(
            pattern=PUBLIC_KEY,
            description="public key it signs with; another counts if this one vouches for it; "
            "empty: what is heard",
        ),
    ] = ""
    network: Annotated[
        str,
        Field(
            pattern=CLUSTER_NAME,
            description="pod network that it is part of: pods of clusters with one name here "
            "reach each other by their "
            "IPs, which are then shown at home; own: no other cluster is part of it",
        ),
    ] = names.OWN_NETWORK
    report_mib: Annotated[
        int,
        Field(
            ge=1,
            le=1_048_576,
            description="MiB of the dispatcher's memory that what the cluster reports may take; a "
            "report beyond is not "
            "read, and the cluster counts as silent",
        ),
    ] = REPORT_MIB
    via: Annotated[
        Literal["ray", "gateway"],
        Field(
            description="ray: its agent is started here, as an actor; gateway: it has settings of "
            "its own (`agent`)"
        ),
    ] = "ray"


class RaySection(Section):
    """Ray, on which the agents run as actors."""

    address: Annotated[
        str,
        Field(
            description="address of a running Ray, whose nodes the agents are started on; empty: "
            "start one here"
        ),
    ] = ""
    port: Annotated[
        int,
        Field(
            ge=0,
            le=65_535,
            description="where agents that are started dial the dispatcher; 0: any free port",
        ),
    ] = 0
    object_store_mib: Annotated[
        int, Field(ge=75, le=1_048_576, description="MiB, for a Ray started here")
    ] = 80


class GatewaySection(Section):
    """Where agents of clusters with `via: gateway` dial in: one TLS port. Files are PEM, read again
    when changed.
    """

    host: Annotated[str, Field(min_length=1, description="address to listen on")] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535, description="0: any free port")] = 7443
    cert_file: Annotated[
        str, Field(description="certificate of the gateway, with the name that agents dial")
    ] = ""
    key_file: Annotated[str, Field(description="its key")] = ""
    client_ca_file: Annotated[
        str, Field(description="authorities that sign the clusters' certificates")
    ] = ""


class SigningSection(Section):
    """With which key the dispatcher signs what agents act on. Files are PEM, read again when
    changed.
    """

    cert_file: Annotated[
        str,
        Field(
            description="certificate with the URI spiffe://global-dispatcher.io/dispatcher, of "
            "the agents' ca_file"
        ),
    ] = ""
    key_file: Annotated[str, Field(description="its Ed25519 key; empty: nothing is signed")] = ""


class LoginSection(Section):
    """Who may read the HTTP API: those who show a token, and those whom a proxy names. Nothing set:
    everybody.
    """

    token_file: Annotated[
        str,
        Field(
            description="file of bearer tokens, one a line; read again when it changes; empty: none"
        ),
    ] = ""
    user_header: Annotated[
        str,
        Field(
            description="header in which an authenticating proxy names the user, like "
            "X-Forwarded-User"
        ),
    ] = ""
    proxies: Annotated[
        tuple[str, ...],
        Field(
            description="addresses of that proxy (10.1.2.3, 10.1.0.0/16); from others it means "
            "nothing"
        ),
    ] = ()

    @field_validator("proxies")
    @classmethod
    def _networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for one in value:
            ip_network(one)  # ValueError says what is wrong with it
        return value

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if bool(self.user_header) != bool(self.proxies):
            raise ValueError(
                "user_header and proxies go together: say which header, and from whom it is "
                "believed"
            )
        return self


class HttpSection(Section):
    """The HTTP API: health, metrics, explain, fleet."""

    host: Annotated[
        str, Field(min_length=1, description="address to listen on; loopback by default")
    ] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535, description="0: any free port")] = 7480
    login: LoginSection = LoginSection()


class JournalSection(Section):
    """The record of decisions, for explain and replay; never a source of truth."""

    path: Annotated[
        str, Field(description="decisions, for `global-dispatcher journal`; empty: none kept")
    ] = ""
    max_mib: Annotated[
        int, Field(ge=1, le=1_048_576, description="MiB before it is rotated once")
    ] = 64


class TracingSection(Section):
    """Traces of some pods' ways, by OpenTelemetry: the extra `otel`."""

    enabled: Annotated[
        bool, Field(description="send traces; needs pip install 'global-dispatcher[otel]'")
    ] = False
    share: Annotated[float, Field(ge=0, le=1, description="of the pods, chosen by their UIDs")] = (
        0.01
    )
    endpoint: Annotated[
        str,
        Field(
            pattern=r"^(https?://[^ ]+)?$",
            description="URL of a collector's OTLP/HTTP traces; empty: as "
            "OTEL_EXPORTER_OTLP_ENDPOINT says, else "
            "http://localhost:4318/v1/traces",
        ),
    ] = ""


class QuotaSection(Section):
    """What tenants use, through restarts."""

    ledger: Annotated[
        str, Field(description="file that remembers it; empty: nothing is remembered")
    ] = ""
    unheard: Annotated[
        Literal["wait", "ignore"],
        Field(
            description="what clusters use that are neither heard since the start nor remembered: "
            "pods of tenants with "
            "a quota wait for it, or it is ignored",
        ),
    ] = "wait"
    unlimited_profiles: Annotated[
        tuple[str, ...],
        Field(
            description="scheduler_name of profiles without TenantQuota: their pods pass the "
            "quota of tenants"
        ),
    ] = ()


class LeaderElectionSection(Section):
    """Which of several dispatchers of a fleet decides: the one that holds a Lease, as with
    kube-scheduler.
    """

    enabled: Annotated[bool, Field(description="false: there is never a second dispatcher")] = True
    kubeconfig: Annotated[
        str,
        Field(
            description="where the Lease is; empty: the first cluster; in-cluster: the pod's "
            "service account"
        ),
    ] = ""
    context: Annotated[
        str, Field(description="context of that kubeconfig; empty: its current one")
    ] = ""
    namespace: Annotated[str, Field(pattern=TENANT_NAME, description="of the Lease")] = (
        "kube-node-lease"
    )
    name: Annotated[str, Field(pattern=TENANT_NAME, description="of the Lease")] = (
        "global-dispatcher"
    )
    lease_s: Annotated[
        Seconds, Field(ge=1, description="others wait for that long after the last renewal")
    ] = 15.0
    renew_deadline_s: Annotated[
        Seconds, Field(description="not renewed for that long: the leader stops")
    ] = 10.0
    retry_s: Annotated[Seconds, Field(description="between two renewals, or attempts")] = 2.0
    leader_url: Annotated[
        str,
        Field(
            pattern=r"^(https?://[^/?#@\s]+)?$",
            description="where a standby asks what only the leader knows; {host}: its host name; "
            "empty: it answers 503",
        ),
    ] = ""
    warm: Annotated[
        bool,
        Field(description="a standby follows the fleet, and leads without asking for all of it"),
    ] = True


class ClusterProfilesSection(Section):
    """ClusterProfiles of a cluster manager, into whose status the leader writes what agents read of
    their clusters.
    """

    namespace: Annotated[
        str,
        Field(
            pattern=r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$",
            description="of the ClusterProfiles, by the API server that has the Lease; empty: "
            "none is written",
        ),
    ] = ""
    every_s: Annotated[Seconds, Field(ge=5, description="between two writes")] = 60.0


class LinkRow(Section):
    """The way between two clusters, in both directions."""

    clusters: Annotated[tuple[str, str], Field(description="names of the two")]
    rtt_ms: Annotated[
        float, Field(gt=0, le=60_000, allow_inf_nan=False, description="ms of a round trip")
    ]


class LinksSection(Section):
    """How far clusters are from each other, where agents do not measure it, and how long what they
    measure counts.
    """

    between: Annotated[
        tuple[LinkRow, ...],
        Field(description="round-trip times: {clusters: [a, b], rtt_ms: 40}; not measured, then"),
    ] = ()
    stale_s: Annotated[
        Seconds,
        Field(
            ge=10,
            description="what was measured counts that long; older is unknown, neither near nor "
            "far",
        ),
    ] = 120.0


def _written(value: object) -> object:
    """YAML takes a bare off or on for false or true."""
    return {False: "off", True: "on"}.get(value, value) if isinstance(value, bool) else value


_RULES = RebalancingRules()


class RebalancingSection(Section):
    """Moving pods off nodes that have been hot for long."""

    mode: Annotated[
        Literal["off", "dry_run", "on"],
        BeforeValidator(_written),
        Field(description="dry_run: say what would be moved, and move nothing"),
    ] = "off"
    signals: Annotated[
        tuple[Annotated[str, Field(pattern=NAME_PATTERN)], ...],
        Field(min_length=1, description="signals by which a node is hot"),
    ] = _RULES.signals
    hot: Annotated[
        float, Field(gt=0, le=1, description="a node is hot above that utilisation of any signal")
    ] = _RULES.hot
    cool: Annotated[
        float,
        Field(
            gt=0,
            lt=1,
            description="no more once all are below it; nor does a pod go where one is not",
        ),
    ] = _RULES.cool
    hot_s: Annotated[Seconds, Field(description="so long it must have been hot")] = _RULES.hot_s
    gain: Annotated[
        float,
        Field(
            gt=0,
            le=100,
            description="what a move must win, in points of the cost of a node (0..100)",
        ),
    ] = _RULES.gain
    moves_per_minute: Annotated[
        int,
        Field(
            ge=1,
            le=10_000,
            description="pods moved, of the whole fleet; of one cluster half while others have any",
        ),
    ] = _RULES.moves_per_minute
    under_way: Annotated[
        int, Field(ge=1, le=10_000, description="pods told to go and not placed anew yet")
    ] = _RULES.under_way
    rest_s: Annotated[
        Seconds, Field(description="a pod that came to its node less long ago stays")
    ] = _RULES.rest_s
    app_rest_s: Annotated[
        Seconds, Field(description="so does one of an app of which a pod was moved less long ago")
    ] = _RULES.app_rest_s

    @property
    def rules(self) -> RebalancingRules:
        """The same for the core. ValueError."""
        return RebalancingRules(**self.model_dump(exclude={"mode"}))


class LogSection(Section):
    """Logging, to standard error."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Field(description="the least severe lines that are written"),
    ] = "info"
    format: Annotated[
        Literal["auto", "text", "json"], Field(description="auto: text on a terminal")
    ] = "auto"


class TimingSection(Section):
    """How long the dispatcher waits for what, in seconds."""

    cluster_silent_s: Annotated[
        Seconds, Field(description="an agent without an answer for that long is silent")
    ] = 10.0
    cluster_lost_s: Annotated[
        Seconds, Field(description="NotReady that long: its proxy nodes are, too")
    ] = 30.0
    poll_wait_s: Annotated[
        Seconds, Field(description="how long an agent may hold a poll with nothing to say")
    ] = 3.0
    first_sync_s: Annotated[
        Seconds, Field(description="how long a start waits for a cluster's first report")
    ] = 20.0
    deadline_s: Annotated[
        Seconds, Field(description="an agent begins no intent later than that")
    ] = 20.0
    execute_s: Annotated[
        Seconds, Field(description="intents without an answer for that long are unanswered")
    ] = 30.0
    tick_s: Annotated[Seconds, Field(description="idle time between two scheduling rounds")] = 0.1
    absence_grace_s: Annotated[
        Seconds, Field(description="never seen for that long in a Ready cluster: gone")
    ] = 100.0
    peers_s: Annotated[
        Seconds, Field(description="how often proxy nodes are told the free room")
    ] = 5.0
    mirror_s: Annotated[
        float,
        Field(
            gt=0,
            le=10,
            description="statuses of one remote pod are so long apart, but for four at once, and "
            "ends",
        ),
    ] = 1.0
    start_s: Annotated[
        float,
        Field(
            ge=0,
            le=86_400,
            description="a remote pod of which no container has run that long moves on; 0: never",
        ),
    ] = 300.0
    node_wait_s: Annotated[
        float,
        Field(
            ge=0,
            le=3600,
            description="a pod for which a node group of its cluster makes a node evicts nobody "
            "for so long; 0: evicts at once",
        ),
    ] = 0.0
    group_s: Annotated[
        float,
        Field(
            ge=5,
            le=60,
            description="members of a group that have places and are not bound within that time "
            "give them back, all of them",
        ),
    ] = 60.0
    delegate_lease_s: Annotated[
        float,
        Field(
            ge=60,
            le=86_400,
            description="unrenewed for that long, failover mode lease stops delegates",
        ),
    ] = 120.0
    fenced_per_s: Annotated[
        float, Field(gt=0, le=10_000, description="pods let go each second of a fenced cluster")
    ] = 20.0
    evictions_abroad_per_s: Annotated[
        float,
        Field(
            gt=0,
            le=10_000,
            description="pods evicted each second in other clusters for pods of one cluster; 100 "
            "times as many at once",
        ),
    ] = 0.5
    reclaims_per_s: Annotated[
        float,
        Field(
            gt=0,
            le=10_000,
            description="pods evicted each second to give back quota that their tenants have "
            "borrowed; 50 times as many at once",
        ),
    ] = 1.0
    backoff_first_s: Annotated[
        Seconds, Field(description="first pause of a pod that failed; doubles")
    ] = 1.0
    backoff_longest_s: Annotated[Seconds, Field(description="longest such pause")] = 10.0
    unschedulable_flush_s: Annotated[
        Seconds, Field(description="a pod without a place is tried again")
    ] = 300.0


class ConfigFile(BaseSettings):
    """dispatcher.yaml. Paths in it are relative to the folder of the file."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        env_prefix=ENV_PREFIX,
        env_nested_delimiter=ENV_NESTING,
        nested_model_default_partial_update=True,
    )

    clusters: Annotated[tuple[ClusterSection, ...], Field(description="the member clusters")] = ()
    profile: Annotated[str, Field(description="profile file; empty: the built-in default")] = ""
    profiles: Annotated[
        tuple[str, ...], Field(description="several profile files, each its own scheduler_name")
    ] = ()
    plugin_files: Annotated[
        tuple[str, ...], Field(description="Python files that hold PLUGIN")
    ] = ()
    tenants: Annotated[
        str, Field(description="tenants file, read again when it changes; empty: nobody is limited")
    ] = ""
    ray: RaySection = RaySection()
    gateway: GatewaySection = GatewaySection()
    signing: SigningSection = SigningSection()
    http: HttpSection = HttpSection()
    journal: JournalSection = JournalSection()
    tracing: TracingSection = TracingSection()
    quota: QuotaSection = QuotaSection()
    leader_election: LeaderElectionSection = LeaderElectionSection()
    cluster_profiles: ClusterProfilesSection = ClusterProfilesSection()
    rebalancing: RebalancingSection = RebalancingSection()
    links: LinksSection = LinksSection()
    timing: TimingSection = TimingSection()
    log: LogSection = LogSection()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment before the file, nothing else."""
        return env_settings, init_settings
