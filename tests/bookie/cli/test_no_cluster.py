"""Where there is no cluster, as after a typing error in the URL's path, nothing is known."""

import pytest
from bookie.cli.main import main
from click.testing import CliRunner

NOWHERE = "memory://no-cluster-here"


@pytest.mark.parametrize(
    "command",
    [
        "limbo",
        "limbo --bookie b",
        "decisions",
        "decisions --bookie b",
        "cookie show",
        "cookie show b",
        "collect approve b --yes",
        "read-only b",
        "drain b",
        "ledger list",
        "ledger info 4",
        "ledger create",
        "ledger read 4",
        "ledger tail 4",
        "ledger recover 4",
        "ledger delete 4 --yes",
        "ledger accept-loss 4 --reason x --yes",
        "ledger accept-loss 4-9 --dry-run",
        "ledger retract-loss 4 --reason x --yes",
    ],
)
@pytest.mark.parametrize("output", ["json", "table"])
def test_no_cluster_is_no_answer(command: str, output: str) -> None:
    words = [*command.split(), "--metadata", NOWHERE, "--output", output]
    told = CliRunner().invoke(main, words)
    sentence = f"error: there is no cluster at {NOWHERE}: correct the path in the URL\n"
    assert (told.exit_code, told.stdout, told.stderr) == (4, "", sentence)


@pytest.mark.parametrize("job", ["audit", "repair", "rereplicate b --yes"])
def test_no_cluster_is_no_job(job: str) -> None:
    told = CliRunner().invoke(main, [*job.split(), "--metadata", NOWHERE])
    assert told.exit_code == 4 and "there is no cluster at" in told.stderr
