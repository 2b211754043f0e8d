"""What other programs get: ZooKeeper its files, Spark its settings, jobs their requests, logs."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest
from bookie.cli.main import main as bookie
from bookie.client.bookkeeper_client import Client, ClientSettings
from bookie.errors import SettingsError, UnavailableError
from bookie.metadata import server as zookeeper
from bookie.metadata.memory import MemoryStore
from bookie.repair.engine.driver_pod import (
    DriverPod,
    executor_pod,
    executor_template,
    spark_conf,
)
from bookie.testing.fleet import FakeFleet
from bookie.tls.principals import Role
from bookie_operator import serve as operator
from bookie_operator.__main__ import main as bookie_operator
from click.testing import CliRunner
from shell_record import broken, without_folders
from syrupy.assertion import SnapshotAssertion
from tls_fleet import TlsFleet
from transcripts import Words
from wired import Walk, facts, table

EVERY: Final = (
    "--port", 4101, "--bind", "127.0.0.2", "--heap-mb", 4103, "--tick-ms", 4105,
)  # fmt: skip
SERVERS: Final[dict[str, tuple[object, ...]]] = {
    "as-it-is": (),
    "all-other": EVERY,
    "everywhere": ("--bind", "::"),
    "one-ipv6": ("--bind", "[::1]"),
    "tls": ("--tls", "TLS"),
    "moving-to-tls": ("--tls", "TLS", "--tls-mode", "Accepted"),
}


class Replaced(Exception):
    """Instead of the end of this process."""


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What this process would become, without a Java."""
    found: list[Any] = []

    def note(path: str, words: list[str], environment: dict[str, str]) -> NoReturn:
        found.extend([path, *words, f"LC_ALL={environment['LC_ALL']}"])
        raise Replaced

    monkeypatch.setattr("bookie.metadata.server.os.execve", note)
    monkeypatch.setattr("bookie.metadata.server.os.chdir", lambda _path: None)
    monkeypatch.setattr("bookie.metadata.renewal.start", lambda *args, **_: found.append(args))
    monkeypatch.setattr(zookeeper, "find_java", lambda: Path("/java"))
    monkeypatch.setattr(zookeeper, "find_jars", lambda: [Path("/a.jar"), Path("/b.jar")])
    return found


