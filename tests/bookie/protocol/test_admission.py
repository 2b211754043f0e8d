"""What one bookie may answer for one ledger (R7, R9, R24-R26)."""

import pytest
from bookie.ids import NO_ENTRY, EntryId
from bookie.protocol.admission import (
    UNCONFIRMED_FENCES_MAX,
    LedgerFacts,
    Ruling,
    absent_status,
    rule_add,
    rule_first_fence,
    rule_force,
    rule_read,
    rule_read_lac,
    rule_write_lac,
)
from bookie.protocol.status import Status

KEY = b"k" * 20
OTHER = b"o" * 20
NEVER_SEEN = LedgerFacts()
ORDINARY = LedgerFacts(is_known=True, master_key=KEY, lac=EntryId(4), last_entry_id=EntryId(5))
FENCED = ORDINARY._replace(fenced=True)
BEHIND = ORDINARY._replace(behind_boundary=True)
LIMBO = ORDINARY._replace(limbo=True)
LIMBO_BEHIND = LIMBO._replace(behind_boundary=True)
LIMBO_UNSEEN = LedgerFacts(is_known=True, limbo=True)
UNCHECKED = ORDINARY._replace(unchecked=True)
UNCHECKED_BEHIND = UNCHECKED._replace(behind_boundary=True)
UNCHECKED_UNSEEN = LedgerFacts(unchecked=True)
DELETED = ORDINARY._replace(fenced=True, deleted=True)


def add(facts: LedgerFacts, *, recovery: bool = False, writable: bool = True) -> Ruling:
    return rule_add(facts, master_key=KEY, is_recovery=recovery, is_writable=writable)


@pytest.mark.parametrize(
    ("facts", "normal", "recovery"),
    [
        (NEVER_SEEN, Status.OK, Status.OK),
        (ORDINARY, Status.OK, Status.OK),
        (FENCED, Status.FENCED, Status.OK),
        (BEHIND, Status.FENCED, Status.OK),
        (LIMBO, Status.READ_ONLY, Status.OK),
        (LIMBO_BEHIND, Status.READ_ONLY, Status.OK),
        (LIMBO._replace(fenced=True), Status.FENCED, Status.OK),
        (UNCHECKED, Status.READ_ONLY, Status.OK),
        (UNCHECKED_BEHIND, Status.READ_ONLY, Status.OK),
        (UNCHECKED._replace(fenced=True), Status.FENCED, Status.OK),
        (UNCHECKED_UNSEEN, Status.READ_ONLY, Status.OK),
        (UNCHECKED_UNSEEN._replace(fenced=True), Status.FENCED, Status.OK),
        (DELETED, Status.FENCED, Status.FENCED),
    ],
)
def test_adds_by_state(facts: LedgerFacts, normal: Status, recovery: Status) -> None:
    assert add(facts).status is normal
    assert add(facts, recovery=True).status is recovery


@pytest.mark.parametrize(
    ("facts", "absent"),
    [
        (NEVER_SEEN, Status.NO_SUCH_LEDGER),
        (ORDINARY, Status.NO_SUCH_ENTRY),
        (FENCED, Status.NO_SUCH_ENTRY),
        (BEHIND, Status.NO_SUCH_ENTRY),
        (LIMBO, Status.UNKNOWN),
        (LIMBO_UNSEEN, Status.UNKNOWN),
        (UNCHECKED, Status.UNKNOWN),
        (UNCHECKED_UNSEEN, Status.UNKNOWN),
        (DELETED, Status.NO_SUCH_LEDGER),
    ],
)
def test_what_an_absent_entry_means_by_state(facts: LedgerFacts, absent: Status) -> None:
    assert absent_status(facts) is absent


@pytest.mark.parametrize("facts", [LIMBO, LIMBO_UNSEEN, UNCHECKED, UNCHECKED_UNSEEN])
def test_s42_who_may_have_forgotten_denies_on_no_path(facts: LedgerFacts) -> None:
    rulings = [
        rule_read_lac(facts, master_key=KEY, fence=False),
        rule_read_lac(facts, master_key=KEY, fence=True),
        rule_force(facts, master_key=KEY),
    ]
    assert {ruling.status for ruling in rulings} == {Status.UNKNOWN}
    assert not absent_status(facts).is_known


@pytest.mark.parametrize("facts", [LIMBO, UNCHECKED_UNSEEN])
def test_a_fencing_lac_read_fences_even_where_its_answer_is_unknown(facts: LedgerFacts) -> None:
    assert rule_read_lac(facts, master_key=KEY, fence=True).fence


