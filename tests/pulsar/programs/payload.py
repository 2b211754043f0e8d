"""What every message holds, computed from its topic, key and number: Payload.java says the same.

The programs of this folder run on Pulsar's own client, and import nothing of this repository.
"""

import hashlib

SIZE_MAX = 1024
"""Above the head: sizes vary, so that batches and entries end anywhere."""


def payload(topic: str, key: str, number: int, seed: int) -> bytes:
    """A head that says whose it is, and noise that only its rule knows."""
    head = f"{topic} {key} {number} {seed} ".encode()
    drawn = hashlib.sha256(head).hexdigest()
    size = int(drawn[:8], 16) % SIZE_MAX
    return head + (drawn * (SIZE_MAX // len(drawn)))[:size].encode()


def number_of(content: bytes, *, topic: str, key: str, seed: int) -> int | None:
    """Which one of that topic and key it is; None for anything that the rule does not make."""
    words = content.split(b" ", 3)
    if len(words) < 4 or not words[2].isdigit():
        return None
    number = int(words[2])
    return number if payload(topic, key, number, seed) == content else None
