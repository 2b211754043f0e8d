"""What the plugin's commands have in common: kubectl's flags, exit codes, error messages."""

import sys
from collections.abc import Callable
from enum import IntEnum
from functools import wraps
from typing import Any, Final

import click
from bookie.errors import BookieError, SettingsError

from bookie_operator.kubectl.client import Kubectl
from bookie_operator.status_tree.ages import seconds_of

Command = Callable[..., Any]


class Exit(IntEnum):
    """Exit codes; the same as those of the `bookie` command."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    DAMAGE = 3
    """The command worked and found limbo or damage."""
    UNKNOWN = 4
    INTERRUPTED = 130


_FLAGS: Final = (
    ("--namespace", "-n", "Namespace. Default: that of the context."),
    ("--context", None, "Context of the kubeconfig to use."),
    ("--kubeconfig", None, "Path of the kubeconfig file."),
    ("--user", None, "User of the kubeconfig to use."),
    ("--as", None, "Act as this user."),
)
"""Flags that are passed on to kubectl. Its --cluster is missing: here it names a BookieCluster."""


def kubectl_flags(command: Command) -> Command:
    """Accept kubectl's flags before a command's name, and keep them for the command."""

    @wraps(command)
    def kept(*args: Any, **kwargs: Any) -> Any:
        click.get_current_context().obj = _taken(kwargs)
        return command(*args, **kwargs)

    return _flagged(kept)


def with_kubectl(command: Command) -> Command:
    """Accept kubectl's flags among the command's own, and give the command a `Kubectl` with them.

    The command returns its exit code. Our own errors are printed as messages; `Program` knows what
    else is no bug.
    """

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        before = click.get_current_context().obj  # of `kubectl_flags`
        kubectl = Kubectl([*before, *_taken(kwargs)])
        try:
            code = command(kubectl, *args, **kwargs)
        except SettingsError as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(Exit.USAGE)
        except BookieError as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(Exit.FAILED)
        sys.exit(code)

    return _flagged(run)


def _flagged(command: Command) -> Command:
    for long, short, text in reversed(_FLAGS):
        names = [long, *([short] if short else []), f"kubectl_{long[2:]}"]
        command = click.option(*names, help=text)(command)
    return command


def _taken(kwargs: dict[str, Any]) -> list[str]:
    values = [(long, kwargs.pop(f"kubectl_{long[2:]}")) for long, _, _ in _FLAGS]
    return [f"{long}={value}" for long, value in values if value is not None]


cluster_option = click.option(
    "--cluster", "name", help="Name of the BookieCluster. Default: the only one in the namespace."
)


def output_option(*choices: str) -> Callable[[Command], Command]:
    return click.option(
        "--output",
        "-o",
        type=click.Choice([*choices, "json"]),
        default=choices[0],
        show_default=True,
        help="json: print one document on stdout.",
    )


yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


def by_option(text: str) -> Callable[[Command], Command]:
    return click.option("--by", help=f"{text} Default: your user name at the API server.")


def timeout_option(text: str) -> Callable[[Command], Command]:
    return click.option("--timeout", metavar="TIME", callback=seconds_of, help=text)


def following(command: Command) -> Command:
    """Add --no-wait and --timeout to a command that creates a task."""
    command = timeout_option("How long to wait, such as 90s or 5m. Default: until the task ends.")(
        command
    )
    return click.option("--no-wait", is_flag=True, help="Return as soon as the task is created.")(
        command
    )
