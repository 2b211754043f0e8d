"""The paths of BookKeeper's znodes in ZooKeeper, as pure functions.

Below the cluster's root (usually /ledgers) are LAYOUT, INSTANCEID, available/, cookies/, idgen/,
underreplication/ and the ledgers. Our own znodes are beside that root, not in it: Apache's tools
refuse to delete a cluster with children that they do not know.
"""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from bookie.errors import BadRequestError, MetadataFormatError
from bookie.ids import LEDGER_ID_MAX, BookieId, LedgerId

FACTORY_PACKAGE: Final = "org.apache.bookkeeper.meta."
FACTORY_WRITTEN: Final = "HierarchicalLedgerManagerFactory"
FACTORIES_HYBRID: Final = (FACTORY_WRITTEN, "LegacyHierarchicalLedgerManagerFactory")
FACTORY_LONG: Final = "LongHierarchicalLedgerManagerFactory"
LAYOUT_TEXT: Final = f"2\n{FACTORY_PACKAGE}{FACTORY_WRITTEN}:1"

SHORT_ID_END: Final = 2**31 - 1
"""The first id with a long path, and the first one that ZooKeeper's counter cannot give."""

SHORT_SPLIT: Final = (2, 4, 4)
LONG_SPLIT: Final = (3, 4, 4, 4, 4)
LEDGER_PREFIX: Final = "L"
ID_PREFIX: Final = "ID-"
HIGH_PREFIX: Final = "HOB-"
OWN_ROOT: Final = "bookie-operator"
OWN_KINDS: Final = ("barriers", "epochs", "private", "values")
LOGS_PREFIX: Final = "logs%2F"
"""The prefix of the znode names of values that are lists of ledgers of logs."""

MARK_PREFIX: Final = "urL"
MARK_FOLDERS: Final = 4
MARK_FOLDER: Final = re.compile(r"[0-9a-f]{4}")

BOOKIE_ID: Final = re.compile(r"[A-Za-z0-9_.:-]+")
RESERVED_BOOKIE_ID: Final = "readonly"
VALUE_NAME_CHARACTERS_MAX: Final = 250


def _split(digits: str, lengths: tuple[int, ...]) -> list[str]:
    parts, start = [], 0
    for length in lengths:
        parts.append(digits[start : start + length])
        start += length
    return parts


def is_long_layout(text: str) -> bool:
    """True when every ledger has a long path; MetadataFormatError for unknown layouts."""
    version, _, factory = text.partition("\n")
    name = factory.partition(":")[0].removeprefix(FACTORY_PACKAGE)
    if version == "2" and name in FACTORIES_HYBRID:
        return False
    if version == "2" and name == FACTORY_LONG:
        return True
    raise MetadataFormatError(
        f"the cluster's LAYOUT is {text!r}, expected {LAYOUT_TEXT!r}: another ledger manager keeps "
        "its ledgers where this product does not look"
    )


def ledger_path(ledger_id: LedgerId, *, long_layout: bool = False) -> str:
    """The ledger's path below the root, without a leading slash."""
    if not 0 <= ledger_id <= LEDGER_ID_MAX:
        raise BadRequestError(f"ledger id {ledger_id} is not within 0 and {LEDGER_ID_MAX}")
    short = ledger_id < SHORT_ID_END and not long_layout
    lengths = SHORT_SPLIT if short else LONG_SPLIT
    *folders, last = _split(f"{ledger_id:0{sum(lengths)}d}", lengths)
    return "/".join((*folders, LEDGER_PREFIX + last))


def ledger_id_of(path: str) -> LedgerId | None:
    """The ledger id of a path below the root, None when it is not a ledger's path."""
    *folders, last = path.split("/")
    lengths = (*map(len, folders), len(last) - len(LEDGER_PREFIX))
    digits = "".join(folders) + last.removeprefix(LEDGER_PREFIX)
    if lengths not in (SHORT_SPLIT, LONG_SPLIT) or not last.startswith(LEDGER_PREFIX):
        return None
    if not (digits.isascii() and digits.isdecimal()):
        return None
    number = int(digits)  # 19 digits reach beyond the largest id
    return LedgerId(number) if number <= LEDGER_ID_MAX else None


def is_folder(name: str, *, length: int) -> bool:
    """True for the name of a folder of ledgers on a level whose names have `length` digits."""
    return len(name) == length and name.isascii() and name.isdecimal()


def is_mark_folder(name: str) -> bool:
    """True for the name of a folder of under-replication marks, on any level."""
    return MARK_FOLDER.fullmatch(name) is not None


def mark_node(ledger_id: LedgerId) -> str:
    """The name of the ledger's under-replication mark, and of its lock."""
    return f"{MARK_PREFIX}{ledger_id:010d}"


