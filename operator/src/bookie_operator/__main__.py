"""`bookie-operator`: parsing only; the work is in `serve.py`, `local/` and `model/crd.py`.

Exit codes: 0 done, 1 it failed (the message says why), 2 wrong usage or a wrong manifest, 130
interrupted.
"""

import json
import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final, ParamSpec

import click
from bookie.completion import completion
from bookie.errors import BookieError, SettingsError
from bookie.ids import BookieId
from rich.console import Console

from bookie_operator.errors import LocalError
from bookie_operator.local import faults
from bookie_operator.local.down import GRACE_DEFAULT_S
from bookie_operator.local.down import down as take_all_down
from bookie_operator.local.environment import exports
from bookie_operator.local.live_view import LiveScreen, PlainScreen, cluster_view
from bookie_operator.local.stored import known_cluster, manifest_of, stored_cluster
from bookie_operator.local.up import Ports, add_task, up_detached
from bookie_operator.local.up import up as run_operator
from bookie_operator.local.waiting import wait_whole
from bookie_operator.local.watch import watch as watch_cluster
from bookie_operator.local.web_page import url_of
from bookie_operator.model.crd import documents
from bookie_operator.platform.folders import LocalFolders, operator_pid

FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130
DIRECTORY_DEFAULT: Final = ".bookies"
OTHERS_NOTHING: Final = 0o077

Params = ParamSpec("Params")


def errors_shown(command: Callable[Params, int | None]) -> Callable[Params, None]:
    """Our own errors are messages with an exit code; anything else is a defect, and shows."""

    @wraps(command)
    def run(*args: Params.args, **kwargs: Params.kwargs) -> None:
        try:
            code = command(*args, **kwargs)
        except SettingsError as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(USAGE)
        except BookieError as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(FAILED)
        sys.exit(code or 0)

    return run


def in_directory(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--dir",
        "directory",
        type=click.Path(file_okay=False, path_type=Path),
        default=DIRECTORY_DEFAULT,
        show_default=True,
        help="Where volumes, logs and the status file lie.",
    )(command)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="bookie-operator")
def main() -> None:
    """Runs fleets of bookies from BookieCluster manifests."""


main.add_command(completion)


@main.command()
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write one file per CRD there instead of printing them.",
)
@errors_shown
def crds(directory: Path | None) -> None:
    """The CustomResourceDefinitions, generated from the models."""
    if directory is None:
        click.echo("---\n".join(documents().values()), nl=False)
        return
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in documents().items():
        (directory / name).write_text(text, encoding="utf-8")
        click.echo(directory / name)


def _checked_lease(_context: click.Context, _option: click.Parameter, path: str) -> str:
    if path and [bool(part) for part in path.split("/")] != [True, True]:
        raise click.BadParameter(f"found {path!r}, expected NAMESPACE/NAME")
    return path


@main.command()
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="NAME",
    help="Only clusters of this namespace; may be given again. Without it: all namespaces.",
)
@click.option("--port", default=8080, show_default=True, help="HTTP port of metrics and health.")
@click.option("--verbose", is_flag=True, help="Debug messages as well.")
@click.option(
    "--lease",
    "lease_path",
    metavar="NAMESPACE/NAME",
    default="",
    callback=_checked_lease,
    help="Act only while this Lease is held, so that several operators may run.",
)
@click.option(
    "--credentials",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the operator keeps its own certificates and keys of clusters with TLS; in memory.",
)
@click.option(
    "--page-port",
    default=8081,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="The web page of all clusters, for `kubectl port-forward` alone; 0: none.",
)
@errors_shown
def run(
    namespaces: tuple[str, ...],
    port: int,
    verbose: bool,
    lease_path: str,
    credentials: Path | None,
    page_port: int,
) -> None:
    """The operator on Kubernetes: reconcile BookieClusters until it gets SIGTERM."""
    from bookie_operator.serve import serve  # kopf takes a second; other commands need none

    serve(
        namespaces=namespaces,
        port=port,
        verbose=verbose,
        lease_path=lease_path,
        credentials=credentials,
        page_port=page_port,
    )


