"""Ledgers by the command line, as people and scripts use it."""

import base64
import io
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from bookie.cli.output import show_new_ledger
from bookie.exit_codes import Exit
from bookie.protocol.ledger import LedgerMetadata
from cli_lab import WAIT_S, CliLab
from repair_lab import PASSWORD, RepairLab


def written(cli: CliLab, text: str | bytes, *options: str) -> int:
    """The id of a new ledger with one entry per line."""
    ledger_id: int = cli.json("ledger", "write", "--lines", *options, typed=text)["ledger_id"]
    return ledger_id


def test_what_is_written_is_read(cli: CliLab) -> None:
    ledger_id = written(cli, "first\n\nlast without newline")
    entries = cli.json("ledger", "read", ledger_id)
    assert [entry["payload"] for entry in entries] == ["first", "", "last without newline"]
    assert [entry["entry_id"] for entry in entries] == [0, 1, 2]


def test_write_tells_what_it_wrote(cli: CliLab) -> None:
    told = cli.json("ledger", "write", "--lines", typed="a\nbc\n")
    assert told == {
        "ledger_id": told["ledger_id"],
        "last_entry_id": 1,
        "entries": 2,
        "bytes": 3,
        "state": "CLOSED",
    }


def test_without_lines_input_is_cut_into_pieces(cli: CliLab) -> None:
    text = bytes(range(256)) * 600
    told = cli.json("ledger", "write", typed=text)
    assert (told["entries"], told["bytes"]) == (3, len(text))
    raw = cli.bookie("ledger", "read", told["ledger_id"], "--raw")
    assert raw.stdout_bytes == text


def test_an_empty_input_makes_an_empty_ledger(cli: CliLab) -> None:
    ledger_id = written(cli, "")
    assert cli.json("ledger", "read", ledger_id) == []
    assert cli.json("ledger", "info", ledger_id)["last_entry_id"] == -1


def test_read_is_one_document_however_long(cli: CliLab) -> None:
    ledger_id = written(cli, "".join(f"{number}\n" for number in range(3000)))
    entries = cli.json("ledger", "read", ledger_id, "--first", 500)
    assert [entry["payload"] for entry in entries] == [str(n) for n in range(500, 3000)]


def test_tail_is_one_object_per_line(cli: CliLab) -> None:
    ledger_id = written(cli, "a\nb\nc\n")
    told = cli.bookie("ledger", "tail", ledger_id, "--first", 1, "--output", "json")
    assert [json.loads(line)["payload"] for line in told.stdout.splitlines()] == ["b", "c"]


def test_bytes_that_are_no_text_come_as_base64(cli: CliLab) -> None:
    ledger_id = written(cli, b"\xff\x00\n")
    (entry,) = cli.json("ledger", "read", ledger_id)
    assert base64.b64decode(entry["payload_base64"]) == b"\xff\x00"
    assert "payload" not in entry


def test_a_payload_cannot_steer_the_terminal(cli: CliLab) -> None:
    ledger_id = written(cli, b"\x1b[2Jx\ty\n")
    shown = cli.bookie("ledger", "read", ledger_id).stdout
    assert "\x1b" not in shown
    assert r"\x1b[2Jx\ty" in shown


def test_a_long_payload_is_cut_to_the_width(cli: CliLab) -> None:
    shown = cli.bookie("ledger", "read", written(cli, "x" * 500)).stdout.splitlines()
    assert [len(line) <= 80 for line in shown] == [True, True]
    assert shown[1].endswith("x…")


@pytest.mark.parametrize("bounds", [("--first", 3), ("--last", 3), ("--first", 1, "--last", 9)])
def test_a_missing_entry_is_named(cli: CliLab, bounds: tuple[str, ...]) -> None:
    ledger_id = written(cli, "a\nb\nc\n")
    told = cli.bookie("ledger", "read", ledger_id, *bounds, "--output", "json")
    assert (told.exit_code, told.stdout) == (1, "")
    assert told.stderr == f"error: ledger {ledger_id} has no entry 3: its last entry is 2\n"


def test_the_end_before_the_beginning_is_wrong_usage(cli: CliLab) -> None:
    told = cli.bookie("ledger", "read", 0, "--first", 9, "--last", 2)
    assert told.exit_code == 2
    assert "--last is 2, expected 9" in told.stderr


def test_raw_and_json_exclude_each_other(cli: CliLab) -> None:
    assert cli.bookie("ledger", "tail", 0, "--raw", "--output", "json").exit_code == 2


@pytest.mark.parametrize("command", ["read", "recover", "tail"])
def test_a_wrong_password_is_refused(cli: CliLab, command: str) -> None:
    ledger_id = written(cli, "a\n", "--password", "right")
    told = cli.bookie("ledger", command, ledger_id, "--password", "wrong")
    assert (told.exit_code, told.stdout) == (1, "")
    assert "wrong password" in told.stderr
    assert cli.json("ledger", "read", ledger_id, "--password", "right")[0]["payload"] == "a"


@pytest.mark.parametrize(
    "words",
    [("read",), ("tail",), ("info",), ("recover",), ("delete", "--yes")],
)
def test_an_unknown_ledger_is_named(cli: CliLab, words: tuple[str, ...]) -> None:
    told = cli.bookie("ledger", *words, 4711)
    assert (told.exit_code, told.stdout) == (1, "")
    assert told.stderr == "error: ledger 4711 does not exist\n"


def test_an_open_ledger_is_read_to_its_lac(cli: CliLab) -> None:
    async def make(lab: RepairLab) -> LedgerMetadata:
        return await lab.ledger(entries=5, last=None)

    ledger_id = cli.do(make).ledger_id
    entries = cli.json("ledger", "read", ledger_id, "--password", PASSWORD.decode())
    # Entry 4 was written, but nobody has said yet that it was acknowledged.
    assert [entry["payload"] for entry in entries] == [f"entry {n}" for n in range(4)]


