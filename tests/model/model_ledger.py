"""The model as a whole: its start, its moves, and what must hold in every state.

`moves` gives raw successors, bookies in the order they had; `canonical` sorts them. Two bookies in
equal states make equal moves, so only one of them moves, unless `every` asks for each by name.
Moves are worked out once for what they depend on: a bookie's for that bookie, a client's for what
that client sees of the bookies (`model_views`).
"""

from collections.abc import Iterator, Sequence

from model_bookie import Act, BookieMoves, new_bookie
from model_mover import MoverMoves
from model_recoverer import RecovererMoves
from model_rules import Bounds, Rules
from model_state import (
    AtBoot,
    Bookie,
    Interner,
    Mark,
    Phase,
    Recoverer,
    Run,
    Shared,
    State,
    Status,
)
from model_views import Client, mover_view, recoverer_view, writer_view
from model_write_sets import WriteSets
from model_writer import WriterMoves

Step = tuple[int, Act]
"""The position of the bookie it concerns, -1 = none, and what happens."""

Start = tuple[Shared, Sequence[Bookie]]

TRUNCATED = "an acknowledged entry is beyond the closed end"
DIRTY_READ = "a reader was shown an entry beyond the closed end"
TOO_FEW_COPIES = "an entry has fewer copies than its ack quorum, and no mark says so"
VOUCHED_LOST = "a bookie cleared its mark over copies that were not durable"
REOPENED = "a closed ledger was opened again or changed its end"
SAFETY = (TRUNCATED, DIRTY_READ, TOO_FEW_COPIES, VOUCHED_LOST, REOPENED)


