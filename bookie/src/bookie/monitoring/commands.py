"""Sends ZooKeeper's four-letter commands, such as `mntr`, with or without TLS: one question, one
answer.

This module uses only the standard library, because the exporter, which runs beside a ZooKeeper
server, uses it.
"""

import socket
from pathlib import Path
from typing import Final

from bookie.errors import UnavailableError
from bookie.hosts import at_port
from bookie.tls.files import client_context

ANSWER_WAIT_S: Final = 5.0
"""How long to wait for the server at each step: half of the time that Prometheus waits for a
scrape."""
ANSWER_BYTES_MAX: Final = 1 << 20
RECEIVE_BYTES: Final = 1 << 16

Address = tuple[str, int]


def ask(
    zookeeper: Address,
    command: bytes,
    *,
    credentials: Path | None = None,
    wait_s: float = ANSWER_WAIT_S,
) -> str:
    """Send a command and return the answer. `credentials`: the folder to use for TLS, None for a
    port without TLS.

    UnavailableError when a step takes longer than `wait_s`, SettingsError when the folder cannot be
    used.
    """
    context = None if credentials is None else client_context(credentials)
    where = at_port(*zookeeper)
    answer = bytearray()
    try:
        with socket.create_connection(zookeeper, timeout=wait_s) as plain:
            connection = plain
            if context is not None:
                connection = context.wrap_socket(plain, server_hostname=zookeeper[0])
            with connection:
                connection.sendall(command)
                while received := connection.recv(RECEIVE_BYTES):
                    answer += received
                    if len(answer) > ANSWER_BYTES_MAX:
                        raise UnavailableError(
                            f"the answer of ZooKeeper at {where} is longer than "
                            f"{ANSWER_BYTES_MAX} bytes: is that a ZooKeeper?"
                        )
    except OSError as error:
        raise UnavailableError(f"ZooKeeper at {where} does not answer: {error}") from error
    return answer.decode(errors="replace")
