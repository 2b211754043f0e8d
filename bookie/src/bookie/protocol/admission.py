"""What one bookie may answer for one ledger: sans-I/O rules of admission (R7, R9, R24-R26).

The server gathers `LedgerFacts`, asks for a ruling here, makes durable what the ruling demands, and
only then answers. In between, only the server itself changes the ledger.

A ledger on a bookie is in one of these states; each row says how the bookie treats a request:

| state | normal add | recovery add | entry that is here | entry that is not |
|---|---|---|---|---|
| ordinary | taken | taken | served | denied |
| fenced | FENCED | taken | served | denied |
| behind the fence boundary | FENCED | taken | served | denied |
| limbo | READ_ONLY | taken | served | UNKNOWN |
| unchecked | READ_ONLY | taken | served | UNKNOWN |
| deleted (tombstone) | FENCED | FENCED | - | NO_SUCH_LEDGER, UNKNOWN to who fences |

FENCED ends a writer: somebody recovers its ledger. READ_ONLY says that this bookie takes no adds of
that ledger; a live writer replaces the bookie and goes on. A fence counts before a mark, so that a
ledger which is fenced and in limbo answers FENCED. A mark counts before the boundary: it stands
for seconds, in which writers move on. The boundary, which only a boot sets that may have lost
fences, lasts: whoever chooses the bookie for that ledger later is ended, or it would change its
ensemble from one such bookie to the next. After any other boot the ledger is ordinary again once
its mark is gone.

A tombstone is a ledger whose entries the bookie has dropped, because the metadata store had no such
ledger. A client that fences has just changed the ledger's metadata there: the ledger exists, so the
tombstone is wrong and denies nothing (R7). Once a collection's look at the store finds the ledger
again, the tombstone gives way to limbo, and a repair may put the entries back
(`protocol.collection`).

A bookie also fences a ledger of which it holds no record and no entry (R11), but only if the ledger
exists: a recovery changes the metadata before it fences. Otherwise every ledger id that a client
makes up would leave a permanent record (`rule_first_fence`).

A process whose lease has run out may no longer be the bookie: for every ledger it takes no add and
no fence (NOT_READY), serves the entries that it holds, and denies nothing (UNKNOWN).
"""

from typing import Final, NamedTuple

from bookie.ids import NO_ENTRY, EntryId
from bookie.protocol.status import Status

UNCONFIRMED_FENCES_MAX: Final = 1024
"""How many ledgers a bookie fences without asking whether they exist, while it cannot reach the
metadata store."""
EMPTY_KEY: Final = b""
"""The key of a ledger that was marked before its first request; the first request sets it."""


class LedgerFacts(NamedTuple):
    """What this bookie knows of one ledger at this moment. Made for one request, never changed.

    Not ideal: because adds are hot, the server does not fill in what `rule_add` does not use
    (`is_known`, `lac`, `last_entry_id` stay at their defaults).
    """

    is_known: bool = False
    """This bookie holds a record or an entry of the ledger."""
    master_key: bytes | None = None
    """The key of the ledger's first request; None or `EMPTY_KEY` = the next request sets it."""
    fenced: bool = False
    """A recovery has fenced the ledger, durably; a fence is never taken back."""
    limbo: bool = False
    """This bookie may have forgotten entries, and the ledger may be open; only `clearing` ends
    it."""
    unchecked: bool = False
    """This bookie may have forgotten entries; the ledger needs no recovery; only `clearing` ends
    it."""
    deleted: bool = False
    """A tombstone: this bookie dropped the entries, since the metadata store had no such ledger."""
    behind_boundary: bool = False
    """The ledger existed, or may have, at a boot that may have lost fences, as disks were not what
    they had been: this bookie takes no normal add of it ever again."""
    lac: EntryId = NO_ENTRY
    """Highest LAC known, -1 = none; a lower bound if this bookie may have forgotten entries."""
    last_entry_id: EntryId = NO_ENTRY
    """Highest id of an entry that this bookie holds, -1 = none; a lower bound like `lac`. It may be
    above or below `lac`: an explicit LAC may be ahead of what this bookie holds."""
    is_leased: bool = True
    """The lease holds: no other process can be answering as this bookie."""
    is_noted: bool = True
    """The bookie's disks say that the ledger may have unsynced entries here, or none are: its mode
    syncs entries before it answers."""

    @property
    def is_here(self) -> bool:
        return self.is_known and not self.deleted

    @property
    def may_have_forgotten(self) -> bool:
        """That an entry is absent here proves nothing."""
        return self.limbo or self.unchecked or not self.is_leased

    @property
    def is_marked(self) -> bool:
        """True while the check since an unclean boot has not ended: a normal add must be refused,
        so that its writer goes on without this bookie, which can then end its check."""
        return self.limbo or self.unchecked