@pytest.mark.parametrize("choice", SERVERS)
def test_the_files_of_an_embedded_zookeeper(
    choice: str, executed: list[Any], tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    folder = tmp_path / "zoo\u00e9"
    tls = TlsFleet(tmp_path).folder(Role.ZOOKEEPER)
    words = [str(tls) if word == "TLS" else str(word) for word in SERVERS[choice]]
    result = CliRunner().invoke(zookeeper.main, ["--directory", str(folder), *words])
    assert isinstance(result.exception, Replaced), result.output
    texts = [f"server {' '.join(words)}", "\n".join(map(str, executed))]
    for file in sorted(folder.glob("*.*")):
        texts.append(f"--- {file.name}\n{file.read_text()}")
    found = without_folders("\n".join(texts))
    assert snapshot(extension_class=Words) == found


ENVIRONMENT: Final = {
    "KUBERNETES_SERVICE_HOST": "10.0.0.1", "POD_IP": "10.0.0.2", "POD_NAME": "pod-41",
    "POD_NAMESPACE": "books", "REPAIR_IMAGE": "image-41",
}  # fmt: skip
TEMPLATE: Final = {
    "metadata": {"labels": {"mine": "41"}, "annotations": {"a": "b"}},
    "spec": {"containers": [{"name": "executor", "env": [{"name": "X", "value": "41"}]}]},
}
CHOSEN: Final = ENVIRONMENT | {
    "KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "4101", "POD_IP": "fd00::2",
    "POD_NAME": "demo-" + "long-" * 12 + "41", "REPAIR_EXECUTOR_MEMORY": "4103m",
    "REPAIR_EXECUTOR_OVERHEAD": "4105m", "REPAIR_EXECUTOR_CPU": "4107m",
    "REPAIR_SERVICE_ACCOUNT": "account-41", "REPAIR_CLUSTER": "cluster-41",
    "REPAIR_IMAGE_PULL_POLICY": "Always", "REPAIR_IMAGE_PULL_SECRETS": "secret-41",
    "REPAIR_EXECUTORS": "41", "REPAIR_START_DEADLINE_SECONDS": "4109",
    "REPAIR_EXECUTOR_TEMPLATE": json.dumps(TEMPLATE),
}  # fmt: skip


@pytest.mark.parametrize("environment", [ENVIRONMENT, CHOSEN], ids=["as-it-is", "all-other"])
def test_what_spark_gets_in_pods(environment: dict[str, str], snapshot: SnapshotAssertion) -> None:
    pod = DriverPod.from_environment(environment)
    texts = [facts(pod), broken(spark_conf(pod, Path("/template")))]
    texts += ["the template", broken(executor_template(pod))]
    texts += ["a pod", broken(executor_pod(pod))]
    assert snapshot(extension_class=Words) == "\n".join(texts) + "\n"


WRONG: Final[dict[str, str]] = {
    "POD_IP": "", "REPAIR_EXECUTORS": "0", "REPAIR_START_DEADLINE_SECONDS": "soon",
    "REPAIR_EXECUTOR_TEMPLATE": "{", "REPAIR_IMAGE": "",
}  # fmt: skip


def test_what_no_pod_of_a_driver_may_say(snapshot: SnapshotAssertion) -> None:
    texts = []
    for name, value in WRONG.items():
        with pytest.raises(SettingsError) as refused:
            DriverPod.from_environment(CHOSEN | {name: value})
        texts.append(f"{name}={value}: {refused.value}")
    assert snapshot(extension_class=Words) == "\n".join(texts) + "\n"


JOBS: Final[dict[str, tuple[object, ...]]] = {
    "repair": (
        "--bookie", "b-41", "--bookie", "b-42", "--every-ledger", "--writer-grace", 4101.5,
        "--checkpoint", "metadata", "--verify-digests", "--read-rate", 4103,
        "--bytes-per-second-per-bookie", 4105, "--engine", "spark-local",
    ),
    "audit": (
        "--recheck-delay", 4107.5, "--underreplicated-grace", 4109.5,
        "--min-racks", 41, "--ack-quorum", 42, "--history", "history-41", "--verify-digests",
        "--read-rate", 4111, "--engine", "inline",
    ),
    "drain": ("b-41", "--if-draining", "--bytes-per-second-per-bookie", 4113, "--engine", "inline"),
    "rereplicate": (
        "b-41", "b-42", "--yes", "--force", "--bytes-per-second-per-bookie", 4115,
        "--engine", "spark-local",
    ),
}  # fmt: skip
LEAST: Final[dict[str, tuple[object, ...]]] = {
    "repair": (), "audit": ("--verify-digests",), "drain": ("b-41", "--if-draining"),
    "rereplicate": (),
}  # fmt: skip


@pytest.mark.parametrize("command", JOBS)
def test_what_the_options_of_a_job_ask_for(
    command: str, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    texts = []

    async def note(url: str, request: object, **more: object) -> NoReturn:
        others = {name: value for name, value in more.items() if name != "say"}
        texts.append(f"{url} {others}\n{facts(request)}")
        raise UnavailableError("it was asked")

    monkeypatch.setattr(f"bookie.cli.{command}.{command}_cluster", note)
    for words in (JOBS[command], LEAST[command]):
        texts.append(f"$ bookie {command} {' '.join(map(str, words))}")
        all_words = [command, *map(str, words), "--metadata", "memory://m-41"]
        assert CliRunner().invoke(bookie, all_words).exit_code == 4
    assert snapshot(extension_class=Words) == "\n".join(texts) + "\n"


@contextmanager
def noted_logging(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """How the root logger would be configured: here, pytest has done that."""
    found: list[dict[str, Any]] = []
    with monkeypatch.context() as patched:
        patched.setattr(logging, "basicConfig", lambda **more: found.append(more))
        yield found


def shown_logging(found: list[dict[str, Any]]) -> str:
    lines = []
    for one in found:
        for name, value in one.items():
            if name == "handlers":
                value = [(type(h).__name__, [type(f).__name__ for f in h.filters]) for h in value]
            lines.append(f"  {name}: {value}")
    return "\n".join(lines)


def test_what_a_bookie_logs(monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion) -> None:
    texts = []
    for words in ((), *(("--log-level", level) for level in ("debug", "info", "warning", "error"))):
        with noted_logging(monkeypatch) as found:
            told = CliRunner().invoke(bookie, ["serve", "--config", "/nowhere", *words])
        texts.append(f"$ bookie serve {' '.join(words)}\n{told.stderr.rstrip()}")
        texts += [f"exit {told.exit_code}", shown_logging(found)]
    told = CliRunner().invoke(bookie, ["serve", "--config", "/nowhere", "--log-level", "loud"])
    texts += [told.stderr.rstrip(), f"exit {told.exit_code}"]
    with noted_logging(monkeypatch) as found:
        CliRunner().invoke(bookie, ["limbo", "--metadata", "nowhere"])
    texts += ["$ bookie limbo", shown_logging(found)]
    assert snapshot(extension_class=Words) == "\n".join(texts) + "\n"


OPERATORS: Final[dict[str, tuple[object, ...]]] = {
    "as-it-is": (),
    "all-other": (
        "--namespace", "n-41", "--namespace", "n-42", "--port", 4101, "--verbose", "--lease",
        "ops/lease-41", "--credentials", "/credentials-41", "--page-port", 4103,
    ),
}  # fmt: skip


def test_what_the_operator_runs_with(
    monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    texts: list[str] = []

    async def note(**more: Any) -> None:
        if "tmp" in str(more["credentials"]):
            more["credentials"] = "a folder of its own"
        more.pop("stop")
        texts.extend(f"  {name}: {value}" for name, value in more.items())

    monkeypatch.setattr(operator, "run", note)
    for words in OPERATORS.values():
        texts.append(f"$ bookie-operator run {' '.join(map(str, words))}")
        with noted_logging(monkeypatch) as found:
            assert CliRunner().invoke(bookie_operator, ["run", *map(str, words)]).exit_code == 0
        texts.append(shown_logging(found))
    for name in ("kopf.objects", "aiohttp.access", "asyncio", "kazoo"):
        texts.append(f"logger {name}: {logging.getLevelName(logging.getLogger(name).level)}")
    assert snapshot(extension_class=Words) == "\n".join(texts) + "\n"


def marked(one: Any, numbers: "count[int]", values: dict[object, str], path: str = "") -> Any:
    """The same settings, each number of which is one that nothing else has."""
    changed: dict[str, Any] = {}
    for field in fields(one):
        value, where = getattr(one, field.name), f"{path}{field.name}"
        if is_dataclass(value):
            changed[field.name] = marked(value, numbers, values, f"{where}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            new = type(value)(next(numbers)) + (0.25 if isinstance(value, float) else 0)
            values[new] = where
            changed[field.name] = new
    return replace(one, **changed)


async def test_where_settings_of_a_client_go(snapshot: SnapshotAssertion) -> None:
    values: dict[object, str] = {}
    settings = marked(ClientSettings(), count(4101), values)
    store, fleet = MemoryStore(), FakeFleet(3)
    await store.initialise()
    await fleet.register(store)
    parts = (settings, settings.writer, settings.reader, settings.recovery, settings.pool)
    names = ("all", "writer", "reader", "recovery", "pool")
    by_id = {id(part): f"[{name}]" for part, name in zip(parts, names, strict=True)}
    async with (
        Client(store, settings=settings) as own,
        Client(store, fleet, settings=settings) as one,
    ):
        writer = await one.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
        reader = await one.open_ledger(writer.ledger_id)
        roots = {"Client": own, "LedgerWriter": writer, "LedgerReader": reader}
        found = Walk(values, by_id).through(roots)
    assert snapshot(extension_class=Words) == f"{facts(settings)}\n{table(found)}"
