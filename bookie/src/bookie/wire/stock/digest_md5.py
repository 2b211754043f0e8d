"""The server's side of one exchange of SASL DIGEST-MD5 (RFC 2831), with `qop=auth`. Sans-I/O.

    client                                     server
      ""                                  ->
                                          <-   realm, nonce
      username, nonce, cnonce, response   ->
                                          <-   rspauth: the server knows the key as well

The server keeps no passwords: for each user it needs a *key*, the MD5 of `name:realm:password`,
which is what `htdigest` writes. Stock clients ask for a fixed service, see `Service`. There is only
one quality of protection, one exchange per connection, and a nonce is never used a second time.
"""

import hashlib
from collections.abc import Mapping
from enum import Enum
from hmac import compare_digest
from typing import Final, NamedTuple

from bookie.wire.stock.digest_directives import (
    DirectiveError,
    Directives,
    parse_directives,
    quoted,
)

TOKEN_BYTES_MAX: Final = 4096
"""Largest token of a client; a longer one is refused, as RFC 2831 (2.1.2) asks for."""
KEY_BYTES: Final = 16
QUALITY: Final = b"auth"
FIRST_USE: Final = b"00000001"
"""Count of uses of a nonce: the first use, which is the only one allowed."""

Keys = Mapping[str, bytes]
"""Keys of the users, by user name."""


class Service(NamedTuple):
    """The service that a client must ask for. `uri`: service and host, such as
    `bookkeeper/bookkeeper`.
    """

    realm: str = "bookkeeper"
    uri: str = "bookkeeper/bookkeeper"


class Challenge(NamedTuple):
    """Result of a step: send the token to the client, whose response comes next."""

    token: bytes


class Accepted(NamedTuple):
    """Result of a step: the client knows the user's password. Send the token, which shows that we
    know the key.
    """

    token: bytes
    user: str


class Denied(NamedTuple):
    """Result of a step: the client is refused, and the exchange has ended. `user`: the user that
    the client claimed to be; empty when it did not say.

    `why` is for our log, not for the client, which must not learn what was wrong.
    """

    user: str
    why: str


Step = Challenge | Accepted | Denied


class _State(Enum):
    BEGUN = "begun"
    CHALLENGED = "challenged"
    ENDED = "ended"


class Exchange:
    """One exchange with a client. It never raises, whatever the client sends."""

    def __init__(self, service: Service, nonce: bytes) -> None:
        """`nonce`: letters and digits that nobody can guess, never used before."""
        self._service = service
        self._nonce = nonce
        self._state = _State.BEGUN
        """It only moves forward: nothing is accepted twice, or after a denial."""

    def step(self, token: bytes, keys: Keys) -> Step:
        state, self._state = self._state, _State.ENDED
        if len(token) > TOKEN_BYTES_MAX:
            return Denied("", f"found a token of {len(token)} bytes, expected {TOKEN_BYTES_MAX}")
        if state is _State.BEGUN:
            if token:
                return Denied("", "the client spoke first, expected an empty token")
            self._state = _State.CHALLENGED
            return Challenge(challenge(self._service, self._nonce))
        if state is _State.CHALLENGED:
            return self._judge(token, keys)
        return Denied("", "the exchange has ended")

    def _judge(self, token: bytes, keys: Keys) -> Step:
        try:
            said = parse_directives(token)
            user = _text(said, "username")
        except (DirectiveError, UnicodeDecodeError):
            return Denied("", "no response of DIGEST-MD5")
        fault = _fault(said, self._service, self._nonce)
        if fault:
            return Denied(user, fault)
        # An unknown user takes the same time, and fails at the key: no password has such a hash.
        key = keys.get(user, bytes(KEY_BYTES))
        expected = response(key, said, b"AUTHENTICATE:")
        is_right = compare_digest(expected, said["response"])
        if user not in keys:
            return Denied(user, "no such user")
        if not is_right:
            return Denied(user, "another password")
        return Accepted(b"rspauth=" + response(key, said, b":"), user)


def challenge(service: Service, nonce: bytes) -> bytes:
    """The first message of the server."""
    return (
        b"realm=%b,nonce=%b,qop=%b,charset=utf-8,algorithm=md5-sess"
        % (quoted(service.realm.encode()), quoted(nonce), quoted(QUALITY))
    )  # fmt: skip


def user_key(name: str, realm: str, password: str) -> bytes:
    """The key that a server keeps for a user. By RFC 2831 (2.1.2.1) each text is encoded in
    ISO-8859-1 where that is possible.
    """
    return _md5(b":".join(map(_narrow, (name, realm, password))))


def response(key: bytes, said: Directives, method: bytes) -> bytes:
    """The proof that a side knows the key. `method`: `AUTHENTICATE:` for a client, `:` for a
    server.
    """
    first = b":".join((key, said["nonce"], said["cnonce"]))
    if "authzid" in said:
        first += b":" + said["authzid"]
    second = method + said["digest-uri"]
    parts = _hex(first), said["nonce"], said["nc"], said["cnonce"], QUALITY, _hex(second)
    return _hex(b":".join(parts))


def _fault(said: Directives, service: Service, nonce: bytes) -> str:
    """Why this response cannot be right, whatever the password; empty when it can be."""
    missing = {"username", "nonce", "cnonce", "nc", "digest-uri", "response"} - said.keys()
    if missing:
        return f"{sorted(missing)[0]} is missing"
    # Realm and service are no secrets; but the nonce belongs to this connection only.
    if not compare_digest(said["nonce"], nonce):
        return "another nonce than ours"
    expected = {
        "nc": FIRST_USE,
        "qop": QUALITY,
        "realm": service.realm.encode(),
        "digest-uri": service.uri.encode(),
        "charset": b"utf-8",
        # The user to act for: nobody may act for somebody else here.
        "authzid": said["username"],
    }
    for name, value in expected.items():
        if said.get(name, value) != value:
            return f"found another {name} than {value[:64]!r}"
    return "" if said["cnonce"] else "cnonce is empty"


def _text(said: Directives, name: str) -> str:
    return said.get(name, b"").decode("utf-8" if "charset" in said else "iso-8859-1")


def _narrow(text: str) -> bytes:
    try:
        return text.encode("iso-8859-1")
    except UnicodeEncodeError:
        return text.encode("utf-8")


def _md5(data: bytes) -> bytes:
    # The protocol asks for MD5; this flag allows it where MD5 is forbidden for security.
    return hashlib.md5(data, usedforsecurity=False).digest()


def _hex(data: bytes) -> bytes:
    return _md5(data).hex().encode("ascii")
