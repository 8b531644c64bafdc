"""Bodies and answers: decoding what was sent, encoding what is sent back."""

from typing import Any

import msgspec
import yaml
from aiohttp import web

from agents.embedded.apiserver import protobuf
from agents.embedded.apiserver.resources import RESOURCES
from agents.embedded.apiserver.status import ApiError, Object, bad_request

JSON = "application/json"
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def answer(obj: Object, status: int = 200) -> web.Response:
    """An object as JSON."""
    return raw(_encode(obj), status)


def raw(body: bytes, status: int = 200) -> web.Response:
    """JSON that is encoded already."""
    return web.Response(body=body, status=status, content_type=JSON)


def refusal(error: ApiError) -> web.Response:
    """A Status as JSON, with Retry-After where the real server sends it."""
    response = answer(error.status, error.code)
    wait = error.status.get("details", {}).get("retryAfterSeconds")
    if wait:
        response.headers["Retry-After"] = str(wait)
    return response


async def body(request: web.Request) -> Any:
    """The decoded body, JSON or YAML; None if it is empty."""
    sent = await request.read()
    if not sent:
        return None
    if request.content_type == protobuf.MEDIA_TYPE:
        return protobuf.read(sent, _type_name)
    try:
        if "yaml" in request.content_type:
            return _from_yaml(sent)
        return _decode(sent)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None


# sent, but not stored: what bodies of POST on subresources and of DELETE are
_SENT_TYPES = {
    "Binding": "core.v1.Binding",
    "DeleteOptions": "meta.v1.DeleteOptions",
    "Eviction": "policy.v1.Eviction",
    "Scale": "autoscaling.v1.Scale",
}


def _type_name(version: str, kind: str) -> str | None:
    for row in RESOURCES.values():
        if row.kind == kind and row.api_version == version:
            return row.type_name
    return _SENT_TYPES.get(kind)


def _from_yaml(sent: bytes) -> Any:
    # kubectl sends JSON, which is YAML, under the name of YAML; the fast way comes first.
    try:
        return _decode(sent)
    except msgspec.DecodeError:
        pass
    try:
        document = yaml.load(sent, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError) as error:
        raise bad_request(f"yaml: {str(error)[:500]}") from None
    # Through JSON once, so that only JSON's types remain.
    return _decode(_encode(document))


class _Loader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: no aliases (a small text could stand for a huge one), timestamps stay text."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse aliases."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not accepted")
        return super().compose_node(parent, index)


_Loader.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
