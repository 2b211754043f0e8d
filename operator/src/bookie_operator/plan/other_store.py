"""Another metadata store than before: it knows no ledger of this cluster, or is somebody else's."""

from bookie_operator.model.refused import LINEAGE_MISMATCH
from bookie_operator.plan.actions import Refusal
from bookie_operator.plan.passes import Pass


def lineage_refusal(pass_: Pass) -> Refusal | None:
    """Another metadata instance than before: nothing is started on it (it knows no ledger)."""
    known = pass_.previous.metadata.instance_id
    if (
        not known
        or not pass_.observed.metadata.reachable
        or pass_.observed.metadata.instance_id == known
    ):
        return None
    found = pass_.observed.metadata.instance_id or "none (an empty store)"
    return Refusal(
        action="Start",
        predicate=LINEAGE_MISMATCH,
        message=f"the metadata store's instance id is {found}, the cluster's was {known}: "
        "restore the store; no disk is touched",
    )
