"""What came of attacks: a line for each, and how many are red."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from catalogue import Attack

Line = Mapping[str, Any]
RED: Final = "RED "
ON_EVERY_BOOKIE: Final = ("--ensemble", "4", "--write-quorum", "4", "--ack-quorum", "2")
"""Of the ledger that is asked for: whichever bookie is attacked has it."""


def line_of(attack: Attack) -> Line:
    """Runs it. A line is red when something worked, or did not that must."""
    refused, words = attack.run()
    mark = RED if refused is attack.must_work else ""
    return {
        "line": attack.line,
        "who": attack.who.name,
        "what": attack.what,
        "came": words,
        "verdict": f"{mark}{'refused' if refused else 'worked'}",
    }


def said(line: Line) -> str:
    words = " ".join(str(line["came"]).split())
    return f"{line['verdict']:11} {line['line']:14} {line['who']:60} {line['what']:26} {words:.110}"


def red(lines: Iterable[Line]) -> int:
    return sum(str(line["verdict"]).startswith(RED) for line in lines)
