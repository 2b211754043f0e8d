"""The identity of a bookie process, which both sides of a connection check before an answer counts.

An address can be reused: by another bookie, by a bookie of another cluster that has the same id, or
by another process of the same bookie. The answer of a wrong process could be taken for a denial,
and a request to clear a mark or to record a loss could reach the wrong disks. So each side names a
cluster, a bookie and an epoch, on the native wire and in the control plane, and both sides judge by
`refusal`. This guards against mistakes, not against attackers.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

from bookie.errors import FrameError
from bookie.frames.entry import Buffer

IDENTITY_BYTES_MAX: Final = 4096
"""Largest size of one identity on the native wire."""
EPOCH_MAX: Final = 2**63 - 1
BOOKIE_KEY: Final = "bookie-id"
CLUSTER_KEY: Final = "cluster-id"
EPOCH_KEY: Final = "boot-epoch"
"""The three keys name an identity in the metadata of a control plane call, and in that of its
reply."""


@dataclass(frozen=True, slots=True)
class Identity:
    """One process of one bookie, or what a caller knows of the one that it means.

    `cluster`: instance id of the cluster, empty = not known. `bookie`: id of the bookie. `epoch`:
    epoch of its boot, 0 = not known; from a caller, the highest epoch that it has seen.
    """

    cluster: str
    bookie: str
    epoch: int = 0

    @property
    def is_confirmed(self) -> bool:
        """True once a boot has ended, which makes sure of all three."""
        return bool(self.cluster) and self.epoch > 0

    def is_outlived_by(self, other: "Identity") -> bool:
        """True when the other is a later boot of the same bookie."""
        mine = (self.cluster, self.bookie)
        return (other.cluster, other.bookie) == mine and 0 < self.epoch < other.epoch

    # The native wire
    def encode(self) -> bytes:
        """The identity as the body of a HELLO, or of the reply to it."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, body: Buffer) -> "Identity":
        """Read the body of a HELLO. FrameError when it is no identity, or leaves out cluster or
        bookie.
        """
        try:
            tree = json.loads(bytes(memoryview(body)[:IDENTITY_BYTES_MAX]))
        except (ValueError, RecursionError):
            tree = None
        if not isinstance(tree, dict):
            raise FrameError(
                "a HELLO names cluster, bookie and epoch as JSON, found something else: the other "
                "side is of an older version, upgrade it"
            )
        cluster, bookie, epoch = (tree.get(name) for name in ("cluster", "bookie", "epoch"))
        if not (isinstance(cluster, str) and cluster and isinstance(bookie, str) and bookie):
            raise FrameError("a HELLO names a cluster and a bookie, found one that does not")
        if type(epoch) is not int or not 0 <= epoch <= EPOCH_MAX:
            raise FrameError(f"an epoch is 0 to {EPOCH_MAX}, found something else in a HELLO")
        return cls(cluster, bookie, epoch)

    # The control plane
    def to_metadata(self) -> tuple[tuple[str, str], ...]:
        """The identity as metadata of a call or a reply; values are percent-encoded, as gRPC allows
        only ASCII there.
        """
        return (
            (BOOKIE_KEY, quote(self.bookie, safe=":")),
            (CLUSTER_KEY, quote(self.cluster)),
            (EPOCH_KEY, str(self.epoch)),
        )

    @classmethod
    def from_metadata(cls, metadata: Iterable[Any]) -> "Identity | None":
        """Read the metadata of a call or a reply. None when it names no bookie; FrameError when the
        epoch is no number.
        """
        named = dict(metadata)
        bookie, cluster = named.get(BOOKIE_KEY, ""), named.get(CLUSTER_KEY, "")
        epoch = named.get(EPOCH_KEY, "0")
        if not bookie:
            return None
        if not (
            epoch.isascii() and epoch.isdigit() and len(epoch) < 20 and int(epoch) <= EPOCH_MAX
        ):
            raise FrameError(f"an epoch is 0 to {EPOCH_MAX}, found {epoch[:20]!r} in {EPOCH_KEY}")
        return cls(unquote(cluster), unquote(bookie), int(epoch))


def refusal(meant: Identity, found: Identity, *, while_booting: bool = False) -> str:
    """Why the process `found` is not the one that was meant; empty when it is. Both sides ask this.

    `while_booting`: what either side does not know yet is no reason to refuse. Otherwise a bookie
    whose identity is not confirmed yet is refused.
    """
    if found.bookie != meant.bookie:
        return f"this is bookie {found.bookie}, not {meant.bookie}: look up the address again"
    if meant.cluster and found.cluster and found.cluster != meant.cluster:
        return (
            f"this is bookie {found.bookie} of cluster {found.cluster}, not of {meant.cluster}: "
            "look up the address again"
        )
    if 0 < found.epoch < meant.epoch:
        return (
            f"this is boot {found.epoch} of bookie {found.bookie}, and its boot {meant.epoch} is "
            "known: an older process, stop it"
        )
    if not while_booting and not (meant.cluster and found.is_confirmed):
        return f"it is not certain who bookie {found.bookie} is, since it boots: try again"
    return ""
