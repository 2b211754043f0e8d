from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Phase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PHASE_UNSPECIFIED: _ClassVar[Phase]
    BOOTING: _ClassVar[Phase]
    MARKING: _ClassVar[Phase]
    AWAITING_APPROVAL: _ClassVar[Phase]
    SERVING: _ClassVar[Phase]
    READ_ONLY: _ClassVar[Phase]
    DRAINING: _ClassVar[Phase]
    STOPPING: _ClassVar[Phase]
    REFUSED: _ClassVar[Phase]
PHASE_UNSPECIFIED: Phase
BOOTING: Phase
MARKING: Phase
AWAITING_APPROVAL: Phase
SERVING: Phase
READ_ONLY: Phase
DRAINING: Phase
STOPPING: Phase
REFUSED: Phase

class GetHealthRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DiskHealth(_message.Message):
    __slots__ = ("path", "role", "index", "disk_id", "verdict", "total_bytes", "free_bytes", "volume_uid")
    PATH_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    DISK_ID_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    VOLUME_UID_FIELD_NUMBER: _ClassVar[int]
    path: str
    role: str
    index: int
    disk_id: str
    verdict: str
    total_bytes: int
    free_bytes: int
    volume_uid: str
    def __init__(self, path: _Optional[str] = ..., role: _Optional[str] = ..., index: _Optional[int] = ..., disk_id: _Optional[str] = ..., verdict: _Optional[str] = ..., total_bytes: _Optional[int] = ..., free_bytes: _Optional[int] = ..., volume_uid: _Optional[str] = ...) -> None: ...

