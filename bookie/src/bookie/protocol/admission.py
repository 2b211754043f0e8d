"""What one bookie may answer for one ledger: sans-I/O rules of admission (R7, R9, R24-R26).

The server gathers `LedgerFacts`, asks here, makes durable what the ruling says must be, and only
then answers. Between asking and answering nothing of the ledger changes but by the server itself.

A ledger here is in one of these states; each row says what a request meets:

| state | normal add | recovery add | entry that is here | entry that is not |
|---|---|---|---|---|
| ordinary | taken | taken | served | denied |
| fenced, or behind the fence boundary | FENCED | taken | served | denied |
| limbo | FENCED | taken | served | UNKNOWN |
| unchecked | as fenced | taken | served | UNKNOWN |
| deleted (tombstone) | FENCED | FENCED | - | NO_SUCH_LEDGER, UNKNOWN to who fences |

A tombstone held entries and has dropped them, because the metadata store had no such ledger. Who
fences has just changed its metadata there: it exists, so the tombstone is wrong and denies nothing
(R7). Once a look at the store has the ledger again the tombstone gives way to limbo, and the
entries may be put back (`protocol.collection`).

A ledger of which nothing is here, no record and no entry, is fenced as well (R11), but only if it
exists: a recovery changes the metadata before it fences. Else every number that anybody names would
leave a record for ever (`rule_first_fence`).

A process whose lease has run out may not be the bookie any more: whatever the ledger, it takes no
add and no fence (NOT_READY), serves what is here, and denies nothing (UNKNOWN).
"""

from typing import Final, NamedTuple

from bookie.ids import NO_ENTRY, EntryId
from bookie.protocol.status import Status

UNCONFIRMED_FENCES_MAX: Final = 1024
"""Ledgers that were fenced though the metadata store could not be asked for them."""
EMPTY_KEY: Final = b""
"""A ledger that was marked before its first request has no key yet; the first one teaches it."""


class LedgerFacts(NamedTuple):
    """What this bookie knows of one ledger at this moment: made for one request, never changed.

    Not ideal: the facts that `rule_add` gets lack what it does not ask for (`is_known`,
    `unchecked`, `lac`, `last_entry_id` stay at their defaults), since adds are hot.
    """

    is_known: bool = False
    """Any record or entry of it is here."""
    master_key: bytes | None = None
    """The key its first request proved; None or `EMPTY_KEY` = the next request teaches it."""
    fenced: bool = False
    """A recovery has fenced it, durably; never taken back."""
    limbo: bool = False
    """Entries may be forgotten, the ledger may be open; goes by `clearing` alone."""
    unchecked: bool = False
    """Entries may be forgotten, the ledger needs no recovery; goes by `clearing` alone."""
    deleted: bool = False
    """A tombstone: its entries were dropped, since the metadata store had no such ledger."""
    behind_boundary: bool = False
    """It existed at an unclean boot, or may have: what its old writer sends comes too late."""
    lac: EntryId = NO_ENTRY
    """Highest LAC known, -1 = none; a lower bound where entries may be forgotten."""
    last_entry_id: EntryId = NO_ENTRY
    """Highest id of an entry that is here, -1 = none; a lower bound in the same way. Nothing
    orders it against `lac`: an explicit LAC may be ahead of what this bookie holds."""
    is_leased: bool = True
    """Nobody else can be answering as this bookie."""

    @property
    def is_here(self) -> bool:
        return self.is_known and not self.deleted

    @property
    def may_have_forgotten(self) -> bool:
        """Absence here proves nothing."""
        return self.limbo or self.unchecked or not self.is_leased

    @property
    def refuses_its_writer(self) -> bool:
        """A normal add could be one that comes after the ledger's end (R24)."""
        return self.fenced or self.limbo or self.behind_boundary or self.deleted


class Ruling(NamedTuple):
    """The answer, and what must be durable before it is given."""

    status: Status
    """What to answer, once what follows is durable."""
    learn_key: bool = False
    """Remember the request's master key."""
    fence: bool = False
    """Fence the ledger. Also set when it is fenced already: the reply waits for that fence."""

    @property
    def is_ok(self) -> bool:
        return self.status is Status.OK


TAKEN: Final = Ruling(Status.OK)
"""The ruling on nearly every add: one object for all of them."""


