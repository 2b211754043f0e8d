"""Of several operators one acts: the lease of Kubernetes, and what writes only under it."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

import pytest
from bookie.errors import BookieError, UnavailableError
from bookie_operator.platform.kubernetes.api import CONFIG_MAP, LEASE, Api, Object
from bookie_operator.platform.kubernetes.lease import (
    DURATION_S,
    MARGIN_S,
    RENEW_S,
    Lease,
    LeaseGuard,
    acquire,
    keep,
)
from fake_api import FakeApi

Answer = TypeVar("Answer")
HELD_S = DURATION_S - MARGIN_S
BODY = {"metadata": {"name": "a"}, "data": {}}


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def api() -> FakeApi:
    made = FakeApi()
    made.put(LEASE, {"metadata": {"name": "operator"}})
    return made


class CheckedLease(Lease):
    """Its invariants are looked at after each step."""

    async def renew(self) -> bool:
        try:
            return await super().renew()
        finally:
            self._check()

    async def release(self) -> None:
        try:
            await super().release()
        finally:
            self._check()


def candidate(api: Api, name: str, clock: Callable[[], float]) -> Lease:
    return CheckedLease(api, "operator", identity=name, clock=clock)


def run(work: Coroutine[Any, Any, Answer]) -> Answer:
    """What never waits for anything ends in one step."""
    try:
        work.send(None)
    except StopIteration as ended:
        return ended.value  # type: ignore[no-any-return]
    raise AssertionError("it waits")


def test_the_first_one_takes_the_lease(api: FakeApi, time: Time) -> None:
    lease = candidate(api, "a", time)
    assert run(lease.renew()) and lease.held_s == HELD_S
    assert api.the(LEASE, "operator")["spec"]["holderIdentity"] == "a"


def test_nobody_takes_a_lease_that_is_renewed(api: FakeApi, time: Time) -> None:
    mine, other = candidate(api, "a", time), candidate(api, "b", time)
    for _ in range(20):
        assert run(mine.renew()) and not run(other.renew())
        time.now += RENEW_S


def test_a_lease_that_nobody_renews_is_taken_after_its_duration(api: FakeApi, time: Time) -> None:
    dead, other = candidate(api, "a", time), candidate(api, "b", time)
    run(dead.renew())
    assert not run(other.renew())
    time.now += DURATION_S - 0.1
    assert not run(other.renew())
    time.now += 0.1
    assert run(other.renew()) and not dead.held_s


def test_two_renewals_in_a_row_may_fail_before_the_hold_ends(api: FakeApi, time: Time) -> None:
    lease = candidate(api, "a", time)
    assert run(lease.renew())
    api.is_away = True
    for _ in range(2):
        time.now += RENEW_S
        with pytest.raises(UnavailableError):
            run(lease.renew())
    time.now += RENEW_S
    api.is_away = False
    assert lease.held_s and run(lease.renew())


def test_a_lease_that_was_released_is_taken_at_once(api: FakeApi, time: Time) -> None:
    mine, other = candidate(api, "a", time), candidate(api, "b", time)
    run(mine.renew())
    run(mine.release())
    assert not mine.held_s and run(other.renew())


@pytest.mark.parametrize(
    ("passed_s", "is_free"), [(0.0, True), (HELD_S - 0.5, True), (HELD_S, False)]
)
def test_a_lease_that_was_lost_is_not_given_away_before_its_time(
    api: FakeApi, time: Time, passed_s: float, is_free: bool
) -> None:
    mine, other = candidate(api, "a", time), candidate(api, "b", time)
    run(mine.renew())
    assert not run(other.renew())
    time.now += passed_s
    run(mine.release())
    assert run(other.renew()) is is_free
    time.now = 1000.0 + DURATION_S
    assert run(other.renew())


def test_a_lease_of_another_is_not_released(api: FakeApi, time: Time) -> None:
    mine, other = candidate(api, "a", time), candidate(api, "b", time)
    run(mine.renew())
    run(other.release())
    assert api.the(LEASE, "operator")["spec"]["holderIdentity"] == "a"


def test_a_lease_that_names_another_by_now_is_left_to_it(api: FakeApi, time: Time) -> None:
    mine, third = candidate(api, "a", time), candidate(api, "c", time)
    run(mine.renew())
    api.edit(LEASE, "operator", lambda one: one["spec"].update(holderIdentity="b"))
    run(mine.release())
    assert api.the(LEASE, "operator")["spec"]["holderIdentity"] == "b"
    assert not mine.held_s and not run(third.renew())


def test_who_made_the_object_does_not_give_away_what_another_holds(time: Time) -> None:
    api = FakeApi()
    maker, third = candidate(api, "a", time), candidate(api, "c", time)
    run(maker.renew())
    run(maker.release())
    assert not run(third.renew())


def test_a_lease_that_somebody_deleted_may_still_be_held(api: FakeApi, time: Time) -> None:
    mine, other = candidate(api, "a", time), candidate(api, "b", time)
    run(mine.renew())
    api.remove(LEASE, "operator")
    assert not run(other.renew())
    assert run(mine.renew()) and not run(other.renew())


def test_without_an_object_the_first_one_makes_it_in_the_end(time: Time) -> None:
    lease = candidate(FakeApi(), "a", time)
    assert not run(lease.renew()) and not run(lease.renew())
    time.now += DURATION_S
    assert run(lease.renew())


def maker_that_holds(api: Api, time: Time) -> Lease:
    """Who had to make the object, and has waited until the one before had ended."""
    made = candidate(api, "a", time)
    assert not run(made.renew()) and not run(made.renew())
    time.now += DURATION_S
    assert run(made.renew())
    return made


def test_who_made_the_object_gives_it_away_at_its_end_as_any_holder_does(time: Time) -> None:
    api = FakeApi()
    run(maker_that_holds(api, time).release())
    assert run(candidate(api, "b", time).renew())


def test_who_made_the_object_takes_it_again_at_once_after_an_outage(time: Time) -> None:
    maker = maker_that_holds(FakeApi(), time)
    time.now += HELD_S
    assert not maker.held_s and run(maker.renew())


def test_a_renewal_counts_from_when_it_was_sent(api: FakeApi, time: Time) -> None:
    def slow() -> None:
        time.now += 2.0

    api.after_call = slow  # the look, and the write
    lease = candidate(api, "a", time)
    assert run(lease.renew()) and lease.held_s == HELD_S - 4.0


@pytest.mark.parametrize("seed", range(200))
def test_two_never_hold_it_at_once(seed: int) -> None:
    """Whatever the order of their steps, however slow or lost the answers, whoever sleeps."""
    rng = random.Random(seed)
    time, api = Time(), FakeApi()
    if rng.random() < 0.8:
        api.put(LEASE, {"metadata": {"name": "operator"}})
    offsets = [rng.uniform(0, 1e6) for _ in range(3)]
    leases = [
        candidate(api, str(n), lambda at=at: time.now + at)  # type: ignore[misc]
        for n, at in enumerate(offsets)
    ]
    under_way: list[Lease] = []

    def check() -> None:
        assert sum(lease.held_s > 0 for lease in leases) <= 1

    def disturb() -> None:
        time.now += rng.choice((0.0, 0.0, 0.1, 1.0, 6.0, 20.0)) * rng.random()
        check()
        others = [lease for lease in leases if lease not in under_way]
        if others and rng.random() < 0.3:  # one of them comes between look and write
            step(rng.choice(others))
        if rng.random() < 0.1:
            raise UnavailableError("the answer is lost")

    def step(lease: Lease) -> None:
        under_way.append(lease)
        with suppress(BookieError):
            run(rng.choice((lease.renew, lease.renew, lease.renew, lease.release))())
        under_way.remove(lease)
        check()

    api.after_call = disturb
    terms = 0
    for _ in range(120):
        if rng.random() < 0.02 and api.find(LEASE, "operator"):
            api.remove(LEASE, "operator")
        step(rng.choice(leases))
        terms += any(lease.held_s for lease in leases)
        time.now += rng.choice((0.5, RENEW_S, RENEW_S, 12.0, 40.0)) * rng.random()
        check()
    assert terms > 0


# What writes under it


Write = Callable[[Api, Object], Coroutine[Any, Any, Any]]
WRITES: Final[dict[str, Write]] = {
    "create": lambda api, _found: api.create(CONFIG_MAP, BODY),
    "apply": lambda api, found: api.apply(CONFIG_MAP, found),
    "replace_status": lambda api, found: api.replace_status(
        CONFIG_MAP, "b", {}, version=found["metadata"]["resourceVersion"]
    ),
    "delete": lambda api, found: api.delete(CONFIG_MAP, found),
}


@pytest.mark.parametrize("write", WRITES)
def test_writes_are_refused_without_the_lease(api: FakeApi, time: Time, write: str) -> None:
    found = api.put(CONFIG_MAP, {"metadata": {"name": "b"}, "data": {}})
    leased = LeaseGuard(api, candidate(api, "a", time))
    with pytest.raises(UnavailableError, match="does not hold the lease"):
        run(WRITES[write](leased, found))
    assert run(leased.get(CONFIG_MAP, "b")) == found and run(leased.list(CONFIG_MAP)) == [found]


async def test_every_write_goes_through_while_it_is_held(api: FakeApi, time: Time) -> None:
    lease = candidate(api, "a", time)
    await lease.renew()
    leased = LeaseGuard(api, lease)
    made = await leased.create(CONFIG_MAP, BODY)
    assert made is not None
    await leased.apply(CONFIG_MAP, BODY)
    found = await leased.get(CONFIG_MAP, "a")
    assert found is not None
    version = found["metadata"]["resourceVersion"]
    replaced = await leased.replace_status(CONFIG_MAP, "a", {"b": 1}, version=version)
    assert await leased.delete(CONFIG_MAP, replaced) and leased.namespace == api.namespace


class Hangs(FakeApi):
    """Answers no write."""

    async def wait(self, *_: Any, **__: Any) -> Any:
        await asyncio.Event().wait()

    create = apply = replace_status = delete = wait


@pytest.mark.parametrize("write", WRITES)
async def test_what_is_under_way_is_given_up_when_the_lease_ends(
    api: FakeApi, time: Time, write: str
) -> None:
    lease = candidate(api, "a", time)
    await lease.renew()
    found = api.put(CONFIG_MAP, {"metadata": {"name": "b"}})
    time.now += HELD_S - 0.01
    async with asyncio.timeout(10):
        with pytest.raises(UnavailableError, match="the lease ended"):
            await WRITES[write](LeaseGuard(Hangs(), lease), found)


# Waiting and keeping


async def test_who_is_stopped_while_waiting_does_not_lead(api: FakeApi, time: Time) -> None:
    await candidate(api, "a", time).renew()
    stop = asyncio.Event()
    stop.set()
    assert not await acquire(candidate(api, "b", time), stop=stop)


async def test_a_server_that_is_away_ends_the_hold_and_no_earlier(
    api: FakeApi, time: Time, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lease, stop = candidate(api, "a", time), asyncio.Event()
    assert await acquire(lease, stop=stop)
    api.is_away = True
    looks = 0

    async def pause(_stop: asyncio.Event) -> None:
        nonlocal looks
        looks += 1
        time.now += RENEW_S

    monkeypatch.setattr("bookie_operator.platform.kubernetes.lease._pause", pause)
    await keep(lease, stop=stop)
    assert looks == -(-HELD_S // RENEW_S)
    assert len([one for one in caplog.messages if "cannot be renewed now: " in one]) == looks
