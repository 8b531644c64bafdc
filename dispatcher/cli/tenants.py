"""`global-dispatcher tenants`, `tenants explain` and `quota check`: who has, uses, lends and
borrows how much, and whether a manifest would be let pass.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from dispatcher.cli.command_group import Commands
from dispatcher.cli.options import DEFAULT_SERVER, Out, Server
from dispatcher.cli.output import Output
from dispatcher.service.errors import CommandError, ExitCode

tenants_app = typer.Typer(
    cls=Commands,
    invoke_without_command=True,
    rich_markup_mode=None,
)
quota_app = typer.Typer(
    cls=Commands, help="Ask about quota.", no_args_is_help=True, rich_markup_mode=None
)
_MOST_BYTES = 2**20
_TEMPLATES = {
    "Pod": (),
    "PodTemplate": ("template",),
    "Deployment": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}


@tenants_app.callback()
def tenants(
    context: typer.Context,
    output: Out = Output.TABLE,
    server: Server = DEFAULT_SERVER,
) -> None:
    """List tenants as a tree: what each was given, uses, has borrowed and lent.

    USED: with all that is part of it, but for what these use of what they keep for themselves.
    LIMIT: what it could use if nobody else of its tree used anything. SHARE: of what can be
    borrowed, what it has borrowed of one resource, by its weight. WAITING: its pods that found no
    place.
    """
    if context.invoked_subcommand is not None:
        return
    from dispatcher.cli import tables
    from dispatcher.cli.api_client import ApiClient
    from dispatcher.cli.output import print_rows

    rows = ApiClient(server).rows("tenants")
    print_rows(tables.TENANTS, rows, output, "no tenants are configured: nobody is limited")


@tenants_app.command("explain")
def explain(
    tenant: Annotated[str, typer.Argument(help="Its name.")],
    output: Out = Output.TABLE,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Say what a tenant may use, by which arithmetic, who waits, and which rules hold.

    Next victim: of each resource that it has borrowed, its pod, or group, that would be evicted
    first if another tenant asked now for quota of it.
    """
    from dispatcher.cli.api_client import ApiClient
    from dispatcher.cli.output import print_value

    found = ApiClient(server).tenant(tenant)
    if output is not Output.TABLE:
        print_value(found, output)
        return
    _print_facts(_facts(found))
    for row in found["resources"]:
        typer.echo("")
        _print_facts(_arithmetic(row))