class BootRecord(_message.Message):
    __slots__ = ("boot_epoch", "clean", "reason", "started_at_ms", "mode", "previous_mode", "ledgers_fenced", "ledgers_in_limbo", "ledgers_unchecked", "cookie_fixed", "ledgers_unreadable", "unreadable_ledger_ids")
    BOOT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CLEAN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_MODE_FIELD_NUMBER: _ClassVar[int]
    LEDGERS_FENCED_FIELD_NUMBER: _ClassVar[int]
    LEDGERS_IN_LIMBO_FIELD_NUMBER: _ClassVar[int]
    LEDGERS_UNCHECKED_FIELD_NUMBER: _ClassVar[int]
    COOKIE_FIXED_FIELD_NUMBER: _ClassVar[int]
    LEDGERS_UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_LEDGER_IDS_FIELD_NUMBER: _ClassVar[int]
    boot_epoch: int
    clean: bool
    reason: str
    started_at_ms: int
    mode: str
    previous_mode: str
    ledgers_fenced: int
    ledgers_in_limbo: int
    ledgers_unchecked: int
    cookie_fixed: bool
    ledgers_unreadable: int
    unreadable_ledger_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, boot_epoch: _Optional[int] = ..., clean: _Optional[bool] = ..., reason: _Optional[str] = ..., started_at_ms: _Optional[int] = ..., mode: _Optional[str] = ..., previous_mode: _Optional[str] = ..., ledgers_fenced: _Optional[int] = ..., ledgers_in_limbo: _Optional[int] = ..., ledgers_unchecked: _Optional[int] = ..., cookie_fixed: _Optional[bool] = ..., ledgers_unreadable: _Optional[int] = ..., unreadable_ledger_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class Health(_message.Message):
    __slots__ = ("bookie_id", "phase", "message", "boot", "disks", "limbo_ledgers", "unchecked_ledgers", "limbo_cleared_total", "entries_total", "bytes_total", "instance_id", "cookie_fix", "losses_recorded", "version", "draining", "ledgers_naming_it", "ledgers_counted", "counted_at_ms", "metadata_rolled_back", "collection_held", "collection_plan_id", "decisions")
    BOOKIE_ID_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    BOOT_FIELD_NUMBER: _ClassVar[int]
    DISKS_FIELD_NUMBER: _ClassVar[int]
    LIMBO_LEDGERS_FIELD_NUMBER: _ClassVar[int]
    UNCHECKED_LEDGERS_FIELD_NUMBER: _ClassVar[int]
    LIMBO_CLEARED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_TOTAL_FIELD_NUMBER: _ClassVar[int]
    BYTES_TOTAL_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    COOKIE_FIX_FIELD_NUMBER: _ClassVar[int]
    LOSSES_RECORDED_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    LEDGERS_NAMING_IT_FIELD_NUMBER: _ClassVar[int]
    LEDGERS_COUNTED_FIELD_NUMBER: _ClassVar[int]
    COUNTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    METADATA_ROLLED_BACK_FIELD_NUMBER: _ClassVar[int]
    COLLECTION_HELD_FIELD_NUMBER: _ClassVar[int]
    COLLECTION_PLAN_ID_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    bookie_id: str
    phase: Phase
    message: str
    boot: BootRecord
    disks: _containers.RepeatedCompositeFieldContainer[DiskHealth]
    limbo_ledgers: int
    unchecked_ledgers: int
    limbo_cleared_total: int
    entries_total: int
    bytes_total: int
    instance_id: str
    cookie_fix: CookieFix
    losses_recorded: int
    version: str
    draining: bool
    ledgers_naming_it: int
    ledgers_counted: bool
    counted_at_ms: int
    metadata_rolled_back: str
    collection_held: str
    collection_plan_id: str
    decisions: _containers.RepeatedCompositeFieldContainer[PersonDecision]
    def __init__(self, bookie_id: _Optional[str] = ..., phase: _Optional[_Union[Phase, str]] = ..., message: _Optional[str] = ..., boot: _Optional[_Union[BootRecord, _Mapping]] = ..., disks: _Optional[_Iterable[_Union[DiskHealth, _Mapping]]] = ..., limbo_ledgers: _Optional[int] = ..., unchecked_ledgers: _Optional[int] = ..., limbo_cleared_total: _Optional[int] = ..., entries_total: _Optional[int] = ..., bytes_total: _Optional[int] = ..., instance_id: _Optional[str] = ..., cookie_fix: _Optional[_Union[CookieFix, _Mapping]] = ..., losses_recorded: _Optional[int] = ..., version: _Optional[str] = ..., draining: _Optional[bool] = ..., ledgers_naming_it: _Optional[int] = ..., ledgers_counted: _Optional[bool] = ..., counted_at_ms: _Optional[int] = ..., metadata_rolled_back: _Optional[str] = ..., collection_held: _Optional[str] = ..., collection_plan_id: _Optional[str] = ..., decisions: _Optional[_Iterable[_Union[PersonDecision, _Mapping]]] = ...) -> None: ...

class PersonDecision(_message.Message):
    __slots__ = ("at_ms", "kind", "decided_by", "about")
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    DECIDED_BY_FIELD_NUMBER: _ClassVar[int]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    at_ms: int
    kind: str
    decided_by: str
    about: str
    def __init__(self, at_ms: _Optional[int] = ..., kind: _Optional[str] = ..., decided_by: _Optional[str] = ..., about: _Optional[str] = ...) -> None: ...

class CookieFix(_message.Message):
    __slots__ = ("plan_id", "disk_indexes", "description", "policy")
    PLAN_ID_FIELD_NUMBER: _ClassVar[int]
    DISK_INDEXES_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    plan_id: str
    disk_indexes: _containers.RepeatedScalarFieldContainer[int]
    description: str
    policy: str
    def __init__(self, plan_id: _Optional[str] = ..., disk_indexes: _Optional[_Iterable[int]] = ..., description: _Optional[str] = ..., policy: _Optional[str] = ...) -> None: ...

class ListLimboRequest(_message.Message):
    __slots__ = ("after_ledger_id", "limit", "include_unchecked")
    AFTER_LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_UNCHECKED_FIELD_NUMBER: _ClassVar[int]
    after_ledger_id: int
    limit: int
    include_unchecked: bool
    def __init__(self, after_ledger_id: _Optional[int] = ..., limit: _Optional[int] = ..., include_unchecked: _Optional[bool] = ...) -> None: ...

