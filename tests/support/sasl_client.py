"""What a stock client says in DIGEST-MD5. Computed here by RFC 2831, not by the code under test."""

import hashlib
import re
from typing import Any

from stock_client import Answer

USER, PASSWORD = "hd", "testpwd"
REALM = "bookkeeper"


def md5(text: bytes) -> str:
    return hashlib.md5(text).hexdigest()


def line(user: str = USER, password: str = PASSWORD, realm: str = REALM) -> str:
    """Of a file of users, as `htdigest` writes it."""
    return f"{user}:{realm}:{md5(f'{user}:{realm}:{password}'.encode())}\n"


def response(challenge: bytes, user: str = USER, password: str = PASSWORD) -> bytes:
    """As Java's client answers a challenge: it names the user as the one it acts for, too."""
    found = re.search(rb'nonce="([^"]+)"', challenge)
    assert found is not None, challenge
    nonce, cnonce, uri = found[1].decode(), "a cnonce", "bookkeeper/bookkeeper"
    secret = hashlib.md5(f"{user}:{REALM}:{password}".encode()).digest()
    first = md5(secret + f":{nonce}:{cnonce}:{user}".encode())
    second = md5(f"AUTHENTICATE:{uri}".encode())
    proof = md5(f"{first}:{nonce}:00000001:{cnonce}:auth:{second}".encode())
    return (
        f'charset=utf-8,username="{user}",realm="{REALM}",nonce="{nonce}",nc=00000001,'
        f'cnonce="{cnonce}",digest-uri="{uri}",maxbuf=65536,response={proof},qop=auth,'
        f'authzid="{user}"'
    ).encode()


async def challenge(client: Any) -> bytes:
    """The bookie's, for a client that greets."""
    [answer] = await client.ask(client.auth(b"", plugin="sasl"))
    return bytes(answer.message.payload)


async def log_in(client: Any, user: str = USER, password: str = PASSWORD) -> Answer:
    """The whole exchange; what the bookie said last."""
    token = response(await challenge(client), user, password)
    [answer] = await client.ask(client.auth(token, plugin="sasl"))
    return answer  # type: ignore[no-any-return]
