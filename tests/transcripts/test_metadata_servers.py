"""What is made round ZooKeeper: a server's files and command line, Java, logins, URLs, sessions."""

import hashlib
import importlib
import importlib.util
import os
import re
import stat
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from bookie.errors import SettingsError, UnavailableError
from bookie.hosts import loopback
from bookie.metadata import embedded, java, opening, pausing, renewal, rewriting, server
from bookie.metadata.embedded_settings import (
    EmbeddedSettings,
    prepare_stores,
    server_command,
    server_environment,
    write_configuration,
)
from bookie.metadata.java_stores import truststore, write_stores
from bookie.metadata.layout import Paths
from bookie.metadata.login import parse_login, read_login
from bookie.metadata.memory import MemoryStore
from bookie.metadata.session import ZooKeeperSession, ZooKeeperSettings
from bookie.metadata.store import Versioned
from bookie.metadata.zookeeper import ZooKeeperStore
from bookie.tls.principals import Role
from click.testing import CliRunner
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from syrupy.assertion import SnapshotAssertion
from tls_fleet import TlsFleet
from transcripts import Words
from znode_record import facts, said


def without(text: str, folder: Path) -> str:
    """The text without the test's folder, the machine's loopback, and the line in OpenSSL."""
    text = text.replace(str(folder), "FOLDER").replace(loopback(), "LOOPBACK")
    return re.sub(r"_ssl\.c:\d+", "_ssl.c", text)


async def outcome(act: Any) -> str:
    """What comes of it, or the sentence of the error."""
    try:
        return facts(await act)
    except Exception as error:
        return f"! {type(error).__name__}: {error}"


BINDS = (None, "10.0.0.7", "fd00::7", "[fd00::7]", "0.0.0.0", "::", "[::]", "localhost")