def _print_facts(facts: Iterable[tuple[str, str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    from dispatcher.cli.output import harmless, make_console, print_trimmed

    table = Table.grid(padding=(0, 3, 0, 0))
    for what, text in facts:
        table.add_row(Text(what, style="dim"), Text(harmless(text)))
    print_trimmed(make_console(), table)


def _facts(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    from dispatcher.cli.tables import share_of

    yield "Tenant", " / ".join(found["path"])
    yield "Namespaces", ", ".join(found["namespaces"]) or "none of its own"
    if found["children"]:
        yield "Part of it", ", ".join(found["children"])
    starved = f", {found['starved']} of them for what is its own" if found["starved"] else ""
    yield "Waiting", f"{found['waiting']} pods{starved}"
    of = f" (of {found['dominant']})" if found["dominant"] else ""
    yield "Share", f"{share_of(found['share'])}{of}, weight {found['weight']:g}"
    for name, rules in found["rules"].items():
        said = "; ".join(f"{key}: {_words(value)}" for key, value in rules.items())
        yield f"Rules of {name}", said
    if found["not_limited"]:
        used = ", ".join(f"{key} {amount}" for key, amount in found["not_limited"].items())
        yield "Not limited", f"uses {used}"
    for one in found["next_victims"]:
        yield "Next victim", f"for {one['resource']} of {one['of']}: {one['text']}"


def _words(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={one}" for key, one in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "yes" if value is True else str(value)


def _arithmetic(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield row["resource"], f"of {row['of']}"
    said = f" ({row['said']} of {row['of']})" if row["said"] else ""
    below = (
        f" + {row['of_children']} of those that are part of it" if row["of_children"] != "0" else ""
    )
    yield "  given", f"{row['quota']} = nominal {row['nominal']}{said}{below}"
    if row["lending_limit"] is not None:
        yield "  keeps", f"{row['kept']}: lends at most {row['lending_limit']}"
    borrows = f", may borrow {row['borrowing_limit']}" if row["borrowing_limit"] is not None else ""
    yield "  uses", f"{row['usage']}: borrowed {row['borrowed']}, lent {row['lent']}{borrows}"
    if row["used"] != row["usage"]:
        yield "  charged", f"{row['used']}, with what its parts use of what they keep"
    by = f", limited by {row['limited_by']}" if row["limited_by"] else ""
    yield "  left", f"{row['available']} of {row['limit']}{by}"


@quota_app.command("check")
def check(
    file: Annotated[
        Path,
        typer.Option(
            "-f",
            "--filename",
            help="A Pod, or what makes pods by a template (Deployment, StatefulSet, ReplicaSet, "
            "Job, CronJob); YAML or JSON; - is stdin.",
        ),
    ],
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="Instead of that of the manifest.")
    ] = "",
    cluster: Annotated[str, typer.Option(help="The cluster that it would be submitted in.")] = "",
    priority: Annotated[
        int | None, typer.Option(help="Of the pods, which a manifest with a class does not say.")
    ] = None,
    output: Out = Output.TABLE,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Say whether quota would let the pods of a manifest pass now, and else what would free it.

    Who is charged is the tenant of the namespace. Room on nodes is not looked at. Exit code 1 if
    not all of them would pass.
    """
    from dispatcher.cli.api_client import ApiClient
    from dispatcher.cli.output import print_value

    found = ApiClient(server).quota(**_asked(file, namespace, priority), cluster=cluster)
    if output is not Output.TABLE:
        print_value(found, output)
    else:
        _print_facts(_answer(found))
    if found["fits"] < found["replicas"]:
        raise typer.Exit(int(ExitCode.FAILED))


def _answer(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if found["tenant"] is None:
        yield "Tenant", "none: nobody is charged, and nothing is limited"
        return
    yield "Tenant", " / ".join(found["path"])
    each = " each" if found["replicas"] > 1 else ""
    yield "Asks", ", ".join(f"{key} {amount}" for key, amount in found["asks"].items()) + each
    yield "Passes", f"{found['fits']} of {found['replicas']} pods"
    if found["borrows"]:
        borrows = ", ".join(f"{key} {amount}" for key, amount in found["borrows"].items())
        yield "Borrows", borrows + each
    if found["why"]:
        yield "Why not", found["why"]
    if found["closed"]:
        yield "Not on", "; ".join(found["closed"])
    if found["frees"]:
        yield "Frees", found["frees"]["text"]


def _asked(file: Path, namespace: str, priority: int | None) -> dict[str, str]:
    """What the dispatcher is asked of a manifest."""
    import json

    from agents.kube.convert import pod_in_full

    manifest = _manifest(file)
    kind = str(manifest.get("kind", ""))
    if kind not in _TEMPLATES:
        known = ", ".join(_TEMPLATES)
        raise CommandError(
            f"{file}: kind {kind[:60]!r} is none of those that are read: {known}", ExitCode.USAGE
        )
    template: Any = manifest
    for key in _TEMPLATES[kind]:
        template = template.get(key) if isinstance(template, Mapping) else None
    if not isinstance(template, Mapping):
        path = ".".join(_TEMPLATES[kind])
        raise CommandError(f"{file}: {path} is missing", ExitCode.USAGE)
    of = _map(file, manifest, "metadata")
    meta = {
        "name": "checked",
        "namespace": "checked",
        **_map(file, template, "metadata"),
        "uid": "checked",
    }
    spec = _as_stored(_map(file, template, "spec"))
    pod = pod_in_full(json.dumps({"spec": spec, "metadata": meta}, default=str).encode())
    if pod is None or pod.problems:
        why = "; ".join(pod.problems) if pod else "it cannot be read"
        raise CommandError(f"{file}: {why}")
    replicas = _replicas(kind, manifest)
    return {
        "namespace": namespace or str(of.get("namespace") or "default"),
        "requests": json.dumps(pod.requests),
        "priority": str(pod.priority if priority is None else priority),
        "replicas": str(replicas),
    }


def _map(file: Path, of: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = of.get(key) or {}
    if not isinstance(value, Mapping):
        raise CommandError(f"{file}: {key} must be a map of keys", ExitCode.USAGE)
    return value


def _as_stored(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """With the requests that an API server adds: what is limited is requested."""
    found = dict(spec)
    for key in ("containers", "initContainers"):
        some = spec.get(key)
        if isinstance(some, list) and all(isinstance(one, Mapping) for one in some):
            found[key] = [_with_requests(one) for one in some]
    return found


def _with_requests(container: Mapping[str, Any]) -> Mapping[str, Any]:
    amounts = container.get("resources")
    if not isinstance(amounts, Mapping) or not isinstance(amounts.get("limits"), Mapping):
        return container
    requests = {**amounts["limits"], **(amounts.get("requests") or {})}
    return {**container, "resources": {**amounts, "requests": requests}}


def _manifest(file: Path) -> Mapping[str, Any]:
    import sys

    import yaml

    try:
        text = sys.stdin.read(_MOST_BYTES) if str(file) == "-" else file.read_text()[:_MOST_BYTES]
        found = [one for one in yaml.safe_load_all(text) if one is not None]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise CommandError(f"{file}: {why}", ExitCode.USAGE) from None
    if len(found) != 1 or not isinstance(found[0], Mapping):
        raise CommandError(f"{file}: must hold one object, not {len(found)}", ExitCode.USAGE)
    return found[0]


def _replicas(kind: str, manifest: Mapping[str, Any]) -> int:
    spec = manifest.get("spec") or {}
    if kind == "CronJob":
        spec = ((spec.get("jobTemplate") or {}).get("spec")) or {}
    key = "parallelism" if kind in ("Job", "CronJob") else "replicas"
    wanted = spec.get(key, 1) if kind != "Pod" else 1
    if not isinstance(wanted, int) or isinstance(wanted, bool):
        raise CommandError(f"spec.{key} must be a whole number", ExitCode.USAGE)
    return max(wanted, 1)
