"""Parses the directives of DIGEST-MD5: `name=value` and `name="quoted value"`, separated by commas
(RFC 2831).

In the result, names are in lower case and values have neither quotes nor escapes. Values are bytes,
since one of the directives says which character set they are in.
"""

import re
from collections.abc import Mapping
from typing import Final

from bookie.errors import BadRequestError

DIRECTIVES_MAX: Final = 64
"""Most directives in one message; a client sends thirteen at most."""

_WORD: Final = rb'[^\x00-\x20\x7f-\xff()<>@,;:\\"/\[\]?={}]+'
_DIRECTIVE: Final = re.compile(
    rb'[ \t\r\n,]*(%b)[ \t\r\n]*=[ \t\r\n]*(?:"((?:[^"\\]|\\.)*)"|(%b))[ \t\r\n]*(?=,|\Z)'
    % (_WORD, _WORD),
    re.DOTALL,
)
_NOTHING: Final = re.compile(rb"[ \t\r\n,]*\Z")
_ESCAPED: Final = re.compile(rb"\\(.)", re.DOTALL)
_TO_ESCAPE: Final = re.compile(rb'(["\\])')

Directives = Mapping[str, bytes]


class DirectiveError(BadRequestError):
    """Raised for bytes that are no list of directives, or have one twice. The message never shows
    values, which may be secret.
    """


def parse_directives(token: bytes) -> Directives:
    """Parse a message. DirectiveError when it is malformed, or when a directive comes twice: then
    neither of the two can be trusted.

    The time it takes grows only with the length of `token`, which the caller bounds.
    """
    found: dict[str, bytes] = {}
    at = 0
    while _NOTHING.match(token, at) is None:
        match = _DIRECTIVE.match(token, at)
        if match is None:
            raise DirectiveError(f"expected a directive at byte {at}")
        name = match[1].decode("ascii").lower()
        if name in found or len(found) == DIRECTIVES_MAX:
            raise DirectiveError(f"directive {name} comes twice, or they are too many")
        found[name] = match[3] if match[2] is None else _ESCAPED.sub(rb"\1", match[2])
        at = match.end()
    return found


def quoted(value: bytes) -> bytes:
    return b'"' + _TO_ESCAPE.sub(rb"\\\1", value) + b'"'
