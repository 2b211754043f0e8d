"""A real bookie's folders in the hands of a person: inspect, rebuild, approve, fix, serve."""

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from bookie.cli.main import main
from bookie_processes import START_WAIT_S, BookieProcess
from click.testing import CliRunner, Result

POLL_S: Final = 0.02
ALONE: Final = ("--ensemble", "1", "--write-quorum", "1", "--ack-quorum", "1")
POLICY: Final = "BOOKIE_COOKIE_FIX__POLICY"


class Hands:
    """One bookie and the command line; the bookie serves when a test begins."""

    def __init__(self, folder: Path, url: str) -> None:
        self.process = BookieProcess("bookie-0", folder, url)
        self.url = url
        self.log = folder / "log"
        self.config = ("--config", folder / "bookie.yaml")

    def start(self, until: str = "serving: epoch") -> None:
        """Start it and wait, bounded, for these words in its log."""
        seen = self.log.stat().st_size if self.log.exists() else 0
        self.process.start()
        for _ in range(int(START_WAIT_S / POLL_S)):
            with self.log.open() as log:
                log.seek(seen)
                if until in log.read():
                    return
            threading.Event().wait(POLL_S)
        raise AssertionError(self.process.words)

    def bookie(self, *words: object, typed: str | None = None) -> Result:
        environment = {"BOOKIE_METADATA": self.url}
        result = CliRunner(env=environment).invoke(main, list(map(str, words)), input=typed)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def json(self, *words: object) -> Any:
        result = self.bookie(*words, "--output", "json")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    def write(self, text: str, *options: str) -> int:
        told = self.bookie(
            "ledger", "write", "--lines", *ALONE, *options, "--output", "json", typed=text
        )
        return int(json.loads(told.stdout)["ledger_id"])

    def directory(self, name: str) -> Path:
        return self.process.folder / name

    def replace_disk(self, name: str) -> None:
        """Stop the bookie cleanly; one of its directories comes back empty."""
        self.process.stop()
        shutil.rmtree(self.directory(name))
        self.directory(name).mkdir()


@pytest.fixture
def hands(tmp_path: Path, zookeeper_url: str) -> Iterator[Hands]:
    made = Hands(tmp_path / "bookie", zookeeper_url)
    made.start()
    yield made
    made.process.stop()


pytestmark = pytest.mark.process


def test_a_running_bookie_is_left_alone(hands: Hands) -> None:
    for words in (("inspect",), ("index", "rebuild", "--yes"), ("cookie", "fix", "--yes")):
        told = hands.bookie(*words, *hands.config)
        assert (told.exit_code, told.stdout) == (5, "")
        assert "in use by another bookie process (pid " in told.stderr


def test_inspect_tells_a_clean_stop_from_a_kill(hands: Hands) -> None:
    hands.write("a\nb\n", "--keep-open")
    hands.process.kill()
    rows = hands.json("inspect", *hands.config)
    assert [row["disk"] for row in rows] == ["journal 0", "ledger 0", "ledger 1"]
    assert {row["last_stop"] for row in rows} == {"unclean (memory)"}
    hands.start()
    hands.process.stop()
    rows = hands.json("inspect", *(row["directory"] for row in rows))
    assert {row["last_stop"] for row in rows} == {"clean"}
    assert {row["boot_epoch"] for row in rows} == {2}
    assert sum(row.get("limbo", 0) for row in rows) == 1


def test_inspect_names_what_is_no_bookies_directory(hands: Hands) -> None:
    told = hands.bookie("inspect", hands.process.folder)
    assert told.exit_code == 1
    assert "it contains journal, ledger-0, ledger-1: name those" in told.stderr
    assert not (hands.process.folder / "LOCK").exists()


def test_a_rebuilt_index_finds_every_entry_and_is_doubted(hands: Hands) -> None:
    ledger_id = hands.write("a\nb\nc\n")
    hands.process.stop()
    for name in ("ledger-0", "ledger-1"):
        (hands.directory(name) / "index.sqlite").unlink()
    refused = hands.bookie("index", "rebuild", *hands.config, typed="n\n")
    assert (refused.exit_code, refused.stdout) == (1, "")
    rows = hands.json("index", "rebuild", *hands.config, "--yes")
    assert sum(row["runs"] for row in rows) > 0
    hands.start(until="IndexRebuilt")
    entries = hands.json("ledger", "read", ledger_id)
    assert [entry["payload"] for entry in entries] == ["a", "b", "c"]


