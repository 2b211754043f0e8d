"""The list of ledgers of a replicated log: its encoding, and its compare-and-set.

It is stored under `logs/<name>` as JSON, UTF-8, keys sorted: `{"deleting": [1], "ledgers": [3, 7,
9], "version": 1}`. `ledgers`: ids in log order, oldest first; the last one is the owner's.
`deleting`: ids of truncated ledgers that may still have to be deleted; they no longer belong to the
log.
"""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from bookie.bounded import parse_json
from bookie.errors import BadRequestError, MetadataConflictError, UnavailableError
from bookie.ids import LedgerId
from bookie.metadata.store import MetadataStore

LIST_VERSION: Final = 1
WRITES_MAX: Final = 3
"""How often one compare-and-set is tried while its outcome is unknown."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class LedgerList:
    """The ledgers of one log; an immutable value."""

    ledgers: tuple[LedgerId, ...] = ()
    """The ledgers in log order, oldest first; the last one is the owner's. No ledger is listed
    twice."""
    deleting: tuple[LedgerId, ...] = ()
    """Truncated ledgers that may not be deleted yet; they never come back into `ledgers`."""

    def appended(self, ledger_id: LedgerId) -> "LedgerList":
        """The list with this ledger at its end; unchanged when it has that ledger."""
        if ledger_id in self.ledgers:
            return self
        return replace(self, ledgers=(*self.ledgers, ledger_id))

    def without(self, missing: Collection[LedgerId]) -> "LedgerList":
        """The list without ledgers that do not exist."""
        return replace(self, ledgers=tuple(i for i in self.ledgers if i not in missing))

    def truncated(self, before: LedgerId) -> "LedgerList":
        """The list without the ledgers before this one, which go to `deleting`.

        Unchanged when this one is not on the list: then it was truncated itself.
        """
        if before not in self.ledgers:
            return self
        kept = self.ledgers.index(before)
        return LedgerList(self.ledgers[kept:], self.deleting + self.ledgers[:kept])

    def deleted(self, ledger_ids: tuple[LedgerId, ...]) -> "LedgerList":
        """The list after these ledgers were deleted."""
        left = tuple(ledger_id for ledger_id in self.deleting if ledger_id not in ledger_ids)
        return replace(self, deleting=left)

    def encode(self) -> bytes:
        fields = {"deleting": self.deleting, "ledgers": self.ledgers, "version": LIST_VERSION}
        return json.dumps(fields, sort_keys=True).encode()

    @classmethod
    def decode(cls, stored: bytes) -> "LedgerList":
        """Parse the stored bytes; BadRequestError when they are not such a list."""
        try:
            fields = parse_json(stored)
            version, ids, gone = fields["version"], fields["ledgers"], fields["deleting"]
            parsed = cls(_ledger_ids(ids), _ledger_ids(gone))
        except (ValueError, TypeError, KeyError) as error:
            raise BadRequestError(f"not a list of ledgers: {stored[:80]!r} ({error})") from error
        if version != LIST_VERSION:
            raise BadRequestError(
                f"list of ledgers has version {version}, this program knows {LIST_VERSION}"
            )
        return parsed


def _ledger_ids(found: object) -> tuple[LedgerId, ...]:
    if not isinstance(found, list) or not all(type(one) is int and one >= 0 for one in found):
        raise ValueError(f"found {found!r:.60}, expected a list of ledger ids")
    return tuple(map(LedgerId, found))


class ListStore:
    """Reads and writes one log's list."""

    def __init__(self, store: MetadataStore, name: str) -> None:
        if not NAME.fullmatch(name):
            raise BadRequestError(
                f"{name!r} is no name for a log: expected 1..128 letters, digits, dots, dashes"
            )
        self._store = store
        self.key = f"logs/{name}"
        """The key of the list in the store."""
        self._version: int | None = None
        """The version of the stored value that `current` was read from; None = there is no value
        yet."""
        self.current = LedgerList()
        """The list that was last read or written; it may be outdated, which a compare-and-set
        notices."""

    async def read(self) -> LedgerList:
        """Read the list now (linearizable); empty when the log does not exist yet."""
        stored = await self._store.read_value(self.key)
        self._version = stored.version if stored is not None else None
        self.current = LedgerList.decode(stored.value) if stored is not None else LedgerList()
        return self.current

    async def look(self) -> LedgerList:
        """Read the list behind a barrier, so that no earlier write is missing, whichever server
        answers.
        """
        await self._store.barrier()
        return await self.read()

    async def write(self, changed: LedgerList) -> None:
        """Compare-and-set from `current`; returns when `changed` was stored.

        After a failure it reads the list, and writes again if the stored version is still the
        expected one. Raises MetadataConflictError when the stored version is another: then no write
        that expects the old one can succeed any more, and `current` is what is stored. An earlier
        try may have succeeded before other clients' writes, so look for `changed` in `current`.
        Raises UnavailableError when the write may have succeeded, or may still succeed: then the
        ledgers that it names must not be deleted.
        """
        named = self._version
        for _ in range(WRITES_MAX):
            try:
                written = await self._store.write_value(self.key, changed.encode(), version=named)
            except (UnavailableError, MetadataConflictError) as error:
                await self.look()
                if self._version != named and self.current != changed:
                    raise MetadataConflictError(
                        f"{self.key}: somebody else's list came first, now {self.current}"
                    ) from error
                if self._version != named:
                    return  # our write succeeded, only the answer was lost
            else:
                self._version, self.current = written.version, changed
                return
        raise UnavailableError(
            f"{self.key}: {WRITES_MAX} writes of {changed} were cut off; one may still happen: "
            "try again"
        )
