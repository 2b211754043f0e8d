"""Why a bookie refuses to boot, in one word: by its verdicts on its disks, then by its sentence.

The control plane tells verdicts and a sentence, no word. So what stands in the sentence is looked
for; tests hold these words against the bookie that says them.
"""

import re
from collections.abc import Collection, Iterable
from typing import Final

REFUSED: Final = "RefusedBoot"
"""For none of the reasons below: the message has to do."""
INDEX_LOST: Final = "IndexLost"
LOG_LOST: Final = "LogLost"
REFUSED_COOKIE: Final = "RefusedCookie"
"""All disks are its own, yet the metadata does not know this bookie as they do."""
LINEAGE_MISMATCH: Final = "LineageMismatch"
_VERDICTS: Final = {
    "swapped": "SwappedDisk",
    "foreign": "ForeignDisk",
    "reshaped": "ReshapedDisks",
    "torn": "TornStamp",
}
"""The bookie's verdict on a disk -> why its boot is refused; the most precise one first."""
_SENTENCES: Final = {
    INDEX_LOST: r"`bookie index rebuild`",
    LOG_LOST: r"treat the directory as lost|synced frames are lost|\bheader\b",
    "IdentityInUse": r"another process uses this bookie id|is registered and alive at",
    "FoldersInUse": r"is in use by another bookie process",
    "FixNotAllowed": r"cookie fix policy is Never",
    REFUSED_COOKIE: r"\bcookie\b",
}
"""What such a refusal says."""
RANKED: Final = (*_VERDICTS.values(), *_SENTENCES, REFUSED)
"""The most precise one first."""
REFUSED_REASONS: Final = frozenset({LINEAGE_MISMATCH, *RANKED})


def refusal_reason(verdicts: Collection[str], message: str) -> str:
    """Why one bookie refuses to boot."""
    for verdict, reason in _VERDICTS.items():
        if verdict in verdicts:
            return reason
    reasons = (reason for reason, words in _SENTENCES.items() if re.search(words, message))
    return next(reasons, REFUSED)


def disks_named(message: str, names: Iterable[str]) -> list[str]:
    """Those disks whose folders a sentence names."""
    return [name for name in names if re.search(rf"/{re.escape(name)}(?![\w-])", message)]
