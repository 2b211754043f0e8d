"""Native messages read one by one, as fakes and watchers of the wire see them.

The product takes them out of a buffer of many (`wire.native.next_message`).
"""

from bookie.errors import FrameError
from bookie.frames.entry import Buffer
from bookie.wire.native import (
    ENVELOPE,
    ENVELOPE_BYTES,
    MESSAGE_BYTES_MAX,
    Envelope,
    next_message,
)


def message_bytes(buffer: Buffer) -> int:
    """Whole length of the message that begins with these 16 bytes; FrameError when oversize."""
    body_bytes = int(ENVELOPE.unpack_from(buffer)[0])
    if body_bytes > MESSAGE_BYTES_MAX:
        raise FrameError(f"a message of {body_bytes} bytes exceeds {MESSAGE_BYTES_MAX}")
    return ENVELOPE_BYTES + body_bytes


def parse_envelope(message: Buffer) -> Envelope:
    """One whole message; FrameError when the op is unknown."""
    _size, envelope = next_message(memoryview(message), 0, len(message))
    assert envelope is not None
    return envelope
