"""The objects a cluster is born with."""

from localfleet.embedded.apiserver.status import Object

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def _named(name: str, **parts: object) -> Object:
    return {"metadata": {"name": name}, **parts}


# What every namespace begins with. The certificate is shown to pods, and nothing here uses it.
_CERTIFICATE = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"
_ABOUT = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal "
    "endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across "
    "distributions of Kubernetes "
    "clusters."
)
NAMESPACE_OBJECTS: tuple[tuple[str, Object], ...] = (
    ("serviceaccounts", {"metadata": {"name": "default"}}),
    (
        "configmaps",
        {
            "metadata": {
                "name": "kube-root-ca.crt",
                "annotations": {"kubernetes.io/description": _ABOUT},
            },
            "data": {"ca.crt": _CERTIFICATE},
        },
    ),
)

# Each with its resource and its namespace.
FIRST_OBJECTS: tuple[tuple[str, str, Object], ...] = (
    *(("namespaces", "", _named(name)) for name in NAMESPACES),
    *(
        ("priorityclasses.scheduling.k8s.io", "", _named(name, value=value))
        for name, value in _SYSTEM_CLASSES.items()
    ),
    # As whom agents ask kubelets: `global-dispatcher install` makes it elsewhere.
    ("serviceaccounts", "kube-node-lease", _named("global-dispatcher-kubelets")),
    (
        "services",
        "default",
        {
            "metadata": {
                "name": "kubernetes",
                "labels": {"component": "apiserver", "provider": "kubernetes"},
            },
            "spec": {
                "clusterIP": "10.96.0.1",
                "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
            },
        },
    ),
)
