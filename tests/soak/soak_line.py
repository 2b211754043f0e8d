"""A bookie's own line to ZooKeeper: a process that passes bytes on, to be stopped as a whole.

While it stands still, connections stand, new ones are taken by the system, and nobody answers; what
was sent meanwhile arrives when it goes on. It ends with the end of its input.
"""

import asyncio
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

CHUNK_BYTES: Final = 1 << 16
HOST: Final = "127.0.0.1"


class Line:
    """One such process, between `url` and the store at `target`, a URL as well."""

    def __init__(self, target: str, *, log: Path) -> None:
        scheme, rest = target.split("://")
        address, _, root = rest.partition("/")
        port = address.rpartition(":")[2]
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__)), port],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        told = self._process.stdout.readline().decode().strip()
        self.url = f"{scheme}://{HOST}:{told}/{root}"

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    def end(self) -> None:
        """Also one that stands still."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while found := await reader.read(CHUNK_BYTES):
            writer.write(found)
            await writer.drain()
    writer.close()


async def lead(target: int, *, port: int = 0) -> asyncio.Server:
    """Listens, and passes on what comes to the port `target`. `port`: 0 = any."""

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            theirs, ours = await asyncio.open_connection(HOST, target)
        except OSError:  # nobody is there: as if the line led straight to it
            writer.close()
            return
        await asyncio.gather(_pass_on(reader, ours), _pass_on(theirs, writer))

    return await asyncio.start_server(meet, HOST, port)


async def _serve(target: int) -> None:
    server = await lead(target)
    print(server.sockets[0].getsockname()[1], flush=True)
    ending = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(ending), sys.stdin)
    await ending.read()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