class LimboLedger(_message.Message):
    __slots__ = ("ledger_id", "limbo", "boot_epoch")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    LIMBO_FIELD_NUMBER: _ClassVar[int]
    BOOT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ledger_id: int
    limbo: bool
    boot_epoch: int
    def __init__(self, ledger_id: _Optional[int] = ..., limbo: _Optional[bool] = ..., boot_epoch: _Optional[int] = ...) -> None: ...

class ListLimboReply(_message.Message):
    __slots__ = ("ledgers", "more")
    LEDGERS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    ledgers: _containers.RepeatedCompositeFieldContainer[LimboLedger]
    more: bool
    def __init__(self, ledgers: _Optional[_Iterable[_Union[LimboLedger, _Mapping]]] = ..., more: _Optional[bool] = ...) -> None: ...

class GetAvailabilityRequest(_message.Message):
    __slots__ = ("ledger_ids",)
    LEDGER_IDS_FIELD_NUMBER: _ClassVar[int]
    ledger_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ledger_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class LedgerAvailability(_message.Message):
    __slots__ = ("ledger_id", "status", "entries", "limbo", "unchecked", "fenced", "lac", "lost")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    LIMBO_FIELD_NUMBER: _ClassVar[int]
    UNCHECKED_FIELD_NUMBER: _ClassVar[int]
    FENCED_FIELD_NUMBER: _ClassVar[int]
    LAC_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    ledger_id: int
    status: int
    entries: bytes
    limbo: bool
    unchecked: bool
    fenced: bool
    lac: int
    lost: bytes
    def __init__(self, ledger_id: _Optional[int] = ..., status: _Optional[int] = ..., entries: _Optional[bytes] = ..., limbo: _Optional[bool] = ..., unchecked: _Optional[bool] = ..., fenced: _Optional[bool] = ..., lac: _Optional[int] = ..., lost: _Optional[bytes] = ...) -> None: ...

class GetAvailabilityReply(_message.Message):
    __slots__ = ("ledgers",)
    LEDGERS_FIELD_NUMBER: _ClassVar[int]
    ledgers: _containers.RepeatedCompositeFieldContainer[LedgerAvailability]
    def __init__(self, ledgers: _Optional[_Iterable[_Union[LedgerAvailability, _Mapping]]] = ...) -> None: ...

class ClearLimboRequest(_message.Message):
    __slots__ = ("ledger_ids",)
    LEDGER_IDS_FIELD_NUMBER: _ClassVar[int]
    ledger_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ledger_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class ClearLimboResult(_message.Message):
    __slots__ = ("ledger_id", "cleared", "reason", "message", "entries_missing")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    CLEARED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_MISSING_FIELD_NUMBER: _ClassVar[int]
    ledger_id: int
    cleared: bool
    reason: str
    message: str
    entries_missing: int
    def __init__(self, ledger_id: _Optional[int] = ..., cleared: _Optional[bool] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., entries_missing: _Optional[int] = ...) -> None: ...

class ClearLimboReply(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[ClearLimboResult]
    def __init__(self, results: _Optional[_Iterable[_Union[ClearLimboResult, _Mapping]]] = ...) -> None: ...

class EntryRange(_message.Message):
    __slots__ = ("first", "last")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...

class RecordLossRequest(_message.Message):
    __slots__ = ("ledger_id", "ranges", "by_person", "reason", "answered_by")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    BY_PERSON_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_BY_FIELD_NUMBER: _ClassVar[int]
    ledger_id: int
    ranges: _containers.RepeatedCompositeFieldContainer[EntryRange]
    by_person: bool
    reason: str
    answered_by: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ledger_id: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[EntryRange, _Mapping]]] = ..., by_person: _Optional[bool] = ..., reason: _Optional[str] = ..., answered_by: _Optional[_Iterable[str]] = ...) -> None: ...

class RecordLossReply(_message.Message):
    __slots__ = ("recorded", "message")
    RECORDED_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    recorded: bool
    message: str
    def __init__(self, recorded: _Optional[bool] = ..., message: _Optional[str] = ...) -> None: ...

