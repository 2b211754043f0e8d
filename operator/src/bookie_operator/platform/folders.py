"""The local platform's directory: which file is where, atomic writes, and the operator's lock.

cluster.yaml status.json events.jsonl lock operator.log
claims/BOOKIE.DISK.json         a volume's identity: outside of the folder, as a PVC is
volumes/BOOKIE/DISK/            a volume's content
bookies/BOOKIE/                 process.json settings.yaml runtime.json log.txt lock
jobs/NAME/                      job.json result.json log.txt
tasks/NAME.yaml NAME.status.json
zookeeper/ zookeeper.json
tls/ca/                         the authority of the cluster
tls/ROLE-NAME/                  credentials of one of it
"""

import fcntl
import json
import os
import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

from bookie.ids import BookieId

from bookie_operator.errors import DirectoryInUseError, LocalError

LOCK_RETRY_S: Final = 0.05
OPERATOR_LOCK_WAIT_S: Final = 0.5
"""Whoever only asks who has the operator's lock shares it for a moment, and is waited for."""
BOOKIE_LOCK_WAIT_S: Final = 60.0
"""How long a holder of a bookie's lock may do more than stop it, such as delete its volume."""
EVENTS_BYTES_MAX: Final = 1024 * 1024
"""A full events file becomes `events.old.jsonl`; the one before that is dropped."""


class LocalFolders:
    """Names of everything below one directory; makes what is missing."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.cluster_file = self.root / "cluster.yaml"
        """The BookieCluster as its person wrote it."""
        self.status_file = self.root / "status.json"
        """The object with its status, as the operator published it last."""
        self.events_file = self.root / "events.jsonl"
        """Events, one JSON object a line."""
        self.old_events_file = self.root / "events.old.jsonl"
        """Older events."""
        self.lock_file = self.root / "lock"
        """Held by the operator that runs on the folder."""
        self.operator_log = self.root / "operator.log"
        """What the operator logs in the background."""
        self.claims = self.root / "claims"
        """One file for each volume: its uid and size."""
        self.volumes = self.root / "volumes"
        """One folder for each volume."""
        self.bookies = self.root / "bookies"
        """One folder for each bookie: settings, log, record of its process."""
        self.jobs = self.root / "jobs"
        """One folder for each job: log, result, record of its process."""
        self.tasks = self.root / "tasks"
        """BookieTasks, one file each."""
        self.zookeeper = self.root / "zookeeper"
        """Data of the embedded ZooKeeper."""
        self.tls = self.root / "tls"
        """Credentials: the authority's, and one folder for each of the cluster."""
        self.secrets = self.root / "secrets"
        """What people bring: a folder for each Secret that the spec names, a file for each key."""
        self.page_file = self.root / "page.json"
        """Port and key of the web page, for the fleet's own person."""
        self.zookeeper_file = self.root / "zookeeper.json"
        """File with ZooKeeper's process and port."""

    def make(self) -> None:
        """LocalError where that cannot be. Blocking."""
        folders = (self.claims, self.volumes, self.bookies, self.jobs, self.tasks)
        try:
            for folder in folders:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LocalError(f"cannot use {self.root}: {error.strerror}; choose --dir") from error

    @property
    def exists(self) -> bool:
        return self.bookies.is_dir()

    def command(self, words: str) -> str:
        """This command of `bookie-operator local` for this fleet, as a shell takes it."""
        return f"`bookie-operator local {words} --dir {shlex.quote(str(self.root))}`"

    def bookie(self, bookie_id: BookieId) -> Path:
        return self.bookies / bookie_id

    def claim(self, bookie_id: BookieId, disk: str) -> Path:
        return self.claims / f"{bookie_id}.{disk}.json"

    def volume(self, bookie_id: BookieId, disk: str) -> Path:
        return self.volumes / bookie_id / disk

    def secret(self, name: str) -> Path:
        return self.secrets / name

    def append_event(self, event: Mapping[str, Any]) -> None:
        """The event as one more line, also after one that a crash cut off. Blocking."""
        with suppress(FileNotFoundError):
            if self.events_file.stat().st_size > EVENTS_BYTES_MAX:
                self.events_file.replace(self.old_events_file)
        with self.events_file.open("ab+") as events:
            start = b"" if _ends_a_line(events) else b"\n"
            events.write(start + json.dumps(event).encode() + b"\n")

    def events(self) -> Iterator[dict[str, Any]]:
        """The events that are still kept, oldest first, without a line that a crash cut off.
        Blocking."""
        for path in (self.old_events_file, self.events_file):
            if not path.exists():
                continue
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                with suppress(ValueError, RecursionError):
                    yield json.loads(line)


