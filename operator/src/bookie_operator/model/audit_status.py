"""What the status says of audits and scrubs, and of the repairs of what they found."""

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import AwareDatetime, Field, StringConstraints

from bookie_operator.model.attempt_status import AttemptStatus, EngineUse
from bookie_operator.model.base import Count, ShortText, StatusPart
from bookie_operator.model.undecided import MEMBERS_MAX

CLASSES_MAX: Final = 32
HOLDERS_MAX: Final = 64
"""Groups of bookies that hold last copies, at most, in a status."""
LEDGERS_MAX: Final = 16
"""Ledgers that a group or a quorum names, at most."""
CLASS_PATTERN: Final = r"[a-z][a-z_]{0,39}"
"""Names of an audit's classes of findings."""
UNREADABLE: Final = "metadata_unreadable"
SILENT: Final = "silent_bookie"
"""Two of them: of the entries concerned nothing is known."""


class ClassCounts(StatusPart):
    """Counts of one class of an audit's findings."""

    findings: Count = 0
    """Number of ledgers, or of bookies if the class is about bookies."""
    entries: Count = 0
    """Number of affected entries; 0 if the class is not about entries."""


def findings_of(classes: Mapping[str, ClassCounts], *names: str) -> int:
    """Number of findings of these classes."""
    return sum(classes[name].findings for name in names if name in classes)


ClassName = Annotated[str, StringConstraints(pattern=rf"^{CLASS_PATTERN}$")]


class Holders(StatusPart):
    """Entries with too few known copies, and the bookies that hold them."""

    known: Annotated[tuple[ShortText, ...], Field(max_length=MEMBERS_MAX)] = ()
    """Bookies that have a good copy."""
    perhaps: Annotated[tuple[ShortText, ...], Field(max_length=MEMBERS_MAX)] = ()
    """Bookies that may have a good copy, but did not say."""
    entries: Count = 0
    """Number of entries that only these bookies hold."""
    ledgers: Count = 0
    """Number of ledgers to which these entries belong."""
    first_ledgers: Annotated[tuple[Count, ...], Field(max_length=LEDGERS_MAX)] = ()
    """Ids of the first of these ledgers, at most 16."""


class LastCopies(StatusPart):
    """Which bookies hold entries with too few copies."""

    entries: Count = 0
    """Number of entries with fewer known copies than they need."""
    groups: Count = 0
    """Number of different groups of bookies that hold them; `heldBy` may list fewer."""
    entries_left_out: Count = 0
    """Number of such entries whose holders were not recorded."""
    held_by: Annotated[tuple[Holders, ...], Field(max_length=HOLDERS_MAX)] = ()
    """One item for each group of bookies, at most 64."""

    @property
    def is_complete(self) -> bool:
        """Whether all holders are listed, so that other bookies hold no last copy."""
        return len(self.held_by) == self.groups and not self.entries_left_out


class QuorumsStatus(StatusPart):
    """The quorums with which the ledgers were created."""

    ack_asked: Count | None = None
    """The ack quorum that the audit checked for."""
    ack_lowest: Count | None = None
    """The lowest ack quorum of any ledger; absent without ledgers."""
    copies_lowest: Count | None = None
    """The lowest number of certain copies of any entry: the ack quorum for a ledger that is being
    written, the write quorum for a closed one. Absent without ledgers."""
    ledgers_lowest: Annotated[tuple[Count, ...], Field(max_length=LEDGERS_MAX)] = ()
    """Ids of the first ledgers with that number."""


class AuditStatus(AttemptStatus, EngineUse):
    """The last finished audit, and an audit that runs or failed since."""

    asked_at: AwareDatetime | None = None
    """When the operator last saw something after which an audit is needed."""
    ledgers: Count = 0
    """Number of ledgers that it checked."""
    entries: Count = 0
    """Number of entries in these ledgers: the sum of ok, missing, unknown and lost."""
    ok: Count = 0
    """Number of entries that have every copy that they must have."""
    missing: Count = 0
    """Number of entries that lack a copy."""
    unknown: Count = 0
    """Number of entries of which a bookie that did not answer may have a copy."""
    below_write_quorum: Count = 0
    """Number of entries with fewer copies than the write quorum."""
    below_ack_quorum: Count = 0
    """Number of entries with fewer copies than the ack quorum."""
    no_copy: Count = 0
    """Number of entries without any copy."""
    lost: Count = 0
    """Number of entries in loss records: every bookie of the ledger has said that it has no
    copy."""
    underreplicated_skipped: Count = 0
    """Number of ledgers with findings that are in none of these counts, since their mark as
    under-replicated is younger than `spec.audit.underreplicatedGraceSeconds`; the operator soon
    audits again."""
    accepted_losses: Count = 0
    """Number of ledgers that were closed because a person accepted a possible loss."""
    classes: Annotated[dict[ClassName, ClassCounts], Field(max_length=CLASSES_MAX)] = Field(
        default_factory=dict
    )
    """Counts of findings by class, such as `missing`; a class without findings may be absent."""
    quorums: QuorumsStatus | None = None
    """The ledgers' quorums. Absent: the job did not report them."""
    last_copies: LastCopies | None = None
    """Which bookies hold last copies. Absent: the job did not report it, so if there are findings,
    any bookie may hold one."""

    @property
    def is_unsure(self) -> bool:
        return not self.clean and not (self.missing or self.lost)

    @property
    def knows_all(self) -> bool:
        """Whether it could judge every copy; otherwise what it did not find may be there."""
        return not (self.unknown or self.not_seen)

    @property
    def not_seen(self) -> list[str]:
        """What it could not judge and is in no other count, in words."""
        counts = (
            (self.underreplicated_skipped, "ledgers skipped (marked as under-replicated lately)"),
            (findings_of(self.classes, UNREADABLE), "ledgers with unreadable metadata"),
            (findings_of(self.classes, SILENT), "bookies without an answer"),
        )
        return [f"{count} {words}" for count, words in counts if count]


class ScrubStatus(AttemptStatus):
    """The last finished scrub, and a scrub that runs or failed since."""

    scheduled_at: AwareDatetime | None = None
    """When the schedule was set; absent without a schedule."""
    ledgers: Count = 0
    """Number of ledgers that it read."""
    entries: Count = 0
    """Number of entries in these ledgers."""
    corrupt_found: Count = 0
    """Number of copies that could not be read or had a wrong digest."""
    corrupt_replaced: Count = 0
    """How many of these were replaced by good copies."""
    blocked: Count = 0
    """Number of ledgers of which not every copy could be verified or replaced."""
    last_copies: LastCopies | None = None
    """Which bookies hold last copies, after the scrub has replaced what it could."""

    @property
    def corrupt_left(self) -> int:
        """Copies that it found corrupt and could not replace."""
        return max(0, self.corrupt_found - self.corrupt_replaced)

    @property
    def is_unsure(self) -> bool:
        return not self.clean and not self.corrupt_left


class MendStatus(AttemptStatus, EngineUse):
    """The last finished repair of an audit's findings, and one that runs or failed since."""

    rounds: Count = 0
    """Number of repairs finished since the last clean audit; with each, the next one waits
    longer."""
    ledgers: Count = 0
    """Number of ledgers that it checked, which is all ledgers."""
    blocked: Count = 0
    """Number of ledgers that it could not repair."""
    entries_copied: Count = 0
    """Number of missing copies that it made."""
    corrupt_replaced: Count = 0
    """Number of corrupt copies that it replaced by good ones."""
