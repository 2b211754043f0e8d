"""A native add of id 2^63 - 1, one beyond the largest entry id that there is."""

import pytest
from bookie.frames.build import build_run
from bookie.frames.entry import DigestType, EntryCodec
from bookie.frames.frame import FLAG_RECOVERY
from bookie.ids import NO_ENTRY, EntryId
from bookie.protocol.status import Status
from server_lab import PASSWORD, ServerLab

BEYOND = EntryId(2**63 - 1)


@pytest.mark.parametrize("recovery", [False, True])
@pytest.mark.parametrize("journalled", [False, True])
async def test_an_id_beyond_the_largest_one_does_not_end_the_bookie(
    idle_server: ServerLab, recovery: bool, journalled: bool
) -> None:
    server = idle_server
    server.tree["durability"]["journalWriteData"] = journalled
    await server.start()
    ledger, other = await server.ledger(), await server.ledger()
    assert await server.add(other, 0) is Status.OK
    entry = EntryCodec(ledger, DigestType.CRC32C, PASSWORD).encode(
        BEYOND, b"x", lac=NO_ENTRY, length=1
    )
    flags = FLAG_RECOVERY if recovery else 0
    run = build_run(ledger, BEYOND, [entry], lac=NO_ENTRY, flags=flags)
    status = await server.send(run)
    assert status is Status.BAD_REQUEST
    await server.flush()
    await server.restart()  # SIGKILL: what was journalled is replayed
    assert await server.held(other, 0, 0) == [0]
