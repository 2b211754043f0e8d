"""ZooKeeper's multiRead on the wire."""

import struct

import pytest
from bookie.metadata.multi_read import NO_NODE, MultiRead, Znode

STAT = struct.Struct(">qqqqiiiqiiq").pack(1, 2, 1700, 1800, 7, 0, 0, 0, 3, 0, 2)
END = struct.pack(">i?i", -1, True, -1)
FOUND = struct.pack(">i?ii", 4, False, 0, 3) + b"abc" + STAT
EMPTY = struct.pack(">i?ii", 4, False, 0, -1) + STAT
GONE = struct.pack(">i?ii", -1, False, NO_NODE, NO_NODE)


def test_a_request_names_every_path_and_ends() -> None:
    asked = MultiRead(["/a", "/é"]).serialize()
    head = struct.pack(">i?i", 4, False, -1)
    first = head + struct.pack(">i", 2) + b"/a\0"
    second = head + struct.pack(">i", 3) + "/é".encode() + b"\0"
    assert asked == first + second + END


def test_each_path_has_an_answer_of_its_own() -> None:
    found = MultiRead(["/a", "/b", "/c"]).deserialize(b"xx" + FOUND + GONE + EMPTY + END, 2)
    assert found == [Znode(b"abc", 7, 1700), NO_NODE, Znode(b"", 7, 1700)]


def test_an_answer_with_too_few_is_none() -> None:
    with pytest.raises(ValueError, match="asked for 2 znodes, 1 were answered"):
        MultiRead(["/a", "/b"]).deserialize(FOUND + END, 0)


@pytest.mark.parametrize("size", [0, 8, 20, len(FOUND) + 8])
def test_an_answer_that_is_cut_off_is_an_error(size: int) -> None:
    with pytest.raises(struct.error):
        MultiRead(["/a"]).deserialize((FOUND + END)[:size], 0)