def _ends_a_line(file: IO[bytes]) -> bool:
    """Whether what is written next begins a line."""
    if file.seek(0, os.SEEK_END) == 0:
        return True
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def replace_file(path: Path, text: str, *, durable: bool = True) -> None:
    """The file has the old text or the new one, whoever reads and whatever dies. Blocking."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    fresh.replace(path)
    if durable:
        sync_folder(path.parent)


def write_json(path: Path, tree: Mapping[str, Any], *, durable: bool = True) -> None:
    """As `replace_file` does. Blocking."""
    replace_file(path, json.dumps(tree, indent=2) + "\n", durable=durable)


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON file; None if there is none, LocalError if we did not write it. Blocking."""
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise LocalError(f"{path} is unreadable ({error}): move it away to go on") from error
    if not isinstance(tree, dict):
        raise LocalError(f"{path} holds a {type(tree).__name__}, expected an object")
    return tree


def sync_folder(folder: Path) -> None:
    """Make the names in a directory durable. Blocking."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def held(path: Path, *, wait_s: float = 0.0, is_shared: bool = False) -> Iterator[bool]:
    """Hold a lock file; yields False when others held it all the time. Blocking for `wait_s`.

    The lock ends with its holder's process, however that ends. `is_shared`: with others that share
    it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        how = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
        yield _is_locked(file, how, wait_s=wait_s)


def _is_locked(file: IO[str], how: int, *, wait_s: float) -> bool:
    end = time.monotonic() + wait_s
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(file, how | fcntl.LOCK_NB)
            return True
        if time.monotonic() >= end:
            return False
        time.sleep(LOCK_RETRY_S)


@contextmanager
def bookie_held(folders: LocalFolders, bookie_id: BookieId, *, grace_s: float) -> Iterator[None]:
    """Hold a bookie's lock once who has it must be through; LocalError after that. Blocking."""
    path = folders.bookie(bookie_id) / "lock"
    # Twice the grace period: a command that swaps disks stops two bookies, one after the other.
    wait_s = 2 * grace_s + BOOKIE_LOCK_WAIT_S
    with held(path, wait_s=wait_s) as is_mine:
        if not is_mine:
            raise LocalError(
                f"found {path} held by another process for {wait_s:g} s, expected one that stops "
                f"{bookie_id} to be through by then: end it (`fuser {path}` names it) and try again"
            )
        yield


@contextmanager
def operator_lock(folders: LocalFolders) -> Iterator[None]:
    """One operator per directory; DirectoryInUseError names the one that has it. Blocking."""
    with held(folders.lock_file, wait_s=OPERATOR_LOCK_WAIT_S) as is_mine:
        if is_mine:
            folders.lock_file.write_text(f"{os.getpid()}\n", encoding="utf-8")
            try:
                yield
            finally:
                # Whoever has the lock next is not taken for this process.
                with suppress(OSError):
                    folders.lock_file.write_text("", encoding="utf-8")
            return
    raise DirectoryInUseError(
        f"an operator (process {operator_pid(folders)}) already runs on {folders.root}: "
        f"{folders.command('down')} stops it, or choose another --dir"
    )


def operator_pid(folders: LocalFolders) -> int | None:
    """The process that holds the operator's lock; None = nobody does. Blocking."""
    if not folders.lock_file.exists():
        return None
    # Shared: others that ask at this moment are no operator.
    with held(folders.lock_file, is_shared=True) as is_free:
        if is_free:
            return None
    text = folders.lock_file.read_text(encoding="utf-8").strip()
    return int(text) if text.isdigit() else None
