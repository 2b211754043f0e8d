"""What people learn of the collection of deleted ledgers and of a store that was rolled back.

Bookies decide and remember. The operator tells them one thing: that the cluster is paused.
"""

from bookie_operator.plan.actions import PauseCollection
from bookie_operator.plan.findings import Verdict
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.rollback import rolled_back


def metadata_rolled_back(pass_: Pass) -> Verdict:
    """The condition MetadataRolledBack."""
    message = rolled_back(pass_)
    if message:
        return Verdict("True", "OlderThanSeen", message)
    if pass_.judged and len(pass_.silent) == len(pass_.judged):
        return Verdict(
            "Unknown", "BookiesNotBooted", "no bookie has compared it with what it saw before"
        )
    if (silent := pass_.silent) and not pass_.observed.metadata.reachable:
        message = f"not known of {', '.join(silent)}, and the metadata store does not answer"
        return Verdict("Unknown", "BookiesNotBooted", message)
    return Verdict("False", "NotSeen", "")


def collection_held(pass_: Pass) -> Verdict:
    """The condition CollectionHeld."""
    reasons = {name: health.collection_held for name, health in pass_.healths.items()}
    held = [f"{name}: {why}" for name, why in reasons.items() if why]
    if held:
        return Verdict("True", "TooManyGone", "; ".join(held))
    if silent := pass_.silent:
        return Verdict("Unknown", "BookiesNotBooted", f"not known of {', '.join(silent)}")
    return Verdict("False", "NotHeld", "")


def pausing(pass_: Pass) -> list[PauseCollection]:
    """What bookies read in the store before they collect, brought in line with the spec."""
    said, wanted = pass_.observed.metadata.is_paused, pass_.spec.paused
    if said is None or said == wanted or pass_.is_other_store:
        return []
    return [PauseCollection(wanted)]
