"""Every rule of the tap can be broken on the wire, and is said to be when it is."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from bookie.frames.build import build_run
from bookie.frames.entry import EntryCodec, master_key
from bookie.frames.frame import FLAG_RECOVERY
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.ledger import Fragment, LedgerMetadata
from bookie.protocol.status import Status
from bookie.testing.simulation.history import History
from bookie.testing.simulation.wiretap import ANSWER_S, FENCES_MAX, Wiretap
from bookie.wire.native import FLAG_FENCE, LacReply, LacRequest, Op, ReadRequest, envelope_header

L = LedgerId(4)
B = tuple(BookieId(f"bookie-{n}") for n in range(3))
OPEN = LedgerMetadata(L, 3, 3, 2, (Fragment(EntryId(0), B),))
KEY = master_key(b"secret")
CODEC = EntryCodec(L, OPEN.digest_type, b"secret")


class Wire:
    """One client, and one connection of it to each bookie; answers arrive at once."""

    def __init__(self) -> None:
        self.now = 1.0
        self.history = History(lambda: self.now)
        self.held: EntrySet | None = EMPTY
        """What bookies have, whichever is asked."""
        self.tap = Wiretap(
            self.history, lambda *_of: EMPTY, lambda *_of: self.held, lambda: self.now
        )
        self.history.changed(L, OPEN)
        self._request = 0

    def ask(self, place: int, op: Op, body: bytes, status: Status, *, flags: int = 0,
            reply: bytes = b"", client: str = "writer-0") -> None:  # fmt: skip
        self._request += 1
        message = envelope_header(op, flags, self._request, len(body)) + body
        self.tap.sent(client, place, message)
        self.tap.heard(B[place], place, message)
        said = envelope_header(op, status, self._request, len(reply)) + reply
        self.tap.said(B[place], place, said)
        self.tap.answered(client, place, said)

    def add(self, place: int, entry_id: int, status: Status = Status.OK, *, lac: int = -1,
            flags: int = 0, client: str = "writer-0") -> None:  # fmt: skip
        entry = CODEC.encode(EntryId(entry_id), b"x", lac=EntryId(lac), length=1)
        run = build_run(L, EntryId(entry_id), [entry], lac=EntryId(lac), flags=flags)
        self.ask(place, Op.ADD_RUN, KEY + bytes(run), status, client=client)

    def read_lac(self, place: int, status: Status = Status.OK, *, lac: int = -1,
                 client: str = "rival-1") -> None:  # fmt: skip
        reply = LacReply(EntryId(lac), NO_ENTRY).encode() if status is Status.OK else b""
        body = LacRequest(L, KEY).encode()
        self.ask(place, Op.READ_LAC, body, status, flags=FLAG_FENCE, reply=reply, client=client)

    def read(self, place: int, last: int = 9, *, flags: int = FLAG_FENCE,
             client: str = "rival-1") -> None:  # fmt: skip
        body = ReadRequest(L, EntryId(0), EntryId(last), 1000, KEY).encode()
        self.ask(place, Op.READ, body, Status.NO_SUCH_ENTRY, flags=flags, client=client)


def deny_what_was_taken(wire: Wire) -> None:
    wire.add(0, 3)
    wire.read(0, flags=0)


def list_without_what_was_taken(wire: Wire) -> None:
    wire.add(0, 3)
    wire.read_lac(1)
    wire.tap.listed(B[0], L, EMPTY, EMPTY, asked=wire.tap.moment + 1)


def take_after_a_fence(wire: Wire) -> None:
    wire.read_lac(0)
    wire.add(0, 0)


def take_after_an_unclean_stop(wire: Wire) -> None:
    wire.add(0, 0)
    wire.tap.stopped_uncleanly(B[0])
    wire.add(0, 1)


def take_what_lacks_a_disk_although_copies_are_back(wire: Wire) -> None:
    wire.add(0, 0)
    wire.tap.stopped_uncleanly(B[0], lost_disk=True)
    wire.add(0, 1, Status.READ_ONLY)
    wire.held = EntrySet.from_ids([EntryId(0)])
    wire.add(0, 1)


def tell_a_lower_lac(wire: Wire) -> None:
    wire.add(0, 6, lac=5)
    wire.read_lac(0, lac=4)


def read_on_too_early(wire: Wire) -> None:
    wire.history.changed(L, OPEN.in_recovery())
    wire.read_lac(0)
    wire.read(0)


def read_without_a_fence(wire: Wire) -> None:
    wire.history.changed(L, OPEN.in_recovery())
    for place in (0, 1):
        wire.read_lac(place)
    wire.read(0, flags=0)


def go_on_after_a_fence(wire: Wire) -> None:
    wire.add(0, 0, Status.FENCED)
    wire.now += 5.0
    wire.add(1, 1)


def ask_without_a_pause(wire: Wire) -> None:
    for _ in range(FENCES_MAX + 1):
        wire.read_lac(0)


def tell_a_lac_that_nobody_sent(wire: Wire) -> None:
    wire.add(0, 6, lac=5)
    wire.read_lac(0, lac=6)


def take_what_was_given_up(wire: Wire) -> None:
    wire.add(0, 0)
    wire.tap.given_up(B[0], L)
    wire.add(0, 1)


def copy_what_nobody_calls_acknowledged(wire: Wire) -> None:
    for entry_id in (0, 1):
        wire.add(0, entry_id, lac=0)
    wire.add(1, 1, flags=FLAG_RECOVERY, client="repair")


def answer_twice(wire: Wire) -> None:
    wire.add(0, 0)
    said = envelope_header(Op.ADD_RUN, Status.OK, 1, 0)
    wire.tap.said(B[0], 0, said)


def never_answer(wire: Wire) -> None:
    for place in (0, 1):
        wire.tap.heard(B[place], place, envelope_header(Op.READ, 0, 7, 0))
    wire.now += ANSWER_S
    wire.tap.calmed_down({1})


@pytest.mark.parametrize(
    ("deed", "words"),
    [
        (deny_what_was_taken, "denied 3 of ledger 4, which it had acknowledged"),
        (list_without_what_was_taken, "listed what it holds of ledger 4 without 3"),
        (take_after_a_fence, "came after it had answered a fence"),
        (take_after_an_unclean_stop, "neither mark nor fence has kept it out"),
        (take_what_lacks_a_disk_although_copies_are_back, "neither mark nor fence"),
        (tell_a_lower_lac, "told a LAC of 4"),
        (read_on_too_early, "of bookie-0, bookie-1, bookie-2 only bookie-0 is fenced"),
        (read_without_a_fence, "which it recovers, without a fence"),
        (go_on_after_a_fence, "began 1 of ledger 4 though it had been told"),
        (ask_without_a_pause, "a retry without a pause"),
        (tell_a_lac_that_nobody_sent, "whose writer has sent none above 5"),
        (take_what_was_given_up, "had given up all that it had"),
        (copy_what_nobody_calls_acknowledged, "copies 1 of ledger 4, which is open"),
        (answer_twice, "answered ADD_RUN once more than it was asked"),
        (never_answer, "bookie-1 never answered READ, asked at 1.0"),
    ],
)
def test_a_broken_promise_is_heard(deed: Callable[[Wire], None], words: str) -> None:
    wire = Wire()
    deed(wire)
    assert words in wire.history.violations[0]


def recover(wire: Wire) -> None:
    """Two fence answers of three, reads that fence, a write-back after them."""
    wire.add(0, 0)
    wire.history.changed(L, OPEN.in_recovery())
    for ask in (wire.read_lac, wire.read):
        for place in (1, 2):
            ask(place)
    wire.add(1, 0, flags=FLAG_RECOVERY)


def go_on_where_another_is_fenced(wire: Wire) -> None:
    """A bookie that is no member any more says fenced; its word counts no more."""
    other = replace(OPEN, fragments=(Fragment(EntryId(0), (B[0], B[1], BookieId("bookie-9"))),))
    wire.history.changed(L, other)
    wire.add(2, 0, Status.FENCED)
    wire.now += 5.0
    wire.add(1, 1)


def list_without_what_was_rejected(wire: Wire) -> None:
    """Its copy was wrong, and a repair brings another one."""
    wire.tap.distrust(B[0])
    list_without_what_was_taken(wire)


def take_what_a_stop_took_of_a_deleted_ledger(wire: Wire) -> None:
    wire.add(0, 0)
    wire.tap.stopped_uncleanly(B[0])
    wire.history.changed(L, None)
    wire.tap.given_up(B[0], L)
    wire.add(0, 1)


def take_again_once_copies_are_back(wire: Wire) -> None:
    wire.add(0, 0)
    wire.tap.stopped_uncleanly(B[0])
    wire.add(0, 1, Status.READ_ONLY)
    wire.held = EntrySet.from_ids([EntryId(0)])
    wire.add(0, 1)


def mend(wire: Wire) -> None:
    """Of an open ledger what a LAC covers, and what is before its last fragment."""
    wire.add(0, 1, lac=0)
    wire.add(1, 0, flags=FLAG_RECOVERY, client="repair")
    later = Fragment(EntryId(2), (B[0], B[1], BookieId("bookie-9")))
    wire.history.changed(L, replace(OPEN, fragments=(*OPEN.fragments, later)))
    wire.add(1, 1, flags=FLAG_RECOVERY, client="repair")


@pytest.mark.parametrize(
    "deed",
    [
        recover,
        mend,
        go_on_where_another_is_fenced,
        list_without_what_was_rejected,
        take_again_once_copies_are_back,
        take_what_a_stop_took_of_a_deleted_ledger,
    ],
)
def test_who_keeps_the_promises_is_not_accused(deed: Callable[[Wire], None]) -> None:
    wire = Wire()
    deed(wire)
    assert wire.history.violations == []


def test_what_a_bookie_lists_it_has_stored_though_its_answer_was_cut_off() -> None:
    wire = Wire()
    assert not wire.tap.has_acknowledged(B[0], L, EntryId(7))
    wire.tap.listed(B[0], L, EntrySet.from_ranges([(7, 7)]), EMPTY, asked=0)
    assert wire.tap.has_acknowledged(B[0], L, EntryId(7))


def test_who_takes_a_copy_from_a_recovery_is_a_newcomer_until_the_ledger_names_it() -> None:
    others = (Fragment(EntryId(0), (B[1], B[2], BookieId("bookie-9"))),)
    wire, named = Wire(), replace(OPEN, fragments=others)
    wire.history.changed(L, named.in_recovery())
    wire.add(0, 0, flags=FLAG_RECOVERY)
    assert wire.tap.newcomers() == [B[0]]
    wire.history.changed(L, OPEN.in_recovery())
    assert wire.tap.newcomers() == []


def test_a_bookie_has_pledged_what_it_acknowledged_and_is_to_hold() -> None:
    wire = Wire()
    wire.add(0, 3)
    assert wire.tap.pledged(B[0], L) == EntrySet.from_ranges([(3, 3)])
    wire.history.changed(L, OPEN.closed(EntryId(2), length=0))
    assert wire.tap.pledged(B[0], L).is_empty


def test_the_answers_that_a_bookie_must_stand_for_are_told() -> None:
    wire, told = Wire(), list[str]()
    wire.tap.on_answer = lambda _bookie, what: told.append(what)
    wire.add(0, 0)
    wire.add(0, 1, flags=FLAG_RECOVERY)
    wire.read_lac(0)
    wire.tap.cleared(B[0], L)
    assert told == ["add", "recovery add", "fence", "clear"]


def change(wire: Wire, first: int, *ensemble: str) -> None:
    """The writer begins its last fragment there, on these bookies."""
    before = wire.history.ledger(L).metadata
    assert before is not None
    fragments = [f for f in before.fragments if f.first_entry_id < first]
    new = Fragment(EntryId(first), tuple(map(BookieId, ensemble)))
    after = before.with_fragments((*fragments, new))
    wire.tap.changed(before, after)
    wire.history.changed(L, after)


def test_a_bookie_that_was_replaced_and_taken_back_may_deny_what_the_writer_sends_again() -> None:
    wire = Wire()
    wire.add(0, 3)
    change(wire, 2, "bookie-3", *B[1:])
    change(wire, 2, *B)
    wire.read(0, flags=0)
    assert wire.tap.pledged(B[0], L).is_empty and not wire.history.violations
    wire.add(0, 3)
    wire.read(0, flags=0)
    assert "denied 3 of ledger 4" in wire.history.violations[0]


def test_who_stays_when_another_is_replaced_is_held_to_its_word() -> None:
    wire = Wire()
    wire.add(0, 1)
    wire.add(1, 3)
    change(wire, 2, "bookie-3", *B[1:])
    assert wire.tap.pledged(B[1], L) == EntrySet.from_ids([3])
    assert wire.tap.pledged(B[0], L) == EntrySet.from_ids([1]), "before the change"


def test_a_bookie_that_was_named_nowhere_meanwhile_may_have_forgotten_a_lac() -> None:
    wire = Wire()
    wire.add(0, 6, lac=5)
    change(wire, 0, "bookie-3", *B[1:])
    change(wire, 0, *B)
    wire.read_lac(0)
    assert wire.history.violations == []


def test_a_bookie_that_an_earlier_fragment_names_may_not() -> None:
    wire = Wire()
    wire.add(0, 6, lac=5)
    change(wire, 2, "bookie-3", *B[1:])
    wire.read_lac(0)
    assert len(wire.history.violations) == 1
