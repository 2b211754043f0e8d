"""What a writer pays to turn payloads into runs, against bare copies and checksums of the bytes.

    python benchmarks/bench_client_encode.py

CPU microseconds per entry, the median of several rounds, E == Qw = 3 with CRC32C and, to show the
cost of striping, E = 5, Qw = 3. The probe does what no writer can avoid: one crc32c and one joined
copy per MiB of payload. The ratio is the figure to look at; absolute ones belong to this machine.
Where the ratio grows with small payloads, the one checksum call for each entry is what is seen;
with large ones, the second checksum that the frame costs.
"""

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.protocol.batches import BatchQueue
from bookie.protocol.ledger import Fragment, LedgerMetadata
from crc32c import crc32c

PAYLOAD_SIZES: Final = (100, 1024, 4096, 65536)
TOTAL_BYTES: Final = 32 * 1024 * 1024
ENTRIES_MAX: Final = 100_000
BATCH_BYTES: Final = 1024 * 1024
ROUNDS: Final = 5


def ledger(ensemble_size: int) -> LedgerMetadata:
    ensemble = tuple(BookieId(f"bookie-{index}") for index in range(ensemble_size))
    return LedgerMetadata(LedgerId(1), ensemble_size, 3, 2, (Fragment(EntryId(0), ensemble),))


def encode(payloads: list[bytes], *, ensemble_size: int) -> None:
    gatherer = BatchQueue(ledger(ensemble_size), batch_bytes=BATCH_BYTES)
    gatherer.append(payloads)
    while not gatherer.is_empty:
        gatherer.take(lac=NO_ENTRY)


def probe(payloads: list[bytes]) -> None:
    step = max(BATCH_BYTES // len(payloads[0]), 1)
    for start in range(0, len(payloads), step):
        crc32c(b"".join(payloads[start : start + step]))


def cpu_us_per_entry(work: Callable[[], None], entries: int) -> float:
    start = time.process_time()
    work()
    return (time.process_time() - start) / entries * 1e6


def main() -> None:
    print("payload bytes   probe us   3/3 us (ratio)   5/3 us (ratio)")
    for size in PAYLOAD_SIZES:
        payloads = [bytes(size)] * min(TOTAL_BYTES // size, ENTRIES_MAX)
        works = (
            partial(probe, payloads),
            partial(encode, payloads, ensemble_size=3),
            partial(encode, payloads, ensemble_size=5),
        )
        # In turn within one round, so that a busy minute touches all three.
        rounds = [[cpu_us_per_entry(work, len(payloads)) for work in works] for _ in range(ROUNDS)]
        bare, plain, striped = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(
            f"{size:13}   {bare:8.2f}   {plain:6.2f} ({plain / bare:5.1f})"
            f"   {striped:6.2f} ({striped / bare:5.1f})"
        )


if __name__ == "__main__":
    main()
