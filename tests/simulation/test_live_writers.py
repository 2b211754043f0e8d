"""Seeds about writers that go on after a crash: they reach what they are about, and see bugs."""

from typing import Any

import pytest
from bookie.ids import LedgerId
from bookie.protocol import clearing
from bookie.protocol.admission import LedgerFacts, Ruling, rule_add
from bookie.protocol.clearing import ClearVerdict
from bookie.protocol.ledger import LedgerMetadata, LedgerState
from bookie.server import marks, operations
from bookie.testing.simulation.plan_choice import LIVES_FROM, plan_of
from bookie.testing.simulation.wiretap import Wiretap
from bookie.testing.simulation.world import simulate


def test_a_bookie_leaves_limbo_while_its_ledger_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    judge, states = clearing.judge_clear, list[LedgerState]()

    def listening(metadata: LedgerMetadata, *asked: object, **facts: object) -> ClearVerdict:
        verdict = judge(metadata, *asked, **facts)  # type: ignore[arg-type]
        if verdict.may_clear and facts["in_limbo"]:
            states.append(metadata.state)
        return verdict

    monkeypatch.setattr(marks, "judge_clear", listening)
    verdict = simulate(plan_of(LIVES_FROM + 6))
    assert verdict.violations == () and LedgerState.OPEN in states


def test_limbo_that_goes_while_the_writer_would_send_here_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clearing, "is_left_to_writer", lambda ledger, *_: not ledger.is_closed)
    (first, *_others) = simulate(plan_of(LIVES_FROM + 1)).violations
    assert "let go of its limbo mark" in first and "which is OPEN" in first


def test_a_bookie_takes_a_ledger_again_of_which_all_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    acked, again = Wiretap._acked, list[LedgerId]()

    def listening(tap: Wiretap, bookie: str, add: Any) -> None:
        acked(tap, bookie, add)
        if not add.is_recovery and tap._stop_losses.took(bookie, add.ledger_id):
            again.append(add.ledger_id)

    monkeypatch.setattr(Wiretap, "_acked", listening)
    assert simulate(plan_of(LIVES_FROM + 10)).violations == () and again


def test_an_add_that_the_boundary_lets_in_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(facts: LedgerFacts, **asked: Any) -> Ruling:
        open_to_all = facts._replace(limbo=False, unchecked=False, behind_boundary=False)
        return rule_add(open_to_all, **asked)

    monkeypatch.setattr(operations, "rule_add", rule)
    (first, *_others) = simulate(plan_of(LIVES_FROM)).violations
    assert "of which it lacked entries when it came back" in first
