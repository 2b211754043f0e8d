"""What all commands have in common: kubectl's flags, exit codes, and how long to wait."""

import json
from typing import Any

import click
import pytest
from bookie.errors import BookieError, SettingsError
from bookie.program import Program
from bookie_operator.errors import ManifestError
from bookie_operator.kubectl.client import Kubectl, KubectlError
from bookie_operator.kubectl.options import (
    by_option,
    cluster_option,
    following,
    kubectl_flags,
    output_option,
    with_kubectl,
    yes_option,
)
from click.testing import CliRunner, Result


def run(*words: str, ends: int | BookieError | None = None) -> Result:
    """A command that prints what it was given, and ends so."""

    @click.group(cls=Program)
    @kubectl_flags
    def group() -> None:
        pass

    @group.command()
    @cluster_option
    @by_option("Who?")
    @yes_option
    @following
    @output_option("text", "wide")
    @with_kubectl
    def do(kubectl: Kubectl, **given: Any) -> int | None:
        said = {name: value for name, value in given.items() if value not in (None, False)}
        click.echo(json.dumps([*kubectl.flags, said]))
        if isinstance(ends, BookieError):
            raise ends
        return ends

    return CliRunner().invoke(group, words)


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (("do",), ""),
        (("do", "-n", "a"), "--namespace=a"),
        (("do", "--namespace", "a"), "--namespace=a"),
        (("do", "--context", "a"), "--context=a"),
        (("do", "--kubeconfig", "a"), "--kubeconfig=a"),
        (("do", "--user", "a"), "--user=a"),
        (("do", "--as", "a"), "--as=a"),
        (("do", "--as", ""), "--as="),
        (("-n", "a", "do"), "--namespace=a"),
        (("-n", "a", "do", "-n", "b"), "--namespace=a --namespace=b"),
        (("--as", "a", "do", "--context", "b", "-n", "c"), "--as=a --namespace=c --context=b"),
    ],
)
def test_flags_of_kubectl_are_handed_on_those_of_the_command_last(
    words: tuple[str, ...], flags: str
) -> None:
    *handed_on, _options = json.loads(run(*words).stdout)
    assert " ".join(handed_on) == flags


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (("--cluster", "x"), {"name": "x"}),
        (("--by", "ann"), {"by": "ann"}),
        (("--yes",), {"yes": True}),
        (("--no-wait",), {"no_wait": True}),
        (("--timeout", "5m"), {"timeout": 300.0}),
        (("-o", "wide"), {"output": "wide"}),
        (("--output", "json"), {"output": "json"}),
    ],
)
def test_a_command_is_given_its_options(words: tuple[str, ...], given: dict[str, Any]) -> None:
    assert json.loads(run("do", *words).stdout) == [{"output": "text"} | given]


@pytest.mark.parametrize(
    ("words", "told"), [(("-o", "yaml"), "'yaml'"), (("--timeout", "x"), "'x'")]
)
def test_what_an_option_cannot_be_is_a_usage_error(words: tuple[str, ...], told: str) -> None:
    done = run("do", *words)
    assert done.exit_code == 2 and told in done.stderr and not done.stdout


@pytest.mark.parametrize(
    ("ends", "code", "told"),
    [
        (None, 0, ""),
        (0, 0, ""),
        (3, 3, ""),
        (4, 4, ""),
        (BookieError("why"), 1, "error: why\n"),
        (KubectlError("why"), 1, "error: why\n"),
        (SettingsError("why"), 2, "error: why\n"),
        (ManifestError("why"), 2, "error: why\n"),
    ],
)
def test_the_exit_code_tells_whose_fault_it_was(
    ends: int | BookieError | None, code: int, told: str
) -> None:
    done = run("do", ends=ends)
    assert (done.exit_code, done.stderr) == (code, told)
    assert isinstance(done.exception, SystemExit) is (code > 0), "no bug, however it ends"


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("-n, --namespace", "Namespace. Default: that of the context."),
        ("--context", "Context of the kubeconfig to use."),
        ("--kubeconfig", "Path of the kubeconfig file."),
        ("--user", "User of the kubeconfig to use."),
        ("--as", "Act as this user."),
        ("--cluster", "Name of the BookieCluster. Default: the only one in the namespace."),
        ("--by", "Who? Default: your user name at the API server."),
        ("--yes", "Do not ask for confirmation."),
        ("--no-wait", "Return as soon as the task is created."),
        ("--timeout TIME", "How long to wait, such as 90s or 5m."),
        ("-o, --output [text|wide|json]", "print one document on stdout. [default: text]"),
    ],
)
def test_the_help_says_what_an_option_is_for(option: str, told: str) -> None:
    shown = " ".join(run("do", "--help").stdout.split())
    assert told in shown.partition(f" {option} ")[2].partition(" --")[0]
