"""The directory: atomic files and the operator's lock."""

import fcntl
from pathlib import Path

import pytest
from bookie.ids import BookieId
from bookie_operator.errors import DirectoryInUseError, LocalError
from bookie_operator.platform import folders as module
from bookie_operator.platform.folders import (
    LocalFolders,
    bookie_held,
    held,
    operator_lock,
    operator_pid,
    read_json,
    replace_file,
    write_json,
)


def test_a_replaced_file_leaves_nothing_beside_it(tmp_path: Path) -> None:
    replace_file(tmp_path / "x", "one")
    replace_file(tmp_path / "x", "two")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_text() == "two"


def test_json_is_read_back_and_absence_is_none(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"a": 1})
    assert read_json(tmp_path / "x.json") == {"a": 1}
    assert read_json(tmp_path / "y.json") is None


@pytest.mark.parametrize("text", ["{", "[1]"])
def test_a_file_that_is_not_ours_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(LocalError, match=r"x\.json"):
        read_json(tmp_path / "x.json")


def test_two_operators_cannot_share_a_directory(tmp_path: Path) -> None:
    folders = LocalFolders(tmp_path)
    assert operator_pid(folders) is None
    with operator_lock(folders):
        assert operator_pid(folders) is not None
        with (
            pytest.raises(DirectoryInUseError, match=f"local down --dir {tmp_path}` stops it"),
            operator_lock(LocalFolders(tmp_path)),
        ):
            pass
    assert operator_pid(folders) is None


def test_who_asks_at_the_same_time_is_no_operator(tmp_path: Path) -> None:
    folders = LocalFolders(tmp_path)
    folders.lock_file.write_text("4711\n")  # of an operator that was killed
    with folders.lock_file.open() as asks:
        fcntl.flock(asks, fcntl.LOCK_SH)
        assert operator_pid(folders) is None


def test_an_operator_that_ends_takes_its_number_with_it(tmp_path: Path) -> None:
    folders = LocalFolders(tmp_path)
    with operator_lock(folders):
        pass
    with held(folders.lock_file):
        assert operator_pid(folders) is None


def test_a_held_lock_refuses_without_waiting(tmp_path: Path) -> None:
    with held(tmp_path / "lock") as mine:
        assert mine
        with held(tmp_path / "lock") as theirs:
            assert not theirs


def test_a_lock_that_is_never_given_up_is_told_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BOOKIE_LOCK_WAIT_S", 0.0)
    folders, bookie_id = LocalFolders(tmp_path), BookieId("bookie-0")
    found = f"found {folders.bookie(bookie_id)}/lock held by another process for 0 s"
    with (
        held(folders.bookie(bookie_id) / "lock"),
        pytest.raises(LocalError, match=rf"{found}, expected .*: end it \(`fuser"),
        bookie_held(folders, bookie_id, grace_s=0),
    ):
        pass


@pytest.mark.parametrize("cut", ['{"reason": "second"', '{"reason": "\u00e4'])
def test_an_event_after_one_that_a_crash_cut_off_is_kept(tmp_path: Path, cut: str) -> None:
    folders = LocalFolders(tmp_path)
    folders.append_event({"reason": "first"})
    with folders.events_file.open("ab") as file:
        file.write(cut.encode()[:-1])
    for reason in ("third", "fourth"):
        folders.append_event({"reason": reason})
    assert [event["reason"] for event in folders.events()] == ["first", "third", "fourth"]


def test_full_events_file_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVENTS_BYTES_MAX", 10)
    folders = LocalFolders(tmp_path)
    folders.append_event({"reason": "first"})
    folders.append_event({"reason": "second"})
    assert "second" in folders.events_file.read_text()
    assert "first" in (tmp_path / "events.old.jsonl").read_text()


def test_of_events_those_of_the_last_two_files_are_kept_oldest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EVENTS_BYTES_MAX", 100)
    folders = LocalFolders(tmp_path)
    for number in range(40):
        folders.append_event({"once": number})
        kept = [event["once"] for event in folders.events()]
        assert kept == list(range(number + 1 - len(kept), number + 1))
        assert len(kept) == number + 1 or folders.old_events_file.stat().st_size > 100
    assert kept[0] > 0 and len(kept) > len(folders.events_file.read_text().splitlines())
