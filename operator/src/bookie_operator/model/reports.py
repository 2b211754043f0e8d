"""What a job says at its end, as pydantic models: counts for the status, never proofs.

Parsed from the result object of the repair library. An engine of another version may say less or
more: what is missing or cannot be read counts as nothing reported.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

from bookie.ids import NO_ENTRY
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    model_validator,
)

from bookie_operator.model.audit_status import (
    CLASS_PATTERN,
    CLASSES_MAX,
    HOLDERS_MAX,
    LEDGERS_MAX,
    SILENT,
    UNREADABLE,
    ClassCounts,
    Holders,
    LastCopies,
    QuorumsStatus,
    findings_of,
)
from bookie_operator.model.undecided import (
    MEMBERS_MAX,
    UNDECIDED_MAX,
    UndecidedLedger,
    UndecidedStatus,
)

NAME_MAX: Final = 253
MESSAGE_MAX: Final = 1024
_WRONG: Final = (
    "missing", "unknown", "below_write_quorum", "below_ack_quorum", "no_copy", "lost",
)  # fmt: skip
"""Classes of an audit whose entries are not as they must be."""


def count(value: Any) -> int:
    """The value when it is a count; 0 for anything else."""
    return value if isinstance(value, int) and value >= 0 else 0


def _part(tree: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = tree.get(name)
    return found if isinstance(found, Mapping) else {}


def _looked_at(value: Any) -> int:
    """Ledgers of this run, and of the one before that it goes on from."""
    if not isinstance(value, Mapping):
        return count(value)
    return count(value.get("considered")) + count(value.get("done_before"))


def _wrong(value: Any) -> int:
    if not isinstance(value, Mapping):
        return count(value)
    return sum(count(value.get(name)) for name in _WRONG)


def _classes(value: Any) -> dict[str, ClassCounts]:
    """Of any name: an engine may know classes that we do not."""
    classes = value if isinstance(value, Mapping) else {}
    names = [name for name in classes if re.fullmatch(CLASS_PATTERN, name)][:CLASSES_MAX]
    return {name: _class(classes[name]) for name in names}


def _class(value: Any) -> ClassCounts:
    if isinstance(value, ClassCounts):
        return value
    counts = value if isinstance(value, Mapping) else {}
    return ClassCounts(findings=count(counts.get("findings")), entries=count(counts.get("entries")))


def _quorums(value: Any) -> QuorumsStatus | None:
    """None when nothing is said of quorums."""
    if isinstance(value, QuorumsStatus) or not isinstance(value, Mapping) or not value:
        return value if isinstance(value, QuorumsStatus) else None
    lowest = ("ack_asked", "ack_lowest", "copies_lowest")
    return QuorumsStatus(
        **{name: value[name] for name in lowest if _is_count(value.get(name))},
        ledgers_lowest=_counts(value, "ledgers_lowest"),
    )


def _last_copies(value: Any) -> LastCopies | None:
    """None when nothing is said of them. A row that cannot be read, or was cut off, is missing
    from `groups`, so that nobody takes the rest for all."""
    if isinstance(value, LastCopies) or not isinstance(value, Mapping):
        return value if isinstance(value, LastCopies) else None
    if not (_is_count(value.get("groups")) and _is_count(value.get("entries_left_out"))):
        return None
    rows = value.get("held_by")
    return LastCopies(
        entries=count(value.get("entries")),
        groups=value["groups"],
        entries_left_out=value["entries_left_out"],
        held_by=tuple(
            Holders(
                known=tuple(row["known"]),
                perhaps=tuple(row["perhaps"]),
                entries=count(row.get("entries")),
                ledgers=count(row.get("ledgers")),
                first_ledgers=_counts(row, "first_ledgers"),
            )
            for row in (rows if isinstance(rows, list) else ())
            if isinstance(row, Mapping) and _are_names(row.get("known"), row.get("perhaps"))
        )[:HOLDERS_MAX],
    )


def _undecided(value: Any) -> UndecidedStatus | None:
    """None when nothing is said of it. A row that cannot be read is left out."""
    if isinstance(value, UndecidedStatus) or not isinstance(value, Mapping):
        return value if isinstance(value, UndecidedStatus) else None
    ledgers, waiting = count(value.get("ledgers")), count(value.get("waiting"))
    rows = value.get("first")
    return UndecidedStatus(
        ledgers=ledgers,
        through=value["through"] if _is_count(value.get("through")) else None,
        first=tuple(
            UndecidedLedger(
                ledger=row["ledger"],
                entry=row["entry"],
                last_confirmed=_last_confirmed(row.get("last_confirmed")),
                forgotten_by=_short_names(row.get("forgotten_by")),
            )
            for row in (rows if isinstance(rows, list) else ())
            if isinstance(row, Mapping) and _are_counts(row.get("ledger"), row.get("entry"))
        )[:UNDECIDED_MAX],
        waiting=waiting,
        away=_short_names(value.get("away")),
    )


def _are_counts(*values: Any) -> bool:
    return all(map(_is_count, values))


def _short_names(value: Any) -> tuple[str, ...]:
    return tuple(name[:NAME_MAX] for name in _names(value)[:MEMBERS_MAX])


def _last_confirmed(value: Any) -> int:
    return int(value) if _is_count(value) else NO_ENTRY


def _are_names(*lists: Any) -> bool:
    return all(
        isinstance(names, list)
        and len(names) <= MEMBERS_MAX
        and all(isinstance(name, str) and len(name) <= NAME_MAX for name in names)
        for names in lists
    )


def _counts(tree: Mapping[str, Any], name: str) -> tuple[int, ...]:
    value = tree.get(name)
    return tuple(filter(_is_count, value))[:LEDGERS_MAX] if isinstance(value, list) else ()


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _short(value: Any) -> str:
    return str(value or "")[:NAME_MAX]


def _long(value: Any) -> str:
    return str(value or "")[:MESSAGE_MAX]


def _number_of(value: Any) -> int:
    return len(value) if isinstance(value, list) else count(value)


def _entry(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _first_refusal(value: Any) -> str:
    if isinstance(value, str):
        return value
    first = value[0] if isinstance(value, list) and value else {}
    return _long(_mapping(first).get("message"))


def _numbers(value: Any) -> dict[str, int]:
    return {str(name): count(one) for name, one in _mapping(value).items()}


def _sentences(value: Any) -> dict[str, str]:
    return {str(name): _long(one) for name, one in _mapping(value).items()}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _names(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list | tuple) else ()


Count = Annotated[int, BeforeValidator(count)]
Short = Annotated[str, BeforeValidator(_short)]
Long = Annotated[str, BeforeValidator(_long)]
MOVED: Final = AliasPath("ledgers", "moved")
RECOVERED: Final = AliasPath("ledgers", "recovered")
BLOCKED: Final = AliasPath("ledgers", "blocked")


class Report(BaseModel):
    """What every job says: on which engine it ran, and why on that."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    needs: ClassVar[str] = ""
    """The part of a result without which the job did not come to its end; empty = none."""

    engine: Short = ""
    engine_reason: Long = ""
    spark_app_id: Short = ""
    executors: Count = 0
    exit_code: Count = 0
    """The job's own word: with any other than 0 something is wrong, or not everything is known."""


