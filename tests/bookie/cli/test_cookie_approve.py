"""`bookie cookie approve` against a real control plane, over a bookie that is none."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from bookie.boot.cookie_fix import FixPlan
from bookie.cli.main import main
from bookie.ids import BookieId
from bookie.server.admin import AdminServer
from bookie.server.control import Control, Health
from bookie.server.state import BookieState
from bookie.wire.identity import Identity
from click.testing import CliRunner, Result
from consents import consents

ME = BookieId("bookie-0")
WHY = "ledger-1 was replaced"


class Waiting:
    """A bookie as far as the consent goes that its boot waits for; `plan_id` empty: it does not."""

    def __init__(self, plan_id: str, *, then: BookieId = ME) -> None:
        self.plan_id = plan_id
        self.name, self.then = ME, then
        """Who answers at first, and who answers at the same address once the plan was shown."""
        self.approved: list[tuple[str, str]] = []
        self.tls = None

    def identity(self) -> Identity:
        return Identity("cluster", self.name, 1)

    def hear_epoch(self, epoch: int) -> None:
        """Nobody names another one here."""

    async def health(self) -> Health:
        asyncio.get_running_loop().call_later(0, self.change)
        plan = FixPlan(self.plan_id, (1,), WHY) if self.plan_id else None
        return Health(BookieState(ME), version="test", plan=plan)

    def change(self) -> None:
        self.name = self.then

    def approve(self, plan_id: str, approved_by: str) -> str:
        if plan_id != self.plan_id:
            return f"expected plan {self.plan_id or 'none'}, not {plan_id}"
        self.approved.append((plan_id, approved_by))
        return ""


@asynccontextmanager
async def served(bookie: Waiting) -> AsyncIterator[int]:
    server = AdminServer(cast(Control, bookie))
    yield await server.start("127.0.0.1", 0)
    await server.stop(None)


def command(*words: object, typed: str = "") -> Result:
    words = ("cookie", "approve", *words, "--output", "json")
    return CliRunner().invoke(main, list(map(str, words)), input=typed)


async def approve(bookie: Waiting, *words: str, typed: str = "") -> Result:
    async with served(bookie) as port:
        target = ("--admin", f"127.0.0.1:{port}", "--by", "ann")
        return await asyncio.to_thread(command, *target, *words, typed=typed)


@pytest.mark.parametrize(
    ("waits_for", "words", "typed", "code", "told"),
    [
        *consents(WHY),
        ("plan-1", ("--plan", "plan-2", "--yes"), "", 5, "expected plan plan-1, not plan-2"),
        ("", ("--plan", "plan-1"), "", 5, "expected plan none, not plan-1"),
        ("", (), "y\n", 5, "bookie-0 is BOOTING and does not wait for an approval"),
        ("", ("--yes",), "", 5, "does not wait for an approval"),
    ],
)
async def test_a5_nothing_is_approved_but_the_plan_that_waits_by_who_consents(
    waits_for: str, words: tuple[str, ...], typed: str, code: int, told: str
) -> None:
    bookie = Waiting(waits_for)
    shown = await approve(bookie, *words, typed=typed)
    assert shown.exit_code == code and told in shown.stderr
    assert bookie.approved == ([("plan-1", "ann")] if code == 0 else [])
    approved = {"bookie": ME, "plan": "plan-1", "approved_by": "ann"}
    assert (json.loads(shown.stdout) == approved) if code == 0 else (shown.stdout == "")


async def test_a5_another_bookie_than_the_one_that_showed_its_plan_approves_nothing() -> None:
    bookie = Waiting("plan-1", then=BookieId("bookie-1"))
    told = await approve(bookie, "--yes")
    assert (told.exit_code, told.stdout, bookie.approved) == (4, "", [])


async def test_a_bookie_of_this_machine_is_found_by_its_runtime_file(tmp_path: Path) -> None:
    bookie, runtime = Waiting("plan-1"), tmp_path / "runtime.json"
    async with served(bookie) as port:
        runtime.write_text(json.dumps({"ports": {"admin": port}}))
        told = await asyncio.to_thread(command, "--runtime", runtime, "--yes", "--by", "ann")
    assert (told.exit_code, bookie.approved) == (0, [("plan-1", "ann")])


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "cannot read the runtime file {}: No such file or directory"),
        *(
            (content, "{} is no bookie's runtime file: expected JSON with ports.admin")
            for content in (b"", b"[]", b"{}", b'{"ports": {}}', b'{"ports": null}', b"\xff")
        ),
        (b'{"ports": {"admin": "x"}}', "{} is no bookie's runtime file"),
        (b'{"ports": {"admin": null}}', "{} is no bookie's runtime file"),
    ],
)
def test_a_file_that_names_no_port_is_wrong_usage(
    tmp_path: Path, content: bytes | None, told: str
) -> None:
    path = tmp_path / "runtime.json"
    if content is not None:
        path.write_bytes(content)
    shown = command("--runtime", path, "--yes")
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert f"error: {told.format(path)}" in shown.stderr


@pytest.mark.parametrize("words", [(), ("--admin", "a:1", "--runtime", "file")])
def test_a_bookie_is_named_in_one_way(words: tuple[str, ...]) -> None:
    told = command(*words)
    assert told.exit_code == 2 and "either --admin HOST:PORT or --runtime FILE" in told.stderr
