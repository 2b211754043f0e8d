"""Keeps the local platform's bookies running, as a kubelet does: starts, notices ends, backs off.

Every bookie has a record (what it is to run as, which process it is, how the last one ended) that
survives the operator; a bookie's lock is held while its process or volumes are being changed, by
the operator or by a person's command, and nothing is started meanwhile.
"""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from bookie.hosts import at_port, loopback
from bookie.ids import BookieId

from bookie_operator.model.authentication import LOGIN_KEY, USERS_KEY
from bookie_operator.model.bookie_options import AckMode, BookieOptions
from bookie_operator.model.storage_spec import DiskRole
from bookie_operator.model.tls import TlsMode
from bookie_operator.observed import STEADY, Bookie, Exit, Process, Volume
from bookie_operator.plan.actions import (
    AuthenticationTemplate,
    BookieTemplate,
    DiskTemplate,
    TlsTemplate,
)
from bookie_operator.plan.deadlines import still_waits
from bookie_operator.platform.bookie_settings import settings_text
from bookie_operator.platform.folders import (
    LocalFolders,
    held,
    read_json,
    replace_file,
    write_json,
)
from bookie_operator.platform.local_credentials import bookie_folder
from bookie_operator.platform.processes import Children, ProcessId, exit_reason
from bookie_operator.platform.volumes import volumes_of

FREE_PORTS: Final = {"run": 0, "stock": 0, "admin": 0, "http": 0}
"""0 = any free one."""
BACKOFF_MAX: Final = timedelta(seconds=60)
"""Of the waits between ends in a row; after a steady run the next restart is immediate."""
LOG_BYTES_MAX: Final = 16 * 1024 * 1024
"""A larger log is renamed to log.old.txt at the next start."""

Command = Callable[[Path], list[str]]
"""Settings file -> the command line of a bookie."""


def bookie_command(settings: Path) -> list[str]:
    return [sys.executable, "-m", "bookie", "serve", "--config", str(settings)]


@dataclass(frozen=True, slots=True)
class Record:
    """One bookie as the kubelet remembers it. `row`: bad ends without a steady run. `tls`: what the
    ports of its process take."""

    template: BookieTemplate
    process: ProcessId | None = None
    revision: str = ""
    started_at: datetime | None = None
    restarts: int = 0
    row: int = 0
    last_exit: Exit | None = None
    tls: TlsMode = TlsMode.OFF

    @property
    def next_start_at(self) -> datetime | None:
        """When to start it again: at once (None) after the first end, then after 1, 2, 4, ...
        seconds."""
        if self.last_exit is None or self.row <= 1:
            return None
        wait = min(timedelta(seconds=2 ** min(self.row - 2, 10)), BACKOFF_MAX)
        return self.last_exit.at + wait


