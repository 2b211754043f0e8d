"""Plans of strokes: the same for ever, every kind of fault among them; what they are made of."""

import asyncio
import hashlib
import random
from dataclasses import astuple
from pathlib import Path

from bookie.errors import DigestError
from bookie.frames.build import build_run
from bookie.frames.entry import EntryCodec, master_key
from bookie.ids import NO_ENTRY, EntryId, LedgerId
from bookie.protocol.ledger import DigestType
from bookie.testing.native_messages import parse_envelope
from bookie.testing.simulation.families import family_of
from bookie.testing.simulation.loop import SimLoop
from bookie.testing.simulation.network import Network, Weather, forged
from bookie.testing.simulation.plan import Fault, Plan, Scale
from bookie.testing.simulation.plan_choice import KINDS, SECOND_FROM, plan_of
from bookie.testing.simulation.process import Process
from bookie.testing.simulation.world import simulate
from bookie.wire.native import Op, envelope_header, parse_add

FOUND = Path(__file__).parent / "found"
SEEDS = range(SECOND_FROM, SECOND_FROM + 2000)
OF_STROKES = {
    "ask-now", "audit-now", "bit-rot", "clear-now", "crash-boot", "cut-answer", "cut-checkpoint",
    "cut-stop", "delete-now", "disk-hiccup", "doubt-now", "drain", "forge", "gone", "idle-client",
    "lag", "late-writes", "leak", "namesake", "other-mode", "pause", "put-back", "recover-now",
    "sleep-bookie", "sleep-client", "slow-disk", "stale-reads", "stop-boot", "torn", "torn-end",
    "twin", "wipe-boot",
}  # fmt: skip


def test_every_kind_of_fault_comes_up_in_strokes() -> None:
    plans = [plan_of(seed) for seed in SEEDS if family_of(seed) is None]
    drawn = {fault.kind for plan in plans for fault in plan.faults}
    assert drawn >= OF_STROKES
    assert drawn - OF_STROKES <= set(KINDS)


def test_a_seed_of_strokes_keeps_its_plan() -> None:
    drawn = hashlib.sha256()
    for plan in map(plan_of, SEEDS):
        scale = plan.scale  # fields that came later have their defaults
        drawn.update(repr((plan.keeps_budget, scale.mode, scale.entries, scale.lease_s)).encode())
        drawn.update(repr([astuple(fault) for fault in plan.faults]).encode())
    assert drawn.hexdigest()[:16] == "4ace229356f95e4d"


def test_ack_quorum_1_is_drawn_only_where_a_mode_syncs() -> None:
    scales = [plan_of(seed).scale for seed in SEEDS]
    assert {scale.mode for scale in scales if scale.ack_quorum == 1} == {"sync", "journal"}


def test_what_was_found_is_a_plan_still() -> None:
    plans = [Plan.from_json(path.read_text(encoding="utf-8")) for path in FOUND.glob("*.json")]
    assert all(plan.faults for plan in plans)


def loop() -> SimLoop:
    network = Network(random.Random(1), Weather())
    network.loop = SimLoop(network, random.Random(1))
    return network.loop


def test_a_process_that_sleeps_goes_on_where_it_stopped_and_others_do_not_wait() -> None:
    made = loop()
    told: list[tuple[str, float]] = []

    async def count(name: str) -> None:
        for _ in range(3):
            await asyncio.sleep(1.0)
            told.append((name, made.time()))

    async def story() -> None:
        one, other = (Process(name, made, random.Random(1), work_s=0.0) for name in ("a", "b"))
        tasks = [one.spawn(count("a")), other.spawn(count("b"))]
        await asyncio.sleep(1.5)
        one.sleep()
        await asyncio.sleep(4.0)
        one.wake()
        await asyncio.wait(tasks)

    made.run_until_complete(story())
    made.close()
    assert [when for name, when in told if name == "b"] == [1.0, 2.0, 3.0]
    assert [when for name, when in told if name == "a"] == [1.0, 5.5, 6.5]


def test_a_forged_add_has_every_checksum_right_but_the_digest() -> None:
    codec = EntryCodec(LedgerId(4), DigestType.CRC32C, b"secret")
    entry = codec.encode(EntryId(0), b"payload", lac=NO_ENTRY, length=7)
    body = master_key(b"secret") + bytes(build_run(LedgerId(4), EntryId(0), [entry], lac=NO_ENTRY))
    message = envelope_header(Op.ADD_RUN, 0, 1, len(body)) + body
    changed = forged(message, random.Random(1))
    _key, run = parse_add(parse_envelope(changed).body)
    try:
        codec.decode(next(run.entries()))
    except DigestError:
        return
    raise AssertionError("the digest verifies")


NAMESAKE = Plan(
    5, Scale(load_s=8.0, recoverers=2, askers=1), (Fault(2.0, "namesake", 0, lasts_s=3.0),)
)
TWIN = Plan(
    6,
    Scale(load_s=14.0, lease_s=2.0, askers=1, pause_s=0.05, entries=1000),
    (Fault(0.9, "store-partition", 0, lasts_s=12.0), Fault(1.5, "twin", 0, lasts_s=11.5)),
)
PUT_BACK = Plan(7, Scale(load_s=8.0, mode="sync"), (Fault(2.0, "put-back", 0, lasts_s=3.0),))


def test_a_bookie_of_another_cluster_in_its_place_denies_and_takes_nothing() -> None:
    assert simulate(NAMESAKE).violations == ()


def test_two_processes_of_a_bookie_break_no_promise() -> None:
    verdict = simulate(TWIN, with_lines=True)
    assert verdict.violations == ()
    assert any("the second process of bookie-0: serves" in line for line in verdict.lines)


def test_disks_that_were_put_back_are_noticed_and_a_person_asked() -> None:
    verdict = simulate(PUT_BACK, with_lines=True)
    assert verdict.violations == ()
    assert any("a person approves what bookie-0 asks" in line for line in verdict.lines)
