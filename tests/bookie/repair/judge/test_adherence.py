"""The placement check over columns against the one of each ledger by itself."""

import random
from pathlib import Path

import pytest
from audit_cases import BOOKIES, LEDGER_OF_THREE, ledger_columns, random_ledger
from bookie.errors import SettingsError
from bookie.ids import LedgerId
from bookie.metadata.store import RACK_PROPERTY, BookieInfo
from bookie.protocol.placement import Adherence, Racks
from bookie.repair.judge.adherence import CLASS_OF, adherence_of, misplaced, racks_of, read_racks

RACKS = {bookie_id: f"/r{n % 3}" for n, bookie_id in enumerate(BOOKIES)}


@pytest.mark.parametrize("min_racks", [1, 2, 3, 4])
@pytest.mark.parametrize("known", [9, 7, 0])
def test_ledgers_are_judged_at_once_as_one_by_one(min_racks: int, known: int) -> None:
    racks = Racks(dict(list(RACKS.items())[:known]), min_racks=min_racks)
    ledgers = [random_ledger(random.Random(seed), LedgerId(seed)) for seed in range(500)]
    wanted = [found.name if (found := misplaced(one, racks)) else None for one in ledgers]
    levels = adherence_of(ledger_columns(ledgers), racks).tolist()
    assert [CLASS_OF.get(Adherence(level)) for level in levels] == wanted


def test_a_finding_names_the_fragments_that_are_misplaced() -> None:
    racks = Racks(dict.fromkeys(BOOKIES[:3], "/r0") | {BOOKIES[5]: "/r1"})
    found = misplaced(LEDGER_OF_THREE, racks)
    assert found is not None and found.name == "placement_soft"
    assert found.fragments == ((0, BOOKIES[:3]),)


def test_no_ledgers_are_no_findings() -> None:
    assert adherence_of(ledger_columns([]), Racks(RACKS)).tolist() == []


def test_a_person_knows_racks_better_than_the_bookies(tmp_path: Path) -> None:
    path = tmp_path / "racks.yaml"
    path.write_text("b1: /mine\n")
    infos = {b: BookieInfo(b, (), {RACK_PROPERTY: "/said"}) for b in BOOKIES[:2]}
    infos[BOOKIES[2]] = BookieInfo(BOOKIES[2], ())
    found = racks_of(infos, read_racks(path))
    assert [found.of[b] for b in BOOKIES[:3]] == ["/said", "/mine", "/default-rack"]


@pytest.mark.parametrize("text", ["b1: rack", "b1: 3", "- b1", "b1: [", ""])
def test_racks_that_are_none_are_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "racks.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=r"racks\.yaml"):
        read_racks(path)
