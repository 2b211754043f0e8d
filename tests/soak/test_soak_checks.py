"""The checks at the end of a soak find what a cluster does wrong: here one in memory that does."""

import pytest
from bookie.frames.build import build_run
from bookie.ids import EntryId
from fleet_ledgers import KEY, FleetLedgers
from payload_rule import PayloadRule
from promises import Promises
from soak_copies import check_copies
from soak_readers import read_back

RULE = PayloadRule(1)
ENTRIES = 3


@pytest.fixture
def promises() -> Promises:
    return Promises(RULE)


@pytest.fixture
async def ledgers() -> FleetLedgers:
    """A ledger of three entries on three bookies, closed, and nothing stored yet."""
    made = FleetLedgers(3)
    metadata = await made.create(3, 3, 2)
    await made.write(metadata.closed(EntryId(ENTRIES - 1), length=0))
    return made


def store(ledgers: FleetLedgers, entry_id: int, *on: int, as_entry: int | None = None) -> None:
    """Puts an entry on bookies; `as_entry`: with the payload of another one."""
    payload = RULE.payload(ledgers.ledger_id, entry_id if as_entry is None else as_entry)
    entry = ledgers.entry(entry_id, payload=payload)
    frame = build_run(ledgers.ledger_id, EntryId(entry_id), [entry], lac=EntryId(entry_id - 1))
    for number in on:
        ledgers.fleet[number].add_run(KEY, frame)


async def read_all(ledgers: FleetLedgers, promises: Promises) -> None:
    await read_back(promises, await ledgers.reader(), first=0, last=ENTRIES - 1)


async def test_what_is_there_and_right_is_no_finding(
    ledgers: FleetLedgers, promises: Promises
) -> None:
    for entry_id in range(ENTRIES):
        store(ledgers, entry_id, 0, 1, 2)
    await read_all(ledgers, promises)
    assert await check_copies(promises, ledgers.fleet, await ledgers.metadata()) == 9
    assert promises.findings.words == []


async def test_an_entry_that_nobody_has_is_lost_and_the_others_are_read(
    ledgers: FleetLedgers, promises: Promises
) -> None:
    for entry_id in (0, 2):
        store(ledgers, entry_id, 0, 1, 2)
    await read_all(ledgers, promises)
    assert (promises.findings.lost, promises.checked) == (1, 2)
    assert "entry 1" in promises.findings.words[0]


async def test_an_entry_with_the_payload_of_another_is_wrong(
    ledgers: FleetLedgers, promises: Promises
) -> None:
    for entry_id in range(ENTRIES):
        store(ledgers, entry_id, 0, 1, 2, as_entry=0)
    await read_all(ledgers, promises)
    assert (promises.findings.lost, promises.findings.wrong) == (0, 2)


async def test_a_copy_that_one_bookie_lacks_is_found_though_readers_are_content(
    ledgers: FleetLedgers, promises: Promises
) -> None:
    for entry_id in range(ENTRIES):
        store(ledgers, entry_id, 0, 1, *([2] if entry_id != 1 else []))
    await read_all(ledgers, promises)
    assert promises.findings.total == 0
    assert await check_copies(promises, ledgers.fleet, await ledgers.metadata()) == 8
    assert promises.findings.failed == 1
