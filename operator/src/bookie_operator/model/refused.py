"""Why a bookie refuses to boot, in one word.

The control plane gives verdicts on the disks and a sentence, but no such word. So the reason is
found by the verdicts, then by patterns in the sentence; tests compare these patterns with the
sentences of the bookie.
"""

import re
from collections.abc import Collection, Iterable
from typing import Final

REFUSED: Final = "RefusedBoot"
"""The reason when none of those below fits; only the message says more."""
INDEX_LOST: Final = "IndexLost"
LOG_LOST: Final = "LogLost"
REFUSED_COOKIE: Final = "RefusedCookie"
"""All disks belong to it, but its cookie in the metadata store does not match them."""
LINEAGE_MISMATCH: Final = "LineageMismatch"
_VERDICTS: Final = {
    "swapped": "SwappedDisk",
    "foreign": "ForeignDisk",
    "reshaped": "ReshapedDisks",
    "torn": "TornStamp",
}
"""The bookie's verdict on a disk -> the reason; the most precise one first."""
_SENTENCES: Final = {
    INDEX_LOST: r"`bookie index rebuild`",
    LOG_LOST: r"treat the directory as lost|synced frames are lost|\bheader\b",
    "IdentityInUse": r"another process uses this bookie id|is registered and alive at",
    "FoldersInUse": r"is in use by another bookie process",
    "FixNotAllowed": r"cookie fix policy is Never",
    REFUSED_COOKIE: r"\bcookie\b",
}
"""Reason -> a pattern that the sentence of such a refusal matches."""
RANKED: Final = (*_VERDICTS.values(), *_SENTENCES, REFUSED)
"""All reasons, the most precise one first."""
REFUSED_REASONS: Final = frozenset({LINEAGE_MISMATCH, *RANKED})


def refusal_reason(verdicts: Collection[str], message: str) -> str:
    """Why one bookie refuses to boot."""
    for verdict, reason in _VERDICTS.items():
        if verdict in verdicts:
            return reason
    reasons = (reason for reason, words in _SENTENCES.items() if re.search(words, message))
    return next(reasons, REFUSED)


def disks_named(message: str, names: Iterable[str]) -> list[str]:
    """The disks whose folders a sentence names."""
    return [name for name in names if re.search(rf"/{re.escape(name)}(?![\w-])", message)]
