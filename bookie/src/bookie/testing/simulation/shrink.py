"""Makes a failing plan small: fewer faults, then a smaller load, as long as it still fails.

Greedy, the same result every time; each try is a whole simulation. What counts as the same failure
is the rule that was violated first, without its numbers.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from bookie.testing.simulation.plan import Plan
from bookie.testing.simulation.world import Verdict, simulate

TRIES_MAX = 400


def rule_of(violation: str) -> str:
    """The violation without times and numbers."""
    return re.sub(r"\d+", "#", violation.partition(" s: ")[2])


def shrink(
    plan: Plan, *, run: Callable[[Plan], Verdict] = simulate, say: Callable[[str], None] = print
) -> Plan:
    """The smallest plan found that fails as `plan` does; AssertionError when that does not fail."""
    found = run(plan)
    assert found.violations, f"seed {plan.seed} does not fail"
    rule = rule_of(found.violations[0])
    tries, went_on = 0, True
    while went_on:
        went_on = False
        for smaller in _smaller(plan):
            tries += 1
            if tries > TRIES_MAX:
                return plan
            verdict = run(smaller)
            if verdict.violations and rule_of(verdict.violations[0]) == rule:
                say(f"{tries} tries: {len(smaller.faults)} faults, {smaller.scale}")
                plan, went_on = smaller, True
                break
    return plan


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Plans that are a step smaller, the boldest first."""
    count = len(plan.faults)
    size = count // 2
    while size >= 1:
        for start in range(0, count, size):
            yield plan.without(*range(start, min(start + size, count)))
        size //= 2
    scale = plan.scale
    for name, least in (
        ("recoverers", 0), ("readers", 0), ("deletions", 0), ("writers", min(scale.writers, 1)),
        ("logs", min(scale.logs, 1)), ("bookies", scale.ensemble), ("ledger_dirs", 1),
        ("burst", 1), ("entries", 3),
    ):  # fmt: skip
        if getattr(scale, name) > least:
            yield replace(plan, scale=replace(scale, **{name: least}))  # type: ignore[arg-type]
