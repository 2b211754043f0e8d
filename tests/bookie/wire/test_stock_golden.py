"""Frames of the real Java encoder: read as they were meant, and answered byte for byte alike."""

import pytest
from bookie.frames.entry import Buffer, master_key
from bookie.ids import NO_ENTRY, EntryId, LedgerId
from bookie.protocol.availability import EntrySet
from bookie.wire.stock.connection import StockConnection
from bookie.wire.stock.messages import (
    Add,
    Auth,
    BatchRead,
    BookieInfo,
    Force,
    ListEntries,
    Outcome,
    Read,
    ReadLac,
    Request,
    StartTls,
    WriteLac,
)
from bookie.wire.stock.wire import Wire
from stock_frames import FRAMES

KEY, ENTRY, LAC_BODY = FRAMES["key"], FRAMES["entry"], FRAMES["lac_body"]
LEDGER, ID, LAC, LAST = LedgerId(77777), EntryId(300), EntryId(299), NO_ENTRY
TXN = 4242
V2_ADD, V2_READ, V2_AUTH, V2_BATCH = (2 << 24 | op << 16 for op in (1, 2, 3, 7))
VIEW = memoryview(ENTRY)

REQUESTS: dict[str, Request] = {
    "v2_add": Add(LEDGER, ID, KEY, VIEW, False, False, V2_ADD),
    "v2_recovery_add": Add(LEDGER, ID, KEY, VIEW, True, False, V2_ADD),
    "v2_read": Read(LEDGER, ID, None, False, None, None, False, V2_READ),
    "v2_read_last_fencing": Read(LEDGER, LAST, KEY, True, None, None, False, V2_READ),
    "v2_batch_read": BatchRead(LEDGER, ID, 10, 4096, None, False, 900, V2_BATCH),
    "v2_batch_read_fencing": BatchRead(LEDGER, ID, 10, 4096, KEY, True, 900, V2_BATCH),
    "v2_auth": Auth("TestPlugin", b"tok", V2_AUTH),
    "v3_add": Add(LEDGER, ID, KEY, VIEW, False, False, TXN),
    "v3_recovery_add": Add(LEDGER, ID, KEY, VIEW, True, False, TXN),
    "v3_deferred_add": Add(LEDGER, ID, KEY, VIEW, False, True, TXN),
    "v3_read": Read(LEDGER, ID, None, False, None, None, False, TXN),
    "v3_read_last_fencing": Read(LEDGER, LAST, KEY, True, None, None, False, TXN),
    "v3_long_poll": Read(LEDGER, LAST, None, False, LAC, 1000, True, TXN),
    "v3_write_lac": WriteLac(LEDGER, LAC, KEY, LAC_BODY, TXN),
    "v3_read_lac": ReadLac(LEDGER, TXN),
    "v3_force": Force(LEDGER, TXN),
    "v3_list": ListEntries(LEDGER, TXN),
    "v3_bookie_info": BookieInfo(True, True, TXN),
    "v3_auth": Auth("TestPlugin", b"tok", TXN),
    "v3_start_tls": StartTls(TXN),
}


def parsed(name: str) -> tuple[Wire, Request]:
    wire, requests, consumed = StockConnection().parse_all(memoryview(FRAMES[name]))
    assert (len(requests), consumed) == (1, len(FRAMES[name]))
    return wire, requests[0]


def asked_add(name: str) -> tuple[Wire, Add]:
    wire, request = parsed(name)
    assert isinstance(request, Add)
    return wire, request


def asked_read(name: str) -> tuple[Wire, Read]:
    wire, request = parsed(name)
    assert isinstance(request, Read)
    return wire, request


def joined(buffers: list[Buffer]) -> bytes:
    return b"".join(buffers)


def test_the_key_is_the_one_that_a_password_makes() -> None:
    assert master_key(b"pw") == KEY


@pytest.mark.parametrize("name", REQUESTS)
def test_a_frame_of_java_is_read_as_it_was_meant(name: str) -> None:
    assert parsed(name)[1] == REQUESTS[name]


