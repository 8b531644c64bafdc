"""agent.yaml: what a joining agent is told, and what is wrong with it."""

from collections.abc import Mapping
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from agents.runtime.outbound.settings import GatewaySettings
from agents.runtime.relay.settings import RelaySettings
from agents.runtime.seconds import Seconds
from agents.runtime.settings import AgentSettings
from shared.process.file_paths import beside, with_whole_paths
from shared.streams.calls import BOTH

MAX_FILE = 2**20


class Ports(BaseModel):
    """Every port that this Ray node listens on: other nodes must reach it there, both ways."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    node_manager: int = Field(default=6380, ge=1024, le=65_535, description="As `--node-manager-port` of `ray start`.")
    object_manager: int = Field(
        default=6381, ge=1024, le=65_535, description="As `--object-manager-port` of `ray start`."
    )
    dashboard_agent_grpc: int = Field(
        default=6382, ge=1024, le=65_535, description="As `--dashboard-agent-grpc-port` of `ray start`."
    )
    dashboard_agent_listen: int = Field(
        default=6383, ge=1024, le=65_535, description="As `--dashboard-agent-listen-port` of `ray start`."
    )
    runtime_env_agent: int = Field(
        default=6384, ge=1024, le=65_535, description="As `--runtime-env-agent-port` of `ray start`."
    )
    metrics_export: int = Field(
        default=6385, ge=1024, le=65_535, description="As `--metrics-export-port` of `ray start`."
    )
    min_worker: int = Field(default=10_100, ge=1024, le=65_535, description="First port of Ray's processes.")
    max_worker: int = Field(default=10_149, ge=1024, le=65_535, description="Last port of Ray's processes.")


class RayNodeSettings(BaseModel):
    """The Ray node. Times are seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    address: str = Field(pattern=r"^[^:/\s]+:[0-9]{1,5}$", description="host:port of the fleet's Ray head.")
    node_ip: str = Field(default="", description="IP or name at which other nodes reach this one; empty: found by Ray.")
    object_store_mib: int = Field(default=80, ge=75, le=1_048_576, description="MiB of shared memory.")
    temp_dir: str = Field(default="", description="Folder for Ray's files, one a node; empty: Ray's choice.")
    wait_s: Seconds = Field(default=300.0, gt=0, description="How long to wait for the head at the start.")
    join_s: Seconds = Field(default=90.0, gt=0, description="How long joining may take until the actor first answers.")
    lost_s: Seconds = Field(default=30.0, gt=0, description="Node, head or actor silent for that long: give up.")
    ports: Ports = Field(default_factory=Ports)


class HealthSettings(BaseModel):
    """Where /livez and /readyz are served."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(default=7481, ge=0, le=65_535, description="Port; 0: any free one.")


class JoinSettings(AgentSettings):
    """agent.yaml: the agent's settings and its way to the dispatcher: a gateway, or a Ray node of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ray: RayNodeSettings | None = None
    gateway: GatewaySettings | None = None
    health: HealthSettings = Field(default_factory=HealthSettings)
    relay: RelaySettings | None = None

    @model_validator(mode="after")
    def _one_way(self) -> "JoinSettings":
        if (self.ray is None) == (self.gateway is None):
            raise ValueError("give either gateway (the agent dials out) or ray (the agent joins a Ray cluster)")
        if self.role != BOTH and self.gateway is None:
            raise ValueError("role needs gateway: an agent that is a Ray node is one process, observer and executor")
        if self.relay is not None and self.gateway is None:
            raise ValueError("relay needs gateway: streams between clusters go over the gateway alone")
        return self

    @property
    def node(self) -> RayNodeSettings:
        """The Ray node's; TypeError where the agent dials out."""
        if self.ray is None:
            raise TypeError("this agent has no Ray node")
        return self.ray

    @property
    def agent(self) -> AgentSettings:
        """What the agent itself is told."""
        told = self.model_dump(exclude={"ray", "gateway", "health", "relay"})
        if self.gateway is not None and not self.orders.verified:
            told["orders"]["ca_file"] = self.gateway.ca_file
        return AgentSettings.model_validate(told)


class WrongConfiguration(ValueError):  # noqa: N818 - reads as what happened
    """What is wrong with the file or the environment; a line each."""


def read_settings(path: Path, instead: Mapping[str, object] | None = None) -> JoinSettings:
    """The settings of a file, with whole paths and others `instead` of some; WrongConfiguration names file, key and
    problem.
    """
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_FILE + 1)
        if len(raw) > MAX_FILE:
            raise WrongConfiguration(f"{path}: is larger than {MAX_FILE} bytes")
        found = yaml.safe_load(raw) or {}
        if isinstance(found, dict):
            found = {**with_whole_paths(found, beside(path)), **(instead or {})}
        return JoinSettings.model_validate(found)
    except OSError as error:
        raise WrongConfiguration(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)
        lines = [
            f"{path}: {'.'.join(map(str, one['loc'])) or 'file'}: {one['msg'].removeprefix('Value error, ')}"
            for one in wrong
        ]
        raise WrongConfiguration("\n".join(lines)) from None
    except WrongConfiguration:
        raise
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # a date that is none is a ValueError
        raise WrongConfiguration(f"{path}: is no YAML: {' '.join(str(error).split())}") from None
