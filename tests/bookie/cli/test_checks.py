"""Audit, repair, limbo and accept-loss by the command line: numbers, words and exit codes."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from bookie.ids import EntryId
from bookie.protocol.availability import EntrySet
from bookie.protocol.ledger import LedgerMetadata
from cli_lab import CliLab
from repair_lab import PASSWORD, RepairLab


def made(cli: CliLab, entries: int, *, last: int | None, flush: bool = True) -> LedgerMetadata:
    async def make(lab: RepairLab) -> LedgerMetadata:
        return await lab.ledger(entries=entries, last=last, flush=flush)

    return cli.do(make)


def crash(cli: CliLab, *numbers: int) -> None:
    """Kill these bookies, all at once, and boot them with their marks."""

    async def crashed(lab: RepairLab) -> None:
        await lab.crash(*numbers)

    cli.do(crashed)


def set_down(cli: CliLab, number: int, down: bool) -> None:
    async def turn(lab: RepairLab) -> None:
        lab.fleet[number].down = down

    cli.do(turn)


def doubtful(cli: CliLab) -> LedgerMetadata:
    """S33: two of three have forgotten the tail of an open ledger, and the third is away."""

    async def make(lab: RepairLab) -> LedgerMetadata:
        metadata = await lab.ledger(entries=5, last=None)
        lab.write(metadata, [5, 6], on=(0, 1))
        return metadata

    metadata = cli.do(make)
    crash(cli, 0, 1)
    set_down(cli, 2, True)
    return metadata


def test_a_clean_audit_ends_with_zero(cli: CliLab) -> None:
    made(cli, 10, last=9)
    told = cli.json("audit")
    assert (told["audit"]["entries"], told["audit"]["ok"]) == (10, 10)
    shown = cli.bookie("audit")
    assert shown.exit_code == 0
    assert shown.stdout.startswith("verdict  everything that must be there is there\n")
    assert shown.stderr == "", "progress is for people who watch"


def test_an_audit_names_what_is_missing(cli: CliLab) -> None:
    metadata = made(cli, 10, last=11)
    told = cli.bookie("audit", "--ledger", metadata.ledger_id)
    assert told.exit_code == 3
    assert "lost" in told.stdout or "no copy" in told.stdout
    assert "10-11" in told.stdout


def test_a_silent_bookie_leaves_an_audit_undecided(cli: CliLab) -> None:
    made(cli, 10, last=9)
    set_down(cli, 1, True)
    told = cli.bookie("audit")
    assert told.exit_code == 4
    assert "no answer from:" in told.stdout and "bookie-1" in told.stdout


def test_limbo_rises_and_a_repair_clears_it(cli: CliLab) -> None:
    metadata = made(cli, 10, last=None, flush=False)
    assert cli.bookie("limbo").stdout == "no ledger is in limbo\n"
    crash(cli, 1)
    marks = [(row["bookie"], row["ledger_id"], row["mark"]) for row in cli.json("limbo")]
    assert marks == [("bookie-1", metadata.ledger_id, "limbo")]
    told = cli.json("repair", "--engine", "inline")
    assert (told["ledgers"]["recovered"], told["audit_after"]["ok"]) == (1, 10)
    assert cli.json("limbo", "--unchecked") == []


def test_ledgers_that_wait_for_their_check_are_shown_when_asked(cli: CliLab) -> None:
    metadata = made(cli, 10, last=9)
    crash(cli, 1)
    assert "1 wait for their check" in cli.bookie("limbo").stdout
    (row,) = cli.json("limbo", "--unchecked", "--bookie", "bookie-1", "--bookie", "bookie-1")
    assert (row["ledger_id"], row["mark"]) == (metadata.ledger_id, "unchecked")


def test_limbo_of_a_silent_bookie_is_unknown(cli: CliLab) -> None:
    async def give_up(lab: RepairLab) -> None:
        lab.control.unreachable.add(lab.ids[1])

    cli.do(give_up)
    told = cli.bookie("limbo", "--output", "json")
    assert told.exit_code == 4
    (row,) = json.loads(told.stdout)
    assert (row["bookie"], row["mark"], row["ledger_id"]) == ("bookie-1", "no answer", None)
    assert "bookie-1" in told.stderr


def test_limbo_of_an_unknown_bookie_names_the_known(cli: CliLab) -> None:
    told = cli.bookie("limbo", "--bookie", "bookie-9")
    assert told.exit_code == 2
    assert "bookie-0, bookie-1, bookie-2" in told.stderr


def test_a_repair_that_is_blocked_says_why(cli: CliLab) -> None:
    doubtful(cli)
    told = cli.bookie("repair", "--engine", "inline")
    assert told.exit_code == 4
    assert "blocked:" in told.stdout and "possible loss from" in told.stdout


def test_a_result_is_written_beside_a_page(cli: CliLab, tmp_path: Path) -> None:
    path = tmp_path / "out" / "audit.json"
    told = cli.json("audit", "--result", path)
    assert json.loads(path.read_text()) == told
    assert path.with_suffix(".html").read_text().startswith("<!doctype html>")


def test_an_audit_writes_its_page_and_its_tables(cli: CliLab, tmp_path: Path) -> None:
    made(cli, 10, last=11)
    told = cli.bookie("audit", "--html", tmp_path / "a.html", "--parquet", tmp_path / "tables")
    assert told.exit_code == 3
    assert "Entries are missing or lost" in (tmp_path / "a.html").read_text()
    copies = pq.read_table(tmp_path / "tables/copies.parquet").to_pylist()
    assert [(row["owed"], row["held"], row["missing"]) for row in copies] == [(12, 10, 2)] * 3


def test_an_audit_minds_racks_and_remembers(cli: CliLab, tmp_path: Path) -> None:
    made(cli, 10, last=9)
    racks, history = tmp_path / "racks.yaml", tmp_path / "history.jsonl"
    racks.write_text("bookie-0: /a\nbookie-1: /a\nbookie-2: /a\nbookie-9: /b\n")
    words = ("audit", "--racks", racks, "--history", history)
    first, second = cli.json(*words), cli.json(*words)
    assert [row["rack"] for row in second["copies"]] == ["/a"] * 3
    (found,) = second["misplaced"]
    assert found["first_seen_ms"] == first["started_at_ms"] < found["last_seen_ms"]
    assert "placement_soft" in cli.bookie(*words).stdout
    assert cli.json(*words, "--min-racks", 1)["healed"][0]["class"] == "placement_soft"
    assert cli.json(*words, "--history", "metadata")["misplaced"]


def test_racks_that_cannot_be_read_are_wrong_usage(cli: CliLab, tmp_path: Path) -> None:
    told = cli.bookie("audit", "--racks", tmp_path / "none.yaml")
    assert told.exit_code == 2 and "none.yaml" in told.stderr


@pytest.mark.parametrize("option", ["--result", "--html", "--summary"])
@pytest.mark.parametrize("output", ["json", "table"])
def test_a_result_that_cannot_be_written_is_an_error_and_not_printed(
    cli: CliLab, tmp_path: Path, option: str, output: str
) -> None:
    (tmp_path / "file").touch()
    words = ("--output", output, option, tmp_path / "file" / "audit.json")
    told = cli.bookie("audit", *words)
    assert (told.exit_code, told.stdout) == (1, "")
    assert "cannot write the result" in told.stderr


@pytest.mark.parametrize("output", ["json", "table"])
def test_a_decision_whose_summary_cannot_be_written_prints_nothing(
    cli: CliLab, tmp_path: Path, output: str
) -> None:
    (tmp_path / "file").touch()
    words = ("--output", output, "--summary", tmp_path / "file" / "told.json")
    ledger_id = recorded_as_lost(cli).ledger_id
    told = cli.bookie("ledger", "accept-loss", f"{ledger_id},7-9", "--dry-run", *words)
    assert (told.exit_code, told.stdout) == (1, "")
    told = cli.bookie("ledger", "retract-loss", ledger_id, "--reason", "x", "--yes", *words)
    assert (told.exit_code, told.stdout) == (1, "")


def test_no_loss_is_accepted_while_a_member_is_merely_away(cli: CliLab) -> None:
    metadata = doubtful(cli)
    options = ("--reason", "power cut", "--yes")
    told = cli.bookie("ledger", "accept-loss", metadata.ledger_id, *options)
    assert (told.exit_code, told.stdout) == (5, "")
    assert "bookie-2" in told.stderr and "away" in told.stderr
    assert cli.json("ledger", "info", metadata.ledger_id)["state"] != "CLOSED"


def test_a_loss_is_accepted_once_everyone_has_answered(cli: CliLab) -> None:
    metadata = doubtful(cli)
    set_down(cli, 2, False)
    crash(cli, 2)
    words = ("ledger", "accept-loss", metadata.ledger_id, "--reason", "power cut")
    assert "--yes" in cli.bookie(*words).stderr, "it asks first"
    told = cli.json(*words, "--yes")
    assert told["lost_from"] == told["last_entry_id"] + 1
    assert told["recorded_on"] == ["bookie-0", "bookie-1", "bookie-2"]
    kept = cli.json("ledger", "info", metadata.ledger_id)
    assert kept["state"] == "CLOSED"
    assert "power cut" in json.dumps(kept["custom"])


def test_a_copy_that_turns_up_is_no_loss(cli: CliLab) -> None:
    metadata = doubtful(cli)
    set_down(cli, 2, False)

    async def find(lab: RepairLab) -> None:
        lab.write(metadata, [5, 6], on=(2,))

    cli.do(find)
    told = cli.json("ledger", "accept-loss", metadata.ledger_id, "--reason", "x", "--yes")
    assert told["last_entry_id"] >= 5


def test_another_entry_than_the_one_in_question_is_refused(cli: CliLab) -> None:
    metadata = doubtful(cli)
    set_down(cli, 2, False)
    crash(cli, 2)
    options = ("--reason", "x", "--yes", "--entry", 99)
    told = cli.bookie("ledger", "accept-loss", metadata.ledger_id, *options)
    assert told.exit_code == 5
    assert "is in question, not 99" in told.stderr


def test_the_end_of_a_closed_ledger_is_never_given_up(cli: CliLab) -> None:
    metadata = made(cli, 10, last=9)
    told = cli.bookie("ledger", "accept-loss", metadata.ledger_id, "--reason", "x", "--yes")
    assert told.exit_code == 5
    assert "CLOSED at entry 9" in told.stderr
    assert PASSWORD.decode() not in told.stderr


def test_bit_rot_is_found_named_and_repaired(cli: CliLab) -> None:
    metadata = made(cli, 10, last=9)

    async def rot(lab: RepairLab) -> None:
        lab.fleet[1].fail_reads(metadata.ledger_id, [EntryId(4)])

    cli.do(rot)
    assert cli.bookie("audit").exit_code == 0, "indexes alone cannot tell"
    told = cli.bookie("audit", "--verify-digests")
    rows = [line.split() for line in told.stdout.split("findings:")[1].splitlines() if line]
    assert told.exit_code == 3 and rows[1][2:] == ["corrupt", "4", "bookie-1"]
    repaired = cli.json("repair", "--engine", "inline", "--verify-digests", "--read-rate", 10**9)
    assert (repaired["corrupt_replaced"], repaired["audit_after"]["ok"]) == (1, 10)
    assert cli.bookie("audit", "--verify-digests").exit_code == 0


def test_a_read_rate_alone_is_wrong_usage(cli: CliLab) -> None:
    assert cli.bookie("audit", "--read-rate", 5).exit_code == 2


@pytest.mark.parametrize("command", ["audit", "repair"])
def test_an_unknown_engine_is_wrong_usage(cli: CliLab, command: str) -> None:
    assert cli.bookie(command, "--engine", "flink").exit_code == 2


def recorded_as_lost(cli: CliLab) -> LedgerMetadata:
    """Entries 0..4 are there, and bookie-1 says that its copy of entry 4 is lost."""
    metadata = made(cli, 5, last=4)

    async def record(lab: RepairLab) -> None:
        lab.control.lost[lab.ids[1], metadata.ledger_id] = EntrySet.from_ranges([(4, 4)])
        del lab.fleet[lab.ids[1]].ledgers[metadata.ledger_id].entries[EntryId(4)]

    cli.do(record)
    return metadata


def test_a_wrong_loss_is_taken_back_and_a_repair_copies_the_entry(cli: CliLab) -> None:
    metadata = recorded_as_lost(cli)
    words = ("ledger", "retract-loss", metadata.ledger_id, "--reason", "two copies are left")
    assert "--yes" in cli.bookie(*words).stderr, "it asks first"
    done = cli.json(*words, "--yes")
    assert (done["retracted_on"], done["in_limbo_on"]) == ({"bookie-1": 1}, ["bookie-1"])
    assert [row["mark"] for row in cli.json("limbo")] == ["limbo"]
    told = cli.json("repair", "--engine", "inline", "--every-ledger")
    assert (told["entries_copied"], told["audit_after"]["ok"]) == (1, 5)
    assert cli.json("limbo", "--unchecked") == []
    assert cli.json(*words, "--yes")["retracted_on"] == {}, "there is nothing to take back"


def test_a_loss_is_taken_back_of_the_entries_that_are_named(cli: CliLab) -> None:
    metadata = recorded_as_lost(cli)
    words = ("ledger", "retract-loss", metadata.ledger_id, "--reason", "x", "--yes")
    assert cli.json(*words, "--entries", "0-3")["retracted_on"] == {}
    for mistaken in ("4-", "5-4", "-4", "four", "0-99999999999999999999"):
        assert "FIRST-LAST" in cli.bookie(*words, f"--entries={mistaken}").stderr
    assert cli.json(*words, "--entries", "4")["retracted_on"] == {"bookie-1": 1}


def test_a_silent_bookie_may_have_a_loss_record(cli: CliLab) -> None:
    metadata = recorded_as_lost(cli)
    set_down(cli, 2, True)
    options = ("--reason", "x", "--yes")
    told = cli.bookie("ledger", "retract-loss", metadata.ledger_id, *options)
    assert told.exit_code == 4 and "no answer from bookie-2" in told.stderr


def test_a_loss_that_ended_a_ledger_is_not_taken_back(cli: CliLab) -> None:
    metadata = doubtful(cli)
    set_down(cli, 2, False)
    crash(cli, 2)
    words = (metadata.ledger_id, "--reason", "power cut", "--yes")
    cli.json("ledger", "accept-loss", *words)
    told = cli.bookie("ledger", "retract-loss", *words)
    assert told.exit_code == 5 and "cannot be undone" in told.stderr


def undecided(cli: CliLab, count: int) -> list[int]:
    """Ledgers that a repair could not close, each from entry 5 on."""
    ledgers = [made(cli, 5, last=None) for _ in range(count)]

    async def write(lab: RepairLab) -> None:
        for ledger in ledgers:
            lab.write(ledger, [5], on=(0, 1))

    cli.do(write)
    crash(cli, 0, 1)
    assert cli.bookie("repair", "--engine", "inline").exit_code == 4
    return [ledger.ledger_id for ledger in ledgers]


def test_a_dry_run_shows_where_each_ledger_would_be_closed(cli: CliLab) -> None:
    undecided(cli, 2)
    told = cli.bookie("ledger", "accept-loss", "0-9", "--dry-run")
    assert told.exit_code == 0
    assert "2 of 2 ledgers would be closed, 2 with entries given up" in told.stdout
    rows = [line.split() for line in told.stdout.splitlines()[1:3]]
    assert rows == [[str(n), "4", "5", "3", "bookie-0,", "bookie-1", "-"] for n in (0, 1)]
    assert cli.json("ledger", "info", 0)["state"] == "IN_RECOVERY"


def test_a_dry_run_that_finds_what_cannot_be_decided_is_no_failure(cli: CliLab) -> None:
    undecided(cli, 1)
    told = cli.bookie("ledger", "accept-loss", "0,7", "--dry-run")
    assert told.exit_code == 0 and "ledger 7 does not exist" in told.stdout
    assert "1 of 2 ledgers would be closed" in told.stdout


def test_a_range_without_a_ledger_to_decide_about_says_so(cli: CliLab) -> None:
    made(cli, 3, last=None)
    told = cli.bookie("ledger", "accept-loss", "0-9", "--dry-run")
    assert told.exit_code == 0 and "no ledger of these is in a recovery" in told.stdout


def test_one_decision_closes_all_and_says_how_many_it_could_not(cli: CliLab) -> None:
    undecided(cli, 3)
    words = ("ledger", "accept-loss", "0@5,1@5,2@6", "--reason", "power cut", "--yes")
    told = cli.bookie(*words)
    assert told.exit_code == 5 and "1 of 3 ledgers could not be decided" in told.stderr
    assert "2 of 3 ledgers closed, 2 with entries given up" in told.stdout
    assert "entry 5 is in question, not 6" in told.stdout
    assert [cli.json("ledger", "info", n)["state"] for n in range(3)] == [
        "CLOSED", "CLOSED", "IN_RECOVERY",
    ]  # fmt: skip


def test_what_a_decision_could_not_close_is_in_its_summary_as_well(
    cli: CliLab, tmp_path: Path
) -> None:
    undecided(cli, 1)
    path = tmp_path / "summary"
    words = ("ledger", "accept-loss", "0,7", "--reason", "power cut", "--yes", "--summary", path)
    assert cli.bookie(*words).exit_code == 5
    summary = json.loads(path.read_text())
    assert (summary["closed"], summary["refused"]) == (1, 1)


def test_a_selector_that_cannot_be_read_is_wrong_usage(cli: CliLab) -> None:
    told = cli.bookie("ledger", "accept-loss", "4-3", "--reason", "x", "--yes")
    assert told.exit_code == 2 and "expected ledgers such as 4, 9-12" in told.stderr


def test_an_entry_of_several_ledgers_is_wrong_usage(cli: CliLab) -> None:
    told = cli.bookie("ledger", "accept-loss", "4,5", "--entry", 3, "--reason", "x", "--yes")
    assert told.exit_code == 2 and "expected one, without an entry" in told.stderr


def test_a_decision_without_a_reason_is_wrong_usage(cli: CliLab) -> None:
    told = cli.bookie("ledger", "accept-loss", "4", "--reason", " ", "--yes")
    assert told.exit_code == 2 and "--reason is needed" in told.stderr


def test_nothing_is_proven_of_a_ledger_that_does_not_exist(cli: CliLab) -> None:
    metadata = made(cli, 3, last=2)
    told = cli.bookie("audit", "--ledger", metadata.ledger_id, "--ledger", 99)
    assert told.exit_code == 1 and "ledger 99 does not exist" in told.stderr
    assert cli.bookie("audit", "--ledger", metadata.ledger_id).exit_code == 0


@pytest.mark.parametrize("beside", [False, True])
def test_a_ledger_that_is_there_and_cannot_be_read_is_audited_as_such(
    cli: CliLab, beside: bool
) -> None:
    """It does exist, and nobody knows of its copies; alone or beside one that can be read."""
    good, bad = made(cli, 3, last=2), made(cli, 3, last=2)

    async def spoil(lab: RepairLab) -> None:
        lab.garble(bad.ledger_id)

    cli.do(spoil)
    asked = ["--ledger", bad.ledger_id, *(["--ledger", good.ledger_id] if beside else [])]
    told = cli.bookie("audit", *asked)
    assert told.exit_code == 4 and "does not exist" not in told.stderr
    assert "metadata that cannot be read" in told.stdout


def test_the_grace_of_writers_is_said_and_can_be_set(cli: CliLab) -> None:
    made(cli, 5, last=None, flush=False)
    crash(cli, 1)
    done = cli.bookie("repair", "--engine", "inline", "--writer-grace", "0.001", "--progress")
    assert "0.001 s for writers: ledger" in done.output
