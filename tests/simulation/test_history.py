"""Every rule of the history can be broken, and is said to be when it is."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.protocol.ledger import Fragment, LedgerMetadata
from bookie.testing.simulation.history import History, names

L = LedgerId(4)
B = tuple(BookieId(f"bookie-{n}") for n in range(4))
OPEN = LedgerMetadata(L, 3, 3, 2, (Fragment(EntryId(0), B[:3]),))
CHANGED = replace(OPEN, fragments=(*OPEN.fragments, Fragment(EntryId(2), (B[3], *B[1:3]))))


def history(*, acked: int = 0, sent: int = 5) -> History:
    """An open ledger with `sent` entries, of which `acked` are acknowledged."""
    made = History(lambda: 1.0)
    made.changed(L, OPEN)
    for n in range(sent):
        made.sending(L, EntryId(n), b"%d" % n)
    for n in range(acked):
        made.acknowledged(L, EntryId(n))
    return made


def closed(end: int) -> LedgerMetadata:
    return OPEN.closed(EntryId(end), length=0)


def truncate(made: History) -> None:
    made.changed(L, closed(1))


def reopen(made: History) -> None:
    made.changed(L, closed(2))
    made.changed(L, OPEN)


def move_the_end(made: History) -> None:
    made.changed(L, closed(2))
    made.changed(L, replace(closed(3)))


def ack_late(made: History) -> None:
    made.changed(L, closed(2))
    made.acknowledged(L, EntryId(3))


def skip(made: History) -> None:
    made.acknowledged(L, EntryId(4))


def read_dirty(made: History) -> None:
    made.read(L, EntryId(4), b"4")
    made.changed(L, closed(3))


def read_beyond(made: History) -> None:
    made.changed(L, closed(2))
    made.read(L, EntryId(3), b"3")


def read_wrong(made: History) -> None:
    made.read(L, EntryId(1), b"2")


def open_elsewhere(made: History) -> None:
    made.changed(L, closed(2))
    made.opened(L, EntryId(3))


def lose(made: History) -> None:
    made.lost(L, EntryId(1), expected=False)


def come_short(made: History) -> None:
    made.changed(L, closed(2))
    made.check_readable(L, {EntryId(0): b"0", EntryId(2): b"2"})


def rewrite_closed(made: History) -> None:
    made.changed(L, closed(2))
    made.changed(L, closed(2), by="rival-1")


def change_in_recovery(made: History) -> None:
    made.changed(L, OPEN.in_recovery())
    made.changed(L, CHANGED.in_recovery(), by="rival-1")


def attribute_to_others(made: History) -> None:
    stored_on(made, 0, 1)
    made.changed(L, CHANGED, by="writer-0")


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (truncate, "truncated"),
        (reopen, "went from CLOSED to OPEN"),
        (move_the_end, "end of CLOSED ledger 4 moved"),
        (ack_late, "acknowledged though CLOSED at 2"),
        (skip, "no prefix"),
        (read_dirty, "a dirty read"),
        (read_beyond, "was shown 3 though it was CLOSED at 2"),
        (read_wrong, "was read as b'2'"),
        (open_elsewhere, "was opened to 3"),
        (lose, "is lost though the budget was kept"),
        (come_short, "1 of 3 entries cannot be read"),
        (rewrite_closed, "rival-1 wrote the metadata of ledger 4, which was CLOSED already"),
        (change_in_recovery, "rival-1 changed the last ensemble of ledger 4 while it is"),
        (attribute_to_others, "2 was acknowledged before its ensemble changed, but of"),
    ],
)
def test_a_broken_rule_is_said(event: Callable[[History], None], words: str) -> None:
    made = history(acked=3)
    event(made)
    assert re.search(words, made.violations[0])


def test_a_history_as_it_should_be_breaks_no_rule() -> None:
    made = history(acked=3)
    made.read(L, EntryId(2), b"2")
    made.changed(L, OPEN.in_recovery())
    made.changed(L, closed(3))
    made.opened(L, EntryId(3))
    assert made.violations == []


def test_a_mover_may_write_closed_metadata_and_a_change_may_begin_behind_the_acks() -> None:
    made, other = history(), history(acked=2)
    made.changed(L, closed(2))
    made.changed(L, replace(closed(2)), by="drainer-1")
    other.changed(L, CHANGED, by="writer-0")
    assert made.violations == other.violations == []


def stored_on(made: History, *numbers: int) -> None:
    """Entry 2 was stored by these bookies only, all others by everybody."""
    holders = {B[number] for number in numbers}
    made.has_stored = lambda bookie, _ledger, entry_id: entry_id != 2 or bookie in holders


@pytest.mark.parametrize("numbers", [(0,), (0, 3)])
def test_what_too_few_of_its_bookies_stored_counts_neither_as_acked_nor_as_closed(
    numbers: tuple[int, ...],
) -> None:
    made, other = history(acked=2), history()
    for one in (made, other):
        stored_on(one, *numbers)
    made.acknowledged(L, EntryId(2))
    other.changed(L, closed(2))
    assert "2 was acknowledged, but of" in made.violations[0]
    assert "2 lies within the closed end, but of" in other.violations[0]


def test_an_ack_quorum_of_its_bookies_is_enough() -> None:
    made = history(acked=2)
    stored_on(made, 0, 2)
    made.acknowledged(L, EntryId(2))
    made.changed(L, closed(2))
    assert not made.violations


def test_an_entry_belongs_to_the_bookies_of_its_write_set_only() -> None:
    striped = LedgerMetadata(L, 4, 2, 2, (Fragment(EntryId(0), B),))
    owners = [[b for b in B if names(striped, b, EntryId(e))] for e in range(4)]
    assert owners == [[B[0], B[1]], [B[1], B[2]], [B[2], B[3]], [B[0], B[3]]]