def test_only_ledger_directories_have_an_index_to_rebuild(hands: Hands) -> None:
    hands.process.stop()
    told = hands.bookie("index", "rebuild", hands.directory("journal"), "--yes")
    assert told.exit_code == 2
    assert "no ledger directory" in told.stderr


def test_a_waiting_bookie_takes_its_new_disk_once_approved(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = ("--runtime", hands.process.runtime)
    calm = hands.bookie("cookie", "approve", *runtime)
    assert (calm.exit_code, "SERVING and does not wait for" in calm.stderr) == (5, True)
    monkeypatch.setenv(POLICY, "Approve")
    hands.replace_disk("ledger-1")
    hands.start(until="waits for approval")
    refused = hands.bookie("cookie", "approve", *runtime, typed="n\n")
    assert refused.exit_code == 1
    assert "ledger 1" in refused.stderr and "replaced or wiped" in refused.stderr
    wrong = hands.bookie("cookie", "approve", *runtime, "--plan", "another")
    assert (wrong.exit_code, "not another" in wrong.stderr) == (5, True)
    admin = f"127.0.0.1:{hands.process.ports()['admin']}"
    told = hands.bookie("cookie", "approve", "--admin", admin, "--by", "me", typed="y\n")
    assert (told.exit_code, "approved by  me" in told.stdout) == (0, True)
    assert "approved by me" in hands.process.words


def test_a_person_fixes_the_cookie_under_policy_never(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    hands.write("a\n", "--keep-open")
    monkeypatch.setenv(POLICY, "Never")
    hands.replace_disk("ledger-0")
    hands.start(until="boot refused")
    hands.process.stop()
    refused = hands.bookie("cookie", "fix", *hands.config, typed="n\n")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert not any(hands.directory("ledger-0").glob("STAMP"))
    told = hands.json("cookie", "fix", *hands.config, "--yes")
    assert (told["cookie_fixed"], told["reason"]) == (True, "DiskReplaced")
    assert (told["ledgers_fenced"], told["ledgers_in_limbo"]) == (1, 1)
    stops = {row["last_stop"] for row in hands.json("inspect", *hands.config)}
    assert stops == {"clean"}, "the next boot has nothing to doubt"
    again = hands.bookie("cookie", "fix", *hands.config, "--yes")
    assert (again.exit_code, "nothing to fix" in again.stderr) == (5, True)
    hands.start()
    assert [row["mark"] for row in hands.json("limbo")] == ["limbo"]


def test_a5_a_person_who_consents_to_one_disk_gives_no_consent_to_two(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    hands.replace_disk("ledger-0")
    monkeypatch.setattr("bookie.cli.cookies.ask", lambda *_, yes: hands.replace_disk("ledger-1"))
    refused = hands.bookie("cookie", "fix", *hands.config)
    assert (refused.exit_code, "the disks changed meanwhile" in refused.stderr) == (5, True)
    assert not [*hands.process.folder.glob("ledger-*/STAMP")]


def test_a_bookie_that_never_was_has_no_cookie_to_fix(hands: Hands, tmp_path: Path) -> None:
    tree = yaml.safe_load(hands.process.config.read_text())
    other = tmp_path / "other"
    disks = [{"directory": str(other / f"ledger-{number}")} for number in range(2)]
    tree |= {"bookieId": "bookie-9", "journal": {"directory": str(other / "journal")}}
    other.mkdir()
    (other / "bookie.yaml").write_text(yaml.safe_dump(tree | {"ledgers": disks}))
    told = hands.bookie("cookie", "fix", "--config", other / "bookie.yaml", "--yes")
    assert (told.exit_code, "nothing to fix" in told.stderr) == (5, True)
    assert [row["bookie"] for row in hands.json("cookie", "show")] == ["bookie-0"]


def test_cookies_are_shown_and_an_unknown_one_is_named(hands: Hands) -> None:
    (row,) = hands.json("cookie", "show", "bookie-0")
    assert row["ledgers"] == [str(hands.directory(f"ledger-{n}")) for n in range(2)]
    told = hands.bookie("cookie", "show", "bookie-9", "--output", "json")
    assert (told.exit_code, told.stdout) == (1, "")
    assert "no cookie of bookie-9; known are bookie-0" in told.stderr
