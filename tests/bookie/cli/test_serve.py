"""`bookie serve` and its kin with settings that are wrong: one sentence, exit code 2."""

import logging
from pathlib import Path
from typing import Any

import pytest
from bookie.cli.main import main
from click.testing import CliRunner, Result

GOOD = """\
bookieId: bookie-0
metadata: memory://x
journal: {directory: DIR/journal}
ledgers: [{directory: DIR/ledger-0}]
durability: {journalWriteData: false, ack: memory}
"""
COMMANDS = (("serve",), ("inspect",), ("index", "rebuild", "--yes"), ("cookie", "fix", "--yes"))


def tried(tmp_path: Path, words: tuple[str, ...], text: str | None, **environment: str) -> Result:
    path = tmp_path / "bookie.yaml"
    if text is not None:
        path.write_text(text.replace("DIR", str(tmp_path)))
    return CliRunner(env=environment).invoke(main, [*words, "--config", str(path)])


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("bookieId", "bookieID", "did you mean bookieId"),
        ("ack: memory", "ack: fast", "'memory' or 'sync', found 'fast'"),
        ("memory://x", "x", "metadata"),
        ("journal:", "journall:", "did you mean journal"),
        (GOOD, "- a", "found list"),
        (GOOD, "[", "not valid YAML"),
    ],
)
def test_wrong_settings_are_named(
    tmp_path: Path, words: tuple[str, ...], old: str, new: str, sentence: str
) -> None:
    told = tried(tmp_path, words, GOOD.replace(old, new))
    assert (told.exit_code, told.stdout) == (2, "")
    assert told.stderr.startswith("error: ")
    assert sentence in told.stderr


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_settings_that_are_not_there_are_named(tmp_path: Path, words: tuple[str, ...]) -> None:
    told = tried(tmp_path, words, None)
    assert told.exit_code == 2
    assert "bookie.yaml: No such file" in told.stderr


def test_a_wrong_variable_is_named(tmp_path: Path) -> None:
    told = tried(tmp_path, ("serve",), GOOD, BOOKIE_DURABILITY__AKC="sync")
    assert told.exit_code == 2
    assert "BOOKIE_DURABILITY__AKC: unknown setting AKC, did you mean ack?" in told.stderr


def test_a_directory_that_is_not_mounted_is_named(tmp_path: Path) -> None:
    told = tried(tmp_path, ("inspect",), GOOD)
    assert told.exit_code == 2
    assert f"{tmp_path}/journal" in told.stderr and "is its disk mounted?" in told.stderr


def test_directories_and_settings_exclude_each_other(tmp_path: Path) -> None:
    assert CliRunner().invoke(main, ["inspect"]).exit_code == 2
    both = ["inspect", str(tmp_path), "--config", str(tmp_path / "bookie.yaml")]
    assert CliRunner().invoke(main, both).exit_code == 2


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_folder_with_two_names_is_no_two_disks(tmp_path: Path, words: tuple[str, ...]) -> None:
    """It has one lock, which the bookie would take for that of another process."""
    (tmp_path / "journal").mkdir()
    (tmp_path / "ledger-0").symlink_to(tmp_path / "journal")
    told = tried(tmp_path, words, GOOD)
    assert told.exit_code == 2 and "ledger-0 are the same folder" in told.stderr


@pytest.fixture
def logging_options(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the command gives `logging.basicConfig`, once it has run."""
    given = dict[str, Any]()
    monkeypatch.setattr(logging, "basicConfig", given.update)
    return given


def test_lines_of_every_logger_are_held_to_a_rate(
    tmp_path: Path, logging_options: dict[str, Any]
) -> None:
    tried(tmp_path, ("serve",), None)
    [handler] = logging_options["handlers"]
    line = {"name": "kazoo", "msg": "again", "levelno": logging.ERROR}
    assert not all(handler.filter(logging.makeLogRecord(line)) for _ in range(1000))


@pytest.mark.parametrize(
    ("words", "level"),
    [((), logging.INFO), (("--log-level", "debug"), logging.DEBUG),
     (("--log-level", "error"), logging.ERROR)],
)  # fmt: skip
def test_the_log_has_the_level_that_is_asked_for(
    tmp_path: Path, logging_options: dict[str, Any], words: tuple[str, ...], level: int
) -> None:
    tried(tmp_path, ("serve", *words), None)
    assert logging.Logger("any", logging_options["level"]).level == level
