"""Encodes and decodes ledger metadata, in BookKeeper's formats.

The first line is `BookieMetadataFormatVersion<TAB><n>`. n = 3: a varint-delimited protobuf message;
n = 2: the same message as protobuf text; n = 1: lines of text. Versions 1 and 2 are read too, since
this product may take over older clusters. Version 3 is written, and version 1 for a ledger whose
password was never stored.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from bookie.bounded import utf8
from bookie.errors import BadRequestError, MetadataFormatError
from bookie.frames.entry import DigestType
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.metadata.bookkeeper_pb2 import LedgerMetadataFormat
from bookie.protocol.assignment import refuse_length
from bookie.protocol.ledger import Fragment, LedgerMetadata, LedgerState

HEADER: Final = b"BookieMetadataFormatVersion\t"
VERSION_WRITTEN: Final = 3
VERSION_WITHOUT_PASSWORD: Final = 1
DIGEST_GUESSED: Final = DigestType.CRC32
"""Taken where none is stored, as by Apache's recovery."""
BOOKIE_ID_READ: Final = re.compile(r"[!-~]{1,255}")
V1_CLOSED: Final = "CLOSED"
V1_IN_RECOVERY_ENTRY: Final = -102
"""Version 1 has no field for the state: this value as the last entry id means IN_RECOVERY."""

VARINT_BYTES_MAX: Final = 5
VARINT_MORE: Final = 0x80


def encode_ledger(metadata: LedgerMetadata) -> bytes:
    """Encode metadata in format version 3, as the stock client writes it.

    If no password was stored, none is added, since the stock client would compare its own with it.
    Such metadata stay in version 1 if it can hold them: the stock client can read version 3 without
    a password, but not change it.
    """
    is_stored = metadata.password_is_stored
    if not is_stored and _fits_v1(metadata):
        return b"".join((HEADER, b"%d\n" % VERSION_WITHOUT_PASSWORD, _write_v1(metadata)))
    message = LedgerMetadataFormat(
        quorumSize=metadata.write_quorum,
        ensembleSize=metadata.ensemble_size,
        length=metadata.length if metadata.is_closed else 0,
        lastEntryId=metadata.last_entry_id if metadata.is_closed else NO_ENTRY,
        state=metadata.state.value,
        digestType=metadata.digest_type.name if is_stored else None,
        # Set even when empty: without it the stock client assumes that the ledger is older than
        # stored passwords, and skips its check.
        password=metadata.password if is_stored else None,
        ackQuorumSize=metadata.ack_quorum,
        ctime=metadata.ctime_ms,
        cToken=metadata.creation_token,
    )
    for fragment in metadata.fragments:
        message.segment.add(
            ensembleMember=list(fragment.ensemble), firstEntryId=fragment.first_entry_id
        )
    for key, value in metadata.custom.items():
        message.customMetadata.add(key=key, value=value)
    body = message.SerializeToString(deterministic=True)
    return b"".join((HEADER, b"%d\n" % VERSION_WRITTEN, _varint(len(body)), body))


def decode_ledger(raw: bytes, *, ledger_id: LedgerId, stored_at_ms: int = 0) -> LedgerMetadata:
    """Decode the metadata of a ledger.

    `stored_at_ms`: the store's own creation time, used if the value has none. Raises
    MetadataFormatError; then the ledger is unknown, never absent.
    """
    header, newline, body = raw.partition(b"\n")
    version = header[len(HEADER) :]
    reader = _READERS.get(version)
    if not header.startswith(HEADER) or not newline or reader is None:
        raise MetadataFormatError(
            f"metadata of ledger {ledger_id} starts with {_shown(header)}, expected "
            f"{HEADER.decode()!r} and a version of 1 to 3: leave it alone and look who wrote it"
        )
    try:
        found = reader(body, ledger_id, stored_at_ms)
        if refusal := refuse_length(found) or _refuse_names(found):
            raise ValueError(refusal)
        return found
    except (BadRequestError, DecodeError, text_format.ParseError, ValueError, IndexError) as error:
        raise MetadataFormatError(
            f"metadata of ledger {ledger_id} (format {version.decode()}) cannot be read: {error}"
        ) from error


def _refuse_names(metadata: LedgerMetadata) -> str:
    """Why a bookie's name is not accepted; empty when all are. Names get into logs, terminals and
    pages, so they must not have line breaks, terminal escapes or blanks. Apache's client accepts
    even fewer characters.
    """
    names = {name for fragment in metadata.fragments for name in fragment.ensemble}
    wrong = [name for name in names if not BOOKIE_ID_READ.fullmatch(name)]
    return f"found a bookie of the id {min(wrong)[:60]!r}" if wrong else ""


def _shown(header: bytes) -> str:
    """The header for an error message. A value without the known header is not shown, as it may
    hold a ledger's password.
    """
    known = header.startswith(HEADER)
    return repr(header[:60]) if known else f"{len(header)} bytes of something else"


def _read_v3(body: bytes, ledger_id: LedgerId, stored_at_ms: int) -> LedgerMetadata:
    size, start = _read_varint(body)
    if len(body) - start < size:
        raise ValueError(f"found {len(body) - start} bytes of message, expected {size}")
    message = LedgerMetadataFormat()
    message.ParseFromString(body[start : start + size])
    return _from_message(message, ledger_id, stored_at_ms)


