"""Files that change while their content is in use: how often they are read, and what is logged."""

from pathlib import Path

import pytest
from bookie.errors import SettingsError
from bookie.tls.files import stamp
from bookie.tls.renewed_files import RenewedFiles, UnreadableError


def number(path: Path) -> int:
    try:
        return int(path.read_text())
    except OSError as error:
        raise UnreadableError(f"{path} cannot be read") from error
    except ValueError as error:
        raise SettingsError(f"{path} is no number") from error


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "number"
    path.write_text("1")
    return path


def test_a_malformed_file_is_parsed_once_until_it_changes(path: Path) -> None:
    read: list[str] = []

    def noted(path: Path) -> int:
        read.append(path.read_text())
        return number(path)

    files = RenewedFiles(path, noted, stamp=stamp)
    path.write_text("one")
    assert [files.look() for _ in range(3)] == [1, 1, 1]
    assert read == ["1", "one"]


@pytest.mark.parametrize("looks", [1, 3])
def test_a_changed_file_that_could_not_be_read_is_read_as_soon_as_it_can_be(
    path: Path, looks: int
) -> None:
    """It changes no more: only the hindrance passes, such as a lack of descriptors."""
    hindrances: list[str] = []

    def read(path: Path) -> int:
        if hindrances:
            raise UnreadableError("too many open files")
        return number(path)

    files = RenewedFiles(path, read, stamp=stamp)
    hindrances.append("for a moment")
    path.write_text("22")
    assert [files.look() for _ in range(looks)] == [1] * looks
    hindrances.clear()
    assert (files.look(), files.generation) == (22, 1)


def test_a_file_that_changes_behind_a_read_is_read_again(path: Path) -> None:
    def read(path: Path) -> int:
        found = number(path)
        path.write_text({1: "22", 22: "333", 333: "333"}[found])
        return found

    files = RenewedFiles(path, read, stamp=stamp)
    assert [files.look(), files.look()] == [22, 333]


def test_a_file_that_stays_unreadable_is_named_once_in_the_log(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = RenewedFiles(path, number, stamp=stamp)
    path.unlink()
    assert [files.look() for _ in range(3)] == [1, 1, 1]
    assert [one.getMessage() for one in caplog.records] == [
        f"the earlier content stays in use: {path} cannot be read"
    ]


def test_a_file_that_is_unreadable_a_second_time_is_named_again(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = RenewedFiles(path, number, stamp=stamp)
    for text in ("22", "333"):
        path.unlink()
        files.look()
        path.write_text(text)
        assert files.look() == int(text)
    assert [one.levelname for one in caplog.records].count("WARNING") == 2
