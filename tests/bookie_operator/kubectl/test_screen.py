"""Where the plugin writes: what is asked, what counts as a yes, and what a watch draws."""

import re

import click
import pytest
from bookie_operator.kubectl import screen
from click.testing import CliRunner, Result
from kubectl_lab import FakeLab


def asked(stdin: str, *, yes: bool = False) -> Result:
    @click.command()
    def command() -> None:
        click.echo(screen.confirmed("Sure?", yes=yes))

    return CliRunner().invoke(command, input=stdin)


@pytest.mark.parametrize(
    ("answer", "agreed"),
    [
        ("y\n", True),
        ("yes\n", True),
        (" YES \n", True),
        ("Y", True),
        ("n\n", False),
        ("\n", False),
        ("yo\n", False),
        ("no\ny\n", False),
    ],
)
def test_only_a_yes_agrees_and_a_no_is_told_beside_the_question(answer: str, agreed: bool) -> None:
    done = asked(answer)
    assert done.stdout == f"{agreed}\n"
    assert done.stderr == "Sure? [y/N] " + ("" if agreed else "nothing was changed\n")


def test_who_said_yes_before_is_not_asked() -> None:
    done = asked("", yes=True)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_an_end_of_the_input_is_no_answer() -> None:
    done = asked("")
    assert done.exit_code == 2 and done.stderr.startswith("Sure? [y/N] ")
    assert "nobody answered: pass --yes" in done.stderr


def watched(lab: FakeLab) -> str:
    """What `status --watch` writes while the cluster changes once, and is deleted."""
    lab.put_cluster("limbo")
    lab.later("demo", {"status": {"phase": "Running"}}, None)
    done = lab.run("status", "--watch")
    assert done.stderr == "error: BookieCluster demo was deleted while it was watched\n"
    return done.stdout


def test_a_terminal_is_drawn_anew_in_place(lab: FakeLab) -> None:
    lab.env |= {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "200"}
    drawn = watched(lab)
    up = "\x1b[1A\x1b[2K"
    assert up in drawn and not re.search(r"\d\d:\d\d:\d\dZ -", drawn)
    assert "Repairing" in drawn.partition(up)[0] and "Running" in drawn.rpartition(up)[2]
    assert drawn.rindex("\x1b[?25h") > drawn.rindex("\x1b[?25l"), "the cursor is seen again"


def test_elsewhere_each_change_has_a_line_with_the_time_before_it(lab: FakeLab) -> None:
    drawn = watched(lab)
    assert "\x1b" not in drawn
    first, second = re.split(r"^\d\d:\d\d:\d\dZ -{40,70}$", drawn, flags=re.M)
    assert "Repairing" in first and "Running" in second
