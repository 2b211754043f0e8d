"""What the plugin's commands have in common: kubectl's flags, exit codes, errors as messages."""

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
    """As the `bookie` command has them."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    DAMAGE = 3
    """The command worked, and found limbo or damage."""
    UNKNOWN = 4
    INTERRUPTED = 130


_FLAGS: Final = (
    ("--namespace", "-n", "The namespace; default: the context's."),
    ("--context", None, "The context of the kubeconfig to use."),
    ("--kubeconfig", None, "The kubeconfig file."),
    ("--user", None, "The user of the kubeconfig to use."),
    ("--as", None, "Act as this user."),
)
"""kubectl's own. Its --cluster is not among them: here that names a BookieCluster."""


def kubectl_flags(command: Command) -> Command:
    """kubectl's flags before a command's name: kept for the command."""

    @wraps(command)
    def kept(*args: Any, **kwargs: Any) -> Any:
        click.get_current_context().obj = _taken(kwargs)
        return command(*args, **kwargs)

    return _flagged(kept)


def with_kubectl(command: Command) -> Command:
    """kubectl's flags among the command's own; it gets the `Kubectl` that has them, and its return
    value is the exit code. Our own errors are messages; anything else is a defect, and shows."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        inherited = click.get_current_context().obj or []
        kubectl = Kubectl([*inherited, *_taken(kwargs)])
        try:
            code = command(kubectl, *args, **kwargs)
        except SettingsError as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(Exit.USAGE)
        except BookieError as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(Exit.FAILED)
        except KeyboardInterrupt:
            sys.exit(Exit.INTERRUPTED)
        sys.exit(code or Exit.DONE)

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
    "--cluster", "name", help="The BookieCluster; may be left out where there is only one."
)


def output_option(*choices: str) -> Callable[[Command], Command]:
    return click.option(
        "--output",
        "-o",
        type=click.Choice([*choices, "json"]),
        default=choices[0],
        show_default=True,
        help="json: one document on stdout.",
    )


yes_option = click.option("--yes", is_flag=True, help="Go on without being asked.")


def by_option(text: str) -> Callable[[Command], Command]:
    return click.option("--by", help=f"{text} Default: your user name, as the API server has it.")


def timeout_option(text: str) -> Callable[[Command], Command]:
    return click.option("--timeout", metavar="TIME", callback=seconds_of, help=text)


def following(command: Command) -> Command:
    """--no-wait and --timeout of commands that hand in a task."""
    command = timeout_option("How long to wait, such as 90s or 5m; default: to the end.")(command)
    return click.option("--no-wait", is_flag=True, help="Return once the task is created.")(command)
