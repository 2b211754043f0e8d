"""The table of disks: stamps, volumes, markers and cookie against what a boot does."""

from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import pytest
from bookie.boot.cookie_fix import fix_plan
from bookie.boot.inspection import DiskInspection, Inspection
from bookie.boot.marker import NO_MARKER, UNREADABLE_MARKER, FoundMarker, Marker
from bookie.boot.stamps import Stamp
from bookie.boot.verdicts import STRANGE_SHOWN_MAX, DiskVerdict, Kind, decide
from bookie.ids import BookieId
from bookie.metadata.store import Cookie
from bookie.storage.modes import DurabilityMode
from bookie.storage.routing import ROUTING_VERSION
from hypothesis import given, settings
from hypothesis import strategies as st

ME = BookieId("bookie-0")
CLUSTER = "cluster-a"
EPOCH = 7
UIDS = ("uid-j", "uid-0", "uid-1")
PLACES = (("journal", 0), ("ledger", 0), ("ledger", 1))
OK, EMPTY, STALE = DiskVerdict.OK, DiskVerdict.EMPTY, DiskVerdict.STALE
JOURNAL, MEMORY, SYNC = DurabilityMode.JOURNAL, DurabilityMode.MEMORY, DurabilityMode.SYNC
GENERATION = 30
CLEAN = FoundMarker(True, Marker(EPOCH, MEMORY, GENERATION, is_clean=True))


def stamp(place: int, **changes: object) -> Stamp:
    role, index = PLACES[place]
    ours = Stamp(CLUSTER, ME, role, index, 2, ROUTING_VERSION, f"disk-{place}", EPOCH, UIDS)
    return replace(ours, **changes)  # type: ignore[arg-type]


def disk(place: int, **changes: object) -> DiskInspection:
    role, index = PLACES[place]
    path = Path("/data") / f"{role}-{index}"
    found = DiskInspection(path, role, index, stamp(place), CLEAN, volume_uid=UIDS[place])
    return replace(found, **changes)  # type: ignore[arg-type]


COOKIE = Cookie(ME, ("/data/journal-0",), ("/data/ledger-0", "/data/ledger-1"), CLUSTER)


def found(*disks: DiskInspection, **changes: object) -> Inspection:
    """As after an orderly stop, but for the disks given in the places of others."""
    all_disks = {(d.role, d.index): d for d in [disk(0), disk(1), disk(2), *disks]}
    usual = Inspection(ME, CLUSTER, tuple(all_disks.values()), COOKIE, EPOCH, EPOCH, GENERATION)
    return replace(usual, **changes)  # type: ignore[arg-type]


def blank(place: int, **changes: object) -> DiskInspection:
    return disk(place, **{"stamp": None, "marker": NO_MARKER, "holds_store": False, **changes})


@dataclass(frozen=True)
class Row:
    name: str
    found: Inspection
    kind: Kind
    verdict: DiskVerdict
    says: str = ""


