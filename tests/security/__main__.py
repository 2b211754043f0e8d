"""`make test-security`: an attacker tries on a local fleet what docs/security.md says cannot be.

It starts a fleet as a user does, has an honest person write to it, and then attacks: as a stranger
in plain, as a forger whose own authority signs whatever name it likes, and as insiders who hold a
certificate of less. A line is red when something worked; and so is all when the fleet is not as it
was afterwards. The attacks share no code with the product: sockets, gRPC by the published proto,
kazoo. The first lines are tries that must work, by those who may: an attack that could never work
would prove nothing. Exit code 1: a line is red.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import data_ports
import made_up
from catalogue import (
    NOTHING,
    OF_BOOKIES,
    OF_JOBS,
    Attack,
    Doors,
    by_a_persons_word,
    odd_names,
    of_client,
    of_odd_name,
    of_stranger,
    on_control_plane,
    reached,
)
from control_plane import Calls, compiled
from metadata_store import attempt
from strangers import Attacker, forger, oddly_named
from verdicts import ON_EVERY_BOOKIE, Line, line_of, red, said

SPEC: Final = {
    "replicas": 4,
    "journalWriteData": False,
    "quorum": {"ensemble": 3, "write": 3, "ack": 2},
    "tls": {"mode": "Required"},
    "metadata": {"embedded": {}},
    "storage": {
        "disks": [
            {"name": "journal", "role": "journal", "size": "1Gi"},
            {"name": "ledger-0", "role": "ledger", "size": "10Gi"},
        ]
    },
}
MANIFEST: Final = {
    "apiVersion": "bookkeeper.bookie-operator.dev/v1alpha1",
    "kind": "BookieCluster",
    "metadata": {"name": "target"},
    "spec": SPEC,
}
FLEET_WORDS: Final = ("-m", "bookie_operator", "local")
HALF_OPEN: Final = 200


class Target:
    """The fleet and what everybody may know of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = ""
        self.variables: dict[str, str] = {}

    def operator(self, *words: str) -> str:
        return run([sys.executable, *FLEET_WORDS, *words, "--dir", str(self.folder)], os.environ)

    def person(self, *words: str, typed: str = "") -> str:
        """`bookie ...` as the person for whom `local up` made credentials."""
        return run([sys.executable, "-m", "bookie", *words], self.variables, typed=typed)

    def up(self, manifest: Path) -> None:
        run(
            [sys.executable, *FLEET_WORDS, "up", str(manifest), "--dir", str(self.folder),
             "--detach"], os.environ,
        )  # fmt: skip
        lines = self.operator("env").replace("export ", "").split()
        self.variables = os.environ | dict(line.split("=", 1) for line in lines)
        self.url = self.variables["BOOKIE_METADATA"]

    @property
    def bookies(self) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = []
        for file in sorted(self.folder.glob("bookies/*/runtime.json")):
            found.append(json.loads(file.read_text(encoding="utf-8")))
        return found

    def doors(self, ledger_id: int) -> Doors:
        """Of the first bookie."""
        bookie, ports = self.bookies[0], self.bookies[0]["ports"]
        hosts = self.url.partition("://")[2].partition("/")[0]
        return Doors(
            "127.0.0.1", ports["admin"], ports["stock"], ports["run"], hosts, bookie["bookieId"],
            ledger_id,
        )  # fmt: skip

    def insider(self, name: str) -> Attacker:
        return Attacker(f"a holder of the {name.split('-')[0]}'s", self.folder / "tls" / name)


