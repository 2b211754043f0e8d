"""Quorums of ledgers: what an audit says of those with a lower ack quorum than is asked for."""

from typing import Any

import pytest
from bookie.ids import LedgerId
from bookie.repair.jobs.audit_job import AuditRequest, Checks, audit
from bookie.repair.judge.quorums import (
    LEDGERS_NAMED,
    Ledgers,
    Shape,
    all_quorums,
    quorum_of,
    quorums_json,
)
from bookie.repair.look.digests import DigestSettings
from bookie.repair.look.survey import BulkAudit, total_of
from repair_lab import AUDIT, RepairLab


@pytest.fixture
async def lab() -> RepairLab:
    return await RepairLab(4).start()


async def look(lab: RepairLab, ack_quorum: int | None, **more: Any) -> dict[str, Any]:
    checks = Checks(ack_quorum=ack_quorum)
    return await audit(lab.cluster, AuditRequest(settings=AUDIT, checks=checks, **more))


@pytest.mark.parametrize("digests", [None, DigestSettings()])
async def test_ledgers_with_a_lower_ack_quorum_are_findings_and_no_loss(
    lab: RepairLab, digests: DigestSettings | None
) -> None:
    await lab.ledger(ack=3)
    weak = [await lab.ledger(ack=2), await lab.ledger(ack=1, entries=3, last=2)]
    damaged = await lab.ledger(ack=2, entries=3, last=2)
    lab.fleet[1].lose(damaged.ledger_id, [1])
    found = await look(lab, 3, digests=digests)
    assert found["classes"]["low_ack_quorum"] == {"findings": 3, "entries": 0}
    assert [(row["ack_quorum"], row["ledgers"]) for row in found["low_ack_quorums"]] == [
        (1, 1),
        (2, 2),
    ]
    assert found["low_ack_quorums"][0]["first_ledgers"] == [weak[1].ledger_id]
    assert found["quorums"]["ledgers_by_ack"] == {"1": 1, "2": 2, "3": 1}
    assert found["exit_code"] == 3, "of the damaged one"


async def test_nobody_asks_for_a_quorum_nothing_is_found(lab: RepairLab) -> None:
    await lab.ledger(ack=1)
    found = await look(lab, None)
    assert found["classes"]["low_ack_quorum"]["findings"] == 0 and found["exit_code"] == 0
    assert found["quorums"]["ack_lowest"] == 1 and found["quorums"]["ack_asked"] is None


async def test_of_an_open_ledger_its_ack_quorum_counts_of_a_closed_one_its_copies(
    lab: RepairLab,
) -> None:
    await lab.ledger(ack=1, entries=3, last=2)
    written = await lab.ledger(ack=2)
    told = (await look(lab, 3))["quorums"]
    assert (told["ack_lowest"], told["copies_lowest"]) == (1, 2)
    assert told["ledgers_lowest"] == [written.ledger_id]


async def test_without_ledgers_there_is_no_lowest(lab: RepairLab) -> None:
    told = (await look(lab, 2))["quorums"]
    assert told["ack_lowest"] is told["copies_lowest"] is None and told["ack_asked"] == 2


async def test_they_are_counted_and_the_first_named_over_any_batches(lab: RepairLab) -> None:
    ledgers = [await lab.ledger(ack=1) for _ in range(LEDGERS_NAMED + 3)]
    whole = all_quorums(quorum_of(one) for one in reversed(ledgers))
    [(shape, found)] = whole.items()
    assert (shape.copies, found.count) == (1, LEDGERS_NAMED + 3)
    assert list(found.first) == [one.ledger_id for one in ledgers[:LEDGERS_NAMED]]
    assert total_of([BulkAudit(quorums=whole), BulkAudit()]).quorums == whole


SHAPES = [Shape(copies, ack) for copies in (1, 2, 3) for ack in range(1, copies + 1)]


@pytest.mark.parametrize("missing", range(len(SHAPES)))
def test_the_ledgers_with_the_fewest_copies_are_named_whatever_their_ack_quorum(
    missing: int,
) -> None:
    """Of a closed ledger more copies are certain than its ack quorum."""
    shapes = [shape for number, shape in enumerate(SHAPES) if number > missing]
    found = quorums_json(
        {shape: Ledgers(1, (LedgerId(SHAPES.index(shape)),)) for shape in shapes}, None
    )
    lowest = min((shape.copies for shape in shapes), default=None)
    named = [SHAPES.index(shape) for shape in shapes if shape.copies == lowest]
    assert (found["copies_lowest"], found["ledgers_lowest"]) == (lowest, named)
    assert found["ack_lowest"] == min((shape.ack_quorum for shape in shapes), default=None)
