"""One client process of a soak: writes, reads, and tells its promises in lines of JSON.

Started by `soak_clients`. A line `stop` on its input closes the ledgers and ends it; so does, at
once, the end of that input: nobody is left who could want the promises.
"""

import argparse
import asyncio
import json
import logging
import random
import sys
from typing import Any, Final

from bookie.client.bookkeeper_client import Client
from bookie.metadata.opening import open_store
from payload_rule import PayloadRule
from promises import Promises
from soak_readers import Readers
from soak_writers import BUSY, QUIET, Writers

TELL_EVERY_S: Final = 0.5


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="soak_client", description=__doc__)
    parser.add_argument("--metadata", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--busy", type=int, required=True, help="writers that never pause long")
    parser.add_argument("--quiet", type=int, required=True, help="writers of mostly idle ledgers")
    return parser.parse_args()


class SoakClient:
    """Writers and readers; these have a client and a session of their own, like strangers."""

    def __init__(self, options: argparse.Namespace) -> None:
        rule = PayloadRule(options.seed)
        rng = random.Random(f"{options.name} {options.seed}")
        paces = [BUSY] * options.busy + [QUIET] * options.quiet
        self._metadata_url: str = options.metadata
        self._promises = Promises(rule)
        self._writers = Writers(self._promises, rule, rng=rng, paces=paces)
        self._readers = Readers(self._promises, rng=rng, open_ledgers=self._writers.open_ledgers)

    async def run(self) -> None:
        """Until the input says stop, or ends."""
        writing, reading = [await open_store(self._metadata_url) for _ in range(2)]
        async with Client(writing) as writers, Client(reading) as readers:
            work = asyncio.create_task(self._writers.run(writers))
            looks = asyncio.create_task(self._readers.run(readers))
            heeding = asyncio.create_task(self._heed_input(work))
            while not work.done():
                await asyncio.wait([work, looks], timeout=TELL_EVERY_S)
                self._tell(is_last=False)
                if looks.done():
                    await looks
            for task in (heeding, looks):
                task.cancel()
            await asyncio.gather(heeding, looks, return_exceptions=True)
            await work
            self._tell(is_last=True)
        await writing.close()
        await reading.close()

    async def _heed_input(self, work: "asyncio.Task[None]") -> None:
        lines = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        while line := await lines.readline():
            if line.strip() == b"stop":
                self._writers.stop()
        work.cancel()

    def _tell(self, *, is_last: bool) -> None:
        """What the process that started this one has to know since the last line."""
        findings = self._promises.findings
        report: dict[str, Any] = {
            "ledgers": list(self._promises.changes()),
            "checked": self._promises.checked,
            "unanswered": self._readers.unanswered,
            "deleted": self._readers.deleted,
            "taken_over": self._writers.taken_over,
            "longest_pause_s": self._writers.longest_pause_s(),
            "lost": findings.lost,
            "wrong": findings.wrong,
            "failed": findings.failed,
            "words": findings.words,
            "is_last": is_last,
        }
        print(json.dumps(report), flush=True)
        self._readers.told()


if __name__ == "__main__":
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    asyncio.run(SoakClient(arguments()).run())
