"""The table at the head of `protocol.recovery`: the machine makes just those transitions."""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from bookie.ids import EntryId
from bookie.protocol import recovery as module
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.recovery import RecoveryPhase
from bookie.protocol.recovery_effects import Abort, Effect, Recovered, WriteMetadata
from bookie.protocol.status import Status
from bookie.protocol.writeback import AddRun, Replace
from hypothesis import given, settings
from hypothesis import strategies as st
from recovery_lab import LEDGER, RecoveryLab, ledger
from state_tables import Transition, transitions

TABLE = transitions(module)
EVENTS = (
    "start",
    "on_metadata_written",
    "on_metadata_conflict",
    "on_lac",
    "on_read",
    "on_added",
    "on_replacement",
)
STEPS_MAX = 400
SEEDS = 600


class Watched:
    """A recovery whose changes of phase are noted, with the event that made each."""

    def __init__(self, lab: RecoveryLab, rng: random.Random) -> None:
        self.lab, self.rng = lab, rng
        self.core = lab.recovery(window=rng.choice((1, 3, 100)))
        self.seen: set[Transition] = set()
        for event in EVENTS:
            setattr(self.core, event, partial(self._note, event, getattr(self.core, event)))

    def _note(self, event: str, call: Callable[..., list[Effect]], *args: Any) -> list[Effect]:
        before = self.core.phase
        effects = call(*args)
        if self.core.phase is not before:
            self.seen.add((before.name, event, self.core.phase.name))
        has_ended = any(isinstance(effect, Recovered | Abort) for effect in effects)
        assert has_ended == (before is not self.core.phase is RecoveryPhase.OVER)
        return effects

    def play(self) -> None:
        waiting = self.core.start()
        for _ in range(STEPS_MAX):
            if not waiting or self.core.phase is RecoveryPhase.OVER:
                break
            self._disturb()
            waiting += self._answer(waiting.pop(self.rng.randrange(len(waiting))))
        assert self.core.phase is RecoveryPhase.OVER
        self._disturb()

    def _disturb(self) -> None:
        """Answers that nobody waits for."""
        foreign = -1 - self.rng.randrange(5)
        self.core.on_lac(foreign, Status.OK, EntryId(self.rng.randrange(9)))
        self.core.on_read(foreign, Status.NO_SUCH_LEDGER, None)
        self.core.on_added(foreign, Status.OK)

    def _answer(self, effect: Effect) -> list[Effect]:
        if isinstance(effect, WriteMetadata) and self.rng.random() < 0.3:
            return self.core.on_metadata_conflict(self._rival(), self.rng.randrange(99))
        if isinstance(effect, AddRun) and self.rng.random() < 0.2:
            return self.core.on_added(effect.op, Status.IO_ERROR)
        if isinstance(effect, Replace) and self.rng.random() < 0.5:
            return self.core.on_replacement(effect.position, None)
        return self.lab.answer(self.core, effect)

    def _rival(self) -> LedgerMetadata:
        """What somebody else has made of the ledger meanwhile."""
        changed = ledger(3, 3, 2, (0, (0, 1, 3)))
        closed = ledger(3, 3, 2).closed(EntryId(1), length=2)
        mine = self.lab.metadata
        return self.rng.choice([changed, changed.in_recovery(), closed, mine, mine.in_recovery()])


def seen_of(rng: random.Random) -> set[Transition]:
    start = ledger(3, 3, 2, *([(0, (0, 1, 2)), (2, (2, 1, 0))] if rng.random() < 0.4 else []))
    kinds = [start, start, start.in_recovery(), start.closed(EntryId(1), length=9)]
    lab = RecoveryLab(rng.choice(kinds), spares=(3, 4))
    first = start.last_fragment.first_entry_id
    for entry_id in range(first, first + rng.randrange(5)):
        lab.put(entry_id, *rng.sample(range(3), rng.randrange(1, 4)), lac=-1)
    if first:
        lab.put(1, 0, 1, 2)
    for number in range(3):
        lab[number].down = rng.random() < 0.15
        if rng.random() < 0.15:
            lab[number].mark(LEDGER, limbo=True)
        if rng.random() < 0.2:
            lab[number].refuse_adds = Status.READ_ONLY
    watched = Watched(lab, rng)
    watched.play()
    return watched.seen


@settings(max_examples=200, deadline=None)
@given(rng=st.randoms(use_true_random=False))
def test_no_order_of_events_makes_a_transition_that_the_table_lacks(rng: random.Random) -> None:
    assert seen_of(rng) <= TABLE


def test_every_transition_of_the_table_happens() -> None:
    seen = {one for seed in range(SEEDS) for one in seen_of(random.Random(seed))}
    assert seen == TABLE


def test_the_table_names_every_phase_and_every_event() -> None:
    phases = {phase.name for phase in RecoveryPhase}
    assert {state for state, _event, _after in TABLE} == phases - {RecoveryPhase.OVER.name}
    assert {event for _state, event, _after in TABLE} == set(EVENTS)
