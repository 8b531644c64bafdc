"""What one agent is told when it starts. Times are seconds, sizes as said."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from agents.executor.crossing.policy import HIGHEST_OF_USERS, LEAST_REMOVE_AFTER_S, Allowance
from agents.observer.rates import MAX_VALUE
from agents.observer.signals import Signal, with_base
from agents.runtime.link_settings import LinkSettings
from agents.runtime.seconds import Seconds
from agents.runtime.telemetry_settings import TelemetrySettings
from shared.model.bounds import HIGHEST_PRIORITY
from shared.model.names import CARRIED_ANNOTATIONS, KUBELET_ACCOUNT, PREFIX
from shared.model.signals import MAX_SIGNALS, NAME_PATTERN


class KubeletSettings(BaseModel):
    """How node readings are taken."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    interval_s: Seconds = Field(
        default=15.0, ge=0.1, description="Seconds between two questions to one kubelet."
    )
    timeout_s: Seconds = Field(
        default=5.0, gt=0, description="Seconds one kubelet may take to answer."
    )
    concurrency: int = Field(default=32, ge=1, description="Kubelets asked at once.")
    smoothing_s: Seconds = Field(
        default=10.0, ge=0, description="Time constant of the moving average of rates; 0: none."
    )
    ca_file: str = Field(
        default="", description="CA of the kubelets' certificates; empty: the cluster's CA."
    )
    insecure: bool = Field(
        default=False,
        description="Send that token to kubelets whose certificate cannot be verified. Only where "
        "nobody listens.",
    )
    account: str = Field(
        default=KUBELET_ACCOUNT,
        pattern=r"^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-.a-z0-9]*[a-z0-9])?$",
        description="NAMESPACE/NAME of a ServiceAccount that may get nodes/stats and "
        "nodes/metrics, and nothing else:"
        " kubelets are shown its tokens, never the agent's own. An agent with a client "
        "certificate shows that.",
    )
    bandwidth: int = Field(
        default=0,
        ge=0,
        description="Bytes/s per direction of nodes without global-dispatcher.io/bandwidth; 0: "
        "unknown.",
    )


class SignalSettings(BaseModel):
    """A signal of live load beside cpu, memory and network, or another way to make one of these."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=NAME_PATTERN, description="What profiles call it.")
    of: tuple[str, ...] = Field(
        default=(),
        description="Measures of the sources, of which the largest counts (network_receive, "
        "network_transmit, disk, "
        "pressure_cpu, pressure_memory, pressure_io, disk_busy, gpu, gpu_memory); empty: the one "
        "of the same name.",
    )
    per: Literal["cpu", "memory", "bandwidth"] | float = Field(
        default=1.0,
        description="What is full: that of the node, or a number above 0 in the unit of the "
        "measure.",
    )
    smoothed: bool = Field(
        default=False, description="Whether a moving average counts; see kubelet.smoothing_s."
    )

    @field_validator("per")
    @classmethod
    def _above_zero(cls, value: str | float) -> str | float:
        if isinstance(value, float) and not 0 < value < MAX_VALUE:
            raise ValueError("must be cpu, memory, bandwidth or a number above 0")
        return value

    def signal(self) -> Signal:
        """As the observer knows it."""
        return Signal(self.name, self.of or (self.name,), self.per, self.smoothed)


class ApiSettings(BaseModel):
    """How patient the agent is with its API server."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    connect_s: Seconds = Field(default=3.0, gt=0, description="Seconds to connect.")
    request_s: Seconds = Field(default=10.0, gt=0, description="Seconds for one call.")
    list_s: Seconds = Field(
        default=60.0,
        gt=0,
        description="Seconds for one page of a list; one that stands still for 15 s is asked for "
        "once more.",
    )
    silence_s: Seconds = Field(
        default=28.0,
        gt=0,
        description="A watch without event or bookmark for so long is opened anew; more than "
        "twice watch_s.",
    )
    watch_s: Seconds = Field(
        default=13.0,
        ge=1,
        description="Seconds after which the server shall end a watch (up to double); it goes on "
        "from there.",
    )
    truth_s: Seconds = Field(
        default=10.0,
        gt=0,
        description="Seconds between two comparisons of each watch with its server.",
    )
    restored_hold_s: float = Field(
        default=600.0,
        ge=0,
        le=604_800,
        description="Seconds for which an API server that went back in time is held, unless an "
        "operator confirms.",
    )
    probe_s: Seconds = Field(
        default=2.0, gt=0, description="Seconds between two probes of /version."
    )
    probe_timeout_s: Seconds = Field(default=3.0, gt=0, description="Seconds a probe may take.")
    grace_s: Seconds = Field(
        default=5.0,
        gt=0,
        description="Seconds without a good answer until the API server counts as lost.",
    )
    backoff_s: Seconds = Field(
        default=0.25, gt=0, description="First pause after an error; doubles."
    )
    max_backoff_s: Seconds = Field(default=5.0, gt=0, description="Longest pause after errors.")
    page: int = Field(default=500, ge=1, description="Objects a page of a list.")


