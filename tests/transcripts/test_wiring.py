"""Where each setting of a bookie goes: every one has a value that nothing else has."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
import yaml
from bookie.metadata.embedded import free_port
from bookie.metadata.memory import MemoryCluster, named_cluster
from bookie.server import part_settings as parts
from bookie.server.lifecycle import Bookie, Host
from bookie.server.port_tls import PortTls
from bookie.server.settings import BookieSettings, load_settings, parse_settings
from bookie.tls.principals import Role
from pydantic import BaseModel
from syrupy.assertion import SnapshotAssertion
from tls_fleet import TlsFleet
from transcripts import Words
from wired import Walk, facts, parts_of, table, timers

MIB: Final = 1 << 20
URL: Final = "memory://wiring-41"


def document(folder: Path) -> dict[str, Any]:
    """Settings of which none is what it is by itself."""
    names = ("run", "stock", "admin", "http")
    return {
        "bookieId": "bookie-41",
        "metadata": URL,
        "host": "localhost",
        "bind": "127.0.0.2",
        "ports": {name: free_port() for name in names},
        "journal": {"directory": str(folder / "journal"), "volumeUid": "uid-journal"},
        "ledgers": [
            {"directory": str(folder / f"ledger-{n}"), "volumeUid": f"uid-{n}"} for n in range(2)
        ],
        "durability": {
            "journalWriteData": False, "ack": "sync", "flushIntervalSeconds": 4001.25,
            "noteIdleFlushes": 4003,
        },
        "cookieFix": {"policy": "Approve"},
        "storage": {
            "ringBytes": 13 * MIB + 4096, "logFileBytes": 17 * MIB + 4096, "directIo": "off",
            "compactionIntervalSeconds": 4107.25, "compactionBytesPerSecondBusy": 4013,
            "collectIntervalSeconds": 4219.25, "collectGraceSeconds": 4321.25,
            "collectShareMax": 0.4027, "collectBrakeFrom": 4049,
        },
        "limits": {
            "connections": 4051, "readThreads": 41, "readsInFlight": 4057,
            "replyBytes": 40 * MIB + 1, "replyBytesPerConnection": 9 * MIB + 1,
            "replySeconds": 4473.25, "requestBytes": 19 * MIB + 1, "requestSeconds": 4579.25,
            "controlConnections": 4091, "controlCalls": 4093, "httpConnections": 4099,
            "httpSeconds": 4611.25, "recoveryBytesPerSecondBusy": 4127,
        },
        "lease": {"seconds": 24129.25, "confirmSeconds": 4733.25},
        "zookeeper": {"credentialsFile": str(folder / "login")},
        "tls": {
            "directory": str(TlsFleet(folder).folder(Role.BOOKIE, "bookie-41")),
            "mode": "Accepted", "clients": "optional", "handshakeSeconds": 4839.25, "http": True,
        },
        "authentication": {
            "mechanisms": ["digest-md5", "tls"], "usersFile": str(folder / "users"),
            "realm": "realm-41", "serviceName": "service-41", "keytab": str(folder / "keytab"),
            "principal": "bookkeeper/h@R", "clientPrincipals": "client-41",
            "replayCache": str(folder / "replay"), "loginSeconds": 4953.25,
            "unauthenticatedConnections": 4157,
        },
        "rack": "/rack-41",
        "rackFile": str(folder / "rack"),
        "advertised": {"stock": "stock-41.example:4201", "run": "run-41.example:4202"},
        "advertisedFile": str(folder / "advertised"),
        "runtimeFile": str(folder / "runtime"),
    }  # fmt: skip


class Composed:
    """A bookie that serves, and what it made outside of itself."""

    def __init__(self, settings: BookieSettings) -> None:
        self.settings = settings
        self.made: dict[str, object] = {}
        ours = Host()
        host = Host(admin=self.kept("admin", ours.admin), probes=self.kept("probes", ours.probes))
        self.bookie = Bookie(settings, host=host)

    def kept(self, name: str, make: Callable[..., Any]) -> Callable[..., Any]:
        """What is made stays what it is, and is looked at."""

        def make_and_keep(*args: Any, **more: Any) -> Any:
            self.made[name] = make(*args, **more)
            return self.made[name]

        return make_and_keep

    def noted(self, name: str, make: Callable[..., Any]) -> Callable[..., Any]:
        """How it is called is looked at."""

        def note_and_make(*args: Any, **more: Any) -> Any:
            self.made[name] = more | {str(place): one for place, one in enumerate(args)}
            return make(*args, **more)

        return note_and_make


@pytest.fixture
async def composed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Composed]:
    named_cluster("wiring-41").__dict__ |= MemoryCluster().__dict__
    (tmp_path / "users").write_text("ann:realm-41:0123456789abcdef0123456789abcdef\n")
    file = tmp_path / "bookie.yaml"
    file.write_text(yaml.safe_dump(document(tmp_path)))
    made = Composed(load_settings(file, {}))
    monkeypatch.setattr(grpc.aio, "server", made.noted("grpc.aio.server", grpc.aio.server))
    for name in ("add_secure_port", "add_insecure_port"):
        method = getattr(grpc.aio._server.Server, name)
        monkeypatch.setattr(grpc.aio._server.Server, name, made.noted(f"grpc {name}", method))
    life = asyncio.create_task(made.bookie.run())
    while "bookie-41" not in named_cluster("wiring-41").registered:
        assert not life.done(), life.result()
        await asyncio.sleep(0.01)
    yield made
    made.bookie.stop()
    await life


def marks(settings: BookieSettings) -> dict[object, str]:
    """The settings that have a value of their own, by it. 0, 1 and choices are anybody's."""
    found: dict[object, str] = {}
    for name, value in parts_of(settings):
        if isinstance(value, str | Path) or (
            isinstance(value, int | float) and value not in (0, 1)
        ):
            found[str(value) if isinstance(value, Path) else value] = name
    found |= {"stock-41.example": "advertised.stock host", 4201: "advertised.stock port"}
    return found | {"run-41.example": "advertised.run host", 4202: "advertised.run port"}


