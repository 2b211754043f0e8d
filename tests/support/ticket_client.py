"""What a client with a ticket of Kerberos says, by MIT's library; tickets that are not right."""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from bookie.testing.kdc import HOST, OTHER, REALM, Kdc, NoKdcError
from stock_client import Answer

BOOKIE = f"bookkeeper/{HOST}@{REALM}"
BESIDE = f"bookkeeper/client@{REALM}"
"""The same service at another host, of which the bookie has the key, too."""
OTHER_SERVICE = f"another/{HOST}@{REALM}"
"""Of which it has the key as well."""
ELSEWHERE = f"other/{HOST}@{REALM}"
USER = f"bookkeeper-hd@{REALM}"
STRANGER = f"eve@{REALM}"
FOREIGNER = f"bookkeeper-hd@{OTHER}"
SHORT = f"bookkeeper-short@{REALM}"
SERVICES = (BOOKIE, BESIDE, OTHER_SERVICE, ELSEWHERE)
DAY_S = 86400
NO_LAYER = b"\1\0\0\0"


@dataclass(frozen=True, slots=True)
class Tickets:
    """A KDC, and caches of tickets of several principals."""

    kdc: Kdc
    keytab: Path
    """Of the bookie."""
    caches: dict[str, Path]

    @classmethod
    def made(cls, kdc: Kdc) -> "Tickets":
        keytab = kdc.add(BOOKIE)
        kdc.add(ELSEWHERE)
        for principal in (BESIDE, OTHER_SERVICE):
            kdc.add(principal)
            kdc.put(principal, keytab)
        tickets = cls(kdc, keytab, {})
        for principal in (USER, STRANGER, FOREIGNER):
            cache = kdc.log_in(principal, kdc.add(principal), *SERVICES)
            tickets.caches[principal] = cache
        short = kdc.add(SHORT, lifetime="1 second")
        tickets.caches[SHORT] = pretend_longer(kdc.log_in(SHORT, short, BOOKIE))
        return tickets

    def initiator(
        self, principal: str = USER, service: str = BOOKIE, *, wants_answer: bool = False
    ) -> Any:
        """The client's context: its step is its first token."""
        import gssapi

        mechanism, flag = gssapi.MechType.kerberos, gssapi.RequirementFlag
        store = {"ccache": f"FILE:{self.caches[principal]}"}
        return gssapi.SecurityContext(
            name=gssapi.Name(service, gssapi.NameType.kerberos_principal),
            creds=gssapi.Credentials(usage="initiate", mechs=[mechanism], store=store),
            usage="initiate",
            mech=mechanism,
            flags=[flag.integrity, *([flag.mutual_authentication] if wants_answer else [])],
        )

    def ahead(self, seconds: int) -> "Tickets":
        """The same of a client whose clock is ahead by this."""
        cache = self.caches[USER]
        ahead = cache.with_suffix(".ahead")
        ahead.write_bytes(with_clock(cache.read_bytes(), seconds))
        return Tickets(self.kdc, self.keytab, self.caches | {USER: ahead})


def with_clock(cache: bytes, seconds: int) -> bytes:
    """A cache of tickets (version 4) that says how far the KDC's clock is ahead of ours."""
    assert cache[:2] == b"\5\4"
    (size,) = struct.unpack_from(">H", cache, 2)
    offset = struct.pack(">HHii", 1, 8, seconds, 0)
    return cache[:2] + struct.pack(">H", len(offset)) + offset + cache[4 + size :]


def pretend_longer(cache: Path) -> Path:
    """Each ticket's end, as the cache has it for its owner, a day after what the ticket says."""
    content = bytearray(cache.read_bytes())
    for at in range(len(content) - 16):
        granted, began, ends = struct.unpack_from(">III", content, at)
        # Times of a ticket: nothing else has three such numbers in a row.
        if granted <= began < ends <= began + 2 and granted > 1_600_000_000:
            struct.pack_into(">I", content, at + 8, ends + DAY_S)
    cache.write_bytes(content)
    return cache


def seal(initiator: Any, name: str, choice: bytes = NO_LAYER) -> bytes:
    """A client's last token: no security layer, and whom it acts for."""
    return bytes(initiator.wrap(choice + name.encode(), False).message)


async def ask(client: Any, token: bytes) -> Answer:
    [answer] = await client.ask(client.auth(token, plugin="sasl"))
    return answer  # type: ignore[no-any-return]


async def log_in(client: Any, initiator: Any, name: str = USER) -> bytes:
    """The exchange up to the client's last word; the offer that it has answered."""
    offer = await ask(client, initiator.step())
    message = bytes(initiator.unwrap(offer.message.payload).message)
    client.send(client.auth(seal(initiator, name), plugin="sasl"))
    return message


@pytest.fixture(scope="session")
def tickets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tickets]:
    """One KDC for all tests; skipped where there is none, or no library."""
    pytest.importorskip("gssapi", reason="no package gssapi (extra kerberos)")
    try:
        kdc = Kdc.start(tmp_path_factory.mktemp("kerberos") / "kdc")
    except NoKdcError as error:
        pytest.skip(f"no KDC: {error}")
    with kdc:
        before = os.environ.get("KRB5_CONFIG")
        os.environ["KRB5_CONFIG"] = str(kdc.configuration)
        yield Tickets.made(kdc)
        if before is None:
            del os.environ["KRB5_CONFIG"]
        else:
            os.environ["KRB5_CONFIG"] = before
