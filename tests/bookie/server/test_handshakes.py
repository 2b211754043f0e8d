"""Bytes that were read before a handshake reach whoever reads them now, whatever room it gives."""

import asyncio

from bookie.server.handshakes import feed
from hypothesis import given
from hypothesis import strategies as st


class Reader(asyncio.BufferedProtocol):
    """Gives room for so many bytes at a time, and a byte each time after that."""

    def __init__(self, rooms: list[int]) -> None:
        self.rooms = iter(rooms)
        self.content = b""
        self.buffer = bytearray()

    def get_buffer(self, sizehint: int) -> bytearray:
        self.buffer = bytearray(next(self.rooms, 1))
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.content += self.buffer[:nbytes]


@given(st.binary(max_size=200), st.lists(st.integers(1, 300)))
def test_all_bytes_come_in_their_order_whatever_room_there_is(
    content: bytes, rooms: list[int]
) -> None:
    reader = Reader(rooms)
    feed(reader, content)
    assert reader.content == content
