"""What to do about a source that fails: by what it said, with the key of its configuration that
mends it.
"""

import re

# (what the problem says, what to do), the first that fits. KEY stands for the source's place in the
# configuration, ADDRESS for the key that says where it is, FILE for those that name files.
_REMEDIES: tuple[tuple[str, str], ...] = (
    ("no way to ask kubelets", "see that the agent's credentials and kubelet.ca_file can be read"),
    (
        "no token of ServiceAccount .* for kubelets",
        "run `global-dispatcher install` for that cluster, or upgrade the agent's chart: both "
        "make the account",
    ),
    (
        r"kubelet of .* answers 40[13]",
        "let the account that kubelet.account names get nodes/stats (the chart and `install` do "
        "it); where "
        "kubelets take no tokens, start them with webhook authentication and authorization",
    ),
    (
        r"kubelet of \S+ answers 404",
        "that node's kubelet serves no statistics, as virtual ones do not: set up another source "
        "(docs/telemetry.md)",
    ),
    (
        r"kubelet of .*(certificate|ssl(?!:default))",
        "name the authority of the kubelets' certificates as kubelet.ca_file",
    ),
    (
        r"kubelet of .*no answer within",
        "see whether the node is up; kubelet.timeout_s may be raised",
    ),
    (
        r"kubelet of ",
        "see whether the node is up, and whether the agent may reach port 10250 of it (network "
        "policies)",
    ),
    (
        "no InternalIP",
        "the node's status needs an address of type InternalIP: its cloud provider sets it",
    ),
    (
        r"metrics\.k8s\.io.* answers 404",
        "install metrics-server, or take metrics_api out of the configuration",
    ),
    (
        r"metrics\.k8s\.io.* answers 403",
        "let the agent's account list nodes of metrics.k8s.io (the observer role has it)",
    ),
    (
        r"metrics\.k8s\.io",
        "see how metrics-server does: kubectl get apiservice v1beta1.metrics.k8s.io",
    ),
    (
        "allow_addresses",
        "if the address is meant, list its network in KEY.allow_addresses; else correct ADDRESS",
    ),
    (
        "cannot be resolved|has no address",
        "correct the host in ADDRESS, or the DNS where the agent runs",
    ),
    (
        "certificate|ssl(?!:default)|no tls with",
        "name the authority of the server's certificate as KEY.ca_file, or correct it",
    ),
    (
        "cannot be read: .*(no such file|permission)|holds no secret",
        "put the file there, readable by the agent, or correct FILE",
    ),
    ("answers 30|redirects are not followed", "write the address that it redirects to as ADDRESS"),
    (
        "answers 40[13]",
        "give credentials of somebody who may read: KEY.token_file, KEY.user with "
        "KEY.password_file, KEY.header_files",
    ),
    (
        "answers 404",
        "KEY.url is what comes before /api/v1/query: a path prefix of the server "
        "(--web.route-prefix) belongs to it",
    ),
    (
        "answers 429|answers 5",
        "see the server's own log; a longer KEY.interval_s asks it less often",
    ),
    (
        "no complete answer within",
        "raise KEY.timeout_s, or ask for less (KEY.sets, KEY.cluster_label)",
    ),
    ("larger than", "raise KEY.max_mib, or ask for less (KEY.sets, KEY.cluster_label)"),
    (
        "the query failed|not a vector|answers 400|answers 422",
        "correct the query in KEY.queries; each has to be one instant vector",
    ),
    (
        "is no yaml|needs a map|and not json|sampled_at is",
        "correct the file named by KEY.path (docs/telemetry.md)",
    ),
    (
        "cannot be read|no metrics of node_exporter|nothing that can be believed|the answer is",
        "something else answers at that address: correct ADDRESS",
    ),
    (
        "connect|refused|unreachable|no route|disconnected|protocol",
        "see that it runs, that ADDRESS is right, and that network policies let the agent in",
    ),
)
_ELSE = "see the agent's log, and the settings under KEY"


def remedy(problem: str, key: str) -> str:
    """What to do about what a source said, in one line. `key`: where it stands in the
    configuration.
    """
    words = problem.lower()
    text = next((text for pattern, text in _REMEDIES if re.search(pattern, words)), _ELSE)
    by_path = ".file[" in f".{key}"
    by_port = "node_exporter" in key
    files = f"{key}.path" if by_path else f"the keys of {key} that end in _file"
    address = (
        f"{key}.path" if by_path else f"{key}.port and {key}.scheme" if by_port else f"{key}.url"
    )
    return text.replace("KEY", key).replace("ADDRESS", address).replace("FILE", files)


def about_unmatched(key: str) -> str:
    """What to do about series of no known node."""
    if not _labelled(key):
        return f"{_NAMES}; names of other nodes do no harm"
    return (
        "if they are of this cluster's nodes, name the label that says which in "
        f"{key}.node_labels; if they are of "
        f"another cluster, set {key}.cluster_label"
    )


def about_ambiguous(key: str) -> str:
    """What to do about series that may be about several nodes, or are one too many of a node."""
    if not _labelled(key):
        return f"{_NAMES}, each once"
    return (
        f"set {key}.cluster_label where one server has several clusters, or {key}.node_labels, so "
        "that a node has one "
        "series"
    )


def about_silent(key: str) -> str:
    """What to do about nodes that a source leaves out."""
    if not _labelled(key):
        return f"see whether it should know them; {_NAMES}"
    return (
        "see whether its exporter runs on them, and by which labels it names nodes "
        f"({key}.node_labels)"
    )


_NAMES = "it has to call nodes by their names, hostnames or addresses"


def _labelled(key: str) -> bool:
    """Whether a source names nodes by labels that can be chosen."""
    return ".prometheus[" in key
