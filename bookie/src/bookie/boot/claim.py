"""A bookie's claim in the metadata store: this process, and no other, is the bookie.

The claim is the bookie's StoredBoot, changed by compare-and-set alone: a boot writes its epoch,
writes again when it is about to serve, and confirms it for as long as it serves (`server.lease`).
Whoever finds somebody else's there is no longer the bookie. A write whose answer was lost may land
late: the nonce shows whether it is this process's own or a rival's.
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
"""Writes of one claim that may be met by late ones of the same process, one after another."""


def outlasts_s(lease_s: float) -> float:
    """What to wait for a lease to end that another process holds; 0 is none. Clocks of two machines
    do not run quite alike."""
    return lease_s * (1 + CLOCK_DRIFT_MAX) + LEASE_MARGIN_S if lease_s else 0.0


class SupersededError(MetadataConflictError):
    """Another process claimed this bookie."""


class ClaimState(Enum):
    """What a claim that could not be written was met by."""

    OWN = "own"
    """A late write of this process, or a person's word about it."""
    FORMER = "former"
    """The process that a boot is about to follow confirmed itself once more, or late."""
    RIVAL = "rival"
    ROLLED_BACK = "rolled back"
    """The store was put back to an earlier state: older claims are in it again."""


def judge(
    found: Versioned[StoredBoot] | None,
    *,
    known: Versioned[StoredBoot] | None,
    wanted: StoredBoot,
) -> ClaimState:
    """What stands there in place of `known`, which this process saw or wrote last."""
    if found is None:
        return ClaimState.OWN if known is None else ClaimState.ROLLED_BACK
    if found.value.nonce == wanted.nonce:
        is_newer = known is None or found.version > known.version
        return ClaimState.OWN if is_newer else ClaimState.ROLLED_BACK
    if known is not None and _process(found.value) == _process(known.value):
        return ClaimState.FORMER
    # A rival's claim has an epoch above all that it found; one below ours is older than ours.
    had_it = known is not None and known.value.nonce == wanted.nonce
    is_older = had_it and found.value.epoch < wanted.epoch
    return ClaimState.ROLLED_BACK if is_older else ClaimState.RIVAL


class Claim:
    """The claim of one boot, from its first write to its last confirmation."""

    def __init__(
        self, store: MetadataStore, bookie_id: BookieId, *, seen: Versioned[StoredBoot] | None
    ) -> None:
        """`seen`: what the boot's decisions rest on."""
        self._store = store
        self._bookie_id = bookie_id
        self._known = seen

    @property
    def stored(self) -> StoredBoot:
        """What was written last; after a first write."""
        assert self._known is not None
        return self._known.value

    async def write(self, wanted: StoredBoot) -> None:
        """Write it over what this process knows of.

        SupersededError when somebody else was there; UnavailableError: it may land yet.
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
        """What is to be written over this, if anything is."""
        standing = judge(found, known=self._known, wanted=wanted)
        if standing is ClaimState.ROLLED_BACK:
            return replace(wanted, rolled_back=wanted.rolled_back or self._what_was(found))
        if standing is ClaimState.OWN:
            # A person who accepted a rollback wrote so into our own record.
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
        """It is outlived after the claim; but what it wrote meanwhile may make our disks old."""
        assert found is not None and self._known is not None
        if found.value.generation == self._known.value.generation:
            # It may have noticed a rollback meanwhile, which its claim alone remembers now.
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
