"""Folders of credentials that change as a whole, and what a crash in between leaves."""

import itertools
import os
import stat
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from bookie.errors import SettingsError
from bookie.testing import certificates
from bookie.tls.authority import Authority
from bookie.tls.credentials import CredentialsFolder
from bookie.tls.principals import Principal, Role
from bookie_operator.errors import LocalError
from bookie_operator.platform import credential_folders
from bookie_operator.platform.credential_files import Files, certificate_of
from bookie_operator.platform.credential_folders import (
    drop_folder,
    folder_name,
    person_folder,
    read_folder,
    replace_folder,
)

X400_ADDRESS = 0xA3
"""A kind of name that no library of ours knows."""
JOB = Principal("local", "demo", Role.JOB, "job")
OLD, NEW = {"tls.crt": b"old", "ca.crt": b"old"}, {"tls.crt": b"new"}


def test_what_is_not_there_is_none(tmp_path: Path) -> None:
    assert read_folder(tmp_path / "none") is None


def test_a_folder_has_the_new_files_alone(tmp_path: Path) -> None:
    replace_folder(tmp_path / "job-job", OLD)
    replace_folder(tmp_path / "job-job", NEW)
    assert read_folder(tmp_path / "job-job") == NEW
    assert len(list(tmp_path.iterdir())) == 2, "the link, and what it leads to"


def test_whoever_has_it_open_reads_what_it_was(tmp_path: Path) -> None:
    replace_folder(tmp_path / "job-job", OLD)
    with (tmp_path / "job-job" / "tls.crt").open("rb") as file:
        replace_folder(tmp_path / "job-job", NEW)
        assert file.read() == b"old"


def test_a_crash_before_the_swap_leaves_the_old_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_folder(tmp_path / "job-job", OLD)

    def crash(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(credential_folders, "_write", crash)
    with pytest.raises(LocalError, match="No space left"):
        replace_folder(tmp_path / "job-job", NEW)
    assert read_folder(tmp_path / "job-job") == OLD
    monkeypatch.undo()
    replace_folder(tmp_path / "job-job", NEW)
    assert len(list(tmp_path.iterdir())) == 2, "what the crash left is gone"


@pytest.mark.parametrize(
    ("change", "after"), [(lambda path: replace_folder(path, NEW), NEW), (drop_folder, None)]
)
def test_at_every_moment_of_a_change_they_are_the_old_ones_or_the_new(
    tmp_path: Path, change: Callable[[Path], None], after: Files | None
) -> None:
    folder = tmp_path / "job-job"
    replace_folder(folder, OLD)
    found: list[Files | None] = []
    # Between any two calls of what Python has in C, such as those that change folders.
    sys.setprofile(lambda _frame, event, _of: _is_c(event) and found.append(read_folder(folder)))
    try:
        change(folder)
    finally:
        sys.setprofile(None)
    assert [one for one, _same in itertools.groupby(found)] == [OLD, after]


def _is_c(event: str) -> bool:
    return event in ("c_call", "c_return")


def test_a_folder_that_somebody_put_there_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "ca").mkdir()
    replace_folder(tmp_path / "ca", NEW)
    assert read_folder(tmp_path / "ca") == NEW


def test_nobody_else_may_read_them(tmp_path: Path) -> None:
    os.umask(os.umask(0o022))
    replace_folder(tmp_path / "tls" / "ca", OLD)
    for path in (tmp_path / "tls", (tmp_path / "tls" / "ca").resolve()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "tls" / "ca" / "tls.crt").stat().st_mode) == 0o600


def test_a_persons_name_leads_nowhere_else(tmp_path: Path) -> None:
    person = Principal("local", "demo", Role.PERSON, "../ann o'neil")
    name = folder_name(person)
    assert name == "person-___ann_o_neil" and (tmp_path / name).parent == tmp_path
    replace_folder(tmp_path / name, NEW)
    assert person_folder(tmp_path, person.name) == tmp_path / name


def test_who_uses_a_folder_has_what_is_renewed_at_its_next_handshake(tmp_path: Path) -> None:
    now, day = datetime.now(UTC), timedelta(days=1)
    authority = Authority.make("demo", now=now, lifetime=9 * day)

    def renew() -> bytes:
        issued = authority.sign(JOB, now=now, lifetime=day)
        files = {"tls.crt": issued.certificate, "tls.key": issued.key, "ca.crt": authority.pem}
        replace_folder(tmp_path / "job-job", files)
        return issued.certificate

    first = renew()
    folder = CredentialsFolder(tmp_path / "job-job")
    assert folder.current.certificate == first
    second = renew()
    assert folder.current.certificate == second and folder.generation == 1


def test_a_certificate_with_names_that_nobody_can_read_is_said_to_be_one(tmp_path: Path) -> None:
    odd = certificates.Authority.make(tmp_path, "ours").sign_raw(
        "odd", [(X400_ADDRESS, b"\x30\x00")]
    )
    found = certificate_of(read_folder(odd.folder) or {})
    assert found.trouble == "tls.crt holds no certificates as PEM"
    with pytest.raises(SettingsError, match=r"tls.crt, expected a certificate that can be parsed"):
        CredentialsFolder(odd.folder)
