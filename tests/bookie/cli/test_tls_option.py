"""What a person sees of TLS: of a bookie that wants it, and of credentials that do not fit."""

import asyncio
from pathlib import Path

import pytest
from bookie.hosts import at_port, loopback
from bookie.testing.certificates import Authority, Identity
from bookie.tls.client_tls import ClientTls
from bookie.tls.credentials import CredentialsFolder
from bookie.tls.principals import Role
from bookie.wire.admin.client import Call, CallError, ControlPlane, dial_with
from server_lab import ME, ServerLab


async def said(server: ServerLab, identity: Identity | None) -> str:
    """By the command line's client, to whoever is at the address."""
    assert server.bookie is not None
    tls = None if identity is None else ClientTls(CredentialsFolder(identity.folder))
    target = at_port(loopback(), server.bookie.ports["admin"])
    plane = ControlPlane(target, dial=dial_with(tls))
    try:
        await plane.health(Call(None, 5.0))
    except CallError as error:
        return str(error)
    finally:
        await plane.close()
    return ""


@pytest.fixture
async def secure(idle_server: ServerLab, tmp_path: Path) -> tuple[ServerLab, Authority]:
    authority = await asyncio.to_thread(Authority.make, tmp_path / "ours", "ours")
    idle_server.tree["tls"] = {"directory": str(authority.sign(ME, Role.BOOKIE).folder)}
    await idle_server.start()
    return idle_server, authority


async def test_a_person_gets_an_answer(secure: tuple[ServerLab, Authority]) -> None:
    server, authority = secure
    assert await said(server, authority.sign("ann", Role.PERSON)) == ""


async def test_in_plain_a_person_is_reminded_of_tls(secure: tuple[ServerLab, Authority]) -> None:
    assert "whether it wants TLS (--tls)" in await said(secure[0], None)


async def test_the_wrong_authority_is_named(
    secure: tuple[ServerLab, Authority], tmp_path: Path
) -> None:
    stranger = Authority.make(tmp_path / "others", "others").sign("ann", Role.PERSON)
    sentence = await said(secure[0], stranger)
    assert "CERTIFICATE_VERIFY_FAILED: unable to get local issuer certificate" in sentence
    assert "that both trust one authority" in sentence


async def test_a_role_that_may_not_is_named(secure: tuple[ServerLab, Authority]) -> None:
    server, authority = secure
    sentence = await said(server, authority.sign("app"))
    assert "client app of lab/demo may not call GetHealth, expected one of: bookie" in sentence
