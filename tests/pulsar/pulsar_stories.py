"""What is shown of Pulsar on a fleet, story by story: one step before its broker is started again,
one after it, so that nothing is read from what a broker happens to hold in memory.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pulsar_judge import Seen, Written, findings, last_of_each
from pulsar_world import NAMESPACE, Document, World

PARTITIONS: Final = 3
PLAIN_MESSAGES: Final = 3000
BATCHED_MESSAGES: Final = 20_000
COMPACTED_MESSAGES: Final = 1200
COMPACTED_KEYS: Final = 12
TRANSACTIONS: Final = 24
TRANSACTIONS_EACH_ABORTED: Final = 3
SETTLE_S: Final = 60.0
COLLECTED_S: Final = 240.0
IDLE_S: Final = "3"


@dataclass(frozen=True, slots=True)
class Story:
    name: str
    before: Callable[[World], Document]
    """What is written; its figures. The broker starts again after it."""
    after: Callable[[World, Document], None]
    """What is read."""
    at_last: Callable[[World, Document], None] | None = None
    """What takes long by itself, looked at when everything else is over."""


def figures(written: Written, seen: Seen) -> Document:
    return {
        "acknowledged": written.total,
        "read": len(seen.messages),
        "repeats": seen.repeats,
        "longest_gap_s": round(written.longest_gap_s, 2),
    }


# Partitioned topics: rollover, cursors, deletion
def topics_before(world: World) -> Document:
    world.create("plain", partitions=PARTITIONS, subscriptions=("quick", "slow"))
    world.create("batched", partitions=PARTITIONS, subscriptions=("slow",))
    plain = world.produce("plain", "--count", str(PLAIN_MESSAGES))
    batched = world.produce("batched", "--count", str(BATCHED_MESSAGES), "--batching")
    found = {"plain": plain.finish(), "batched": batched.finish()}
    ledgers = world.ledgers("plain", PARTITIONS)
    world.claim("ledgers of a topic roll over", len(ledgers) > 2 * PARTITIONS)
    quick = world.read("plain", "quick", "--acknowledge")
    world.claim(
        "a subscription that follows reads everything in order", findings(found["plain"], quick)
    )
    kept = world.copies(ledgers)
    world.claim(
        "what one subscription has not read yet is kept for it",
        [f"ledger {one} is gone" for one, (is_known, _held) in kept.items() if not is_known],
    )
    return {"written": found, "ledgers": ledgers}


def topics_after(world: World, begun: Document) -> None:
    quick, slow = backlogs(world, "plain", "quick"), backlogs(world, "plain", "slow")
    world.claim("a cursor is where it was after a restart", quick == 0)
    world.claim("so is one that lags", slow == PLAIN_MESSAGES)
    report: Document = {"ledgers": len(begun["ledgers"])}
    for topic, written in begun["written"].items():
        seen = world.read(topic, "slow", "--acknowledge")
        world.claim(f"{topic}: every acknowledged message is read", findings(written, seen))
        report[topic] = figures(written, seen)
    now = world.until(lambda: untrimmed(world), seconds=SETTLE_S)
    world.claim("a topic lets go of what all have read", now)
    gone = set(begun["ledgers"]) - set(world.ledgers("plain", PARTITIONS))
    begun["gone"] = gone
    kept = [f"ledger {one}" for one, (is_known, _) in world.copies(gone).items() if is_known]
    world.claim("deleted ledgers leave ZooKeeper", kept)
    world.figures["topics"] = report | {"deleted_ledgers": len(gone)}


def untrimmed(world: World) -> str:
    ledgers = world.ledgers("plain", PARTITIONS)
    return f"ledgers {ledgers}" if len(ledgers) > PARTITIONS else ""


def topics_at_last(world: World, begun: Document) -> None:
    """Our bookies look for deleted ledgers once a minute, and twice before they believe it.
    Apache's drop their entries with the file that they lie in."""
    if not world.fleet.collects_soon:
        world.say("SKIPPED: deleted ledgers leave every bookie: not soon, on these bookies")
        return

    def held() -> str:
        copies = world.copies(begun["gone"])
        return "; ".join(f"ledger {one} on {held}" for one, (_, held) in copies.items() if held)

    world.claim("deleted ledgers leave every bookie", world.until(held, seconds=COLLECTED_S))


