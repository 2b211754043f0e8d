"""The table of entries: every copy read, told by bookie in intervals, judged as plain sets are."""

import os
from dataclasses import replace
from typing import Any

import audit_cases
import deep_cases
import pytest
from audit_cases import BOOKIES, plain, shares
from bookie.errors import SettingsError
from bookie.ids import LedgerId
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.placement import Racks
from bookie.repair.look.cluster import Cluster
from bookie.repair.look.digests import DigestSettings
from bookie.repair.look.entries import EntryTables
from bookie.repair.look.survey import BulkAudit, Scope, tallied, total_of
from bookie.repair.spark.engine import survey_in
from bookie.repair.spark.sources import EntriesSource, options_of
from deep_cases import DeepCases, DeepCaseSource, deep_case, expected
from pyspark.cloudpickle import register_pickle_by_value

RACKS = {bookie_id: f"/rack-{n % 3}" for n, bookie_id in enumerate(BOOKIES[:8])}
CASES = int(os.environ.get("AUDIT_CASES", "20000")) // 20
DEEP = Scope(Racks(RACKS), digests=DigestSettings())


@pytest.fixture(scope="module")
def wanted() -> Any:
    return expected(range(CASES), RACKS)


async def test_what_was_read_is_judged_as_plain_sets_are(wanted: BulkAudit) -> None:
    cases: Any = DeepCases(CASES)
    tables, parts = EntryTables(Cluster(cases, cases, cases), DigestSettings()), list[BulkAudit]()
    for start in range(0, CASES, 100):
        ledgers, answers, _reads = await tables.read([*map(LedgerId, range(start, start + 100))])
        parts.append(tallied(ledgers, answers, Racks(RACKS)))
    found = total_of(parts)
    assert found == wanted and wanted.counts.ledgers > CASES // 5 < len(wanted.doubtful)


@pytest.fixture
def session(spark: Any) -> Any:
    for module in (audit_cases, deep_cases):
        register_pickle_by_value(module)  # workers cannot import it
    return spark


@pytest.mark.process
def test_spark_reads_and_comes_to_the_same(session: Any, wanted: BulkAudit) -> None:
    looked = list[int]()
    ran = survey_in(session, str(CASES), DEEP, DeepCaseSource, looked.append)
    found = total_of(ran.results)
    assert replace(found, bytes_read=0) == wanted
    assert found.bytes_read > 100 * CASES
    assert looked == sorted(looked) and (looked[0], looked[-1]) == (0, CASES)


@pytest.mark.process
def test_each_copy_is_told_as_good_corrupt_or_unread_by_its_bookie(session: Any) -> None:
    session.dataSource.register(DeepCaseSource)
    rows = session.read.format("bookie_entries").option("metadata", "300").load().collect()
    assert len(rows) == 300
    for row in rows:
        deep = deep_case(row.ledger_id)
        owed = shares(deep.case.metadata, deep.case.through + 1)
        for said in row.answers:
            listed = owed[said.bookie_id] & deep.listed(said.bookie_id)
            good = listed - deep.bad(said.bookie_id)
            told = EntrySet.decode(said.entries) if said.entries else EMPTY
            bad = said.unread if said.bookie_id in deep.silent else said.corrupt
            assert (plain(told), ids_in(bad)) == (good, listed - good), f"seed={row.ledger_id}"
            assert bool(said.bytes_read) >= bool(good)


def ids_in(intervals: Any) -> set[int]:
    return {i for part in intervals for i in range(part.first, part.last + 1)}


# Options
def test_a_rate_is_divided_among_the_tasks_that_run_at_once() -> None:
    scope = Scope(digests=DigestSettings(bytes_per_second=1000))
    options = options_of("1000", scope, tasks_at_once=4) | {"ledgersPerPartition": "100"}
    source = DeepCaseSource(options)
    parts = source.reader(None).partitions()
    assert len(parts) == 10 and {part.tasks_at_once for part in parts} == {4}
    assert source.digests_of(parts[0]).bytes_per_second == 250


def test_whoever_says_no_number_of_tasks_gets_the_rate_divided_by_all_parts() -> None:
    source = DeepCaseSource({"metadata": "1000", "bytesPerSecond": "1000"})
    part, *_others = source.reader(None).partitions()
    assert source.digests_of(part).bytes_per_second == 200


def test_the_bounds_of_reading_go_to_the_tasks() -> None:
    scope = Scope(digests=DigestSettings(read_bytes=5, reads_per_bookie=7))
    assert EntriesSource(options_of("url", scope, tasks_at_once=1)).digests == scope.digests


@pytest.mark.parametrize("given", ["0", "-1", "many", "1.5", ""])
def test_an_option_that_is_no_number_is_named(given: str) -> None:
    with pytest.raises(SettingsError, match=f"`readBytes` is '{given}', expected a whole number"):
        EntriesSource({"metadata": "url", "readBytes": given})
