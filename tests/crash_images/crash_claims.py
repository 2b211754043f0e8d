"""What must be true of a bookie that has booted after a crash, claim by claim.

Each claim looks at the booted bookie and at what was promised before the crash, and says what is
wrong, or nothing. A claim must hold whatever of the unsynced changes survived.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from bookie.boot.boot import BootRecord
from bookie.boot.drain_marker import is_draining
from bookie.boot.marker import read_marker
from bookie.boot.stamps import read_stamp
from bookie.boot.takeover import BootSettings
from bookie.frames.frame import parse_run
from bookie.ids import EntryId, LedgerId
from bookie.metadata.memory import MemoryCluster
from bookie.protocol.admission import LedgerFacts, absent_status, rule_add
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.status import Status
from bookie.server.operations import Operations
from bookie.storage.modes import DurabilityMode
from bookie.storage.storage import Storage
from bookie.testing.inline import InlineDisk
from crash_promises import ME, Entries, Promises, Stop

READ_BYTES: Final = 1 << 20
LOSSES: Final = ("DiskReplaced", "DiskStale", "IdentityLost", "IndexRebuilt", "JournalLost")
"""Reasons of a boot that say that something was there and is gone."""


@dataclass(frozen=True, slots=True)
class After:
    """A bookie about to serve after a crash. `left`: its disk, were the power cut right now."""

    promises: Promises
    settings: BootSettings
    record: BootRecord
    storage: Storage
    operations: Operations
    cluster: MemoryCluster
    epoch_before: int
    """In the metadata, when the boot began."""
    left: InlineDisk
    _reads: dict[LedgerId, tuple[Entries, EntrySet]] = field(default_factory=dict)

    def facts(self, ledger_id: LedgerId) -> LedgerFacts:
        return self.operations.facts_of(ledger_id)

    def served(self, ledger_id: LedgerId) -> Entries:
        """The entries that were ever acknowledged, as far as reads give them."""
        return self._read(ledger_id)[0]

    def unreadable(self, ledger_id: LedgerId) -> EntrySet:
        """Those that are answered with an error, which denies nothing."""
        return self._read(ledger_id)[1]

    def _read(self, ledger_id: LedgerId) -> tuple[Entries, EntrySet]:
        if ledger_id not in self._reads:
            last = max(self.promises.acked[ledger_id])
            self._reads[ledger_id] = self._read_through(ledger_id, last)
        return self._reads[ledger_id]

    def _read_through(self, ledger_id: LedgerId, last: EntryId) -> tuple[Entries, EntrySet]:
        found: dict[EntryId, bytes] = {}
        unreadable = EMPTY
        first = 0
        while first <= last:
            read = self.storage.read(
                ledger_id, first=EntryId(first), last=last, bytes_max=READ_BYTES
            )
            for run in read.runs:
                frame = parse_run(memoryview(run))
                found.update(zip(frame.entry_ids(), map(bytes, frame.entries()), strict=True))
            unreadable |= EntrySet.from_ranges(read.unreadable)
            first = read.answered_through + 1
        return found, unreadable


Claim = Callable[[After], Iterator[str]]


def an_unclean_stop_is_noticed(after: After) -> Iterator[str]:
    # By this boot, or by one before it that marked everything and ended before it served.
    boundaries = (after.storage.boundary(), after.storage.unchecked_boundary())
    is_marked = any(one is not None and one.epoch > after.promises.epoch for one in boundaries)
    if after.promises.stop is Stop.UNCLEAN and after.record.clean and not is_marked:
        yield f"it had served, and the boot says clean ({after.record.reason})"


def a_clean_stop_is_believed(after: After) -> Iterator[str]:
    if after.promises.stop is Stop.CLEAN and not after.record.clean:
        yield f"it had stopped cleanly, and the boot says {after.record.reason}"


def every_boot_has_a_new_epoch(after: After) -> Iterator[str]:
    before = max(after.promises.epoch, after.epoch_before)
    if after.record.boot_epoch <= before:
        yield f"epoch {after.record.boot_epoch} after {before}"


def who_has_served_is_no_new_bookie(after: After) -> Iterator[str]:
    if after.promises.has_served and after.record.reason == "FirstBoot":
        yield f"it had served at epoch {after.promises.epoch}, and boots as new"


def who_has_not_served_has_lost_nothing(after: After) -> Iterator[str]:
    if not after.promises.has_served and after.record.reason in LOSSES:
        yield f"no boot had ended, and the next says {after.record.reason}"


def disks_stay_what_they_are(after: After) -> Iterator[str]:
    cookie = after.cluster.cookies.get(ME)
    if cookie is None or cookie.value.instance_id != after.cluster.instance_id:
        yield f"the cookie is {cookie}"
    for place, directory in enumerate(after.settings.directories):
        stamp = read_stamp(after.left, directory)
        if stamp is None or stamp.boot_epoch != after.record.boot_epoch:
            yield f"the durable stamp of {directory} is {stamp}"
        elif place < len(after.promises.disks):
            known = after.promises.disks[place]
            if known and stamp.disk_id != known:
                yield f"disk {known} of {directory} is now {stamp.disk_id}"


def it_serves_only_behind_durable_markers(after: After) -> Iterator[str]:
    wanted = (after.record.boot_epoch, after.settings.storage.mode)
    for directory in after.settings.directories:
        found = read_marker(after.left, directory)
        marker = found.marker
        if marker is None or (marker.boot_epoch, marker.mode) != wanted or marker.is_clean:
            yield f"the durable marker of {directory} is {found}, expected a dirty one of {wanted}"


def what_was_acknowledged_is_never_denied(after: After) -> Iterator[str]:
    for ledger_id, entries in after.promises.acked.items():
        facts = after.facts(ledger_id)
        absent = absent_status(facts)
        if not absent.is_denial:
            continue
        served = after.served(ledger_id)
        known = after.storage.loss(ledger_id) | after.unreadable(ledger_id)
        denied = [i for i in entries if i not in served and i not in known]
        if denied:
            yield f"entries {denied} of ledger {ledger_id} are answered {absent.name}"


def what_is_durable_is_served(after: After) -> Iterator[str]:
    for ledger_id, entries in after.promises.durable.items():
        served = after.served(ledger_id)
        if missing := [i for i in entries if i not in served]:
            yield f"durable entries {missing} of ledger {ledger_id} are not served"


def what_is_served_is_what_was_written(after: After) -> Iterator[str]:
    for ledger_id, entries in after.promises.acked.items():
        served = after.served(ledger_id)
        wrong = [i for i, content in entries.items() if served.get(i, content) != content]
        if wrong:
            yield f"entries {wrong} of ledger {ledger_id} have other bytes"


def fences_hold(after: After) -> Iterator[str]:
    promises = after.promises
    for ledger_id in sorted(promises.fenced | promises.refused | promises.limbo):
        if not _is_refused(after, ledger_id):
            yield f"ledger {ledger_id} takes normal adds again"


def after_forgetting_every_ledger_in_doubt_is_refused(after: After) -> Iterator[str]:
    """After a lost disk all that exist are, after a plain unclean stop those that lack something:
    notes say which. What was acknowledged decides here, not what the notes say."""
    forgot_all = after.promises.has_forgotten
    if not forgot_all and not _may_have_forgotten(after):
        return
    for ledger_id, found in after.cluster.ledgers.items():
        if not forgot_all and not _lacks(after, ledger_id):
            continue
        if not _is_refused(after, ledger_id):
            yield f"ledger {ledger_id} existed at the unclean boot and takes normal adds"
        yield from _undenied(after, found.value)


def _may_have_forgotten(after: After) -> bool:
    """The boot after an unclean stop with acknowledgements from memory."""
    unclean = after.promises.stop is Stop.UNCLEAN
    return unclean and after.promises.mode is DurabilityMode.MEMORY


def _lacks(after: After, ledger_id: LedgerId) -> bool:
    """An entry that was acknowledged is not served."""
    acked = after.promises.acked.get(ledger_id, {})
    return any(entry_id not in after.served(ledger_id) for entry_id in acked)


def _undenied(after: After, metadata: LedgerMetadata) -> Iterator[str]:
    facts = after.facts(metadata.ledger_id)
    if facts.deleted or not metadata.names(ME):
        return
    undecided = not metadata.is_closed and ME in metadata.last_fragment.ensemble
    if undecided and not facts.limbo:
        yield f"ledger {metadata.ledger_id} is {metadata.state.value} and not in limbo"
    if absent_status(facts) is not Status.UNKNOWN:
        yield f"what is absent of ledger {metadata.ledger_id} is {absent_status(facts).name}"


def _is_refused(after: After, ledger_id: LedgerId) -> bool:
    facts = after.facts(ledger_id)
    key = facts.master_key or b"k" * 20
    ruling = rule_add(facts, master_key=key, is_recovery=False, is_writable=True)
    return ruling.status in (Status.FENCED, Status.READ_ONLY)


def marks_hold(after: After) -> Iterator[str]:
    for ledger_id in sorted(after.promises.limbo):
        if not after.facts(ledger_id).limbo:
            yield f"ledger {ledger_id} was in limbo and nobody cleared it"
    for ledger_id in sorted(after.promises.unchecked):
        if not after.facts(ledger_id).may_have_forgotten:
            yield f"ledger {ledger_id} was unchecked and nobody checked it"


def keys_are_known(after: After) -> Iterator[str]:
    for ledger_id, key in after.promises.keys.items():
        if after.facts(ledger_id).master_key != key:
            yield f"the key of ledger {ledger_id} is {after.facts(ledger_id).master_key!r}"


def explicit_lacs_are_known(after: After) -> Iterator[str]:
    for ledger_id, lac in after.promises.lacs.items():
        if after.facts(ledger_id).lac < lac:
            yield f"the LAC of ledger {ledger_id} is {after.facts(ledger_id).lac}, was {lac}"


def tombstones_stay(after: After) -> Iterator[str]:
    for ledger_id in sorted(after.promises.deleted):
        if not after.facts(ledger_id).deleted:
            yield f"ledger {ledger_id} was collected, and its tombstone is gone"


def losses_stay_recorded(after: After) -> Iterator[str]:
    for ledger_id, lost in after.promises.losses.items():
        known = after.storage.loss(ledger_id)
        if missing := [i for i in sorted(lost) if i not in known]:
            yield f"the loss of {missing} of ledger {ledger_id} is forgotten"


def losses_taken_back_stay_so(after: After) -> Iterator[str]:
    decided = {one.by for one in after.storage.decisions}
    for ledger_id in sorted(after.promises.retracted):
        if after.storage.loss(ledger_id) or "ann" not in decided:
            yield f"ledger {ledger_id} has its loss record again, or nobody who took it back"


def a_drain_stays(after: After) -> Iterator[str]:
    wanted = after.promises.draining
    found = is_draining(after.left, after.settings.directories)
    if wanted is not None and found != wanted:
        yield f"draining is {found}, expected {wanted}"


CLAIMS: tuple[Claim, ...] = (
    an_unclean_stop_is_noticed,
    a_clean_stop_is_believed,
    every_boot_has_a_new_epoch,
    who_has_served_is_no_new_bookie,
    who_has_not_served_has_lost_nothing,
    disks_stay_what_they_are,
    it_serves_only_behind_durable_markers,
    what_was_acknowledged_is_never_denied,
    what_is_durable_is_served,
    what_is_served_is_what_was_written,
    fences_hold,
    after_forgetting_every_ledger_in_doubt_is_refused,
    marks_hold,
    keys_are_known,
    explicit_lacs_are_known,
    tombstones_stay,
    losses_stay_recorded,
    losses_taken_back_stay_so,
    a_drain_stays,
)


def broken_claims(after: After) -> list[str]:
    """Each with the claim's name first."""
    return [
        f"{claim.__name__.replace('_', ' ')}: {what}" for claim in CLAIMS for what in claim(after)
    ]
