"""Values that are rewritten as a whole: nobody's change is lost, and what is too much is cut."""

from collections.abc import Sequence

import pytest
from bookie.errors import MetadataConflictError
from bookie.metadata import rewriting
from bookie.metadata.memory import MemoryStore
from bookie.metadata.rewriting import packed_to_fit, rewrite
from bookie.metadata.store import Versioned

NAME = "audit/rows"


class Contested(MemoryStore):
    """Another one writes first, as often as it is said."""

    times = 1

    async def write_value(self, name: str, data: bytes, *, version: int | None) -> Versioned[bytes]:
        if self.times:
            self.times -= 1
            found = await self.read_value(name)
            ours = (found.value if found is not None else b"") + b"x"
            await super().write_value(name, ours, version=version)
        return await super().write_value(name, data, version=version)


async def contested(times: int) -> Contested:
    store = Contested()
    store.times = times
    await store.initialise()
    return store


async def test_a_change_is_made_again_of_what_another_has_written() -> None:
    store = await contested(2)
    assert await rewrite(store, NAME, lambda found: (found or b"") + b"a", bytes) == b"xxa"
    assert (await store.read_value(NAME)) == Versioned(b"xxa", 2)


async def test_a_value_that_others_always_change_is_given_up() -> None:
    with pytest.raises(MetadataConflictError, match="audit/rows changed 4 times"):
        await rewrite(await contested(9), NAME, lambda _found: b"a", bytes)


def test_of_too_many_rows_the_first_ones_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def packed(rows: Sequence[str]) -> bytes:
        return "".join(rows).encode()

    monkeypatch.setattr(rewriting, "VALUE_BYTES_MAX", 3)
    assert packed_to_fit("abc", packed) == b"abc"
    assert packed_to_fit("abcdefgh", packed) == b"ab"
