"""The types of a pod's fields, as far as they are read here: a manifest of another cluster is
signed by that cluster, and may hold anything. What is copied and never read is for the API server.
"""

import re

import msgspec

from agents.executor.crossing.pod_fields import ManifestError


class _Struct(msgspec.Struct, rename="camel", gc=False):
    pass


class _Reference(_Struct):
    name: str | None = None
    key: str | None = None
    optional: bool | None = None


class _FieldReference(_Struct):
    field_path: str


class _ValueFrom(_Struct):
    config_map_key_ref: _Reference | None = None
    secret_key_ref: _Reference | None = None
    field_ref: _FieldReference | None = None


class _Variable(_Struct):
    name: str
    value: str | None = None
    value_from: _ValueFrom | None = None


class _Variables(_Struct):
    config_map_ref: _Reference | None = None
    secret_ref: _Reference | None = None


class _Mount(_Struct):
    name: str


_Amounts = dict[str, str | int | float]


class _Resources(_Struct):
    requests: _Amounts | None = None
    limits: _Amounts | None = None


class _Address(_Struct):
    host: str | None = None


class _Handler(_Struct):
    http_get: _Address | None = None
    tcp_socket: _Address | None = None


class _Lifecycle(_Struct):
    post_start: _Handler | None = None
    pre_stop: _Handler | None = None


class _Container(_Struct):
    name: str
    image: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[_Variable] | None = None
    env_from: list[_Variables] | None = None
    resources: _Resources | None = None
    volume_mounts: list[_Mount] | None = None
    liveness_probe: _Handler | None = None
    readiness_probe: _Handler | None = None
    startup_probe: _Handler | None = None
    lifecycle: _Lifecycle | None = None


class _Item(_Struct):
    key: str | None = None
    field_ref: _FieldReference | None = None


class _Files(_Struct):
    name: str | None = None
    secret_name: str | None = None
    items: list[_Item] | None = None
    optional: bool | None = None


class _Token(_Struct):
    audience: str | None = None


class _Source(_Struct):
    config_map: _Files | None = None
    secret: _Files | None = None
    downward_api: _Files | None = msgspec.field(default=None, name="downwardAPI")
    service_account_token: _Token | None = None


class _Projected(_Struct):
    sources: list[_Source] | None = None


class _Directory(_Struct):
    medium: str | None = None


class _Volume(_Struct):
    name: str
    empty_dir: _Directory | None = None
    config_map: _Files | None = None
    secret: _Files | None = None
    downward_api: _Files | None = msgspec.field(default=None, name="downwardAPI")
    projected: _Projected | None = None


class _Toleration(_Struct):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class _Spec(_Struct):
    containers: list[_Container]
    init_containers: list[_Container] | None = None
    ephemeral_containers: list[_Container] | None = None
    volumes: list[_Volume] | None = None
    tolerations: list[_Toleration] | None = None
    resources: _Resources | None = None
    active_deadline_seconds: int | None = None
    termination_grace_period_seconds: int | None = None
    service_account_name: str | None = None
    service_account: str | None = None
    automount_service_account_token: bool | None = None
    priority_class_name: str | None = None
    priority: int | None = None
    image_pull_secrets: list[_Reference] | None = None
    hostname: str | None = None
    hostname_override: str | None = None
    subdomain: str | None = None
    set_hostname_as_fqdn: bool | None = msgspec.field(default=None, name="setHostnameAsFQDN")


class _Owner(_Struct):
    kind: str
    controller: bool | None = None


class _Metadata(_Struct):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    owner_references: list[_Owner] | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Manifest(_Struct):
    metadata: _Metadata
    spec: _Spec


_DECODER = msgspec.json.Decoder(_Manifest)
_WHERE = re.compile(r" - at `(?:key in )?\$\.?(.{0,200}?)`$", re.DOTALL)


def check(manifest: bytes) -> None:
    """ManifestError that names the first field of a manifest (JSON) that has another type than
    Kubernetes' API gives it.
    """
    try:
        _DECODER.decode(manifest)
    except msgspec.ValidationError as error:
        said = str(error)
        where = _WHERE.search(said)
        field = (where[1] if where is not None else "") or "pod"
        what = said[: where.start()] if where is not None else said
        raise ManifestError(field, f"is none that a pod may have ({what[:200]})") from None
    except msgspec.MsgspecError as error:
        raise ManifestError("pod", f"is no JSON ({str(error)[:200]})") from None
