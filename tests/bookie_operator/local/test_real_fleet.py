"""A real fleet on this machine, through the command: ZooKeeper, four bookies, crashes, adoption."""

import asyncio
import json
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from bookie.client.bookkeeper_client import Client
from bookie.client.writer import LedgerWriter
from bookie.ids import BookieId, EntryId
from bookie.metadata.embedded import free_port
from bookie.metadata.opening import open_store
from bookie.metadata.store import MetadataStore
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.status import Status
from bookie.repair.look.grpc_control import GrpcControl
from bookie.tls.authority import Authority, Issued
from bookie.tls.principals import Principal, Role
from bookie_operator.local.down import running_bookies
from bookie_operator.model.base import API_VERSION
from bookie_operator.platform.credential_folders import read_folder
from bookie_operator.platform.folders import LocalFolders, operator_pid
from bookie_operator.platform.processes import identify, send, wait_gone
from bookie_processes import BookieProcess, until_there
from fake_processes import until
from operator_scenes import manifest
from prometheus_client.parser import text_string_to_metric_families
from tls_fleet import TlsFleet

pytestmark = [pytest.mark.process, pytest.mark.timeout(170)]
PATIENCE_S = 60.0
ENTRIES = 20
B0, B4 = BookieId("bookie-0"), BookieId("bookie-4")
OTHER = BookieId("10.0.0.7:3181")
"""Not of the operator's."""


