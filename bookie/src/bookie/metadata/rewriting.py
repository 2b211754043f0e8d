"""Values of the metadata store that are rewritten as a whole, by compare-and-set, and kept small.

What a repair has done and what audits have found lie there: rows that may be left out when they are
too many, since whoever misses one only does its work again.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from bookie.errors import MetadataConflictError
from bookie.metadata.store import MetadataStore

VALUE_BYTES_MAX: Final = 900_000
"""ZooKeeper takes no value larger than 1 MiB."""
WRITES_MAX: Final = 4
Row = TypeVar("Row")
Made = TypeVar("Made")


async def rewrite(
    store: MetadataStore,
    name: str,
    change: Callable[[bytes | None], Made],
    packed: Callable[[Made], bytes],
) -> Made:
    """Write what `change` makes of the value (None: there is none), again when others were first.

    MetadataConflictError after WRITES_MAX times.
    """
    for _attempt in range(WRITES_MAX):
        found = await store.read_value(name)
        made = change(found.value if found is not None else None)
        version = found.version if found is not None else None
        try:
            await store.write_value(name, packed(made), version=version)
        except MetadataConflictError:  # another's, or a write whose answer was lost
            continue
        return made
    raise MetadataConflictError(f"{name} changed {WRITES_MAX} times while it was written")


def packed_to_fit(rows: Sequence[Row], packed: Callable[[Sequence[Row]], bytes]) -> bytes:
    """All rows, packed, or as many of the first ones as a value has room for."""
    while len(raw := packed(rows)) > VALUE_BYTES_MAX:
        rows = rows[: len(rows) // 2]
    return raw
