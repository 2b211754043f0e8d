"""The list of a log: its bytes, and who wins a compare-and-set."""

import pytest
from bookie.client.log_list import WRITES_MAX, LedgerList, ListStore
from bookie.errors import BadRequestError, MetadataConflictError, UnavailableError
from bookie.ids import LedgerId
from bookie.metadata.memory import MemoryStore
from bookie.metadata.store import Versioned
from bookie.testing.metadata import FaultyStore
from hypothesis import given
from hypothesis import strategies as st


def listed(*ids: int, deleting: tuple[int, ...] = ()) -> LedgerList:
    return LedgerList(tuple(map(LedgerId, ids)), tuple(map(LedgerId, deleting)))


def test_the_bytes_are_plain_json() -> None:
    encoded = b'{"deleting": [1], "ledgers": [3, 7], "version": 1}'
    assert listed(3, 7, deleting=(1,)).encode() == encoded
    assert LedgerList.decode(encoded) == listed(3, 7, deleting=(1,))


@pytest.mark.parametrize(
    "stored",
    [b"", b"{}", b"[1]", b'{"deleting": [], "ledgers": ["x"], "version": 1}', b"\xff"],
)
def test_other_bytes_are_refused(stored: bytes) -> None:
    with pytest.raises(BadRequestError, match="not a list of ledgers"):
        LedgerList.decode(stored)


def test_a_newer_version_is_refused_by_name() -> None:
    with pytest.raises(BadRequestError, match="version 9"):
        LedgerList.decode(b'{"deleting": [], "ledgers": [], "version": 9}')


def test_truncating_moves_ids_to_the_deletions() -> None:
    assert listed(3, 7, 9).truncated(LedgerId(9)) == listed(9, deleting=(3, 7))
    assert listed(9, deleting=(3, 7)).deleted((LedgerId(3),)) == listed(9, deleting=(7,))


@given(st.permutations(range(8)), st.integers(0, 8), st.integers(0, 7))
def test_no_ledger_leaves_the_list_but_by_its_deletion(
    ids: list[int], listed_from: int, before: int
) -> None:
    found = listed(*ids[listed_from:], deleting=tuple(ids[:listed_from]))
    cut = found.truncated(LedgerId(before))
    assert cut.deleting + cut.ledgers == found.deleting + found.ledgers
    assert cut == found or cut.ledgers[0] == before
    assert (before in found.ledgers) == (before in cut.ledgers)
    left = cut.deleted((LedgerId(before), *cut.deleting[:2]))
    assert left == listed(*cut.ledgers, deleting=tuple(i for i in cut.deleting[2:] if i != before))


@pytest.mark.parametrize("name", ["", "a/b", "../x", ".hidden", "a" * 129])
def test_a_name_that_could_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(BadRequestError):
        ListStore(MemoryStore(), name)


async def two_views() -> tuple[MemoryStore, ListStore, ListStore]:
    store = MemoryStore()
    await store.initialise()
    one, two = ListStore(store, "orders"), ListStore(store, "orders")
    await one.read()
    await two.read()
    return store, one, two


async def test_only_one_of_two_writers_wins() -> None:
    _store, one, two = await two_views()
    await one.write(listed(1))
    with pytest.raises(MetadataConflictError):
        await two.write(listed(2))
    assert two.current == listed(1)
    await two.write(two.current.appended(LedgerId(2)))
    assert await one.read() == listed(1, 2)


async def test_a_write_whose_answer_was_lost_is_recognised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, one, _two = await two_views()
    write = store.write_value

    async def cut_off(name: str, data: bytes, *, version: int | None) -> Versioned[bytes]:
        await write(name, data, version=version)
        raise UnavailableError("cut off")

    monkeypatch.setattr(store, "write_value", cut_off)
    await one.write(listed(1))
    monkeypatch.undo()
    await one.write(listed(1, 2))


async def test_a_write_that_may_still_happen_is_no_conflict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, one, _two = await two_views()

    tried: list[int | None] = []

    async def lost(_name: str, _data: bytes, *, version: int | None) -> Versioned[bytes]:
        tried.append(version)
        raise UnavailableError("cut off")

    monkeypatch.setattr(store, "write_value", lost)
    with pytest.raises(UnavailableError, match=r"3 writes of .* were cut off"):
        await one.write(listed(1))
    assert tried == [None] * WRITES_MAX


async def test_what_became_of_an_unheard_write_is_looked_up_behind_a_barrier() -> None:
    store = FaultyStore(MemoryStore())
    await store.initialise()
    one = ListStore(store, "orders")
    await one.read()
    store.lost_replies = 1
    await one.write(listed(1))
    assert store.calls[-2:] == ["barrier", "read_value"]
