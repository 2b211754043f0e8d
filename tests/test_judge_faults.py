"""The faults that the judge must see still fit the product, and the plan of its local runs."""

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
from judge_faults import (
    ENTRY,
    HEAD,
    MUTANTS,
    closed_ledgers,
    flip,
    flip_payload_byte,
    with_forged_ack,
)
from judge_story import Kind, faults
from mutant import Mutant
from mutant_overlay import check_fit

NOTES = (
    "judge 1\ncreate 7 v2 3/3/2 MAC\ncreate 8 v3 3/3/2 MAC\nack 7 0 4\nack 8 0 9\n"
    "close 7 4 99\nclose 8 9 99\ndeleting 7\ndeleted 7\nend 15\n"
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_text_that_a_fault_replaces_is_found(mutant: Mutant) -> None:
    check_fit(mutant)


def test_the_forged_ack_is_of_a_ledger_that_must_be_there() -> None:
    assert closed_ledgers(NOTES) == {8: 9}
    assert with_forged_ack(NOTES) == NOTES + "ack 8 10 10\n"


def test_a_flipped_byte_lies_in_a_payload_and_can_be_flipped_back(tmp_path: Path) -> None:
    log = tmp_path / "log" / "0000000001.log"
    log.parent.mkdir()
    frame = ENTRY.pack(8, 0, -1, 1 << 32)  # a frame's head says ledger and entry as well
    entry = ENTRY.pack(8, 0, -1, 23) + b"crc " + HEAD.pack(8, 0) + b"payload"
    before = frame + b"more" + entry
    log.write_bytes(before)
    file, place = flip_payload_byte([tmp_path], [7, 8])
    assert (file, log.read_bytes()) == (log, before[:-8] + b"\x01payload")
    flip(file, place)
    assert log.read_bytes() == before


def test_the_plan_is_a_function_of_the_seed_and_drains_once() -> None:
    plan = list(islice(faults(7), 50))
    assert plan == list(islice(faults(7), 50)) != list(islice(faults(8), 50))
    kinds = Counter(fault.kind for fault in plan)
    assert set(kinds) == set(Kind) and kinds[Kind.DRAIN] == 1
    drained = [fault.kind for fault in plan].index(Kind.DRAIN)
    assert all(fault.victim < 4 for fault in plan[drained + 1 :])


@pytest.mark.parametrize("seed", [7, 8, 771519])
def test_disks_are_replaced_of_one_bookie_that_stays(seed: int) -> None:
    plan = list(islice(faults(seed), 50))
    [victim] = {fault.victim for fault in plan if fault.kind is Kind.REPLACE_DISK}
    assert victim not in {fault.victim for fault in plan if fault.kind is Kind.DRAIN}
