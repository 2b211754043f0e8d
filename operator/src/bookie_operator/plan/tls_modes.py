"""What bookies are to take now, on the way between plain and TLS. Pure, and without a memory.

From Off to Required, and back, every bookie has to take both for a while: a step is taken only when
each one is seen to have made the step before, and so the way may be turned at any time.
"""

from collections.abc import Collection, Mapping
from typing import Final

from bookie.ids import BookieId

from bookie_operator.model.cluster import BookieCluster, ClusterSpec
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.tls import TlsMode
from bookie_operator.observed import Observed

TLS_SCHEME: Final = "zks"
"""Scheme of the URL of a ZooKeeper with TLS."""


def mode_now(wanted: TlsMode, taken: Collection[TlsMode]) -> TlsMode:
    """What bookies are to take. `taken`: what they take; none of a fleet that is yet to be."""
    neighbours = {wanted, TlsMode.ACCEPTED}
    return wanted if neighbours.issuperset(taken) else TlsMode.ACCEPTED


def clients_now(mode: TlsMode, taken: Collection[TlsMode]) -> TlsMode:
    """How the operator and its jobs talk to bookies that take these."""
    if mode is TlsMode.REQUIRED:
        return TlsMode.REQUIRED
    return TlsMode.OFF if {TlsMode.OFF}.issuperset({mode, *taken}) else TlsMode.ACCEPTED


def taken_modes(
    observed: Observed, previous: ClusterStatus
) -> Mapping[BookieId, frozenset[TlsMode]]:
    """What each bookie takes: its process, and until that has booted also the one before.

    A step counts once it is seen to work: else the last bookie of a step would be stopped again in
    the midst of its boot, for the next one.
    """
    served = {
        BookieId(one.id): TlsMode(one.tls or TlsMode.OFF)
        for one in previous.bookies
        if one.boot_epoch and one.id in observed.bookies
    }
    found = {}
    for bookie_id, one in observed.bookies.items():
        before = {served[bookie_id]} if bookie_id in served else set()
        now = {one.process.tls} if one.process is not None else set()
        has_booted = one.health is not None and one.health.phase.is_booted
        found[bookie_id] = frozenset(now if now and has_booted else now | before)
    return found


def all_taken(observed: Observed, previous: ClusterStatus) -> frozenset[TlsMode]:
    """Every mode that some bookie takes."""
    return frozenset().union(*taken_modes(observed, previous).values())


def spec_in_force(
    cluster: BookieCluster, observed: Observed, previous: ClusterStatus
) -> ClusterSpec:
    """The spec with the mode that bookies are to have now."""
    spec = cluster.spec
    mode = mode_now(farthest(spec, previous), all_taken(observed, previous))
    return spec if mode is spec.tls.mode else with_mode(spec, mode)


def farthest(spec: ClusterSpec, previous: ClusterStatus) -> TlsMode:
    """The mode that bookies can come to. A ZooKeeper of the cluster's own that is under TLS stays
    so, and without credentials no bookie could reach it."""
    keeps_tls = spec.metadata.embedded is not None and store_has_tls(spec, previous)
    return TlsMode.ACCEPTED if spec.tls.mode is TlsMode.OFF and keeps_tls else spec.tls.mode


def store_has_tls(spec: ClusterSpec, status: ClusterStatus) -> bool:
    """Whether the cluster's own ZooKeeper uses TLS: this is fixed when it is created."""
    url = status.metadata.url
    return url.startswith(f"{TLS_SCHEME}://") if url else spec.tls.mode is TlsMode.REQUIRED


def with_mode(spec: ClusterSpec, mode: TlsMode) -> ClusterSpec:
    """The spec as if this mode were asked for."""
    tls = spec.tls.model_copy(update={"mode": mode})
    return spec.model_copy(update={"tls": tls})