class AcceptSettings(BaseModel):
    """One row of consent: pods of these source clusters and namespaces may run here, if a namespace
    of the same name is here, too, and not closed; and what more may cross with them. Shell
    patterns.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    clusters: tuple[str, ...] = Field(
        default=("*",), min_length=1, description="Names of source clusters."
    )
    namespaces: tuple[str, ...] = Field(
        default=("*",), min_length=1, description="Namespaces there."
    )
    allow: tuple[Allowance, ...] = Field(
        default=(), description="What may cross beyond Pod Security's baseline."
    )
    secrets: tuple[str, ...] = Field(
        default=(), description="Secrets of this cluster that such pods may refer to."
    )
    secrets_follow: tuple[str, ...] = Field(
        default=(),
        description="Secrets of which copies are made here, where their owners let them follow "
        "pods; goes before secrets.",
    )
    annotations: tuple[str, ...] = Field(
        default=CARRIED_ANNOTATIONS,
        description="Keys of annotations that are kept, and of labels that steer meshes, networks "
        "and identities;"
        " annotations without a domain are kept in any case.",
    )
    tolerations: tuple[str, ...] = Field(
        default=(),
        description='Keys kept of node-role.kubernetes.io/; "*": also tolerations without a key.',
    )
    service_accounts: tuple[str, ...] = Field(
        default=(), description="ServiceAccounts whose pods run here without its token and rights."
    )
    local_accounts: tuple[str, ...] = Field(
        default=(),
        description="ServiceAccounts of this cluster that such pods run as, by its name and with its "
        "tokens, also `default`; goes before service_accounts.",
    )
    services: Literal["", "none"] = Field(
        default="",
        description="none: such pods call no Services of their namespace; those need not be here.",
    )
    max_priority: int = Field(
        default=HIGHEST_OF_USERS,
        ge=-(2**31),
        le=HIGHEST_PRIORITY,
        description="Highest value of a PriorityClass of this cluster that such pods have by its "
        "name.",
    )
    priority: Literal["", "none"] = Field(
        default="",
        description="none: a PriorityClass that is lacking here, or higher than max_priority, is "
        "left behind; else"
        " such pods are refused.",
    )


class ForeignBytesSettings(BaseModel):
    """MiB of pods of one other cluster, and of one namespace of it, that may be here and be made in
    a minute.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    namespace_mib: int = Field(
        default=256, ge=1, description="MiB of pods of one namespace of another cluster."
    )
    cluster_mib: int = Field(default=512, ge=1, description="MiB of pods of one other cluster.")
    namespace_mib_per_minute: int = Field(
        default=64, ge=1, description="MiB made a minute, of one such namespace."
    )
    cluster_mib_per_minute: int = Field(
        default=128, ge=1, description="MiB made a minute, of one other cluster."
    )