def _read_v2(body: bytes, ledger_id: LedgerId, stored_at_ms: int) -> LedgerMetadata:
    message = text_format.Parse(body.decode(), LedgerMetadataFormat())
    return _from_message(message, ledger_id, stored_at_ms)


def _from_message(
    message: LedgerMetadataFormat, ledger_id: LedgerId, stored_at_ms: int
) -> LedgerMetadata:
    if not message.IsInitialized():
        raise ValueError("a required field is missing")
    state = LedgerState(LedgerMetadataFormat.State.Name(message.state))
    closed = state is LedgerState.CLOSED
    return LedgerMetadata(
        ledger_id=ledger_id,
        ensemble_size=message.ensembleSize,
        write_quorum=message.quorumSize,
        ack_quorum=message.ackQuorumSize
        if message.HasField("ackQuorumSize")
        else message.quorumSize,
        fragments=tuple(
            Fragment(EntryId(s.firstEntryId), tuple(BookieId(utf8(b)) for b in s.ensembleMember))
            for s in message.segment
        ),
        digest_type=_digest_type(message),
        password=message.password,
        password_is_stored=message.HasField("password"),
        state=state,
        last_entry_id=EntryId(message.lastEntryId) if closed else NO_ENTRY,
        length=message.length if closed else 0,
        ctime_ms=message.ctime if message.HasField("ctime") else stored_at_ms,
        creation_token=message.cToken,
        custom=_custom(message),
    )


def _digest_type(message: LedgerMetadataFormat) -> DigestType:
    """The digest type; an unknown number must not pass for the first known one."""
    if message.HasField("digestType"):
        return DigestType(message.digestType)
    if message.HasField("password"):
        raise ValueError("a password without a digest type of those known: CRC32 to DUMMY")
    return DIGEST_GUESSED


def _custom(message: LedgerMetadataFormat) -> Mapping[str, bytes]:
    return {entry.key: entry.value for entry in message.customMetadata}


def _read_v1(body: bytes, ledger_id: LedgerId, stored_at_ms: int) -> LedgerMetadata:
    """Read version 1. Its lines: quorum, ensemble size, length, fragments, and at the end `<last
    entry>TAB CLOSED`.
    """
    quorum, ensemble_size, length, *rest = body.decode().splitlines()
    fragments: list[Fragment] = []
    state, last_entry_id = LedgerState.OPEN, NO_ENTRY
    for line in rest:
        first, *members = line.split("\t")
        if members == [V1_CLOSED]:
            in_recovery = int(first) == V1_IN_RECOVERY_ENTRY
            state = LedgerState.IN_RECOVERY if in_recovery else LedgerState.CLOSED
            last_entry_id = NO_ENTRY if in_recovery else EntryId(int(first))
            break
        fragments.append(Fragment(EntryId(int(first)), tuple(BookieId(b) for b in members)))
    return LedgerMetadata(
        ledger_id=ledger_id,
        ensemble_size=int(ensemble_size),
        write_quorum=int(quorum),
        ack_quorum=int(quorum),
        fragments=tuple(fragments),
        digest_type=DIGEST_GUESSED,
        password_is_stored=False,
        state=state,
        last_entry_id=last_entry_id,
        length=int(length) if state is LedgerState.CLOSED else 0,
        ctime_ms=stored_at_ms,
    )


def _fits_v1(metadata: LedgerMetadata) -> bool:
    """True when version 1 has a place for all that these metadata say."""
    return (
        metadata.ack_quorum == metadata.write_quorum
        and not metadata.creation_token
        and not metadata.custom
        and all(fragment.ensemble != (V1_CLOSED,) for fragment in metadata.fragments)
    )


def _write_v1(metadata: LedgerMetadata) -> bytes:
    """Write version 1 as the stock client does; see `_read_v1`."""
    length = metadata.length if metadata.is_closed else 0
    lines = [f"{number}" for number in (metadata.write_quorum, metadata.ensemble_size, length)]
    for fragment in metadata.fragments:
        lines.append("\t".join((f"{fragment.first_entry_id}", *fragment.ensemble)))
    end = ""
    if metadata.state is not LedgerState.OPEN:
        last = metadata.last_entry_id if metadata.is_closed else V1_IN_RECOVERY_ENTRY
        end = f"{last}\t{V1_CLOSED}"
    return "\n".join((*lines, end)).encode()


_READERS: Final[Mapping[bytes, Callable[[bytes, LedgerId, int], LedgerMetadata]]] = {
    b"1": _read_v1,
    b"2": _read_v2,
    b"3": _read_v3,
}


def _varint(value: int) -> bytes:
    assert value >= 0
    groups = bytearray()
    while value >= VARINT_MORE:
        groups.append(value & 0x7F | VARINT_MORE)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def _read_varint(raw: bytes) -> tuple[int, int]:
    """Parse the number at the start of `raw`; returns it and how many bytes it takes."""
    value = 0
    for index, byte in enumerate(raw[:VARINT_BYTES_MAX]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < VARINT_MORE:
            return value, index + 1
    raise ValueError(f"no length of at most {VARINT_BYTES_MAX} bytes before the message")
