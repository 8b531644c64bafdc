"""Commands by which a cluster becomes a member of a fleet, or is no more, and what is known of
those that may.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dispatcher.cli.options import Out
from dispatcher.cli.output import Output

if TYPE_CHECKING:
    from dispatcher.cli.joining.target import Place

_FLEET = Path("fleet")
_NAMESPACE = "global-dispatcher"

Context = Annotated[
    str, typer.Option("--context", metavar="CONTEXT", help="Kubeconfig context of the cluster.")
]
Kubeconfig = Annotated[
    str,
    typer.Option("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, or ~/.kube/config."),
]
Folder = Annotated[
    Path,
    typer.Option("--folder", help="Where the fleet's authority is (ca.crt, ca.key), or will be."),
]
Namespace = Annotated[
    str, typer.Option("-n", "--namespace", help="Namespace of Secrets and charts.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check and show everything, and change nothing.")
]
Dispatcher = Annotated[
    str,
    typer.Option(
        "--dispatcher-context",
        metavar="CONTEXT",
        help="Context of the dispatcher's cluster: brings the gateway's Secret there.",
    ),
]


def join(  # noqa: PLR0913 - an option is an argument
    context: Context,
    cluster: Annotated[
        str,
        typer.Option(metavar="NAME", help="Its name in the fleet; default: that of the context."),
    ] = "",
    gateway: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST[:PORT]",
            help="Where agents reach the gateway, once for each dispatcher; remembered in the "
            "folder.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            help="dispatcher.yaml, or values of the dispatcher's chart: the cluster is added "
            "there.",
        ),
    ] = None,
    values_out: Annotated[
        Path | None,
        typer.Option("--values-out", metavar="FILE", help="Write the values of the agent's chart."),
    ] = None,
    secrets_out: Annotated[
        Path | None,
        typer.Option(
            "--secrets-out",
            metavar="FILE",
            help="Write the Secrets as manifests; nothing is written to the cluster.",
        ),
    ] = None,
    chart: Annotated[
        str,
        typer.Option(
            "--helm", metavar="CHART", help="Run Helm with the agent's chart, such as helm/agent."
        ),
    ] = "",
    dispatcher_context: Dispatcher = "",
    folder: Folder = _FLEET,
    namespace: Namespace = _NAMESPACE,
    kubeconfig: Kubeconfig = "",
    new_authority: Annotated[
        bool,
        typer.Option(
            "--new-authority",
            help="Have Secrets that trust another authority than the folder's trust this one "
            "instead.",
        ),
    ] = False,
    dry_run: DryRun = False,
    output: Out = Output.TABLE,
) -> None:
    """Join a cluster to a fleet: identity, certificates, Secrets, and the values of its agent's
    chart.

    Run it again to renew certificates that have less than a third of their 90 days left, or after
    `revoke`. What is good stays. It needs the rights to get namespaces and Secrets, and to patch
    and create them.
    """
    from dispatcher.cli.joining.join import Joining
    from dispatcher.cli.joining.join import join as carry_out
    from dispatcher.cli.joining.target import Place

    place = Place(context, kubeconfig)
    other = _dispatcher(dispatcher_context, kubeconfig)
    files = config, values_out, secrets_out
    wish = Joining(
        cluster,
        place,
        folder,
        tuple(gateway or ()),
        namespace,
        *files,
        chart,
        other,
        new_authority,
        dry_run,
        output,
    )
    raise typer.Exit(carry_out(wish))


def revoke(  # noqa: PLR0913 - an option is an argument
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="Its name in the fleet.")],
    dispatcher_context: Dispatcher = "",
    folder: Folder = _FLEET,
    namespace: Namespace = _NAMESPACE,
    kubeconfig: Kubeconfig = "",
    dry_run: DryRun = False,
    output: Out = Output.TABLE,
) -> None:
    """Take back all certificates of a cluster, as of one that was captured: the gateway drops it
    within a minute.

    They go on the authority's revocation list, in ca.crt of the folder, and never work again. What
    runs in the cluster stays: see `cluster leave`. Another `join` makes a new certificate, which
    works.
    """
    from dispatcher.cli.joining.revoke import Revoking
    from dispatcher.cli.joining.revoke import revoke as carry_out

    other = _dispatcher(dispatcher_context, kubeconfig)
    raise typer.Exit(carry_out(Revoking(cluster, folder, namespace, other, dry_run, output)))


def certificates(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where the files are, or will be.")
    ],
    gateway: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST", help="Name or address that agents dial; several if given again."
        ),
    ] = None,
    cluster: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A cluster that dials in; several if given again."),
    ] = None,
    output: Out = Output.TABLE,
) -> None:
    """Make certificates for the gateway and for clusters that dial in, where `join` cannot reach
    their API servers.

    The authority is made where FOLDER has none: keep its key, ca.key, and give it to nobody.
    Certificates are good for 90 days; run it again to renew those that have less than a third of
    that left, and for more clusters.
    """
    from dispatcher.cli.certificates import write_certificates

    write_certificates(folder, gateway or (), cluster or (), output)


def install(  # noqa: PLR0913 - an option is an argument
    context: Context,
    user: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Who is given the roles; default: whom the context stands for. "
            "system:serviceaccount:NAMESPACE:NAME "
            "for a service account.",
        ),
    ] = "",
    may: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHAT",
            help="What it may do besides, again for each: namespaces (make those of "
            "executor.namespaces), removal (of these, which reads everything), accounts (look for "
            "those of local_accounts), secrets (read those that pods name, and write copies of them, "
            "where they follow by consent), services (make those of executor.services).",
        ),
    ] = None,
    secrets_in: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMESPACE",
            help="With --may secrets: in this namespace, again for each; default: in all.",
        ),
    ] = None,
    uninstall: Annotated[
        bool, typer.Option("--uninstall", help="Remove all that it has made.")
    ] = False,
    kubeconfig: Kubeconfig = "",
    dry_run: DryRun = False,
    output: Out = Output.TABLE,
) -> None:
    """Give a cluster without our charts what `run` needs there: the roles of an agent, and the
    opt-in by annotation.

    The opt-in is the admission policy of the agent's chart, for the version of Kubernetes that
    answers. Repeating it is safe: what an earlier one gave, and this one does not ask for, is taken
    away. Exit code 1 where the cluster has no such policy, or one that does nothing as its feature
    gate is off: the annotation alone is not enough there.
    """
    from dispatcher.cli.joining.install import Installing, May
    from dispatcher.cli.joining.install import install as carry_out
    from dispatcher.cli.joining.target import Place
    from dispatcher.service.errors import CommandError, ExitCode

    words = [str(one) for one in May]
    if unknown := [one for one in may or () if one not in words]:
        raise CommandError(f"--may {unknown[0]}: is none of {', '.join(words)}", ExitCode.USAGE)
    place = Place(context, kubeconfig)
    more = frozenset(map(May, may or ()))
    limited = tuple(dict.fromkeys(secrets_in or ()))
    if limited and not uninstall and May.SECRETS not in more:
        raise CommandError("--secrets-in: give --may secrets, too", ExitCode.USAGE)
    raise typer.Exit(carry_out(Installing(place, user, uninstall, dry_run, output, more, limited)))


def inventory(
    profiles: Annotated[
        str, typer.Argument(metavar="NAMESPACE", help="Where the ClusterProfiles are.")
    ],
    context: Annotated[
        str,
        typer.Option(
            "--context",
            metavar="CONTEXT",
            help="Of the cluster that has them; default: the current one.",
        ),
    ] = "",
    providers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Which program gives the credentials of which access provider (KEP-5339).",
        ),
    ] = None,
    kubeconfig_out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a kubeconfig with a context for each cluster, named like its profile.",
        ),
    ] = None,
    kubeconfig: Kubeconfig = "",
    output: Out = Output.TABLE,
) -> None:
    """List the clusters that a cluster manager knows (ClusterProfiles), and write a kubeconfig that
    reaches them.

    `join`, `install`, `run`, kubectl and Helm take that kubeconfig. It holds no credentials: the
    programs of the providers file give them, each time they are needed. Exit code 1 where a profile
    cannot be entered: its row says why.
    """
    from dispatcher.cli.inventory.command import Asked
    from dispatcher.cli.inventory.command import inventory as carry_out
    from dispatcher.cli.joining.target import Place

    raise typer.Exit(
        carry_out(Asked(profiles, Place(context, kubeconfig), providers, kubeconfig_out, output))
    )


def _dispatcher(context: str, kubeconfig: str) -> "Place | None":
    from dispatcher.cli.joining.target import Place

    return Place(context, kubeconfig, "dispatcher-context") if context else None
