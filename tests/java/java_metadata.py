"""Where the metadata of a run is, and how its Python side comes there: in plain, or under TLS."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bookie.client.bookkeeper_client import ClientSettings
from bookie.client.pool_settings import PoolSettings
from bookie.metadata.opening import open_store
from bookie.metadata.session import ZooKeeperSettings
from bookie.metadata.store import MetadataStore
from bookie.tls.client_tls import ClientTls
from bookie.tls.credentials import CredentialsFolder
from bookie.tls.files import AUTHORITIES, CERTIFICATE, KEY
from kazoo.client import KazooClient

ROOT: Final = "ledgers"


@dataclass(frozen=True, slots=True)
class Metadata:
    """`address`: `host:port` of ZooKeeper. `credentials`: whose the Python side shows; None: it
    goes in plain, to ZooKeeper and to bookies."""

    address: str
    credentials: Path | None = None

    def url(self, path: str = ROOT) -> str:
        return f"{'zk' if self.credentials is None else 'zks'}://{self.address}/{path}"

    async def open(self, path: str = ROOT) -> MetadataStore:
        settings = ZooKeeperSettings(tls=self.credentials)
        return await open_store(self.url(path), settings=settings)

    def to_client_settings(self) -> ClientSettings:
        """Of a native client."""
        if self.credentials is None:
            return ClientSettings()
        return ClientSettings(pool=PoolSettings(tls=ClientTls(CredentialsFolder(self.credentials))))

    def connect(self) -> KazooClient:
        """A session of its own; started."""
        client = KazooClient(self.address)
        if self.credentials is not None:
            client = KazooClient(
                self.address,
                use_ssl=True,
                ca=str(self.credentials / AUTHORITIES),
                certfile=str(self.credentials / CERTIFICATE),
                keyfile=str(self.credentials / KEY),
            )
        client.start()
        return client
