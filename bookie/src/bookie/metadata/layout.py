"""Where BookKeeper keeps what in ZooKeeper, as pure functions over paths.

Below the cluster's root (usually /ledgers): LAYOUT, INSTANCEID, available/, cookies/, idgen/,
underreplication/ and the ledgers. Our own znodes lie beside that root, not in it: Apache's tools
refuse to end a cluster that has children they do not know.
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
"""First id of the long form, and the first one that ZooKeeper's counter cannot give."""

SHORT_SPLIT: Final = (2, 4, 4)
LONG_SPLIT: Final = (3, 4, 4, 4, 4)
LEDGER_PREFIX: Final = "L"
ID_PREFIX: Final = "ID-"
HIGH_PREFIX: Final = "HOB-"
OWN_ROOT: Final = "bookie-operator"
OWN_KINDS: Final = ("barriers", "epochs", "private", "values")
LOGS_PREFIX: Final = "logs%2F"
"""How the names of values begin, as znodes, that say which ledgers a log has."""

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
    """True when every ledger lies at its long path; MetadataFormatError for other layouts."""
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
    """The id of a ledger's path below the root, None when it is no ledger's path."""
    *folders, last = path.split("/")
    lengths = (*map(len, folders), len(last) - len(LEDGER_PREFIX))
    digits = "".join(folders) + last.removeprefix(LEDGER_PREFIX)
    if lengths not in (SHORT_SPLIT, LONG_SPLIT) or not last.startswith(LEDGER_PREFIX):
        return None
    return LedgerId(int(digits)) if digits.isascii() and digits.isdecimal() else None


def is_folder(name: str, *, length: int) -> bool:
    """True for a folder of ledgers of a level whose names have `length` digits."""
    return len(name) == length and name.isascii() and name.isdecimal()


def is_mark_folder(name: str) -> bool:
    """True for a folder of under-replication marks, at any of their levels."""
    return MARK_FOLDER.fullmatch(name) is not None


def mark_node(ledger_id: LedgerId) -> str:
    """Name of the ledger's under-replication mark, and of its lock."""
    return f"{MARK_PREFIX}{ledger_id:010d}"


def mark_folder(ledger_id: LedgerId) -> str:
    """The mark's folder: one for each ledger, its 64 bits in four names of hexadecimal digits."""
    if not 0 <= ledger_id <= LEDGER_ID_MAX:
        raise BadRequestError(f"ledger id {ledger_id} is not within 0 and {LEDGER_ID_MAX}")
    return "/".join(_split(f"{ledger_id:016x}", (4,) * MARK_FOLDERS))


def marked_ledger(folder: str) -> LedgerId | None:
    """The reverse of `mark_folder`; None for a folder that no ledger's mark can lie in."""
    parts = folder.split("/")
    if len(parts) != MARK_FOLDERS or not all(map(is_mark_folder, parts)):
        return None
    number = int("".join(parts), 16)
    return LedgerId(number) if number <= LEDGER_ID_MAX else None


@dataclass(frozen=True, slots=True)
class Paths:
    """The paths of one cluster. `root` without a trailing slash, such as `/ledgers`."""

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
        """Folder of the counter for ids whose upper half is `high`."""
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
        """Exists while re-replication is switched off."""
        return f"{self.underreplication}/disable"

    @property
    def recovery_delay(self) -> str:
        return f"{self.underreplication}/lostBookieRecoveryDelay"

    def mark(self, ledger_id: LedgerId) -> str:
        return f"{self.marks}/{mark_folder(ledger_id)}/{mark_node(ledger_id)}"

    def mark_lock(self, ledger_id: LedgerId) -> str:
        return f"{self.mark_locks}/{mark_node(ledger_id)}"

    def folders(self, instance_id: str) -> tuple[str, ...]:
        """Those that a cluster whose access lists are closed has from its first day on."""
        own = (self.own(instance_id, kind) for kind in OWN_KINDS)
        return (self.cookies, self.short_ids, self.underreplication, *own)

    def own(self, instance_id: str, kind: str) -> str:
        """Folder of our own znodes of one kind, of this cluster and no later one at its path."""
        return f"{self.root.rpartition('/')[0]}/{OWN_ROOT}/{instance_id}/{kind}"


def bookie_node(bookie_id: BookieId) -> str:
    """The bookie's znode name; BadRequestError for an id that BookKeeper would not take."""
    if not BOOKIE_ID.fullmatch(bookie_id) or bookie_id.lower() in (RESERVED_BOOKIE_ID, ".", ".."):
        raise BadRequestError(
            f"bookie id {bookie_id!r} is not allowed: use letters, digits, '-', '_', '.' and ':', "
            f"and not {RESERVED_BOOKIE_ID!r}"
        )
    return bookie_id


def value_kind(name: str) -> str:
    """The folder of a value. Logs are their clients', who make them: none of the fleet's own values
    lies where clients may make znodes, or they would be there before it."""
    return "values" if value_node(name).startswith(LOGS_PREFIX) else "private"


def value_node(name: str) -> str:
    """The znode name of one of our own values: flat, so that `a` and `a/b` can both be values."""
    if not name or name in (".", "..") or len(name) > VALUE_NAME_CHARACTERS_MAX:
        raise BadRequestError(
            f"value name {name!r} is not allowed: 1 to {VALUE_NAME_CHARACTERS_MAX} characters, "
            "such as 'logs/orders'"
        )
    return quote(name, safe="")
