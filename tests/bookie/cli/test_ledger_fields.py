"""What is said of ledgers by their metadata alone, and how many are listed."""

import asyncio
import itertools
import json
from dataclasses import replace
from typing import Any

import pytest
from bookie.cli.ledgers import LISTED_AT_ONCE, ledger_json
from bookie.cli.main import main
from bookie.frames.entry import DigestType
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.memory import MemoryStore, named_cluster
from bookie.protocol.ledger import Fragment, LedgerMetadata, LedgerState
from click.testing import CliRunner

NUMBERS = itertools.count()
MEMBERS = BookieId("a"), BookieId("b")
LEDGER = LedgerMetadata(LedgerId(4), 2, 2, 1, (Fragment(EntryId(0), MEMBERS),), password=b"")
FIELDS = {
    "ledger_id": 4,
    "state": "OPEN",
    "last_entry_id": None,
    "length": None,
    "ensemble": 2,
    "write_quorum": 2,
    "ack_quorum": 1,
    "digest": LEDGER.digest_type.name,
    "has_password": False,
    "created": None,
    "fragments": [{"first_entry_id": 0, "ensemble": ["a", "b"]}],
    "custom": {},
}
CLOSED = {"state": LedgerState.CLOSED, "last_entry_id": EntryId(8), "length": 9}


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ({}, {}),
        (CLOSED, {"state": "CLOSED", "last_entry_id": 8, "length": 9}),
        ({"state": LedgerState.IN_RECOVERY}, {"state": "IN_RECOVERY"}),
        ({"password": b"x"}, {"has_password": True}),
        ({"digest_type": DigestType.HMAC}, {"digest": "HMAC"}),
        ({"ctime_ms": 1000}, {"created": "1970-01-01T00:00:01+00:00"}),
        ({"custom": {"k": b"v", "b": b"\xff"}}, {"custom": {"k": "v", "b": r"\xff"}}),
    ],
)
def test_metadata_is_told_and_an_end_only_once_it_is_fixed(
    metadata: dict[str, Any], told: dict[str, Any]
) -> None:
    assert ledger_json(replace(LEDGER, **metadata)) == FIELDS | told


async def shown(ledgers: int, *words: str) -> str:
    """What a command prints in a cluster with so many ledgers."""
    name = f"ledger-fields-{next(NUMBERS)}"
    store = MemoryStore(named_cluster(name))
    await store.initialise()
    for number in range(ledgers):
        await store.create_ledger(replace(LEDGER, ledger_id=LedgerId(number), custom={}))
    command = ["ledger", *words, "--metadata", f"memory://{name}"]
    told = await asyncio.to_thread(CliRunner().invoke, main, command)
    assert told.exit_code == 0
    return told.stdout


@pytest.mark.parametrize("ledgers", [1, LISTED_AT_ONCE - 1, LISTED_AT_ONCE, LISTED_AT_ONCE + 1])
async def test_every_ledger_is_listed_once(ledgers: int) -> None:
    rows = json.loads(await shown(ledgers, "list", "--output", "json"))
    assert [row["ledger_id"] for row in rows] == list(range(ledgers))


async def test_fragments_are_brief_for_people_and_whole_for_programs() -> None:
    table = (await shown(1, "list")).splitlines()
    assert table[0].split() == [
        "LEDGER",
        "ID",
        "STATE",
        "LAST",
        "ENTRY",
        "ID",
        "LENGTH",
        "FRAGMENTS",
    ]
    assert table[1].split() == ["0", "OPEN", "-", "-", "0:", "a", "b"]
    assert "\nfragments      0: a b\n" in await shown(1, "info", "0")
    [row] = json.loads(await shown(1, "list", "--output", "json"))
    found = json.loads(await shown(1, "info", "0", "--output", "json"))
    assert row["fragments"] == found["fragments"] == FIELDS["fragments"]
    assert found.pop("version") == 0
    assert found.pop("custom").keys() == row.pop("custom").keys() and found == row
