"""The invariant of every server test can fail: no answer, and one too many, are both seen."""

import struct
from typing import Any

import pytest
from answer_tap import AnswerTap
from bookie.protocol.status import Status
from bookie.server.connections import RunConnection
from bookie.server.stock import StockConnection
from bookie.wire.native import Op
from server_lab import ServerLab
from stock_client import StockLab


async def test_an_answer_that_comes_twice_is_seen(
    answers: AnswerTap, server: ServerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = RunConnection.reply

    def twice(connection: RunConnection, *args: Any) -> None:
        reply(connection, *args)
        if args[0] is Op.READ_LAC:
            reply(connection, *args)

    monkeypatch.setattr(RunConnection, "reply", twice)
    assert (await server.lac(1))[0] is Status.NO_SUCH_LEDGER
    assert [key[0] for key in answers.surplus()] == [Op.READ_LAC] and not answers.lacking()
    answers.owed.clear()


async def test_an_answer_that_never_comes_is_seen(
    answers: AnswerTap, stock: StockLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await stock.client()
    await client.ask(stock.frames.read(1, 0))  # what its wire is has been seen
    monkeypatch.setattr(StockConnection, "send", lambda _connection, _buffers: None)
    client.send(stock.frames.read(1, 0))
    await stock.server.until(lambda: bool(answers.lacking()))
    assert len(answers.lacking()) == 1 and not answers.surplus()
    answers.owed.clear()


async def test_a_long_poll_that_waits_lacks_nothing(answers: AnswerTap, stock3: StockLab) -> None:
    ledger = await stock3.server.ledger()
    await stock3.ask(stock3.frames.add(ledger, 0))
    client = await stock3.client()
    frame = stock3.frames.poll(ledger, previous=5)
    client.writer.write(struct.pack(">i", len(frame)) + frame)
    await stock3.server.until(lambda: stock3.server.traffic.long_polls == 1)
    assert not answers.lacking() and not answers.surplus()
