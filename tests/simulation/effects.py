"""What a write of an agent is to the delegate protocol."""

from tests.simulation.world.net import Asked


def kind_of(request: Asked) -> str:
    """What a write is to the protocol; '' for signs of life and for what people alone read."""
    path, body = request.path, request.body
    if "/configmaps/" in path and request.method == "DELETE":
        return "delete-object"
    if "/pods" not in path or "/events" in path or path.endswith("?dryRun=All"):
        return ""
    if path.endswith("/binding"):
        return "bind-proxy" if b'"global-dispatcher-' in body else "bind"
    if path.endswith("/status"):
        return "report" if b"PodScheduled" in body else "mirror"
    if request.method == "POST":
        return "create"
    if request.method == "DELETE":
        return "delete"
    if b'"finalizers":[]' in body or b'"finalizers":null' in body:
        return "let-go"
    return "claim"
