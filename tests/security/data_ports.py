"""Attacks on the data ports (3181, 3182), by sockets alone: reads, fences, handshakes."""

import socket
import ssl
import struct
from typing import Final

from strangers import Attacker

WAIT_S: Final = 5.0
READ: Final = 2
"""BookKeeper's version 2: opcode READENTRY; flag 1 = fence."""
RCODE_END: Final = 12
"""An answer begins with its length, the request's first word and a return code; 102 is EUA."""


Place = tuple[str, int]
"""Host and port."""
HELLO: Final = 7
"""The native wire's first message."""


def v2_read(ledger_id: int, entry_id: int, *, fence: bool = False, key: bytes = bytes(20)) -> bytes:
    """One request of BookKeeper's version 2 wire, as its documentation describes it."""
    header = (2 << 24) | (READ << 16) | int(fence)
    body = struct.pack(">iqq", header, ledger_id, entry_id) + (key if fence else b"")
    return struct.pack(">i", len(body)) + body


def ask_stock(attacker: Attacker, place: Place, frame: bytes) -> tuple[bool, str]:
    """Refused: no entry comes back. By TLS from the first byte, or in plain."""
    try:
        with _connected(attacker, place) as connection:
            connection.sendall(frame)
            answer = _frame(connection)
    except OSError as error:
        return True, str(error) or type(error).__name__
    if not answer:
        return True, "closed without an answer"
    code = struct.unpack(">i", answer[8:12])[0] if len(answer) >= RCODE_END else -1
    return code == 102, f"code {code} ({'unauthorized' if code == 102 else 'ANSWERED'})"


def greet_native(attacker: Attacker, place: Place) -> tuple[bool, str]:
    """A HELLO that means nobody in particular; refused: no OK comes back."""
    hello = struct.pack(">IBBHQ", 2, HELLO, 0, 0, 1) + b"{}"
    try:
        with _connected(attacker, place) as connection:
            connection.sendall(hello)
            answer = connection.recv(4096)
    except OSError as error:
        return True, str(error) or type(error).__name__
    return not answer or b"TLS only" in answer, repr(answer[16:120]) if answer else "closed"


def half_open(place: Place, *, count: int) -> list[socket.socket]:
    """Connections that begin a handshake and say nothing more."""
    found = []
    for _ in range(count):
        one = socket.create_connection(place, WAIT_S)
        one.sendall(b"\x16\x03\x01\x02\x00\x01")
        found.append(one)
    return found


def _connected(attacker: Attacker, place: Place) -> socket.socket:
    plain = socket.create_connection(place, WAIT_S)
    if attacker.folder is None:
        return plain
    context = ssl.create_default_context(cadata=attacker.read("ca.crt").decode())
    context.check_hostname = False
    context.load_cert_chain(attacker.folder / "tls.crt", attacker.folder / "tls.key")
    return context.wrap_socket(plain)


def _frame(connection: socket.socket) -> bytes:
    head = connection.recv(4)
    if len(head) < 4:
        return b""
    rest = struct.unpack(">i", head)[0]
    found = head
    while len(found) < rest + 4 and (more := connection.recv(65536)):
        found += more
    return found