def backlogs(world: World, topic: str, subscription: str) -> int:
    """Messages of all partitions that it has not acknowledged."""
    every = (world.stats(topic, partition) for partition in range(PARTITIONS))
    return sum(int(one["subscriptions"][subscription]["msgBacklog"]) for one in every)


# Compaction
def compaction_before(world: World) -> Document:
    world.create("latest", partitions=1, subscriptions=("holder",))
    count = ["--count", str(COMPACTED_MESSAGES), "--keys", str(COMPACTED_KEYS)]
    written = world.produce("latest", *count).finish()
    path = f"{NAMESPACE}/latest-partition-0/compaction"
    world.broker.ask("PUT", path)

    def unfinished() -> str:
        status = str(world.broker.ask("GET", path)["status"])
        return "" if status == "SUCCESS" else status

    world.claim("a topic is compacted", world.until(unfinished, seconds=SETTLE_S))
    return {"written": written}


def compaction_after(world: World, begun: Document) -> None:
    written = begun["written"]
    seen = world.read("latest", "fresh", "--compacted")
    left = {key: number for _partition, key, number in seen.messages}
    world.claim("a compacted topic has the last message of each key", left == last_of_each(written))
    world.claim("and nothing else", len(seen.messages) == COMPACTED_KEYS and not seen.foreign)
    whole = world.read("latest", "holder")
    world.claim("without compaction all of it is read", findings(written, whole))
    world.figures["compaction"] = figures(written, whole) | {"compacted": len(seen.messages)}


# Transactions
def transactions_before(world: World) -> Document:
    world.create("input", partitions=1, subscriptions=("worker",))
    world.create("output", partitions=1, subscriptions=("holder",))
    written = world.produce("input", "--count", str(TRANSACTIONS)).finish()
    notes = str(world.folder / "transactions.notes")
    words = ["input", "output", str(world.seed), str(TRANSACTIONS), notes]
    done = world.java("Transactions", world.broker.url, *words).finish()
    world.claim("transactions end", "" if done.sent else "they did not: programs.log")
    return {"input": written, "written": done}


def transactions_after(world: World, begun: Document) -> None:
    written: Written = begun["written"]
    seen = world.read("output", "holder", "--more", IDLE_S)
    world.claim("what was committed is read, what was aborted is not", findings(written, seen))
    world.claim("and is read once", seen.repeats == 0)
    left = world.read("input", "worker", "--more", IDLE_S)
    aborted = TRANSACTIONS // TRANSACTIONS_EACH_ABORTED
    world.claim("acknowledgements that were aborted come again", len(left.messages) == aborted)
    world.figures["transactions"] = figures(written, seen) | {
        "transactions": TRANSACTIONS,
        "aborted": aborted,
    }


# Schemas
def schemas_before(world: World) -> Document:
    world.create("orders", partitions=1)
    found = world.schemas("write", "orders")
    world.claim("a schema changes compatibly, and not otherwise", found)
    return {}


def schemas_after(world: World, _begun: Document) -> None:
    world.claim(
        "records of both versions are read by the newer one", world.schemas("read", "orders")
    )
    versions = world.broker.ask("GET", "schemas/public/default/orders/schemas")
    world.claim("both versions are kept", len(versions["getSchemaResponses"]) == 2)


STORIES: Final = (
    Story("topics", topics_before, topics_after, topics_at_last),
    Story("compaction", compaction_before, compaction_after),
    Story("transactions", transactions_before, transactions_after),
    Story("schemas", schemas_before, schemas_after),
)
