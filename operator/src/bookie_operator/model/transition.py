"""What may change in the spec of a live cluster. The CRD has the same rules in CEL."""

from bookie_operator.errors import ManifestError
from bookie_operator.model.cluster import ClusterSpec
from bookie_operator.model.metadata_spec import EmbeddedMetadata
from bookie_operator.model.quantity import size_bytes
from bookie_operator.model.tls import tls_mistakes


def check_transition(old: ClusterSpec, new: ClusterSpec) -> None:
    """Raise ManifestError unless a live cluster may go from `old` to `new` (CEL has the same)."""
    mistakes = []
    before = [f"{disk.name}/{disk.role.value}" for disk in old.storage.disks]
    after = [f"{disk.name}/{disk.role.value}" for disk in new.storage.disks]
    if before != after:
        mistakes.append(
            f"spec.storage.disks: found {', '.join(after)}; expected {', '.join(before)} as the "
            "cluster was created: number, order, name and role of disks cannot change"
        )
    else:
        for index, (was, wanted) in enumerate(
            zip(old.storage.disks, new.storage.disks, strict=True)
        ):
            if size_bytes(wanted.size) < size_bytes(was.size):
                mistakes.append(
                    f"spec.storage.disks[{index}].size: found {wanted.size}, expected at least "
                    f"{was.size}: a disk can only grow"
                )
    was_own, own = old.metadata.embedded, new.metadata.embedded
    if was_own is not None and own is not None and not _may_become(was_own, own):
        mistakes.append(
            f"spec.metadata.embedded: found {_volume(own)}, expected at least {_volume(was_own)} "
            "as its volume was made: it can only grow, and its class cannot change"
        )
    if old.metadata.connect != new.metadata.connect:
        mistakes.append(
            "spec.metadata: found another metadata store than the cluster was created with; "
            "expected the same: its ledgers are known only there"
        )
    mistakes += tls_mistakes(old.tls, new.tls)
    if mistakes:
        raise ManifestError("\n".join(mistakes))


def _may_become(was: EmbeddedMetadata, wanted: EmbeddedMetadata) -> bool:
    is_smaller = size_bytes(wanted.size) < size_bytes(was.size)
    return not is_smaller and wanted.storage_class == was.storage_class


def _volume(embedded: EmbeddedMetadata) -> str:
    return f"{embedded.size} of class {embedded.storage_class or '(default)'}"
