"""The lease of the operators: one of them acts, the others wait.

A Lease object names its holder, who renews it. A waiting operator takes it once it has seen no
renewal for the lease's whole duration. The holder considers the lease its own for a shorter time,
counted from when it *sent* the last renewal that was confirmed:

    holder     sends a renewal, held for DURATION_S - MARGIN_S ........|  writes nothing any more
    server        takes it
    others            see it, and wait for DURATION_S ........................|  take the lease

So nobody else takes it before the holder has stopped writing, however long messages take and
whatever the clocks of the machines say: each measures times of its own, with a clock that nobody
sets and that runs on while the machine sleeps. What is under way then is given up in time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeVar

from bookie.clock import boot_time
from bookie.errors import BookieError, UnavailableError

from bookie_operator.errors import PreconditionError
from bookie_operator.platform.kubernetes.api import LEASE, MANAGER, Api, Kind, Object

DURATION_S: Final = 15
"""How long a lease that is not renewed keeps others out."""
MARGIN_S: Final = 5
"""How much earlier its holder stops: a request that timed out may still arrive."""
RENEW_S: Final = 3.0
"""Between two renewals, or two looks of who waits."""

LOGGER: Final = logging.getLogger(__name__)
Answer = TypeVar("Answer")
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class LeaseState:
    """The Lease object as it was seen first in this state."""

    holder: str
    """Empty: nobody holds it, or it is not there."""
    version: str
    """Resource version of the object, which changes with each renewal. Empty: it does not exist."""
    since: float
    """When this version was first seen, by our clock."""


class Lease:
    """One candidate's view of the lease, and its hold of it."""

    def __init__(self, api: Api, name: str, *, identity: str, clock: Clock = boot_time) -> None:
        """`api`: of the lease's namespace. `identity`: no other one that may run now has it."""
        self._api = api
        self._name = name
        self._identity = identity
        self._clock = clock
        self._state: LeaseState | None = None
        """The lease as last seen; None before the first look."""
        self._held_until = float("-inf")
        """Until when the lease is certainly ours, by our clock."""
        self._has_made = False
        """The object names us since we made it; who held the one before may hold it still."""

    @property
    def held_s(self) -> float:
        """Seconds for which the lease is still ours; 0 = it is not."""
        return max(self._held_until - self._clock(), 0.0)

    async def renew(self) -> bool:
        """Take the lease or renew it, where that may be; True = it is ours.

        Raises what the API server's refusals raise: a right that lacks must be seen.
        """
        sent_at = self._clock()
        found = await self._api.get(LEASE, self._name)
        self._state = state = self._look(found, sent_at)
        if not self._may_take(state, sent_at):
            return False
        if found is None:
            return await self._make(sent_at)
        try:
            await self._write(found, holder=self._identity, duration_s=DURATION_S)
        except PreconditionError:
            return False  # somebody was first
        self._hold(sent_at)
        return True

    async def _make(self, sent_at: float) -> bool:
        """Who made the object waits as if another one held it, unless it held the one before."""
        is_held = self._held_until > sent_at
        self._has_made = True
        body = self._body(self._identity, DURATION_S)
        if await self._api.create(LEASE, body) is None or not is_held:
            return False
        self._hold(sent_at)
        return True

    def _hold(self, sent_at: float) -> None:
        self._held_until = sent_at + DURATION_S - MARGIN_S
        self._has_made = False

    async def release(self) -> None:
        """Let the next one take it at once. Nothing may be written after this.

        One that was lost is left to its time: what was given up then may still be under way.
        """
        is_held = bool(self.held_s)
        self._held_until = float("-inf")
        if not is_held:
            return
        found = await self._api.get(LEASE, self._name)
        if found is not None and self._is_ours(self._look(found, self._clock())):
            await self._write(found, holder="", duration_s=1)

    def _look(self, found: Object | None, now: float) -> LeaseState:
        holder, version = "", ""
        if found is not None:
            holder = str((found.get("spec") or {}).get("holderIdentity") or "")
            version = str(found["metadata"]["resourceVersion"])
        known = self._state
        if known is not None and (known.holder, known.version) == (holder, version):
            return known
        return LeaseState(holder, version, now)

    def _may_take(self, state: LeaseState, now: float) -> bool:
        is_free = not state.holder or self._is_ours(state) or self._held_until > now
        return is_free or now - state.since >= DURATION_S

    def _is_ours(self, state: LeaseState) -> bool:
        return state.holder == self._identity and not self._has_made

    def _check(self) -> None:
        """For tests, after each step."""
        assert self.held_s <= DURATION_S - MARGIN_S, "longer than the object keeps others out"
        assert self._state is not None or not self.held_s, "held, and never looked at"

    def _body(self, holder: str, duration_s: int) -> Object:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": holder, "leaseDurationSeconds": duration_s, "renewTime": now}
        return {"metadata": {"name": self._name}, "spec": spec}

    async def _write(self, found: Object, *, holder: str, duration_s: int) -> None:
        """PreconditionError when the object is not as it was found."""
        body = self._body(holder, duration_s)
        body["metadata"] |= {key: found["metadata"][key] for key in ("uid", "resourceVersion")}
        await self._api.apply(LEASE, body)