class NamespaceSettings(BaseModel):
    """Namespaces that are made in this cluster for pods of others that `accept` lets in."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    create: tuple[str, ...] = Field(
        default=(),
        description="Names, as patterns, of namespaces that are made where they are missing.",
    )
    labels: dict[str, str] = Field(
        default={},
        max_length=64,
        description="Labels that they get, such as those of Pod Security.",
    )
    most: int = Field(
        default=100,
        ge=1,
        le=10_000,
        description="How many of them may stand here at once; for one other cluster half as many.",
    )
    remove_after_s: float = Field(
        default=0.0,
        ge=0,
        le=604_800,
        description="Seconds after which one that no order has named, that nobody has written to, "
        "and that is empty, is removed, at least 300; 0: never.",
    )

    @model_validator(mode="after")
    def _sound(self) -> Self:
        for key in self.labels:
            if key.startswith(PREFIX) or key == "kubernetes.io/metadata.name":
                raise ValueError(f"namespaces.labels: {key[:80]!r} is not yours to set")
        if 0 < self.remove_after_s < LEAST_REMOVE_AFTER_S:
            raise ValueError(f"namespaces.remove_after_s is 0 or at least {LEAST_REMOVE_AFTER_S:g}")
        return self


class ExecutorOptions(BaseModel):
    """How the writing half works."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    concurrency: int = Field(default=16, ge=1, description="Intents carried out at once.")
    peer_ttl_s: Seconds = Field(
        default=60.0, gt=0, description="Seconds that word of a cluster is good for new pods."
    )
    accept: tuple[AcceptSettings, ...] = Field(
        default=(AcceptSettings(),),
        description="Consent, any row suffices: docs/crossing.md, keys below.",
    )
    closed: tuple[str, ...] = Field(
        default=(),
        description="Namespaces that take no pods of other clusters; patterns. kube-* never do.",
    )
    relay: Literal["all", "logs", "none"] = Field(
        default="logs",
        description="What other clusters may ask of their pods here: logs and usage; all: exec "
        "and port-forward, too.",
    )
    evict_foreign: bool = Field(
        default=False, description="Other schedulers' pods may be evicted for higher priority."
    )
    foreign_bytes: ForeignBytesSettings = Field(
        default=ForeignBytesSettings(),
        description="How large pods of other clusters, with copies of their ConfigMaps, may be "
        "here, all together.",
    )
    namespaces: NamespaceSettings = Field(
        default=NamespaceSettings(),
        description="Namespaces that are made here for pods of other clusters.",
    )
    services: bool = Field(
        default=False,
        description="Services of the namespaces of pods that go to or come from clusters of the same "
        "pod network (`network`) are given to these, and made here.",
    )


class NodeGroupSettings(BaseModel):
    """Which node groups of this cluster's autoscalers are told of (docs/autoscalers.md)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    read: bool = Field(
        default=False,
        description="Node groups of Cluster API are read and told to the dispatcher; the agent "
        "needs the right to list them.",
    )
    cluster: str = Field(
        default="",
        max_length=253,
        description="Name of this cluster's own Cluster object, as `spec.clusterName` of its "
        "groups has it; with `read`.",
    )
    namespace: str = Field(
        default="",
        pattern=r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$",
        description="Namespace in which its groups are; empty: looked for in all.",
    )
    all: bool = Field(
        default=False,
        description="Nothing else makes nodes here: a pod that is larger than the nodes of every "
        "group is helped by no new node.",
    )

    @model_validator(mode="after")
    def _named(self) -> Self:
        if self.read and not self.cluster:
            raise ValueError(
                "node_groups.cluster: name this cluster's own Cluster object, as spec.clusterName "
                "of its MachineDeployments has it; where others are managed from here, theirs are "
                "not its"
            )
        return self


class OrderSettings(BaseModel):
    """Whose orders are obeyed: those that a dispatcher has signed whom the authorities have
    certified.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    ca_file: str = Field(
        default="",
        description="Authorities of the dispatcher's signing certificate (PEM), with their "
        "revocation lists if there "
        "are any; empty: `gateway.ca_file`.",
    )
    authority: str = Field(
        default="", description="The same as text, where an agent is started with its settings."
    )
    unsigned: Literal["refuse", "take"] = Field(
        default="refuse",
        description="What happens to orders without a signature where there are authorities.",
    )
    clock_skew_s: float = Field(
        default=60.0,
        ge=1,
        le=3600,
        description="Seconds that the clocks of agent and dispatcher may differ by.",
    )

    @property
    def verified(self) -> bool:
        """Whether there are authorities."""
        return bool(self.ca_file or self.authority)