class RepairReport(Report):
    """Of the marks of one bookie. Completion is the bookie's to say."""

    entries_recovered: Count = 0
    entries_copied: Count = 0
    entries_copied_closed: Count = 0
    ledgers_recovered: Count = Field(default=0, validation_alias=RECOVERED)
    undecided: Annotated[UndecidedStatus | None, BeforeValidator(_undecided)] = None
    message: Long = ""


class DrainReport(Report):
    """What a drain moved off its bookie, and what it could not move yet."""

    ledgers_moved: Count = Field(default=0, validation_alias=MOVED)
    ledgers_recovered: Count = Field(default=0, validation_alias=RECOVERED)
    ledgers_left: Count = 0
    ledgers_blocked: Count = Field(default=0, validation_alias=BLOCKED)
    entries_copied: Count = 0
    message: Long = ""


class RereplicationReport(Report):
    """What a re-replication moved to new members and mended; `refused`: why it did nothing, or no
    more. `blocked`: ledgers that something was in the way of.
    """

    needs: ClassVar[str] = "marks"

    ledgers_moved: Count = Field(default=0, validation_alias=MOVED)
    ledgers_left: Count = 0
    blocked: Count = Field(default=0, validation_alias=BLOCKED)
    marks_found: Count = Field(default=0, validation_alias=AliasPath("marks", "found"))
    marks_cleared: Count = Field(default=0, validation_alias=AliasPath("marks", "cleared"))
    entries_copied: Count = 0
    refused: Long = ""
    message: Long = ""

    @property
    def clean(self) -> bool | None:
        """None: it was refused, and looked at nothing."""
        if self.refused:
            return None
        return not (self.ledgers_left or self.blocked or self.marks_found > self.marks_cleared)


class AuditReport(Report):
    """Findings of a whole audit. `classes`: all that the engine knows, by name; `lost`: in a
    durable loss record, as every member said that it has no copy; `underreplicated_skipped`:
    ledgers with findings that are counted nowhere; `accepted_losses`: ledgers that a person let
    close at a possible loss.
    """

    needs: ClassVar[str] = "audit"

    ledgers: Count = 0
    entries: Count = 0
    ok: Count = 0
    missing: Count = 0
    unknown: Count = 0
    below_write_quorum: Count = 0
    below_ack_quorum: Count = 0
    no_copy: Count = 0
    lost: Count = 0
    underreplicated_skipped: Count = 0
    accepted_losses: Annotated[int, BeforeValidator(_number_of)] = 0
    classes: Annotated[dict[str, ClassCounts], BeforeValidator(_classes)] = Field(
        default_factory=dict
    )
    quorums: Annotated[QuorumsStatus | None, BeforeValidator(_quorums)] = None
    last_copies: Annotated[LastCopies | None, BeforeValidator(_last_copies)] = None

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, tree: dict[str, Any]) -> dict[str, Any]:
        # A summary may have cut the list. Release 0.1.0 has no count, and a whole result only one
        # of what had no place in it.
        listed = _number_of(tree.get("accepted_losses"))
        known = listed + count(tree.get("accepted_losses_left_out"))
        losses = tree.get("accepted_loss_count", known)
        return {**tree, **_part(tree, "audit"), "accepted_losses": losses}

    @property
    def clean(self) -> bool:
        """Every copy of every ledger is known to be there: what was left out proves nothing."""
        unseen = self.underreplicated_skipped or findings_of(self.classes, UNREADABLE, SILENT)
        return not (self.exit_code or unseen or any(getattr(self, name) for name in _WRONG))


