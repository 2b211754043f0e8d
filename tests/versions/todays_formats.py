"""The formats of this tree, as tables: what stands between operator, bookies, jobs and people."""

import inspect
import sqlite3
import tempfile
from enum import IntEnum
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import yaml
from bookie.cli.main import main as bookie
from bookie.exit_codes import Exit
from bookie.ids import BookieId, LedgerId
from bookie.metadata import bookkeeper_pb2, store
from bookie.metadata.layout import Paths
from bookie.metadata.server import main as zookeeper_server
from bookie.protocol.status import Status
from bookie.repair.engine.driver_pod import REQUIRED
from bookie.server.lifecycle import ExitCode
from bookie.server.settings import BookieSettings
from bookie.storage.disk import RealDisk
from bookie.storage.index import Index
from bookie.storage.journal_records import RecordKind
from bookie.wire import identity
from bookie.wire.admin import bookie_admin_pb2
from bookie.wire.native import Op
from bookie.wire.stock import bookkeeper_protocol_pb2
from bookie_operator.__main__ import main as operator
from bookie_operator.kubectl.__main__ import plugin
from bookie_operator.model.crd import documents
from bookie_operator.platform.kubernetes import names
from format_tables import Table, of_command, of_proto, of_schema
from result_formats import documents_of_jobs, shapes
from written_formats import written

B0: Final = BookieId("bookie-0")
LEDGER: Final = LedgerId(7)
PROTOS: Final[tuple[ModuleType, ...]] = (bookie_admin_pb2, bookkeeper_pb2, bookkeeper_protocol_pb2)
NUMBERS: Final[tuple[type[IntEnum], ...]] = (Exit, ExitCode, Op, RecordKind, Status)


def protos() -> Table:
    """The control plane, and Apache's own messages."""
    table: Table = {}
    for module in PROTOS:
        table |= of_proto(module.DESCRIPTOR)
    return table


def resources() -> Table:
    """The kinds that the API server stores."""
    table: Table = {}
    for document in documents().values():
        crd = yaml.safe_load(document)
        kind = crd["spec"]["names"]["kind"]
        for version in crd["spec"]["versions"]:
            at = f"{kind} {version['name']}"
            table |= of_schema(at, version["schema"]["openAPIV3Schema"])
            table[at] |= {"served": version["served"], "stored": version["storage"]}
    return table


def settings() -> Table:
    """A bookie's settings file, which the operator writes."""
    return of_schema("settings", BookieSettings.model_json_schema(by_alias=True))


def commands() -> Table:
    """What jobs, hooks and people call; the environment that a repair's pod must have."""
    return (
        of_command("bookie", bookie)
        | of_command("python -m bookie.metadata.server", zookeeper_server)
        | of_command("bookie-operator", operator)
        | of_command("kubectl bookie", plugin)
        | {f"environment of a job {name}": {} for name in REQUIRED}
    )


def numbers() -> Table:
    """Numbers with a meaning: exit codes, operations and answers, kinds of journal records."""
    return {f"{of.__name__}.{one.name}": {"number": int(one)} for of in NUMBERS for one in of}


def places() -> Table:
    """Names by which one version finds what another has made."""
    table: Table = {}
    for module in (names, store, identity):
        for name, value in vars(module).items():
            if name.isupper() and not name.startswith("_") and isinstance(value, str):
                table[f"{module.__name__}.{name}"] = {"value": value}
    of_cluster: dict[str, Any] = {"cluster": "demo", "namespace": "data", "bookie_id": B0}
    of_cluster |= {"disk": "ledger-0", "text": "bookieId: bookie-0\n"}
    for name in ("set_name", "pod_name", "claim_name", "settings_name", "headless_service",
                 "bookie_host", "zookeeper_name", "repair_account", "bookie_account"):  # fmt: skip
        make = getattr(names, name)
        wanted = inspect.signature(make).parameters
        made = make(**{word: value for word, value in of_cluster.items() if word in wanted})
        table[f"{names.__name__}.{name}"] = {"value": made}
    return table | _znodes() | _index()


def _znodes() -> Table:
    paths = Paths("/ledgers")
    table: Table = {
        f"znode {name}": {"value": getattr(paths, name)}
        for name, held in vars(Paths).items()
        if isinstance(held, property)
    }
    of_ledger = {"mark": paths.mark(LEDGER), "mark_lock": paths.mark_lock(LEDGER)}
    own = {"own": paths.own("instance", "boots")}
    return table | {f"znode {name}": {"value": path} for name, path in (of_ledger | own).items()}


def _index() -> Table:
    """Tables of the database beside the logs: columns may be read by their place."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "index.sqlite")
        Index.open(path, disk=RealDisk()).close()
        connection = sqlite3.connect(path)
        try:
            rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql NOT NULL")
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            table: Table = {f"index {name}": {"value": sql} for name, sql in rows}
        finally:
            connection.close()
    return table | {"index version": {"value": version}}


def todays() -> dict[str, Table]:
    """All tables, by the name of the file that the snapshot has them in."""
    return {
        "protos": protos(),
        "resources": resources(),
        "settings": settings(),
        "commands": commands(),
        "numbers": numbers(),
        "places": places(),
        "written": written(),
        "results": shapes(documents_of_jobs()),
    }
