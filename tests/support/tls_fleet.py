"""A fleet's authority and the folders of those whom it gave certificates, for tests of TLS."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from bookie.tls.authority import Authority
from bookie.tls.principals import Principal, Role

DAY = timedelta(days=1)
ZOOKEEPER = Principal("storage", "demo", Role.ZOOKEEPER, "zookeeper")


class TlsFleet:
    """Folders of credentials below `directory`; certificates last a day."""

    def __init__(self, directory: Path, *, name: str = "demo") -> None:
        self.directory = directory
        self.authority = self.new_authority(name)

    @staticmethod
    def new_authority(name: str = "demo") -> Authority:
        return Authority.make(name, now=datetime.now(UTC), lifetime=10 * DAY)

    def folder(
        self,
        role: Role,
        name: str = "one",
        *,
        signed_by: Authority | None = None,
        trusting: bytes | None = None,
        lasting: timedelta = DAY,
    ) -> Path:
        """The folder of one of the fleet, written anew each time."""
        return self.folder_of(
            ZOOKEEPER.peer(role, name), signed_by=signed_by, trusting=trusting, lasting=lasting
        )

    def folder_of(
        self,
        principal: Principal,
        *,
        signed_by: Authority | None = None,
        trusting: bytes | None = None,
        lasting: timedelta = DAY,
    ) -> Path:
        begins = min(datetime.now(UTC), datetime.now(UTC) + lasting - DAY)
        issued = (signed_by or self.authority).sign(
            principal, now=begins, lifetime=datetime.now(UTC) + lasting - begins
        )
        folder = self.directory / "-".join((principal.cluster, principal.role, principal.name))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tls.crt").write_bytes(issued.certificate)
        (folder / "tls.key").write_bytes(issued.key)
        (folder / "ca.crt").write_bytes(trusting or self.authority.pem)
        return folder
