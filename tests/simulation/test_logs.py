"""Logs in the simulation: the judge reads every log back, and finds what A3 of the review did."""

import pytest
from bookie.client.log_chain import LedgerChain, LogWriter
from bookie.client.log_reading import LogEntry, LogPosition
from bookie.ids import EntryId, LedgerId
from bookie.testing.simulation.log_history import LogAppend, log_violations
from bookie.testing.simulation.plan import Fault, Plan, Scale
from bookie.testing.simulation.world import simulate


def rivals(seed: int, kind: str, *, entries: int, pause_s: float, size: float) -> Plan:
    """Three owners of one log, and a metadata store that loses or delays all the time."""
    scale = Scale(writers=0, logs=3, readers=0, entries=entries, pause_s=pause_s)
    return Plan(seed, scale, (Fault(0.5, kind, lasts_s=11.0, size=size),))


def named(plan: Plan) -> str:
    return f"{plan.faults[0].kind}-{plan.seed}"


ONCE_LOST_A_LOG = (
    rivals(3, "lost-replies", entries=3, pause_s=0.2, size=0.3),
    rivals(6, "lost-replies", entries=10, pause_s=0.05, size=0.3),
    rivals(15, "lost-replies", entries=3, pause_s=0.2, size=0.3),
    rivals(16, "lost-replies", entries=10, pause_s=0.05, size=0.6),
)
"""Revision 6162029 deleted a ledger of the list in each; nobody could read or open the log then."""
LATE = (
    rivals(1, "late-writes", entries=3, pause_s=0.2, size=0.5),
    rivals(2, "late-writes", entries=10, pause_s=0.05, size=0.9),
)


@pytest.mark.parametrize("plan", [*ONCE_LOST_A_LOG, *LATE], ids=named)
def test_a3_owners_that_hear_nothing_of_their_writes_lose_no_log(plan: Plan) -> None:
    verdict = simulate(plan)
    assert verdict.violations == ()
    assert verdict.acked > 0


def test_the_simulation_finds_a_listed_ledger_that_is_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def without_looking(chain: LedgerChain, writer: LogWriter) -> None:
        await writer.close()
        await chain.ledgers.delete_ledger(writer.ledger_id)

    monkeypatch.setattr(LedgerChain, "_give_up", without_looking)
    plans = (rivals(n, "lost-replies", entries=10, pause_s=0.05, size=0.6) for n in range(60))
    assert any("while the log listed it" in str(simulate(plan).violations) for plan in plans)


def at(ledger_id: int, entry_id: int) -> LogPosition:
    return LogPosition(LedgerId(ledger_id), EntryId(entry_id))


A, B = LogAppend(at(1, 0), b"a", 1.0, 2.0), LogAppend(at(2, 0), b"b", 3.0, 4.0)
READ = [LogEntry(A.position, b"a"), LogEntry(B.position, b"b")]


def found(appends: list[LogAppend], read: list[LogEntry], *excused: int) -> str:
    return " ".join(log_violations(appends, read, excused=set(map(LedgerId, excused))))


def test_a_log_that_gives_all_in_order_is_right() -> None:
    unheard = LogEntry(at(2, 1), b"c")
    assert found([B, A], [*READ, unheard]) == ""


def test_an_acknowledged_entry_that_is_not_read_back_is_a_violation() -> None:
    assert "b'b' was acknowledged" in found([A, B], READ[:1])
    assert found([A, B], READ[:1], 2) == ""


def test_an_entry_read_twice_is_a_violation() -> None:
    assert "there twice" in found([A, B], [*READ, LogEntry(at(2, 1), b"b")])
    assert "not read in order" in found([A, B], [*READ, READ[0]])


def test_an_entry_before_one_that_was_acknowledged_before_it_began_is_a_violation() -> None:
    early = LogAppend(at(3, 0), b"c", 0.0, 0.5)
    assert "stands behind it" in found([A, B, early], [*READ, LogEntry(at(3, 0), b"c")])


def test_entries_that_were_under_way_together_may_stand_in_either_order() -> None:
    together = LogAppend(at(3, 0), b"c", 0.0, 3.5)
    assert found([A, B, together], [*READ, LogEntry(at(3, 0), b"c")]) == ""
