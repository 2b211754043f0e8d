"""Rewrites whole values of the metadata store by compare-and-set, and keeps them small.

Progress of repairs and findings of audits are stored so: as rows, of which some may be left out
when there are too many, since a job that misses one only does its work again.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from bookie.errors import MetadataConflictError
from bookie.metadata.store import MetadataStore

VALUE_BYTES_MAX: Final = 900_000
"""The longest value; ZooKeeper's limit is 1 MiB."""
WRITES_MAX: Final = 4
Row = TypeVar("Row")
Made = TypeVar("Made")


async def rewrite(
    store: MetadataStore,
    name: str,
    change: Callable[[bytes | None], Made],
    packed: Callable[[Made], bytes],
) -> Made:
    """Write the result of `change` for the present value (None = there is none); repeat it when
    another writer was first.

    MetadataConflictError after WRITES_MAX tries.
    """
    for _attempt in range(WRITES_MAX):
        found = await store.read_value(name)
        made = change(found.value if found is not None else None)
        version = found.version if found is not None else None
        try:
            await store.write_value(name, packed(made), version=version)
        except MetadataConflictError:  # another writer's, or our own without an answer
            continue
        return made
    raise MetadataConflictError(f"{name} changed {WRITES_MAX} times while it was written")


def packed_to_fit(rows: Sequence[Row], packed: Callable[[Sequence[Row]], bytes]) -> bytes:
    """Pack all rows, or as many of the first ones as fit a value."""
    while len(raw := packed(rows)) > VALUE_BYTES_MAX:
        rows = rows[: len(rows) // 2]
    return raw
