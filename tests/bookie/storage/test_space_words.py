"""What people are told of disks with too little space."""

from pathlib import Path

from bookie.storage.space import DirectoryUsage, shortage

GIB = 1024**3


def usage(name: str, free: float, *, is_full: bool) -> DirectoryUsage:
    return DirectoryUsage(Path(name), int(free * GIB), 40 * GIB, 0, is_full, 3 * GIB)


def test_full_disks_are_named_with_their_numbers() -> None:
    told = shortage([usage("/a", 9, is_full=False), usage("/b", 1.5, is_full=True)])
    assert told == "/b has 1.50 of 40.00 GiB free, adds are taken again from 3.00 GiB on"


def test_where_a_file_found_no_room_the_fullest_disk_is_named() -> None:
    told = shortage([usage("/a", 9, is_full=False), usage("/b", 8, is_full=False)])
    assert told.startswith("/b has 8.00 of 40.00 GiB free")
