"""Secrets whose text tells whose it is, and by whose mark it is found wherever it can be read."""

from base64 import b64encode

from tests.simulation.world.objects import Object

MARK = b"in the clear"  # of a length that base64 shows as it is


def secret(
    home: str, namespace: str, name: str, number: int, kind: str = "Opaque", follow: str | None = None
) -> Object:
    """One of this cluster with a text of its own. `follow`: to which clusters its owner lets it go, None: not said."""
    text = MARK + f"|{home}|{namespace}|{name}|{number}".encode()
    marks = {} if follow is None else {"global-dispatcher.io/follow": follow}
    metadata = {"name": name, "annotations": marks}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": text_of(text)}


def text_of(text: bytes) -> dict[str, str]:
    """The data of a Secret with this text."""
    return {"text": b64encode(text).decode()}


def home_of(text: bytes) -> tuple[str, str, str]:
    """Cluster, namespace and name of the Secret that has this text."""
    _, home, namespace, name, _ = text.decode().split("|")
    return home, namespace, name
