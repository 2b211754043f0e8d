"""What a conversation with the stock port changes at its bookie: counters, and lines it logs."""

import logging
import re
from collections.abc import Collection, Iterator, Mapping

import pytest
from bookie.server.state import Traffic
from bookie.storage.durations import Durations


def counts(traffic: Traffic, names: Collection[str] = ()) -> dict[str, int]:
    """Each counter by its name, or by name and key; `names`: only of these. Of durations it is how
    many there were.
    """
    return dict(_counts(traffic, names or traffic.__dataclass_fields__))


def _counts(traffic: Traffic, names: Collection[str]) -> Iterator[tuple[str, int]]:
    for name in names:
        value = getattr(traffic, name)
        if isinstance(value, int):
            yield name, value
        elif isinstance(value, Durations):
            yield name, int(dict(value.buckets())["+Inf"])
        else:
            yield from ((f"{name}.{getattr(key, 'name', key)}", n) for key, n in value.items())


class Changes:
    """What counters are more, or less, than when it was last asked."""

    def __init__(self) -> None:
        self._was: Mapping[str, int] = {}

    def since(self, now: Mapping[str, int]) -> list[str]:
        was, self._was = self._was, now
        return [f"{n} {now[n] - was.get(n, 0):+d}" for n in now if now[n] != was.get(n, 0)]


def taken_logs(
    caplog: pytest.LogCaptureFixture, level: int = logging.DEBUG
) -> Iterator[tuple[str, str]]:
    """Level and words of each line of the server since this was last called; no two runs have the
    same ports of clients.
    """
    for record in caplog.records:
        if record.name.startswith("bookie.server") and record.levelno >= level:
            yield record.levelname, re.sub(r"\('[^)]*\)", "PEER", record.getMessage())
    caplog.clear()