def by_name(task: "asyncio.Task[Any]") -> str:
    frame = getattr(task.get_coro(), "cr_frame", None)
    return str(frame.f_locals.get("duty")) if frame is not None else ""


def short(text: str, folder: Path) -> str:
    return text.replace(str(folder), "/FOLDER")


async def test_every_setting_has_a_value_of_its_own(tmp_path: Path) -> None:
    tree = document(tmp_path)
    given = dict(parts_of(parse_settings(tree, source="the test")))
    bare = {"bookieId": "b", "metadata": "memory://usual", "journal": {"directory": "/j"}}
    bare |= {"ledgers": [{"directory": "/l"}], "tls": {"directory": "/t"}}
    bare |= {"authentication": {"mechanisms": ["tls"]}}
    usual = dict(parts_of(parse_settings(bare, source="the test")))
    same = [name for name, value in usual.items() if given[name] == value]
    assert same == [] and len(set(marks(parse_settings(tree, source="x")).values())) > 50


async def test_where_the_settings_go(
    composed: Composed, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    sections = [one for one in parts_of(composed.settings) if isinstance(one[1], BaseModel)]
    by_id = {id(part): f"[{name}, the whole section]" for name, part in sections}
    by_id[id(composed.settings)] = "[the whole document]"
    others = asyncio.all_tasks() - {asyncio.current_task()}
    roots = {"Bookie": composed.bookie, **composed.made, "tasks": sorted(others, key=by_name)}
    found = Walk(marks(composed.settings), by_id).through(roots)
    assert snapshot(extension_class=Words) == short(table(found), tmp_path)


async def test_how_long_connections_are_waited_for(
    composed: Composed, snapshot: SnapshotAssertion
) -> None:
    """One that says nothing, one that begins a message, and one that begins a handshake."""
    texts = []
    for name in ("run", "stock", "http"):
        for said in (b"", b"\x00\x00\x40\x00half", b"\x16\x03\x01\x02\x00\x01"):
            new = await waits(composed, name, said)
            texts.append(f"{name} {said!r}\n" + "".join(f"    {one}\n" for one in new))
    assert snapshot(extension_class=Words) == "".join(texts)


async def waits(composed: Composed, port: str, said: bytes) -> list[str]:
    """The timers that are there while a client has said this, and no longer."""
    _reader, writer = await asyncio.open_connection("127.0.0.2", composed.bookie.ports[port])
    writer.write(said)
    await asyncio.sleep(0.05)
    during = timers(marks(composed.settings))
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    await asyncio.sleep(0.05)
    after = timers(marks(composed.settings))
    return sorted((Counter(during) - Counter(after)).elements())


CHOICES: Final[dict[str, dict[str, Any]]] = {
    "plain": {"tls": None, "authentication": None},
    "journal": {"durability": {}, "cookieFix": {}, "zookeeper": {}},
    "few-replies": {"limits": {"replyBytes": 16 * MIB, "replyBytesPerConnection": 17 * MIB}},
    "memory": {"durability": {"journalWriteData": False, "noteIdleFlushes": None}},
}


def given_to_parts(tree: dict[str, Any]) -> str:
    settings = parse_settings(tree, source="the test")
    made: list[object] = [
        parts.boot_settings(settings),
        parts.busy_rates(settings),
        parts.collection_rules(settings),
        parts.reply_limits(settings.limits),
        parts.request_limits(settings.limits),
        parts.zookeeper_settings(settings),
    ]
    return "\n".join(map(facts, made))


def test_what_parts_get(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    tree = document(tmp_path)
    whole = given_to_parts(tree)
    texts = [whole]
    for choice, changes in CHOICES.items():
        made = given_to_parts(tree | changes).splitlines()
        others = [line for line in made if line not in whole.splitlines()]
        texts.append("\n".join([f"\n{choice}: {changes}", *others]))
    assert snapshot(extension_class=Words) == short("\n".join(texts), tmp_path) + "\n"


TLS: Final = {
    "accepted": {"mode": "Accepted", "clients": "none", "http": True},
    "required": {"mode": "Required", "clients": "required", "http": False},
    "optional": {"mode": "Required", "clients": "optional", "http": False},
}


def test_what_the_ports_do_with_tls(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    texts = []
    for choice, options in TLS.items():
        tree = document(tmp_path) | {"authentication": None}
        tree["tls"] |= options
        settings = parse_settings(tree, source="the test")
        assert settings.tls is not None
        tls = PortTls(settings.tls)
        texts.append(choice)
        texts += [facts(one, "  ") for one in (tls, tls.context(), tls.http_context())]
    assert snapshot(extension_class=Words) == short("\n".join(texts), tmp_path) + "\n"
