"""Of which silent bookie nothing but a cookie is left, and when nobody can say so."""

import pytest
from bookie.ids import EntryId
from bookie.protocol.ledger import LedgerMetadata
from bookie.repair.look.left_over import left_over
from repair_lab import RepairLab

NOBODY: set[int] = set()


@pytest.fixture
async def lab() -> RepairLab:
    """Bookie 4 went for good, and no ledger names it."""
    lab = await RepairLab(5).start()
    await lab.ledger((0, (0, 1, 2)), entries=3, last=2)
    await lab.store.unregister(lab.ids[4])
    return lab


async def found(lab: RepairLab, *numbers: int) -> set[int]:
    return {lab.ids.index(one) for one in await left_over(lab.store, [lab.ids[n] for n in numbers])}


async def begin_recovery(lab: RepairLab, ledger: LedgerMetadata) -> None:
    found = await lab.store.read_ledger(ledger.ledger_id)
    await lab.store.write_ledger(found.value.in_recovery(), version=found.version)


async def test_it_is_one_that_is_silent_not_registered_and_named_by_no_ledger(
    lab: RepairLab,
) -> None:
    assert await found(lab, 4) == await found(lab, 4, 3, 0) == {4}
    assert await found(lab, 3) == await found(lab) == NOBODY
    await lab.store.unregister(lab.ids[3])
    assert await found(lab, 3, 4) == {3, 4}


@pytest.mark.parametrize("fragments", [[(0, (0, 1, 4))], [(0, (0, 1, 4)), (2, (0, 1, 2))]])
@pytest.mark.parametrize("last", [None, 3])
async def test_one_that_a_fragment_names_is_none(
    lab: RepairLab, fragments: list[tuple[int, tuple[int, ...]]], last: int | None
) -> None:
    await lab.ledger(*fragments, last=last)
    assert await found(lab, 4) == NOBODY


async def test_nobody_is_while_a_recoverer_may_come_to_name_it(lab: RepairLab) -> None:
    """S37: it names any bookie that it can write to."""
    ledger = await lab.ledger(entries=3)
    assert await found(lab, 4) == {4}
    await begin_recovery(lab, ledger)
    assert await found(lab, 4) == NOBODY
    now = await lab.store.read_ledger(ledger.ledger_id)
    await lab.store.write_ledger(now.value.closed(EntryId(2), length=3), version=now.version)
    assert await found(lab, 4) == {4}


async def test_nobody_is_while_a_ledger_cannot_be_read(lab: RepairLab) -> None:
    lab.garble((await lab.ledger(entries=3)).ledger_id)
    assert await found(lab, 4) == NOBODY
