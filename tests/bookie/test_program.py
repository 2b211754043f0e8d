"""How our programs end when something outside of them hinders them."""

import errno
import subprocess
import sys
from typing import NoReturn

import click
import pytest
from bookie.cli.main import main as bookie
from bookie.exit_codes import Exit
from bookie.program import Program
from bookie_operator.__main__ import main as bookie_operator
from bookie_operator.kubectl.__main__ import plugin
from click.testing import CliRunner


def failing(error: BaseException) -> Program:
    def fail() -> NoReturn:
        raise error

    return Program(commands=[click.Command("fail", callback=fail)])


@pytest.mark.parametrize("program", [bookie, bookie_operator, plugin])
def test_all_our_programs_end_alike(program: click.Group) -> None:
    assert isinstance(program, Program)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), Exit.INTERRUPTED, ""),
        (BrokenPipeError(), Exit.CLOSED_PIPE, ""),
        (OSError(errno.ENOSPC, "No space left on device"), Exit.ERROR, "make room"),
        (PermissionError(errno.EACCES, "Denied", "/x/y"), Exit.ERROR, "cannot use /x/y: Denied"),
    ],
)
def test_what_hinders_it_from_outside_has_no_traceback(
    error: BaseException, code: Exit, said: str
) -> None:
    told = CliRunner().invoke(failing(error), ["fail"])
    assert (told.exit_code, bool(told.stderr.strip())) == (code, bool(said))
    assert said in told.stderr and isinstance(told.exception, SystemExit)


@pytest.mark.parametrize("error", [ValueError("x"), OSError(errno.EBADF, "x")])
def test_a_bug_is_shown(error: Exception) -> None:
    assert CliRunner().invoke(failing(error), ["fail"]).exception is error


@pytest.mark.process
@pytest.mark.parametrize("module", ["bookie", "bookie_operator"])
def test_a_full_disk_behind_the_output_is_one_sentence(module: str) -> None:
    command = [sys.executable, "-m", module, "completion", "bash"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == Exit.ERROR
    assert (
        done.stderr.startswith(b"error: cannot write the output") and done.stderr.count(b"\n") < 2
    )


@pytest.mark.process
def test_output_that_was_closed_beforehand_is_dropped() -> None:
    command = ["sh", "-c", 'exec "$0" -m bookie audit --help >&-', sys.executable]
    done = subprocess.run(command, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (Exit.OK, b"")
