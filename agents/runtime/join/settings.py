"""agent.yaml: what an agent is told, and what is wrong with it."""

from collections.abc import Mapping
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents.runtime.outbound.settings import GatewaySettings
from agents.runtime.relay.settings import RelaySettings
from agents.runtime.settings import AgentSettings
from shared.process.file_paths import relative_to, with_whole_paths

MAX_FILE = 2**20


class HealthSettings(BaseModel):
    """Where /livez and /readyz are served."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(default=7481, ge=0, le=65_535, description="Port; 0: any free one.")


class JoinSettings(AgentSettings):
    """agent.yaml: the agent's settings, and the gateway that it dials."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gateway: GatewaySettings
    health: HealthSettings = Field(default_factory=HealthSettings)
    relay: RelaySettings | None = None

    @property
    def agent(self) -> AgentSettings:
        """What the agent itself is told."""
        told = self.model_dump(exclude={"gateway", "health", "relay"})
        if not self.orders.verified:
            told["orders"]["ca_file"] = self.gateway.ca_file
        return AgentSettings.model_validate(told)


class WrongConfiguration(ValueError):  # noqa: N818 - reads as what happened
    """What is wrong with the file or the environment; a line each."""


def read_settings(path: Path, instead: Mapping[str, object] | None = None) -> JoinSettings:
    """The settings of a file, with whole paths and others `instead` of some; WrongConfiguration
    names file, key and problem.
    """
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_FILE + 1)
        if len(raw) > MAX_FILE:
            raise WrongConfiguration(f"{path}: is larger than {MAX_FILE} bytes")
        found = yaml.safe_load(raw) or {}
        if isinstance(found, dict):
            found = {**with_whole_paths(found, relative_to(path)), **(instead or {})}
        return JoinSettings.model_validate(found)
    except OSError as error:
        raise WrongConfiguration(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)
        lines = [
            f"{path}: {'.'.join(map(str, one['loc'])) or 'file'}: "
            f"{one['msg'].removeprefix('Value error, ')}"
            for one in wrong
        ]
        raise WrongConfiguration("\n".join(lines)) from None
    except WrongConfiguration:
        raise
    except (
        yaml.YAMLError,
        RecursionError,
        ValueError,
    ) as error:  # a date that is none is a ValueError
        raise WrongConfiguration(f"{path}: is no YAML: {' '.join(str(error).split())}") from None
