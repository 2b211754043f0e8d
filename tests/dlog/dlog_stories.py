"""What is shown of DistributedLog on a fleet that nobody strikes, story by story."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from dlog_judge import Noted, Seen, fencing_findings, findings, gap_s, kinds
from dlog_world import Segment, World
from pulsar_claims import Document

RECORDS: Final = {"plain": 3000, "batched": 10_000}
TAIL_RATE: Final = {"plain": 150.0, "batched": 500.0}
PER_WRITER: Final = 10_000_000
"""Numbers that belong to one writer of a log: no two try the same one."""
KILLED_AFTER: Final = 800
FENCED_AFTER: Final = 500
RATE: Final = 500.0
WAIT_S: Final = 180.0
COLLECTED_S: Final = 300.0
TIMED_S: Final = 150.0


@dataclass(frozen=True, slots=True)
class Story:
    """`is_long`: of the long form only."""

    name: str
    act: Callable[[World], None]
    is_long: bool = False


def figures(writers: Sequence[Noted], seen: Seen) -> Document:
    return {
        "acknowledged": sum(len(one.acknowledged) for one in writers),
        "failed": kinds(writers),
        "read": len(seen.records),
        "writers_opened": sum(len(one.opened_ms) for one in writers),
        "readers_reopened": len(seen.reopened),
        "longest_gap_s": round(gap_s(writers), 2),
    }


# Written, rolled over, read from anywhere
def written(world: World) -> None:
    writers, tails = {}, {}
    for log, count in RECORDS.items():
        writers[log] = world.write(log, log, count=count, rate=TAIL_RATE[log])
    for log, writer in writers.items():
        acknowledged(world, writer.noted, 1)
        tails[log] = world.begin_read(log, log, until="follow")
    report: Document = {}
    for log, writer in writers.items():
        writer.finish()
        tails[log].stop()
        noted, tail = writer.noted(), tails[log].seen()
        is_acknowledged = world.claim(
            f"{log}: every record is acknowledged", len(noted.acknowledged) == RECORDS[log]
        )
        is_followed = world.claim(
            f"{log}: whoever reads while it is written reads each record once in order",
            findings([noted], tail),
        )
        report[log] = figures([noted], tail)
        if is_acknowledged and is_followed:
            segments = world.segments(log)
            world.claim(f"{log}: segments end by their size", len(segments) > 2)
            from_anywhere(world, log, noted, segments)
            report[log] |= {
                "segments": len(segments),
                "entries": len({at[:2] for at in noted.acknowledged.values()}),
            }
    world.figures["written"] = report


def from_anywhere(world: World, log: str, noted: Noted, segments: Sequence[Segment]) -> None:
    """By both kinds of readers: its head, a position within a segment, a transaction id."""
    middle = segments[len(segments) // 2].first + 1
    at = ":".join(str(part) for part in noted.acknowledged[middle])
    readers = {
        "its head all": (1, world.begin_read(log, log, kind="sync")),
        "a position the rest": (middle, world.begin_read(log, log, start=f"at:{at}")),
        "a transaction id the rest": (
            middle,
            world.begin_read(log, log, start=f"tx:{middle}", kind="sync"),
        ),
    }
    for words, (since, reader) in readers.items():
        reader.finish()
        found = findings([noted], reader.seen(), since=since)
        world.claim(f"{log}: from {words} is read", found)


# Writers and readers that end and start again
def restarted(world: World) -> None:
    killed = world.write("again", "plain", rate=RATE)
    world.claim("a log is written", acknowledged(world, killed.noted, KILLED_AFTER))
    killed.kill()
    writer = world.write("again", "plain", first=PER_WRITER, count=500)
    writer.finish()
    both = [killed.noted(), writer.noted()]
    part = world.read("again", "plain", until=str(KILLED_AFTER // 2))
    last = part.records[-1][1] if part.records else (1, 0, 0)
    rest = world.read("again", "plain", start=f"at:{':'.join(map(str, last))}")
    seen = Seen((*part.records, *rest.records[1:]), (), rest.foreign, rest.reopened, rest.whole)
    world.claim(
        "of a writer that was killed and of its successor every acknowledged record is read, by a "
        "reader that ended in between",
        findings(both, seen),
    )
    world.claim("a reader goes on where another one ended", rest.records[:1] == part.records[-1:])
    world.figures["restarted"] = figures(both, seen)


def acknowledged(world: World, noted: Callable[[], Noted], count: int) -> str:
    def lacking() -> str:
        found = len(noted().acknowledged)
        return "" if found >= count else f"{found} of {count} acknowledged"

    return world.until(lacking, seconds=WAIT_S)


# A second writer
def fenced(world: World) -> None:
    """Without the lock by which writers keep each other out: only bookies stand between them."""
    first = world.write("taken", "lockless", rate=RATE, stops=True)
    world.claim("a first writer writes", acknowledged(world, first.noted, FENCED_AFTER))
    second = world.write("taken", "lockless", first=PER_WRITER, count=FENCED_AFTER)
    second.finish()
    time.sleep(1)
    first.stop()
    both = [first.noted(), second.noted()]
    world.claim("the next write of a writer that is fenced fails", fencing_findings(*both))
    seen = world.read("taken", "lockless")
    world.claim("none of its acknowledged records is lost", findings(both, seen))
    world.figures["fenced"] = figures(both, seen)


# Truncated and deleted
def truncated(world: World) -> None:
    writers = [world.write(log, "batched", count=6000) for log in ("short", "doomed")]
    for writer in writers:
        writer.finish()
    noted = writers[0].noted()
    segments = world.segments("short")
    kept = segments[len(segments) // 2]
    since = begin_of_entry(noted, kept.first + (kept.last - kept.first) // 2)
    position = ":".join(str(part) for part in noted.acknowledged[since])
    world.admin("truncate", "short", position)
    seen = world.read("short", "batched")
    world.claim("a log that is truncated begins there", findings([noted], seen, since=since))
    world.admin("purge", "short", str(kept.first))
    gone = [one.ledger for one in segments if one.last < kept.first and one.last >= 0]
    left = {one.ledger for one in world.segments("short")}
    world.claim("what lies before it is let go of", not left & set(gone) and bool(gone))
    gone += [one.ledger for one in world.segments("doomed")]
    world.admin("delete", "doomed")
    known = [f"ledger {one}" for one, (is_known, _) in world.copies(gone).items() if is_known]
    world.claim("ledgers of truncated and deleted logs leave ZooKeeper", known)
    seen = world.read("short", "batched")
    world.claim("what is left of a truncated log is read", findings([noted], seen, since=since))
    world.figures["truncated"] = {"deleted_ledgers": len(gone)}
    if world.is_long:
        collected(world, gone)


def begin_of_entry(noted: Noted, number: int) -> int:
    """The first record from here on that begins an entry: a log is truncated by entries."""
    return min(n for n, (_, _, slot) in noted.acknowledged.items() if n >= number and slot == 0)


def collected(world: World, gone: Sequence[int]) -> None:
    """Our bookies look for deleted ledgers once a minute, and twice before they believe it."""
    if not world.fleet.collects_soon:
        world.say("SKIPPED: deleted ledgers leave every bookie: not soon, on these bookies")
        return

    def held() -> str:
        copies = world.copies(gone)
        return "; ".join(f"ledger {one} on {held}" for one, (_, held) in copies.items() if held)

    began = time.monotonic()
    world.claim("deleted ledgers leave every bookie", world.until(held, seconds=COLLECTED_S))
    world.figures["truncated"]["collected_s"] = round(time.monotonic() - began, 1)


# Segments that end by time
def timed(world: World) -> None:
    writer = world.write("clock", "timed", rate=100.0)
    time.sleep(TIMED_S)
    writer.stop()
    noted = writer.noted()
    segments = world.segments("clock")
    world.claim("segments end by time", len(segments) > 2)
    seen = world.read("clock", "timed")
    world.claim("and all of them is read", findings([noted], seen))
    world.figures["timed"] = figures([noted], seen) | {"segments": len(segments)}


STORIES: Final = (
    Story("written", written),
    Story("restarted", restarted),
    Story("fenced", fenced),
    Story("truncated", truncated),
    Story("timed", timed, is_long=True),
)
