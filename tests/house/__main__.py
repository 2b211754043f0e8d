"""`make lines`: lines of code by room, without blank lines, comments and docstrings."""

from collections import Counter

from code_lines import SOURCES, code_lines, modules

TEST_KIT = "bookie.testing"


def room_of(parts: tuple[str, ...]) -> str:
    """`bookie.storage` for what is in that folder, the package for what lies in it directly."""
    return ".".join(parts[:2] if len(parts) > 2 else parts[:1])


def main() -> None:
    rooms: Counter[str] = Counter()
    for path in modules():
        [source] = [source for source in SOURCES if path.is_relative_to(source)]
        room = room_of(path.relative_to(source).parts)
        rooms[room] += len(code_lines(path.read_text(encoding="utf-8")))
    for room, lines in sorted(rooms.items()):
        print(f"{lines:7,} {room}")
    product = sum(lines for room, lines in rooms.items() if room != TEST_KIT)
    print(f"{product:7,} the product, without {TEST_KIT}")


main()
