"""`bookie-operator`: parses the command line; the work is in `serve.py`, `local/`, `model/crd.py`.

Exit codes: 0 done, 1 failed (the message says why), 2 wrong usage or a wrong manifest, 130
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
from bookie.program import Program
from bookie.seconds import Seconds
from rich.console import Console

from bookie_operator.errors import LocalError
from bookie_operator.local import faults
from bookie_operator.local.down import GRACE_DEFAULT_S
from bookie_operator.local.down import down as take_all_down
from bookie_operator.local.environment import exports, metadata_url
from bookie_operator.local.live_view import LiveScreen, PlainScreen, cluster_view, what_to_decide
from bookie_operator.local.stored import (
    known_cluster,
    manifest_of,
    stored_cluster,
    why_not_current,
)
from bookie_operator.local.up import Ports, add_task, up_detached
from bookie_operator.local.up import up as run_operator
from bookie_operator.local.waiting import wait_whole
from bookie_operator.local.watch import watch as watch_cluster
from bookie_operator.local.web_page import url_of
from bookie_operator.model.crd import documents
from bookie_operator.platform.folders import LocalFolders
from bookie_operator.status_tree.answers import show

FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130
DIRECTORY_DEFAULT: Final = ".bookies"
OTHERS_NOTHING: Final = 0o077

Params = ParamSpec("Params")


def errors_shown(command: Callable[Params, int | None]) -> Callable[Params, None]:
    """Print our own errors as messages with an exit code; `Program` knows what else is no bug."""

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
        help="Directory of the cluster: its volumes, logs and status file.",
    )(command)


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="bookie-operator")
def main() -> None:
    """Run clusters of bookies, on Kubernetes or on this machine.

    A BookieCluster manifest says which bookies there should be. `run` is the operator on
    Kubernetes; `local` runs one cluster as processes on this machine.
    """


main.add_command(completion)


@main.command()
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write one file for each CRD to this directory instead of printing them.",
)
@errors_shown
def crds(directory: Path | None) -> None:
    """Print the CustomResourceDefinitions of BookieCluster and BookieTask."""
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
    help="Run only clusters of this namespace; may be given again. Default: all namespaces.",
)
@click.option("--port", default=8080, show_default=True, help="HTTP port for metrics and health.")
@click.option("--verbose", is_flag=True, help="Log debug messages as well.")
@click.option(
    "--lease",
    "lease_path",
    metavar="NAMESPACE/NAME",
    default="",
    callback=_checked_lease,
    help="Act only while this process holds this Lease, so that several operators may run.",
)
@click.option(
    "--credentials",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for the operator's own certificates and keys for clusters with TLS; it should "
    "be in memory.",
)
@click.option(
    "--page-port",
    default=8081,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port of the web page of all clusters, reachable only with `kubectl port-forward`; 0: no "
    "page.",
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
    """Run the operator on Kubernetes until it gets SIGTERM."""
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
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="NAME",
    help="Look only in this namespace; may be given again. Default: all namespaces.",
)
@errors_shown
def uninstall_check(namespaces: tuple[str, ...]) -> int:
    """Check that the operator can be removed: fail while BookieClusters exist."""
    from bookie_operator.serve import clusters_left

    left = clusters_left(namespaces)
    if not left:
        return 0
    click.echo(
        f"error: found BookieCluster {', '.join(left)}, expected none: without the operator nobody "
        "repairs them, and nobody can delete them. Delete them first (Kubernetes keeps the "
        "volumes unless spec.retention says otherwise): kubectl delete bkc NAME",
        err=True,
    )
    return FAILED


@main.group()
def local() -> None:
    """Run a BookieCluster on this machine: bookies are processes, volumes are folders."""


@local.command()
@click.argument("manifest", type=click.Path(dir_okay=False, path_type=Path), required=False)
@in_directory
@click.option(
    "--detach",
    is_flag=True,
    help="Return once the cluster is Available; the operator keeps running.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(1, 65535),
    help="Serve the operator's metrics for Prometheus on this port, on this machine only.",
)
@click.option(
    "--page-port",
    type=click.IntRange(1, 65535),
    help="Serve the cluster's web page on this port, on this machine only; `local page` prints its "
    "URL.",
)
@errors_shown
def up(
    manifest: Path | None,
    directory: Path,
    detach: bool,
    metrics_port: int | None,
    page_port: int | None,
) -> int:
    """Start the cluster of MANIFEST and run its operator. Ctrl-C stops everything gracefully.

    Default: the manifest that this directory was started with last, or an example of four bookies.
    """
    # For child processes too: ZooKeeper's files hold ledgers' passwords, indexes hold their keys.
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
    """Show the cluster and its events as they change. Ctrl-C ends only this command."""
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
    help="wide: a tree with every disk; table: the former name of tree.",
)
@errors_shown
def status(directory: Path, output: str) -> int:
    """Show the cluster's last status. Exit code 1: no operator keeps it current."""
    folders = LocalFolders(directory)
    cluster = known_cluster(folders)
    if output == "json":
        click.echo(json.dumps(cluster.as_dict(), indent=2))
    else:
        show(cluster_view(cluster, wide=output == "wide"))
        if todo := what_to_decide(cluster.status):
            click.echo(f"\n{todo}")
    if why := why_not_current(folders):
        click.echo(why, err=True)
        return FAILED
    return 0


