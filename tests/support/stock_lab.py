"""A bookie that asks stock clients who they are, and clients of one version of the wire."""

from typing import Any

from bookie.server.state import AuthFailure
from server_lab import ServerLab
from stock_client import StockClient


class StockLab:
    """What labs of all mechanisms share; `close` closes the clients."""

    def __init__(self, server: ServerLab, kind: type[StockClient]) -> None:
        """`kind`: of the clients, by the version of the wire that they speak."""
        self.server = server
        self.kind = kind
        self.clients: list[StockClient] = []
        """All that connected."""

    async def client(self) -> Any:
        """One more, in plain."""
        assert self.server.bookie is not None
        self.clients.append(await self.kind.connect(self.server.bookie.ports["stock"]))
        return self.clients[-1]

    @property
    def failures(self) -> dict[AuthFailure, int]:
        return dict(self.server.traffic.authentication_failures)

    async def close(self) -> None:
        for client in self.clients:
            await client.close()
