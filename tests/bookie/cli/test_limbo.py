"""`bookie limbo`: which marks are shown, of which bookies, and what is not known."""

import json

import pytest
from bookie.cli.limbo import marks_of
from bookie.ids import BookieId, LedgerId
from bookie.metadata.store import Cookie
from bookie.protocol.status import Status
from bookie.repair.look.bookie_control import Marks
from bookie.wire.admin.limbo_marks import Mark
from cli_lab import CliLab
from repair_lab import RepairLab

LIMBO, UNCHECKED = (0, "limbo"), (1, "unchecked")


def crashed(cli: CliLab, *, open_ledger: bool = True) -> None:
    """Bookies 1 and 2 have marks: of ledger 0, open if so asked, and of closed ledger 1."""

    async def crash(lab: RepairLab) -> None:
        await lab.ledger(entries=3, last=None if open_ledger else 2)
        await lab.ledger(entries=3, last=2)
        await lab.crash(1, 2)

    cli.do(crash)


def rows(text: str) -> list[tuple[str, int | None, str]]:
    return [(row["bookie"], row["ledger_id"], row["mark"]) for row in json.loads(text)]


@pytest.mark.parametrize(
    ("words", "marks"),
    [
        ("", [("bookie-1", *LIMBO), ("bookie-2", *LIMBO)]),
        (
            "--unchecked",
            [(f"bookie-{n}", *mark) for n in (1, 2) for mark in (LIMBO, UNCHECKED)],
        ),
        ("--bookie bookie-2", [("bookie-2", *LIMBO)]),
        ("--bookie bookie-2 --bookie bookie-1", [("bookie-2", *LIMBO), ("bookie-1", *LIMBO)]),
        ("--bookie bookie-0 --unchecked", []),
    ],
)
def test_marks_are_those_of_the_bookies_that_are_asked(
    cli: CliLab, words: str, marks: list[tuple[str, int, str]]
) -> None:
    crashed(cli)
    told = cli.bookie("limbo", *words.split(), "--output", "json")
    assert (told.exit_code, rows(told.stdout), told.stderr) == (0, marks, "")


def test_ledgers_that_only_wait_for_their_check_are_counted_once(cli: CliLab) -> None:
    crashed(cli, open_ledger=False)
    told = cli.bookie("limbo")
    waiting = "no ledger is in limbo; 2 wait for their check (--unchecked)\n"
    assert (told.exit_code, told.stdout, told.stderr) == (0, waiting, "")


def test_a_bookie_of_which_there_is_but_a_cookie_may_have_forgotten_anything(cli: CliLab) -> None:
    async def know(lab: RepairLab) -> None:
        cookie = Cookie(BookieId("old"), ("/journal",), ("/ledger",), "instance")
        await lab.store.create_cookie(cookie)

    cli.do(know)
    for words in ((), ("--bookie", "old")):
        told = cli.bookie("limbo", *words, "--output", "json")
        assert told.exit_code == 4 and rows(told.stdout) == [("old", None, "no answer")]
        assert "error: no answer, so not everything is known (old: " in told.stderr


def test_a_silent_bookie_hides_no_marks_of_others(cli: CliLab) -> None:
    crashed(cli)

    async def silence(lab: RepairLab) -> None:
        lab.control.unreachable.add(lab.ids[1])

    cli.do(silence)
    told = cli.bookie("limbo", "--output", "json")
    assert told.exit_code == 4 and "(bookie-1: " in told.stderr
    assert rows(told.stdout) == [("bookie-1", None, "no answer"), ("bookie-2", *LIMBO)]


class Answering:
    """A control that answers with these marks and this status."""

    def __init__(self, status: Status, *marks: Mark, message: str = "why") -> None:
        self.answer = Marks(BookieId("b"), status, marks, message)

    async def list_marks(self, bookie_id: BookieId) -> Marks:
        return self.answer


async def test_a_mark_says_what_and_since_which_boot() -> None:
    marks = Mark(LedgerId(4), limbo=True, boot_epoch=7), Mark(LedgerId(5), limbo=False)
    assert await marks_of(Answering(Status.OK, *marks), BookieId("b")) == [
        {"bookie": "b", "ledger_id": 4, "mark": "limbo", "boot_epoch": 7},
        {"bookie": "b", "ledger_id": 5, "mark": "unchecked", "boot_epoch": 0},
    ]


@pytest.mark.parametrize(("message", "told"), [("why", "UNREACHABLE why"), ("", "UNREACHABLE")])
async def test_marks_that_broke_off_are_shown_and_not_all(message: str, told: str) -> None:
    control = Answering(Status.UNREACHABLE, Mark(LedgerId(4), limbo=True), message=message)
    first, last = await marks_of(control, BookieId("b"))
    assert first["ledger_id"] == 4
    assert last == {
        "bookie": "b", "ledger_id": None, "mark": "no answer", "boot_epoch": None, "message": told,
    }  # fmt: skip


@pytest.mark.parametrize("status", Status)
async def test_marks_are_unknown_by_every_answer_but_a_list(status: Status) -> None:
    found = await marks_of(Answering(status), BookieId("bookie-1"))
    told = [(row["mark"], row["message"]) for row in found]
    assert told == ([] if status is Status.OK else [("no answer", f"{status.name} why")])
