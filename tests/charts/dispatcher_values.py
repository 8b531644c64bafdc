"""Values of the dispatcher's chart about the HTTP API's tokens and about agents on another Ray."""

from typing import Any

# A dispatcher whose agents and their files are on another Ray: its own files can be checked where this test runs.
ON_RAY: dict[str, Any] = {
    "config": {
        "clusters": [
            {"name": name, "kubeconfig": f"/clusters/{name}.kubeconfig", "agent": {"key_file": f"/clusters/{name}.pem"}}
            for name in ("east", "west")
        ],
        "ray": {"address": "ray.example.invalid:6379"},
    },
    "ray": {"tls": {"existingSecret": "ray-tls"}},
}
LOGIN_VARIABLE = "GLOBAL_DISPATCHER_HTTP__LOGIN__TOKEN_FILE"
TOKENS = {"httpTokens": {"existingSecret": "readers", "key": "all", "ownKey": "prometheus"}}
