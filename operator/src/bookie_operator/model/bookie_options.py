"""The fields of a cluster's spec that its bookies' settings files repeat."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from bookie_operator.model.base import Resource

BytesPerSecond = Annotated[int, Field(ge=2**16, le=2**40)]


class AckMode(StrEnum):
    """When an add that skips the journal is acknowledged."""

    MEMORY = "memory"
    SYNC = "sync"


class BookieOptions(Resource):
    """The fields of a cluster's spec that its bookies' settings files repeat.

    They are one model so that they travel from the spec to the file in one piece. A new field is
    declared here and gets its section in `platform.bookie_settings`. Its default is None: what
    nobody has set is not written, and so an upgrade of the operator restarts no bookie.
    """

    journal_write_data: bool = False
    """True: a bookie writes entries to its journal before it acknowledges them. False: entries skip
    the journal, and after an unclean stop ledgers with unsynced entries are in doubt."""
    ack: AckMode = AckMode.MEMORY
    """When a bookie acknowledges an entry that skips the journal: `memory`, once it is in memory;
    `sync`, once it is on a synced disk. Without effect if `journalWriteData` is true."""
    flush_interval_seconds: Annotated[float, Field(ge=0.1, le=3600)] = 10.0
    """How often a bookie writes its memory to its disks, in seconds. A crash loses at most the
    entries that came since."""
    compaction_bytes_per_second_busy: BytesPerSecond | None = None
    """How many bytes per second a bookie's compaction copies while clients append. Absent: 8
    MiB."""
    recovery_bytes_per_second_busy: BytesPerSecond | None = None
    """How many bytes per second repairs may write to a bookie while clients append. Absent: 8
    MiB."""
    collect_grace_seconds: Annotated[float, Field(ge=1, le=604800)] | None = None
    """A bookie removes a ledger's entries when two looks at the metadata store, this many seconds
    apart, have not found the ledger. Absent: 900."""
    collect_share_max: Annotated[float, Field(gt=0, le=1)] | None = None
    """If a larger share of a bookie's ledgers than this would be removed at once, the bookie waits
    for a person's approval. Absent: 0.25."""
    note_idle_flushes: Annotated[int, Field(ge=0, le=1000)] | None = None
    """For how many flushes a ledger without adds keeps the note that it may have unsynced entries
    (with `ack: memory`). After a crash ledgers without a note are not in doubt; the first add after
    it waits for a sync. 0: no notes. Absent: 2. Bookies of 0.1.0 do not start with this field."""
