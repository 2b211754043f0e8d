"""The list of ledgers of a replicated log: its bytes, and its compare-and-set.

Stored under `logs/<name>` as JSON, UTF-8, keys sorted:
`{"deleting": [1], "ledgers": [3, 7, 9], "version": 1}`. `ledgers`: ids in log order, oldest first;
the last one is the owner's. `deleting`: truncated ids whose ledgers may still have to be deleted;
they are no part of the log any more.
"""

import json
import re
from dataclasses import dataclass, replace
from typing import Final

from bookie.metadata.store import MetadataStore, Versioned
from bookie.protocol.errors import BadRequestError, MetadataConflictError, UnavailableError
from bookie.protocol.ids import LedgerId

LIST_VERSION: Final = 1
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class LedgerList:
    """One log's ledgers; a value, never changed in place."""

    ledgers: tuple[LedgerId, ...] = ()
    deleting: tuple[LedgerId, ...] = ()

    def appended(self, ledger_id: LedgerId) -> "LedgerList":
        """With a new last ledger."""
        assert ledger_id not in self.ledgers
        return replace(self, ledgers=(*self.ledgers, ledger_id))

    def truncated(self, before: LedgerId) -> "LedgerList":
        """Without the ledgers that come before this one; they are to be deleted."""
        kept = self.ledgers.index(before)
        return LedgerList(self.ledgers[kept:], self.deleting + self.ledgers[:kept])

    def deleted(self, ledger_ids: tuple[LedgerId, ...]) -> "LedgerList":
        """These are gone."""
        left = tuple(ledger_id for ledger_id in self.deleting if ledger_id not in ledger_ids)
        return replace(self, deleting=left)

    def encode(self) -> bytes:
        fields = {"deleting": self.deleting, "ledgers": self.ledgers, "version": LIST_VERSION}
        return json.dumps(fields, sort_keys=True).encode()

    @classmethod
    def decode(cls, stored: bytes) -> "LedgerList":
        """BadRequestError when these bytes are not such a list."""
        try:
            fields = json.loads(stored)
            version, ids, gone = fields["version"], fields["ledgers"], fields["deleting"]
            parsed = cls(tuple(map(LedgerId, map(int, ids))), tuple(map(LedgerId, map(int, gone))))
        except (ValueError, TypeError, KeyError) as error:
            raise BadRequestError(f"not a list of ledgers: {stored[:80]!r} ({error})") from error
        if version != LIST_VERSION:
            raise BadRequestError(
                f"list of ledgers has version {version}, this program knows {LIST_VERSION}"
            )
        return parsed


class ListStore:
    """Reads and writes one log's list; `current` is what was last seen or written."""

    def __init__(self, store: MetadataStore, name: str) -> None:
        if not NAME.fullmatch(name):
            raise BadRequestError(
                f"{name!r} is no name for a log: expected 1..128 letters, digits, dots, dashes"
            )
        self._store = store
        self._key = f"logs/{name}"
        self._version: int | None = None
        self.current = LedgerList()

    async def read(self) -> LedgerList:
        """The list now (linearizable); empty when the log does not exist yet."""
        stored = await self._store.read_value(self._key)
        self._version = stored.version if stored is not None else None
        self.current = LedgerList.decode(stored.value) if stored is not None else LedgerList()
        return self.current

    async def write(self, changed: LedgerList) -> None:
        """Compare-and-set from `current`.

        Raises MetadataConflictError when someone else wrote first; `current` is then what they
        wrote. UnavailableError when the write was cut off and has not been seen to happen: it may
        yet, so what it names must not be deleted.
        """
        before = self._version
        try:
            written: Versioned[bytes] = await self._store.write_value(
                self._key, changed.encode(), version=before
            )
        except (UnavailableError, MetadataConflictError) as error:
            if await self.read() == changed:
                return  # it was ours, and only the answer was lost
            if isinstance(error, MetadataConflictError) or self._version == before:
                raise
            raise MetadataConflictError(f"{self._key}: someone else wrote first") from error
        self._version, self.current = written.version, changed
