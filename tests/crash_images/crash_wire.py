"""The client's end of a native port, without a socket: entries, and answers as they leave."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from bookie.frames.build import build_run
from bookie.frames.entry import ENTRY_HEADER, Buffer
from bookie.frames.frame import FLAG_RECOVERY, RunFrame, parse_run
from bookie.ids import EntryId, LedgerId
from bookie.protocol.status import Status
from bookie.testing.native_messages import message_bytes, parse_envelope

KEY: Final = b"k" * 20


def run_frame(
    ledger_id: LedgerId, first: int, count: int, *, entry_bytes: int, recovery: bool
) -> RunFrame:
    """Entries whose bytes say which they are; zeros behind that, since a sector of zeros in a file
    allocated before is there or not without a difference, and doubles no number of images."""
    entries = [
        ENTRY_HEADER.pack(ledger_id, entry_id, first - 1, 0)
        + (b"entry %d of ledger %d" % (entry_id, ledger_id)).ljust(entry_bytes, b"\0")
        for entry_id in range(first, first + count)
    ]
    flags = FLAG_RECOVERY if recovery else 0
    made = build_run(ledger_id, EntryId(first), entries, lac=EntryId(first - 1), flags=flags)
    return parse_run(memoryview(made))


class Wire(asyncio.Transport):
    """The client's end of the connection: tells each answer when its bytes leave."""

    def __init__(self, on_reply: Callable[[int, Status], None]) -> None:
        super().__init__()
        self._on_reply = on_reply

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        self.write(b"".join(list_of_data))

    def write(self, data: Buffer) -> None:
        view = memoryview(data)
        while view:
            size = message_bytes(view)
            reply = parse_envelope(view[:size])
            self._on_reply(reply.request_id, Status(reply.code))
            view = view[size:]

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Nothing comes by itself."""

    def resume_reading(self) -> None:
        """Nothing comes by itself."""