@local.command()
@in_directory
@errors_shown
def page(directory: Path) -> None:
    """Print the URL of the cluster's web page. It contains a secret key: do not share it."""
    click.echo(url_of(LocalFolders(directory)))


@local.command()
@in_directory
@errors_shown
def metadata(directory: Path) -> None:
    """Print the address of the metadata store, for `bookie --metadata` and for clients."""
    folders = LocalFolders(directory)
    click.echo(metadata_url(folders, known_cluster(folders)))


@local.command()
@in_directory
@errors_shown
def env(directory: Path) -> None:
    """Print shell variables with which `bookie` finds the cluster.

    For the present shell: eval "$(bookie-operator local env)".
    """
    folders = LocalFolders(directory)
    click.echo(exports(folders, known_cluster(folders)), nl=False)


@local.command()
@in_directory
@click.option(
    "--timeout",
    default=300.0,
    show_default=True,
    type=Seconds(),
    metavar="SECONDS",
    help="How long to wait before the command fails.",
)
@errors_shown
def wait(directory: Path, timeout: float) -> None:
    """Wait until every bookie serves, no ledger is in limbo and a recent audit found no damage."""
    took = wait_whole(LocalFolders(directory), timeout_s=timeout)
    click.echo(f"whole after {took:.1f} s")


@local.command()
@in_directory
@click.option("--delete-volumes", is_flag=True, help="Delete all data as well.")
@errors_shown
def down(directory: Path, delete_volumes: bool) -> int:
    """Stop the operator and the cluster gracefully; keep the data."""
    folders = LocalFolders(directory)
    return 0 if take_all_down(folders, delete_volumes=delete_volumes, report=click.echo) else FAILED


@local.command()
@click.argument("manifest", type=click.Path(dir_okay=False, path_type=Path))
@in_directory
@errors_shown
def task(manifest: Path, directory: Path) -> None:
    """Give the operator the BookieTask in MANIFEST, such as a repair, an audit or an approval."""
    path = add_task(LocalFolders(directory), manifest)
    click.echo(f"{path} (its status appears beside it)")


@local.command()
@click.argument("bookie")
@in_directory
@errors_shown
def kill(bookie: str, directory: Path) -> None:
    """Kill a bookie with SIGKILL, as a crash would."""
    pid = faults.kill_bookie(LocalFolders(directory), BookieId(bookie))
    click.echo(f"{bookie} (process {pid}) killed")


@local.command("replace-disk")
@click.argument("bookie")
@click.argument("disk")
@in_directory
@errors_shown
def replace_disk(bookie: str, disk: str, directory: Path) -> None:
    """Give a bookie a new, empty volume, as if its volume claim had been deleted."""
    folders = LocalFolders(directory)
    uid = faults.replace_disk(folders, (BookieId(bookie), disk), grace_s=_grace(folders))
    click.echo(f"{bookie} {disk}: new volume {uid}{_afterwards(folders)}")


@local.command("wipe-disk")
@click.argument("bookie")
@click.argument("disk")
@in_directory
@errors_shown
def wipe_disk(bookie: str, disk: str, directory: Path) -> None:
    """Empty a volume but keep its identity, as happens with an ephemeral disk."""
    folders = LocalFolders(directory)
    faults.wipe_disk(folders, (BookieId(bookie), disk), grace_s=_grace(folders))
    click.echo(f"{bookie} {disk} wiped{_afterwards(folders)}")


@local.command("swap-disks")
@click.argument("first")
@click.argument("second")
@in_directory
@errors_shown
def swap_disks(first: str, second: str, directory: Path) -> None:
    """Exchange two disks; name each as BOOKIE.DISK, such as bookie-0.ledger-1."""
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