def test_recover_closes_where_the_writer_stopped(cli: CliLab) -> None:
    ledger_id = written(cli, "a\nb\n", "--keep-open")
    told = cli.json("ledger", "recover", ledger_id)
    assert (told["state"], told["last_entry_id"]) == ("CLOSED", 1)


def test_create_leaves_an_empty_open_ledger(cli: CliLab) -> None:
    options = ("--ensemble", 3, "--write-quorum", 2, "--ack-quorum", 2, "--digest", "hmac")
    ledger_id = cli.json("ledger", "create", *options)["ledger_id"]
    told = cli.json("ledger", "info", ledger_id)
    assert (told["ensemble"], told["write_quorum"], told["ack_quorum"]) == (3, 2, 2)
    assert (told["digest"], told["state"]) == ("HMAC", "OPEN")
    assert len(told["fragments"][0]["ensemble"]) == 3


@pytest.mark.parametrize(
    ("option", "number", "code"), [("--ack-quorum", 4, 2), ("--ensemble", 7, 1)]
)
def test_a_ledger_that_cannot_be_is_not_made(
    cli: CliLab, option: str, number: int, code: int
) -> None:
    assert cli.bookie("ledger", "write", option, number, typed="a").exit_code == code
    assert cli.json("ledger", "list") == []


def test_an_entry_too_large_names_the_ledger_left_open(cli: CliLab) -> None:
    told = cli.bookie("ledger", "write", "--lines", typed=b"x" * 6_000_000)
    assert told.exit_code == 2
    assert "left open" in told.stderr and "split it" in told.stderr
    assert told.stdout == ""


def test_list_shows_every_ledger(cli: CliLab) -> None:
    ids = [written(cli, "a\n"), written(cli, "b\n", "--keep-open")]
    rows = cli.json("ledger", "list")
    assert [(row["ledger_id"], row["state"]) for row in rows] == [
        (ids[0], "CLOSED"),
        (ids[1], "OPEN"),
    ]
    table = cli.bookie("ledger", "list").stdout.splitlines()
    assert table[0].split()[:3] == ["LEDGER", "ID", "STATE"]
    assert len(table) == 3


@pytest.mark.parametrize("ctime_ms", [10**18, -(10**18), 253_402_300_800_000])
def test_a_time_that_no_calendar_has_hides_no_ledger(cli: CliLab, ctime_ms: int) -> None:
    async def made(lab: RepairLab) -> None:
        ledger = await lab.ledger(entries=1, last=0)
        odd = replace(ledger, ledger_id=await lab.store.new_ledger_id(), ctime_ms=ctime_ms)
        await lab.store.create_ledger(odd)

    cli.do(made)
    _, odd = cli.json("ledger", "list")
    assert odd["created"] == f"{ctime_ms} ms"


def test_no_ledgers_is_said_in_words_and_as_a_list(cli: CliLab) -> None:
    assert cli.bookie("ledger", "list").stdout == "no ledgers\n"
    assert cli.json("ledger", "list") == []


def test_delete_asks_first(cli: CliLab) -> None:
    ledger_id = written(cli, "a\n")
    refused = cli.bookie("ledger", "delete", ledger_id, typed="n\n")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "nothing was changed" in refused.stderr
    silent = cli.bookie("ledger", "delete", ledger_id, typed="")
    assert (silent.exit_code, "--yes" in silent.stderr) == (2, True)
    assert cli.bookie("ledger", "delete", ledger_id, typed="y\n").exit_code == 0
    assert cli.json("ledger", "list") == []


@pytest.mark.parametrize("word", ["-1", "one", str(2**63)])
def test_a_ledger_id_is_a_number_in_its_range(cli: CliLab, word: str) -> None:
    assert cli.bookie("ledger", "info", "--", word).exit_code == 2


def test_a_ledger_whose_input_cannot_be_read_is_named(cli: CliLab) -> None:
    told = cli.bookie("ledger", "write", "/proc/self/mem")
    assert (told.exit_code, told.stdout) == (1, "")
    assert "ledger 0 is left open" in told.stderr and "cannot use /proc/self/mem" in told.stderr


@contextmanager
def terminated_with_a_ledger(cli: CliLab, source: Path) -> Iterator[None]:
    """This process gets a SIGTERM once there is a ledger; its input goes on until then."""
    is_over = threading.Event()

    async def made(lab: RepairLab) -> int:
        return len(lab.store.cluster.ledgers)

    def terminate() -> None:
        with source.open("wb"):
            while not cli.do(made):
                is_over.wait(0.01)
            os.kill(os.getpid(), signal.SIGTERM)
            is_over.wait(WAIT_S)

    thread = threading.Thread(target=terminate)
    thread.start()
    yield
    is_over.set()
    thread.join()


def test_a_ledger_whose_writer_is_terminated_is_named(cli: CliLab, tmp_path: Path) -> None:
    source = tmp_path / "source"
    os.mkfifo(source)
    with terminated_with_a_ledger(cli, source):
        told = cli.bookie("ledger", "write", source)
    assert (told.exit_code, told.stdout) == (Exit.TERMINATED, "")
    assert told.stderr == "ledger 0 is left open; acknowledged up to entry -1\n"


def test_a_new_ledger_is_named_though_the_answer_cannot_be_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full = io.TextIOWrapper(io.FileIO("/dev/full", "w"), write_through=True)
    monkeypatch.setattr(sys, "stdout", full)
    with pytest.raises(OSError, match="No space left"):
        show_new_ledger({"ledger_id": 7, "state": "CLOSED"}, output="json")
    assert capsys.readouterr().err == "ledger 7 is CLOSED\n"
