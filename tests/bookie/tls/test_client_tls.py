"""What the environment says of a client's TLS."""

from pathlib import Path

import pytest
from bookie.errors import SettingsError
from bookie.testing.certificates import Authority
from bookie.tls.client_tls import from_environment
from bookie.tls.principals import Role


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(Authority.make(tmp_path, "ours").sign("repair", Role.JOB).folder)


def test_without_the_variable_a_client_goes_in_plain() -> None:
    assert from_environment({}) is None
    assert from_environment({"BOOKIE_TLS__DIRECTORY": ""}) is None


def test_a_client_goes_under_tls_whatever_a_registration_says(folder: str) -> None:
    tls = from_environment({"BOOKIE_TLS__DIRECTORY": folder})
    assert tls is not None
    assert tls.is_for(has_tls=False) and tls.is_for(has_tls=True)


def test_while_a_fleet_moves_to_tls_a_client_goes_in_plain_where_there_is_none(folder: str) -> None:
    variables = {"BOOKIE_TLS__DIRECTORY": folder, "BOOKIE_TLS__MODE": "Accepted"}
    tls = from_environment(variables)
    assert tls is not None
    assert not tls.is_for(has_tls=False) and tls.is_for(has_tls=True)


def test_an_unknown_mode_is_named(folder: str) -> None:
    with pytest.raises(SettingsError, match="BOOKIE_TLS__MODE: found 'Of', expected Required or"):
        from_environment({"BOOKIE_TLS__DIRECTORY": folder, "BOOKIE_TLS__MODE": "Of"})


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"tls.crt.*cannot be read"):
        from_environment({"BOOKIE_TLS__DIRECTORY": str(tmp_path / "none")})


def test_the_server_is_called_by_the_bookie_that_is_meant(folder: str) -> None:
    tls = from_environment({"BOOKIE_TLS__DIRECTORY": folder})
    assert tls is not None
    name = tls.server_name(Role.BOOKIE, "bookie-3")
    assert name == "bookie-3.bookie.demo.lab.bookie-operator.internal"