class LedgerModel:
    """One ledger under these bounds and rules."""

    def __init__(self, bounds: Bounds, rules: Rules, start: Start | None = None) -> None:
        self.bounds = bounds
        self.rules = rules
        self.shared: Interner[Shared] = Interner()
        self._bookie_moves = BookieMoves(bounds, rules)
        self.bookies: Interner[Bookie] = Interner(self._bookie_moves.normal)
        writer = Client(self.shared, self.bookies, WriterMoves(bounds, rules).all, *writer_view())
        self._clients = [writer]
        for who in range(bounds.recoverers):
            moves = RecovererMoves(bounds, rules, who).all
            self._clients.append(Client(self.shared, self.bookies, moves, *recoverer_view(who)))
        if bounds.moves:
            moves = MoverMoves(bounds, rules).all
            self._clients.append(Client(self.shared, self.bookies, moves, *mover_view()))
        self._alone_known: dict[tuple[int, int], list[tuple[Act, int, int]]] = {}
        self._copies_known: dict[tuple[int, int, int], list[tuple[Act, int, int]]] = {}
        self._vouches: dict[int, int] = {}
        self._marked: dict[int, bool] = {}
        self._start = start or new_ledger(bounds)

    def initial(self) -> State:
        shared, bookies = self._start
        return self._state(shared, bookies)

    def canonical(self, state: State) -> State:
        return (state[0], *sorted(state[1:]))

    def look(self, state: State) -> tuple[Shared, list[Bookie]]:
        """The parts of a state, for people and tests."""
        return self.shared[state[0]], [self.bookies[number] for number in state[1:]]

    def _state(self, shared: Shared, bookies: Sequence[Bookie]) -> State:
        number = self.bookies.number
        return (self.shared.number(shared), *[number(bookie) for bookie in bookies])

    # Moves
    def moves(self, state: State, *, every: bool = False) -> Iterator[tuple[Step, State]]:
        shared_number, *numbers = state
        for at, number in enumerate(numbers):
            if not every and number in numbers[:at]:
                continue
            before, after = numbers[:at], numbers[at + 1 :]
            for act, left, changed in self._alone(shared_number, number):
                yield (at, act), (left, *before, changed, *after)
            if self._is_marked(number):
                for act, left, changed in self._copies(shared_number, number, numbers):
                    yield (at, act), (left, *before, changed, *after)
        for client in self._clients:
            for at, act, outcome in client.moves(shared_number, numbers):
                if every or at <= 0 or numbers[at] not in numbers[:at]:
                    yield (at, act), outcome
        if self.shared[shared_number].status is Status.CLOSED:
            yield from self._after_the_end(state)

    def successors(self, state: State) -> Iterator[State]:
        """What the moves of a canonical state lead to, canonical: the search's short way."""
        shared_number, numbers = state[0], state[1:]
        before = -1
        for at, number in enumerate(numbers):
            if number == before:
                continue
            before = number
            others = numbers[:at] + numbers[at + 1 :]
            found = self._alone(shared_number, number)
            if self._is_marked(number):
                found = found + self._copies(shared_number, number, numbers)
            for _act, left, changed in found:
                yield (left, *sorted((*others, changed)))
        for client in self._clients:
            yield from client.successors(shared_number, numbers)
        if self.shared[shared_number].status is Status.CLOSED:
            for _step, after in self._after_the_end(state):
                yield after

    def _is_marked(self, number: int) -> bool:
        found = self._marked.get(number)
        if found is None:
            found = self._marked[number] = self.bookies[number].mark is not Mark.NONE
        return found

    def _alone(self, shared_number: int, number: int) -> list[tuple[Act, int, int]]:
        """Moves of one bookie by itself."""
        found = self._alone_known.get((shared_number, number))
        if found is None:
            shared, bookie = self.shared[shared_number], self.bookies[number]
            found = self._numbered(self._bookie_moves.all(shared, bookie))
            self._alone_known[shared_number, number] = found
        return found

    def _copies(
        self, shared_number: int, number: int, numbers: Sequence[int]
    ) -> list[tuple[Act, int, int]]:
        """What repair can bring to a marked bookie from the others."""
        held = held_by([self.bookies[n] for n in numbers])
        found = self._copies_known.get((shared_number, number, held))
        if found is None:
            shared, bookie = self.shared[shared_number], self.bookies[number]
            found = self._numbered(self._bookie_moves.copies(shared, bookie, held))
            self._copies_known[shared_number, number, held] = found
        return found

    def _numbered(
        self, effects: Iterator[tuple[Act, Shared, Bookie]]
    ) -> list[tuple[Act, int, int]]:
        return [
            (act, self.shared.number(left), self.bookies.number(changed))
            for act, left, changed in effects
        ]

    def _after_the_end(self, state: State) -> Iterator[tuple[Step, State]]:
        """Repair records an entry as lost once every member has answered and none has it."""
        shared, bookies = self.look(state)
        number = self.shared.number
        if self.bounds.delete:
            yield (-1, Act("deletes")), (number(shared._replace(status=Status.DELETED)), *state[1:])
        if any(not bookie.serves for bookie in bookies if bookie.owns):
            return
        gone = ((1 << shared.end) - 1) & ~held_by(bookies) & ~shared.lost
        for entry in range(shared.end):
            if gone >> entry & 1:
                lost = shared._replace(lost=shared.lost | 1 << entry)
                yield (-1, Act("lost", entry)), (number(lost), *state[1:])

    # What must hold
    def violation(self, state: State) -> str:
        """What is wrong with this state, empty when nothing is."""
        shared = self.shared[state[0]]
        numbers = state[1:]
        if shared.is_closed and shared.accepted < 0:
            if shared.acked > shared.end:
                return TRUNCATED
            shown = max(shared.shown, *[self.bookies[number].lac for number in numbers])
            if shown > shared.end:
                return DIRTY_READ
        if shared.status is not Status.DELETED and self._is_short(shared, numbers):
            return TOO_FEW_COPIES
        for number in numbers:
            bookie = self.bookies[number]
            if bookie.vouched & ~bookie.held:
                return VOUCHED_LOST
        return ""

    def _is_short(self, shared: Shared, numbers: Sequence[int]) -> bool:
        """R1 on copies: an entry is on its ack quorum, marks counted, or reported lost.

        It goes for what is acknowledged, and for all within the end once there is one.
        """
        through = max(shared.acked, shared.end) if shared.is_closed else shared.acked
        if shared.accepted >= 0:
            through = min(through, shared.end)
        if not through:
            return False
        vouches = [self._vouched_by(number) for number in numbers]
        for entry in range(through):
            bit = 1 << entry
            copies = sum(1 for mask in vouches if mask & bit)
            if copies < self.bounds.ack_quorum and not shared.lost & bit:
                return True
        return False

    def _vouched_by(self, number: int) -> int:
        """Entries of which this bookie has its copy, or is known to may have lost it."""
        found = self._vouches.get(number)
        if found is None:
            bookie = self.bookies[number]
            is_doubtful = bookie.mark is not Mark.NONE or not bookie.serves
            found = bookie.owns if is_doubtful else bookie.owns & bookie.held
            self._vouches[number] = found
        return found

    def broken_step(self, before: int, after: int) -> str:
        """CLOSED is terminal: of a step between these numbers of what is shared."""
        was, is_now = self.shared[before], self.shared[after]
        if was.is_closed and (is_now.status < was.status or is_now.end != was.end):
            return REOPENED
        return ""

    def is_closed(self, state: State) -> bool:
        return self.shared[state[0]].is_closed

    def is_reported(self, state: State) -> bool:
        """A recovery has ended as undecidable: the possible loss is named and kept visible."""
        return any(r.phase is Phase.ABORTED for r in self.shared[state[0]].recoverers)

    def is_within_budget(self, state: State) -> bool:
        """At most f bookies may have forgotten what the ledger needs."""
        shared, bookies = self.look(state)
        forgot = sum(self._is_in_doubt(shared, b) for b in bookies if b.owns)
        return forgot <= self.bounds.faults_max

    def _is_in_doubt(self, shared: Shared, bookie: Bookie) -> bool:
        """Not so one that is unchecked, has all it owes for certain, and forgot before the ledger
        was in recovery: it has nothing left to tell that a recovery should wait for.
        """
        if bookie.run is not Run.UP or bookie.mark is Mark.LIMBO:
            return True
        if bookie.mark is Mark.NONE:
            return False
        is_short = self._bookie_moves.must_hold(shared, bookie) & ~bookie.held
        return bookie.at_boot is AtBoot.RECOVERING or is_short != 0


def held_by(bookies: Sequence[Bookie]) -> int:
    """Entries that are somewhere."""
    held = 0
    for bookie in bookies:
        if bookie.serves:
            held |= bookie.held
    return held


def new_ledger(bounds: Bounds) -> Start:
    """An empty OPEN ledger, its writer ready, nothing on its way."""
    shared = Shared(
        status=Status.OPEN,
        end=0,
        first=0,
        acked=0,
        lacs=(),
        writer_open=True,
        changing=-1,
        recoverers=(Recoverer(attempts=bounds.attempts - 1),) * bounds.recoverers,
        crashes=bounds.crashes,
        writer_changes=bounds.writer_changes,
        recovery_changes=bounds.recovery_changes,
        restarts=bounds.restarts,
        moves=bounds.moves,
    )
    sets = WriteSets(bounds)
    members = [new_bookie(bounds, share=sets.share(place), place=place) for place in sets.places]
    spares = [new_bookie(bounds) for _ in range(bounds.spares)]
    return shared, (*members, *spares)