class Ruling(NamedTuple):
    """The answer to a request, and what must be durable before the server sends it."""

    status: Status
    """What to answer, once the changes below are durable."""
    learn_key: bool = False
    """Remember the request's master key."""
    fence: bool = False
    """Fence the ledger. Also set when it is fenced already: the reply waits for that fence."""
    note: bool = False
    """Note that the ledger may have unsynced entries here."""

    @property
    def is_ok(self) -> bool:
        return self.status is Status.OK


TAKEN: Final = Ruling(Status.OK)
"""The ruling on nearly every add: one object for all of them."""


def rule_add(
    facts: LedgerFacts, *, master_key: bytes, is_recovery: bool, is_writable: bool
) -> Ruling:
    """Judge an add of a run. Only recovery adds pass a fence, limbo and a read-only bookie.

    An entry that a crash may take is answered only once a note of its ledger is durable, whoever
    wrote it: after an unclean stop a ledger without a note denies what is absent.
    """
    refusal = _refuse(facts, master_key)
    if refusal is not None:
        return refusal
    if facts.deleted or (facts.fenced and not is_recovery):
        return Ruling(Status.FENCED)
    if (facts.is_marked or not is_writable) and not is_recovery:
        return Ruling(Status.READ_ONLY)
    if facts.behind_boundary and not is_recovery:
        return Ruling(Status.FENCED)
    if facts.master_key and facts.is_noted:
        return TAKEN
    return Ruling(Status.OK, learn_key=not facts.master_key, note=not facts.is_noted)


def rule_read(facts: LedgerFacts, *, master_key: bytes, fence: bool) -> Ruling:
    """Judge a read of entries; `absent_status` is the answer for those that are absent.

    A plain read needs no key, as on BookKeeper's wire; a fencing read must have the master key.
    """
    return _rule_fence(facts, master_key) if fence else Ruling(Status.OK)


def rule_read_lac(facts: LedgerFacts, *, master_key: bytes, fence: bool) -> Ruling:
    """Judge a read of the LAC. A bookie that may have forgotten fences, but says no LAC (R26)."""
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
    """Judge an explicit LAC. It names only acknowledged entries, so the bookie takes it despite a
    fence.

    A read-only bookie takes none, like Apache's: a client that writes a LAC still writes entries
    elsewhere.
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
    """Judge a force: a bookie that may have forgotten entries cannot say that all are durable."""
    refusal = _refuse_key(facts, master_key)
    if refusal is not None:
        return refusal
    if facts.may_have_forgotten or not facts.is_here:
        return Ruling(absent_status(facts))
    return Ruling(Status.OK)


def rule_first_fence(exists: bool | None, *, unconfirmed: int) -> Status:
    """Judge the fence of a ledger of which this bookie holds nothing; OK = fence it.

    `exists`: what the metadata store says now, None = the store cannot be asked. A recovery must
    not wait for this bookie's own connection to the store, so `UNCONFIRMED_FENCES_MAX` ledgers are
    fenced without asking; `unconfirmed` counts them. A refusal is neither OK nor a denial, and it
    is not UNKNOWN, which counts as fenced (R26).
    """
    if exists is None:
        return Status.OK if unconfirmed < UNCONFIRMED_FENCES_MAX else Status.OVERLOADED
    return Status.OK if exists else Status.BAD_REQUEST


def absent_status(facts: LedgerFacts, *, fence: bool = False) -> Status:
    """The answer for an entry that is not here (R7, R26); `fence`: the reader fences."""
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
    """The ruling that refuses every change of this ledger; None when changes are allowed."""
    return _refuse_key(facts, master_key) if facts.is_leased else Ruling(Status.NOT_READY)


def _refuse_key(facts: LedgerFacts, master_key: bytes) -> Ruling | None:
    if facts.master_key and facts.master_key != master_key:
        return Ruling(Status.UNAUTHORIZED)
    return None
