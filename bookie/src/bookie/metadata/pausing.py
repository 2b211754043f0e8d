"""Whether a cluster is paused: the operator writes it into the metadata store for the bookies.

Bookies have no other way to hear of it that survives their restart and the operator's. What cannot
be understood counts as paused: nothing is lost by waiting.
"""

from typing import Final

from bookie.metadata.store import MetadataStore

PAUSED_NAME: Final = "collection/paused"
"""Bookies of a paused cluster collect nothing."""
_PAUSED: Final = b"paused"
_RUNNING: Final = b"running"


async def read_paused(store: MetadataStore) -> bool:
    """False also when nothing was ever written."""
    found = await store.read_value(PAUSED_NAME)
    return found is not None and found.value != _RUNNING


async def write_paused(store: MetadataStore, paused: bool) -> None:
    """MetadataConflictError: somebody else wrote meanwhile; look again."""
    found = await store.read_value(PAUSED_NAME)
    wanted = _PAUSED if paused else _RUNNING
    if (found.value if found is not None else _RUNNING) != wanted:
        version = found.version if found is not None else None
        await store.write_value(PAUSED_NAME, wanted, version=version)
