"""What a person can do about bookies that are to leave, or that the cluster no longer needs."""

import json
from collections.abc import Iterator

from bookie.ids import BookieId

from bookie_operator.kubectl.advice import Hint
from bookie_operator.model.bookie_numbers import by_number
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.drain_status import DrainPhase
from bookie_operator.model.status import NOT_REREPLICATED


def drain_hints(cluster: BookieCluster) -> Iterator[Hint]:
    """Most pressing first."""
    yield from _leaving(cluster)
    yield from _away(cluster)


def _leaving(cluster: BookieCluster) -> Iterator[Hint]:
    drain, name = cluster.status.drain, cluster.metadata.name
    if drain is None or not (drain.phase is DrainPhase.HELD or drain.failures):
        return
    if any(b.predicate == NOT_REREPLICATED for b in cluster.status.blocked):
        yield Hint(
            f"{drain.bookie} is away. It is removed once other bookies hold its entries. If it is "
            "permanently lost, start copying now:",
            ("bookie", "rereplicate", drain.bookie, "--cluster", name),
        )
    yield Hint(f"{drain.bookie} cannot be removed yet. To keep it instead:", _kept(cluster))


def _away(cluster: BookieCluster) -> Iterator[Hint]:
    """Hints about bookies that the spec wants and that are away."""
    excluded, wanted = cluster.spec.excluded_ordinals, cluster.spec.bookie_ids
    for one in cluster.status.bookies:
        if one.rereplicated_at is None or one.id not in wanted:
            continue
        yield Hint(
            f"Other bookies now hold the entries of {one.id}, which is away. If it is permanently "
            "lost, exclude it and let a new bookie with the next number replace it:",
            _patched(cluster, [*excluded, by_number(BookieId(one.id))[1]], cluster.spec.replicas),
        )


def _kept(cluster: BookieCluster) -> tuple[str, ...]:
    """The command that makes the spec want the draining bookie again."""
    spec, drain = cluster.spec, cluster.status.drain
    assert drain is not None
    ordinal = by_number(BookieId(drain.bookie))[1]
    needed = spec.replicas_for(ordinal)
    if ordinal not in spec.excluded_ordinals:
        name = cluster.metadata.name
        return ("scale", "bookiecluster", name, "--replicas", str(needed))
    rest = [number for number in spec.excluded_ordinals if number != ordinal]
    return _patched(cluster, rest, max(needed, spec.replicas))


def _patched(cluster: BookieCluster, excluded: list[int], replicas: int) -> tuple[str, ...]:
    wanted: dict[str, object] = {"excludedOrdinals": sorted(excluded)}
    if replicas != cluster.spec.replicas:
        wanted["replicas"] = replicas
    patch = json.dumps({"spec": wanted})
    return ("patch", "bookiecluster", cluster.metadata.name, "--type", "merge", "-p", patch)