@dataclass
class Fleet:
    """One cluster in a directory, driven as a person does."""

    root: Path
    manifest: Path
    metrics_port: int

    def operator(self, *words: str) -> str:
        command = [sys.executable, "-m", "bookie_operator", "local", *words]
        done = subprocess.run(
            [*command, "--dir", str(self.root)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def up(self) -> str:
        port = str(self.metrics_port)
        return self.operator("up", str(self.manifest), "--detach", "--metrics-port", port)

    def figures(self) -> dict[tuple[str, str], float]:
        """Of the operator: (name, what it is of) -> value."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics") as page:
            families = text_string_to_metric_families(page.read().decode())
        of_cluster = ("namespace", "cluster")
        return {
            (one.name, "".join(v for k, v in one.labels.items() if k not in of_cluster)): one.value
            for family in families
            for one in family.samples
            if one.labels.items() >= {"namespace": "local", "cluster": "demo"}.items()
        }

    def scale(self, replicas: int) -> None:
        """A changed manifest, as a person brings it: the next operator has it."""
        operator = identify(operator_pid(self.folders) or 0)
        assert operator is not None
        send(operator, signal.SIGTERM)
        assert wait_gone(operator, PATIENCE_S)
        tree = yaml.safe_load(self.manifest.read_text())
        tree["spec"]["replicas"] = replicas
        self.manifest.write_text(yaml.safe_dump(tree))
        self.up()

    def ask(self, name: str, **spec: str) -> Callable[[], dict[str, Any]]:
        """Hand in a task; gives back what reads its status."""
        path = self.root / f"{name}.yaml"
        tree = {"metadata": {"name": name}, "spec": {"cluster": "demo"} | spec}
        kind = {"apiVersion": API_VERSION, "kind": "BookieTask"}
        path.write_text(yaml.safe_dump(kind | tree))
        self.operator("task", str(path))
        told = self.folders.tasks / f"{name}.status.json"
        return lambda: json.loads(told.read_text()) if told.exists() else {}

    def credentials(self) -> dict[str, str]:
        """What a shell is given to be let in."""
        lines = [line.removeprefix("export ") for line in self.operator("env").splitlines()]
        return {name: shlex.split(value)[0] for name, _, value in (o.partition("=") for o in lines)}

    def certified(self, bookie_id: BookieId, folder: Path) -> Path:
        """Credentials for a bookie that the operator does not run."""
        files = read_folder(self.root / "tls" / "ca")
        assert files is not None
        authority = Authority.load(Issued(files["tls.crt"], files["tls.key"]))
        principal = Principal("local", "demo", Role.BOOKIE, bookie_id)
        return TlsFleet(folder).folder_of(principal, signed_by=authority, trusting=authority.pem)

    @property
    def folders(self) -> LocalFolders:
        return LocalFolders(self.root)

    @property
    def status(self) -> dict[str, Any]:
        tree = json.loads((self.root / "status.json").read_text())
        status: dict[str, Any] = tree["status"]
        return status

    @property
    def metadata_url(self) -> str:
        url: str = self.status["metadata"]["url"]
        return url

    def bookie(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = next(b for b in self.status["bookies"] if b["id"] == name)
        return found

    def state(self, name: str) -> str:
        states = {found["id"]: str(found["state"]) for found in self.status["bookies"]}
        return states.get(name, "Gone")

    def volumes(self, name: str) -> dict[str, str]:
        return {disk["name"]: disk["volumeUid"] for disk in self.bookie(name)["disks"]}

    def condition(self, kind: str) -> str:
        status: str = next(c["status"] for c in self.status["conditions"] if c["type"] == kind)
        return status

    def incident(self, name: str, epoch: int) -> dict[str, Any]:
        for incident in self.status.get("incidents", ()):
            if (incident["bookie"], incident["bootEpochAfter"]) == (name, epoch):
                found: dict[str, Any] = incident
                return found
        return {"outcome": "NotYet"}

    async def wait(self, holds: Callable[[], bool]) -> None:
        try:
            await until(holds, patience_s=PATIENCE_S)
        except TimeoutError:
            log = self.folders.operator_log.read_text()[-3000:]
            raise AssertionError(f"{json.dumps(self.status, indent=1)}\n{log}") from None


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    root = tmp_path_factory.mktemp("fleet")
    path = root / "cluster.yaml"
    # No flush by time: what is acknowledged is lost with the process, so repairs have work to do.
    tree = manifest(flushIntervalSeconds=3600, repair={"engine": "inline", "backoffSeconds": 1})
    path.write_text(yaml.safe_dump(tree))
    fleet = Fleet(root / "dir", path, free_port())
    try:
        told = fleet.up()
        assert fleet.metadata_url in told and str(fleet.root / "status.json") in told
        with pytest.MonkeyPatch.context() as environment:
            for name, value in fleet.credentials().items():
                environment.setenv(name, value)
            yield fleet
    finally:
        fleet.operator("down", "--delete-volumes")
    assert not running_bookies(fleet.folders)


def test_others_on_the_machine_read_nothing_of_a_fleet(fleet: Fleet) -> None:
    """ZooKeeper's files have the ledgers' passwords, and an index has keys."""
    kept = [*fleet.root.glob("zookeeper/data/*/log.*"), *fleet.root.glob("volumes/*/*/*.sqlite")]
    assert kept
    assert not [one for one in (fleet.root, *kept) if one.stat().st_mode & 0o077]


def payloads() -> list[bytes]:
    return [b"entry %d" % number for number in range(ENTRIES)]


async def write_ledgers(client: Client, store: MetadataStore) -> list[LedgerWriter]:
    """Open ledgers whose newest entries bookie-0 holds in memory only."""
    writers = [
        await client.create_ledger(ensemble_size=4, write_quorum=3, ack_quorum=2) for _ in range(4)
    ]
    first, *others = payloads()
    for writer in writers:
        await writer.wait_acked(writer.append_many([first]))
    control = GrpcControl(store)
    # A log's first entry has its flusher at work: what comes after this stays in memory.
    assert await control.flush(B0) is Status.OK
    await control.close()
    for payload in others:  # one by one, so that all but the last are below the LAC
        for writer in writers:
            await writer.wait_acked(writer.append_many([payload]))
    return writers


async def test_a_killed_bookie_is_marked_repaired_and_cleared(fleet: Fleet) -> None:
    before = fleet.bookie(B0)["bootEpoch"]
    store = await open_store(fleet.metadata_url)
    async with Client(store) as client:
        writers = await write_ledgers(client, store)
        fleet.operator("kill", B0)
        await fleet.wait(lambda: fleet.incident(B0, before + 1)["outcome"] == "Cleared")
        for writer in writers:
            reader = await client.recover_ledger(writer.ledger_id)
            read = await reader.read(EntryId(0), reader.last_entry_id)
            assert [entry.payload for entry in read] == payloads()
    await store.close()
    incident = fleet.incident(B0, before + 1)
    assert incident["kind"] == "UncleanShutdown"
    assert incident["ledgersFenced"] == 0 and incident["ledgersInLimbo"] == 4
    assert incident["entriesCopied"] > 0
    assert fleet.bookie(B0)["lastShutdown"] == {"clean": False, "reason": "UncleanShutdown"}
    await fleet.wait(lambda: fleet.condition("DurabilityVerified") == "True")
    assert fleet.condition("LimboPresent") == "False"
    # The figures follow the status, at the end of the pass.
    verified = ("bookie_operator_condition", "DurabilityVerified")
    await fleet.wait(lambda: fleet.figures().get(verified) == 1)
    assert fleet.figures()["bookie_operator_actions_total", "StartJob"] >= 1


async def test_a_replaced_disk_is_approved_and_filled_again(fleet: Fleet) -> None:
    """Of the closed ledgers above; the bookie asks, the operator answers within its budget."""
    before = fleet.bookie("bookie-2")["bootEpoch"]
    fleet.operator("replace-disk", "bookie-2", "ledger-0")
    await fleet.wait(lambda: fleet.incident("bookie-2", before + 1)["outcome"] == "Cleared")
    incident = fleet.incident("bookie-2", before + 1)
    assert incident["kind"] == "DiskReplaced"
    assert min(incident["ledgersUnchecked"], incident["entriesCopiedClosed"]) > 0, incident
    await fleet.wait(lambda: fleet.condition("DurabilityVerified") == "True")


async def test_a_killed_operator_leaves_bookies_running_and_is_followed(fleet: Fleet) -> None:
    before = running_bookies(fleet.folders)
    operator = identify(operator_pid(fleet.folders) or 0)
    assert operator is not None and len(before) == 4
    send(operator, signal.SIGKILL)
    assert wait_gone(operator, PATIENCE_S)
    assert running_bookies(fleet.folders) == before
    fleet.up()
    assert running_bookies(fleet.folders) == before
    assert operator_pid(fleet.folders) != operator.pid


async def test_swapped_disks_are_refused_and_can_be_put_back(fleet: Fleet) -> None:
    swap = ("swap-disks", "bookie-1.ledger-0", "bookie-1.ledger-1")
    epoch = fleet.bookie("bookie-1")["bootEpoch"]
    fleet.operator(*swap)
    await fleet.wait(lambda: fleet.bookie("bookie-1")["state"] == "Refused")
    assert fleet.condition("Degraded") == "True"
    fleet.operator(*swap)
    await fleet.wait(lambda: fleet.bookie("bookie-1")["bootEpoch"] > epoch)
    await fleet.wait(lambda: fleet.condition("Degraded") == "False")


async def test_a_bookie_of_others_that_is_gone_for_good_is_re_replicated(
    fleet: Fleet, tmp_path: Path
) -> None:
    """It dies with its disks; a task names it, and its ledgers are whole on the operator's own."""
    await fleet.wait(lambda: fleet.condition("DurabilityVerified") == "True")
    store = await open_store(fleet.metadata_url)
    tls = fleet.certified(OTHER, tmp_path)
    other = BookieProcess(OTHER, tmp_path / "other", fleet.metadata_url, tls=tls)
    other.start()
    fleet_ids = {BookieId(f"bookie-{number}") for number in range(4)}
    await until_there(store, OTHER, *fleet_ids)
    async with Client(store) as client:
        writer = await write_on(client, OTHER)
        await writer.close()
        early = fleet.ask("early", type="rereplicate", bookie=OTHER)
        await fleet.wait(lambda: early().get("phase") == "Failed")
        assert "StillRegistered" in early()["message"]
        other.kill()
        shutil.rmtree(other.folder)
        await until_there(store, *fleet_ids)
        asked = fleet.ask("gone", type="rereplicate", bookie=OTHER)
        await fleet.wait(lambda: asked().get("phase") in ("Succeeded", "Failed"))
        assert (asked()["phase"], "0 left" in asked()["message"]) == ("Succeeded", True), asked()
        reader = await client.open_ledger(writer.ledger_id)
        read = await reader.read(EntryId(0), reader.last_entry_id)
        assert [entry.payload for entry in read] == payloads()
        assert OTHER not in names_of(reader.metadata)
    await store.close()
    assert fleet.status["rereplication"]["ledgersMoved"] >= 1
    await fleet.wait(lambda: fleet.condition("DurabilityVerified") == "True")


async def test_one_bookie_more_and_back_again(fleet: Fleet) -> None:
    """Its ledgers move to others, the open one under its writer; its volumes are kept."""
    await fleet.wait(lambda: fleet.condition("DurabilityVerified") == "True")
    fleet.scale(5)
    await fleet.wait(lambda: fleet.state("bookie-4") == "Serving")
    volumes = fleet.volumes("bookie-4")
    store = await open_store(fleet.metadata_url)
    async with Client(store) as client:
        closed, written = await write_on(client, B4), await write_on(client, B4)
        await closed.close()
        writing = asyncio.create_task(write_on_and_on(written))
        fleet.scale(4)
        await fleet.wait(lambda: fleet.state("bookie-4") == "Gone")
        writing.cancel()
        await written.close()
        for writer in (closed, written):
            reader = await client.open_ledger(writer.ledger_id)
            read = await reader.read(EntryId(0), reader.last_entry_id)
            assert [entry.payload for entry in read][:ENTRIES] == payloads()
            assert B4 not in names_of(reader.metadata)
        assert written.lac >= ENTRIES, "it went on"
    await store.close()
    assert len(running_bookies(fleet.folders)) == 4 and "drain" not in fleet.status
    fleet.scale(5)
    await fleet.wait(lambda: fleet.state("bookie-4") == "Serving")
    assert fleet.volumes("bookie-4") == volumes


async def write_on(client: Client, bookie_id: BookieId) -> LedgerWriter:
    """An open ledger with entries on this bookie."""
    while True:
        writer = await client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
        await writer.wait_acked(writer.append_many(payloads()))
        if bookie_id in names_of(writer.metadata):
            return writer
        await writer.close()


async def write_on_and_on(writer: LedgerWriter) -> None:
    while True:
        await writer.wait_acked(writer.append_many([b"more"]))
        await asyncio.sleep(0.02)


def names_of(metadata: LedgerMetadata) -> set[BookieId]:
    return {name for fragment in metadata.fragments for name in fragment.ensemble}