@pytest.mark.parametrize("facts", [NEVER_SEEN, ORDINARY, FENCED, LIMBO])
def test_s44_every_fencing_request_asks_for_a_durable_fence_also_a_repeated_one(
    facts: LedgerFacts,
) -> None:
    assert rule_read(facts, master_key=KEY, fence=True).fence
    assert rule_read_lac(facts, master_key=KEY, fence=True).fence


def test_a_ledger_never_seen_is_fenced_and_learns_the_key() -> None:
    assert rule_read(NEVER_SEEN, master_key=KEY, fence=True) == Ruling(
        Status.OK, learn_key=True, fence=True
    )


def test_a_plain_read_changes_nothing() -> None:
    assert rule_read(NEVER_SEEN, master_key=KEY, fence=False) == Ruling(Status.OK)


@pytest.mark.parametrize("facts", [NEVER_SEEN, LIMBO_UNSEEN, ORDINARY._replace(master_key=b"")])
def test_the_first_key_is_learned(facts: LedgerFacts) -> None:
    assert add(facts, recovery=True) == Ruling(Status.OK, learn_key=True)


@pytest.mark.parametrize("recovery", [False, True])
def test_an_entry_that_a_crash_may_take_is_noted_whoever_writes_it(recovery: bool) -> None:
    unnoted = ORDINARY._replace(is_noted=False)
    assert add(unnoted, recovery=recovery) == Ruling(Status.OK, note=True)
    first = add(NEVER_SEEN._replace(is_noted=False), recovery=recovery)
    assert first == Ruling(Status.OK, learn_key=True, note=True)


@pytest.mark.parametrize("facts", [FENCED, BEHIND, LIMBO, UNCHECKED, DELETED])
def test_a_refused_add_is_not_noted(facts: LedgerFacts) -> None:
    ruling = add(facts._replace(is_noted=False))
    assert ruling.status in (Status.FENCED, Status.READ_ONLY) and not ruling.note


def test_a_known_key_is_not_learned_again() -> None:
    assert add(ORDINARY) == Ruling(Status.OK)


def test_a_wrong_key_is_refused_before_anything_else_is_told() -> None:
    rulings = [
        rule_add(DELETED, master_key=OTHER, is_recovery=True, is_writable=False),
        rule_read(LIMBO, master_key=OTHER, fence=True),
        rule_read_lac(LIMBO, master_key=OTHER, fence=True),
        rule_write_lac(ORDINARY, master_key=OTHER, is_writable=False),
        rule_force(LIMBO, master_key=OTHER),
    ]
    assert rulings == [Ruling(Status.UNAUTHORIZED)] * len(rulings)


def test_a_read_only_bookie_takes_recovery_adds_only() -> None:
    assert add(ORDINARY, writable=False).status is Status.READ_ONLY
    assert add(ORDINARY, recovery=True, writable=False).is_ok


def test_a_read_only_bookie_takes_no_explicit_lac() -> None:
    ruling = rule_write_lac(ORDINARY, master_key=KEY, is_writable=False)
    assert ruling == Ruling(Status.READ_ONLY)


def test_a_fenced_ledger_says_fenced_also_when_read_only() -> None:
    assert add(FENCED, writable=False).status is Status.FENCED


@pytest.mark.parametrize("facts", [ORDINARY, FENCED, BEHIND, LIMBO])
def test_an_explicit_lac_passes_every_fence(facts: LedgerFacts) -> None:
    assert rule_write_lac(facts, master_key=KEY, is_writable=True).is_ok


@pytest.mark.parametrize("facts", [NEVER_SEEN, DELETED])
def test_a_ledger_that_is_not_here_has_no_lac_and_forces_nothing(facts: LedgerFacts) -> None:
    assert rule_read_lac(facts, master_key=KEY, fence=False).status is Status.NO_SUCH_LEDGER
    assert rule_force(facts, master_key=KEY).status is Status.NO_SUCH_LEDGER


def test_s40_a_deleted_ledger_takes_nothing_any_more() -> None:
    assert add(DELETED).status is add(DELETED, recovery=True).status is Status.FENCED
    assert rule_write_lac(DELETED, master_key=KEY, is_writable=False).status is Status.FENCED


