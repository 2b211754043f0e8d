"""What becomes of the metadata store: it forgets ledgers and finds them again, is put back to an
earlier state, holds what nobody can read, or a leader answers that was deposed.

A ledger that vanishes for less than the grace of a collection, or together with very many others,
exists for the history all the while: nothing of it may be dropped. One that vanishes alone for
longer looks deleted to everybody (`mislaid`), and is deleted in the end.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final

from bookie.ids import BookieId, LedgerId
from bookie.testing.simulation import client_faults, visitors
from bookie.testing.simulation.bookies import SimBookie
from bookie.testing.simulation.plan import Fault
from bookie.testing.simulation.scene import Scene

FEW: Final = 6
"""Vanishing ledgers that no brake holds."""
MANY: Final = 26
"""Vanishing ledgers, on each bookie, that every brake holds."""
NOTICED_S: Final = 2.5
"""Within so long a bookie that serves has noticed that its store was put back."""


class StoreInterventions:
    """See the module; `kinds` says which there are."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._cluster = scene.cluster
        self.kinds: Mapping[str, Callable[[Fault, SimBookie], Awaitable[None]]] = {
            "vanish": self._vanish,
            "vanish-many": self._vanish_many,
            "found-again": self._found_again,
            "put-store-back": self._put_store_back,
            "bad-znode": self._bad_znode,
            "deposed": self._deposed,
            "claim-loss": self._claim_loss,
            "wrong-key": self._wrong_key,
        }

    @property
    def _grace_s(self) -> float:
        return self._scene.plan.scale.collect_s * 0.8

    # Ledgers that vanish
    def _written(self) -> list[LedgerId]:
        """Ledgers that are there and hold something."""
        known = self._scene.history.ledgers
        return [i for i in sorted(self._cluster.ledgers) if known[i].acked >= 0]

    def _some(self, count: int) -> list[LedgerId]:
        found = self._written()
        return sorted(self._scene.rng.sample(found, min(count, len(found))))

    @contextmanager
    def _missing(self, ledger_ids: list[LedgerId]) -> Iterator[None]:
        """The store does not know them."""
        self._scene.history.note(f"vanished: {ledger_ids}")
        taken = {i: self._cluster.ledgers.pop(i) for i in ledger_ids}
        try:
            yield
        finally:
            for ledger_id, found in taken.items():
                self._cluster.ledgers.setdefault(ledger_id, found)
            self._scene.history.note(f"there again: {ledger_ids}")

    async def _vanish(self, fault: Fault, bookie: SimBookie) -> None:
        """A few, again and again; never for a grace, and each time long enough there between."""
        chosen = self._some(FEW)
        for _ in range(3):
            with self._missing([i for i in chosen if i in self._cluster.ledgers]):
                await asyncio.sleep(self._grace_s * (0.75 + 0.2 * fault.size))
            await asyncio.sleep(self._scene.plan.scale.collect_s * 1.5)

    async def _vanish_many(self, fault: Fault, bookie: SimBookie) -> None:
        """All of them, for long, and hardly any new ones come meanwhile: no collection goes through
        with that alone.
        """
        chosen = self._written()
        held = [
            len(set(chosen) & one.ledgers) for one in self._scene.bookies if one.ledgers is not None
        ]
        if len(held) < len(self._scene.bookies) or min(held) < MANY:
            self._scene.history.note(f"too few would vanish: {held}")
            return
        writers = [name for name in self._scene.client_names() if name.startswith("writer")]
        self._scene.resting.update(writers)
        with self._missing(chosen):
            await asyncio.sleep(fault.lasts_s)
        self._scene.resting.difference_update(writers)

    async def _found_again(self, fault: Fault, bookie: SimBookie) -> None:
        """A few are gone for so long that they are collected; they are there again, then deleted.

        The newest is among them, and somebody recovers each as soon as it is there.
        """
        chosen = sorted({*self._some(2), *self._written()[-2:]})
        self._scene.collection.mislay(chosen)
        history = self._scene.history
        with self._missing(chosen):
            for ledger_id in chosen:
                history.changed(ledger_id, None)
            await asyncio.sleep(fault.lasts_s)
        try:
            for ledger_id in chosen:
                history.changed(ledger_id, self._cluster.ledgers[ledger_id].value)
                one = partial(visitors.recover_one, ledger_id=ledger_id)
                self._scene.visit("rival", one)
            await asyncio.sleep(1.3 * fault.lasts_s)
        finally:
            for ledger_id in chosen:
                if self._cluster.ledgers.pop(ledger_id, None) is not None:
                    history.changed(ledger_id, None)

    # The store as a whole
    async def _put_store_back(self, fault: Fault, bookie: SimBookie) -> None:
        """It says what it said a while ago of its bookies, and lacks ledgers; one of the bookies
        may be down just then (`other` is odd). Later the ledgers are there again.
        """
        before = dict(self._cluster.boots)
        await asyncio.sleep(fault.lasts_s * 0.3)
        is_down = bool(fault.other % 2) and bookie.is_serving
        if is_down:
            bookie.is_wanted = False
            await bookie.stop()
        serving = {one.name: one.lives for one in self._scene.bookies if one.is_serving}
        said = before.get(BookieId(bookie.name))
        now = self._cluster.boots.get(BookieId(bookie.name))
        if is_down and said is not None and now is not None:
            saw_more = said.value.generation + 2 <= now.value.generation
            serving.update({bookie.name: bookie.lives + 1} if saw_more else {})
        self._cluster.boots.update(before)
        with self._missing(self._some(FEW)):
            if is_down:
                bookie.is_wanted = True
                bookie.start()
            await asyncio.sleep(NOTICED_S)
            self._check_learned(serving)
            await asyncio.sleep(fault.lasts_s * 0.7)

    def _check_learned(self, serving: Mapping[str, int]) -> None:
        for one in self._scene.bookies:
            is_same = one.is_serving and one.lives == serving.get(one.name)
            if is_same and not one.says_rolled_back:
                self._scene.history.violate(
                    f"{one.name} does not say that the metadata store was put back"
                )

    async def _bad_znode(self, fault: Fault, bookie: SimBookie) -> None:
        """Nobody can read the metadata of some ledgers, of that bookie's first."""
        known = self._scene.history.ledgers
        chosen = [
            i
            for i in self._written()
            if (metadata := known[i].metadata) is not None and metadata.names(BookieId(bookie.name))
        ][-FEW:]
        self._scene.history.note(f"unreadable: {chosen}")
        self._cluster.garbled.update(chosen)
        try:
            await asyncio.sleep(fault.lasts_s)
        finally:
            self._cluster.garbled.difference_update(chosen)

    async def _deposed(self, fault: Fault, bookie: SimBookie) -> None:
        """The bookie's server follows a leader that was deposed and does not know it: what it reads
        is as of then, and nothing that it writes happens.
        """
        self._scene.store.deposed[bookie.name] = asyncio.get_running_loop().time()
        await asyncio.sleep(fault.lasts_s)
        self._scene.store.deposed.pop(bookie.name, None)

    # Who is wrong
    async def _claim_loss(self, fault: Fault, bookie: SimBookie) -> None:
        self._scene.visit("misled", client_faults.claim_loss)

    async def _wrong_key(self, fault: Fault, bookie: SimBookie) -> None:
        self._scene.visit("stranger", client_faults.teach_wrong_key)
