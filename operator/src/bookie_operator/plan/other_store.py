"""Whether the metadata store may be taken at its word: it answers, and is the cluster's own.

Another store than before knows no ledger of this cluster, or those of somebody else: by its word
nobody holds anything, every audit is clean, and whoever leaves holds no last copy.
"""

from bookie_operator.model.refused import LINEAGE_MISMATCH
from bookie_operator.plan.actions import Refusal
from bookie_operator.plan.passes import Pass


def store_refusal(pass_: Pass, action: str, bookie: str = "") -> Refusal | None:
    """Why nothing that rests on the metadata store's word is begun now; or None."""
    metadata = pass_.observed.metadata
    if not metadata.reachable:
        why = f"the metadata store does not answer: {metadata.message}"
        return Refusal(action, "MetadataUnreachable", why, bookie=bookie)
    return lineage_refusal(pass_, action, bookie)


def lineage_refusal(pass_: Pass, action: str = "Start", bookie: str = "") -> Refusal | None:
    """Why nothing is begun with a store that answers and has another instance id; or None."""
    if not pass_.is_other_store:
        return None
    known = pass_.previous.metadata.instance_id
    found = pass_.observed.metadata.instance_id or "none (an empty store)"
    why = (
        f"the metadata store's instance id is {found}, the cluster's was {known}: "
        "restore the store; no disk is touched"
    )
    return Refusal(action, LINEAGE_MISMATCH, why, bookie=bookie)
