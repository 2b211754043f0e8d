"""When each finding was first and last seen: a small durable history, from audit to audit.

Kept in a file, or in the metadata store (`METADATA`), where regular audits have it wherever they
run. What an audit did not find again is dropped as healed, unless this audit could not tell.
Bounded: beyond FINDINGS_MAX the youngest are not remembered, and count as first seen each time.
"""

import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from bookie.bounded import inflate, parse_json
from bookie.errors import SettingsError, StorageError
from bookie.metadata.rewriting import packed_to_fit, rewrite
from bookie.metadata.store import MetadataStore

METADATA: Final = "metadata"
"""Instead of a file's name: in the metadata store, under VALUE_NAME."""
VALUE_NAME: Final = "audit/findings"
FINDINGS_MAX: Final = 20_000
VERSION: Final = 1


class Key(NamedTuple):
    """A finding: its class, and the ledger or the bookie it is about."""

    name: str
    ledger_id: int | None = None
    bookie_id: str | None = None


class Seen(NamedTuple):
    """Milliseconds since 1970."""

    first_ms: int
    last_ms: int


def _row(
    name: object, ledger_id: object, bookie_id: object, first_ms: object, last_ms: object
) -> tuple[Key, Seen]:
    """ValueError when one of them is not what `History.encode` writes."""
    if not (
        isinstance(name, str)
        and (ledger_id is None or type(ledger_id) is int)
        and (bookie_id is None or isinstance(bookie_id, str))
        and type(first_ms) is int
        and type(last_ms) is int
    ):
        raise ValueError("found a row of other types, expected class, ledger, bookie and two times")
    return Key(name, ledger_id, bookie_id), Seen(first_ms, last_ms)


@dataclass(frozen=True, slots=True)
class History:
    """All findings that are open, as the last audit left them."""

    seen: Mapping[Key, Seen] = field(default_factory=dict)

    def encode(self) -> bytes:
        """JSON lines: what this is, then one line to a finding, the oldest first."""
        rows = sorted(self.seen.items(), key=lambda pair: (pair[1], str(pair[0])))[:FINDINGS_MAX]
        lines = [json.dumps({"history": VERSION})]
        lines += [
            json.dumps([*key, *seen], ensure_ascii=False, separators=(",", ":"))
            for key, seen in rows
        ]
        return ("\n".join(lines) + "\n").encode()

    @classmethod
    def decode(cls, raw: bytes) -> "History":
        """SettingsError when these bytes are no history."""
        try:
            head, *lines = raw.decode().splitlines()
            if parse_json(head) != {"history": VERSION}:
                raise ValueError("another version")
            if len(lines) > FINDINGS_MAX:
                raise ValueError(f"{len(lines)} findings, at most {FINDINGS_MAX} are remembered")
            return cls(dict(_row(*parse_json(line)) for line in lines))
        except (ValueError, TypeError) as error:
            raise SettingsError(f"no history of findings: {error}") from error


@dataclass(frozen=True, slots=True)
class Update:
    """A history after an audit. `fresh`: seen for the first time now; `healed`: gone."""

    history: History
    fresh: tuple[Key, ...]
    healed: tuple[tuple[Key, Seen], ...]


def updated(
    before: History, found: Iterable[Key], *, now_ms: int, may_be_there: Callable[[Key], bool]
) -> Update:
    """`may_be_there`: whether this audit could not have seen such a finding."""
    known = before.seen
    here = {key: Seen(known[key].first_ms if key in known else now_ms, now_ms) for key in found}
    gone = {key: seen for key, seen in known.items() if key not in here}
    kept = {key: seen for key, seen in gone.items() if may_be_there(key)}
    return Update(
        History(kept | here),
        fresh=tuple(key for key in here if key not in known),
        healed=tuple((key, seen) for key, seen in gone.items() if key not in kept),
    )


class Keeper(Protocol):
    """Stores a history."""

    async def read(self) -> History:
        """What an update would find now."""

    async def update(self, change: Callable[[History], Update]) -> Update:
        """Read, change, write; durable when it returns."""


@dataclass(frozen=True, slots=True)
class NoHistory:
    """No history: every finding is seen for the first time."""

    async def read(self) -> History:
        return History()

    async def update(self, change: Callable[[History], Update]) -> Update:
        return change(History())


@dataclass(frozen=True, slots=True)
class InFile:
    """JSON lines; the file appears whole or not. `write(path, text)` does that."""

    path: Path
    write: Callable[[Path, str], None]

    async def read(self) -> History:
        try:
            return History.decode(self.path.read_bytes())
        except FileNotFoundError:
            return History()
        except (OSError, SettingsError) as error:
            raise SettingsError(f"cannot go on with {self.path}: {error}") from error

    async def update(self, change: Callable[[History], Update]) -> Update:
        made = change(await self.read())
        try:
            self.write(self.path, made.history.encode().decode())
        except OSError as error:
            raise StorageError(
                f"cannot write the history to {self.path}: {error.strerror}"
            ) from error
        return made


@dataclass(frozen=True, slots=True)
class InStore:
    """Stores the history in the metadata store, compressed, by compare-and-set: no update is
    lost."""

    store: MetadataStore

    async def read(self) -> History:
        found = await self.store.read_value(VALUE_NAME)
        return _unpacked(found.value if found is not None else None)

    async def update(self, change: Callable[[History], Update]) -> Update:
        return await rewrite(
            self.store,
            VALUE_NAME,
            lambda found: change(_unpacked(found)),
            lambda made: _packed(made.history),
        )


def _packed(history: History) -> bytes:
    oldest = sorted(history.seen.items(), key=lambda pair: pair[1])
    return packed_to_fit(oldest, lambda rows: zlib.compress(History(dict(rows)).encode()))


def _unpacked(raw: bytes | None) -> History:
    if raw is None:
        return History()
    try:
        return History.decode(inflate(raw))
    except (ValueError, SettingsError):
        return History()  # of an older version: findings are seen for the first time once more


def seen_json(seen: Seen) -> dict[str, Any]:
    """The two fields of a finding."""
    return {"first_seen_ms": seen.first_ms, "last_seen_ms": seen.last_ms}


def healed_json(key: Key, seen: Seen) -> dict[str, Any]:
    """One finding that is there no more."""
    about = {"ledger_id": key.ledger_id, "bookie_id": key.bookie_id}
    named = {name: value for name, value in about.items() if value is not None}
    return {"class": key.name, **named, **seen_json(seen)}