class ScrubReport(Report):
    """What a scrub of all ledgers read, found and replaced; `wrong`: entries that are not as they
    must be after it, by any class of the audit that ends it. `blocked`: ledgers it did not finish.
    """

    needs: ClassVar[str] = "audit_after"

    ledgers: Annotated[int, BeforeValidator(_looked_at)] = 0
    entries: Count = Field(default=0, validation_alias=AliasPath("audit_after", "entries"))
    corrupt_found: Count = 0
    corrupt_replaced: Count = 0
    last_copies: Annotated[LastCopies | None, BeforeValidator(_last_copies)] = None
    wrong: Annotated[int, BeforeValidator(_wrong)] = Field(
        default=0, validation_alias="audit_after"
    )
    blocked: Count = Field(default=0, validation_alias=BLOCKED)
    message: Long = ""

    @property
    def clean(self) -> bool:
        left = self.corrupt_found > self.corrupt_replaced
        return not (self.exit_code or left or self.wrong or self.blocked)


class MendReport(Report):
    """What a repair of every ledger made good; `wrong`, `blocked`: as of a scrub."""

    needs: ClassVar[str] = "audit_after"

    ledgers: Annotated[int, BeforeValidator(_looked_at)] = 0
    blocked: Count = Field(default=0, validation_alias=BLOCKED)
    wrong: Annotated[int, BeforeValidator(_wrong)] = Field(
        default=0, validation_alias="audit_after"
    )
    entries_copied: Count = 0
    corrupt_replaced: Count = 0
    message: Long = ""

    @property
    def clean(self) -> bool:
        return not (self.exit_code or self.blocked or self.wrong)


class LossReport(Report):
    """How a ledger was closed by a person's decision; `lost_from` None = without giving up any."""

    ledger_id: StrictInt
    last_entry_id: StrictInt
    lost_from: Annotated[int | None, BeforeValidator(_entry)] = None
    recorded_on: Annotated[tuple[str, ...], BeforeValidator(_names)] = ()


class ClosedLedger(BaseModel):
    """One of several that a decision closed, or would close; `lost_from` as of `LossReport`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    ledger_id: StrictInt
    last_entry_id: Annotated[
        StrictInt, Field(validation_alias=AliasChoices("last_entry_id", "closes_at"))
    ]
    lost_from: Annotated[
        int | None,
        BeforeValidator(_entry),
        Field(validation_alias=AliasChoices("lost_from", "first_in_question")),
    ] = None
    away: Annotated[tuple[str, ...], BeforeValidator(_names)] = ()
    """Bookies that it waits for, in a dry run."""


class LossesReport(Report):
    """What became of all ledgers of a person's decision, or would; its rows may be cut off."""

    closed: Count = 0
    given_up: Count = 0
    """Closed ones of which entries were given up."""
    refused: Count = 0
    dry_run: bool = False
    """Nothing was changed: this is what a decision would do."""
    decisions: tuple[ClosedLedger, ...] = ()
    first_refusal: Annotated[str, BeforeValidator(_first_refusal)] = Field(
        default="", validation_alias="refusals"
    )


class RetractionReport(Report):
    """Whose records of a loss were taken back by a person's decision."""

    ledger_id: StrictInt
    retracted_on: Annotated[dict[str, int], BeforeValidator(_numbers)] = {}
    """Bookie -> entries that are lost no more."""
    in_limbo_on: Annotated[tuple[str, ...], BeforeValidator(_names)] = ()
    refused: Annotated[dict[str, str], BeforeValidator(_sentences)] = {}
    """Bookie -> why it keeps its record."""
    silent: Annotated[tuple[str, ...], BeforeValidator(_names)] = ()
    """Who did not say whether they have one."""


def message_of(tree: Mapping[str, Any]) -> str:
    """What is in the way, in a sentence: the number of blocks and the first of them."""
    blocked = tree.get("blocked")
    if isinstance(blocked, list) and blocked and isinstance(blocked[0], Mapping):
        first = blocked[0]
        what = first.get("ledger_id", first.get("bookie_id", ""))
        text = f"{len(blocked)} blocked; {what} {first.get('reason')}: {first.get('message')}"
        return text[:MESSAGE_MAX]
    return _long(tree.get("message"))
