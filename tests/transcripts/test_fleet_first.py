"""The first story of a fleet: one bookie crashes, its ledger is repaired. Others are beside it."""

from bookie.ids import EntryId
from fleet_jobs import repaired
from fleet_story import Fleet, told
from syrupy.assertion import SnapshotAssertion
from transcripts import Words


async def _scenes(fleet: Fleet) -> None:
    await fleet.begin()
    writer = await fleet.write(3)
    fleet.crash("bookie-1")
    fleet.note("it comes back, and its writer goes on before it learns of it")
    await fleet.start("bookie-1")
    writer.append(b"more")
    await fleet.seen("acknowledged", writer.wait_acked(EntryId(3)))
    fleet.note("it is repaired, which ends the writer's ledger")
    await repaired(fleet, "1")
    await fleet.seen("closed", writer.close())
    fleet.say_state()
    fleet.say_store()


def test_a_crash_and_its_repair(snapshot: SnapshotAssertion) -> None:
    assert snapshot(extension_class=Words) == told(_scenes, shows_disk=True)


def test_the_same_story_is_the_same_word_by_word() -> None:
    assert told(_scenes, shows_disk=True) == told(_scenes, shows_disk=True)