class Kubelet:
    """Runs all bookies of one directory. Methods marked "Blocking" are for one thread; the rest
    only notes, and may be called beside it.
    """

    def __init__(
        self,
        folders: LocalFolders,
        children: Children,
        *,
        command: Command = bookie_command,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._folders = folders
        self._children = children
        self._command = command
        self._clock = clock
        self._records: dict[BookieId, Record] = {}
        """What should run and what runs, by bookie; as stored on the disk."""
        self._held: set[BookieId] = set()
        """Bookies that are not started for now, whatever their record says."""
        self._asked: dict[BookieId, ProcessId] = {}
        """Processes that are being stopped, by bookie: the end of such a one is no failure."""
        self.metadata_url: str | None = None
        """Address of the metadata store; None until it has one, and nothing starts before."""

    def adopt(self) -> None:
        """Take over what a former operator left; running bookies run on. Blocking."""
        for path in sorted(self._folders.bookies.glob("*/process.json")):
            tree = read_json(path)
            if tree is not None:
                record = record_of(tree)
                self._records[record.template.bookie_id] = record
                if record.process is not None:
                    self._children.watch(record.process)

    def ensure(self, template: BookieTemplate) -> None:
        """Run this bookie with these settings from its next start on. Blocking."""
        record = self._records.get(template.bookie_id)
        self._save(replace(record, template=template) if record else Record(template))
        self.tick()

    def knows(self, bookie_id: BookieId) -> bool:
        """It is to run, and as what is on record."""
        return bookie_id in self._records

    def process_of(self, bookie_id: BookieId) -> ProcessId | None:
        record = self._records.get(bookie_id)
        return record.process if record else None

    def expect_end(self, bookie_id: BookieId, process: ProcessId) -> None:
        """Note that this process of it is being stopped on purpose."""
        self._asked[bookie_id] = process

    def hold(self, bookie_id: BookieId) -> None:
        """Do not start it again: it is to be forgotten, or its disks are worked on."""
        self._held.add(bookie_id)

    def release(self, bookie_id: BookieId) -> None:
        """Start it again when it is due."""
        self._held.discard(bookie_id)

    def forget(self, bookie_id: BookieId) -> None:
        """It is not to run any more, and does not; its volumes are left. Blocking."""
        record = self._records.pop(bookie_id, None)
        if record is not None and record.process is not None:
            self._children.forget(record.process)
        (self._folders.bookie(bookie_id) / "process.json").unlink(missing_ok=True)
        self._held.discard(bookie_id)

    def tick(self) -> None:
        """Note what ended, start what is due. Blocking."""
        for bookie_id in list(self._records):
            self._note_end(bookie_id)
            self._start_if_due(bookie_id)

    def bookies(self) -> Mapping[BookieId, Bookie]:
        """Live: every claimed or known bookie, with volumes and process. Blocking."""
        self.tick()
        claimed = {path.name.partition(".")[0] for path in self._folders.claims.glob("*.json")}
        names = {BookieId(name) for name in claimed} | set(self._records)
        volumes = {bookie_id: volumes_of(self._folders, bookie_id) for bookie_id in names}
        return {
            bookie_id: Bookie(
                id=bookie_id,
                volumes=volumes[bookie_id],
                process=self._process(bookie_id),
            )
            for bookie_id in sorted(names)
            if volumes[bookie_id] or bookie_id in self._records
        }

    def _process(self, bookie_id: BookieId) -> Process | None:
        record = self._records.get(bookie_id)
        if record is None:
            return None
        control = self._control(record) if record.process else None
        return Process(
            instance=str(record.process) if record.process else "",
            running=record.process is not None,
            revision=record.revision if record.process else record.template.revision,
            restarts=record.restarts,
            started_at=record.started_at,
            last_exit=record.last_exit,
            control=control,
            # Not running it takes nothing: it counts as what it is to take, never as plain.
            tls=record.tls if record.process else _wanted_tls(record.template),
        )

    def _control(self, record: Record) -> str | None:
        """Address of the control plane, as this process reports it."""
        path = self._folders.bookie(record.template.bookie_id) / "runtime.json"
        try:
            ready = json.loads(path.read_text(encoding="utf-8"))
            pid, port = ready["pid"], ready["ports"]["admin"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        if record.process is None or pid != record.process.pid:
            return None
        return at_port(loopback(), port)

    def _note_end(self, bookie_id: BookieId) -> None:
        record = self._records[bookie_id]
        process = record.process
        if process is None or self._children.is_alive(process):
            return
        code = self._children.exit_code(process)
        self._children.forget(process)
        now = self._clock()
        lasted = now - record.started_at if record.started_at is not None else None
        is_planned = self._asked.pop(bookie_id, None) == process
        ended = Exit(now, code, exit_reason(code), lasted, is_planned)
        row = 1 if lasted is not None and lasted >= STEADY else record.row + 1
        row = 0 if ended.is_graceful else row
        self._save(replace(record, process=None, last_exit=ended, row=row))

    def _start_if_due(self, bookie_id: BookieId) -> None:
        """Unless it runs, is held or has to wait. Blocking."""
        record = self._records[bookie_id]
        due = record.next_start_at
        is_held = bookie_id in self._held
        if record.process is not None or self.metadata_url is None or is_held:
            return
        if due is not None and still_waits(due, self._clock(), longest=BACKOFF_MAX):
            return
        volumes = volumes_of(self._folders, bookie_id)
        if any(disk.name not in volumes for disk in record.template.disks):
            return
        with held(self._folders.bookie(bookie_id) / "lock") as is_mine:
            if is_mine:
                self._start(record, volumes, self.metadata_url)

    def _start(self, record: Record, volumes: Mapping[str, Volume], metadata_url: str) -> None:
        """Settings first, then the process, then its record. Blocking."""
        template = record.template
        folder = self._folders.bookie(template.bookie_id)
        log = folder / "log.txt"
        if log.exists() and log.stat().st_size > LOG_BYTES_MAX:
            log.replace(folder / "log.old.txt")
        (folder / "runtime.json").unlink(missing_ok=True)
        text = process_settings(template, volumes, folders=self._folders, metadata_url=metadata_url)
        replace_file(folder / "settings.yaml", text)
        process = self._children.spawn(
            self._command(folder / "settings.yaml"), log=log, folder=folder
        )
        self._save(
            replace(
                record,
                process=process,
                revision=template.revision,
                tls=_wanted_tls(template),
                started_at=self._clock(),
                restarts=record.restarts + (record.last_exit is not None),
            )
        )

    def _save(self, record: Record) -> None:
        """Write the record to the disk before anything acts on it. Blocking."""
        bookie_id = record.template.bookie_id
        write_json(self._folders.bookie(bookie_id) / "process.json", record_tree(record))
        self._records[bookie_id] = record


def _wanted_tls(template: BookieTemplate) -> TlsMode:
    return template.tls.mode if template.tls else TlsMode.OFF


def process_settings(
    template: BookieTemplate,
    volumes: Mapping[str, Volume],
    *,
    folders: LocalFolders,
    metadata_url: str,
) -> str:
    """The settings of a bookie on this machine; it tells its free ports in its runtime file."""
    name, asked = template.bookie_id, template.authentication
    return settings_text(
        template,
        volumes,
        metadata_url=metadata_url,
        directories={disk.name: str(folders.volume(name, disk.name)) for disk in template.disks},
        ports=FREE_PORTS,
        host=loopback(),
        runtime_file=str(folders.bookie(name) / "runtime.json"),
        credentials=str(bookie_folder(folders.tls, name)),
        users_file=str(folders.secret(asked.users_secret if asked else "") / USERS_KEY),
        login_file=str(folders.secret(template.login_secret) / LOGIN_KEY),
    )


def record_tree(record: Record) -> dict[str, Any]:
    """The record as written to process.json."""
    ended = record.last_exit
    return {
        "template": record.template.facts,
        "process": record.process.as_dict() if record.process else None,
        "revision": record.revision,
        "startedAt": record.started_at.isoformat() if record.started_at else None,
        "restarts": record.restarts,
        "row": record.row,
        "lastExit": _exit_tree(ended) if ended else None,
        **({} if record.tls is TlsMode.OFF else {"tls": record.tls.value}),
    }


def _exit_tree(ended: Exit) -> dict[str, Any]:
    lasted = ended.lasted.total_seconds() if ended.lasted is not None else None
    return {
        "at": ended.at.isoformat(),
        "code": ended.code,
        "reason": ended.reason,
        "lasted": lasted,
        "planned": ended.is_planned,
    }


def _exit_of(tree: Mapping[str, Any]) -> Exit:
    lasted = tree.get("lasted")  # an earlier version wrote neither this nor `planned`
    return Exit(
        at=datetime.fromisoformat(tree["at"]),
        code=tree["code"],
        reason=tree["reason"],
        lasted=timedelta(seconds=lasted) if lasted is not None else None,
        is_planned=tree.get("planned", False),
    )


def _template_of(facts: Mapping[str, Any]) -> BookieTemplate:
    """The template that `facts` were written of, by this version or an earlier one.

    The options are not checked again: a bound that has become narrower since must not keep the
    operator from taking over a bookie that runs.
    """
    options = BookieOptions.model_construct(**{**facts, "ack": AckMode(facts["ack"])})
    disks = (DiskTemplate(**{**disk, "role": DiskRole(disk["role"])}) for disk in facts["disks"])
    return BookieTemplate(
        bookie_id=facts["bookie_id"],
        image=facts["image"],
        disks=tuple(disks),
        options=options,
        asks_before_cookie_fix=facts["asks_before_cookie_fix"],
        pod=facts.get("pod", "{}"),
        tls=_tls_of(facts.get("tls")),
        authentication=_authentication_of(facts.get("authentication")),
        login_secret=facts.get("login_secret", ""),
    )


def _authentication_of(facts: Mapping[str, Any] | None) -> AuthenticationTemplate | None:
    if facts is None:
        return None
    return AuthenticationTemplate(tuple(facts["mechanisms"]), facts["users_secret"])


def _tls_of(facts: Mapping[str, Any] | None) -> TlsTemplate | None:
    return None if facts is None else TlsTemplate(TlsMode(facts["mode"]), bool(facts["http"]))


def record_of(tree: Mapping[str, Any]) -> Record:
    started, ended = tree["startedAt"], tree["lastExit"]
    return Record(
        template=_template_of(tree["template"]),
        process=ProcessId.of(tree["process"]) if tree["process"] else None,
        revision=tree["revision"],
        started_at=datetime.fromisoformat(started) if started else None,
        restarts=tree["restarts"],
        row=tree["row"],
        last_exit=_exit_of(ended) if ended else None,
        tls=TlsMode(tree.get("tls", TlsMode.OFF)),
    )