def mark_folder(ledger_id: LedgerId) -> str:
    """The folder of the ledger's mark: its id as 16 hexadecimal digits in four names."""
    if not 0 <= ledger_id <= LEDGER_ID_MAX:
        raise BadRequestError(f"ledger id {ledger_id} is not within 0 and {LEDGER_ID_MAX}")
    return "/".join(_split(f"{ledger_id:016x}", (4,) * MARK_FOLDERS))


def marked_ledger(folder: str) -> LedgerId | None:
    """The inverse of `mark_folder`; None for a folder that cannot hold a ledger's mark."""
    parts = folder.split("/")
    if len(parts) != MARK_FOLDERS or not all(map(is_mark_folder, parts)):
        return None
    number = int("".join(parts), 16)
    return LedgerId(number) if number <= LEDGER_ID_MAX else None


@dataclass(frozen=True, slots=True)
class Paths:
    """The paths of one cluster. `root`: without a trailing slash, such as `/ledgers`."""

    root: str

    def __post_init__(self) -> None:
        parts = self.root.split("/")
        if parts[0] or len(parts) < 2 or any(part in ("", ".", "..") for part in parts[1:]):
            raise BadRequestError(
                f"root path of the cluster is {self.root!r}, expected one such as /ledgers"
            )

    @property
    def layout(self) -> str:
        return f"{self.root}/LAYOUT"

    @property
    def instance_id(self) -> str:
        return f"{self.root}/INSTANCEID"

    @property
    def writable(self) -> str:
        return f"{self.root}/available"

    @property
    def read_only(self) -> str:
        return f"{self.root}/available/{RESERVED_BOOKIE_ID}"

    @property
    def cookies(self) -> str:
        return f"{self.root}/cookies"

    @property
    def short_ids(self) -> str:
        return f"{self.root}/idgen"

    @property
    def long_ids(self) -> str:
        return f"{self.root}/idgen-long"

    def high_ids(self, high: int) -> str:
        """The folder of the counter for ids whose upper half is `high`."""
        return f"{self.long_ids}/{HIGH_PREFIX}{high:010d}"

    @property
    def underreplication(self) -> str:
        return f"{self.root}/underreplication"

    @property
    def marks_layout(self) -> str:
        return f"{self.underreplication}/LAYOUT"

    @property
    def marks(self) -> str:
        return f"{self.underreplication}/ledgers"

    @property
    def mark_locks(self) -> str:
        return f"{self.underreplication}/locks"

    @property
    def replication_disabled(self) -> str:
        """This znode exists while re-replication is switched off."""
        return f"{self.underreplication}/disable"

    @property
    def recovery_delay(self) -> str:
        return f"{self.underreplication}/lostBookieRecoveryDelay"

    def mark(self, ledger_id: LedgerId) -> str:
        return f"{self.marks}/{mark_folder(ledger_id)}/{mark_node(ledger_id)}"

    def mark_lock(self, ledger_id: LedgerId) -> str:
        return f"{self.mark_locks}/{mark_node(ledger_id)}"

    def folders(self, instance_id: str) -> tuple[str, ...]:
        """The folders that a cluster with access lists gets when it is created."""
        own = (self.own(instance_id, kind) for kind in OWN_KINDS)
        return (self.cookies, self.short_ids, self.underreplication, *own)

    def own(self, instance_id: str, kind: str) -> str:
        """The folder of our own znodes of one kind; it belongs to this cluster, not to a later one
        at its path.
        """
        return f"{self.root.rpartition('/')[0]}/{OWN_ROOT}/{instance_id}/{kind}"


def bookie_node(bookie_id: BookieId) -> str:
    """The bookie's znode name; BadRequestError for an id that BookKeeper would not accept."""
    if not BOOKIE_ID.fullmatch(bookie_id) or bookie_id.lower() in (RESERVED_BOOKIE_ID, ".", ".."):
        raise BadRequestError(
            f"bookie id {bookie_id!r} is not allowed: use letters, digits, '-', '_', '.' and ':', "
            f"and not {RESERVED_BOOKIE_ID!r}"
        )
    return bookie_id


def value_kind(name: str) -> str:
    """The kind of folder for a value. Clients create the lists of their logs. The fleet's own
    values are in another folder, where clients cannot create a znode before the fleet does.
    """
    return "values" if value_node(name).startswith(LOGS_PREFIX) else "private"


def value_node(name: str) -> str:
    """The znode name of one of our own values; it is flat, so that `a` and `a/b` can both be
    values.
    """
    if not name or name in (".", "..") or len(name) > VALUE_NAME_CHARACTERS_MAX:
        raise BadRequestError(
            f"value name {name!r} is not allowed: 1 to {VALUE_NAME_CHARACTERS_MAX} characters, "
            "such as 'logs/orders'"
        )
    return quote(name, safe="")
