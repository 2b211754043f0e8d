"""SecretsUsable: whether what people put into the Secrets that the spec names can be used.

Absent from a cluster whose spec names none.
"""

from bookie_operator.model.condition_types import ConditionType
from bookie_operator.plan.findings import Findings, Verdict
from bookie_operator.plan.named_secrets import UNSEEN, wrong_secrets


def secret_verdicts(found: Findings) -> dict[ConditionType, Verdict]:
    """The condition, or none."""
    named = found.pass_.observed.secrets
    if not named:
        return {}
    return {ConditionType.SECRETS_USABLE: _secrets_usable(found)}


def _secrets_usable(found: Findings) -> Verdict:
    """Every one is there, has its key, and makes sense."""
    named, wrong = found.pass_.observed.secrets, wrong_secrets(found.pass_)
    if wrong:
        said = "; ".join(f"{one.field}: {one.message}" for one in wrong)
        return Verdict("False", wrong[0].reason, said)
    unseen = [one.message for one in named if one.reason == UNSEEN]
    if unseen:
        return Verdict("Unknown", UNSEEN, unseen[0])
    return Verdict("True", "AllUsable", ", ".join(one.place for one in named))
