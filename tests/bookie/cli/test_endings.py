"""How the command ends: help, wrong usage, unreachable stores, interrupts, closed pipes."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie.cli.main import main
from bookie.exit_codes import Exit
from bookie.metadata.session import CLOSE_WAIT_S, ZooKeeperSettings
from bookie.tls.environment import DIRECTORY_VARIABLE
from cli_lab import command_paths
from click import Option
from click.testing import CliRunner

COMMAND = (sys.executable, "-m", "bookie")
WAIT_S = 30.0


PATHS = [path for path, _command in command_paths(main)]


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_every_command_has_help(path: tuple[str, ...]) -> None:
    told = CliRunner().invoke(main, [*path, "--help"])
    assert told.exit_code == 0
    assert told.stdout.startswith(f"Usage: main {' '.join(path)} ")


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_every_command_that_answers_knows_json(path: tuple[str, ...]) -> None:
    told = CliRunner().invoke(main, [*path, "--help"]).stdout
    groups = {("collect",), ("metadata",), ("cookie",), ("index",), ("ledger",)}
    assert ("--output [table|json]" in told) == (path not in {*groups, ("serve",), ("completion",)})


def test_a_list_of_commands_shows_whole_sentences() -> None:
    shown = CliRunner().invoke(main, ["ledger", "--help"]).stdout.partition("Commands:")[2]
    assert shown and "..." not in shown


def test_processes_that_a_command_starts_find_the_credentials_that_it_was_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, "elsewhere")
    main.main(["--tls", "here", "completion", "bash"], standalone_mode=False)
    assert os.environ[DIRECTORY_VARIABLE] == "here"


@pytest.mark.parametrize("words", [["nothing"], ["ledger", "nothing"], ["ledger", "info"]])
def test_wrong_usage_ends_with_two(words: list[str]) -> None:
    told = CliRunner(env={"BOOKIE_METADATA": "memory://x"}).invoke(main, words)
    assert told.exit_code == Exit.USAGE
    assert "Usage:" in told.stderr


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1", "1e300"])
@pytest.mark.parametrize(
    "words",
    [
        ["audit", "--underreplicated-grace"],
        ["audit", "--recheck-delay"],
        ["repair", "--writer-grace"],
        ["flush", "--timeout"],
    ],
)
def test_seconds_are_a_number_that_a_clock_can_count(words: list[str], seconds: str) -> None:
    told = CliRunner(env={"BOOKIE_METADATA": "memory://x"}).invoke(main, [*words, seconds])
    assert told.exit_code == Exit.USAGE and "Usage:" in told.stderr


@pytest.mark.parametrize(
    "words",
    [
        *(f"ledger create --{name} 0" for name in ("ensemble", "write-quorum", "ack-quorum")),
        *(
            f"audit --{name} 0"
            for name in ("min-racks", "ack-quorum", "verify-digests --read-rate")
        ),
        *(
            f"{name} --bytes-per-second-per-bookie 0"
            for name in ("repair", "drain b", "rereplicate")
        ),
        *("audit --ledger -1", "ledger read 1 --first -1", "ledger read 1 --last -1"),
        *("ledger tail 1 --first -1", "ledger accept-loss 4 --entry -1 --dry-run"),
    ],
)
def test_a_number_that_makes_no_sense_is_wrong_usage(words: str) -> None:
    told = CliRunner(env={"BOOKIE_METADATA": "memory://x"}).invoke(main, words.split())
    assert told.exit_code == Exit.USAGE and "is not in the range" in told.stderr


@pytest.mark.parametrize("name", ["result", "html", "summary", "progress-file", "racks"])
def test_a_folder_is_no_file(name: str, tmp_path: Path) -> None:
    words = ["audit", f"--{name}", str(tmp_path)]
    told = CliRunner(env={"BOOKIE_METADATA": "memory://x"}).invoke(main, words)
    assert told.exit_code == Exit.USAGE and "is a directory" in told.stderr


FLAGS = {
    "--advertised", "--apply", "--cancel", "--dry-run", "--every-ledger", "--force",
    "--if-draining", "--keep-open", "--lines", "--off", "--open", "--progress", "--raw",
    "--unchecked", "--verify-digests", "--yes",
}  # fmt: skip


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_a_flag_takes_no_value_and_every_other_option_takes_one(path: tuple[str, ...]) -> None:
    command = dict(command_paths(main))[path]
    options = [option for option in command.params if isinstance(option, Option)]
    assert [o for o in options if o.is_flag is not (o.opts[0] in FLAGS)] == []


@pytest.mark.parametrize("entries", [str(2**63 - 1), f"0-{2**63 - 1}", "5-4"])
def test_entries_are_ids_that_an_entry_can_have(entries: str) -> None:
    words = ["ledger", "retract-loss", "4", "--reason", "x", "--yes", "--entries", entries]
    told = CliRunner(env={"BOOKIE_METADATA": "memory://x"}).invoke(main, words)
    assert told.exit_code == Exit.USAGE and "expected FIRST-LAST" in told.stderr


def test_a_missing_store_names_its_variable() -> None:
    told = CliRunner(env={"BOOKIE_METADATA": None}).invoke(main, ["ledger", "list"])
    assert told.exit_code == Exit.USAGE
    assert "BOOKIE_METADATA" in told.stderr


def test_a_wrong_store_says_what_is_expected() -> None:
    told = CliRunner().invoke(main, ["ledger", "list", "--metadata", "http://x/ledgers"])
    assert told.exit_code == Exit.USAGE
    assert "'http://x/ledgers', expected zk://host:port" in told.stderr


def test_a_store_that_does_not_answer_is_given_up_in_time() -> None:
    assert ZooKeeperSettings().connect_timeout_s + CLOSE_WAIT_S <= 20


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Who is started hears interrupts, though this process may have been told to ignore them, as a
    shell tells what it runs in the background.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.process
@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_quietly() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"zk://127.0.0.1:{silent.getsockname()[1]}/ledgers"
        process = started("ledger", "list", "--metadata", url)
        silent.settimeout(WAIT_S)
        connection, _address = silent.accept()
        connection.close()  # it tries again and again now
        process.send_signal(signal.SIGINT)
        out, complaints = process.communicate(timeout=WAIT_S)
    assert (process.returncode, out, complaints.strip()) == (Exit.INTERRUPTED, b"", b"")


@pytest.mark.process
def test_a_closed_pipe_leaves_no_trace() -> None:
    nobody, end = os.pipe()
    os.close(nobody)
    process = started("completion", "bash", stdout=end)
    os.close(end)
    _out, complaints = process.communicate(timeout=WAIT_S)
    assert (process.returncode, complaints) == (Exit.CLOSED_PIPE, b"")


def started(*words: str, stdout: int = subprocess.PIPE) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([*COMMAND, *words], stdout=stdout, stderr=subprocess.PIPE)
