"""A small dumb cluster under the writer's core: bookies as dicts, one compare-and-set register.

Everything that is under way lies in `pending`; the test picks what happens next. After each step
the invariants of S15..S23 are checked against what the *store* says, not what the writer thinks.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from bookie.frames.entry import Buffer, DigestType
from bookie.frames.frame import parse_run
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.protocol.batches import WriterLimits
from bookie.protocol.ledger import Fragment, LedgerMetadata, LedgerState
from bookie.protocol.quorum import write_set
from bookie.protocol.status import Status
from bookie.protocol.writer import Writer
from bookie.protocol.writer_effects import (
    Acked,
    Closed,
    Effect,
    Failed,
    NeedReplacement,
    Recipient,
    SendRun,
    WriteMetadata,
)

LEDGER = LedgerId(7)
ONE_BY_ONE = WriterLimits(batch_bytes=1, gather_batches=1000, in_flight_batches=1000)
"""Each entry a run of its own, all sent at once: the finest interleaving."""


def bookies(count: int) -> tuple[BookieId, ...]:
    return tuple(BookieId(f"b{index}") for index in range(count))


def metadata(ensemble_size: int, write_quorum: int, ack_quorum: int) -> LedgerMetadata:
    return LedgerMetadata(
        LEDGER,
        ensemble_size,
        write_quorum,
        ack_quorum,
        (Fragment(EntryId(0), bookies(ensemble_size)),),
        digest_type=DigestType.CRC32C,
    )


class Send(NamedTuple):
    """A run on its way to one bookie."""

    run_id: int
    frame: Buffer
    to: Recipient


@dataclass(slots=True)
class Cluster:
    """The writer, its bookies and the store; effects wait in lists until the test delivers them."""

    writer: Writer
    store: LedgerMetadata
    version: int = 0
    held: dict[BookieId, dict[int, bytes]] = field(default_factory=dict)
    fenced: set[BookieId] = field(default_factory=set)
    sends: list[Send] = field(default_factory=list)
    writes: list[WriteMetadata] = field(default_factory=list)
    needs: list[NeedReplacement] = field(default_factory=list)
    replies: list[tuple[Send, Status]] = field(default_factory=list)
    acked: EntryId = NO_ENTRY
    failed: Failed | None = None
    closed: Closed | None = None

    @classmethod
    def of(cls, *quorums: int, limits: WriterLimits = ONE_BY_ONE) -> "Cluster":
        value = metadata(*quorums)
        return cls(Writer(value, version=0, limits=limits), value)

    def perform(self, effects: Sequence[Effect]) -> None:
        self.writer._check()
        for effect in effects:
            match effect:
                case SendRun(run_id, frame, recipients):
                    self.sends += [Send(run_id, frame, recipient) for recipient in recipients]
                case WriteMetadata():
                    assert not self.writes, "two writes of metadata at once"
                    self.writes.append(effect)
                case NeedReplacement():
                    assert not self.needs and not self.writes
                    self.needs.append(effect)
                case Acked(last):
                    self._check_acked(last)
                case Failed():
                    self.failed = effect
                case Closed():
                    self.closed = effect

    def _check_acked(self, last: EntryId) -> None:
        assert last > self.acked, "acks go forward"
        assert self.failed is None
        assert self.store.state is LedgerState.OPEN or not self._covered()
        for entry_id in range(self.acked + 1, last + 1):
            ensemble = self.store.fragment_of(EntryId(entry_id)).ensemble
            members = write_set(
                EntryId(entry_id), ensemble=ensemble, write_quorum=self.store.write_quorum
            )
            holders = [b for b in members if entry_id in self.held.get(b, {})]
            assert len(holders) >= self.store.ack_quorum, (entry_id, members, holders)
        self.acked = last

    def _covered(self) -> bool:
        return len(self.fenced) > self.store.ensemble_size - self.store.ack_quorum

    def append(self, *payloads: bytes) -> None:
        """As the shell does, but that it never waits for the loop's next turn."""
        if len(payloads) == 1:
            self.writer.append_one(payloads[0])
        else:
            self.writer.append(payloads)
        self.perform(self.writer.pump())

    def arrive(self, send: Send, *, keep: bool = False) -> None:
        """The run reaches its bookie, which stores it (or is fenced) and replies."""
        if not keep:
            self.sends.remove(send)
        if send.to.bookie_id in self.fenced:
            self.replies.append((send, Status.FENCED))
            return
        frame = parse_run(send.frame)
        held = self.held.setdefault(send.to.bookie_id, {})
        for entry_id, entry in zip(frame.entry_ids(), frame.entries(), strict=True):
            assert held.setdefault(entry_id, bytes(entry)) == bytes(entry)
        self.replies.append((send, Status.OK))

    def reply(self, index: int = 0, *, keep: bool = False) -> None:
        send, status = self.replies[index] if keep else self.replies.pop(index)
        self.perform(self.writer.replied(send.run_id, send.to, status))

    def answer(self, bookie: str, status: Status = Status.OK, *, entry: int | None = None) -> None:
        """Deliver the sends to this bookie (of one entry id, or all) and their replies."""
        for send in [s for s in self.sends if s.to.bookie_id == bookie]:
            if entry is not None and parse_run(send.frame).first_entry_id != entry:
                continue
            if status is Status.OK:
                self.arrive(send)
                self.reply(-1)
            else:
                self.sends.remove(send)
                self.perform(self.writer.replied(send.run_id, send.to, status))

    def choose(self, **replacements: str) -> None:
        """`p0="b3"` replaces position 0 by b3; none = there is no bookie to be had."""
        self.needs.pop()
        chosen = {int(name[1:]): BookieId(bookie) for name, bookie in replacements.items()}
        self.perform(self.writer.replace(chosen) if chosen else self.writer.no_replacement())

    def apply_write(self) -> None:
        """The compare-and-set reaches the store; the writer learns what it then holds."""
        write = self.writes.pop()
        if write.version == self.version:
            self.store, self.version = write.metadata, self.version + 1
        self.perform(self.writer.store_answered(self.store, self.version))

    def reread(self) -> None:
        """The write's outcome stays unknown and the shell re-reads."""
        self.writes.pop()
        self.perform(self.writer.store_answered(self.store, self.version))

    def others_write(self, change: Callable[[LedgerMetadata], LedgerMetadata]) -> None:
        self.store, self.version = change(self.store), self.version + 1

    def stored(self, bookie: str) -> set[int]:
        return set(self.held.get(BookieId(bookie), {}))


