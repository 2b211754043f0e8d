"""The last word: read every log to its end and compare each acknowledged byte with the input."""

from dataclasses import dataclass

from bookie.client.bookkeeper_client import Client
from bookie.client.log_reading import LogPosition, read_log
from bookie.metadata.store import MetadataStore
from load import Tally
from source import Input, Piece


@dataclass(slots=True)
class Verdict:
    """`unasked_entries`: stored without an acknowledgement seen, which is allowed."""

    ledgers_read: int = 0
    entries_read: int = 0
    lost_entries: int = 0
    wrong_bytes: int = 0
    unasked_entries: int = 0


async def verify(source: Input, tally: Tally, *, store: MetadataStore, client: Client) -> Verdict:
    """Reads all ledgers that hold an acknowledged entry."""
    verdict = Verdict()
    for log, expected in tally.positions.items():
        await _verify_log(log, expected, verdict, source=source, store=store, client=client)
    return verdict


async def _verify_log(
    log: str,
    expected: dict[LogPosition, Piece],
    verdict: Verdict,
    *,
    source: Input,
    store: MetadataStore,
    client: Client,
) -> None:
    missing = set(expected)
    ledgers = set()
    async for entry in read_log(log, ledgers=client, store=store):
        verdict.entries_read += 1
        piece = expected.get(entry.position)
        if piece is None:
            verdict.unasked_entries += 1
            continue
        missing.discard(entry.position)
        ledgers.add(entry.position.ledger_id)
        verdict.wrong_bytes += _differing(entry.payload, source.bytes_of(piece))
    verdict.lost_entries += len(missing)
    verdict.ledgers_read += len(ledgers)


def _differing(found: bytes, wanted: bytes) -> int:
    if found == wanted:
        return 0
    pairs = sum(a != b for a, b in zip(found, wanted, strict=False))
    return pairs + abs(len(found) - len(wanted))