@pytest.mark.parametrize("version", ["v2", "v3"])
@pytest.mark.parametrize("end", ["ok", "fenced"])
def test_an_add_is_answered_as_java_does(version: str, end: str) -> None:
    wire, request = asked_add(f"{version}_add")
    outcome = {"ok": Outcome.OK, "fenced": Outcome.FENCED}[end]
    assert wire.answer_add(request, outcome) == FRAMES[f"{version}_add_{end}"]


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_many_adds_are_answered_one_after_the_other(version: str) -> None:
    wire, request = asked_add(f"{version}_add")
    assert wire.answer_adds([request] * 3, Outcome.OK) == FRAMES[f"{version}_add_ok"] * 3


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_a_read_is_answered_as_java_does_with_the_entry_not_copied(version: str) -> None:
    wire, request = asked_read(f"{version}_read")
    buffers = wire.answer_read(request, Outcome.OK, entry=ENTRY, max_lac=LAC)
    assert joined(buffers) == FRAMES[f"{version}_read_ok"]
    assert any(buffer is ENTRY for buffer in buffers)


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_what_limbo_may_have_forgotten_is_answered_as_java_does(version: str) -> None:
    wire, request = asked_read(f"{version}_read")
    answer = wire.answer_read(request, Outcome.UNKNOWN_LEDGER_STATE)
    assert joined(answer) == FRAMES[f"{version}_read_unknown"]


def test_an_absent_entry_is_answered_as_java_does() -> None:
    wire, request = asked_read("v2_read")
    assert joined(wire.answer_read(request, Outcome.NO_ENTRY)) == FRAMES["v2_read_no_entry"]


def test_a_fencing_read_of_the_last_entry_is_answered_as_java_does() -> None:
    wire, request = asked_read("v3_read_last_fencing")
    answer = wire.answer_read(request, Outcome.OK, entry=ENTRY)
    assert joined(answer) == FRAMES["v3_read_last_fencing_ok"]


def test_a_piggyback_says_which_entry_it_brings() -> None:
    wire, request = asked_read("v3_long_poll")
    answer = wire.answer_read(request, Outcome.OK, entry=ENTRY, max_lac=ID)
    assert joined(answer) == FRAMES["v3_long_poll_ok"]


def test_a_long_poll_that_runs_out_brings_the_lac_alone() -> None:
    wire, request = asked_read("v3_long_poll")
    answer = wire.answer_read(request, Outcome.OK, max_lac=LAC)
    assert joined(answer) == FRAMES["v3_long_poll_empty"]


def test_a_batch_is_answered_as_java_does() -> None:
    wire, request = parsed("v2_batch_read")
    assert isinstance(request, BatchRead)
    answer = wire.answer_batch_read(request, Outcome.OK, [ENTRY, ENTRY])
    assert joined(answer) == FRAMES["v2_batch_read_ok"]
    denied = wire.answer_batch_read(request, Outcome.NO_LEDGER)
    assert joined(denied) == FRAMES["v2_batch_read_no_ledger"]


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_authentication_is_answered_as_a_bookie_without_plugins_does(version: str) -> None:
    wire, request = parsed(f"{version}_auth")
    assert isinstance(request, Auth)
    assert wire.answer_auth(request) == FRAMES[f"{version}_auth_ok"]


def test_lacs_are_answered_as_java_does() -> None:
    wire, write = parsed("v3_write_lac")
    assert isinstance(write, WriteLac)
    assert wire.answer_write_lac(write, Outcome.OK) == FRAMES["v3_write_lac_ok"]
    wire, read = parsed("v3_read_lac")
    assert isinstance(read, ReadLac)
    answer = wire.answer_read_lac(read, Outcome.OK, lac_body=LAC_BODY, last_entry=ENTRY)
    assert joined(answer) == FRAMES["v3_read_lac_ok"]


def test_a_force_is_answered_as_java_does() -> None:
    wire, request = parsed("v3_force")
    assert isinstance(request, Force)
    assert wire.answer_force(request, Outcome.OK) == FRAMES["v3_force_ok"]


def test_entries_are_listed_as_java_does() -> None:
    wire, request = parsed("v3_list")
    assert isinstance(request, ListEntries)
    held = EntrySet.from_ranges([(5, 8)])
    assert joined(wire.answer_list_entries(request, Outcome.OK, held)) == FRAMES["v3_list_ok"]


def test_sizes_of_disks_are_answered_as_java_does() -> None:
    wire, request = parsed("v3_bookie_info")
    assert isinstance(request, BookieInfo)
    answer = wire.answer_bookie_info(request, Outcome.OK, total_bytes=1_000_000, free_bytes=250_000)
    assert answer == FRAMES["v3_bookie_info_ok"]


def test_tls_is_declined_as_java_does_without_it() -> None:
    wire, request = parsed("v3_start_tls")
    assert isinstance(request, StartTls)
    assert wire.answer_start_tls(request, Outcome.BAD_REQUEST) == FRAMES["v3_start_tls_no"]