@main.command("uninstall-check")
@click.option("--namespace", "namespaces", multiple=True, metavar="NAME")
@errors_shown
def uninstall_check(namespaces: tuple[str, ...]) -> int:
    """Exit code 1 while BookieClusters exist, which nobody would look after any more."""
    from bookie_operator.serve import clusters_left

    left = clusters_left(namespaces)
    if not left:
        return 0
    click.echo(
        f"error: found BookieCluster {', '.join(left)}, expected none: without the operator nobody "
        "repairs them, and they could not be deleted. Delete them first (volumes are kept "
        "unless retention says otherwise): kubectl delete bkc NAME",
        err=True,
    )
    return FAILED


@main.group()
def local() -> None:
    """A BookieCluster on this machine: bookies as processes, volumes as folders."""


@local.command()
@click.argument("manifest", type=click.Path(dir_okay=False, path_type=Path), required=False)
@in_directory
@click.option("--detach", is_flag=True, help="Return once Available; the operator runs on.")
@click.option(
    "--metrics-port",
    type=click.IntRange(1, 65535),
    help="Serve the operator's figures to Prometheus there, on this machine only.",
)
@click.option(
    "--page-port",
    type=click.IntRange(1, 65535),
    help="Serve the fleet's web page there, on this machine only: `local page` has its URL.",
)
@errors_shown
def up(
    manifest: Path | None,
    directory: Path,
    detach: bool,
    metrics_port: int | None,
    page_port: int | None,
) -> int:
    """Bring MANIFEST up and keep it so. Ctrl-C takes it down gracefully.

    Without MANIFEST: the one that the directory was brought up with, or an example of four bookies.
    """
    # Of all that it starts, too: ZooKeeper's files hold ledgers' passwords, indexes their keys.
    os.umask(OTHERS_NOTHING)
    folders = LocalFolders(directory)
    manifest, ports = manifest or manifest_of(folders), Ports(metrics_port, page_port)
    if detach:
        ready = up_detached(folders, manifest, ports=ports)
        click.echo(f"metadata: {ready.metadata_url}\nstatus: {ready.status_file}")
        return 0
    with _screen() as screen:
        return run_operator(folders, manifest, screen, ports=ports)


def _screen() -> LiveScreen | PlainScreen:
    console = Console()
    return LiveScreen(console) if console.is_terminal else PlainScreen(console)


@local.command()
@in_directory
@errors_shown
def watch(directory: Path) -> int:
    """The cluster and its events as they change, until Ctrl-C, which stops nothing else."""
    try:
        with _screen() as screen:
            watch_cluster(LocalFolders(directory), screen)
    except KeyboardInterrupt:
        return INTERRUPTED


@local.command()
@in_directory
@click.option(
    "--output",
    "-o",
    type=click.Choice(["tree", "table", "wide", "json"]),
    default="tree",
    help="wide: with every disk; table: as tree, as it was called before.",
)
@errors_shown
def status(directory: Path, output: str) -> int:
    """The cluster as its status file tells it. Exit code 1 when no operator keeps it current."""
    folders = LocalFolders(directory)
    cluster = known_cluster(folders)
    if output == "json":
        click.echo(json.dumps(cluster.as_dict(), indent=2))
    else:
        Console().print(cluster_view(cluster, wide=output == "wide"))
    if operator_pid(folders) is None:
        click.echo("no operator runs: this is the last known status", err=True)
        return FAILED
    return 0


@local.command()
@in_directory
@errors_shown
def page(directory: Path) -> None:
    """The URL of the fleet's web page, with its key: for its own person, as the folder is."""
    click.echo(url_of(LocalFolders(directory)))


@local.command()
@in_directory
@errors_shown
def metadata(directory: Path) -> None:
    """The address of the metadata store, as `bookie` and clients take it."""
    click.echo(known_cluster(LocalFolders(directory)).status.metadata.url)


