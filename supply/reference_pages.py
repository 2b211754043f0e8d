"""Make reference pages from the code: settings of a bookie, custom resources, figures, errors.

`python supply/reference_pages.py FOLDER` writes them. We commit them, so that the repository's web
view has them; tests/test_reference.py fails if they differ from what this program makes.
"""

import ast
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, get_args

import bookie.errors
import bookie_operator.errors
from bookie.cli.common import code_of
from bookie.errors import BookieError
from bookie.server.http import BookieCollector, Gauges
from bookie.server.settings import BookieSettings
from bookie.server.state import BookieState
from bookie_operator.metrics import OperatorMetrics
from bookie_operator.model.crd import definitions
from prometheus_client.metrics import MetricWrapperBase
from pydantic import BaseModel
from pydantic.alias_generators import to_camel
from schema_tables import HEAD, Schema, Tables, anchor, row

MADE: Final = "<!-- Generated from the code by `make reference`. -->\n"
MEANING: Final = re.compile(r"((?:`\w+`(?:, )?)+): (.*?)(?=\s(?:`\w+`(?:, )?)+: |\Z)", re.DOTALL)
"""Finds fields and what they mean in the docstring of a class."""
SAID: Final = {
    "bookie_id": "The bookie's name in the metadata store, which ledgers and its cookie use.",
    "metadata": "`zk://host:port[,host:port]/ledgers`, or `zks://` for a ZooKeeper under TLS.",
    "rack_file": "The file in which a platform writes the rack.",
    "advertised_file": "The file in which a platform writes the addresses for clients elsewhere.",
    "runtime_file": "The bookie writes its process id and ports to this file when it starts; null:"
    " no such file.",
    "run": "The native wire, for this project's clients, repairs and audits.",
    "stock": "The wire of BookKeeper's own clients.",
    "admin": "The control plane.",
    "http": "`/metrics`, `/healthz` and `/readyz`.",
    "directory": "The path of the directory.",
    "volume_uid": "The platform's id of the volume: another id means another disk. Empty: nobody"
    " gives an id.",
    "journal_write_data": "True: entries go to the journal before the bookie acknowledges an add.",
    "ack": "When the bookie acknowledges an add without the journal: `memory`, before anything is"
    " on a disk; `sync`, once the log is.",
    "flush_interval_seconds": "The time between two checkpoints.",
    "policy": "Who decides: `Auto`, the bookie, but for a stale disk; `Approve`, a person; `Never`,"
    " nobody, and the bookie refuses the boot.",
    "ring_bytes": "How much may wait in memory for the log.",
    "log_file_bytes": "The size of a log file, after which the bookie begins another one.",
    "direct_io": "Whether the bookie writes past the page cache: `auto`, if the file system can;"
    " `on`, always, and otherwise it does not start; `off`, never.",
    "compaction_interval_seconds": "The time between two looks at what the bookie can compact.",
    "collect_interval_seconds": "The time between two looks at the metadata store for deleted"
    " ledgers.",
    "connections": "Connections to the data ports; if there are more, the bookie closes the oldest"
    " one that has never asked anything.",
    "read_threads": "Threads that read from the disks.",
    "reads_in_flight": "How many reads these threads may have at once.",
    "reply_bytes_per_connection": "How much of `replyBytes` one connection may use.",
    "http_connections": "Connections to the HTTP port.",
    "principal": "The name for which clients ask a ticket: `bookkeeper/HOST@REALM`.",
}
"""What a field means, where the code leaves that to its name."""
SETTINGS: Final = """\
# Settings of a bookie

`bookie serve --config` reads this file; an operator makes it from the
[BookieCluster](bookiecluster.md), and people need not write it. An environment variable
`BOOKIE_SECTION__KEY`, such as `BOOKIE_PORTS__RUN=0`, overrides one value, without regard to case.
If a setting is wrong, the bookie does not start: it ends with exit code 2 and a message that names
the setting.

"""
RESOURCE: Final = """\
# {kind}

`apiVersion: {group}/{version}`, `kubectl get {short}`.
[The definition](../../crds/{name}.yaml) has what the API server checks; a list below a table has
the rules over several fields.

"""
FIGURES: Final = """\
# Figures

Prometheus reads these figures from `/metrics` of a bookie and of the operator. The name of a
counter ends in `_total`, the names of a histogram in `_bucket`, `_count` and `_sum`. The
[alerts](../kubernetes.md#metrics-and-alerts), each with [a page](../runbooks/README.md), say what
to do about them. The embedded ZooKeeper has
[ZooKeeper's own figures](../kubernetes.md#metrics-and-alerts).

"""
ERRORS: Final = """\
# Errors

Every error that the client and the commands raise on purpose is a `BookieError`; its class says
what to do next. A command ends with [the exit code](../cli.md#exit-codes) of the error's class,
unless the command has an exit code of its own for what it does.

"""


def pages() -> Iterator[tuple[str, str]]:
    """Name of the file and text of every page."""
    yield "settings.md", MADE + "".join(_settings())
    for name, heading in (("bookiecluster", "BookieCluster"), ("bookietask", "BookieTask")):
        yield f"{name}.md", MADE + "".join(_resource(name, heading))
    yield "metrics.md", MADE + "".join(_metrics())
    yield "errors.md", MADE + "".join(_errors())


def _settings() -> Iterator[str]:
    yield SETTINGS
    whole = BookieSettings.model_json_schema(by_alias=True)
    for section, heading in headings().items():
        schema = whole if section is BookieSettings else whole["$defs"][section.__name__]
        yield from _section(section, schema, whole["$defs"], heading)


