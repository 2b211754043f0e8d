"""What people are told of the collection of deleted ledgers and of a store that was rolled back.

Bookies decide and remember. The operator tells them one thing: that the cluster is paused.
"""

from collections.abc import Mapping

from bookie.protocol.ids import BookieId

from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import Observed
from bookie_operator.plan.actions import PauseCollection
from bookie_operator.plan.findings import Verdict
from bookie_operator.plan.restarts import lineage_refusal
from bookie_operator.plan.rollback import healths, rolled_back
from bookie_operator.plan.states import Judged


def metadata_rolled_back(judged: Mapping[BookieId, Judged]) -> Verdict:
    """The condition MetadataRolledBack."""
    told = rolled_back(judged)
    if told:
        return "True", "OlderThanSeen", told
    if judged and not any(one.is_booted for one in judged.values()):
        return "Unknown", "BookiesNotBooted", "no bookie has compared it with what it has seen"
    return "False", "NotSeen", ""


def collection_held(judged: Mapping[BookieId, Judged]) -> Verdict:
    """The condition CollectionHeld."""
    told = {name: health.collection_held for name, health in healths(judged).items()}
    held = [f"{name}: {why}" for name, why in told.items() if why]
    if held:
        return "True", "TooManyGone", "; ".join(held)
    silent = [name for name, one in judged.items() if not one.is_booted]
    if silent:
        return "Unknown", "BookiesNotBooted", f"not known of {', '.join(silent)}"
    return "False", "NotHeld", ""


def pausing(
    cluster: BookieCluster, observed: Observed, previous: ClusterStatus
) -> list[PauseCollection]:
    """What bookies read in the store before they collect, brought in line with the spec."""
    said, wanted = observed.metadata.is_paused, cluster.spec.paused
    if said is None or said == wanted or lineage_refusal(observed, previous) is not None:
        return []
    return [PauseCollection(wanted)]
