"""Input as it comes from pipes and files, cut into entries."""

import asyncio
import io
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import BinaryIO, cast

import pytest
from bookie.cli import entries
from bookie.cli.entries import PIECE_BYTES, Source, batches
from bookie.frames.frame import FRAME_BYTES_MAX
from click import BadParameter


async def cut(source: BinaryIO, *, lines: bool) -> list[bytes]:
    return [payload async for batch in batches(source, lines=lines) for payload in batch]


@contextmanager
def pipe() -> Iterator[tuple[BinaryIO, int]]:
    """Where input comes from, and where it goes in."""
    out, into = os.pipe()
    with open(out, "rb") as source:
        yield source, into


async def following(arriving: AsyncIterator[list[bytes]]) -> list[bytes]:
    return await anext(arriving)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\n\nb", [b"a", b"", b"b"]),
        (b"\n", [b""]),
        (b"a\r\n", [b"a\r"]),
    ],
)
async def test_lines_lose_their_newline(text: bytes, expected: list[bytes]) -> None:
    assert await cut(io.BytesIO(text), lines=True) == expected


async def test_pieces_are_full_but_for_the_last() -> None:
    text = bytes(range(256)) * 1000
    pieces = await cut(io.BytesIO(text), lines=False)
    assert b"".join(pieces) == text
    assert {len(piece) for piece in pieces[:-1]} == {PIECE_BYTES}


async def test_a_line_that_comes_in_two_halves_is_one_entry() -> None:
    with pipe() as (source, into):
        arriving = batches(source, lines=True)
        os.write(into, b"a\nb")
        assert await anext(arriving) == [b"a"]
        os.write(into, b"c\n")
        assert await anext(arriving) == [b"bc"]
        os.close(into)
        assert [batch async for batch in arriving] == []


async def test_waiting_for_input_can_be_interrupted() -> None:
    with pipe() as (source, into):
        waiting = asyncio.create_task(following(batches(source, lines=True)))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        os.close(into)


@pytest.mark.parametrize(("is_followed", "shown"), [(True, b"a"), (False, b"")])
def test_of_a_ledger_that_is_followed_each_raw_entry_appears_at_once(
    monkeypatch: pytest.MonkeyPatch, is_followed: bool, shown: bytes
) -> None:
    reached = io.BytesIO()
    out = SimpleNamespace(buffer=io.BufferedWriter(cast(io.RawIOBase, reached)))
    monkeypatch.setattr(sys, "stdout", out)
    with entries._shown(True, "text", following=is_followed) as show:
        show(0, b"a")
        assert reached.getvalue() == shown
    assert reached.getvalue() == b"a"


async def test_a_line_without_end_is_not_collected_for_ever() -> None:
    text = io.BytesIO(b"x" * (3 * FRAME_BYTES_MAX))
    longest = max(len(payload) for payload in await cut(text, lines=True))
    assert FRAME_BYTES_MAX < longest <= FRAME_BYTES_MAX + PIECE_BYTES


def test_a_closed_standard_input_is_wrong_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(BadParameter, match="standard input is closed"):
        Source().convert("-", None, None)
    with Source().convert("/dev/null", None, None) as source:
        assert source.read() == b""
