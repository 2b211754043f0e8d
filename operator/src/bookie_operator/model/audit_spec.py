"""Audits and scrubs: when they run, and what follows from their findings."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from bookie_operator.model.base import Resource
from bookie_operator.model.repair_spec import RepairEngine
from bookie_operator.model.schedule import Schedule


class OnFindings(StrEnum):
    REPAIR = "Repair"
    REPORT = "Report"


class Audit(Resource):
    """An audit compares the copies that bookies say they hold with those that must exist."""

    schedule: Schedule = "@hourly"
    """When audits run: `@hourly`, `@daily`, `@every 30m`, cron in UTC (`0 3 * * *`), or `@never`
    (then only after events that may have left copies missing)."""
    on_findings: OnFindings = OnFindings.REPAIR
    """`Repair`: the operator makes copies again that an audit finds missing or corrupt, once every
    bookie serves; `Report`: it reports them, and repairs them when a person asks."""
    engine: RepairEngine = RepairEngine.AUTO
    """What does the work of an audit: `inline`, `spark-local` and `spark-kubernetes` as in
    `repair.engine`; `auto` chooses by the number of ledgers."""
    recheck_delay_seconds: Annotated[float, Field(ge=0, le=3600)] = 3.0
    """How long an audit waits before it asks bookies again that did not answer, in seconds."""
    underreplicated_grace_seconds: Annotated[float, Field(ge=0, le=30 * 86400)] = 0.0
    """An audit reports a ledger that BookKeeper has marked as under-replicated only when the mark
    is older than this many seconds."""
    min_racks: Annotated[int, Field(ge=1, le=16)] = 2
    """How many racks the copies of an entry must span, if the cluster has that many."""


class Scrub(Resource):
    """A scrub reads every copy, verifies its digest, and replaces corrupt copies by good ones."""

    schedule: Schedule = "@every 7d"
    """When scrubs run: `@daily`, `@every 30d`, cron in UTC (`0 3 * * MON`), or `@never` (then only
    when a BookieTask asks for one)."""
    read_bytes_per_second: Annotated[int, Field(ge=64 * 1024, le=2**40)] = 8 * 1024 * 1024
    """How many bytes per second a scrub reads from each bookie; it shares the disks with
    clients."""
    deadline_seconds: Annotated[float, Field(ge=1, le=30 * 86400)] = 7 * 86400.0
    """A scrub that runs longer than this many seconds is stopped and counts as failed; the next one
    continues where it stopped."""
