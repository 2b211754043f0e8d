"""List what is kept of bookies that have left, for people who find it and wonder what it is.

The list only informs: nobody needs to do anything, and no action follows from it.
"""

from bookie.ids import BookieId

from bookie_operator.model.bookie_numbers import by_number
from bookie_operator.model.cluster import ClusterSpec, bookie_name
from bookie_operator.model.left_over import CLAIMS_MAX, LEFT_OVER_MAX, LeftOverStatus
from bookie_operator.plan.passes import Pass


def left_over(pass_: Pass) -> tuple[LeftOverStatus, ...]:
    """List what is left of bookies that have left, not of those that are wanted or still leave."""
    members = {*pass_.spec.bookie_ids, *pass_.judged}
    before = {BookieId(one.bookie): one for one in pass_.previous.left_over}
    # A silent store takes nobody off the list, and adds nobody.
    if pass_.observed.metadata.instance_id is None:
        return tuple(one for bookie_id, one in before.items() if bookie_id not in members)
    listed = []
    for bookie_id in sorted({*pass_.observed.left_over} - members, key=by_number):
        if bookie_name(by_number(bookie_id)[1]) != bookie_id:
            continue  # no number of replicas would bring it back, so it is not this cluster's
        seen = pass_.observed.left_over[bookie_id]
        has_cookie = seen.has_cookie
        if has_cookie is None and bookie_id in before:
            has_cookie = before[bookie_id].has_cookie
        if seen.claims or has_cookie:
            listed.append(
                LeftOverStatus(
                    bookie=bookie_id,
                    claims=seen.claims[:CLAIMS_MAX],
                    has_cookie=has_cookie,
                    message=_message(pass_.spec, bookie_id, has_claims=bool(seen.claims)),
                )
            )
    return tuple(listed[:LEFT_OVER_MAX])


def _again(spec: ClusterSpec, ordinal: int) -> str:
    """Say with which change of the spec the bookie would be a member again."""
    replicas = spec.replicas_for(ordinal)
    if ordinal not in spec.excluded_ordinals:
        return f"With {replicas} replicas or more"
    more = f", and with {replicas} replicas or more," if replicas > spec.replicas else ""
    return f"Once spec.excludedOrdinals no longer names {ordinal}{more}"


def _message(spec: ClusterSpec, bookie_id: BookieId, *, has_claims: bool) -> str:
    again = _again(spec, by_number(bookie_id)[1])
    if has_claims:
        return (
            f"It has left, and no ledger named it. {again} it gets its volumes back with all that "
            "is on them. To free their space, delete the claims: then it would come back with new "
            "disks."
        )
    policy = spec.cookie_fix.policy.value
    return (  # a cookie does not say how its bookie went
        "It is not a member. Its cookie is never deleted, as after a scale-down, and you need not "
        f"do anything about it. {again} it comes back with new disks, by a cookie fix (policy "
        f"{policy}). If it was lost and not drained, re-replicate it."
    )
