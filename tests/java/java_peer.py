"""Our own half of the tests of two clients, and of two tools, on one cluster."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeVar

from bookie.client.bookkeeper_client import Client
from bookie.client.reader import LedgerReader
from bookie.errors import MetadataConflictError
from bookie.frames.entry import DigestType
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.store import Cookie, MetadataStore
from java_metadata import ROOT, Metadata

Answer = TypeVar("Answer")

PASSWORD: Final = b"suite"
DIGESTS: Final = {
    "CRC32": DigestType.CRC32,
    "CRC32C": DigestType.CRC32C,
    "MAC": DigestType.HMAC,
    "DUMMY": DigestType.DUMMY,
}
"""By the names that the stock client has for them."""
WAIT_S: Final = 40.0


def payload(number: int) -> bytes:
    """As `Entries.of` of the Java side; every fifth is empty."""
    return f"entry {number} ".encode() * (number % 5)


class PythonPeer:
    """Verbs for `Control`; each with a client of its own."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._cookies: dict[BookieId, Cookie] = {}

    def write(self, words: list[str]) -> str:
        """`COUNT ENSEMBLE WRITE ACK DIGEST closed|open` -> ledger id; `open`: left so."""
        count, ensemble, write, ack = map(int, words[:4])
        digest, is_closed = DIGESTS[words[4]], words[5] == "closed"

        async def run() -> LedgerId:
            async with self._client() as client:
                writer = await client.create_ledger(
                    ensemble_size=ensemble,
                    write_quorum=write,
                    ack_quorum=ack,
                    password=PASSWORD,
                    digest_type=digest,
                )
                last = writer.append_many([payload(number) for number in range(count)])
                await writer.wait_acked(last)
                if is_closed:
                    await writer.close()
                return writer.ledger_id

        return str(asyncio.run(run()))

    def read(self, words: list[str]) -> str:
        """`LEDGER` -> how many entries, and the SHA-256 of all."""

        async def run() -> str:
            async with self._client() as client:
                ledger = LedgerId(int(words[0]))
                return await _told(await client.open_ledger(ledger, password=PASSWORD))

        return asyncio.run(run())

    def recover(self, words: list[str]) -> str:
        """As `read`, after it was fenced, recovered and closed."""

        async def run() -> str:
            async with self._client() as client:
                ledger = LedgerId(int(words[0]))
                return await _told(await client.recover_ledger(ledger, password=PASSWORD))

        return asyncio.run(run())

    def initialise(self, words: list[str]) -> str:
        """`PATH` -> the instance id of the cluster there, made where it is missing."""
        return asyncio.run(self._at(words[0], lambda store: store.initialise()))

    def instance_id(self, words: list[str]) -> str:
        """`PATH` -> the instance id of the cluster there, or `None`."""
        return str(asyncio.run(self._at(words[0], lambda store: store.instance_id())))

    def cookie(self, words: list[str]) -> str:
        """`BOOKIE` -> its journal and ledger directories, or `none`."""

        async def read(store: MetadataStore) -> str:
            found = await store.read_cookie(BookieId(words[0]))
            return (
                "none"
                if found is None
                else " ".join((*found.value.journal_dirs, *found.value.ledger_dirs))
            )

        return asyncio.run(self._at(ROOT, read))

    def keep_cookie(self, words: list[str]) -> None:
        """`BOOKIE`: for `restore_cookie`."""
        bookie_id = BookieId(words[0])
        found = asyncio.run(self._at(ROOT, lambda store: store.read_cookie(bookie_id)))
        if found is not None:
            self._cookies[bookie_id] = found.value

    def restore_cookie(self, words: list[str]) -> None:
        """`BOOKIE`: writes the kept one where a command has deleted it."""
        cookie = self._cookies[BookieId(words[0])]
        with suppress(MetadataConflictError):
            asyncio.run(self._at(ROOT, lambda store: store.create_cookie(cookie)))

    async def _at(self, path: str, ask: Callable[[MetadataStore], Awaitable[Answer]]) -> Answer:
        async with asyncio.timeout(WAIT_S):
            store = await self._metadata.open(path)
            try:
                return await ask(store)
            finally:
                await store.close()

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[Client]:
        async with asyncio.timeout(WAIT_S):
            store = await self._metadata.open()
            try:
                async with Client(store, settings=self._metadata.to_client_settings()) as client:
                    yield client
            finally:
                await store.close()


async def _told(reader: LedgerReader) -> str:
    last = reader.last_entry_id if reader.is_closed else await reader.read_lac()
    digest, count = hashlib.sha256(), 0
    if last >= 0:
        async for entry in reader.stream(EntryId(0), last):
            digest.update(entry.payload)
            count += 1
    return f"{count} {digest.hexdigest()}"
