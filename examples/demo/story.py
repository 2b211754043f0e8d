"""The story: write, kill a bookie, watch its limbo clear, replace a disk, read everything back."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

from bookie.client.bookkeeper_client import Client
from bookie.metadata.store import MetadataStore
from fleet import Fleet, Status
from load import Load
from source import Input
from summary import Summary
from verify import verify
from view import Picture, View

STEPS = [
    "bring up ZooKeeper and four bookies without a journal",
    "stream real files into many ledgers",
    "SIGKILL a bookie under load: what it had in memory is gone",
    "detect, fence, limbo, repair until limbo is 0",
    "replace a ledger disk of another bookie by an empty one",
    "fix the cookie, fence, repair the lost copies",
    "audit every ledger",
    "read everything back, compare every acknowledged byte",
]
WARM_UP_S = 8.0
BETWEEN_S = 3.0
AVAILABLE_S = 60.0
INCIDENT_S = 60.0
CLEAR_S = 120.0
REFRESH_S = 0.25
KILLED = "bookie-1"
REPLACED = "bookie-2"
REPLACED_DISK = "ledger-1"


class Story:
    """One run of the demo over a fleet that is up."""

    def __init__(
        self,
        fleet: Fleet,
        source: Input,
        *,
        store: MetadataStore,
        client: Client,
        picture: Picture,
        view: View,
    ) -> None:
        self._fleet = fleet
        self._source = source
        self._store = store
        self._client = client
        self._picture = picture
        self._view = view
        self._load = Load(source, store, client)
        self.summary = Summary()

    async def tell(self) -> None:
        painter = asyncio.create_task(self._paint())
        try:
            self._begin(1)
            await self._load.start()
            await asyncio.sleep(WARM_UP_S)
            await self._kill()
            await asyncio.sleep(BETWEEN_S)
            await self._replace_disk()
            await self._wind_up()
        finally:
            painter.cancel()

    def _begin(self, step: int) -> None:
        self._picture.step = step
        self._view.say(STEPS[step])

    # Incidents
    async def _kill(self) -> None:
        self._begin(2)
        await self._load.touch_quiet()
        before = self._fleet.bookie(KILLED)["bootEpoch"]
        unflushed = await self._fleet.kill_between_flushes(KILLED)
        self._view.say(f"{KILLED} is dead, {unflushed:,} bytes were only in its memory")
        await self._incident("kill", KILLED, before, step=3)
        await self._load.touch_quiet()
        self._view.say(f"{self._load.tally.reopened} writers met a fence, reopened and went on")

    async def _replace_disk(self) -> None:
        self._begin(4)
        before = self._fleet.bookie(REPLACED)["bootEpoch"]
        await self._fleet.replace_disk(REPLACED, REPLACED_DISK)
        self._view.say(f"{REPLACED}'s {REPLACED_DISK} is a new, empty volume")
        await self._incident("disk", REPLACED, before, step=5)

    async def _incident(self, kind: str, bookie: str, epoch_before: int, *, step: int) -> None:
        """Wait for its detection, then for its end, as the status tells both."""

        def found() -> Status | None:
            self._load.check()
            incidents = self._fleet.status().get("incidents", [])
            fitting = [
                i for i in incidents if i["bookie"] == bookie and i["bootEpochAfter"] > epoch_before
            ]
            return fitting[-1] if fitting else None

        def is_found() -> bool:
            return found() is not None

        def is_over() -> bool:
            incident = found()
            return incident is not None and incident["outcome"] == "Cleared"

        await self._fleet.wait(f"the {kind} of {bookie}", until=is_found, seconds=INCIDENT_S)
        self._begin(step)
        incident = found()
        assert incident is not None
        self._view.say(
            f"{incident['kind']}: boot epoch {incident['bootEpochAfter']}, "
            f"{incident['ledgersFenced']} ledgers fenced, {incident['ledgersInLimbo']} in limbo"
        )
        await self._fleet.wait(f"limbo of {bookie} to clear", until=is_over, seconds=CLEAR_S)
        incident = found()
        assert incident is not None
        self._note(kind, incident)

    def _note(self, kind: str, incident: Status) -> None:
        row = {
            "kind": kind,
            "bookie": incident["bookie"],
            "boot_epoch_before": incident["bootEpochBefore"],
            "boot_epoch_after": incident["bootEpochAfter"],
            "ledgers_fenced": incident["ledgersFenced"],
            "ledgers_in_limbo": incident["ledgersInLimbo"],
            "entries_copied": incident["entriesCopied"],
            "entries_copied_closed": incident["entriesCopiedClosed"],
            "seconds_to_detect": incident["secondsToDetect"],
            "seconds_to_clear": incident["secondsToClear"],
            "engine": incident["engine"],
            "spark_app_id": incident["sparkAppId"],
        }
        self.summary.incidents.append(row)
        self.summary.engine, self.summary.spark_app_id = row["engine"], row["spark_app_id"]
        self._view.say(
            f"limbo is 0 after {row['seconds_to_clear']:.1f} s, "
            f"{row['entries_copied']:,} entries copied by {row['engine']}"
        )

    # The end
    async def _wind_up(self) -> None:
        self._begin(6)
        self.summary.bookie_memory_mib = self._fleet.memory_mib()
        await self._load.stop()
        self.summary.audit = await self._fleet.audit()
        self._begin(7)
        tally = self._load.tally
        found = await verify(self._source, tally, store=self._store, client=self._client)
        summary = self.summary
        summary.acked_entries, summary.acked_bytes = tally.entries, tally.bytes
        summary.ledgers_written, summary.ledgers_read = tally.ledgers, found.ledgers_read
        summary.lost_entries, summary.wrong_bytes = found.lost_entries, found.wrong_bytes
        summary.writer_reopened = tally.reopened
        self._picture.step = len(STEPS)
        self._view.say(f"{found.entries_read:,} entries read back")

    # What the view shows
    async def _paint(self) -> None:
        entries, moment = 0, time.monotonic()
        while True:
            await asyncio.sleep(REFRESH_S)
            tally, now = self._load.tally, time.monotonic()
            self._picture.rates.append((tally.entries - entries) / (now - moment))
            entries, moment = tally.entries, now
            self._picture.acked_entries, self._picture.acked_bytes = tally.entries, tally.bytes
            self._picture.ledgers, self._picture.reopened = tally.ledgers, tally.reopened
            show_status(self._picture, self._fleet.status())


def show_status(picture: Picture, status: Status) -> None:
    """Put the status object into the picture."""
    picture.bookies = [_bookie_row(item) for item in status["bookies"]]
    picture.repair = _running_repair(status["bookies"])
    picture.conditions = {item["type"]: item["status"] for item in status["conditions"]}


def _bookie_row(item: Status) -> dict[str, Any]:
    last = item.get("lastShutdown") or {}
    return {
        "id": item["id"],
        "state": item["state"],
        "epoch": item["bootEpoch"],
        "last_boot": last.get("reason") or "-",
        "limbo": item["limboLedgers"],
        "unchecked": item["uncheckedLedgers"],
        "disks": _disks(item["disks"]),
    }


def _disks(disks: list[Status]) -> str:
    """Only what is out of the ordinary is spelled out; `new` is every disk of a first boot."""
    odd = [f"{d['name']} {d['verdict'] or '?'}" for d in disks if d["verdict"] not in ("ok", "new")]
    return ", ".join(odd) or f"{len(disks)} ok"


def _running_repair(bookies: list[Status]) -> str:
    for item in bookies:
        repair = item.get("repair") or {}
        if repair.get("state") == "Running":
            seconds = (datetime.now(UTC) - datetime.fromisoformat(repair["startedAt"])).seconds
            return (
                f"repair of {item['id']}, attempt {repair['attempt']}, for {seconds} s: "
                "recover, copy, audit, clear"
            )
    return ""
