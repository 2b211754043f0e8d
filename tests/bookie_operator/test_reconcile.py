"""Passes of the whole loop over a platform in memory and the memory metadata store."""

import asyncio
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from bookie.errors import BookieError, MetadataFormatError, UnavailableError
from bookie.ids import BookieId
from bookie.metadata.memory import MemoryCluster, MemoryStore
from bookie.metadata.pausing import PAUSED_NAME, read_paused
from bookie.metadata.store import BookieInfo, Cookie, MetadataStore, StoredBoot, Versioned
from bookie.tls.principals import Role
from bookie.wire.admin.health import Health, Phase
from bookie.wire.identity import Identity
from bookie_operator.apply import OPERATOR, Applier
from bookie_operator.control import Addressee
from bookie_operator.errors import ForbiddenError, PreconditionError
from bookie_operator.model.bookie_status import BookieState
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.left_over import LeftOverStatus
from bookie_operator.model.reports import AuditReport
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import BookieTask
from bookie_operator.observe import NEW_COOKIES_MAX, Observer, may_have_left
from bookie_operator.observed import Job, JobKind, LeftOver
from bookie_operator.plan.actions import (
    Action,
    ApproveCollection,
    ApproveCookieFix,
    LossDecision,
    StartJob,
)
from bookie_operator.plan.failures import ACTION_FAILED
from bookie_operator.reconcile import Reconciler
from fake_platform import FakeControl, FakePlatform
from operator_scenes import at, audited, bookie, cluster, fix_request, observed, task
from virtual_time import in_virtual_time

B0 = BookieId("bookie-0")


