"""Faults that the judge must turn red: planted in the product's code, its disks, or the notes.

Those in the code are textual patches of a copy of the product (tests/mutants). Where the product
would notice its own fault and mend it, or say so, whatever would notice it is spoilt as well: what
is left is a fleet that calls itself whole, and is not.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from mutant import Mutant, Patch, planted

COPY: Final = "bookie/src/bookie/repair/mend/copy.py"
CLEARING: Final = "bookie/src/bookie/protocol/clearing.py"
EXPECT: Final = "bookie/src/bookie/repair/judge/expect.py"
FRAME: Final = "bookie/src/bookie/frames/frame.py"
MOVER: Final = "bookie/src/bookie/repair/mend/ledger_move.py"

CLEARS_BLINDLY: Final = Patch(
    CLEARING,
    old="    if missing:\n        first, last = lowest.ranges()[0]\n",
    new="    if False:\n        first, last = lowest.ranges()[0]\n",
)
"""A bookie lets go of its marks without a look at what it holds."""
AUDITS_BLINDLY: Final = Patch(
    EXPECT,
    old="    if present == owed:\n        return Share(owed, owed, EMPTY, EMPTY, EMPTY)\n",
    new="    if True:\n        return Share(owed, owed, EMPTY, EMPTY, EMPTY)\n",
)
"""Whoever answers is taken to hold all that it owes: nothing is missing, nothing to be copied."""

COPIES_NOTHING: Final = planted(
    "a repair that copies nothing, and says that it did",
    stands_for=("a repair that copied nothing",),
    file=COPY,
    old="            if offered and job.refused is None:\n",
    new="            if False:\n",
    also=(
        Patch(
            COPY,
            old="        copied = EntrySet.from_runs(job.done)\n",
            new="        copied = wanted\n",
        ),
    ),
)
CLEARED_UNWHOLE: Final = planted(
    "a repair that copies nothing, limbo cleared without a look, an audit that sees every copy",
    stands_for=("a cleared limbo that was not whole",),
    file=COPIES_NOTHING.patches[0].file,
    old=COPIES_NOTHING.patches[0].old,
    new=COPIES_NOTHING.patches[0].new,
    also=(*COPIES_NOTHING.patches[1:], CLEARS_BLINDLY, AUDITS_BLINDLY),
)
MOVES_NOTHING: Final = planted(
    "a drain that moves nothing, and an audit that sees every copy",
    stands_for=("a drain that moved nothing",),
    file=MOVER,
    old="            if wanted:\n                await self._copy_to(ledger, target, wanted)\n",
    new="            if False:\n                await self._copy_to(ledger, target, wanted)\n",
    also=(
        Patch(
            MOVER,
            old="            if any(owed - held[t, ledger.ledger_id].entries "
            "for t, owed in ledger.owed.items())\n",
            new="            if False\n",
        ),
        AUDITS_BLINDLY,
    ),
)
GIVES_OUT_ROT: Final = planted(
    "one flipped byte, and a bookie that gives out what its checksum refuses",
    stands_for=("a corrupt copy given out",),
    file=FRAME,
    old='    if found != crc:\n        raise FrameError(f"frame checksum',
    new='    if False:\n        raise FrameError(f"frame checksum',
)
MUTANTS: Final[tuple[Mutant, ...]] = (
    COPIES_NOTHING,
    CLEARED_UNWHOLE,
    MOVES_NOTHING,
    GIVES_OUT_ROT,
)

HEAD: Final = struct.Struct(">qq")
"""Ledger and entry: how the judge's payload begins (Payload.java)."""
ENTRY: Final = struct.Struct(">qqqq")
"""Ledger, entry, last add confirmed, length so far: how every entry of BookKeeper begins."""
DIGEST_BYTES: Final = (4, 8, 20)
"""Between an entry's head and its payload: CRC32C, CRC32, MAC."""
LENGTH_MAX: Final = 1 << 24
"""Of a first entry; what looks like an entry's head and says more is the head of something else."""


def closed_ledgers(notes: str) -> Mapping[int, int]:
    """Last entries of the ledgers that were closed, hold something and were not deleted."""
    lines = [line.split() for line in notes.splitlines()]
    ends = {int(line[1]): int(line[2]) for line in lines if line[0] == "close"}
    doomed = {int(line[1]) for line in lines if line[0] == "deleting"}
    return {ledger: last for ledger, last in ends.items() if last >= 0 and ledger not in doomed}


def with_forged_ack(notes: str) -> str:
    """One more acknowledgement, behind the end of a closed ledger: nobody ever wrote that entry."""
    ledger, last = next(iter(closed_ledgers(notes).items()))
    return f"{notes}ack {ledger} {last + 1} {last + 1}\n"


def logs_of(disks: Iterable[Path]) -> Iterator[Path]:
    """Files that entries lie in."""
    for disk in disks:
        yield from sorted((disk / "log").glob("*.log*"))


def flip_payload_byte(disks: Iterable[Path], ledgers: Iterable[int]) -> tuple[Path, int]:
    """Changes one bit of the first payload that is found; where. The same call again: `flip`."""
    for log in logs_of(disks):
        content = log.read_bytes()
        for ledger in ledgers:
            payload = first_payload(content, ledger)
            if payload is not None:
                place = payload + HEAD.size - 1
                flip(log, place)
                return log, place
    raise AssertionError("no entry of the judge lies on these disks")


def first_payload(content: bytes, ledger: int) -> int | None:
    """Where the payload of entry 0 begins: `ledger 0 -1 length`, a digest, `ledger 0`."""
    head = HEAD.pack(ledger, 0)
    at = content.find(head)
    while at >= 0 and at + ENTRY.size <= len(content):
        _ledger, _entry, lac, length = ENTRY.unpack_from(content, at)
        for digest in DIGEST_BYTES if lac == -1 and 0 < length < LENGTH_MAX else ():
            payload = at + ENTRY.size + digest
            if content.startswith(head, payload):
                return payload
        at = content.find(head, at + 1)
    return None


def flip(file: Path, place: int) -> None:
    """The lowest bit of one byte."""
    with file.open("r+b") as stream:
        stream.seek(place)
        byte = stream.read(1)[0]
        stream.seek(place)
        stream.write(bytes([byte ^ 1]))