def headings() -> dict[type[BaseModel], str]:
    """The headings of the tables: one for the file, and one for each object in it."""
    inner = {section: " and ".join(map(to_camel, names)) for section, names in sections().items()}
    return {BookieSettings: "The file"} | inner


def sections() -> dict[type[BaseModel], list[str]]:
    """The objects in the file, and the fields that hold them, one or many."""
    found: dict[type[BaseModel], list[str]] = {}
    for name, field in BookieSettings.model_fields.items():
        for held in (field.annotation, *get_args(field.annotation)):
            if isinstance(held, type) and issubclass(held, BaseModel):
                found.setdefault(held, []).append(name)
    return found


def _section(
    model: type[BaseModel], schema: Schema, parts: Mapping[str, Schema], heading: str
) -> Iterator[str]:
    """One table; what a field means stands below it, or in the docstring of its class."""
    rest, meanings = meanings_of(model)
    below = {name: headings()[held] for held, names in sections().items() for name in names}
    yield f"## {heading}\n\n{rest}\n\n{HEAD}"
    for name, field in model.model_fields.items():
        alias = field.alias or name
        said = resolved(schema["properties"][alias], parts)
        said["description"] = meanings.get(name) or SAID.get(name, "")
        is_object = model is BookieSettings and name in below
        see = f" Fields: [below](#{anchor(below[name])})." if is_object else ""
        yield row(alias, said, is_needed=field.is_required(), more=see)
    yield "\n"


def resolved(schema: Schema, parts: Mapping[str, Schema]) -> dict[str, Any]:
    """Replace references by what they name, and drop null where a value may be null."""
    found = dict(schema)
    if "$ref" in found:
        return {"type": "object"}
    for branch in found.pop("anyOf", ()):
        if branch.get("type") != "null":
            found |= resolved(branch, parts)
    return found


def meanings_of(model: type[BaseModel]) -> tuple[str, dict[str, str]]:
    """What the docstring of a section says about the section, and about each of its fields."""
    text = inspect.cleandoc(model.__doc__ or "")
    found = {}
    for names, said in MEANING.findall(text):
        for name in re.findall(r"`(\w+)`", names):
            found[name] = _plain(said)
    found |= {name: _plain(said) for name, said in _below_fields(model)}
    return re.sub(r"; see \S+\.$", ".", _plain(MEANING.sub("", text))), found


def _below_fields(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """The text below each field that has one."""
    [kept] = ast.parse(inspect.getsource(model)).body
    assert isinstance(kept, ast.ClassDef)
    for field, after in zip(kept.body, kept.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr):
            yield ast.unparse(field.target), str(ast.literal_eval(after.value))


def _plain(text: str) -> str:
    """Make one line of the text, a sentence, with the names that a settings file has."""
    line = re.sub(r"`([a-z]+(?:_[a-z]+)+)`", lambda name: f"`{to_camel(name[1])}`", text)
    line = " ".join(line.split())
    return line[:1].upper() + line[1:]


def _resource(name: str, kind: str) -> Iterator[str]:
    definition = definitions()[f"{name}.yaml"]["spec"]
    [version] = definition["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    short = definition["names"]["shortNames"][0]
    yield RESOURCE.format(
        kind=kind, group=definition["group"], version=version["name"], short=short, name=name
    )
    tables = Tables()
    for part in ("spec", "status"):
        yield from tables.of(schema["properties"][part], part)


def _metrics() -> Iterator[str]:
    yield FIGURES
    booted = Gauges(1, True, 0, 0, 0, 0, certificate_ends_s=0.0)
    shown = BookieCollector(BookieState("bookie"), booted).collect()
    yield "## A bookie\n\nPort `ports.http`, 8080.\n\n"
    yield from _figures((one, one._labelnames) for one in shown)
    yield "## The operator\n\nPort 8080; locally the one of `local up --metrics-port`.\n\n"
    metrics = OperatorMetrics()
    held = [one for one in vars(metrics).values() if isinstance(one, MetricWrapperBase)]
    yield from _figures((*one.describe(), one._labelnames) for one in held)


def _figures(found: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    """A table of the figures, each with its labels."""
    yield "| figure | type | labels | what it is |\n|---|---|---|---|\n"
    for metric, labels in sorted(found, key=lambda one: str(one[0].name)):
        shown = ", ".join(f"`{label}`" for label in labels)
        yield f"| `{metric.name}` | {metric.type} | {shown} | {metric.documentation} |\n"
    yield "\n"


def _errors() -> Iterator[str]:
    yield ERRORS
    yield "| error | is a | meaning | exit code |\n|---|---|---|---|\n"
    for kind in _below(BookieError):
        parent = "" if kind is BookieError else f"`{kind.__bases__[0].__name__}`"
        code = code_of(kind.__new__(kind)).value
        said = _plain(inspect.cleandoc(kind.__doc__ or ""))
        yield f"| `{kind.__module__}.{kind.__name__}` | {parent} | {said} | {code} |\n"


def _below(kind: type[BookieError]) -> Iterator[type[BookieError]]:
    """The errors that people see: those in the two modules of errors."""
    if kind.__module__ in (bookie.errors.__name__, bookie_operator.errors.__name__):
        yield kind
    for one in kind.__subclasses__():
        yield from _below(one)


def main(folder: Path) -> None:
    made = dict(pages())
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
