"""Reads the present state of everything into one frozen Observed: the first step of a pass.

The order matters: jobs are read before health, so that after a job was seen as ended, the counts of
bookies are from after its end. If a bookie misses one answer, its last answer is used for a short
time (`is_fresh` false): the status does not flap under load, but no decision relies on old answers.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from bookie.errors import BookieError, MetadataFormatError
from bookie.ids import BookieId
from bookie.metadata.login_check import check_login
from bookie.metadata.opening import open_store
from bookie.metadata.pausing import read_paused
from bookie.metadata.session import ZooKeeperSettings
from bookie.metadata.store import BookieInfo, MetadataStore
from bookie.wire.admin.health import Health
from bookie.wire.identity import Identity

from bookie_operator.control import Addressee, Control
from bookie_operator.errors import ForbiddenError
from bookie_operator.model.bookie_numbers import by_number
from bookie_operator.model.bookie_status import BOOKIES_MAX
from bookie_operator.model.cluster import BookieCluster, bookie_name
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import DECISION_JOBS, BookieTask
from bookie_operator.model.tls import TlsMode
from bookie_operator.observed import Bookie, LeftOver, MetadataView, Observed
from bookie_operator.platform import Platform
from bookie_operator.tls_view import TlsView

METADATA_DEADLINE_S: Final = 5.0
NEW_COOKIES_MAX: Final = 4
"""Numbers in which one pass looks for bookies that left, beyond those known to have left."""
DECIDERS_MAX: Final = 8
"""Deciding people whose certificates are looked up at once; decisions are carried out one by
one."""
GAP_MAX: Final = timedelta(minutes=5)
"""Longest gap between two looks at the metadata store; after a longer one, nobody knows who was
registered in between."""
REMEMBERED_MAX: Final = timedelta(seconds=15)
"""How long the last answer of the same process is used after a missed one."""

Opener = Callable[[str], Awaitable[MetadataStore]]
Clock = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class _Remembered:
    instance: str
    health: Health
    at: datetime


class Observer:
    """Observes one cluster; it keeps a metadata session and channels open between passes."""

    def __init__(
        self,
        platform: Platform,
        control: Control,
        *,
        opener: Opener | None = None,
        clock: Clock = utc_now,
    ) -> None:
        """`opener`: None opens stores with the operator's own credentials, where it has any."""
        self._platform = platform
        self._control = control
        self._opener = opener or self._open_store
        self._clock = clock
        self._store: MetadataStore | None = None
        """The open metadata store; None before it is open and after it was closed."""
        self._opened_as: tuple[str, Path | None] = ("", None)
        """Address and login file of `_store`; if the cluster's differ, another store is opened."""
        self._trouble = ""
        """Why the store could not be opened last time; empty: it could. Opening may take longer
        than a pass waits."""
        self._opening: asyncio.Task[MetadataStore] | None = None
        """Opens a store in the background; None: no store is being opened."""
        self._remembered: dict[BookieId, _Remembered] = {}
        """Each bookie's last answer, used for a short time when it misses one."""
        self._epochs: dict[BookieId, int] = {}
        """Highest boot epoch seen of each bookie: answers of earlier processes do not count."""
        self._cluster = ""
        """Instance id that the metadata store last had."""
        self._known_at: datetime | None = None
        """Since when every look has found that instance id; None: the last look did not."""
        self._last_known_at: datetime | None = None
        """When a look last found it; None: the last look did not."""

    async def _open_store(self, url: str) -> MetadataStore:
        # Credentials may have come, or others, since the last time.
        settings = ZooKeeperSettings(tls=self._platform.credentials, login=self._platform.login)
        store = await open_store(url, settings=settings)
        try:
            await check_login(store)
        except BookieError:
            await store.close()
            raise
        return store

    @property
    def now(self) -> datetime:
        return self._clock()

    @property
    def store(self) -> MetadataStore | None:
        """The open session, for actions on the store itself."""
        return self._store

    async def observe(self, cluster: BookieCluster) -> Observed:
        jobs = tuple(await self._platform.jobs())
        tasks = tuple(await self._platform.tasks())
        hosted = await self._platform.bookies()
        kept = await self._platform.kept_claims()
        secrets = tuple(await self._platform.secrets(cluster))
        tls = await self._certificates(cluster, hosted, deciders(tasks, cluster.status))
        leaving = [one for one in hosted if one not in cluster.spec.bookie_ids]
        gone = [one for one in may_have_left(cluster, kept) if one not in hosted]
        (metadata, registered, cookies), left, healths = await asyncio.gather(
            self._look_at_metadata(cluster, leaving),
            self._cookies_of(gone),
            self._ask_all(hosted),
        )
        metadata = self._known_since(metadata, before=self._cluster)
        self._cluster = metadata.instance_id or self._cluster
        healths = self._of_this_cluster(healths)
        return Observed(
            now=self._clock(),
            metadata=metadata,
            bookies={
                bookie_id: replace(
                    bookie,
                    health=healths.get(bookie_id),
                    is_writable=_is_writable(registered.get(bookie_id)),
                    is_registered=bookie_id in registered,
                    has_cookie=cookies.get(bookie_id),
                )
                for bookie_id, bookie in hosted.items()
            },
            left_over={
                bookie_id: LeftOver(tuple(kept.get(bookie_id, ())), has_cookie)
                for bookie_id, has_cookie in left.items()
                if bookie_id not in registered
            },
            jobs=jobs,
            tasks=tasks,
            tls=tls,
            secrets=secrets,
        )

    async def _certificates(
        self, cluster: BookieCluster, hosted: Iterable[BookieId], deciding: Sequence[str]
    ) -> TlsView | None:
        """Certificates of wanted and existing bookies; None if TLS is neither wanted nor in use."""
        if cluster.spec.tls.mode is TlsMode.OFF and cluster.status.tls is None:
            return None
        names = sorted({*cluster.spec.bookie_ids, *hosted}, key=by_number)
        try:
            return await self._platform.certificates(cluster, names, deciding)
        except ForbiddenError as error:  # it is no reason to look after nothing else
            return TlsView(hosts={}, denied=str(error))

    async def close(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
            with suppress(asyncio.CancelledError, BookieError):
                await self._opening
            self._opening = None
        await self._drop_store()

    # Health

    async def _ask_all(self, hosted: Mapping[BookieId, Bookie]) -> dict[BookieId, Health]:
        answers = await asyncio.gather(*(self._ask(bookie) for bookie in hosted.values()))
        return {
            bookie_id: health
            for bookie_id, health in zip(hosted, answers, strict=True)
            if health is not None
        }

    async def _ask(self, bookie: Bookie) -> Health | None:
        process = bookie.process
        if process is None or not process.running or process.control is None:
            return None
        meant = Identity(self._cluster, bookie.id, self._epochs.get(bookie.id, 0))
        to = Addressee(process.control, meant, has_tls=process.has_tls)
        health = await self._control.health(to)
        now = self._clock()
        if health is not None:
            self._remembered[bookie.id] = _Remembered(process.instance, health, now)
            return health
        last = self._remembered.get(bookie.id)
        if last is None or last.instance != process.instance:
            return None
        if not timedelta() <= now - last.at <= REMEMBERED_MAX:  # or the clock went back
            return None
        return replace(last.health, is_fresh=False)

    def _of_this_cluster(self, healths: Mapping[BookieId, Health]) -> dict[BookieId, Health]:
        """Healths without those of bookies that belong to another cluster, by the instance id."""
        found, cluster = dict(healths), self._cluster
        for bookie_id, health in healths.items():
            if cluster and health.instance_id not in ("", cluster):
                del found[bookie_id]
                self._remembered.pop(bookie_id, None)
            elif health.boot is not None:
                self._epochs[bookie_id] = max(self._epochs.get(bookie_id, 0), health.boot.epoch)
        return found

    # Metadata

    def _known_since(self, view: MetadataView, *, before: str) -> MetadataView:
        """Add to the view since when this process has known the store without a gap."""
        now, last = self._clock(), self._last_known_at
        if not view.reachable or view.instance_id is None:
            self._known_at = self._last_known_at = None
            return view
        is_gap = last is None or not timedelta() <= now - last <= GAP_MAX
        if self._known_at is None or is_gap or view.instance_id != before:
            self._known_at = now
        self._last_known_at = now
        return replace(view, known_since=self._known_at)

    async def _look_at_metadata(
        self, cluster: BookieCluster, leaving: Sequence[BookieId]
    ) -> tuple[MetadataView, Mapping[BookieId, BookieInfo], Mapping[BookieId, bool]]:
        """The store's state, the registered bookies, and which of `leaving` have a cookie."""
        url = ""
        cookies: dict[BookieId, bool] = {}
        is_paused: bool | None = None
        rolled_back: Mapping[BookieId, str] = {}
        try:
            url = await self._platform.metadata_url(cluster)
            async with asyncio.timeout(METADATA_DEADLINE_S):
                store = await self._session(url)
                instance_id = await store.instance_id()
                registered = await store.bookies() if instance_id is not None else {}
                if instance_id is not None:
                    is_paused = await read_paused(store)
                    rolled_back = await _rolled_back(store, _known(cluster, leaving))
                if leaving and instance_id is not None:
                    # Who has no cookie never ran, and goes without a drain: no old answer is good.
                    await store.barrier()
                for bookie_id in leaving if instance_id is not None else ():
                    cookies[bookie_id] = await _has_cookie(store, bookie_id)
        except TimeoutError:
            words = self._trouble or f"no answer in {METADATA_DEADLINE_S:g} s"
            return MetadataView(url=url, message=words), {}, {}
        except ForbiddenError:
            raise
        except BookieError as error:
            return MetadataView(url=url, message=str(error)), {}, {}
        view = MetadataView(
            url=url,
            reachable=True,
            instance_id=instance_id,
            is_paused=is_paused,
            rolled_back=rolled_back,
        )
        return view, registered, cookies

    async def _cookies_of(self, bookies: Sequence[BookieId]) -> Mapping[BookieId, bool | None]:
        """Which of these bookies have a cookie in the open store; None = it did not answer in time.

        It never raises, so that it cannot disturb the look at the store.
        """
        unknown = dict.fromkeys(bookies)
        if self._store is None:
            return unknown
        asked = (_has_cookie(self._store, bookie_id) for bookie_id in bookies)
        try:
            async with asyncio.timeout(METADATA_DEADLINE_S):
                return dict(zip(bookies, await asyncio.gather(*asked), strict=True))
        except (TimeoutError, BookieError):
            return unknown

    async def _session(self, url: str) -> MetadataStore:
        """Return the open store; if a pass cannot wait for it, opening continues in the
        background."""
        opened_as = (url, self._platform.login)
        if self._store is not None and self._opened_as == opened_as:
            return self._store
        if self._opened_as != opened_as and self._opening is not None:
            self._opening.cancel()
            self._opening = None
        if self._opened_as != opened_as:
            self._trouble = ""
        await self._drop_store()
        self._opened_as = opened_as
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._opener(url))
        opening = self._opening
        try:
            self._store = await asyncio.shield(opening)
            self._trouble = ""
        except BookieError as error:
            self._trouble = str(error)
            raise
        finally:
            if opening.done():
                self._opening = None
        return self._store

    async def _drop_store(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            with suppress(BookieError):
                await store.close()


def deciders(tasks: Iterable[BookieTask], status: ClusterStatus) -> Sequence[str]:
    """Names of people who decide about a loss, from unfinished tasks, and the last one who got a
    certificate for a decision."""
    last = status.tls.decision if status.tls is not None else None
    waiting = (
        task.spec.approved_by
        for task in tasks
        if task.spec.type in DECISION_JOBS and not task.status.phase.is_final
    )
    names = dict.fromkeys([*([last.by] if last is not None else []), *waiting])
    return list(names)[:DECIDERS_MAX]


def may_have_left(cluster: BookieCluster, kept: Iterable[BookieId]) -> Sequence[BookieId]:
    """Bookies that may have left: those with claims, those listed before, excluded numbers, and the
    next few numbers.

    The next numbers are enough, since otherwise bookies leave from the highest number down.
    """
    before = (BookieId(one.bookie) for one in cluster.status.left_over)
    excluded = map(bookie_name, cluster.spec.excluded_ordinals)
    wanted = cluster.spec.bookie_ids
    known = sorted({*kept, *before, *excluded}.difference(wanted), key=by_number)
    numbers = itertools.count(by_number(wanted[-1])[1] + 1)
    new = (one for one in map(bookie_name, numbers) if one not in known)
    return [*known[:BOOKIES_MAX], *itertools.islice(new, NEW_COOKIES_MAX)]


async def _has_cookie(store: MetadataStore, bookie_id: BookieId) -> bool:
    """Whether the bookie has a cookie; an unreadable cookie counts as one."""
    try:
        return await store.read_cookie(bookie_id) is not None
    except MetadataFormatError:
        return True


def _known(cluster: BookieCluster, leaving: Iterable[BookieId]) -> Sequence[BookieId]:
    """Bookies that are wanted, are to leave, or were known before."""
    before = (BookieId(one.id) for one in cluster.status.bookies)
    return list(dict.fromkeys((*cluster.spec.bookie_ids, *leaving, *before)))


async def _rolled_back(store: MetadataStore, bookies: Sequence[BookieId]) -> Mapping[BookieId, str]:
    """What showed each of these that the store was rolled back; nothing of one that saw none."""
    found = await asyncio.gather(*(_rollback_of(store, bookie_id) for bookie_id in bookies))
    return {bookie_id: why for bookie_id, why in zip(bookies, found, strict=True) if why}


async def _rollback_of(store: MetadataStore, bookie_id: BookieId) -> str:
    """What its record says; empty also where it cannot be read, since then it does not boot."""
    try:
        boot = await store.read_boot(bookie_id)
    except MetadataFormatError:
        return ""
    return boot.value.rolled_back if boot is not None else ""


def _is_writable(info: BookieInfo | None) -> bool:
    return info is not None and not info.read_only
