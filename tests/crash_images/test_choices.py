"""The images of a crash point are all that may be left, each once, and found again by name."""

import itertools
from pathlib import Path

import pytest
from bookie.storage.disk import write_file
from bookie.testing.inline import InlineDisk
from bookie.testing.volatile import SECTOR_BYTES
from crash_choices import KILLED, Chooser, Images, made, told

HOME = Path("/home")
A, B = HOME / "a", HOME / "b"
Found = dict[str, bytes]


@pytest.fixture
def disk() -> InlineDisk:
    disk = InlineDisk()
    disk.make_directory(HOME)
    write_file(disk, A, b"old")
    return disk


def overwrite(disk: InlineDisk, path: Path, content: bytes) -> None:
    file = disk.open(path, writable=True)
    file.pwrite([content], 0)
    file.close()


def snapshot(disk: InlineDisk) -> InlineDisk:
    return disk.snapshot({})


def images(disk: InlineDisk, *, images_max: int = 4096, seeds: int = 0) -> Images:
    return Chooser(images_max=images_max, seeds=seeds).images(disk, seed="any")


def contents(disk: InlineDisk, name: str) -> Found:
    left = made(disk, name)
    return {each: left.content(HOME / each) for each in left.list_directory(HOME)}


def all_contents(disk: InlineDisk) -> list[Found]:
    return [contents(disk, image.name) for image in images(disk).found]


def test_with_everything_synced_there_is_one_image_and_that_of_a_kill(disk: InlineDisk) -> None:
    assert [image.name for image in images(snapshot(disk)).found] == ["", KILLED]


def test_a_rename_and_the_bytes_of_the_new_file_are_kept_or_lost_apart(disk: InlineDisk) -> None:
    disk.create(B).close()
    overwrite(disk, B, b"new")
    disk.rename(B, A)
    old, both = {"a": b"old"}, {"a": b"old", "b": b"new"}
    expected = [old, both, old | {"b": b""}, {"a": b""}, {"a": b"new"}]
    found = all_contents(snapshot(disk))
    assert all(each in found for each in expected) and all(each in expected for each in found)


def test_sectors_of_one_write_are_kept_or_lost_apart(disk: InlineDisk) -> None:
    one, two, zero = b"1" * SECTOR_BYTES, b"2" * SECTOR_BYTES, bytes(SECTOR_BYTES)
    write_file(disk, A, zero + zero)
    overwrite(disk, A, one + two)
    found = {each["a"] for each in all_contents(snapshot(disk))}
    assert found == {one + two, one + zero, zero + two, zero + zero}


def test_a_sector_that_changes_nothing_is_not_asked_about(disk: InlineDisk) -> None:
    write_file(disk, A, bytes(8 * SECTOR_BYTES))
    overwrite(disk, A, b"x" + bytes(8 * SECTOR_BYTES - 1))
    assert len(images(snapshot(disk)).found) == 2 + 1


def test_nothing_legal_is_left_out(disk: InlineDisk) -> None:
    disk.create(B).close()
    overwrite(disk, B, b"new")
    overwrite(disk, A, b"0ld")
    disk.rename(A, HOME / "c")
    taken = snapshot(disk)
    drawn = [contents(taken, "".join(bits)) for bits in itertools.product("01", repeat=6)]
    assert all(each in all_contents(taken) for each in drawn)


def test_images_of_several_directories_are_their_product(disk: InlineDisk) -> None:
    for name in ("one", "two", "three"):
        disk.make_directory(HOME / name)
        disk.create(HOME / name / "file").close()
    assert len(images(snapshot(disk)).found) == 2**3 + 1


def test_with_too_many_images_the_extremes_and_single_changes_are_there(disk: InlineDisk) -> None:
    for number in range(6):
        disk.create(HOME / f"{number}").close()
    found = images(snapshot(disk), images_max=10, seeds=5)
    names = [image.name for image in found.found]
    singles = {"100000", "000001", "011111", "111110"}
    assert not found.is_complete and {"000000", "111111", *singles} <= set(names)
    assert len(names) == 2 + 2 * 6 + 5 + 1


def test_an_image_says_what_it_keeps_and_what_it_has_lost(disk: InlineDisk) -> None:
    disk.create(B).close()
    overwrite(disk, B, b"new")
    taken = snapshot(disk)
    assert told(taken, "10", kept=True) == ["/home: b created"]
    assert told(taken, "10", kept=False) == ["home/b: 3 bytes at 0"]


def test_a_kill_keeps_all_and_a_power_cut_after_it_may_still_take_it(disk: InlineDisk) -> None:
    overwrite(disk, A, b"new")
    left = made(snapshot(disk), KILLED)
    assert left.content(A) == b"new"
    assert left.power_cut().content(A) == b"old"