def test_a_servers_files(
    snapshot: SnapshotAssertion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = TlsFleet(tmp_path / "tls")
    named = fleet.folder(Role.ZOOKEEPER)
    settings = {
        "as it is": EmbeddedSettings(),
        "other": EmbeddedSettings(300, 64, False, 32, "10.0.0.7"),
        "TLS": EmbeddedSettings(tls=named),
        "TLS and plain": EmbeddedSettings(tls=named, plain=True, bind="::"),
        "plain alone": EmbeddedSettings(plain=True),
    }
    monkeypatch.setattr(os, "environ", {"A": "b", "LC_ALL": "C"})
    lines = [repr(server_environment())]
    for name, one in settings.items():
        write_configuration(tmp_path, port=2181, settings=one)
        prepare_stores(tmp_path, one)
        jars = [Path("/jars/a.jar"), Path("/jars/b.jar")]
        command = server_command(Path("/java"), jars, directory=tmp_path, settings=one)
        lines += ["", f"# {name}", " ".join(command), (tmp_path / "zoo.cfg").read_text().strip()]
    for bind in BINDS:
        write_configuration(tmp_path, port=1, settings=EmbeddedSettings(bind=bind))
        text = (tmp_path / "zoo.cfg").read_text()
        lines.append(f"at {bind}: {[line for line in text.splitlines() if 'Port' in line]}")
    lines += ["", "# log4j2.properties", (tmp_path / "log4j2.properties").read_text()]
    odd = tmp_path / "läd 工 \U0001f600 a\\b"
    odd.mkdir()
    write_configuration(odd, port=1, settings=EmbeddedSettings())
    lines += [(odd / "zoo.cfg").read_text().splitlines()[0], ""]
    assert snapshot(extension_class=Words) == without("\n".join(lines), tmp_path)


def modes(folder: Path) -> list[str]:
    return [
        f"{path.name} {stat.filemode(path.stat().st_mode)}"
        for path in (folder, *sorted(folder.iterdir()))
    ]


def test_a_servers_credentials(snapshot: SnapshotAssertion, tmp_path: Path) -> None:
    fleet, target = TlsFleet(tmp_path / "tls"), tmp_path / "server"
    target.mkdir()
    lines = []
    for role in Role:
        settings = EmbeddedSettings(tls=fleet.folder(role))
        lines.append(f"{role.value}: {said(partial(prepare_stores, target, settings))}")
    lines += modes(target / "tls")
    key = fleet.folder(Role.ZOOKEEPER) / "tls.key"
    stores = target / "tls"
    certificate = (key.parent / "tls.crt").read_bytes()
    prepare_stores(target, EmbeddedSettings(tls=key.parent))
    found = (stores / "keystore.pem").read_bytes()
    lines.append(str(found == b"\n".join([key.read_bytes().rstrip(), certificate])))
    before = [hashlib.sha256(path.read_bytes()).digest() for path in sorted(stores.iterdir())]
    other = fleet.new_authority("other")
    for change in (
        lambda: key.write_text("no key"),
        lambda: key.write_text("-----BEGIN EC PRIVATE KEY-----"),
        lambda: fleet.folder(Role.ZOOKEEPER, trusting=b"nobody"),
        lambda: (key.parent / "ca.crt").unlink(),
    ):
        change()
        lines.append(said(lambda: write_stores(key.parent, stores)))
        now = [hashlib.sha256(path.read_bytes()).digest() for path in sorted(stores.iterdir())]
        lines.append(f"as before: {now == before}")
        fleet.folder(Role.ZOOKEEPER)
    one = load_pem_private_key(key.read_bytes(), None)
    own = one.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    key.write_bytes(own)
    lines.append(said(lambda: write_stores(key.parent, stores)))
    fleet.folder(Role.ZOOKEEPER)
    key.write_bytes(key.read_bytes().rstrip())
    write_stores(key.parent, stores)
    lines.append(str((stores / "keystore.pem").read_bytes().count(b"-----\n-----BEGIN CERT")))
    both = fleet.authority.pem + b"a word between\n" + other.pem
    write_stores(fleet.folder(Role.ZOOKEEPER, trusting=both), stores)
    (stores / ".keystore.pem.new").write_text("half")
    write_stores(key.parent, stores)
    raw = (stores / "truststore.jks").read_bytes()
    lines += [*modes(stores), f"trusts {raw.count(b'authority-')}", raw[:32].hex()]
    lines += [truststore([]).hex(), truststore([b"one", b"two" * 3]).hex(), ""]
    assert snapshot(extension_class=Words) == without("\n".join(lines), tmp_path)


def test_java(snapshot: SnapshotAssertion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def program(name: str, script: str) -> Path:
        path = tmp_path / name / "bin" / "java"
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    scripts = {
        "old": "echo 'java version \"1.8.0_392\"' >&2",
        "sixteen": "echo 'v version \"16.0.1\"' >&2",
        "seventeen": "echo 'openjdk version \"17\"'",
        "new": "echo 'openjdk version \"25.0.1\"' >&2",
        "silent": "true",
        "odd": "echo 'version \"x\"' >&2",
        "broken": "echo 'version \"21\"'; exit 1",
    }
    found = {name: program(name, script) for name, script in scripts.items()}
    lines = [f"{name}: {java.java_version(path)}" for name, path in found.items()]
    lines.append(f"none: {java.java_version(tmp_path / 'none')}")
    monkeypatch.setattr(java, "WHEEL", "no_such_wheel")
    for home, path in (
        ("new", "seventeen"),
        ("sixteen", "seventeen"),
        ("old", "sixteen"),
        ("", "new"),
        ("", ""),
        ("silent", "broken"),
        ("none", "odd"),
    ):
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / home) if home else "")
        monkeypatch.setenv("PATH", f"{tmp_path / path / 'bin'}:/nowhere" if path else "/nowhere")
        lines.append(f"JAVA_HOME {home}, PATH {path}: {said(java.find_java)}")
    wheel = SimpleNamespace(JAVA_HOME=str(tmp_path / "new"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: wheel)
    monkeypatch.setattr(importlib, "import_module", lambda _name: wheel)
    lines += [f"a wheel: {said(java.find_java)}", ""]
    assert snapshot(extension_class=Words) == without("\n".join(lines), tmp_path)


def test_jars(snapshot: SnapshotAssertion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = []
    for spec in (None, SimpleNamespace(submodule_search_locations=[])):
        monkeypatch.setattr(importlib.util, "find_spec", lambda _n, one=spec: one)
        lines.append(said(embedded.find_jars))
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda _n: spec)
    jars = tmp_path / "jars"
    jars.mkdir()
    names = [name.replace("*", "1.0") for name in embedded.JARS]
    for name in (*names[2:], "zookeeper-jute-1.0.jar", "other.jar", "netty-codec-http-1.0.jar"):
        (jars / name).touch()
    lines.append(said(embedded.find_jars))
    for name in names[:2]:
        (jars / name).touch()
    lines += [path.name for path in embedded.find_jars()]
    assert snapshot(extension_class=Words) == without("\n".join([*lines, ""]), tmp_path)


def test_the_program_of_a_container(
    snapshot: SnapshotAssertion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What becomes of its options and of its errors; it is not started."""
    made: list[Any] = []

    def become(directory: Path, *, port: int, settings: EmbeddedSettings) -> None:
        made.append((directory, port, settings))

    monkeypatch.setattr(server, "become_server", become)
    for words in (
        "",
        "--port 2182",
        "--bind ::",
        "--heap-mb 32 --tick-ms 100",
        "--tls FOLDER",
        "--tls FOLDER --tls-mode Accepted",
        "--tls-mode Required",
        "--heap-mb 31",
        "--tick-ms 99",
        "--port 0",
        "--port 65536",
        "--tls-mode Off",
    ):
        ended = CliRunner().invoke(server.main, ["--directory", "DATA", *words.split()])
        made.append((words, ended.exit_code, ended.output))
    monkeypatch.setenv("BOOKIE_TLS__DIRECTORY", "FOLDER")
    monkeypatch.setenv("BOOKIE_TLS__MODE", "Accepted")
    made.append(CliRunner().invoke(server.main, ["--directory", "DATA"]).exit_code)
    for error in (
        SettingsError("settings"),
        UnavailableError("away"),
        OSError(1, "os"),
    ):
        failing = Mock(side_effect=error)
        monkeypatch.setattr(server, "become_server", failing)
        ended = CliRunner().invoke(server.main, ["--directory", "DATA"])
        made.append((ended.exit_code, ended.output))
    made.append(CliRunner().invoke(server.main, ["--help"]).output)
    shown = [one if isinstance(one, str) else facts(one) for one in made]
    assert snapshot(extension_class=Words) == "\n".join([*shown, ""])


def is_lock(descriptor: int) -> bool:
    """True for the descriptor of a server's lock."""
    path = Path(f"/proc/self/fd/{descriptor}")
    return path.is_symlink() and os.readlink(path).endswith("/lock")


def test_becoming_the_server(
    snapshot: SnapshotAssertion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last steps of a container's program, of which the first is the last that fails."""
    done: list[str] = []
    fleet = TlsFleet(tmp_path / "tls")
    monkeypatch.setattr(server, "find_java", lambda: Path("/java"))
    monkeypatch.setattr(server, "find_jars", lambda: [Path("/a.jar")])
    monkeypatch.setattr(os, "chdir", lambda path: done.append(f"chdir {path}"))
    monkeypatch.setattr(os, "getpid", lambda: 77)

    def execute(program: str, command: list[str], environment: dict[str, str]) -> None:
        locale = environment["LC_ALL"]
        kept = [one for one in range(3, 64) if is_lock(one) and os.get_inheritable(one)]
        done.append(f"locks that it keeps: {len(kept)}")
        done.append(f"{program} {' '.join(command)} {locale} {len(environment) - len(os.environ)}")

    def begin(credentials: Path, stores: Path, *, of: int) -> None:
        done.append(f"renew {credentials} {stores} of {of}")

    monkeypatch.setattr(os, "execve", execute)
    monkeypatch.setattr(renewal, "start", begin)
    monkeypatch.setenv("LC_ALL", "C")
    for name, settings in {
        "plain": EmbeddedSettings(),
        "tls": EmbeddedSettings(tls=fleet.folder(Role.ZOOKEEPER)),
        "of a bookie": EmbeddedSettings(tls=fleet.folder(Role.BOOKIE)),
    }.items():
        folder = tmp_path / "data" / name
        done.append(said(partial(server.become_server, folder, port=2181, settings=settings)))
        done += [str(path.relative_to(tmp_path)) for path in sorted(folder.rglob("*"))]
    with (tmp_path / "data" / "plain" / "lock").open("wb") as lock:
        embedded.lock_folder(lock, tmp_path)
        act = partial(server.become_server, tmp_path / "data" / "plain", port=1)
        done.append(said(partial(act, settings=EmbeddedSettings())))
        done += (tmp_path / "data" / "plain" / "zoo.cfg").read_text().splitlines()[:2]
    assert snapshot(extension_class=Words) == without("\n".join([*done, ""]), tmp_path)


def test_renewal(
    snapshot: SnapshotAssertion,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Rounds of the program beside a server: it writes what is new, and says once what is wrong."""
    fleet, stores = TlsFleet(tmp_path / "tls"), tmp_path / "stores"
    folder = fleet.folder(Role.ZOOKEEPER)
    stores.mkdir()
    lines: list[str] = []
    written: list[str] = []

    def write(credentials: Path, target: Path) -> None:
        if name[0] == "the disk is full":
            raise OSError(28, "No space left on device")
        write_stores(credentials, target)
        written.append("written")

    def change(name: str, act: Callable[[], object]) -> None:
        rounds.append((name, act))

    rounds: list[tuple[str, Callable[[], object]]] = []
    change("the first", lambda: None)
    change("nothing new", lambda: None)
    change("renewed", lambda: fleet.folder(Role.ZOOKEEPER))
    change("broken", lambda: (folder / "tls.key").write_text("no key"))
    change("still broken", lambda: None)
    change("right", lambda: fleet.folder(Role.ZOOKEEPER))
    change("broken again", lambda: (folder / "tls.key").write_text("no key"))
    change("otherwise broken", lambda: (folder / "ca.crt").unlink())
    change("the disk is full", lambda: fleet.folder(Role.ZOOKEEPER))
    change("there is room", lambda: None)
    change("nothing new again", lambda: None)

    def sleep(seconds: float) -> None:
        said_now = without(capsys.readouterr().err, tmp_path).strip()
        lines.append(f"{name[0]}: {written} {said_now}; waits {seconds:g} s")
        written.clear()

    def alive(pid: int) -> bool:
        if not rounds:
            return False
        name[0], act = rounds.pop(0)
        act()
        return True

    name = [""]
    monkeypatch.setattr(renewal, "write_stores", write)
    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(renewal, "_is_alive", alive)
    renewal.renew(folder, stores, 77)
    called: list[str] = []
    monkeypatch.setattr(subprocess, "Popen", lambda w, **o: called.append(f"{w[1:]} {o}"))
    renewal.start(Path("/tls"), Path("/stores"), of=77)
    assert snapshot(extension_class=Words) == "\n".join([*lines, *called, ""])


LOGINS = {
    "digest": "scheme: digest\nuser: fleet\npassword: p-secret",
    "sasl": "scheme: sasl\nuser: u\npassword: p",
    "no scheme": "user: u\npassword: p-secret",
    "other": "scheme: ip\nuser: u\npassword: p-secret",
    "no user": "scheme: sasl\nuser: ''\npassword: p-secret",
    "a colon": "scheme: sasl\nuser: 'a:b'\npassword: p",
    "a blank": "scheme: sasl\nuser: 'a b'\npassword: p",
    "more": "scheme: sasl\nuser: u\np-secret: p\npassword: p",
    "a number": "scheme: digest\nuser: u\npassword: 5",
    "a list": "- p-secret",
    "none": "",
    "no YAML": "{p-secret",
    "two": "scheme: sasl\n---\nscheme: sasl",
    "word": "p-secret",
    "empty password": "scheme: digest\nuser: u\npassword: ''",
}


def test_logins(snapshot: SnapshotAssertion, tmp_path: Path) -> None:
    def shown(text: str) -> str:
        found = parse_login(text.encode(), "login.yaml")
        return f"{found} {found.name.scheme}:{found.name.id} {found!r} {found.secret}"

    lines = [f"{name}: {said(partial(shown, text))}" for name, text in LOGINS.items()]
    lines.append(said(lambda: parse_login(b"\xff", "login.yaml")))
    lines.append(said(lambda: read_login(tmp_path / "none")))
    lines.append(said(lambda: read_login(tmp_path)))
    assert snapshot(extension_class=Words) == without("\n".join([*lines, ""]), tmp_path)


URLS = (
    "zk://h:2181/ledgers",
    "zk://h:2181,i:2182/a/b",
    "zk://h:1/ledgers/",
    "zk://[::1]:2181/l",
    "zks://h:2281/ledgers",
    "zk://h:65535/l",
    "zk://h:65536/l",
    "zk://h:0/l",
    "zk://h:1,i:0/l",
    "zk://h:65536,i:1/l",
    "zk://h:2181",
    "zk://h:2181/",
    "zk://h/l",
    "zk:///l",
    "zk://h:2181,/l",
    "zk://::1:2181/l",
    "zk://h:2181/a//b",
    "zk://h:2181/..",
    "memory://one",
    "memory://",
    "http://h:2181/l",
    "h:2181/l",
    "",
    "zk+null://h:2181/l",
)


async def test_urls(
    snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What a store is opened with, for each form of URL, each setting and each environment."""

    async def opened(hosts: str, root: str, *, settings: ZooKeeperSettings) -> Any:
        return hosts, Paths(root).root, settings

    monkeypatch.setattr(ZooKeeperStore, "open", opened)
    for name in ("LOGIN_VARIABLE", "DIRECTORY_VARIABLE", "MODE_VARIABLE"):
        monkeypatch.delenv(getattr(opening, name), raising=False)
    lines = [f"{url}: {await outcome(opening.open_store(url))}" for url in URLS]
    given = ZooKeeperSettings(9.0, tls=Path("/t"), login=Path("/l"), open_access=True)
    environments: dict[str, dict[str, str]] = {
        "none": {},
        "a folder": {"DIRECTORY_VARIABLE": "/env"},
        "a login": {"LOGIN_VARIABLE": "/login"},
        "accepted": {"DIRECTORY_VARIABLE": "/env", "MODE_VARIABLE": "Accepted"},
        "required": {"DIRECTORY_VARIABLE": "/env", "MODE_VARIABLE": "Required"},
        "empty": {"LOGIN_VARIABLE": ""},
    }
    for name, environment in environments.items():
        with monkeypatch.context() as patch:
            for variable, value in environment.items():
                patch.setenv(getattr(opening, variable), value)
            for scheme in ("zk", "zks"):
                for settings in (None, given):
                    found = await outcome(
                        opening.open_store(f"{scheme}://h:1/l", settings=settings)
                    )
                    lines.append(f"{name}, {scheme}, {'given' if settings else 'none'}: {found}")
    assert snapshot(extension_class=Words) == "\n".join([*lines, ""])


async def test_clients_of_sessions(snapshot: SnapshotAssertion, tmp_path: Path) -> None:
    """What kazoo is given, for each kind of credentials, and what it says of itself."""
    login = tmp_path / "login.yaml"
    fleet = TlsFleet(tmp_path / "tls")
    lines = []
    for scheme in ("", "digest", "sasl"):
        for folder in (None, fleet.folder(Role.BOOKIE)):
            login.write_text(f"scheme: {scheme}\nuser: u\npassword: p")
            settings = ZooKeeperSettings(7.0, tls=folder, login=login if scheme else None)
            client = ZooKeeperSession("h:1,i:2", settings=settings)._client
            retry = client._conn_retry
            shown = (
                *(scheme, folder is not None, client.hosts, client._session_timeout),
                *(client.auth_data, client.sasl_options(), client.use_ssl, client.shown_as),
                *(client.principal, client.login, retry.max_tries, retry.delay, retry.max_delay),
                *(retry.max_jitter, retry.backoff),
            )
            lines.append(", ".join(map(str, shown)))
            client.handler.stop()
    before = ZooKeeperSession("h:1", settings=ZooKeeperSettings(login=login))._client
    for text in (
        "scheme: digest\nuser: u\npassword: q",
        "broken",
        "scheme: sasl\nuser: v\npassword: r",
    ):
        login.write_text(text)
        before.refresh()
        lines.append(f"{before.login} {before.auth_data} {before.sasl_options()}")
    assert snapshot(extension_class=Words) == without("\n".join([*lines, ""]), tmp_path)


async def test_pausing_and_rewriting(snapshot: SnapshotAssertion) -> None:
    store = MemoryStore()
    await store.initialise()
    lines = []
    for raw in (None, b"paused", b"running", b"other", b""):
        if raw is not None:
            found = await store.read_value(pausing.PAUSED_NAME)
            version = None if found is None else found.version
            await store.write_value(pausing.PAUSED_NAME, raw, version=version)
        lines.append(f"{raw!r}: {await pausing.read_paused(store)}")
        for paused in (False, False, True, True):
            await pausing.write_paused(store, paused)
            lines.append(f"  {paused}: {facts(await store.read_value(pausing.PAUSED_NAME))}")

    async def rewritten(races: int) -> Any:
        left = [races]
        asked: list[bytes | None] = []

        def change(found: bytes | None) -> list[bytes | None]:
            asked.append(found)
            if left[0]:
                left[0] -= 1
                values = store.cluster.values
                now = values.get("v", Versioned(b"", -1))
                values["v"] = replace(now, version=now.version + 1)
            return asked

        return await rewriting.rewrite(store, "v", change, lambda made: b"%d" % len(made))

    for races in (0, 1, 3, 4):
        lines.append(
            f"{races} races: {await outcome(rewritten(races))} {store.cluster.values['v']}"
        )
    for count in (0, 1, 9, 900_000, 900_001, 1_800_001):
        packed = rewriting.packed_to_fit(range(count), lambda rows: b"x" * len(rows))
        lines.append(f"{count} rows: {len(packed)}")
    assert snapshot(extension_class=Words) == "\n".join([*lines, ""])