ROWS = [
    Row("same volume, our stamp, cookie", found(), Kind.NORMAL, OK),
    Row(
        "another volume, no stamp, cookie",
        found(blank(1, volume_uid="uid-new")),
        Kind.FIX,
        EMPTY,
        "volume uid-new replaced uid-0",
    ),
    Row("same volume, no stamp, cookie", found(blank(1)), Kind.FIX, EMPTY, "wiped"),
    Row(
        "volumes not told, no stamp, cookie",
        found(blank(1, volume_uid="")),
        Kind.FIX,
        EMPTY,
        "replaced or wiped",
    ),
    Row("our stamp, nothing else", found(disk(1, holds_store=False)), Kind.FIX, EMPTY, "wiped"),
    Row(
        "stamp of another bookie",
        found(disk(1, stamp=stamp(1, bookie_id="bookie-9"))),
        Kind.REFUSE,
        DiskVerdict.FOREIGN,
        "bookie-9",
    ),
    Row(
        "stamp of another place",
        found(disk(1, stamp=stamp(2))),
        Kind.REFUSE,
        DiskVerdict.SWAPPED,
        "stamped as ledger 1",
    ),
    Row(
        "stamp of another role",
        found(disk(1, stamp=stamp(0))),
        Kind.REFUSE,
        DiskVerdict.SWAPPED,
        "stamped as journal 0",
    ),
    Row(
        "stamp of another cluster",
        found(disk(1, stamp=stamp(1, instance_id="cluster-b"))),
        Kind.REFUSE,
        DiskVerdict.FOREIGN,
        "cluster-b",
    ),
    Row(
        "another count of directories",
        found(disk(1, stamp=stamp(1, ledger_directories=3))),
        Kind.REFUSE,
        DiskVerdict.RESHAPED,
        "stamped with 3",
    ),
    Row(
        "another routing",
        found(disk(1, stamp=stamp(1, routing_version=2))),
        Kind.REFUSE,
        DiskVerdict.RESHAPED,
        "routing 2",
    ),
    Row(
        "another volume, our stamp",
        found(disk(1, volume_uid="uid-clone")),
        Kind.ASK,
        STALE,
        "uid-clone",
    ),
    Row(
        "an older epoch",
        found(disk(1, stamp=stamp(1, boot_epoch=EPOCH - 1))),
        Kind.ASK,
        STALE,
        "stamped by boot 6, the last was 7",
    ),
    Row(
        "a newer epoch: the store's came after the stamps",
        found(disk(1, stamp=stamp(1, boot_epoch=EPOCH + 1))),
        Kind.NORMAL,
        OK,
    ),
    Row(
        "a stamp that cannot be read",
        found(disk(1, stamp=None, problem="no stamp: half a file")),
        Kind.REFUSE,
        DiskVerdict.TORN,
        "half a file",
    ),
    Row(
        "something else's directory",
        found(blank(1, strange=("home", "photos"))),
        Kind.REFUSE,
        DiskVerdict.FOREIGN,
        "home, photos",
    ),
    Row(
        "a volume that was not told before",
        found(disk(1, stamp=stamp(1, volume_uids=()))),
        Kind.NORMAL,
        OK,
    ),
    Row("a volume that is told no more", found(disk(1, volume_uid="")), Kind.NORMAL, OK),
    Row(
        "no stamp, beside stamps that name no volume",
        found(blank(1), *(disk(place, stamp=stamp(place, volume_uids=())) for place in (0, 2))),
        Kind.FIX,
        EMPTY,
        "is empty: replaced or wiped",
    ),
    Row(
        "an older generation, of a store that knows no boot",
        found(disk(1, marker=FoundMarker(True, Marker(EPOCH, SYNC, 29))), last_epoch=None),
        Kind.ASK,
        STALE,
        "its generation is 29, the metadata store has seen 30",
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_row(row: Row) -> None:
    decision = decide(row.found)
    assert (decision.kind, decision.verdicts[1]) == (row.kind, row.verdict)
    assert row.says in decision.message


BLANKS = (blank(0), blank(1), blank(2))


def test_no_cookie_and_no_stamp_is_a_new_bookie() -> None:
    decision = decide(found(*BLANKS, cookie=None, last_epoch=None))
    assert decision.kind is Kind.NEW_BOOKIE
    assert set(decision.verdicts) == {DiskVerdict.NEW}


def test_no_cookie_but_a_stamp_is_lost_metadata() -> None:
    decision = decide(found(blank(0), blank(1), cookie=None))
    assert decision.kind is Kind.REFUSE
    assert "restore the cookie" in decision.message


def test_all_disks_replaced_is_a_fix_never_a_new_identity() -> None:
    decision = decide(found(*BLANKS))
    assert (decision.kind, decision.replaced) == (Kind.FIX, (0, 1, 2))


@pytest.mark.parametrize(
    ("cookie", "says"),
    [
        (replace(COOKIE, bookie_id=BookieId("bookie-9")), "names bookie bookie-9"),
        (replace(COOKIE, instance_id="cluster-b"), "names cluster cluster-b"),
        (replace(COOKIE, ledger_dirs=("/a",)), "names 1 journal and 1 ledger"),
        (replace(COOKIE, journal_dirs=("/a", "/b")), "names 2 journal and 2 ledger"),
    ],
)
def test_a_cookie_that_contradicts_refuses_also_with_blank_disks(cookie: Cookie, says: str) -> None:
    for disks in ((), BLANKS):
        decision = decide(found(*disks, cookie=cookie))
        assert decision.kind is Kind.REFUSE
        assert says in decision.message


def test_every_refusal_is_told_at_once() -> None:
    swapped = found(disk(1, stamp=stamp(2)), disk(2, stamp=stamp(1)))
    message = decide(swapped).message
    assert "/data/ledger-0" in message and "/data/ledger-1" in message


def test_a_stale_disk_beside_an_empty_one_is_asked_for() -> None:
    mixed = found(blank(1), disk(2, stamp=stamp(2, boot_epoch=1)))
    assert (decide(mixed).kind, decide(mixed).replaced) == (Kind.ASK, (1, 2))


def test_a_first_boot_that_was_stopped_goes_on() -> None:
    young = found(
        disk(0, stamp=stamp(0, boot_epoch=1)), blank(1), blank(2), last_epoch=None, last_served=0
    )
    assert decide(young).kind is Kind.NEW_BOOKIE


def test_a_first_boot_that_stamped_all_and_ended_nothing_is_no_new_bookie() -> None:
    first = [disk(p, stamp=stamp(p, boot_epoch=1), marker=NO_MARKER) for p in range(3)]
    young = found(*first, last_epoch=None, last_served=0, generation=0)
    assert young.has_ended_no_boot and decide(young).kind is Kind.NORMAL


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("holds_files", [True, False])
def test_a_journal_is_lacking_only_after_an_unclean_stop(is_clean: bool, holds_files: bool) -> None:
    marker = served(JOURNAL, is_clean=is_clean)
    disks = [disk(place, marker=marker, holds_files=place > 0 or holds_files) for place in range(3)]
    assert decide(found(*disks)).lacks_journal is (not is_clean and not holds_files)


@pytest.mark.parametrize(
    "older",
    [
        found(disk(0, stamp=stamp(0, boot_epoch=5)), blank(1), blank(2), last_epoch=None),
        found(blank(0, marker=UNREADABLE_MARKER), blank(1), blank(2), last_epoch=None),
    ],
)
def test_a_bookie_that_has_served_is_never_taken_for_a_first_boot(older: Inspection) -> None:
    assert decide(older).kind is Kind.FIX


# ---- markers ------------------------------------------------------------------------------------


def served(mode: DurabilityMode, **changes: object) -> FoundMarker:
    """Of a boot that did not stop cleanly."""
    return FoundMarker(True, replace(Marker(EPOCH, mode, GENERATION), **changes))  # type: ignore[arg-type]


def dirty(*modes: DurabilityMode | None) -> Inspection:
    """One mode per directory; None = no marker there."""
    markers = [served(mode) if mode else NO_MARKER for mode in modes]
    return found(*(disk(place, marker=marker) for place, marker in enumerate(markers)))


NOTED = served(MEMORY, keeps_notes=True)


def noted(*disks: DiskInspection, **changes: object) -> Inspection:
    """After an unclean stop of a bookie that kept notes, but for these disks."""
    others = {one.place for one in disks}
    usual = [disk(place, marker=NOTED) for place in range(3) if place not in others]
    return found(*usual, *disks, **changes)


@pytest.mark.parametrize(
    ("seen", "are_kept"),
    [
        (noted(), True),
        (noted(disk(1, marker=served(MEMORY))), False),
        (noted(disk(1, marker=UNREADABLE_MARKER)), False),
        (noted(disk(1, marker=NO_MARKER)), False),
        (noted(disk(1, marker=served(SYNC, keeps_notes=True))), True),
        (noted(disk(0, marker=NOTED, holds_files=False)), False),
        (noted(blank(1)), False),
        (noted(blank(1, marker=NOTED)), False),
        (noted(disk(1, marker=NOTED, volume_uid="another")), False),
        (noted(disk(1, stamp=stamp(1, boot_epoch=EPOCH - 1), marker=NOTED)), False),
        (found(), False),
    ],
)
def test_only_a_plain_unclean_stop_leaves_notes(seen: Inspection, are_kept: bool) -> None:
    assert decide(seen).keeps_notes is are_kept


def test_notes_of_other_modes_say_nothing() -> None:
    others = [disk(place, marker=served(SYNC, keeps_notes=True)) for place in range(3)]
    assert not decide(found(*others)).keeps_notes


def test_notes_are_not_believed_where_the_metadata_store_was_put_back() -> None:
    ahead = served(MEMORY, keeps_notes=True, confirmed=GENERATION + 1, generation=GENERATION + 1)
    assert not decide(noted(*(disk(place, marker=ahead) for place in range(3)))).keeps_notes


@pytest.mark.parametrize(
    ("modes", "previous"),
    [
        ((None, None, None), MEMORY),
        ((JOURNAL, JOURNAL, JOURNAL), JOURNAL),
        ((SYNC, None, None), MEMORY),
        ((MEMORY, MEMORY, MEMORY), MEMORY),
        ((JOURNAL, MEMORY, JOURNAL), MEMORY),
        ((JOURNAL, SYNC, None), MEMORY),
    ],
)
def test_the_mode_that_was_stopped_is_the_weakest_that_the_markers_allow(
    modes: tuple[DurabilityMode | None, ...], previous: DurabilityMode | None
) -> None:
    decision = decide(dirty(*modes))
    assert decision.is_dirty and decision.previous_mode is previous


def test_where_none_has_served_what_is_missing_says_nothing() -> None:
    """A first boot that died while it wrote its markers."""
    assert decide(replace(dirty(SYNC, None, None), last_served=0)).previous_mode is SYNC


# A clean stop is believed on proof alone (item 3 of the review)


def test_a_clean_stop_is_proven_by_every_marker_and_the_store() -> None:
    decision = decide(found())
    assert not decision.is_dirty and decision.previous_mode is None


@pytest.mark.parametrize(
    "missing",
    [
        (disk(1, marker=NO_MARKER),),
        tuple(disk(place, marker=NO_MARKER) for place in range(3)),
        (disk(1, marker=FoundMarker(True, Marker(EPOCH - 1, SYNC, GENERATION, is_clean=True))),),
        (disk(1, marker=FoundMarker(True, Marker(EPOCH + 1, SYNC, GENERATION, is_clean=True))),),
    ],
)
def test_a4_without_the_whole_proof_the_stop_was_unclean(
    missing: tuple[DiskInspection, ...],
) -> None:
    assert decide(found(*missing)).is_dirty


def test_a_boot_that_claimed_and_never_served_takes_no_proof_away() -> None:
    """Its stamps and its epoch are there; what stopped cleanly is the boot before."""
    stamped = [disk(place, stamp=stamp(place, boot_epoch=EPOCH + 1)) for place in range(3)]
    assert not decide(found(*stamped, last_epoch=EPOCH + 1)).is_dirty


@pytest.mark.parametrize("marked", [1, 2, 3])
def test_a_boot_that_marked_disks_and_never_served_takes_no_proof_away(marked: int) -> None:
    marker = FoundMarker(True, Marker(EPOCH + 1, MEMORY, GENERATION + 1, is_clean=True))
    disks = [
        disk(
            place,
            stamp=stamp(place, boot_epoch=EPOCH + 1),
            marker=marker if place < marked else CLEAN,
        )
        for place in range(3)
    ]
    assert not decide(found(*disks, last_epoch=EPOCH + 1)).is_dirty
    assert decide(found(*disks, last_epoch=EPOCH)).is_dirty


def test_where_a_version_before_stopped_the_absence_of_markers_is_a_clean_stop() -> None:
    bare = found(*(disk(place, marker=NO_MARKER) for place in range(3)), generation=0, is_bare=True)
    assert not decide(bare).is_dirty
    before = FoundMarker(True, Marker(EPOCH, SYNC))
    assert decide(replace(bare, disks=found(disk(2, marker=before)).disks)).is_dirty


@pytest.mark.parametrize("mode", DurabilityMode)
def test_a4_a_directory_of_an_older_generation_is_stale_in_every_mode(mode: DurabilityMode) -> None:
    older = found(disk(1, marker=served(mode, generation=GENERATION - 1)), disk(0), disk(2))
    decision = decide(older)
    assert (decision.kind, decision.verdicts[1]) == (Kind.ASK, STALE)
    assert "older copy of the same boot" in decision.message


def test_a_stale_disk_of_the_same_boot_says_that_a_former_process_moves_its_plan() -> None:
    older = disk(1, marker=served(SYNC, generation=GENERATION - 1))
    seen, later = (found(older, generation=GENERATION + more) for more in (0, 1))
    plans = [fix_plan(decide(one), one) for one in (seen, later)]
    assert plans[0].plan_id != plans[1].plan_id
    assert all("if its former process still runs, stop that first" in p.description for p in plans)


def test_a_generation_that_the_store_has_not_seen_yet_is_a_crash_in_between() -> None:
    newer = [disk(place, marker=served(SYNC, generation=GENERATION + place)) for place in range(3)]
    assert decide(found(*newer)).kind is Kind.NORMAL


@pytest.mark.parametrize("of_store", [0, GENERATION, GENERATION + 1])
def test_a4_the_next_generation_is_above_that_of_the_store_and_of_every_directory(
    of_store: int,
) -> None:
    """Also where all directories are behind the store, or have no marker: else none of them would
    be recognised as old any more."""
    for known in product([None, 0, GENERATION, GENERATION + 1], repeat=3):
        markers = [NO_MARKER if one is None else served(MEMORY, generation=one) for one in known]
        disks = [disk(place, marker=marker) for place, marker in enumerate(markers)]
        highest = max(of_store, *(one or 0 for one in known))
        assert found(*disks, generation=of_store).next_generation > highest


def test_a4_the_next_generation_is_above_those_that_the_store_never_came_to_see() -> None:
    newer = disk(1, marker=served(SYNC, generation=GENERATION + 12))
    assert found(newer).next_generation == GENERATION + 13


def test_a_store_that_saw_less_than_it_confirmed_was_put_back() -> None:
    confirmed = [disk(place, marker=served(SYNC, confirmed=GENERATION + 5)) for place in range(3)]
    assert "generation 30" in found(*confirmed).rollback_of_store
    assert found(*confirmed, generation=GENERATION + 5).rollback_of_store == ""


def test_an_unreadable_marker_among_good_ones_is_memory_mode() -> None:
    mixed = found(
        disk(0, marker=FoundMarker(True, Marker(EPOCH, JOURNAL))),
        disk(1, marker=UNREADABLE_MARKER),
        disk(2, marker=FoundMarker(True, Marker(EPOCH, JOURNAL))),
    )
    assert decide(mixed).previous_mode is MEMORY


def test_the_next_epoch_is_above_stamps_markers_and_store() -> None:
    assert found().next_epoch == EPOCH + 1
    assert found(disk(1, stamp=stamp(1, boot_epoch=11))).next_epoch == 12
    assert found(disk(1, marker=FoundMarker(True, Marker(20, SYNC)))).next_epoch == 21
    assert found(*BLANKS, last_epoch=None, cookie=None).next_epoch == 1


def test_a_store_that_lost_the_claim_of_the_first_boot_gives_its_epoch_no_second_time() -> None:
    assert CLEAN.marker is not None
    clean = FoundMarker(True, replace(CLEAN.marker, boot_epoch=1))
    first = [disk(n, stamp=stamp(n, boot_epoch=1), marker=clean) for n in range(3)]
    seen = found(*first, last_epoch=None, last_served=0, generation=0)
    assert seen.has_ended_no_boot and seen.next_epoch == 2


# ---- whatever is found --------------------------------------------------------------------------

STAMPS = st.builds(
    stamp,
    st.integers(0, 2),
    instance_id=st.sampled_from([CLUSTER, "cluster-b"]),
    bookie_id=st.sampled_from([ME, "bookie-9"]),
    boot_epoch=st.integers(1, 9),
    ledger_directories=st.sampled_from([2, 3]),
)
DISKS = st.tuples(
    *(
        st.builds(
            disk,
            st.just(place),
            stamp=st.one_of(st.none(), st.just(stamp(place)), STAMPS),
            holds_store=st.booleans(),
        )
        for place in range(3)
    )
)


@settings(deadline=None, max_examples=300)
@given(DISKS, st.sampled_from([None, COOKIE]), st.sampled_from([None, 1, EPOCH]))
def test_only_untouched_disks_boot_without_a_question(
    disks: tuple[DiskInspection, ...], cookie: Cookie | None, last_epoch: int | None
) -> None:
    whole = found(*disks, cookie=cookie, last_epoch=last_epoch)
    decision = decide(whole)
    if decision.kind is Kind.NORMAL:
        assert all(d.stamp and d.holds_store and d.stamp.bookie_id == ME for d in whole.disks)
        assert all(d.stamp and d.stamp.boot_epoch >= (last_epoch or 0) for d in whole.disks)
    if any(s.bookie_id != ME or s.instance_id != CLUSTER for s in whole.stamps):
        assert decision.kind is Kind.REFUSE
    if decision.kind is Kind.NEW_BOOKIE:
        assert all(s.boot_epoch <= 1 for s in whole.stamps)


def test_of_many_strange_names_the_first_are_shown() -> None:
    names = tuple(f"photo-{number}" for number in range(STRANGE_SHOWN_MAX + 1))
    message = decide(found(blank(1, strange=names))).message
    assert [name in message for name in names] == [True] * STRANGE_SHOWN_MAX + [False]


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("others", [NO_MARKER, CLEAN])
def test_one_marker_of_an_unclean_stop_is_enough_also_of_a_version_before(
    place: int, others: FoundMarker
) -> None:
    left = FoundMarker(True, Marker(EPOCH, MEMORY))
    disks = [disk(at, marker=left if at == place else others) for at in range(3)]
    assert decide(found(*disks, is_bare=True)).is_dirty
    assert not decide(found(*[disk(at, marker=others) for at in range(3)], is_bare=True)).is_dirty


def test_a_plan_is_another_one_wherever_anything_that_its_giver_saw_is_another() -> None:
    fresh = blank(1, volume_uid="uid-new")
    seen = [
        found(fresh),
        found(fresh, instance_id="cluster-b"),
        found(fresh, bookie_id=BookieId("bookie-1")),
        found(fresh, last_epoch=EPOCH - 1),
        found(blank(1, volume_uid="uid-newer")),
        found(blank(2, volume_uid="uid-new")),
        found(blank(0, volume_uid="uid-new")),
        found(fresh, disk(0, stamp=stamp(0, disk_id="another"))),
        found(fresh, disk(2, stamp=stamp(2, disk_id="another"))),
    ]
    plans = [fix_plan(decide(one), one).plan_id for one in [*seen, *seen]]
    assert len(set(plans)) == len(seen) and plans[: len(seen)] == plans[len(seen) :]
