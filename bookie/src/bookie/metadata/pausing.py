"""Whether a cluster is paused: the operator writes it to the metadata store for the bookies.

No other way to tell the bookies would survive their restarts and the operator's. A malformed value
counts as paused: waiting does no harm.
"""

from typing import Final

from bookie.metadata.store import MetadataStore

PAUSED_NAME: Final = "collection/paused"
"""Bookies of a paused cluster collect nothing."""
_PAUSED: Final = b"paused"
_RUNNING: Final = b"running"


async def read_paused(store: MetadataStore) -> bool:
    """Read whether the cluster is paused; False when nothing was ever written."""
    found = await store.read_value(PAUSED_NAME)
    return found is not None and found.value != _RUNNING


async def write_paused(store: MetadataStore, paused: bool) -> None:
    """Write whether the cluster is paused; MetadataConflictError when another writer was first:
    look again.
    """
    found = await store.read_value(PAUSED_NAME)
    wanted = _PAUSED if paused else _RUNNING
    if (found.value if found is not None else _RUNNING) != wanted:
        version = found.version if found is not None else None
        await store.write_value(PAUSED_NAME, wanted, version=version)