class MetricsSettings(BaseModel):
    """Where the agent serves its metrics."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(
        default=False, description="Whether the agent serves /metrics (docs/reference/metrics.md)."
    )
    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(
        default=7482,
        ge=0,
        le=65_535,
        description="Port, another one for each agent of a machine; 0: any free one.",
    )


class AgentSettings(BaseModel):
    """One agent: whose it is, how it gets in, how often it looks."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cluster: str = Field(
        pattern=r"^[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?$",
        description="Name of the cluster in the fleet, a DNS label.",
    )
    rename_from: str = Field(
        default="",
        pattern=r"^([a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?)?$",
        description="Name under which the cluster was served before: taken over once no remote "
        "pod is there.",
    )
    role: Literal["both", "observer", "executor"] = Field(
        default="both",
        description="What this process is: the observer, which reads and reports; the executor, "
        "which writes; or both.",
    )
    kubeconfig: str = Field(
        default="", description="File with the credentials; empty: the pod's own service account."
    )
    context: str = Field(default="", description="Context of that file; empty: its current one.")
    api: ApiSettings = Field(default_factory=ApiSettings)
    kubelet: KubeletSettings = Field(default_factory=KubeletSettings)
    signals: tuple[SignalSettings, ...] = Field(
        default=(),
        max_length=MAX_SIGNALS,
        description="Signals of live load beside cpu, memory and network; keys below.",
    )
    telemetry: TelemetrySettings = Field(default_factory=TelemetrySettings)
    links: LinkSettings = Field(default_factory=LinkSettings)
    executor: ExecutorOptions = Field(default_factory=ExecutorOptions)
    orders: OrderSettings = Field(default_factory=OrderSettings)
    metrics: MetricsSettings = Field(default_factory=MetricsSettings)
    node_groups: NodeGroupSettings = Field(default_factory=NodeGroupSettings)
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe log line of the agent's own process."
    )
    log_file: str = Field(
        default="",
        description="Where these lines go; empty: standard error. Moved aside at 16 MiB, three "
        "times.",
    )
    key_file: str = Field(
        default="",
        description="PEM file with the cluster's Ed25519 keys; empty: one in ~/.local/state, made "
        "at the first start.",
    )
    coalesce_s: Seconds = Field(
        default=0.02,
        ge=0,
        description="Seconds a change waits for company before it is sent; up to five times that "
        "while no pod waits, "
        "ten times while all that changes is that pods show where they were bound to.",
    )
    max_graves: int = Field(
        default=20_000,
        ge=1,
        description="Deleted objects remembered for followers that are behind.",
    )

    @model_validator(mode="after")
    def _order(self) -> Self:
        known = [signal.name for signal in self.all_signals()]
        for name in self.telemetry.order.keys() - {"default", *known}:
            raise ValueError(
                f"telemetry.order names {name[:40]!r}, which is no signal: {', '.join(known)}, "
                "default"
            )
        return self

    def all_signals(self) -> tuple[Signal, ...]:
        """What is told of every node: the usual signals, those by queries, and those that are
        named.
        """
        return with_base((*self.telemetry.signals(), *(one.signal() for one in self.signals)))