class RetractLossRequest(_message.Message):
    __slots__ = ("ledger_id", "ranges", "retracted_by", "reason")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    RETRACTED_BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ledger_id: int
    ranges: _containers.RepeatedCompositeFieldContainer[EntryRange]
    retracted_by: str
    reason: str
    def __init__(self, ledger_id: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[EntryRange, _Mapping]]] = ..., retracted_by: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class RetractLossReply(_message.Message):
    __slots__ = ("retracted", "message", "entries", "in_limbo")
    RETRACTED_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    IN_LIMBO_FIELD_NUMBER: _ClassVar[int]
    retracted: bool
    message: str
    entries: int
    in_limbo: bool
    def __init__(self, retracted: _Optional[bool] = ..., message: _Optional[str] = ..., entries: _Optional[int] = ..., in_limbo: _Optional[bool] = ...) -> None: ...

class RecheckEntriesRequest(_message.Message):
    __slots__ = ("ledger_id", "ranges")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    ledger_id: int
    ranges: _containers.RepeatedCompositeFieldContainer[EntryRange]
    def __init__(self, ledger_id: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[EntryRange, _Mapping]]] = ...) -> None: ...

class RecheckEntriesReply(_message.Message):
    __slots__ = ("rejected", "message")
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    rejected: _containers.RepeatedCompositeFieldContainer[EntryRange]
    message: str
    def __init__(self, rejected: _Optional[_Iterable[_Union[EntryRange, _Mapping]]] = ..., message: _Optional[str] = ...) -> None: ...

class ApproveCookieFixRequest(_message.Message):
    __slots__ = ("plan_id", "approved_by")
    PLAN_ID_FIELD_NUMBER: _ClassVar[int]
    APPROVED_BY_FIELD_NUMBER: _ClassVar[int]
    plan_id: str
    approved_by: str
    def __init__(self, plan_id: _Optional[str] = ..., approved_by: _Optional[str] = ...) -> None: ...

class ApproveCookieFixReply(_message.Message):
    __slots__ = ("accepted", "message")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    accepted: bool
    message: str
    def __init__(self, accepted: _Optional[bool] = ..., message: _Optional[str] = ...) -> None: ...

class ApproveCollectionRequest(_message.Message):
    __slots__ = ("plan_id", "approved_by")
    PLAN_ID_FIELD_NUMBER: _ClassVar[int]
    APPROVED_BY_FIELD_NUMBER: _ClassVar[int]
    plan_id: str
    approved_by: str
    def __init__(self, plan_id: _Optional[str] = ..., approved_by: _Optional[str] = ...) -> None: ...

class ApproveCollectionReply(_message.Message):
    __slots__ = ("accepted", "message")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    accepted: bool
    message: str
    def __init__(self, accepted: _Optional[bool] = ..., message: _Optional[str] = ...) -> None: ...

class SetReadOnlyRequest(_message.Message):
    __slots__ = ("read_only", "reason")
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    read_only: bool
    reason: str
    def __init__(self, read_only: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...

class SetReadOnlyReply(_message.Message):
    __slots__ = ("phase",)
    PHASE_FIELD_NUMBER: _ClassVar[int]
    phase: Phase
    def __init__(self, phase: _Optional[_Union[Phase, str]] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("cancel",)
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    cancel: bool
    def __init__(self, cancel: _Optional[bool] = ...) -> None: ...

class DrainReply(_message.Message):
    __slots__ = ("phase", "ledgers_held")
    PHASE_FIELD_NUMBER: _ClassVar[int]
    LEDGERS_HELD_FIELD_NUMBER: _ClassVar[int]
    phase: Phase
    ledgers_held: int
    def __init__(self, phase: _Optional[_Union[Phase, str]] = ..., ledgers_held: _Optional[int] = ...) -> None: ...

class FlushRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FlushReply(_message.Message):
    __slots__ = ("log_bytes",)
    LOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    log_bytes: int
    def __init__(self, log_bytes: _Optional[int] = ...) -> None: ...