def rule_add(
    facts: LedgerFacts, *, master_key: bytes, is_recovery: bool, is_writable: bool
) -> Ruling:
    """Judge a run of entries. Recovery adds alone pass fence, limbo and a read-only bookie."""
    refusal = _refuse(facts, master_key)
    if refusal is not None:
        return refusal
    if facts.deleted or (facts.refuses_its_writer and not is_recovery):
        return Ruling(Status.FENCED)
    if not is_writable and not is_recovery:
        return Ruling(Status.READ_ONLY)
    return TAKEN if facts.master_key else Ruling(Status.OK, learn_key=True)


def rule_read(facts: LedgerFacts, *, master_key: bytes, fence: bool) -> Ruling:
    """Judge a read of entries; what absent ones mean is `absent_status`.

    A plain read needs no key on BookKeeper's wire either; a fencing one must prove its right.
    """
    return _rule_fence(facts, master_key) if fence else Ruling(Status.OK)


def rule_read_lac(facts: LedgerFacts, *, master_key: bytes, fence: bool) -> Ruling:
    """Judge a read of the LAC. Who may have forgotten fences, but its LAC is no answer (R26)."""
    ruling = _rule_fence(facts, master_key) if fence else Ruling(Status.OK)
    if not ruling.is_ok:
        return ruling
    is_doubtful = fence if facts.deleted else facts.may_have_forgotten
    if is_doubtful:
        return Ruling(Status.UNKNOWN, learn_key=ruling.learn_key, fence=ruling.fence)
    if not facts.is_here and not fence:
        return Ruling(absent_status(facts))
    return ruling


def rule_write_lac(facts: LedgerFacts, *, master_key: bytes, is_writable: bool) -> Ruling:
    """Judge an explicit LAC: it names acknowledged entries only, so a fence does not matter to it.

    A read-only bookie takes none, as Apache's: who writes one still writes entries elsewhere.
    """
    refusal = _refuse(facts, master_key)
    if refusal is not None:
        return refusal
    if facts.deleted:
        return Ruling(Status.FENCED)
    if not is_writable:
        return Ruling(Status.READ_ONLY)
    return Ruling(Status.OK, learn_key=not facts.master_key)


def rule_force(facts: LedgerFacts, *, master_key: bytes) -> Ruling:
    """Judge a force: no promise that all is durable from a bookie that may have forgotten."""
    refusal = _refuse_key(facts, master_key)
    if refusal is not None:
        return refusal
    if facts.may_have_forgotten or not facts.is_here:
        return Ruling(absent_status(facts))
    return Ruling(Status.OK)


def rule_first_fence(exists: bool | None, *, unconfirmed: int) -> Status:
    """Whether to fence a ledger of which nothing is here; OK = do.

    `exists`: what the metadata store says now, None = it cannot be asked. A recovery must not wait
    for this bookie's own connection to the store, so some are fenced unseen. A refusal is neither
    OK nor a denial, and it is not UNKNOWN, which counts as fenced (R26).
    """
    if exists is None:
        return Status.OK if unconfirmed < UNCONFIRMED_FENCES_MAX else Status.OVERLOADED
    return Status.OK if exists else Status.BAD_REQUEST


def absent_status(facts: LedgerFacts, *, fence: bool = False) -> Status:
    """What to say of an entry that is not here (R7, R26); `fence`: to a reader that fences."""
    if facts.deleted and facts.is_leased:
        return Status.UNKNOWN if fence else Status.NO_SUCH_LEDGER
    if facts.may_have_forgotten:
        return Status.UNKNOWN
    return Status.NO_SUCH_ENTRY if facts.is_known else Status.NO_SUCH_LEDGER


def _rule_fence(facts: LedgerFacts, master_key: bytes) -> Ruling:
    # A ledger this bookie never saw is fenced all the same (R11): the add may still be on its way.
    return _refuse(facts, master_key) or Ruling(
        Status.OK, learn_key=not facts.master_key, fence=True
    )


def _refuse(facts: LedgerFacts, master_key: bytes) -> Ruling | None:
    """Why nothing may be changed here."""
    return _refuse_key(facts, master_key) if facts.is_leased else Ruling(Status.NOT_READY)


def _refuse_key(facts: LedgerFacts, master_key: bytes) -> Ruling | None:
    if facts.master_key and facts.master_key != master_key:
        return Ruling(Status.UNAUTHORIZED)
    return None
