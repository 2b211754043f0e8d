"""The state of a model: what the store, the clients and each bookie know, and what is on its way.

A state is `(shared, bookie, bookie, ...)`, each part a small number that `Interner` gives to equal
tuples; the bookies are sorted, so that states that differ in names only are one. Ends and LACs are
counts: a ledger with end 1 has e0 and nothing else. Sets of entries are bit masks.
"""

from collections.abc import Callable, Hashable
from enum import IntEnum
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T", bound=Hashable)

State = tuple[int, ...]


class Status(IntEnum):
    """Of the ledger, in the metadata store."""

    OPEN = 0
    IN_RECOVERY = 1
    CLOSED = 2
    DELETED = 3


class Mark(IntEnum):
    """What an unclean boot left on a bookie."""

    NONE = 0
    LIMBO = 1
    UNCHECKED = 2
    BOUNDARY = 3
    """Unchecked, though no fragment named it at the boot (R28)."""
    CLEARING = 4
    """Judged to go, by metadata that may have changed since."""


class AtBoot(IntEnum):
    """How the boots that led to an unchecked mark found the ledger."""

    NOT_RECOVERING = 0
    """What its recovery asks for later was never here, so nothing of that was forgotten."""
    RECOVERING = 1
    """By the unclean boot: its recoverer may have chosen this bookie before."""
    RECOVERING_LATER = 2
    """By a clean boot since then only."""


class Fence(IntEnum):
    NONE = 0
    BOUNDARY = 1
    """Behind the boundary of an unclean boot; nobody has fenced the ledger here."""
    FENCED = 2


class Run(IntEnum):
    """Of a bookie's process."""

    UP = 0
    DOWN = 1
    UNMARKED = 2
    """Serving before its boot has marked anything: only a mutant is ever here."""
    MARKED = 3
    """Its boot has looked at the metadata and marked; it does not serve yet."""


class Add(IntEnum):
    """One entry between the writer and one bookie; a late request is one nobody waits for."""

    NONE = 0
    REQUEST = 1
    LATE_REQUEST = 2
    OK = 3
    FENCED = 4
    NOT_WRITABLE = 5
    COUNTED = 6


class Seat(IntEnum):
    """A bookie's place in the ensemble as the writer sees it."""

    NONE = 0
    MEMBER = 1
    LEAVING = 2
    COMING = 3


class MoveRole(IntEnum):
    """Of a bookie, in a move of fragments before the last."""

    NONE = 0
    SOURCE = 1
    TARGET = 2


class MovePhase(IntEnum):
    """How far a move is; what it rests on is gone once others change the metadata."""

    NONE = 0
    PLANNED = 1
    VERIFIED = 2
    """The target has all copies, and has synced them."""


class Ask(IntEnum):
    """A fencing LAC read between a recoverer and a bookie; above OK: OK with a LAC of that less."""

    NONE = 0
    REQUEST = 1
    HEARD = 2
    UNKNOWN = 3
    OK = 4


class Write(IntEnum):
    """One recovery add between a recoverer and a bookie."""

    NONE = 0
    REQUEST = 1
    LATE_REQUEST = 2
    OK = 3
    COUNTED = 4


class Answer(NamedTuple):
    """A range read: `mask` was there, what was not is unknown or denied. `lac`: the bookie's, where
    it may say more than the entries do (`Bounds.reads_tell_lac`)."""

    mask: int
    unknown: bool
    heard: bool = False
    lac: int = 0


ASKED = Answer(-1, False)
"""The request is on its way."""


class Desk(NamedTuple):
    """All that lies between one recoverer and one bookie; `local`: entries it attributes to it.
    `place`: where the recoverer found it in the last ensemble.
    """

    fence: int = Ask.NONE
    read: Answer | None = None
    writes: tuple[Write, ...] = ()
    local: int = 0
    place: int = 0


class Bookie(NamedTuple):
    """One bookie. `owns`: entries that the store's fragments attribute to it; the bit after the
    last entry of the model stands for all later ones. `vouched`: durable when a mark was cleared.
    `at_boot`: kept while the mark is an unchecked one. `noted`: durably, that something here may be
    unsynced. `flushing`: what the checkpoint under way will have synced, -1 = none is. `replaced`:
    its next boot finds disks that are not what they were. `place`: in the last ensemble, or the one
    that the writer waits for; 0 when it is in neither, and without striping. `told`: the highest
    explicit LAC, durable. `move`: what it is in the move under way.
    """

    held: int
    synced: int
    vouched: int
    lac: int
    fence: Fence
    mark: Mark
    at_boot: AtBoot
    run: Run
    owns: int
    seat: Seat
    adds: tuple[Add, ...]
    desks: tuple[Desk, ...]
    noted: bool = True
    flushing: int = -1
    replaced: bool = False
    place: int = 0
    told: int = 0
    move: MoveRole = MoveRole.NONE

    @property
    def serves(self) -> bool:
        return self.run in (Run.UP, Run.UNMARKED)


class Phase(IntEnum):
    """Of a recoverer's attempt."""

    IDLE = 0
    FENCE = 1
    READ = 2
    SETTLE = 3
    OVER = 4
    ABORTED = 5
    PLANNED = 6
    """It has read the metadata, and written nothing."""


class Recoverer(NamedTuple):
    """`lac` is frozen when reading begins; `turn`: the entry that is judged next; `pending`:
    written back and not yet at the ack quorum; `accepts`: the loss from entry `accepts - 1` on;
    `seen`: the state of the ledger that it read, where it acts on a view of its own.
    """

    phase: Phase = Phase.IDLE
    lac: int = 0
    proven: int = 0
    turn: int = 0
    pending: int = 0
    accepts: int = 0
    attempts: int = 1
    seen: int = -1


class Shared(NamedTuple):
    """The store, the writer, the recoverers, and what is left of the bounds.

    `first`: where the last fragment begins. `lacs`: what each entry sent says of the LAC.
    `changing`: where the ensemble change begins that waits for the store, -1 = none. `lost`:
    durable loss records; `accepted`: from here on a person accepted the loss, -1 = nobody did.
    `shown`: the highest LAC a tailing reader has seen. `moving`: the move under way.
    """

    status: Status
    end: int
    first: int
    acked: int
    lacs: tuple[int, ...]
    writer_open: bool
    changing: int
    recoverers: tuple[Recoverer, ...]
    crashes: int
    writer_changes: int
    recovery_changes: int
    lost: int = 0
    accepted: int = -1
    shown: int = 0
    restarts: int = 0
    moves: int = 0
    moving: MovePhase = MovePhase.NONE

    @property
    def sent(self) -> int:
        return len(self.lacs)

    @property
    def is_closed(self) -> bool:
        return self.status >= Status.CLOSED


class Interner(Generic[T]):
    """Small numbers for equal values; `normal` makes values equal that behave alike."""

    def __init__(self, normal: Callable[[T], T] = lambda value: value) -> None:
        self._numbers: dict[T, int] = {}
        self._values: list[T] = []
        self._normal = normal

    def number(self, value: T) -> int:
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = self._enter(self._normal(value))
        return found

    def _enter(self, value: T) -> int:
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self._values)
            self._values.append(value)
        return found

    def __getitem__(self, number: int) -> T:
        return self._values[number]

    def __len__(self) -> int:
        return len(self._values)
