"""The providers file: which program gives the credentials for which access provider of a
ClusterProfile.

The file's form, which provider is taken and what a ClusterProfile may add to the program's
arguments and environment are those of KEP-5339 and of its library
(sigs.k8s.io/cluster-inventory-api, pkg/access). The programs are named by this file alone: whoever
writes a ClusterProfile chooses among them, adds to one only where the file says so, and says which
server its token is shown to.
"""

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from dispatcher.service.errors import CommandError, ExitCode

Object = Mapping[str, Any]
_ARGS = "clusterprofiles.multicluster.x-k8s.io/exec/additional-args"
_ENVS = "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What a loader, a shell or an interpreter takes code from, and what we say ourselves.
_RESERVED = (
    *(
        "PATH",
        "LD_",
        "DYLD_",
        "GCONV_PATH",
        "BASH_",
        "ENV",
        "PYTHON",
        "NODE_",
        "PERL",
        "RUBY",
        "JAVA_",
        "DOTNET_",
    ),
    "KUBERNETES_EXEC_INFO",
)
# What a program reads its settings from, and whom it asks, by whom it goes there and whom it
# trusts; proxies are named in lower case, too.
_SETTINGS = frozenset(
    (
        *("HOME", "XDG_CONFIG_HOME", "KUBECONFIG", "CLOUDSDK_CONFIG", "AZURE_CONFIG_DIR"),
        *("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "OPENSSL_CONF", "OPENSSL_MODULES"),
        *("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "AZURE_AUTHORITY_HOST"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE"),
        "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
    )
)
_PLACES = ("CLOUDSDK_PROXY_", "CLOUDSDK_API_ENDPOINT_OVERRIDES_", "AWS_ENDPOINT_URL")


class _Variable(BaseModel):
    name: str = Field(min_length=1)
    value: str


class _Exec(BaseModel):
    """An `exec` section as in a kubeconfig; what concerns a terminal is left aside, as nobody sits
    at one.
    """

    model_config = ConfigDict(extra="forbid")
    api_version: Literal[
        "client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"
    ] = Field(alias="apiVersion")
    command: str = Field(min_length=1)
    args: list[str] | None = None
    env: list[_Variable] | None = None
    provide_cluster_info: bool = Field(False, alias="provideClusterInfo")
    interactive_mode: str | None = Field(None, alias="interactiveMode")
    install_hint: str | None = Field(None, alias="installHint")


class _Provider(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str = Field(min_length=1)
    exec_config: _Exec = Field(alias="execConfig")
    args_policy: Literal["", "Append", "Ignore"] = Field("", alias="profileSourcedCLIArgsPolicy")
    env_policy: Literal["", "AppendIfNotExists", "Replace", "Ignore"] = Field(
        "", alias="profileSourcedEnvVarsPolicy"
    )


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")
    providers: list[_Provider] = Field(min_length=1)

    @field_validator("providers")
    @classmethod
    def _named_once(cls, value: list[_Provider]) -> list[_Provider]:
        names = [one.name for one in value]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"there is more than one of {', '.join(sorted(twice))}: keep one")
        return value


@dataclass(frozen=True)
class Program:
    """What is run for credentials, in the terms of a kubeconfig's `exec`."""

    api_version: str
    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    knows_cluster: bool


class Providers:
    """The providers of a file, the first ones preferred."""

    def __init__(self, file: Path, providers: list[_Provider]) -> None:
        self._file = file
        self._providers = providers

    @classmethod
    def read(cls, file: Path) -> "Providers":
        """CommandError names the file, the key and what is wrong with it."""
        try:
            found = _File.model_validate(yaml.safe_load(file.read_text()))
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(
                f"{file}: {getattr(error, 'strerror', None) or error}", ExitCode.USAGE
            ) from None
        except (yaml.YAMLError, RecursionError) as error:
            raise CommandError(
                f"{file} is neither JSON nor YAML: {error}", ExitCode.USAGE
            ) from None
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "the file"
            raise CommandError(f"{file}: {where}: {first['msg']}", ExitCode.USAGE) from None
        return cls(file, found.providers)

    @property
    def names(self) -> list[str]:
        """Of all providers."""
        return [one.name for one in self._providers]

    def choose(self, offered: Mapping[str, Object]) -> tuple[str, Program] | None:
        """The first provider of the file that a profile offers, by name of its `cluster`; None if
        there is none.

        CommandError: what the profile adds has another form than it must.
        """
        for one in self._providers:
            if one.name in offered:
                return one.name, self._program(one, _extensions(offered[one.name]))
        return None

    def _program(self, provider: _Provider, added: Object) -> Program:
        one = provider.exec_config
        args = list(one.args or ())
        env = {variable.name: variable.value for variable in one.env or ()}
        if provider.args_policy == "Append":
            args += _words(added.get(_ARGS))
        if provider.env_policy in ("AppendIfNotExists", "Replace"):
            theirs = _variables(added.get(_ENVS))
            env = (
                {**theirs, **env}
                if provider.env_policy == "AppendIfNotExists"
                else {**env, **theirs}
            )
        # Found now, as a shell would: what is in the environment later does not choose the program.
        command = shutil.which(one.command)
        if command is None:
            raise CommandError(
                f"provider {provider.name}: there is no program {one.command} here, or in PATH"
            )
        return Program(
            one.api_version,
            str(Path(command).absolute()),
            tuple(args),
            env,
            one.provide_cluster_info,
        )


def _extensions(cluster: Object) -> dict[str, Any]:
    """The extensions of a `cluster` by name."""
    found = cluster.get("extensions")
    return {
        str(one.get("name")): one.get("extension")
        for one in (found if isinstance(found, list) else ())
        if isinstance(one, Mapping)
    }


def _words(found: object) -> list[str]:
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise CommandError(f"its extension {_ARGS} is no list of strings")
    return found


def _variables(found: object) -> dict[str, str]:
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(
        isinstance(one, str) for one in (*found, *found.values())
    ):
        raise CommandError(f"its extension {_ENVS} is no map of strings")
    if odd := sorted(name for name in found if not _may_be_set(name)):
        raise CommandError(
            f"its extension {_ENVS} may not set {', '.join(odd)}: that could choose what is run, "
            "or whom it trusts"
        )
    return found


def _may_be_set(name: str) -> bool:
    reserved = name.startswith((*_RESERVED, *_PLACES)) or name.upper() in _SETTINGS
    return bool(_NAME.fullmatch(name)) and not reserved
