"""MIT's key distribution centre with two realms, of which each trusts the other's tickets.

Where its programs are missing: NoKdcError, which names them. Everything it writes is in one folder;
`configuration` is what both Java's and MIT's Kerberos are to read.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bookie.hosts import at_port, loopback
from bookie.metadata.embedded import free_port

REALM: Final = "FLEET.TEST"
OTHER: Final = "OTHER.TEST"
HOST: Final = loopback()
"""Host in the principals of bookies: Java's client uses it as it is in the registration."""
REALMS: Final = (REALM, OTHER)
PROGRAMS: Final = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit", "kvno")
ADMIN_FOLDERS: Final = "/usr/sbin:/usr/lib/mit/sbin:/sbin"
"""Folders of these programs, in addition to PATH."""
SKEW_S: Final = 300
"""How far apart clocks may be, unless a test wants it otherwise."""
CONNECT_WAIT_S: Final = 20.0
CONNECT_INTERVAL_S: Final = 0.02


class NoKdcError(Exception):
    """A program is missing; the message names it."""


@dataclass(frozen=True, slots=True)
class Kdc:
    """A running KDC; a context manager."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]
    environment: Mapping[str, str] = field(repr=False)
    """Environment for programs that use it."""

    @classmethod
    def start(cls, folder: Path) -> "Kdc":
        environment = _environment(folder)
        folder.mkdir(parents=True)
        port = free_port()
        (folder / "krb5.conf").write_text(_client_text(port, SKEW_S), encoding="ascii")
        (folder / "kdc.conf").write_text(_server_text(folder, port), encoding="ascii")
        for realm in REALMS:
            _run(environment, "kdb5_util", "create", "-s", "-r", realm, "-P", "master")
            for to, of in ((REALM, OTHER), (OTHER, REALM)):
                _edit(environment, realm, f"addprinc -pw trust krbtgt/{to}@{of}")
        with (folder / "kdc.log").open("ab") as log:
            process = subprocess.Popen(
                ["krb5kdc", "-n", "-r", REALM, "-r", OTHER, "-P", str(folder / "pid")],
                env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        _until_open(port, process)
        return cls(folder, port, process, environment)

    def __enter__(self) -> "Kdc":
        return self

    def __exit__(self, *_error: object) -> None:
        self.process.terminate()
        self.process.wait()

    @property
    def configuration(self) -> Path:
        return self.folder / "krb5.conf"

    def strict(self, skew_s: int) -> Path:
        """The same for who wants clocks this close to each other."""
        file = self.folder / f"krb5-{skew_s}.conf"
        file.write_text(_client_text(self.port, skew_s), encoding="ascii")
        return file

    def add(self, principal: str, *, lifetime: str = "1 hour") -> Path:
        """One more of its realm; the keytab with its key. `lifetime`: of its tickets at most."""
        name, _, realm = principal.partition("@")
        keytab = self.folder / f"{name.replace('/', '_')}-{realm}.keytab"
        _edit(self.environment, realm, f'addprinc -randkey -maxlife "{lifetime}" {principal}')
        self.put(principal, keytab)
        return keytab

    def put(self, principal: str, keytab: Path) -> None:
        """A new key of it, beside those that are in the file."""
        realm = principal.rpartition("@")[2]
        _edit(self.environment, realm, f"ktadd -k {keytab} {principal}")

    def log_in(self, principal: str, keytab: Path, *services: str) -> Path:
        """A cache with the principal's first ticket, and with tickets to these services."""
        cache = keytab.with_suffix(".cache")
        _run(self.environment, "kinit", "-k", "-t", str(keytab), "-c", f"FILE:{cache}", principal)
        for service in services:
            _run(self.environment, "kvno", "-q", "-c", f"FILE:{cache}", service)
        return cache


def _environment(folder: Path) -> Mapping[str, str]:
    path = f"{os.environ.get('PATH', '')}:{ADMIN_FOLDERS}"
    missing = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if missing:
        raise NoKdcError(
            f"{' and '.join(missing)} not on PATH (Debian: krb5-kdc, krb5-admin-server, krb5-user)"
        )
    files = {"KRB5_CONFIG": folder / "krb5.conf", "KRB5_KDC_PROFILE": folder / "kdc.conf"}
    return os.environ | {"PATH": path} | {name: str(file) for name, file in files.items()}


def _edit(environment: Mapping[str, str], realm: str, line: str) -> None:
    _run(environment, "kadmin.local", "-r", realm, "-q", line)


def _run(environment: Mapping[str, str], *words: str) -> None:
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stdout}{done.stderr}")


def _until_open(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + CONNECT_WAIT_S
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection((loopback(), port), timeout=1):
            return
        time.sleep(CONNECT_INTERVAL_S)
    raise RuntimeError("krb5kdc does not listen")


def _client_text(port: int, skew_s: int) -> str:
    address = at_port(loopback(), port)
    realms = "".join(f" {realm} = {{\n  kdc = {address}\n }}\n" for realm in REALMS)
    return f"""[libdefaults]
 default_realm = {REALM}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
 clockskew = {skew_s}
[realms]
{realms}[domain_realm]
 {HOST} = {REALM}
"""


def _server_text(folder: Path, port: int) -> str:
    own = "".join(
        f" {realm} = {{\n  database_name = {folder}/{realm}\n"
        f"  key_stash_file = {folder}/{realm}.key\n  acl_file = {folder}/nobody\n }}\n"
        for realm in REALMS
    )
    address = at_port(loopback(), port)
    return f"""[logging]
 kdc = FILE:{folder}/requests.log
[kdcdefaults]
 kdc_listen = {address}
 kdc_tcp_listen = {address}
[realms]
{own}"""
