"""What a bookie that is to take tickets misses, it says before it serves."""

import os
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from bookie.errors import SettingsError
from bookie.server.kerberos import Kerberos, replay_cache
from bookie.server.settings import Authentication
from bookie.wire.stock.digest_md5 import Challenge, Denied
from hostile_bytes import mutated
from ticket_client import BOOKIE, ELSEWHERE, Tickets


def asked(**settings: Any) -> Authentication:
    wanted = {"mechanisms": ["gssapi"], "keytab": "/none", "principal": BOOKIE}
    return Authentication.model_validate(wanted | settings)


@pytest.mark.parametrize("missing", ["keytab", "principal"])
def test_keytab_and_principal_are_not_left_out(missing: str) -> None:
    with pytest.raises(ValueError, match=f"{missing} is missing, expected with mechanism gssapi"):
        asked(**{missing: None})


@pytest.mark.parametrize("principal", ["bookkeeper", "bookkeeper/host", "host@REALM", "a/b@C d"])
def test_a_principal_is_whole(principal: str) -> None:
    with pytest.raises(ValueError, match="principal"):
        asked(principal=principal)


def test_principals_of_clients_are_a_regular_expression() -> None:
    with pytest.raises(ValueError, match="no regular expression"):
        asked(clientPrincipals="(")


def test_without_a_word_they_are_of_the_realm_and_have_bookkeeper_in_the_name() -> None:
    assert asked(principal="bookkeeper/h@A.B").allowed_principals == r"[^@]*bookkeeper[^@]*@A\.B"
    assert asked(clientPrincipals="hd@.*").allowed_principals == "hd@.*"


def test_the_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(SettingsError, match=r"its library .*install bookie-operator\[kerberos\]"):
        Kerberos(asked())


def test_a_keytab_that_is_not_there_is_named(tickets: Tickets, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"^authentication\.keytab: found .*none.*No such file"):
        Kerberos(asked(keytab=tmp_path / "none", replayCache=tmp_path / "replays"))


@pytest.mark.parametrize("content", [b"", b"\5\2", b"no keytab"])
def test_a_keytab_without_the_principal_is_named(
    tickets: Tickets, tmp_path: Path, content: bytes
) -> None:
    keytab = tmp_path / "keytab"
    keytab.write_bytes(content)
    with pytest.raises(SettingsError, match=r"^authentication\.principal: found no key of "):
        Kerberos(asked(keytab=keytab, replayCache=tmp_path / "replays"))


def test_a_key_of_another_service_is_none(tickets: Tickets, tmp_path: Path) -> None:
    wanted = asked(keytab=tickets.keytab, principal=ELSEWHERE, replayCache=tmp_path / "replays")
    with pytest.raises(SettingsError, match=f"found no key of {ELSEWHERE}"):
        Kerberos(wanted)


def test_a_replay_cache_that_cannot_be_written_is_named(tickets: Tickets, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    for cache in (tmp_path / "no" / "folder", link, tmp_path):
        with pytest.raises(SettingsError, match=r"^authentication\.replayCache: found "):
            Kerberos(asked(keytab=tickets.keytab, replayCache=cache))


def test_the_replay_cache_is_that_of_all_services_of_a_user() -> None:
    assert replay_cache(asked()) == Path(f"/var/tmp/krb5_{os.geteuid()}.rcache2")


def test_whatever_becomes_of_a_ticket_it_is_judged(tickets: Tickets, tmp_path: Path) -> None:
    kerberos = Kerberos(asked(keytab=tickets.keytab, replayCache=tmp_path / "replays"))
    ticket, seed = tickets.initiator().step(), random.Random(1)
    for _ in range(300):
        changed = mutated([ticket], seed, is_json=False)
        assert isinstance(kerberos.exchange().step(changed), Denied | Challenge)
