"""The shape of a KubeSchedulerConfiguration, as pydantic models with the file's own keys."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Percentage = Annotated[int, Field(ge=0, le=100)]


class KubeSection(BaseModel):
    """A part of the file: no key that kube-scheduler does not have."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)


class EnabledPlugin(KubeSection):
    """A plugin to switch on; `weight` is for scores, none or 0 means 1."""

    name: str
    weight: Annotated[int | None, Field(ge=0, le=1000)] = None


class DisabledPlugin(KubeSection):
    """A plugin to switch off; * is all that are on by default."""

    name: str


class PluginSet(KubeSection):
    """What changes at one extension point."""

    enabled: tuple[EnabledPlugin, ...] = ()
    disabled: tuple[DisabledPlugin, ...] = ()


class Plugins(KubeSection):
    """Extension point -> what changes there; `multi_point` stands for all points of a plugin."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()


class PluginConfig(KubeSection):
    """Arguments of one plugin."""

    name: str
    args: dict[str, Any] = {}


class KubeProfile(KubeSection):
    """Plugins and arguments under one schedulerName."""

    scheduler_name: str = ""
    percentage_of_nodes_to_score: Percentage | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()


class KubeConfiguration(KubeSection):
    """The whole file. Keys of type Any are about kube-scheduler's process and mean nothing here."""

    api_version: Literal["kubescheduler.config.k8s.io/v1"]
    kind: Literal["KubeSchedulerConfiguration"]
    profiles: tuple[KubeProfile, ...] = ()
    percentage_of_nodes_to_score: Percentage | None = None
    pod_initial_backoff_seconds: Annotated[int | None, Field(gt=0, le=86_400)] = None
    pod_max_backoff_seconds: Annotated[int | None, Field(gt=0, le=86_400)] = None
    extenders: tuple[Any, ...] = ()
    parallelism: Any = None
    leader_election: Any = None
    client_connection: Any = None
    enable_profiling: Any = None
    enable_contention_profiling: Any = None
    delay_cache_until_active: Any = None


# What is about the process of kube-scheduler, not about decisions.
PROCESS_KEYS = (
    "parallelism",
    "leader_election",
    "client_connection",
    "enable_profiling",
    "enable_contention_profiling",
    "delay_cache_until_active",
)
