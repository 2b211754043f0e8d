"""Findings of a whole audit: silent bookies, marks and their grace, racks, and since when."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bookie.errors import SettingsError
from bookie.exit_codes import Exit
from bookie.ids import EntryId
from bookie.metadata.store import RACK_PROPERTY, RPC_ENDPOINT, BookieInfo, Endpoint
from bookie.protocol.recovery import ACCEPTED_LOSS_KEY
from bookie.repair.jobs.audit_job import AuditRequest, Checks, audit
from bookie.repair.jobs.repair_job import RepairRequest, repair
from bookie.repair.look.digests import DigestSettings
from bookie.repair.reports.finding_history import InFile, InStore
from bookie.repair.reports.result import write_whole
from repair_lab import AUDIT, SETTINGS, RepairLab


@pytest.fixture
async def lab() -> RepairLab:
    return await RepairLab(6).start()


async def look(lab: RepairLab, checks: Checks | None = None, **more: Any) -> dict[str, Any]:
    history = more.pop("history", InStore(lab.store))
    request = AuditRequest(settings=AUDIT, checks=checks or Checks(), **more)
    return await audit(lab.cluster, request, history=history)


def hit(document: Mapping[str, Any]) -> dict[str, int]:
    """Classes with findings."""
    counts = {name: count["findings"] for name, count in document["classes"].items()}
    return {name: count for name, count in counts.items() if count}


# Silent bookies
async def test_a_silent_bookie_that_is_registered_is_a_finding(lab: RepairLab) -> None:
    await lab.ledger(entries=3, last=2)
    lab.fleet[1].down = True
    first, second = await look(lab), await look(lab)
    assert hit(first) == {"unknown": 1, "silent_bookie": 1} and first["exit_code"] == 4
    (silent,) = second["silent_bookies"]
    assert silent["bookie_id"] == lab.ids[1]
    assert silent["first_seen_ms"] == first["started_at_ms"] <= silent["last_seen_ms"]


async def test_one_that_is_not_registered_is_known_to_be_away(lab: RepairLab) -> None:
    await lab.ledger(entries=3, last=2)
    lab.fleet[1].down = True
    await lab.store.unregister(lab.ids[1])
    found = await look(lab)
    assert hit(found) == {"unknown": 1} and found["unreachable"] == [lab.ids[1]]


async def test_one_of_apaches_that_says_nothing_to_us_is_none(lab: RepairLab) -> None:
    await lab.ledger(entries=3, last=2)
    lab.fleet[1].down = True
    rpc = Endpoint(RPC_ENDPOINT, "host", 3181, RPC_ENDPOINT)
    await lab.store.register(BookieInfo(lab.ids[1], (rpc,)))
    assert hit(await look(lab)) == {"unknown": 1}


async def test_one_that_answers_when_it_is_asked_once_more_is_none(lab: RepairLab) -> None:
    await lab.ledger(entries=3, last=2)
    lab.control.unreachable.add(lab.ids[1])
    real = lab.store.bookies

    async def back_again() -> Mapping[Any, BookieInfo]:
        if ("availability", lab.ids[1]) in lab.control.asked:
            lab.control.unreachable.clear()
        return await real()

    lab.store.bookies = back_again  # type: ignore[method-assign]
    assert hit(await look(lab)) == {"unknown": 1}


# Last copies
@pytest.mark.parametrize(("asked", "missing_on"), [(None, 2), (1, 2), (2, 2), (3, 1)])
async def test_copies_are_too_few_below_what_is_asked_for_and_below_two_in_any_case(
    lab: RepairLab, asked: int | None, missing_on: int
) -> None:
    ledger = await lab.ledger(entries=4, last=3)
    for number in range(missing_on):
        found = (await look(lab, Checks(ack_quorum=asked)))["last_copies"]
        assert found["entries"] == 0, number
        lab.fleet[number].lose(ledger.ledger_id, [2])
    assert (await look(lab, Checks(ack_quorum=asked)))["last_copies"]["entries"] == 1


async def test_an_accepted_loss_is_told_though_nothing_else_is_wrong_with_its_ledger(
    lab: RepairLab,
) -> None:
    ledger = await lab.ledger(entries=4, last=3)
    stored = await lab.store.read_ledger(ledger.ledger_id)
    accepted = replace(stored.value, custom={ACCEPTED_LOSS_KEY: b"who and why"})
    await lab.store.write_ledger(accepted, version=stored.version)
    found = await look(lab)
    assert [one["ledger_id"] for one in found["accepted_losses"]] == [ledger.ledger_id]
    assert hit(found) == {}


# Marks
async def marked(lab: RepairLab, *, age_s: int, now_ms: int) -> None:
    ledger = await lab.ledger(entries=4, last=3)
    lab.fleet[1].lose(ledger.ledger_id, [2])
    await lab.store.underreplication.mark(
        ledger.ledger_id, [lab.ids[1]], now_ms=now_ms - age_s * 1000
    )


async def test_a_ledger_with_a_young_mark_is_left_alone(lab: RepairLab) -> None:
    now_ms = (await look(lab))["started_at_ms"]
    await marked(lab, age_s=50, now_ms=now_ms)
    found = await look(lab, Checks(grace_s=100))
    assert hit(found) == {} and found["underreplicated_skipped"] == 1
    assert found["audit"]["ledgers"] == 0 and found["exit_code"] == 4


async def test_an_old_mark_is_a_finding_beside_what_the_ledger_lacks(lab: RepairLab) -> None:
    now_ms = (await look(lab))["started_at_ms"]
    await marked(lab, age_s=500, now_ms=now_ms)
    found = await look(lab, Checks(grace_s=100))
    assert hit(found) == {"missing": 1, "below_write_quorum": 1, "underreplicated": 1}
    assert 500 <= found["underreplicated"][0]["age_s"] < 560 and found["exit_code"] == 3


async def test_without_grace_no_mark_excuses_anything(lab: RepairLab) -> None:
    await marked(lab, age_s=0, now_ms=(await look(lab))["started_at_ms"])
    assert hit(await look(lab))["missing"] == 1


async def test_a_whole_ledger_with_a_young_mark_is_whole(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=4, last=3)
    now_ms = (await look(lab))["started_at_ms"]
    await lab.store.underreplication.mark(ledger.ledger_id, [], now_ms=now_ms)
    found = await look(lab, Checks(grace_s=1000))
    assert found["audit"]["ok"] == 4 and found["underreplicated_skipped"] == 0


# Racks
async def racked(lab: RepairLab, *racks: str) -> None:
    for bookie_id, rack in zip(lab.ids, racks, strict=False):
        info = (await lab.store.bookies())[bookie_id]
        await lab.store.register(BookieInfo(bookie_id, info.endpoints, {RACK_PROPERTY: rack}))


@pytest.mark.parametrize("digests", [None, DigestSettings()])
async def test_misplaced_ledgers_are_findings_and_no_loss(
    lab: RepairLab, digests: DigestSettings | None
) -> None:
    await racked(lab, "/a", "/a", "/a", "/b", "/b", "/c")
    await lab.ledger((0, (0, 1, 2)), entries=3, last=2)
    await lab.ledger((0, (0, 1, 3)), entries=3, last=2)
    await lab.ledger((0, (0, 3, 5)), entries=3, last=2)
    found = await look(lab, Checks(min_racks=3), digests=digests)
    assert hit(found) == {"placement_soft": 1, "placement_strict": 1} and found["exit_code"] == 0
    assert [row["ledger_id"] for row in found["misplaced"]] == [0, 1] and found["racks"] == 3


async def test_racks_of_a_file_outweigh_those_of_bookies(lab: RepairLab) -> None:
    await racked(lab, "/a", "/b", "/c")
    await lab.ledger(entries=3, last=2)
    everywhere = dict.fromkeys(lab.ids[:3], "/x")
    assert hit(await look(lab, Checks(racks=everywhere))) == {"placement_soft": 1}
    assert hit(await look(lab)) == {}


# Since when
async def test_a_finding_keeps_its_first_time_and_heals(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=4, last=3)
    lab.fleet[1].lose(ledger.ledger_id, [2])
    first, second = await look(lab), await look(lab)
    (finding,) = second["findings"]
    assert finding["first_seen_ms"] == first["started_at_ms"]
    assert finding["last_seen_ms"] == second["started_at_ms"]
    lab.write(ledger, [2])
    third = await look(lab)
    assert {row["class"] for row in third["healed"]} == {"missing", "below_write_quorum"}
    assert (await look(lab))["healed"] == []


async def test_silence_heals_nothing(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=4, last=3)
    lab.fleet[1].lose(ledger.ledger_id, [2])
    first = await look(lab)
    lab.fleet[1].down = True
    assert (await look(lab))["healed"] == []
    lab.fleet[1].down = False
    (finding,) = (await look(lab))["findings"]
    assert finding["first_seen_ms"] == first["started_at_ms"]


@pytest.mark.parametrize("holes", [1, 2, 3])
async def test_findings_of_an_entry_stay_though_a_bookie_that_lacks_it_goes_away(
    lab: RepairLab, holes: int
) -> None:
    """Of its other copies one may be missing for certain, so that the entry is not unknown."""
    ledger = (await lab.ledger(entries=1, last=0)).ledger_id
    for number in range(holes):
        lab.fleet[number].lose(ledger, [0])
    first = await look(lab)
    lab.fleet[0].down = True
    for named in (None, [ledger]):
        assert (await look(lab, ledger_ids=named))["healed"] == []
    lab.fleet[0].down = False
    (finding,) = (await look(lab))["findings"]
    assert set(finding["first_seen_by_class"].values()) == {first["started_at_ms"]}


async def test_a_mark_that_excuses_a_finding_heals_nothing(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=4, last=3)
    lab.fleet[1].lose(ledger.ledger_id, [2])
    first = await look(lab)
    await lab.store.underreplication.mark(ledger.ledger_id, [], now_ms=first["started_at_ms"])
    excused = await look(lab, Checks(grace_s=1000))
    assert (excused["underreplicated_skipped"], excused["healed"]) == (1, [])
    (finding,) = (await look(lab))["findings"]
    assert finding["first_seen_ms"] == first["started_at_ms"]


async def test_an_audit_of_other_ledgers_heals_nothing(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=4, last=3)
    other = await lab.ledger(entries=4, last=3)
    lab.fleet[1].lose(ledger.ledger_id, [2])
    await look(lab)
    assert (await look(lab, ledger_ids=[other.ledger_id]))["healed"] == []


async def test_an_audit_of_indexes_does_not_heal_bit_rot(lab: RepairLab) -> None:
    ledger = await lab.ledger(entries=4, last=3)
    lab.fleet[1].corrupt(ledger.ledger_id, EntryId(2))
    assert hit(await look(lab, digests=DigestSettings()))["corrupt"] == 1
    for named in (None, [ledger.ledger_id]):
        assert (await look(lab, ledger_ids=named))["healed"] == []
    lab.fleet[1].lose(ledger.ledger_id, [2])
    lab.write(ledger, [2])
    healed = (await look(lab, digests=DigestSettings()))["healed"]
    assert {row["class"] for row in healed} >= {"corrupt", "missing"}


async def test_bit_rot_of_a_ledger_that_was_deleted_is_over(lab: RepairLab) -> None:
    ledger = (await lab.ledger(entries=4, last=3)).ledger_id
    lab.fleet[1].corrupt(ledger, EntryId(2))
    await look(lab, digests=DigestSettings())
    await lab.store.delete_ledger(ledger)
    assert "corrupt" in {row["class"] for row in (await look(lab))["healed"]}
    assert (await look(lab))["healed"] == []


@pytest.mark.parametrize("away", [(1,), (3, 4, 5)])
async def test_placement_is_not_mended_by_bookies_that_go_away(
    lab: RepairLab, away: tuple[int, ...]
) -> None:
    """A member of unknown rack, or no bookie of another rack."""
    await racked(lab, "/a", "/a", "/a", "/b", "/b", "/c")
    await lab.ledger((0, (0, 1, 2)), entries=3, last=2)
    await lab.ledger((0, (1, 3, 5)), (2, (2, 3, 4)), entries=3, last=2)
    assert hit(await look(lab)) == {"placement_soft": 1}
    for number in away:
        lab.fleet[number].down = True
        await lab.store.unregister(lab.ids[number])
    away_now = await look(lab)
    assert (away_now["misplaced"], away_now["healed"]) == ([], [])


async def test_placement_is_mended_by_racks_and_not_by_metadata_that_cannot_be_read(
    lab: RepairLab,
) -> None:
    await racked(lab, "/a", "/a", "/a", "/b")
    ledgers = [(await lab.ledger(entries=3, last=2)).ledger_id for _ in range(2)]
    assert hit(await look(lab)) == {"placement_soft": 2}
    lab.garble(ledgers[0])
    assert (await look(lab))["healed"] == []
    await racked(lab, "/a", "/b", "/c", "/d")
    assert [row["ledger_id"] for row in (await look(lab))["healed"]] == [ledgers[1]]


async def test_a_finding_is_logged_in_full_once(
    lab: RepairLab, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = await lab.ledger(entries=4, last=3)
    lab.fleet[1].lose(ledger.ledger_id, [2])
    await look(lab)
    (full, counts) = caplog.messages
    assert json.loads(full.removeprefix("first seen: "))["missing"]["ranges"] == [[2, 2]]
    assert '"missing": 1' in counts
    caplog.clear()
    await look(lab)
    assert [m.split(":")[0] for m in caplog.messages] == ["findings by class"]


async def test_a_history_that_cannot_be_read_is_refused_before_the_work(
    lab: RepairLab, tmp_path: Path
) -> None:
    await lab.ledger(entries=3, last=2)
    (tmp_path / "other.json").write_text("{}\n")
    with pytest.raises(SettingsError, match="no history of findings"):
        await look(lab, history=InFile(tmp_path / "other.json", write_whole))
    assert lab.control.asked == []


async def test_without_a_history_all_is_seen_now_and_nothing_logged(
    lab: RepairLab, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    ledger = await lab.ledger(entries=4, last=3)
    lab.fleet[1].lose(ledger.ledger_id, [2])
    found = await look(lab, history=None)
    assert found["findings"][0]["first_seen_ms"] == found["started_at_ms"]
    assert caplog.messages == []


# Metadata that nobody can read
@pytest.mark.parametrize("digests", [None, DigestSettings()])
async def test_a7_metadata_that_cannot_be_read_is_a_finding_of_its_ledger_alone(
    lab: RepairLab, digests: DigestSettings | None
) -> None:
    await lab.ledger(entries=3, last=2)
    garbled = await lab.ledger(entries=3, last=2)
    lab.garble(garbled.ledger_id)
    first, second = await look(lab, digests=digests), await look(lab, digests=digests)
    assert hit(first) == {"metadata_unreadable": 1} and first["exit_code"] == 4
    assert (first["audit"]["ledgers"], first["audit"]["ok"]) == (1, 3)
    (found,) = second["unreadable_ledgers"]
    assert found["ledger_id"] == garbled.ledger_id and "no known format" in found["message"]
    assert found["first_seen_ms"] == first["started_at_ms"]


async def test_a7_what_was_missing_is_not_healed_when_the_metadata_cannot_be_read(
    lab: RepairLab,
) -> None:
    damaged = await lab.ledger(entries=3, last=2)
    lab.fleet[1].lose(damaged.ledger_id, [1])
    assert "missing" in hit(await look(lab))
    lab.garble(damaged.ledger_id)
    assert (await look(lab))["healed"] == []


async def test_a7_a_repair_names_what_it_cannot_read_and_repairs_the_others(lab: RepairLab) -> None:
    damaged, garbled = [await lab.ledger(entries=3, last=2) for _ in range(2)]
    lab.fleet[1].lose(damaged.ledger_id, [1])
    lab.garble(garbled.ledger_id)
    result = await repair(lab.cluster, RepairRequest(engine="inline", settings=SETTINGS))
    assert result["entries_copied"] == 1 and lab.held(1, damaged.ledger_id) == [0, 1, 2]
    (blocked,) = result["blocked"]
    assert (blocked["ledger_id"], blocked["reason"]) == (garbled.ledger_id, "MetadataUnreadable")


# Open ends
@pytest.mark.parametrize(("away", "is_open_ended"), [(0, False), (1, False), (2, True), (3, True)])
async def test_of_an_open_ledger_nothing_is_known_to_be_there_while_an_ack_quorum_is_silent(
    lab: RepairLab, away: int, is_open_ended: bool
) -> None:
    """E3/Qw3/Qa2, nothing known to be acknowledged: two may have acknowledged what one denies."""
    ledger = await lab.ledger(entries=0)
    for number in range(away):
        lab.fleet[number].down = True
        await lab.store.unregister(lab.ids[number])
    found = await look(lab)
    assert found["open_ended"] == ([ledger.ledger_id] if is_open_ended else [])
    assert (found["exit_code"] == Exit.OK) is not is_open_ended