@local.command()
@in_directory
@errors_shown
def env(directory: Path) -> None:
    """What reaches the cluster, for a shell: eval "$(bookie-operator local env)"."""
    folders = LocalFolders(directory)
    click.echo(exports(folders, known_cluster(folders)), nl=False)


@local.command()
@in_directory
@click.option(
    "--timeout", default=300.0, show_default=True, type=click.FloatRange(min=0), metavar="SECONDS"
)
@errors_shown
def wait(directory: Path, timeout: float) -> None:
    """Until every bookie serves, no ledger is in limbo and an audit of now is clean."""
    took = wait_whole(LocalFolders(directory), timeout_s=timeout)
    click.echo(f"whole after {took:.1f} s")


@local.command()
@in_directory
@click.option("--delete-volumes", is_flag=True, help="Delete all data as well.")
@errors_shown
def down(directory: Path, delete_volumes: bool) -> int:
    """Stop everything gracefully; data stays."""
    folders = LocalFolders(directory)
    return 0 if take_all_down(folders, delete_volumes=delete_volumes, report=click.echo) else FAILED


@local.command()
@click.argument("manifest", type=click.Path(dir_okay=False, path_type=Path))
@in_directory
@errors_shown
def task(manifest: Path, directory: Path) -> None:
    """Hand a BookieTask to the operator: a repair, an audit, an approval, an accepted loss ..."""
    path = add_task(LocalFolders(directory), manifest)
    click.echo(f"{path} (its status appears beside it)")


@local.command()
@click.argument("bookie")
@in_directory
@errors_shown
def kill(bookie: str, directory: Path) -> None:
    """SIGKILL a bookie, as a crash does."""
    pid = faults.kill_bookie(LocalFolders(directory), BookieId(bookie))
    click.echo(f"{bookie} (process {pid}) killed")


@local.command("replace-disk")
@click.argument("bookie")
@click.argument("disk")
@in_directory
@errors_shown
def replace_disk(bookie: str, disk: str, directory: Path) -> None:
    """Give a bookie a new, empty volume, as deleting its claim does."""
    folders = LocalFolders(directory)
    uid = faults.replace_disk(folders, (BookieId(bookie), disk), grace_s=_grace(folders))
    click.echo(f"{bookie} {disk}: new volume {uid}{_afterwards(folders)}")


@local.command("wipe-disk")
@click.argument("bookie")
@click.argument("disk")
@in_directory
@errors_shown
def wipe_disk(bookie: str, disk: str, directory: Path) -> None:
    """Empty a volume under the identity it keeps, as an ephemeral disk comes back."""
    folders = LocalFolders(directory)
    faults.wipe_disk(folders, (BookieId(bookie), disk), grace_s=_grace(folders))
    click.echo(f"{bookie} {disk} wiped{_afterwards(folders)}")


@local.command("swap-disks")
@click.argument("first")
@click.argument("second")
@in_directory
@errors_shown
def swap_disks(first: str, second: str, directory: Path) -> None:
    """Exchange two disks, each named BOOKIE.DISK."""
    folders = LocalFolders(directory)
    faults.swap_disks(folders, _disk(first), _disk(second), grace_s=_grace(folders))
    click.echo(f"{first} and {second} swapped{_afterwards(folders)}")


def _disk(name: str) -> faults.DiskName:
    bookie, _, disk = name.partition(".")
    if not bookie or not disk:
        raise LocalError(f"found {name!r}, expected BOOKIE.DISK such as bookie-0.ledger-1")
    return BookieId(bookie), disk


def _grace(folders: LocalFolders) -> float:
    cluster = stored_cluster(folders)
    return float(cluster.spec.grace_period_seconds) if cluster else GRACE_DEFAULT_S


def _afterwards(folders: LocalFolders) -> str:
    return "" if faults.restarts_by_itself(folders) else "; no operator runs to start it again"


if __name__ == "__main__":
    main()
