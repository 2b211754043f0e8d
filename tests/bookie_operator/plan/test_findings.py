"""What messages say of the findings of an audit: every figure, and the first ledgers by name."""

from collections.abc import Sequence

import pytest
from bookie_operator.model.audit_status import (
    AuditStatus,
    ClassCounts,
    Holders,
    LastCopies,
    ScrubStatus,
)
from bookie_operator.model.drain_status import RereplicationStatus
from bookie_operator.plan.findings import (
    NAMED_MAX,
    findings_text,
    rereplication_text,
    scrub_text,
    verified_text,
)
from operator_scenes import at

FIGURES = AuditStatus(
    clean=False, ledgers=3, entries=99, ok=50, missing=20, unknown=10, below_ack_quorum=7,
    no_copy=4, lost=8,
)  # fmt: skip


def held(known: Sequence[str], ledgers: Sequence[int], *, clean: bool = False) -> str:
    holders = Holders(known=tuple(known), first_ledgers=tuple(ledgers))
    copies = LastCopies(groups=1, held_by=(holders,))
    return findings_text(FIGURES.model_copy(update={"clean": clean, "last_copies": copies}))


def test_every_figure_is_in_its_place() -> None:
    assert findings_text(FIGURES) == (
        "3 ledgers, 99 entries: 50 ok, 20 missing, 10 unknown, 7 below ack quorum, "
        "12 with no copy left"
    )


def test_what_the_audit_could_not_judge_is_named() -> None:
    classes = {"metadata_unreadable": ClassCounts(findings=2)}
    found = FIGURES.model_copy(update={"underreplicated_skipped": 3, "classes": classes})
    assert not AuditStatus(classes=classes).knows_all
    assert findings_text(found).endswith(
        "no copy left; 3 ledgers skipped (marked as under-replicated lately); "
        "2 ledgers with unreadable metadata"
    )


def test_digests_count_as_verified_only_by_a_clean_scrub() -> None:
    ended = {"finished_at": at(0)}
    assert verified_text(ScrubStatus(**ended, clean=True)).startswith("digests verified by")
    assert verified_text(ScrubStatus(**ended, clean=False)).startswith("not all digests verified")


def test_ledgers_and_bookies_are_named_in_order() -> None:
    assert held(["b-2", "b-0"], [9, 4]).endswith(
        "no copy left; first ledgers 4, 9, copies known on b-0, b-2; all of them: `bookie audit`"
    )
    assert "copies known on no bookie;" in held([], [9])


@pytest.mark.parametrize(("count", "more"), [(NAMED_MAX, ","), (NAMED_MAX + 1, ", ...,")])
def test_a_few_are_named_and_that_there_are_more(count: int, more: str) -> None:
    text = held([f"b-{n}" for n in range(count)], range(count))
    assert f"first ledgers 0, 1, 2, 3, 4{more} copies" in text
    assert f"copies known on b-0, b-1, b-2, b-3, b-4{more[:-1]}; all" in text


def test_a_clean_audit_names_nothing() -> None:
    assert "first ledgers" not in held(["b-0"], [9], clean=True)


@pytest.mark.parametrize("why", ["", "a bookie is away"])
def test_what_is_left_of_a_re_replication_or_a_scrub_is_said_in_every_figure(why: str) -> None:
    more = f": {why}" if why else ""
    done = RereplicationStatus(
        bookie="b-1", ledgers_left=3, blocked=2, marks_found=9, marks_cleared=4, message=why
    )
    words = f"the re-replication of b-1 left 3 ledgers, 2 blocked and 5 marks{more}"
    assert rereplication_text(done) == words
    scrub = ScrubStatus(entries=90, corrupt_found=5, corrupt_replaced=1, blocked=2, message=why)
    words = "the scrub of 90 entries found 5 corrupt copies; 4 of them are left, 2 ledgers were"
    assert scrub_text(scrub) == f"{words} not finished{more}"
