"""Bodies and answers: decoding what was sent, encoding what is sent back."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml
from aiohttp import web

from localfleet.embedded.apiserver.metadata import UNREADABLE
from localfleet.embedded.apiserver.resources import RESOURCES
from localfleet.embedded.apiserver.show import protobuf
from localfleet.embedded.apiserver.status import ApiError, Object, bad_request

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


async def body(request: web.Request, how: str = UNREADABLE) -> Any:
    """The decoded body, JSON or YAML; None if it is empty, and null is an empty object.

    ApiError 400 begins with `how` and says why it cannot be read; where `how` ends as a sentence
    does, it is all.
    """
    sent = await request.read()
    if not sent:
        return None
    decoded = _decoded(request, sent, how)
    return {} if decoded is None else decoded


def _decoded(request: web.Request, sent: bytes, how: str) -> Any:
    if request.content_type == protobuf.MEDIA_TYPE:
        return protobuf.read(sent, _type_name)
    try:
        if "yaml" in request.content_type:
            return _from_yaml(sent)
        return _decode(sent)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = "unexpected end of JSON input" if "truncated" in str(error) else str(error)
        raise bad_request(how + why if not how or how.endswith(" ") else how) from None


class _Members(list[tuple[str, Any]]):
    """The members of a JSON object in their order, the repeated ones too."""


async def repeated(request: web.Request) -> list[str]:
    """Paths of the fields that a JSON body gives twice."""
    try:
        document = json.loads(await request.read(), object_pairs_hook=_Members)
    except (ValueError, RecursionError):
        return []
    return list(_repeated(document, ""))


def _repeated(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Members):
        seen: set[str] = set()
        for key, item in value:
            here = f"{path}.{key}" if path else key
            if key in seen:
                yield here
            seen.add(key)
            yield from _repeated(item, here)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _repeated(item, f"{path}[{index}]")


# sent, but not stored: what bodies of POST on subresources and of DELETE are
_SENT_TYPES = {
    "Binding": "core.v1.Binding",
    "DeleteOptions": "meta.v1.DeleteOptions",
    "Eviction": "policy.v1.Eviction",
    "Scale": "autoscaling.v1.Scale",
    **{
        kind: f"authorization.v1.{kind}"
        for kind in ("SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview")
    },
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
    """YAML as Kubernetes reads it: no aliases (a small text could stand for a huge one), timestamps
    stay text.
    """

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse aliases."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not accepted")
        return super().compose_node(parent, index)


_Loader.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