def run(words: list[str], variables: Mapping[str, str], *, typed: str = "") -> str:
    done = subprocess.run(
        words, env=dict(variables), input=typed, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def attacks(target: Target, folder: Path, ledger_id: int) -> Iterator[Attack]:
    """All of them, as the fleet is now."""
    tls = target.folder / "tls"
    stranger = Attacker("a stranger in plain", None)
    fleet = "spiffe://bookie-operator/local/target"
    forged = forger(
        folder / "forged", trusted=tls / "operator-operator" / "ca.crt",
        uri=f"{fleet}/operator/operator",
    )  # fmt: skip
    client = target.insider("client-client")
    compiled(folder / "proto")
    calls, doors = Calls(folder / "proto"), target.doors(ledger_id)
    yield from reached(doors, stranger)
    insiders = (
        (stranger, NOTHING),
        (forged, NOTHING),
        (client, NOTHING),
        (target.insider("job-job"), OF_JOBS),
        (target.insider("bookie-bookie-1"), OF_BOOKIES),
        (target.insider("operator-operator"), frozenset(calls.methods)),
    )
    for who, allowed in insiders:
        yield from on_control_plane(doors, calls, who, allowed)
    for who in (stranger, forged):
        yield from of_stranger(doors, who)
    yield from of_client(doors, client)
    for number, (what, uris) in enumerate(odd_names(fleet).items()):
        odd = oddly_named(folder / f"odd-{number}", what, uris, authority=tls / "ca")
        yield from of_odd_name(doors, calls, odd)
    job = target.insider("job-job")
    [person] = (target.folder / "tls").glob("person-*")
    for name, may in (("job-job", False), ("operator-operator", False), (person.name, True)):
        yield by_a_persons_word(doors, calls, target.insider(name), looks=job, may=may)


@contextmanager
def half_opened(ports: Mapping[str, int]) -> Iterator[None]:
    """Meanwhile strangers hold handshakes half open on every port."""
    held = [
        one
        for port in (ports["run"], ports["stock"], ports["admin"])
        for one in data_ports.half_open(("127.0.0.1", port), count=HALF_OPEN)
    ]
    try:
        yield
    finally:
        for one in held:
            one.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="where the lines go as well")
    parser.add_argument(
        "--kubernetes",
        action="store_true",
        help="attack a cluster on kind, not one of this machine",
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="security-") as name:
        folder = Path(name)
        if options.kubernetes:
            from on_kind import attack_on_kind  # needs the harness of e2e on its path

            lines, after = attack_on_kind(folder)
            return _judged(lines, after, options.json) if lines else 0
        target = Target(folder / "fleet")
        manifest = folder / "target.yaml"
        manifest.write_text(json.dumps(MANIFEST), encoding="utf-8")
        try:
            target.up(manifest)
            return _attacked(target, folder, options.json)
        finally:
            target.operator("down")


def _attacked(target: Target, folder: Path, report: Path | None) -> int:
    text = "".join(f"line {number}\n" for number in range(500))
    told = target.person(
        "ledger", "write", "-", "--lines", "--output", "json", *ON_EVERY_BOOKIE, typed=text
    )
    ledger_id = json.loads(told)["ledger_id"]
    lines = []
    for attack in attacks(target, folder, ledger_id):
        lines.append(line_of(attack))
        print(said(lines[-1]))
    with half_opened(target.bookies[0]["ports"]):
        found = target.person("ledger", "read", str(ledger_id), "--raw")
    boots = _boots_beside_what_is_made_up(target)
    whole = "everything that must be there is there" in target.person("audit")
    after = {
        "what was written is read back while handshakes hang": found == text.replace("\n", ""),
        "a bookie boots beside a counter and a ledger's end that a client made up": boots,
        "an audit finds every copy": whole,
    }
    return _judged(lines, after, report)


def _boots_beside_what_is_made_up(target: Target) -> bool:
    bookie, client = "bookie-1", target.insider("client-client")
    hosts = target.doors(0).zookeeper
    refused, words = attempt(client, hosts, partial(made_up.put, bookie=bookie))
    assert not refused, words
    kill = partial(target.operator, "kill", bookie)
    boots = made_up.serves_again(target.folder, bookie, kill)
    attempt(client, hosts, made_up.take_away)
    target.operator("wait")
    return boots


def _judged(lines: Sequence[Line], after: Mapping[str, bool], report: Path | None) -> int:
    for what, holds in after.items():
        print(f"{'ok' if holds else 'RED':11} {what}")
    if report is not None:
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(json.dumps({"lines": list(lines), "after": dict(after)}, indent=1))
    failed = red(lines)
    print(f"{len(lines) - failed} passed, {failed} failed")
    return int(bool(failed) or not all(after.values()) or not lines)


if __name__ == "__main__":
    sys.exit(main())
