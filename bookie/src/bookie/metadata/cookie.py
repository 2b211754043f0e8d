"""Encodes and decodes cookies, in BookKeeper's format: the same bytes in ZooKeeper and on each
disk.

The first line is the layout version. In layouts 4 and 5 protobuf text follows (5 added indexDirs),
in layout 3 three plain lines. A cookie is written in the layout that it names.
"""

from collections.abc import Sequence
from typing import Final

from google.protobuf import text_format

from bookie.errors import BadRequestError, MetadataFormatError
from bookie.ids import BookieId
from bookie.metadata.bookkeeper_pb2 import CookieFormat
from bookie.metadata.store import Cookie

LAYOUTS_READ: Final = (3, 4, 5)
LAYOUT_WITH_INDEX_DIRS: Final = 5
LAYOUT_OF_PLAIN_LINES: Final = 3


def encode_cookie(cookie: Cookie) -> bytes:
    """Encode a cookie; BadRequestError when a folder name cannot be written in this format."""
    if cookie.layout_version not in LAYOUTS_READ:
        raise BadRequestError(
            f"cookie layout {cookie.layout_version} cannot be written, expected one of 3, 4, 5"
        )
    journal = _join(cookie.journal_dirs, ",")
    ledgers = _counted(cookie.ledger_dirs)
    if cookie.layout_version == LAYOUT_OF_PLAIN_LINES:
        return f"3\n{cookie.bookie_id}\n{journal}\n{ledgers}\n".encode()
    message = CookieFormat(bookieHost=cookie.bookie_id, journalDir=journal, ledgerDirs=ledgers)
    if cookie.instance_id:
        message.instanceId = cookie.instance_id
    if cookie.index_dirs and cookie.layout_version >= LAYOUT_WITH_INDEX_DIRS:
        message.indexDirs = _counted(cookie.index_dirs)
    text = text_format.MessageToString(message, as_utf8=False)
    return f"{cookie.layout_version}\n{text}".encode()


def decode_cookie(raw: bytes) -> Cookie:
    """Decode a cookie; MetadataFormatError when it is malformed, as it must be neither corrected
    nor ignored.
    """
    first, _, rest = raw.partition(b"\n")
    try:
        layout = int(first)
        if layout not in LAYOUTS_READ:
            raise ValueError(f"layout {layout}, expected one of 3, 4, 5")
        text = rest.decode()
        if layout == LAYOUT_OF_PLAIN_LINES:
            host, journal, ledgers, *_ = text.split("\n")
            return _cookie(CookieFormat(bookieHost=host, journalDir=journal, ledgerDirs=ledgers), 3)
        message = text_format.Parse(text, CookieFormat())
        if not message.IsInitialized():
            raise ValueError("a required field is missing")
        return _cookie(message, layout)
    except (ValueError, text_format.ParseError) as error:
        raise MetadataFormatError(
            f"cookie {raw[:80]!r} cannot be read ({error}): leave it alone and look who wrote it"
        ) from error


def _cookie(message: CookieFormat, layout: int) -> Cookie:
    return Cookie(
        bookie_id=BookieId(message.bookieHost),
        journal_dirs=tuple(message.journalDir.split(",")),
        ledger_dirs=_uncounted(message.ledgerDirs),
        instance_id=message.instanceId,
        index_dirs=_uncounted(message.indexDirs) if message.indexDirs else (),
        layout_version=layout,
    )


def _join(directories: Sequence[str], separator: str) -> str:
    for directory in directories:
        if not directory or any(character in directory for character in (separator, "\n")):
            raise BadRequestError(
                f"folder {directory!r} cannot stand in a cookie: it must not be empty nor hold "
                f"{separator!r} or a line break; use another path"
            )
    return separator.join(directories)


def _counted(directories: Sequence[str]) -> str:
    """Encode a list as `N<TAB>first<TAB>second...`"""
    return "\t".join((str(len(directories)), _join(directories, "\t")))


def _uncounted(text: str) -> tuple[str, ...]:
    count, *directories = text.split("\t")
    if not count.isdecimal() or int(count) != len(directories):
        raise ValueError(f"folder list says {count!r} and names {len(directories)}")
    return tuple(directories)
