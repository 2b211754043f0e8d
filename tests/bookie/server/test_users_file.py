"""Who may come with a password: lines of a file, read again when it changes, never shown."""

import os
from pathlib import Path

import pytest
from bookie.errors import SettingsError
from bookie.server.users_file import UsersFile, parse_users
from descriptors import no_descriptors_left
from sasl_client import REALM, USER, line


def renewed(path: Path, text: str) -> Path:
    """As Kubernetes renews a secret: by another file in its place."""
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)
    return path


def test_users_of_the_realm_are_taken() -> None:
    text = "# people\n\n" + line("hd") + line("else", realm="elsewhere") + line("ü")
    assert set(parse_users(text, REALM)) == {"hd", "ü"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "found no user of realm bookkeeper"),
        (line(realm="elsewhere"), "found no user of realm bookkeeper"),
        (line() + line(password="another"), "line 2 names a user who has a line above"),
        ("# x\nhd:secret-word\n", "line 2 cannot be read"),
        ("hd:bookkeeper:secret-word", "line 1 cannot be read"),
        ("hd:bookkeeper:abcd", "line 1 cannot be read"),
        (":" + line().partition(":")[2], "line 1 cannot be read"),
        ("a:" + line(), "line 1 cannot be read"),
    ],
)
def test_a_wrong_file_is_named_and_not_shown(tmp_path: Path, text: str, sentence: str) -> None:
    path = renewed(tmp_path / "users", text)
    with pytest.raises(SettingsError, match=rf"^authentication.usersFile: .*{sentence}") as caught:
        UsersFile(path, REALM)
    assert "secret-word" not in str(caught.value) and str(caught.value).count(":bookkeeper:") <= 1


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"usersFile: found .*cannot be read \(No such file"):
        UsersFile(tmp_path / "none", REALM)
    (tmp_path / "bytes").write_bytes(b"\xff")
    with pytest.raises(SettingsError, match="which is no UTF-8"):
        UsersFile(tmp_path / "bytes", REALM)


def test_a_changed_file_counts_at_once(tmp_path: Path) -> None:
    users = UsersFile(renewed(tmp_path / "users", line("old")), REALM)
    renewed(tmp_path / "users", line("new"))
    assert set(users.keys()) == {"new"}


def test_a_file_that_is_gone_or_makes_no_sense_changes_nothing(tmp_path: Path) -> None:
    users = UsersFile(path := renewed(tmp_path / "users", line("old")), REALM)
    path.unlink()
    assert set(users.keys()) == {"old"}
    renewed(path, "hd:half a line")
    assert set(users.keys()) == {"old"}
    renewed(path, line("new"))
    assert set(users.keys()) == {"new"}


def test_a_file_that_could_not_be_read_for_a_moment_counts_afterwards(tmp_path: Path) -> None:
    users = UsersFile(renewed(tmp_path / "users", line("old")), REALM)
    renewed(tmp_path / "users", line("new"))
    with no_descriptors_left():
        assert set(users.keys()) == {"old"}
    assert set(users.keys()) == {"new"}


def test_a_file_changed_in_place_counts_though_it_shows_the_old_time(tmp_path: Path) -> None:
    users = UsersFile(path := renewed(tmp_path / "users", line("old")), REALM)
    before = path.stat()
    path.write_text(line("new"))
    while path.stat().st_ctime_ns == before.st_ctime_ns or path.stat().st_mtime != before.st_mtime:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as `rsync --times` does
    assert set(users.keys()) == {"new"}


def test_a_mounted_secret_whose_link_is_swapped_counts_at_once(tmp_path: Path) -> None:
    """A kubelet makes a new folder and lets the link `..data` lead to it in one step."""
    for version, text in (("..1", line()), ("..2", line("ann"))):
        (tmp_path / version).mkdir()
        (tmp_path / version / "users").write_text(text)
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "users").symlink_to("..data/users")
    users = UsersFile(tmp_path / "users", REALM)
    assert set(users.keys()) == {USER}
    (tmp_path / "..next").symlink_to("..2")
    (tmp_path / "..next").replace(tmp_path / "..data")
    assert set(users.keys()) == {"ann"}
