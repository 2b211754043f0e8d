"""The error tree, split by what the caller does next.

BookieError
├── BadRequestError          our caller's mistake: fix the call
│   ├── FrameError           bytes that are not a valid frame or entry
│   │   └── DigestError      the entry's digest does not match
│   └── SettingsError        a settings file or variable is wrong
├── UnauthorizedError        wrong password for this ledger
├── NoSuchLedgerError        the metadata store has no such ledger
├── NoSuchEntryError         the entry is beyond the known end of the ledger
├── LedgerFencedError        the ledger has a newer owner: reopen; outcome of the add unknown
├── LedgerClosedError        the ledger was closed: open a new one
├── DataLossError            a definite loss: the entry must exist and no copy is left
├── UndecidableError         no answer possible now (limbo, down): try again later
├── NotEnoughBookiesError    no ensemble can be formed: wait for bookies or add some
├── UnavailableError         peer or store not reachable now: retry with back-off
├── MetadataConflictError    compare-and-set lost: re-read and decide again
├── MetadataFormatError      a stored value of no known format: unknown, a person must look
├── InconsistentError        what a job was given does not belong together: conclude nothing
├── StorageError             a disk failed: stop, never retry on the same file
│   ├── CorruptError         bytes on disk are not what was written
│   └── DiskFullError        no space: read-only until space is found
├── BootRefusedError         a person must decide before this bookie may start
└── NotReadyError            the bookie is booting or stopping
"""

from bookie.ids import EntryId, LedgerId


class BookieError(Exception):
    """Root of every error this product raises on purpose."""


class BadRequestError(BookieError):
    """The request makes no sense; repeating it cannot help."""


class FrameError(BadRequestError):
    """The bytes are not a valid frame or entry."""


class DigestError(FrameError):
    """The digest of an entry does not match its bytes: the entry is corrupt, or the password is
    wrong.
    """


class SettingsError(BadRequestError):
    """A setting is wrong; the message names it, what was found and what is expected."""


class UnauthorizedError(BookieError):
    """The password is wrong: its master key is not the ledger's."""

    def __init__(self, ledger_id: LedgerId) -> None:
        super().__init__(f"ledger {ledger_id}: wrong password (its master key differs)")
        self.ledger_id = ledger_id


class NoSuchLedgerError(BookieError):
    """The metadata store has no such ledger: it was never created, or was deleted."""

    def __init__(self, ledger_id: LedgerId) -> None:
        super().__init__(f"ledger {ledger_id} does not exist")
        self.ledger_id = ledger_id


class NoSuchEntryError(BookieError):
    """The entry is after the last entry that the ledger is known to hold."""

    def __init__(self, ledger_id: LedgerId, entry_id: EntryId, *, last: EntryId) -> None:
        super().__init__(f"ledger {ledger_id} has no entry {entry_id}: its last entry is {last}")
        self.ledger_id = ledger_id
        self.entry_id = entry_id


class LedgerFencedError(BookieError):
    """The ledger has a newer owner. Not retryable; the entry may or may not be stored (R19)."""

    def __init__(self, ledger_id: LedgerId) -> None:
        super().__init__(f"ledger {ledger_id} is fenced: reopen the log to write again")
        self.ledger_id = ledger_id


class LedgerClosedError(BookieError):
    """The ledger is closed and accepts no more entries."""

    def __init__(self, ledger_id: LedgerId) -> None:
        super().__init__(f"ledger {ledger_id} is closed")
        self.ledger_id = ledger_id


class DataLossError(BookieError):
    """The entry must exist, but every bookie that should hold it says that it does not (R5)."""

    def __init__(self, ledger_id: LedgerId, entry_id: EntryId) -> None:
        super().__init__(
            f"ledger {ledger_id} entry {entry_id} is lost: it lies within the closed ledger and "
            "every bookie that should hold it says it does not"
        )
        self.ledger_id = ledger_id
        self.entry_id = entry_id


class UndecidableError(BookieError):
    """Too few definite answers: bookies are down, booting or in limbo. Try again later (R4)."""


class NotEnoughBookiesError(BookieError):
    """There are fewer writable bookies than the ensemble needs."""


class UnavailableError(BookieError):
    """A peer or the metadata store cannot be reached now."""


class MetadataConflictError(BookieError):
    """Somebody else changed the value first: read it and decide again."""


class MetadataFormatError(BookieError):
    """The metadata store holds a value in a format we do not know: neither absent nor usable."""


class InconsistentError(BookieError):
    """The inputs of a job contradict each other, so the job may conclude nothing from them."""


class StorageError(BookieError):
    """A disk operation failed; the file is not used again (a failed fsync is never retried)."""


class CorruptError(StorageError):
    """Bytes on disk are not what was written: the answer is unknown, never absent (R8, R10)."""


class DiskFullError(StorageError):
    """The disk has no space for another log file."""


class BootRefusedError(BookieError):
    """The directories do not belong to this bookie as it is configured; a person must decide."""


class NotReadyError(BookieError):
    """The bookie is booting or stopping."""