def step(cluster: Cluster, rng: random.Random, spare: Sequence[BookieId]) -> None:
    """One random legal happening: arrivals, replies (also twice), failures, writes, re-reads."""
    actions: list[Callable[[], None]] = []
    if cluster.sends:
        send = rng.choice(cluster.sends)
        actions += [lambda: cluster.arrive(send)] * 6
        actions += [lambda: cluster.arrive(send, keep=True)]
        actions += [lambda: _fail(cluster, send, arrives=rng.random() < 0.5)]
    if cluster.replies:
        index = rng.randrange(len(cluster.replies))
        actions += [lambda: cluster.reply(index)] * 6 + [lambda: cluster.reply(index, keep=True)]
    if cluster.needs:
        actions += [lambda: _choose(cluster, rng, spare)] * 2
    if cluster.writes:
        actions += [cluster.apply_write] * 3 + [cluster.reread, lambda: _conflict(cluster)]
    if cluster.writer.is_degraded and not cluster.writer.is_changing:
        actions.append(lambda: cluster.perform(cluster.writer.retry_change()))
    if actions:
        rng.choice(actions)()


def _fail(cluster: Cluster, send: Send, *, arrives: bool) -> None:
    """A time-out: the run may have arrived, or may arrive later."""
    if arrives:
        cluster.arrive(send, keep=True)
    cluster.perform(cluster.writer.replied(send.run_id, send.to, Status.UNREACHABLE))


def _choose(cluster: Cluster, rng: random.Random, spare: Sequence[BookieId]) -> None:
    need = cluster.needs[-1]
    free = [b for b in spare if b not in need.ensemble]
    rng.shuffle(free)
    positions = list(need.positions)[: rng.randint(1, len(need.positions))]
    chosen = {
        f"p{position}": (free.pop() if free and rng.random() < 0.8 else need.ensemble[position])
        for position in positions
    }
    cluster.choose(**({} if rng.random() < 0.2 else chosen))


def _conflict(cluster: Cluster) -> None:
    """Someone changes metadata that does not concern the writer; its write then loses."""
    cluster.others_write(lambda value: replace(value, custom={"touched": b"1"}))
    cluster.apply_write()