class Loop:
    """A reconciler with everything fake below it, and a clock that tests move."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.platform = FakePlatform(clock=self._now)
        self.control = FakeControl()
        self.metadata = MemoryCluster()
        self.is_store_up = True
        self.sessions: dict[str, MemoryStore] = {}
        self.cluster: BookieCluster = cluster()
        self.observer = Observer(self.platform, self.control, opener=self._open, clock=self._now)
        self.reconciler = Reconciler(self.platform, self.observer, self.control)

    def _now(self) -> datetime:
        return at(self.seconds)

    async def _open(self, url: str) -> MetadataStore:
        if not self.is_store_up:
            raise UnavailableError("nobody answers")
        return MemoryStore(self.metadata)

    async def run(self, passes: int = 1) -> BookieCluster:
        for _ in range(passes):
            status = await self.reconciler.run_pass(self.cluster)
            self.cluster = self.cluster.model_copy(update={"status": status})
            self.seconds += 1
        return self.cluster

    async def settle(self) -> BookieCluster:
        """Up and serving, every bookie registered."""
        await self.run(3)
        for bookie_id in self.cluster.spec.bookie_ids:
            session = self.sessions[bookie_id] = MemoryStore(self.metadata)
            await session.register(BookieInfo(bookie_id, ()))
        return await self.run(2)


@pytest.fixture
def loop() -> Loop:
    return Loop()


async def test_from_nothing_to_available(loop: Loop) -> None:
    done = await loop.settle()
    assert done.status.is_true(ConditionType.AVAILABLE)
    assert loop.metadata.instance_id == done.status.metadata.instance_id
    assert {name for name, one in loop.platform.fleet.items() if one.process} == {
        f"bookie-{n}" for n in range(4)
    }


async def test_a_quiet_cluster_publishes_nothing(loop: Loop) -> None:
    await loop.settle()
    await loop.run(2)
    count = len(loop.platform.published)
    events = len(loop.platform.events)
    await loop.run(3)
    assert (len(loop.platform.published), len(loop.platform.events)) == (count, events)


async def test_the_first_pass_always_publishes(loop: Loop) -> None:
    await loop.settle()
    await loop.run(2)
    later = Reconciler(loop.platform, loop.observer, loop.control)
    count = len(loop.platform.published)
    await later.run_pass(loop.cluster)
    assert len(loop.platform.published) == count + 1


async def test_a_status_that_could_not_be_published_is_published_by_the_next_pass(
    loop: Loop,
) -> None:
    await loop.settle()
    await loop.run(2)
    later = Reconciler(loop.platform, loop.observer, loop.control)
    count = len(loop.platform.published)
    loop.platform.publishing_fails = True
    with pytest.raises(UnavailableError):
        await later.run_pass(loop.cluster)
    loop.platform.publishing_fails = False
    for _ in range(2):
        await later.run_pass(loop.cluster)
        assert len(loop.platform.published) == count + 1


async def test_a_failed_action_is_told_and_tried_again(loop: Loop) -> None:
    loop.platform.failing = True
    await loop.run(4)
    assert "ActionFailed" in loop.platform.reasons
    loop.platform.failing = False
    assert (await loop.settle()).status.is_true(ConditionType.AVAILABLE)


async def test_an_unreachable_store_is_a_condition(loop: Loop) -> None:
    loop.is_store_up = False
    done = await loop.run(2)
    available = done.status.condition(ConditionType.AVAILABLE)
    assert available is not None and available.reason == "MetadataUnreachable"
    assert all(one.process is None for one in loop.platform.fleet.values())


async def test_one_missed_answer_does_not_flap_the_status(loop: Loop) -> None:
    await loop.settle()
    loop.control.healths["bookie-0"] = None
    done = await loop.run()
    assert done.status.bookies[0].state is BookieState.SERVING
    assert done.status.disruptions_allowed == 0, "yet nothing is gated on an old answer"
    loop.seconds += 60
    done = await loop.run()
    assert done.status.bookies[0].state is BookieState.UNRESPONSIVE


async def test_a_clock_that_goes_back_keeps_no_old_answer(loop: Loop) -> None:
    await loop.settle()
    loop.control.healths["bookie-0"] = None
    loop.seconds -= 3600
    assert (await loop.observer.observe(loop.cluster)).bookies[B0].health is None


async def test_an_answer_of_the_process_before_stands_for_none_of_the_next_one(loop: Loop) -> None:
    await loop.settle()
    one = loop.platform.fleet[B0]
    assert one.process is not None
    loop.platform.fleet[B0] = replace(one, process=replace(one.process, instance="bookie-0-2"))
    loop.control.healths["bookie-0"] = None
    assert (await loop.observer.observe(loop.cluster)).bookies[B0].health is None


async def test_a_job_that_ends_once_bookies_were_asked_still_runs_in_that_look(loop: Loop) -> None:
    """What bookies count is from after the end of a job that a look shows as ended."""
    await loop.settle()
    loop.platform.jobs_seen["j"] = Job("j", JobKind.REPAIR, 1, running=True, started_at=at(0))
    ask = loop.control.health

    async def answered(to: Addressee) -> Health | None:
        loop.platform.jobs_seen.pop("j", None)
        return await ask(to)

    loop.control.health = answered  # type: ignore[method-assign]
    assert "j" in [job.name for job in (await loop.observer.observe(loop.cluster)).jobs]


async def test_the_certificate_of_a_bookie_that_leaves_is_looked_after(loop: Loop) -> None:
    await loop.settle()
    fewer = loop.cluster.spec.model_copy(update={"replicas": 3})
    seen = await loop.observer.observe(loop.cluster.model_copy(update={"spec": fewer}))
    assert seen.tls is not None
    assert loop.platform.holder(Role.BOOKIE, "bookie-3") in seen.tls.hosts


async def test_a_pending_fix_is_approved_once_seen(loop: Loop) -> None:
    await loop.settle()
    waiting = bookie(
        "bookie-0",
        phase=Phase.AWAITING_APPROVAL,
        epoch=2,
        reason="DiskReplaced",
        fix=fix_request(),
        verdicts={"ledger-0": "empty"},
    )
    loop.control.healths["bookie-0"] = waiting.health
    await loop.run()
    assert loop.control.approved == [("bookie-0", "plan-1", "bookie-operator")]
    assert "CookieFixApproved" in loop.platform.reasons
    assert waiting.health is not None and waiting.health.boot is not None
    epoch = waiting.health.boot.epoch
    known = Identity(loop.cluster.status.metadata.instance_id, "bookie-0", epoch)
    assert loop.control.meant == [known], "D11: nobody else's fix is approved"


@pytest.mark.parametrize(
    ("is_proved", "name"), [(True, "ann"), (False, "ann (as written, not proved)")]
)
async def test_the_name_of_who_decided_says_whether_it_was_proved(
    loop: Loop, is_proved: bool, name: str
) -> None:
    loop.reconciler = Reconciler(loop.platform, loop.observer, loop.control, names_proved=is_proved)
    await loop.settle()
    waiting = bookie("bookie-0", phase=Phase.AWAITING_APPROVAL, epoch=2, fix=fix_request())
    loop.control.healths["bookie-0"] = waiting.health
    wish = {"bookie": "bookie-0", "planId": "plan-1", "approvedBy": "ann"}
    loop.platform.tasks_seen = [task("approve-cookie-fix", **wish)]
    await loop.run()
    assert loop.control.approved == [("bookie-0", "plan-1", name)]


@pytest.mark.parametrize(
    ("is_proved", "name"), [(True, "ann"), (False, "ann (as written, not proved)")]
)
async def test_a_collection_is_approved_in_the_name_of_who_decided(
    loop: Loop, is_proved: bool, name: str
) -> None:
    loop.reconciler = Reconciler(loop.platform, loop.observer, loop.control, names_proved=is_proved)
    await loop.settle()
    held = bookie("bookie-0", collection_held="90 of 100", collection_plan_id="plan-1")
    loop.control.healths["bookie-0"] = held.health
    wish = {"bookie": "bookie-0", "planId": "plan-1", "approvedBy": "ann"}
    loop.platform.tasks_seen = [task("approve-collection", **wish)]
    await loop.run()
    assert loop.control.collections == [("bookie-0", "plan-1", name)]
    assert "CollectionApproved" in loop.platform.reasons


async def test_d11_a_namesake_of_another_cluster_is_no_bookie_of_this_one(loop: Loop) -> None:
    await loop.settle()
    namesake = bookie("bookie-0", epoch=1).health
    assert namesake is not None
    loop.control.healths["bookie-0"] = replace(namesake, instance_id="another")
    done = await loop.run()
    assert done.status.bookies[0].state is BookieState.STARTING, "none has answered yet"
    assert done.status.disruptions_allowed == 0


@pytest.mark.parametrize("is_store_up", [True, False])
async def test_d11_a_namesake_is_none_of_this_cluster_also_while_the_store_is_away(
    loop: Loop, is_store_up: bool
) -> None:
    await loop.settle()
    loop.platform.url = loop.platform.url if is_store_up else ""
    for instance, is_believed in (("another", False), (loop.metadata.instance_id, True)):
        said = replace(lost_one(), collection_held=None, instance_id=instance or "")
        loop.control.healths["bookie-0"] = said
        for _ in range(2):
            seen = await loop.observer.observe(loop.cluster)
            assert seen.metadata.reachable is is_store_up
            assert (seen.bookies[B0].health == said) is is_believed


async def test_status_is_published_before_anything_is_done(loop: Loop) -> None:
    await loop.settle()
    unclean = bookie("bookie-0", epoch=2, reason="UncleanShutdown", limbo=2)
    loop.control.healths["bookie-0"] = unclean.health
    await loop.run()
    published = loop.platform.published[-1].status.incidents
    assert [incident.boot_epoch_after for incident in published] == [2]
    assert "RepairStarted" in loop.platform.reasons


async def test_a_permission_that_lacks_is_a_condition(loop: Loop) -> None:
    await loop.settle()
    loop.platform.denied = "pods is forbidden"
    done = await loop.run(2)
    degraded = done.status.condition(ConditionType.DEGRADED)
    assert degraded is not None and (degraded.reason, degraded.message) == (
        "Forbidden",
        "pods is forbidden",
    )
    assert loop.platform.reasons.count("Forbidden") == 1
    loop.platform.denied = ""
    assert not (await loop.run(2)).status.is_true(ConditionType.DEGRADED)


async def test_a_permission_that_lacks_for_one_write_is_a_condition_until_it_is_given(
    loop: Loop,
) -> None:
    await loop.settle()

    loop.platform.task_refusal = ForbiddenError("bookietasks/status")
    loop.platform.tasks_seen = [task("restart", bookie="bookie-9")]
    degraded = (await loop.run(2)).status.condition(ConditionType.DEGRADED)
    assert degraded is not None and degraded.message == "bookietasks/status"
    loop.platform.task_refusal = None
    assert not (await loop.run(2)).status.is_true(ConditionType.DEGRADED)


async def test_surroundings_follow_the_published_status(loop: Loop) -> None:
    await loop.settle()
    assert loop.platform.disruptions_allowed == 1


async def test_surroundings_that_fail_stop_nothing(loop: Loop) -> None:
    loop.platform.settling_fails = True
    assert (await loop.settle()).status.is_true(ConditionType.AVAILABLE)
    assert "SettleFailed" in loop.platform.reasons


async def test_of_what_could_not_be_kept_only_that_is_told_which_still_cannot(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await loop.settle()
    failed: dict[str, BookieError] = {}

    async def settled(*_: object) -> dict[str, BookieError]:
        return failed

    monkeypatch.setattr(loop.platform, "settle", settled)
    for names in (("Service a", "Role b"), ("Role b",), (), ("Service a",), ()):
        failed = {name: UnavailableError("not now") for name in names}
        status = (await loop.run(3)).status
        told = {one.message.partition(":")[0] for one in status.blocked if one.action == "Keep"}
        assert told == set(names)


async def test_a5_bookies_hear_of_a_pause_and_of_its_end_and_nothing_of_a_quiet_cluster(
    loop: Loop,
) -> None:
    store = MemoryStore(loop.metadata)
    await loop.settle()
    assert await store.read_value(PAUSED_NAME) is None
    for paused in (True, False):
        spec = loop.cluster.spec.model_copy(update={"paused": paused})
        loop.cluster = loop.cluster.model_copy(update={"spec": spec})
        await loop.run(2)
        assert await read_paused(store) is paused
    assert [r for r in loop.platform.reasons if r.startswith("Collection")] == [
        "CollectionPaused",
        "CollectionResumed",
    ]


@in_virtual_time
async def test_why_a_store_could_not_be_opened_is_said_while_it_is_tried_again(loop: Loop) -> None:
    """A server that refuses a login is told from a silent one after longer than a pass waits."""
    is_first = iter((True, False))

    async def opened(_url: str) -> MetadataStore:
        if next(is_first):
            raise UnavailableError("authentication failed")
        await asyncio.Event().wait()  # nobody sets it
        raise AssertionError

    observer = Observer(loop.platform, loop.control, opener=opened, clock=loop._now)
    for _ in range(2):
        seen = await observer.observe(loop.cluster)
        assert seen.metadata.message == "authentication failed"
    await observer.close()


async def test_a_login_that_the_spec_takes_up_opens_another_session(loop: Loop) -> None:
    opened: list[Path | None] = []

    async def another(_url: str) -> MetadataStore:
        opened.append(loop.platform.login)
        return MemoryStore(loop.metadata)

    observer = Observer(loop.platform, loop.control, opener=another, clock=loop._now)
    for login in (None, None, Path("/logins/demo")):
        loop.platform.login = login
        await observer.observe(loop.cluster)
    await observer.close()
    assert opened == [None, Path("/logins/demo")]


async def silent() -> MetadataStore:
    await asyncio.Event().wait()  # nobody sets it
    raise AssertionError


ELSEWHERE = [("url", "memory://other"), ("login", Path("/logins/other"))]


@pytest.mark.parametrize(("what", "value"), ELSEWHERE)
@in_virtual_time
async def test_what_was_wrong_at_another_address_is_not_said_of_this_one(
    loop: Loop, what: str, value: object
) -> None:
    async def opened(_url: str) -> MetadataStore:
        if getattr(loop.platform, what) == value:
            return await silent()
        raise UnavailableError("authentication failed")

    observer = Observer(loop.platform, loop.control, opener=opened, clock=loop._now)
    assert (await observer.observe(loop.cluster)).metadata.message == "authentication failed"
    setattr(loop.platform, what, value)
    assert (await observer.observe(loop.cluster)).metadata.message.startswith("no answer")
    await observer.close()


@pytest.mark.parametrize(("what", "value"), ELSEWHERE)
@in_virtual_time
async def test_a_session_that_is_being_opened_is_given_up_for_another(
    loop: Loop, what: str, value: object
) -> None:
    begun: list[object] = []

    async def opened(_url: str) -> MetadataStore:
        begun.append(getattr(loop.platform, what))
        return MemoryStore(loop.metadata) if begun[-1] == value else await silent()

    observer = Observer(loop.platform, loop.control, opener=opened, clock=loop._now)
    for _ in range(2):
        assert not (await observer.observe(loop.cluster)).metadata.reachable
    setattr(loop.platform, what, value)
    assert (await observer.observe(loop.cluster)).metadata.reachable
    assert len(begun) == 2, "one is opened at a time"
    await observer.close()


class OddCookies(MemoryStore):
    """Somebody wrote what nobody understands into every cookie."""

    async def read_cookie(self, bookie_id: BookieId) -> Versioned[Cookie] | None:
        raise MetadataFormatError(f"the cookie of {bookie_id} cannot be read")


async def test_a7_a_cookie_that_cannot_be_read_hides_nothing_else(loop: Loop) -> None:
    done = await loop.settle()
    await MemoryStore(loop.metadata).initialise()
    fewer = done.model_copy(update={"spec": done.spec.model_copy(update={"replicas": 3})})

    async def opened(_url: str) -> MetadataStore:
        return OddCookies(loop.metadata)

    observer = Observer(loop.platform, loop.control, opener=opened, clock=loop._now)
    seen = await observer.observe(fewer)
    assert seen.metadata.reachable and seen.bookies[BookieId("bookie-3")].has_cookie is True
    await observer.close()


class DeposedCookies(MemoryStore):
    """A server whose leader was deposed: it shows no cookie until a write went through it."""

    is_old = True

    async def barrier(self) -> None:
        await super().barrier()
        self.is_old = False

    async def read_cookie(self, bookie_id: BookieId) -> Versioned[Cookie] | None:
        return None if self.is_old else await super().read_cookie(bookie_id)


async def test_whether_a_bookie_that_leaves_ever_ran_is_asked_behind_a_write(loop: Loop) -> None:
    done = await loop.settle()
    store = DeposedCookies(loop.metadata)
    await MemoryStore(loop.metadata).initialise()
    await store.create_cookie(Cookie(BookieId("bookie-3"), (), (), "instance"))
    fewer = done.model_copy(update={"spec": done.spec.model_copy(update={"replicas": 3})})

    async def opened(_url: str) -> MetadataStore:
        return store

    observer = Observer(loop.platform, loop.control, opener=opened, clock=loop._now)
    seen = await observer.observe(fewer)
    assert seen.bookies[BookieId("bookie-3")].has_cookie is True
    await observer.close()


class OddBoot(MemoryStore):
    """Somebody wrote what nobody understands into the record of bookie-1."""

    async def read_boot(self, bookie_id: BookieId) -> Versioned[StoredBoot] | None:
        if bookie_id == "bookie-1":
            raise MetadataFormatError(f"the boot of {bookie_id} cannot be read")
        return await super().read_boot(bookie_id)


async def test_a5_what_a_bookie_noted_in_the_store_is_read_whoever_answers(loop: Loop) -> None:
    await loop.settle()
    store = OddBoot(loop.metadata)
    for name, why in (("bookie-0", "older"), ("bookie-1", "hidden"), ("bookie-2", "")):
        found = await MemoryStore(loop.metadata).read_boot(BookieId(name))
        boot = StoredBoot(9, rolled_back=why)
        await store.write_boot(BookieId(name), boot, version=found.version if found else None)

    async def opened(_url: str) -> MetadataStore:
        return store

    observer = Observer(loop.platform, loop.control, opener=opened, clock=loop._now)
    seen = await observer.observe(loop.cluster)
    assert seen.metadata.reachable and seen.metadata.rolled_back == {"bookie-0": "older"}
    await observer.close()


@pytest.mark.parametrize("how", ["wanted", "leaving", "known"])
async def test_a5_what_a_bookie_noted_is_read_whether_it_is_wanted_leaves_or_is_gone(
    loop: Loop, how: str
) -> None:
    await loop.settle()
    spec, last = loop.cluster.spec.model_copy(update={"replicas": 3}), BookieId("bookie-3")
    if how != "wanted":
        loop.cluster = loop.cluster.model_copy(update={"spec": spec})
    if how == "known":
        del loop.platform.fleet[last]
    store = MemoryStore(loop.metadata)
    found = await store.read_boot(last)
    noted = StoredBoot(9, rolled_back="older")
    await store.write_boot(last, noted, version=found.version if found else None)
    assert (await loop.observer.observe(loop.cluster)).metadata.rolled_back == {last: "older"}


async def scaled_down(loop: Loop, *cookies: str) -> None:
    """Three of four bookies are left; the store has these cookies as well."""
    await loop.settle()
    store = MemoryStore(loop.metadata)
    for name in cookies:
        await store.create_cookie(Cookie(BookieId(name), (), (), "instance"))
    spec = loop.cluster.spec.model_copy(update={"replicas": 3})
    loop.cluster = loop.cluster.model_copy(update={"spec": spec})
    await loop.sessions.pop("bookie-3").close()
    loop.platform.fleet.pop(BookieId("bookie-3"))


async def test_d9_cookies_of_the_next_numbers_are_looked_for(loop: Loop) -> None:
    await scaled_down(loop, "bookie-0", "bookie-3", "bookie-4", "bookie-9")
    seen = await loop.observer.observe(loop.cluster)
    assert {name: one.has_cookie for name, one in seen.left_over.items()} == {
        "bookie-3": True,
        "bookie-4": True,
        "bookie-5": False,
        "bookie-6": False,
    }


async def test_d9_of_kept_claims_the_cookie_is_asked_for(loop: Loop) -> None:
    await scaled_down(loop, "bookie-9")
    loop.platform.kept = {BookieId("bookie-9"): ("demo-bookie-9-journal",)}
    seen = await loop.observer.observe(loop.cluster)
    assert seen.left_over[BookieId("bookie-9")] == LeftOver(("demo-bookie-9-journal",), True)


async def test_an_excluded_number_is_looked_for_and_the_next_ones_follow_the_highest(
    loop: Loop,
) -> None:
    numbers = may_have_left(cluster(replicas=3, excludedOrdinals=[1]), [])
    assert numbers == ["bookie-1", *(f"bookie-{n}" for n in range(4, 4 + NEW_COOKIES_MAX))]


async def test_d9_whom_others_run_under_such_a_name_is_not_left_over(loop: Loop) -> None:
    await scaled_down(loop, "bookie-3")
    await MemoryStore(loop.metadata).register(BookieInfo(BookieId("bookie-3"), ()))
    assert BookieId("bookie-3") not in (await loop.observer.observe(loop.cluster)).left_over


async def test_d9_few_new_cookies_are_looked_for_in_one_pass(loop: Loop) -> None:
    await scaled_down(loop, *(f"bookie-{number}" for number in range(3, 40)))
    seen = await loop.observer.observe(loop.cluster)
    assert len(seen.left_over) == NEW_COOKIES_MAX
    before = ClusterStatus(left_over=tuple(LeftOverStatus(bookie=one) for one in seen.left_over))
    again = await loop.observer.observe(loop.cluster.model_copy(update={"status": before}))
    assert len(again.left_over) == 2 * NEW_COOKIES_MAX


@pytest.mark.parametrize("error", [UnavailableError("no right to it"), TimeoutError()])
async def test_d9_a_cookie_that_nobody_needs_hides_nothing_else(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def fails(*_which: object) -> None:
        raise error

    await scaled_down(loop, "bookie-3")
    monkeypatch.setattr(MemoryStore, "read_cookie", fails)
    seen = await loop.observer.observe(loop.cluster)
    assert seen.metadata.reachable, seen.metadata.message
    assert {one.has_cookie for one in seen.left_over.values()} == {None}


async def test_events_that_a_quota_refuses_hold_up_no_repair(loop: Loop) -> None:
    await loop.settle()

    async def refused(event: object) -> None:
        raise UnavailableError("exceeded quota: count/events")

    loop.platform.record = refused  # type: ignore[method-assign,assignment]
    loop.control.healths["bookie-0"] = lost_one()
    await loop.run(3)
    assert [job.kind for job in loop.platform.jobs_seen.values()] == [JobKind.REPAIR]


async def test_a_task_whose_status_cannot_be_written_holds_up_no_repair(loop: Loop) -> None:
    await loop.settle()

    loop.platform.task_refusal = ForbiddenError("bookietasks/status")
    loop.platform.tasks_seen = [task("audit")]
    loop.control.healths["bookie-0"] = lost_one()
    await loop.run(3)
    assert JobKind.REPAIR in [job.kind for job in loop.platform.jobs_seen.values()]


@pytest.mark.parametrize("error", [ForbiddenError, PreconditionError, UnavailableError])
async def test_no_disk_goes_for_a_task_whose_status_could_not_be_written(
    loop: Loop, error: type[BookieError]
) -> None:
    """It names the volume that goes: without it the next pass would take the new one."""
    await loop.settle()
    asked: list[str] = []

    async def replaced(bookie_id: str, disk: str, *, uid: str) -> bool:
        asked.append(uid)
        return True

    loop.platform.task_refusal = error("bookietasks/status")
    loop.platform.replace_volume = replaced  # type: ignore[method-assign,assignment]
    loop.platform.tasks_seen = [task("replace-disk", bookie="bookie-1", disk="ledger-0")]
    await loop.run(3)
    assert asked == []
    loop.platform.task_refusal = None
    await loop.run(1)
    assert asked == ["bookie-1-ledger-0-uid"]


async def test_no_bookie_is_replaced_for_a_task_whose_status_could_not_be_written(
    loop: Loop,
) -> None:
    """It names the volumes that go: without it the next pass would take the new ones."""
    await loop.settle()

    loop.platform.task_refusal = UnavailableError("bookietasks/status")
    await loop.sessions["bookie-1"].close()
    loop.control.healths["bookie-1"] = None
    loop.platform.tasks_seen = [task("replace-bookie", bookie="bookie-1")]
    await loop.run(3)
    assert "PlannedAnew" not in {one.reason for one in loop.platform.events}, "it was not asked for"
    loop.platform.task_refusal = None
    await loop.run(1)
    assert "PlannedAnew" in {one.reason for one in loop.platform.events}


async def test_nothing_is_restarted_for_a_task_whose_status_could_not_be_written(
    loop: Loop,
) -> None:
    """It names the process that goes: without it each one that comes would go as well."""
    await loop.settle()

    loop.platform.task_refusal = UnavailableError("bookietasks/status")
    loop.platform.tasks_seen = [task("restart", bookie="bookie-1")]
    await loop.run(9)
    assert instance(loop, "bookie-1") == "bookie-1-1"
    loop.platform.task_refusal = None
    await loop.run(1)
    assert instance(loop, "bookie-1") == "bookie-1-1+"


def kinds(loop: Loop) -> list[JobKind]:
    return [job.kind for job in loop.platform.jobs_seen.values()]


@pytest.mark.parametrize(
    ("kind", "asked"),
    [(JobKind.AUDIT, "audit"), (JobKind.SCRUB, "scrub"), (JobKind.MEND, "repair"),
     (JobKind.REREPLICATE, "rereplicate")],
)  # fmt: skip
async def test_no_job_begins_for_a_task_whose_status_could_not_be_written(
    loop: Loop, kind: JobKind, asked: str
) -> None:
    """It names the job: without it another one would begin as soon as that one has ended."""
    await loop.settle()

    loop.platform.jobs_seen["demo-audit-1"] = audited(began=loop.seconds)
    loop.platform.task_refusal = UnavailableError("bookietasks/status")
    loop.platform.tasks_seen = [task(asked)]
    await loop.run(3)
    assert kinds(loop) == [JobKind.AUDIT]
    loop.platform.task_refusal = None
    await loop.run(1)
    assert kinds(loop) == [JobKind.AUDIT, kind]


@pytest.mark.parametrize("refused", [(), ("a",), ("b",), ("a", "b")])
async def test_a_job_that_two_tasks_ask_for_begins_when_the_status_of_one_is_written(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, refused: tuple[str, ...]
) -> None:
    await loop.settle()
    loop.platform.jobs_seen["demo-audit-1"] = audited(began=loop.seconds)
    loop.platform.tasks_seen = [task("audit", "a"), task("audit", "b")]
    publish = loop.platform.publish_task

    async def published(one: BookieTask) -> None:
        if one.metadata.name in refused:
            raise UnavailableError("bookietasks/status")
        await publish(one)

    monkeypatch.setattr(loop.platform, "publish_task", published)
    await loop.run(1)
    assert len(kinds(loop)) == (1 if len(refused) == 2 else 2)


@pytest.mark.parametrize("asked", ["audit", "scrub", "repair"])
async def test_a_task_whose_job_is_refused_once_gets_it_later(loop: Loop, asked: str) -> None:
    await loop.settle()
    loop.platform.jobs_seen["demo-audit-1"] = audited(began=loop.seconds)
    loop.platform.tasks_seen = [task(asked)]
    loop.platform.job_refusal = UnavailableError("exceeded quota")
    await loop.run(2)
    loop.platform.job_refusal = None
    loop.seconds += 60
    await loop.run(2)
    [one] = loop.platform.tasks_seen
    assert one.status.phase == "Running" and one.status.target in loop.platform.jobs_seen


async def test_a_job_that_is_due_waits_for_no_status_of_a_task(loop: Loop) -> None:
    loop.platform.task_refusal = UnavailableError("bookietasks/status")
    loop.platform.tasks_seen = [task("audit")]
    await loop.settle()
    assert kinds(loop) == [JobKind.AUDIT]


def instance(loop: Loop, name: str) -> str:
    process = loop.platform.fleet[BookieId(name)].process
    return process.instance if process is not None else ""


async def known(loop: Loop) -> datetime | None:
    """Since when the operator has known the store, after one more look."""
    return (await loop.observer.observe(loop.cluster)).metadata.known_since


async def test_the_store_is_known_since_the_last_look_that_missed_it(loop: Loop) -> None:
    await loop.settle()
    first = await known(loop)
    loop.seconds += 60
    assert await known(loop) == first and first is not None
    loop.is_store_up = False
    await loop.observer.close()
    assert await known(loop) is None
    loop.is_store_up = True
    assert await known(loop) == at(loop.seconds)


async def test_a_store_of_another_cluster_is_known_since_it_was_found(loop: Loop) -> None:
    """Who was away from the one before has not been away from this one."""
    await loop.settle()
    for instance_id in ("another", "a third"):
        loop.seconds += 60
        loop.metadata.instance_id = instance_id
        assert await known(loop) == (found_at := at(loop.seconds))
        loop.seconds += 60
        assert await known(loop) == found_at


async def test_a_gap_between_two_looks_is_one_that_nobody_has_seen(loop: Loop) -> None:
    await loop.settle()
    await known(loop)
    for seconds in (3600, -50):  # a suspended machine; a clock that was set back
        loop.seconds += seconds
        assert await known(loop) == at(loop.seconds)


def lost_one() -> Health:
    """It came back from an unclean stop."""
    health = bookie("bookie-0", limbo=2, reason="UncleanShutdown", epoch=2, boot_at=10).health
    assert health is not None
    return health


@pytest.mark.parametrize(
    "action",
    [
        ApproveCookieFix(B0, "plan-1", OPERATOR),
        ApproveCollection(B0, "plan-1", OPERATOR),
        StartJob("a", JobKind.ACCEPT_LOSS, "", 1, decision=LossDecision("7", None, "-", OPERATOR)),
    ],
)
async def test_who_writes_the_operators_name_is_not_taken_for_the_operator(action: Action) -> None:
    one = bookie(B0, process_facts={"control": "bookie-0"})
    applier = Applier(FakePlatform(), FakeControl(), names_proved=False)
    event = await applier.apply(action, observed=observed(one), store=None)
    assert event is not None and f"by {OPERATOR} (as written, not proved)" in event.message


async def findings_beside_a_scrub(loop: Loop) -> None:
    """An audit has found copies missing while a scrub runs, which gives way to their repair."""
    await loop.settle()
    missing = AuditReport(ledgers=3, ok=90, missing=6, below_write_quorum=6)
    scrub = Job("demo-scrub-1", JobKind.SCRUB, 1, running=True, started_at=loop.observer.now)
    audit = audited(missing, began=loop.seconds)
    loop.platform.jobs_seen |= {one.name: one for one in (scrub, audit)}


async def test_no_job_begins_while_the_one_before_it_cannot_be_stopped(loop: Loop) -> None:
    await findings_beside_a_scrub(loop)
    for refusal, mends in ((UnavailableError("no answer"), False), (None, True)):
        loop.platform.stop_refusal = refusal
        await loop.run(3)
        assert ("demo-mend-1" in loop.platform.jobs_seen) is mends


async def test_a_job_begins_in_the_pass_that_has_stopped_the_one_before_it(loop: Loop) -> None:
    await findings_beside_a_scrub(loop)
    await loop.run(1)
    assert {"demo-mend-1", "demo-scrub-1"} & loop.platform.jobs_seen.keys() == {"demo-mend-1"}


@pytest.mark.parametrize(
    ("error", "reason"),
    [(ForbiddenError("roles"), "Forbidden"), (UnavailableError("no answer"), "SettleFailed")],
)
async def test_why_nothing_around_bookies_could_be_settled_is_told(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, error: BookieError, reason: str
) -> None:
    await loop.settle()

    async def settle(*_: object) -> None:
        raise error

    monkeypatch.setattr(loop.platform, "settle", settle)
    await loop.run(2)
    said = [one.message for one in loop.platform.events if one.reason == reason]
    assert said and str(error) in said[0]


def is_reported(loop: Loop) -> bool:
    """Whether the status has an action that had failed before the last pass."""
    return any(one.predicate == ACTION_FAILED for one in loop.cluster.status.blocked)


async def test_what_failed_before_it_succeeded_is_reported_no_more(loop: Loop) -> None:
    await loop.settle()
    for is_failing in (True, True, False, True):
        loop.platform.fleet[B0] = replace(loop.platform.fleet[B0], process=None)
        loop.platform.failing = is_failing
        await loop.run(1)
        loop.seconds += 60
    assert not is_reported(loop)
    await loop.run(1)
    assert is_reported(loop)


async def test_what_failed_before_it_was_not_wanted_is_reported_no_more(loop: Loop) -> None:
    await loop.settle()
    loop.platform.jobs_seen["demo-audit-1"] = audited(began=loop.seconds)
    loop.platform.job_refusal = UnavailableError("exceeded quota")
    for asked in ([task("scrub")], [], [task("scrub")]):
        loop.platform.tasks_seen = asked
        await loop.run(1)
        loop.seconds += 60
    assert not is_reported(loop)
    await loop.run(1)
    assert is_reported(loop)


async def test_a_bookie_is_meant_as_the_newest_process_that_has_answered(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await loop.settle()
    asked: list[Identity] = []
    ask = loop.control.health

    async def answered(to: Addressee) -> Health | None:
        asked.append(to.meant)
        return await ask(to)

    monkeypatch.setattr(loop.control, "health", answered)
    for epoch in (5, 3, 6, 6):
        loop.control.healths[B0] = bookie(B0, epoch=epoch).health
        await loop.observer.observe(loop.cluster)
    assert [one.epoch for one in asked if one.bookie == B0][1:] == [5, 5, 6]
