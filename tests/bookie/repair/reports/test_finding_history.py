"""First and last seen: what stays, what heals, what cannot be told, and where it is kept."""

from errno import ENOSPC
from pathlib import Path

import pytest
from bookie.errors import MetadataConflictError, SettingsError, StorageError
from bookie.metadata.memory import MemoryStore
from bookie.metadata.store import Versioned
from bookie.repair.reports import finding_history as module
from bookie.repair.reports.finding_history import (
    History,
    InFile,
    InStore,
    Key,
    Seen,
    Update,
    updated,
)
from bookie.repair.reports.result import write_whole

LOST, ROT, SILENT = Key("no_copy", 7), Key("corrupt", 8), Key("silent_bookie", None, "b1")
BEFORE = History({LOST: Seen(10, 20), ROT: Seen(11, 20)})


def nothing(_key: Key) -> bool:
    return False


def seen_again(before: History) -> Update:
    return updated(before, [LOST, SILENT], now_ms=30, may_be_there=nothing)


def test_what_is_seen_again_keeps_its_first_time() -> None:
    made = seen_again(BEFORE)
    assert made.history.seen == {LOST: Seen(10, 30), SILENT: Seen(30, 30)}
    assert made.fresh == (SILENT,) and made.healed == ((ROT, Seen(11, 20)),)


def test_what_an_audit_could_not_tell_stays_as_it_was() -> None:
    made = updated(BEFORE, [], now_ms=30, may_be_there=lambda key: key == ROT)
    assert made.history.seen == {ROT: Seen(11, 20)} and made.healed == ((LOST, Seen(10, 20)),)


def test_a_history_survives_its_bytes() -> None:
    whole = History({LOST: Seen(1, 2), SILENT: Seen(3, 4), Key("x", None, "ü\n,"): Seen(5, 6)})
    assert History.decode(whole.encode()) == whole


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"history":2}', b'{"history":1}\n[1]', b"\xff"])
def test_bytes_that_are_none_are_refused(raw: bytes) -> None:
    with pytest.raises(SettingsError, match="no history"):
        History.decode(raw)


def test_the_oldest_are_remembered_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FINDINGS_MAX", 2)
    seen = {Key("missing", n): Seen(100 - n, 100) for n in range(5)}
    assert set(History.decode(History(seen).encode()).seen) == {
        Key("missing", 4),
        Key("missing", 3),
    }


async def test_a_file_remembers_from_audit_to_audit(tmp_path: Path) -> None:
    kept = InFile(tmp_path / "history.jsonl", write_whole)
    await kept.update(lambda before: Update(BEFORE, (), ()))
    assert (await kept.update(seen_again)).history.seen[LOST] == Seen(10, 30)


async def test_a_file_that_is_no_history_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "precious.txt"
    path.write_text("not yours")
    with pytest.raises(SettingsError, match=r"precious\.txt"):
        await InFile(path, write_whole).update(seen_again)
    assert path.read_text() == "not yours"


async def test_a_history_that_finds_no_room_is_named(tmp_path: Path) -> None:
    def full(_path: Path, _text: str) -> None:
        raise OSError(ENOSPC, "No space left on device")

    with pytest.raises(StorageError, match=r"history to .*/kept\.jsonl: No space"):
        await InFile(tmp_path / "kept.jsonl", full).update(seen_again)


@pytest.fixture
async def store() -> MemoryStore:
    made = MemoryStore()
    await made.initialise()
    return made


async def test_the_metadata_store_remembers_from_audit_to_audit(store: MemoryStore) -> None:
    await InStore(store).update(lambda before: Update(BEFORE, (), ()))
    assert (await InStore(store).update(seen_again)).history.seen[LOST] == Seen(10, 30)


async def test_of_two_audits_at_once_both_are_heard(store: MemoryStore) -> None:
    await InStore(store).update(lambda before: Update(BEFORE, (), ()))
    real = store.write_value

    async def beaten(name: str, data: bytes, *, version: int | None) -> Versioned[bytes]:
        store.write_value = real  # type: ignore[method-assign]
        await InStore(store).update(seen_again)
        return await real(name, data, version=version)

    store.write_value = beaten  # type: ignore[method-assign]
    made = await InStore(store).update(
        lambda before: updated(before, before.seen, now_ms=40, may_be_there=nothing)
    )
    assert made.history.seen == {LOST: Seen(10, 40), SILENT: Seen(30, 40)}


async def test_a_value_that_always_changes_is_given_up(store: MemoryStore) -> None:
    async def beaten(name: str, data: bytes, *, version: int | None) -> Versioned[bytes]:
        raise MetadataConflictError("beaten")

    store.write_value = beaten  # type: ignore[method-assign]
    with pytest.raises(MetadataConflictError, match="audit/findings"):
        await InStore(store).update(seen_again)
