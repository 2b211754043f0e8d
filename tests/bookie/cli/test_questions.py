"""What a person is asked before something that cannot be undone, and that no is no."""

from pathlib import Path

import pytest
from bookie.cli.main import main
from click.testing import CliRunner, Result


def command(words: str, typed: str = "") -> Result:
    environment = {"BOOKIE_METADATA": "memory://questions"}
    return CliRunner(env=environment).invoke(main, words.split(), input=typed)


LOSS = "Acknowledged entries of {} may be lost permanently. Continue?"


@pytest.mark.parametrize(
    ("words", "question"),
    [
        ("ledger accept-loss 4 --reason x", LOSS.format("ledger 4")),
        ("ledger accept-loss 4@7 --reason x", LOSS.format("ledger 4")),
        ("ledger accept-loss 4 --entry 7 --reason x", LOSS.format("ledger 4")),
        ("ledger accept-loss 9-12 --reason x", LOSS.format("ledgers 9-12")),
        ("ledger accept-loss 4,9-12,40@7 --reason x", LOSS.format("ledgers 4,9-12,40@7")),
        (
            "ledger retract-loss 4 --reason x",
            "Withdraw the records that entries of ledger 4 are lost?",
        ),
        ("ledger delete 4", "Delete ledger 4 and its entries permanently?"),
        ("rereplicate a", "Are a permanently lost, with everything on their disks?"),
        ("rereplicate a b", "Are a, b permanently lost, with everything on their disks?"),
    ],
)
@pytest.mark.parametrize(("typed", "code"), [("n\n", 1), ("", 2)])
def test_a_question_names_what_is_at_stake(
    words: str, question: str, typed: str, code: int
) -> None:
    told = command(words, typed)
    assert (told.exit_code, told.stdout) == (code, "")
    assert told.stderr.startswith(f"{question} [y/N] ")


@pytest.mark.parametrize("reason", ["", "--reason="])
def test_a_loss_is_not_even_asked_about_without_a_reason(reason: str) -> None:
    told = command(f"ledger accept-loss 4 {reason}", "y\n")
    assert told.exit_code == 2 and "--reason is needed" in told.stderr
    assert "[y/N]" not in told.stderr


@pytest.mark.parametrize("words", ["ledger accept-loss 4 --dry-run", "rereplicate", "drain b"])
def test_what_gives_nothing_up_asks_nothing(words: str) -> None:
    assert "[y/N]" not in command(words).stderr


def test_a_rebuild_names_the_directories(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    told = command(f"index rebuild {tmp_path}/one {tmp_path}/two", "n\n")
    assert (told.exit_code, told.stdout) == (1, "")
    assert f"Rebuild the index of {tmp_path}/one, {tmp_path}/two? The next" in told.stderr
    assert [path.name for path in tmp_path.rglob("*")] == ["one", "two"]
