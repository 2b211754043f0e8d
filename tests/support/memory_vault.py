"""A vault in memory, and what other hands do to it."""

from collections.abc import Iterable

from bookie.tls.principals import Principal
from bookie_operator.platform.credential_files import Files


class MemoryVault:
    """Credentials of one cluster."""

    def __init__(self) -> None:
        self.files: dict[Principal | None, Files] = {}
        self.writes: list[Principal | None] = []

    async def read(self, holder: Principal | None) -> Files | None:
        return self.files.get(holder)

    async def write(self, holder: Principal | None, files: Files) -> None:
        self.writes.append(holder)
        self.files[holder] = dict(files)

    async def drop(self, holder: Principal) -> None:
        self.files.pop(holder, None)

    def garble(self, holder: Principal | None, name: str = "tls.key") -> None:
        self.files[holder] = {**self.files[holder], name: b"nothing of this kind"}

    @property
    def holders(self) -> Iterable[Principal]:
        return [one for one in self.files if one is not None]
