"""Racks: in which order a rollout handles them, and which are lost when a bookie leaves.

Placement, audits and re-replications read racks from the bookies' registrations. The planner gets
them from the platform, and keeps the last known one while a bookie has no process.
"""

from collections import Counter
from collections.abc import Collection, Sequence

from bookie.ids import BookieId
from bookie.protocol.placement import Racks, spread, write_set_spans

from bookie_operator.model.quorum import Quorum
from bookie_operator.plan.passes import Pass


def rack_of(pass_: Pass, bookie_id: BookieId) -> str:
    """The rack that the platform reports, or last reported; empty = not known, or there are to be
    none."""
    if not pass_.spec.rack_topology_key:
        return ""
    process, before = pass_.judged[bookie_id].bookie.process, pass_.previous.bookie(bookie_id)
    if process is not None and process.rack:
        return process.rack
    return before.rack if before is not None else ""


def rack_by_rack(pass_: Pass, begun: Collection[BookieId]) -> list[BookieId]:
    """The wanted bookies as a rollout takes them: all of one rack before any of the next.

    First the rack in which somebody is done already (`begun`), so that no other one is touched
    before it is finished; then by the lowest number. Bookies without a rack are a group of theirs.
    """
    racks: dict[str, list[BookieId]] = {}
    for bookie_id in pass_.spec.bookie_ids:
        racks.setdefault(rack_of(pass_, bookie_id), []).append(bookie_id)
    groups = sorted(racks.values(), key=lambda group: set(group).isdisjoint(begun))
    return [bookie_id for group in groups for bookie_id in group]


def racks_lost_with(pass_: Pass, bookie_id: BookieId) -> str:
    """What new ledgers lose once this bookie has left; empty = nothing, or not every rack is known.

    Asked of the rule by which clients place entries: who is left may be in several racks, and yet
    be too few there for every write set to span them.
    """
    stay = [one for one in pass_.spec.bookie_ids if one != bookie_id]
    of = {one: rack_of(pass_, one) for one in (*stay, bookie_id)}
    quorum = pass_.spec.quorum
    if not all(of.values()) or len(stay) < quorum.ensemble:
        return ""
    racks = Racks(of, pass_.spec.audit.min_racks)
    wanted = min(_span((*stay, bookie_id), quorum, racks), racks.needed(quorum.write)[0])
    left = _span(stay, quorum, racks)
    if left >= wanted:
        return ""
    counts = Counter(of[one] for one in stay)
    who = ", ".join(f"{count} in {rack}" for rack, count in sorted(counts.items()))
    return (
        f"once {bookie_id} has left, copies of an entry are in {left} {_racks(left)}, not "
        f"{wanted}, as bookies are left {who}; audit.minRacks is {racks.min_racks}"
    )


def _racks(count: int) -> str:
    return "rack" if count == 1 else "racks"


def _span(bookies: Sequence[BookieId], quorum: Quorum, racks: Racks) -> int:
    """Racks that every write set of a new ledger spans on these bookies."""
    ensemble = spread(bookies, size=quorum.ensemble, write_quorum=quorum.write, racks=racks)
    return min(write_set_spans(ensemble, write_quorum=quorum.write, racks=racks))
