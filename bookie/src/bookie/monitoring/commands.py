"""ZooKeeper's four-letter commands, such as `mntr`: one question, one answer, over TLS or without.

The standard library alone: the exporter beside a server asks with it.
"""

import socket
from pathlib import Path
from typing import Final

from bookie.errors import UnavailableError
from bookie.hosts import at_port
from bookie.tls.files import client_context

ANSWER_WAIT_S: Final = 5.0
"""Half of Prometheus's patience with a scrape."""
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
    """The answer. `credentials`: the folder of who asks under TLS, None for a plain port.

    UnavailableError when none comes within `wait_s` a step, SettingsError for a folder that cannot
    be used.
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
