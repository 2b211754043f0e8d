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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import data_ports
import metadata_store
from control_plane import Calls
from strangers import Attacker, forger

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
OF_JOBS: Final = frozenset(
    {
        "GetHealth",
        "ListLimbo",
        "GetAvailability",
        "ClearLimbo",
        "RecordLoss",
        "RecheckEntries",
        "Flush",
    }
)
OF_BOOKIES: Final = frozenset({"GetHealth", "ListLimbo", "GetAvailability"})


@dataclass(frozen=True, slots=True)
class Attack:
    """One try. `line`: of the threat model in docs/security.md."""

    line: str
    who: Attacker
    what: str
    run: Callable[[], tuple[bool, str]]
    must_work: bool = False
    """It is none: whoever may do it does it, by the same code."""


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
    calls = Calls(folder / "proto")
    insiders = (
        (stranger, frozenset[str]()),
        (forged, frozenset[str]()),
        (client, frozenset[str]()),
        (target.insider("job-job"), OF_JOBS),
        (target.insider("bookie-bookie-1"), OF_BOOKIES),
    )
    bookie = target.bookies[0]
    meant = {"bookie-id": bookie["bookieId"], "cluster-id": "any", "boot-epoch": "0"}
    admin = f"127.0.0.1:{bookie['ports']['admin']}"
    for who, allowed in insiders:
        for method in calls.methods:
            if method not in allowed:
                yield Attack(
                    "control plane", who, method, partial(calls.call, who, admin, method, meant)
                )
    operator = target.insider("operator-operator")
    health = partial(calls.call, operator, admin, "GetHealth", {})
    yield Attack("control plane", operator, "GetHealth", health, must_work=True)
    yield from _by_a_persons_word(target, calls, admin)
    yield from _on_data_ports(bookie["ports"], (stranger, forged), client, ledger_id)
    yield from _on_metadata(target, (stranger, forged), client)


def _by_a_persons_word(target: Target, calls: Calls, admin: str) -> Iterator[Attack]:
    """A loss of what nobody has lost. Who may say so is answered, by the entries that are there."""
    job = target.insider("job-job")
    [person] = (target.folder / "tls").glob("person-*")
    for name, may in (("job-job", False), ("operator-operator", False), (person.name, True)):
        who = target.insider(name)
        record = partial(calls.call, who, admin, "RecordLoss", calls.meant(job, admin))
        yield Attack("control plane", who, "a loss by a person's word", record, must_work=may)


def _on_data_ports(
    ports: Mapping[str, int], strangers: tuple[Attacker, ...], client: Attacker, ledger_id: int
) -> Iterator[Attack]:
    frame = data_ports.v2_read(ledger_id, 0)
    read = partial(data_ports.ask_stock, client, ports["stock"], frame)
    yield Attack("stock port", client, "read an entry, version 2", read, must_work=True)
    for who in strangers:
        for what, frame in (
            ("read an entry, version 2", data_ports.v2_read(ledger_id, 0)),
            ("fence a ledger, version 2", data_ports.v2_read(ledger_id, 0, fence=True)),
        ):
            yield Attack(
                "stock port", who, what, partial(data_ports.ask_stock, who, ports["stock"], frame)
            )
        yield Attack(
            "native port", who, "greet", partial(data_ports.greet_native, who, ports["run"])
        )


def _on_metadata(
    target: Target, strangers: tuple[Attacker, ...], client: Attacker
) -> Iterator[Attack]:
    hosts = target.url.partition("://")[2].partition("/")[0]

    def read(zk: Any) -> object:
        return [zk.get(path)[0][:40] for path in metadata_store.ledger_znodes(zk, "/ledgers")]

    def wipe(zk: Any) -> object:
        paths = metadata_store.ledger_znodes(zk, "/ledgers")
        return [zk.delete(path) for path in paths]

    reading = partial(metadata_store.attempt, client, hosts, read)
    yield Attack("ZooKeeper", client, "read all passwords", reading, must_work=True)
    for who in strangers:
        for what, work in (("read all passwords", read), ("delete all ledgers", wipe)):
            yield Attack("ZooKeeper", who, what, partial(metadata_store.attempt, who, hosts, work))
    for what, path in (
        ("delete a bookie's cookie", "/ledgers/cookies/bookie-0"),
        ("delete the instance id", "/ledgers/INSTANCEID"),
        ("delete the layout", "/ledgers/LAYOUT"),
    ):
        work = partial(_delete, path=path)
        yield Attack(
            "ZooKeeper", client, what, partial(metadata_store.attempt, client, hosts, work)
        )


def _delete(zk: Any, *, path: str) -> object:
    return zk.delete(path)


@contextmanager
def half_opened(ports: Mapping[str, int]) -> Iterator[None]:
    """Meanwhile strangers hold handshakes half open on every port."""
    held = [
        one
        for port in (ports["run"], ports["stock"], ports["admin"])
        for one in data_ports.half_open(port, count=HALF_OPEN)
    ]
    try:
        yield
    finally:
        for one in held:
            one.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="where the lines go as well")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="security-") as name:
        folder = Path(name)
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
    told = target.person("ledger", "write", "-", "--lines", "--output", "json", typed=text)
    ledger_id = json.loads(told)["ledger_id"]
    lines, red = [], 0
    for attack in attacks(target, folder, ledger_id):
        refused, words = attack.run()
        is_red = refused is attack.must_work
        red += is_red
        verdict = ("RED " if is_red else "") + ("refused" if refused else "worked")
        lines.append(
            {"line": attack.line, "who": attack.who.name, "what": attack.what, "came": words,
             "verdict": verdict},
        )  # fmt: skip
        print(f"{verdict:11} {attack.line:14} {attack.who.name:60} {attack.what:26} {words:.110}")
    with half_opened(target.bookies[0]["ports"]):
        found = target.person("ledger", "read", str(ledger_id), "--raw")
    intact = found == text.replace("\n", "")
    whole = "everything that must be there is there" in target.person("audit")
    print(f"{'ok' if intact else 'RED':11} what was written is read back while handshakes hang")
    print(f"{'ok' if whole else 'RED':11} an audit finds every copy")
    if report is not None:
        report.write_text(json.dumps({"lines": lines, "intact": intact, "whole": whole}, indent=1))
    print(f"{len(lines) - red} passed, {red} failed")
    return int(bool(red) or not intact or not whole)


if __name__ == "__main__":
    sys.exit(main())