def test_a5_a_tombstone_denies_nothing_to_who_fences() -> None:
    # Who fences has just changed the metadata: the ledger exists, and its entries were here.
    assert absent_status(DELETED, fence=True) is Status.UNKNOWN
    ruling = rule_read_lac(DELETED, master_key=KEY, fence=True)
    assert ruling.status is Status.UNKNOWN and ruling.fence


@pytest.mark.parametrize(
    "facts", [NEVER_SEEN, ORDINARY, FENCED, BEHIND, LIMBO, UNCHECKED, UNCHECKED_UNSEEN, DELETED]
)
def test_a2_without_a_lease_nothing_is_denied_taken_or_fenced(facts: LedgerFacts) -> None:
    over = facts._replace(is_leased=False)
    refused = [
        add(over),
        add(over, recovery=True),
        rule_read(over, master_key=KEY, fence=True),
        rule_read_lac(over, master_key=KEY, fence=True),
        rule_write_lac(over, master_key=KEY, is_writable=True),
    ]
    assert refused == [Ruling(Status.NOT_READY)] * len(refused)
    assert absent_status(over) is absent_status(over, fence=True) is Status.UNKNOWN
    assert rule_force(over, master_key=KEY).status is Status.UNKNOWN
    assert rule_read_lac(over, master_key=KEY, fence=False).status is Status.UNKNOWN


def test_of_a_ledger_never_seen_nothing_is_known() -> None:
    assert (NEVER_SEEN.lac, NEVER_SEEN.last_entry_id) == (NO_ENTRY, NO_ENTRY)
    assert NEVER_SEEN.is_leased and not NEVER_SEEN.is_here and not NEVER_SEEN.may_have_forgotten


@pytest.mark.parametrize("mark", ["fenced", "deleted"])
def test_r24_a_fence_of_a_client_and_a_tombstone_each_end_the_writer(mark: str) -> None:
    ended = LedgerFacts(is_known=True, master_key=KEY, **{mark: True})
    for facts in (ended, ended._replace(limbo=True, behind_boundary=True)):
        assert add(facts) == add(facts, writable=False) == Ruling(Status.FENCED)


@pytest.mark.parametrize("mark", ["limbo", "unchecked"])
def test_r24_each_mark_of_an_unclean_boot_alone_keeps_adds_out_and_ends_nobody(mark: str) -> None:
    facts = LedgerFacts(is_known=True, master_key=KEY, **{mark: True})
    assert add(facts) == add(facts._replace(behind_boundary=True)) == Ruling(Status.READ_ONLY)


def test_r24_once_the_check_has_ended_the_boundary_ends_who_comes_later() -> None:
    facts = LedgerFacts(is_known=True, master_key=KEY, behind_boundary=True)
    assert add(facts) == Ruling(Status.FENCED)
    assert add(facts, writable=False) == Ruling(Status.READ_ONLY), "its writer may go on elsewhere"
    assert add(facts, recovery=True).is_ok


@pytest.mark.parametrize("key", [None, b"", KEY])
@pytest.mark.parametrize("facts", [ORDINARY, LIMBO, UNCHECKED, BEHIND])
def test_whatever_changes_a_ledger_without_a_key_teaches_it(
    facts: LedgerFacts, key: bytes | None
) -> None:
    facts = facts._replace(master_key=key)
    rulings = [
        add(facts, recovery=True),
        rule_read(facts, master_key=KEY, fence=True),
        rule_read_lac(facts, master_key=KEY, fence=True),
        rule_write_lac(facts, master_key=KEY, is_writable=True),
    ]
    assert [ruling.learn_key for ruling in rulings] == [not key] * len(rulings)


@pytest.mark.parametrize("facts", [ORDINARY, FENCED, BEHIND])
def test_who_has_forgotten_nothing_promises_that_all_of_it_is_durable(facts: LedgerFacts) -> None:
    assert rule_force(facts, master_key=KEY) == Ruling(Status.OK)


@pytest.mark.parametrize(
    ("exists", "unconfirmed", "status"),
    [
        (True, 0, Status.OK),
        (True, UNCONFIRMED_FENCES_MAX, Status.OK),
        (False, 0, Status.BAD_REQUEST),
        (None, 0, Status.OK),
        (None, 1023, Status.OK),
        (None, 1024, Status.OVERLOADED),
    ],
)
def test_a9_what_does_not_exist_is_not_fenced_and_unseen_ledgers_up_to_a_bound(
    exists: bool | None, unconfirmed: int, status: Status
) -> None:
    assert rule_first_fence(exists, unconfirmed=unconfirmed) is status