async def acquire(lease: Lease, *, stop: asyncio.Event) -> bool:
    """Wait until the lease is ours; False = `stop` came first."""
    while not stop.is_set():
        if await _renewed(lease):
            return True
        await _pause(stop)
    return False


async def keep(lease: Lease, *, stop: asyncio.Event) -> None:
    """Renew the lease until it is lost, or `stop` is set."""
    while lease.held_s and not stop.is_set():
        await _pause(stop)
        await _renewed(lease)


async def _renewed(lease: Lease) -> bool:
    try:
        return await lease.renew()
    except BookieError as error:
        LOGGER.warning("the lease of the operators cannot be renewed now: %s", error)
        return False


async def _pause(stop: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(RENEW_S):
            await stop.wait()
    except TimeoutError:
        pass


class LeaseGuard:
    """An Api that writes only while the lease is held; UnavailableError otherwise."""

    def __init__(self, api: Api, lease: Lease) -> None:
        self._api = api
        self._lease = lease

    @property
    def namespace(self) -> str:
        return self._api.namespace

    async def get(self, kind: Kind, name: str) -> Object | None:
        return await self._api.get(kind, name)

    async def list(
        self,
        kind: Kind,
        labels: Mapping[str, str] | None = None,
        *,
        fields: Mapping[str, str] | None = None,
    ) -> Sequence[Object]:
        return await self._api.list(kind, labels, fields=fields)

    async def log(self, pod: str, *, container: str, lines: int, size: int) -> str:
        return await self._api.log(pod, container=container, lines=lines, size=size)

    async def create(self, kind: Kind, body: Object) -> Object | None:
        return await self._held(lambda: self._api.create(kind, body))

    async def apply(self, kind: Kind, body: Object, *, manager: str = MANAGER) -> Object:
        return await self._held(lambda: self._api.apply(kind, body, manager=manager))

    async def replace_status(
        self, kind: Kind, name: str, status: Object, *, version: str
    ) -> Object:
        return await self._held(
            lambda: self._api.replace_status(kind, name, status, version=version)
        )

    async def delete(self, kind: Kind, thing: Object, *, is_forced: bool = False) -> bool:
        return await self._held(lambda: self._api.delete(kind, thing, is_forced=is_forced))

    async def _held(self, write: Callable[[], Awaitable[Answer]]) -> Answer:
        held_s = self._lease.held_s
        if not held_s:
            raise UnavailableError("this operator does not hold the lease: another one may act")
        try:
            async with asyncio.timeout(held_s):
                return await write()
        except TimeoutError as error:
            raise UnavailableError("the lease ended before the API server answered") from error
