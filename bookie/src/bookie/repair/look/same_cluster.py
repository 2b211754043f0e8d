"""Refuses work on input that does not belong together: what one cluster's metadata must say alike.

An audit or a repair that began on one cluster and goes on with another, behind the same address,
would take everything for lost. And every look begins behind a write of its own: a server of the
store whose leader was deposed would hide the youngest ledgers.
"""

from dataclasses import dataclass

from bookie.errors import InconsistentError, UnavailableError
from bookie.metadata.store import MetadataStore


@dataclass(frozen=True, slots=True)
class SameCluster:
    """The cluster that a run began on."""

    instance_id: str

    @classmethod
    async def look(cls, store: MetadataStore) -> "SameCluster":
        """UnavailableError: there is no cluster. InconsistentError: a bookie's cookie is of another
        one.
        """
        instance_id = await store.instance_id()
        if instance_id is None:
            raise UnavailableError(
                "there is no cluster at this address of the metadata store: correct the path in it"
            )
        await store.barrier()
        others = {
            bookie_id: cookie.instance_id
            for bookie_id, cookie in (await store.cookies()).items()
            if cookie.instance_id not in ("", instance_id)
        }
        if others:
            named = ", ".join(f"{b} to {i}" for b, i in sorted(others.items())[:NAMED_MAX])
            raise InconsistentError(
                f"this is the cluster {instance_id}, and by their cookies {len(others)} bookies "
                f"belong to others: {named}"
            )
        return cls(instance_id)

    async def check(self, store: MetadataStore) -> None:
        """InconsistentError: it is another one now."""
        found = await store.instance_id()
        if found != self.instance_id:  # whose store is not to be written to either
            raise InconsistentError(
                f"the work began on the cluster {self.instance_id}; this is {found or 'none'}"
            )
        await store.barrier()


NAMED_MAX = 5
