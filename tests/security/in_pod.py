"""What `on_kind` has each of its pods run: `python in_pod.py`, with a plan on its standard input.

One line of JSON for each attack. `hold`: keeps handshakes half open until its input ends.
"""

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import api_server
import data_ports
from catalogue import (
    NOTHING,
    OF_BOOKIES,
    OF_JOBS,
    Attack,
    Doors,
    by_a_persons_word,
    of_client,
    of_stranger,
    on_control_plane,
    reached,
)
from control_plane import Calls
from strangers import Attacker, forger
from verdicts import line_of

CODE: Final = Path(__file__).parent
HALF_OPEN: Final = 200
ALLOWED: Final = {"client": NOTHING, "job": OF_JOBS, "bookie": OF_BOOKIES}
OF_TOKENS: Final = {
    "anyone": api_server.by_who_makes_no_pods,
    "driver": api_server.by_driver,
    "editor": api_server.by_editor,
    "operator": api_server.by_operator,
}


def strangers(where: str, fleet: str) -> Iterator[Attacker]:
    """Without credentials, and with some of their own making that say they are the operator's."""
    yield Attacker(f"a stranger {where}, in plain", None)
    folder = Path(tempfile.mkdtemp()) / "forged"
    found = forger(folder, trusted=CODE / "ca.crt", uri=f"{fleet}/operator/operator")
    yield Attacker(f"a stranger {where}, with a forged operator's", found.folder)


def attacks(plan: Mapping[str, Any]) -> Iterator[Attack]:
    doors, calls = Doors(**plan["doors"]), Calls(CODE)
    if plan["is_stranger"]:
        for who in strangers(plan["where"], plan["fleet"]):
            yield from reached(doors, who)
            yield from on_control_plane(doors, calls, who, NOTHING)
            yield from of_stranger(doors, who)
    if role := plan["role"]:
        who = Attacker(f"a pod with the {role}'s", Path(plan["folder"]))
        yield from on_control_plane(doors, calls, who, ALLOWED[role])
        if role == "client":
            yield from of_client(doors, who)
        if role == "job":
            yield by_a_persons_word(doors, calls, who, looks=who, may=False)
    if tokens := plan["tokens"]:
        who = Attacker(plan["account"], None)
        yield from OF_TOKENS[tokens](who, api_server.Names(**plan["names"]))


def hold(doors: Doors) -> None:
    """Half-open handshakes on a bookie's three ports, until there is no more input."""
    ports = (doors.run, doors.stock, doors.admin)
    held = [data_ports.half_open((doors.host, port), count=HALF_OPEN) for port in ports]
    print("held", flush=True)
    sys.stdin.read()
    for one in (one for port in held for one in port):
        one.close()


def main() -> None:
    plan = json.loads(sys.stdin.readline())
    if sys.argv[1:] == ["hold"]:
        hold(Doors(**plan["doors"]))
        return
    for attack in attacks(plan):
        print(json.dumps(line_of(attack)), flush=True)


if __name__ == "__main__":
    main()
