"""`python -m bookie.monitoring.exporter` serves the metrics of a ZooKeeper to Prometheus, under
`/metrics`.

It asks the server at every scrape and keeps nothing. When the ZooKeeper does not answer, it replies
503 with the reason, which Prometheus counts as `up` 0; the exporter itself keeps running. It needs
only click and the standard library, because it shares a small container with the server.
"""

import signal
import socket
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Final

import click

from bookie.errors import BookieError
from bookie.hosts import at_port
from bookie.monitoring.commands import Address, ask
from bookie.monitoring.mntr import exposition
from bookie.tls.environment import DIRECTORY_VARIABLE

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PORT: Final = 7000
"""Default port, the same as that of ZooKeeper's own metrics provider."""
REQUEST_WAIT_S: Final = 10.0


def _shown(address: Address) -> str:
    return f"ZooKeeper at {at_port(*address)}"


class Exporter(ThreadingHTTPServer):
    """The HTTP server that answers scrapes for one ZooKeeper."""

    daemon_threads = True

    def __init__(
        self, bind: Address, zookeeper: Address, *, credentials: Path | None = None
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in bind[0] else socket.AF_INET
        """Address family of the socket to listen on, which the base class makes."""
        self.zookeeper = zookeeper
        self.credentials = credentials
        """The folder of its certificate for ZooKeeper; None: it asks without TLS."""
        super().__init__(bind, _Scrape)

    @property
    def port(self) -> int:
        """The port that it listens on: the one that was asked for, or, where that was 0, the one
        that the system chose.
        """
        return int(self.server_address[1])

    def ask(self, command: bytes) -> str:
        """The server's answer to a command; the files of credentials are read each time."""
        return ask(self.zookeeper, command, credentials=self.credentials)


class _Scrape(BaseHTTPRequestHandler):
    timeout = REQUEST_WAIT_S
    server: Exporter

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/metrics":
            self._reply(HTTPStatus.NOT_FOUND, f"there is /metrics only, found {self.path}\n")
            return
        try:
            text = exposition(self.server.ask(b"mntr"))
        except BookieError as error:
            self._reply(HTTPStatus.SERVICE_UNAVAILABLE, f"{error}\n")
        else:
            self._reply(HTTPStatus.OK, text, CONTENT_TYPE)

    def _reply(self, status: HTTPStatus, text: str, kind: str = "text/plain") -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log no requests: scrapes come every half minute, so only errors are logged."""


def _checked_address(_context: click.Context, _option: click.Parameter, value: str) -> Address:
    host, _colon, port = value.rpartition(":")
    if not host or not port.isdecimal():
        raise click.BadParameter(f"found {value!r}, expected HOST:PORT")
    return host.strip("[]"), int(port)


@click.command(help="Serves the metrics of a ZooKeeper to Prometheus, until it is stopped.")
@click.option(
    "--zookeeper",
    metavar="HOST:PORT",
    default="localhost:2181",
    callback=_checked_address,
    show_default=True,
    help="The ZooKeeper to ask; its 4lw.commands.whitelist must have mntr.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True)
@click.option("--bind", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--tls",
    type=click.Path(file_okay=False, path_type=Path),
    envvar=DIRECTORY_VARIABLE,
    show_envvar=True,
    help="Ask over TLS, with the credentials in this folder.",
)
def main(zookeeper: Address, port: int, bind: str, tls: Path | None) -> None:
    signal.signal(signal.SIGTERM, _stop)
    try:
        server = Exporter((bind, port), zookeeper, credentials=tls)
    except OSError as error:
        click.echo(f"error: {at_port(bind, port)} cannot be listened on: {error}", err=True)
        sys.exit(1)
    click.echo(f"figures of {_shown(zookeeper)} on http://{at_port(bind, server.port)}/metrics")
    with server:
        server.serve_forever()


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


if __name__ == "__main__":
    main(prog_name="python -m bookie.monitoring.exporter")
