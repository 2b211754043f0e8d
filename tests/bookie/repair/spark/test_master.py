"""What BOOKIE_SPARK_MASTER may be, and a SPARK_HOME that can be written to."""

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from bookie.errors import SettingsError
from bookie.ids import LedgerId
from bookie.repair.mend.outcome import LedgerTask, Outcome
from bookie.repair.spark.master import MASTER_VARIABLE, local_master, writable_home
from bookie.repair.spark.tasks import followed, parts_of


def test_threads_of_one_jvm_are_the_default() -> None:
    assert local_master({}).conf() == {"spark.master": "local[2,4]"}


def test_executors_of_their_own_outlive_the_death_of_one() -> None:
    conf = local_master({MASTER_VARIABLE: "local-cluster[2, 1, 640]"}).conf()
    assert conf["spark.master"] == "local-cluster[2,1,640]"
    assert conf["spark.executor.instances"] == "2"
    assert int(conf["spark.task.maxFailures"]) > 4


@pytest.mark.parametrize(
    "name", ["yarn", "local", "local[0]", "local-cluster[2,1,100]", "spark://host:7077"]
)
def test_what_spark_local_cannot_be_is_refused_with_what_it_can(name: str) -> None:
    with pytest.raises(SettingsError, match=r"local-cluster\[executors,cores,MiB\]"):
        local_master({MASTER_VARIABLE: name})


def test_executors_do_not_work_in_the_folder_of_packages(tmp_path: Path) -> None:
    installed, scratch = tmp_path / "pyspark", tmp_path / "scratch"
    for part in ("jars", "bin", "work"):
        (installed / part).mkdir(parents=True)
    scratch.mkdir()
    home = writable_home(installed, scratch)
    assert sorted(path.name for path in home.iterdir()) == ["bin", "jars"]


class Made:
    """Stands where Spark brings what tasks have made."""

    def __init__(self) -> None:
        self.value: list[Outcome] = []


def test_what_tasks_have_done_is_handed_on_once_each() -> None:
    made, done = Made(), list[Outcome]()
    with followed(made, done.extend):
        made.value.append(Outcome(1, "CLOSED"))
    assert done == made.value


def test_a_checkpoint_that_cannot_be_written_ends_the_job_with_its_error() -> None:
    made, called = Made(), threading.Event()

    def fail(_outcomes: Sequence[Outcome]) -> None:
        called.set()
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"), followed(made, fail):
        made.value.append(Outcome(1, "CLOSED"))
        assert called.wait(30)


@pytest.mark.parametrize(("ledgers", "parts"), [(1, 1), (2, 2), (5, 2), (1000, 20)])
def test_a_handful_of_ledgers_reaches_every_worker(ledgers: int, parts: int) -> None:
    tasks = [LedgerTask(LedgerId(number)) for number in range(ledgers)]
    found = parts_of(tasks, workers=2)
    assert len(found) == parts and sorted(t.ledger_id for p in found for t in p) == [
        *range(ledgers)
    ]
