"""A real fleet on this machine, under TLS, that asks stock clients for a password as well: who
comes in, what changes without a restart, and that jobs and native clients have nothing to do with
it. At its end a person accepts a loss, in no name but their own."""

import asyncio
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from bookie.user import user_name
from bookie.wire.stock.messages import Outcome
from bookie_operator.model.base import API_VERSION
from fake_processes import until
from operator_scenes import manifest
from sasl_client import PASSWORD, USER, line, log_in
from stock_client import V3Client

pytestmark = [pytest.mark.process, pytest.mark.timeout(170)]
PATIENCE_S: Final = 75.0
SPEC: Final[dict[str, Any]] = {
    "replicas": 3,
    "quorum": {"ensemble": 3, "write": 3, "ack": 2},
    "flushIntervalSeconds": 3600,
    "tls": {"mode": "Required"},
    "authentication": {"mechanisms": ["digest-md5"], "usersSecret": "stock-users"},
    "repair": {"engine": "inline", "backoffSeconds": 1},
    "audit": {"engine": "inline", "schedule": "@never"},
}
OPEN_LEDGER: Final = """
import asyncio, os, sys
from bookie.client.bookkeeper_client import Client
from bookie.metadata.opening import open_store

async def main():
    client = Client(await open_store(os.environ["BOOKIE_METADATA"]))
    size, acks = map(int, sys.argv[1:])
    writer = await client.create_ledger(ensemble_size=size, write_quorum=size, ack_quorum=acks)
    await writer.wait_acked(writer.append_many([b"one", b"two"]))
    print(writer.ledger_id, *writer.metadata.last_fragment.ensemble, flush=True)
    os._exit(0)  # a writer that dies: nobody closes the ledger

asyncio.run(main())
"""


class Story:
    """One fleet, as a person sees and drives it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.users = root / "secrets/stock-users/users"
        self.users.parent.mkdir(parents=True)
        self.users.write_text(line(), encoding="utf-8")
        self.variables: dict[str, str] = {}

    def run(self, *words: str) -> str:
        command = [sys.executable, *words]
        environ = os.environ | self.variables
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def operator(self, *words: str) -> str:
        return self.run("-m", "bookie_operator", "local", *words, "--dir", str(self.root))

    def up(self) -> None:
        path = self.root / "fleet.yaml"
        path.write_text(yaml.safe_dump(manifest(**SPEC)), encoding="utf-8")
        self.operator("up", str(path), "--detach")
        lines = self.operator("env").replace("export ", "").split()
        self.variables = dict(line.split("=", 1) for line in lines)

    def ask(self, name: str, **spec: Any) -> Callable[[], dict[str, Any]]:
        """Hand in a task; gives back what reads its status."""
        path = self.root / f"{name}.yaml"
        tree = {"metadata": {"name": name}, "spec": {"cluster": "demo"} | spec}
        path.write_text(yaml.safe_dump({"apiVersion": API_VERSION, "kind": "BookieTask"} | tree))
        self.operator("task", str(path))
        told = self.root / f"tasks/{name}.status.json"
        return lambda: json.loads(told.read_text()) if told.exists() else {}

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.root / "status.json").read_text())["status"]
        return found

    def reason(self, kind: str) -> str:
        found = {one["type"]: one["reason"] for one in self.status["conditions"]}
        return str(found.get(kind, ""))

    def processes(self) -> set[int]:
        return {one["pid"] for one in self.runtimes()}

    def runtimes(self) -> list[dict[str, Any]]:
        return [json.loads(one.read_text()) for one in self.root.glob("bookies/*/runtime.json")]

    async def wait(self, holds: Callable[[], bool]) -> None:
        try:
            await until(holds, patience_s=PATIENCE_S)
        except TimeoutError:
            log = (self.root / "operator.log").read_text()[-3000:]
            raise AssertionError(f"{json.dumps(self.status, indent=1)}\n{log}") from None

    async def comes_in(self, user: str = USER, password: str = PASSWORD) -> bool:
        """A stock client with a certificate and this password, who then asks for an entry."""
        folder = self.root / "tls/client-client"
        context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        port = self.runtimes()[0]["ports"]["stock"]
        client = await V3Client.connect(port, tls=context)
        said = await log_in(client, user, password)
        await client.close()
        return said.outcome is Outcome.OK


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    found = Story(tmp_path_factory.mktemp("fleet"))
    try:
        found.up()
        yield found
    finally:
        found.operator("down", "--delete-volumes")


async def test_a_stock_client_shows_a_certificate_and_a_password(story: Story) -> None:
    assert await story.comes_in()
    assert not await story.comes_in(password="wrong")
    assert story.reason("SecretsUsable") == "AllUsable"


async def test_users_change_without_a_restart_and_a_lost_secret_changes_nothing(
    story: Story,
) -> None:
    before = story.processes()
    story.users.write_text(line() + line("ann", "of ann"), encoding="utf-8")
    assert await story.comes_in("ann", "of ann")
    story.users.unlink()
    await story.wait(lambda: story.reason("SecretsUsable") == "SecretKeyMissing")
    assert await story.comes_in("ann", "of ann") and story.processes() == before
    story.users.write_text("ann: of ann\n", encoding="utf-8")
    await story.wait(lambda: story.reason("SecretsUsable") == "SecretUnusable")
    assert story.reason("Available") == "EnoughWritable"
    events = (story.root / "events.jsonl").read_text()
    assert "SecretKeyMissing" in events and "of ann" not in events
    story.users.write_text(line(), encoding="utf-8")
    await story.wait(lambda: story.reason("SecretsUsable") == "AllUsable")


async def test_an_audit_and_a_repair_need_no_password(story: Story) -> None:
    ledger = story.run("-c", OPEN_LEDGER, "3", "2").split()[0]
    story.operator("kill", "bookie-0")
    await story.wait(lambda: "Cleared" in [one["outcome"] for one in _incidents(story)])
    assert "closed" in story.run("-m", "bookie", "ledger", "info", ledger).lower()
    told = story.ask("look", type="audit")
    await story.wait(lambda: told().get("phase") in ("Succeeded", "Failed"))
    assert (told()["phase"], told()["message"]) == ("Succeeded", "nothing found")


def _incidents(story: Story) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = story.status.get("incidents", [])
    return found


async def test_a_loss_is_accepted_in_the_name_of_who_runs_the_fleet(story: Story) -> None:
    # Who has not acknowledged has forgotten nothing, and says so: both members have, then both go.
    ledger, *members = story.run("-c", OPEN_LEDGER, "2", "2").split()
    await asyncio.gather(*(asyncio.to_thread(story.operator, "kill", one) for one in members))
    await story.wait(lambda: story.reason("PossibleDataLoss") == "OverlappingUnclean")
    wish = {"ledger": int(ledger), "reason": "two were killed", "approvedBy": "ann"}
    told = story.ask("give-up", type="accept-loss", **wish)
    await story.wait(lambda: told().get("phase") in ("Succeeded", "Failed"))
    assert told()["phase"] == "Succeeded", told()
    decisions = json.loads(story.run("-m", "bookie", "decisions", "--output", "json"))
    assert {one["by"] for one in decisions} == {user_name()}
    assert all("approved by ann (as written, not proved)" in one["about"] for one in decisions)
