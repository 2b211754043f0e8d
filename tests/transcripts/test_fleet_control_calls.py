"""Whom calls of the control plane may mean, and what a bookie answers in each phase of its life."""

import asyncio
from typing import Any, Final

import pytest
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie.wire.identity import Identity
from fleet_messages import REQUESTS
from fleet_story import Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

NAME: Final = "bookie-0"
ARGUMENTS: Final[dict[str, dict[str, Any]]] = {
    "GetAvailability": {"ledger_ids": [1, 77]},
    "ClearLimbo": {"ledger_ids": [1, 77]},
    "RecordLoss": {"ledger_id": 1, "ranges": [pb.EntryRange(first=2, last=3)]},
    "RetractLoss": {"ledger_id": 1, "reason": "wrong"},
    "RecheckEntries": {"ledger_id": 1, "ranges": [pb.EntryRange(first=0, last=3)]},
    "ApproveCookieFix": {"plan_id": "plan", "approved_by": "ann"},
    "ApproveCollection": {"plan_id": "plan", "approved_by": "ann"},
    "SetReadOnly": {"read_only": True},
}


async def every_call(fleet: Fleet, **meant: Any) -> None:
    for method in REQUESTS:
        await fleet.ask(NAME, method, **meant, **ARGUMENTS.get(method, {}))


# Whom they mean
async def _meant(fleet: Fleet) -> None:
    await fleet.begin()
    fleet.note("nobody")
    await every_call(fleet, meant=None)
    own = fleet.bookies[NAME].bookie.state.identity  # type: ignore[union-attr]
    for what, meant in {
        "it, of any boot": Identity(own.cluster, NAME, 0),
        "it, of any cluster": Identity("", NAME, 0),
        "another bookie": Identity(own.cluster, "bookie-9", 1),
        "another cluster": Identity("another", NAME, 1),
        "a later boot": Identity(own.cluster, NAME, 2),
        "a later boot, again": Identity(own.cluster, NAME, 2),
    }.items():
        fleet.note(what)
        for method in ("GetHealth", "ListLimbo", "Drain"):
            await fleet.ask(
                NAME, method, meant=meant, **{"cancel": True} if method == "Drain" else {}
            )
    fleet.note("a later boot, while the store is away: it denies nothing")
    fleet.weather.is_out = True
    await fleet.ask(NAME, "Flush", meant=Identity(own.cluster, NAME, 3))
    await fleet.ask(NAME, "GetAvailability", ledger_ids=[77])
    await fleet.ask(NAME, "GetHealth")
    await fleet.ask(NAME, "SetReadOnly", read_only=True)
    await fleet.ask(NAME, "SetReadOnly", read_only=False)
    fleet.weather.is_out = False
    await asyncio.sleep(4)
    await fleet.ask(NAME, "GetAvailability", ledger_ids=[77])
    fleet.say_figures()


def test_whom_calls_mean(snapshot: SnapshotAssertion) -> None:
    settings = {"lease": {"seconds": 12, "confirmSeconds": 4}}
    assert snapshot(extension_class=Words) == told(
        _meant, bookies=1, shows_messages=False, settings=settings
    )


# Phases
async def _booting(fleet: Fleet) -> None:
    fleet.weather.is_out = True
    fleet.bookies[NAME].start()
    await asyncio.sleep(4)


async def _awaiting(fleet: Fleet) -> None:
    with fleet.quiet():
        await fleet.begin()
        await fleet.stop(NAME)
    fleet.bookies[NAME].wipe(1)
    fleet.bookies[NAME].is_wanted = True
    fleet.bookies[NAME].start()
    await asyncio.sleep(1)


async def _refused(fleet: Fleet) -> None:
    with fleet.quiet():
        await fleet.begin()
        await fleet.stop(NAME)
    fleet.cluster.instance_id = "00000000-0000-4000-8000-000000000000"
    fleet.bookies[NAME].is_wanted = True
    fleet.bookies[NAME].start()
    await asyncio.sleep(1)


async def _stopping(fleet: Fleet) -> None:
    await fleet.begin()
    fleet.network.lags[NAME, "metadata"] = 1
    fleet.bookies[NAME].is_wanted = False
    fleet.bookies[NAME].bookie.stop()  # type: ignore[union-attr]
    await asyncio.sleep(0.05)


async def _draining(fleet: Fleet) -> None:
    await fleet.begin()
    with fleet.quiet():
        await fleet.ask(NAME, "Drain")
    await asyncio.sleep(4)


PHASES: Final = {
    "booting": _booting,
    "awaiting approval": _awaiting,
    "refused": _refused,
    "stopping": _stopping,
    "draining": _draining,
}


@pytest.mark.parametrize("phase", PHASES)
def test_every_call_in_each_phase(phase: str, snapshot: SnapshotAssertion) -> None:
    async def scenes(fleet: Fleet) -> None:
        await PHASES[phase](fleet)
        await every_call(fleet)
        fleet.note("somebody who knows only its name, and somebody of another cluster")
        await fleet.ask(NAME, "GetHealth", meant=Identity("", NAME, 0))
        await fleet.ask(NAME, "Flush", meant=Identity("", NAME, 0))
        await fleet.ask(NAME, "Flush", meant=Identity("another", NAME, 0))
        fleet.weather.is_out = False
        fleet.network.lags.clear()
        await asyncio.sleep(5)
        fleet.say_state()

    settings = {"cookieFix": {"policy": "Approve"}}
    assert snapshot(extension_class=Words) == told(
        scenes, bookies=1, shows_messages=False, settings=settings
    )


# Bounds
async def _bounds(fleet: Fleet) -> None:
    await fleet.begin()
    fleet.record.is_quiet = True
    cases: dict[str, tuple[str, dict[str, Any]]] = {
        "10,000 ledgers": ("ClearLimbo", {"ledger_ids": range(10_000)}),
        "10,001 ledgers": ("ClearLimbo", {"ledger_ids": range(10_001)}),
        "10,001 available": ("GetAvailability", {"ledger_ids": range(10_001)}),
        "one negative": ("GetAvailability", {"ledger_ids": [1, -1]}),
        "100,000 ranges": ("RecheckEntries", {
            "ledger_id": 1, "ranges": [pb.EntryRange(first=n, last=n) for n in range(100_000)],
        }),
        "100,001 ranges": ("RecheckEntries", {
            "ledger_id": 1, "ranges": [pb.EntryRange(first=n, last=n) for n in range(100_001)],
        }),
        "many that are wrong": ("RecheckEntries", {
            "ledger_id": 1, "ranges": [pb.EntryRange(first=n, last=0) for n in range(9)],
        }),
    }  # fmt: skip
    for what, (method, request) in cases.items():
        found = await fleet.ask(NAME, method, **request)
        words = "refused" if found is None else f"{len(found.SerializeToString())} bytes"
        fleet.record.is_quiet = False
        fleet.record.note(f"= {what}: {words}")
        if found is None and what != "10,000 ledgers":
            fleet.note(fleet.refusals[-1])
        fleet.record.is_quiet = True
    fleet.record.is_quiet = False


def test_bounds_of_calls(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == told(_bounds, bookies=1, shows_messages=False)
