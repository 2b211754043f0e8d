"""A bookie's claim in the metadata store: it says which process is the bookie.

The claim is the bookie's StoredBoot, which processes change only by compare-and-set. A boot writes
its epoch there, writes again when it is about to serve, and then the server confirms the claim for
as long as it serves (`server.lease`). A process that finds another process's claim is no longer the
bookie. A write whose answer was lost may land late: the nonce shows whether a claim is this
process's own or a rival's.
"""

from dataclasses import replace
from enum import Enum
from typing import Final

from bookie.errors import MetadataConflictError, UnavailableError
from bookie.ids import BookieId
from bookie.metadata.store import MetadataStore, StoredBoot, Versioned

CLOCK_DRIFT_MAX: Final = 0.01
LEASE_MARGIN_S: Final = 2.0
OWN_WRITES_MAX: Final = 8
"""How often one `write` tries again after it met a late write of the same process."""


def outlasts_s(lease_s: float) -> float:
    """How many seconds to wait for another process's lease to end, with a margin because clocks of
    two machines do not run equally fast; 0 when there is no lease.
    """
    return lease_s * (1 + CLOCK_DRIFT_MAX) + LEASE_MARGIN_S if lease_s else 0.0


class SupersededError(MetadataConflictError):
    """Another process has claimed this bookie."""


class ClaimState(Enum):
    """Whose value the store holds when a claim could not be written."""

    OWN = "own"
    """A late write of this process, or its record as changed by a person's decision."""
    FORMER = "former"
    """The former process, which this boot replaces, has confirmed its claim once more, or late."""
    RIVAL = "rival"
    ROLLED_BACK = "rolled back"
    """The store was put back to an earlier state and holds an older claim again."""


def judge(
    found: Versioned[StoredBoot] | None,
    *,
    known: Versioned[StoredBoot] | None,
    wanted: StoredBoot,
) -> ClaimState:
    """Decide whose value `found` is; `known` is what this process saw or wrote last."""
    if found is None:
        return ClaimState.OWN if known is None else ClaimState.ROLLED_BACK
    if found.value.nonce == wanted.nonce:
        is_newer = known is None or found.version > known.version
        return ClaimState.OWN if is_newer else ClaimState.ROLLED_BACK
    if known is not None and _process(found.value) == _process(known.value):
        return ClaimState.FORMER
    # A rival's claim has an epoch above every epoch that it found; one below ours is older than
    # ours.
    had_it = known is not None and known.value.nonce == wanted.nonce
    is_older = had_it and found.value.epoch < wanted.epoch
    return ClaimState.ROLLED_BACK if is_older else ClaimState.RIVAL


class Claim:
    """The claim of one boot, from its first write to its last confirmation."""

    def __init__(
        self, store: MetadataStore, bookie_id: BookieId, *, seen: Versioned[StoredBoot] | None
    ) -> None:
        """`seen`: the stored value on which the boot's decisions rest."""
        self._store = store
        self._bookie_id = bookie_id
        self._known = seen

    @property
    def stored(self) -> StoredBoot:
        """The value that was written last; there must have been a write."""
        assert self._known is not None
        return self._known.value

    async def write(self, wanted: StoredBoot) -> None:
        """Write the claim over the value that this process knows.

        SupersededError when another process has claimed the bookie; UnavailableError when the
        outcome is open: the write may still land.
        """
        for _ in range(OWN_WRITES_MAX):
            version = None if self._known is None else self._known.version
            try:
                self._known = await self._store.write_boot(self._bookie_id, wanted, version=version)
                return
            except MetadataConflictError:
                found = await self._store.read_boot(self._bookie_id)
            wanted = self._after(found, wanted)
            self._known = found
        raise UnavailableError(
            f"the boot of {self._bookie_id} in the metadata store changed {OWN_WRITES_MAX} times "
            "while it was written: it will be tried again"
        )

    def _after(self, found: Versioned[StoredBoot] | None, wanted: StoredBoot) -> StoredBoot:
        """The value to write over `found`; SupersededError when it is a rival's."""
        standing = judge(found, known=self._known, wanted=wanted)
        if standing is ClaimState.ROLLED_BACK:
            return replace(wanted, rolled_back=wanted.rolled_back or self._what_was(found))
        if standing is ClaimState.OWN:
            # A person may have accepted a rollback, which changes our own record.
            return wanted if found is None else replace(wanted, rolled_back=found.value.rolled_back)
        if standing is ClaimState.FORMER:
            return self._over_the_former(found, wanted)
        assert found is not None
        raise SupersededError(
            f"another process booted as {self._bookie_id} with epoch {found.value.epoch}, this one "
            f"has {wanted.epoch}: give each bookie an id of its own"
        )

    def _over_the_former(
        self, found: Versioned[StoredBoot] | None, wanted: StoredBoot
    ) -> StoredBoot:
        """The value to write over the former process's. The boot waits for its end after the claim;
        but if it has raised the generation meanwhile, our disks are behind and the boot must look
        again.
        """
        assert found is not None and self._known is not None
        if found.value.generation == self._known.value.generation:
            # The former process may have noticed a rollback, which only its claim remembers now.
            return replace(wanted, rolled_back=wanted.rolled_back or found.value.rolled_back)
        raise UnavailableError(
            f"the former process of {self._bookie_id} still writes: the boot looks again"
        )

    def _what_was(self, found: Versioned[StoredBoot] | None) -> str:
        assert self._known is not None
        said = "nothing" if found is None else _described(found.value)
        return f"it says {said} of {self._bookie_id}, and had said {_described(self._known.value)}"


def _process(boot: StoredBoot) -> tuple[int, str]:
    return boot.epoch, boot.nonce


def _described(boot: StoredBoot) -> str:
    return f"epoch {boot.epoch}, generation {boot.generation}"
