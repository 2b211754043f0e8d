"""What a test in Java may ask of the Python side: lines on a local socket.

One line, `VERB WORD...`, is answered by one when it is done: `ok WORD...`, or `error WHY`.
"""

import socket
import socketserver
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final

from bookie.hosts import loopback

Verb = Callable[[list[str]], object]
LINE_BYTES_MAX: Final = 4096


class Control:
    """Serves verbs, one at a time; a context manager. `port`: where."""

    def __init__(self, verbs: Mapping[str, Verb]) -> None:
        self._verbs = verbs
        self._turn = threading.Lock()
        control = self

        class Asked(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                while line := self.rfile.readline(LINE_BYTES_MAX):
                    self.wfile.write(control.answer(line.decode()).encode() + b"\n")

        class Server(socketserver.ThreadingTCPServer):
            address_family = socket.AF_INET6 if ":" in loopback() else socket.AF_INET
            daemon_threads = True

        self._server = Server((loopback(), 0), Asked)
        self.port: int = self._server.server_address[1]

    def answer(self, line: str) -> str:
        """Never raises: whatever went wrong is told to the test."""
        verb, *words = line.split()
        with self._turn:
            try:
                told = self._verbs[verb](words)
            except Exception as error:
                return f"error {type(error).__name__}: {error}".replace("\n", " | ")
        return "ok" if told is None else f"ok {told}"

    def __enter__(self) -> "Control":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
