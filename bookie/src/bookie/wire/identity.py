"""Who answers: the name that both of our wires check before an answer counts.

Addresses are used again, by other bookies, by bookies of other clusters that have the same ids, and
by another process of the same bookie. An answer of the wrong one could pass for a denial, and a
clear or a loss record could reach the wrong disks. So each side names a cluster, a bookie and an
epoch, and `refusal` is the one judge of both. It keeps mistakes apart, not attackers.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

from bookie.errors import FrameError
from bookie.frames.entry import Buffer

IDENTITY_BYTES_MAX: Final = 4096
"""Of one identity on the native wire."""
EPOCH_MAX: Final = 2**63 - 1
BOOKIE_KEY: Final = "bookie-id"
CLUSTER_KEY: Final = "cluster-id"
EPOCH_KEY: Final = "boot-epoch"
"""Metadata of a control plane call, and of its reply."""


@dataclass(frozen=True, slots=True)
class Identity:
    """One process of one bookie, or what a caller knows of the one that it means.

    `cluster`: its instance id, empty = not known. `bookie`: its id. `epoch`: of its boot, 0 = not
    known; of a caller the highest that it has seen.
    """

    cluster: str
    bookie: str
    epoch: int = 0

    @property
    def is_confirmed(self) -> bool:
        """A boot has ended that made sure of all three."""
        return bool(self.cluster) and self.epoch > 0

    def is_outlived_by(self, other: "Identity") -> bool:
        """The other is a later boot of this very bookie."""
        mine = (self.cluster, self.bookie)
        return (other.cluster, other.bookie) == mine and 0 < self.epoch < other.epoch

    # The native wire
    def encode(self) -> bytes:
        """Body of a HELLO and of the reply to it."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, body: Buffer) -> "Identity":
        """FrameError when the body is none, or leaves out cluster or bookie."""
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
        """Metadata of a call or of a reply; values are quoted, as only ASCII may travel there."""
        return (
            (BOOKIE_KEY, quote(self.bookie, safe=":")),
            (CLUSTER_KEY, quote(self.cluster)),
            (EPOCH_KEY, str(self.epoch)),
        )

    @classmethod
    def from_metadata(cls, metadata: Iterable[Any]) -> "Identity | None":
        """None when it names no bookie; FrameError when the epoch is no number."""
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
    """Why the bookie `found` is not the one meant; empty when it is. Both ends ask this.

    `while_booting`: what one of them does not know yet speaks against nothing. Without it a bookie
    that has not confirmed who it is must not be taken for the one meant.
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
