"""The words of the house: what names are made of, where each is explained, which are banned.

A name of a module or class is made of words that `docs/glossary.md` explains, of words of the field
that it lists, and of plain English (`PLAIN`). What is left of other words stands in
`words_left.txt`, a ratchet: a new one fails the test, and so does a line that is not true any more.

    python tests/house/words.py          # what is not in order
    python tests/house/words.py --write  # drops lines that are not true any more
    python tests/house/words.py --write --grow  # takes in new ones as well: after a merge, say why
"""

import argparse
import ast
import functools
import itertools
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from code_lines import ROOT, SOURCES, modules

GLOSSARY: Final = ROOT / "docs/glossary.md"
FIELDS: Final = "## Words that we use as they do"
LEFT: Final = Path(__file__).with_name("words_left.txt")

BANNED: Final = (
    "told",
    "telling",
    "lone",
    "aside",
    "carriage",
    "dear",
    "anew",
    "the same of",
)
"""Not in a name, nor in a docstring: private words, and English of before our time."""
BANNED_IN_NAMES: Final = (*BANNED, "later")
"""`later` is plain English in a sentence; a name says until when instead."""

PLAIN: Final = frozenset(Path(__file__).with_name("plain_words.txt").read_text().split())
"""Verbs, adjectives and small words: they qualify a word that is explained."""

SHARED_NAMES: Final = {
    "__main__": "what `python -m` runs, one for each package that is a command",
    "writer": "the shell in `client`, round the core in `protocol`",
    "reader": "the shell in `client`, round the core in `protocol`",
    "recovery": "the shell in `client`, round the core in `protocol`",
    "placement": "the rule in `protocol`, and the client's choice by it",
    "disk": "the seam in `storage`, its fakes in `testing` and in the simulation",
    "metadata": "faults of a metadata store, injected by `testing` and by the simulation",
    "control": "the control plane: served by `server`, called by others, faked in `testing`",
    "drain": "one drain: the command, the job that moves the ledgers, the bookie's own mark",
    "entries": "entries of a ledger: printed by the command, read back by an audit",
    "settings": "each room's own section of the settings file",
    "named_secrets": "Secrets that the spec names: what the planner makes of them, what is wrong "
    "with their content, and how pods on Kubernetes get them",
    "admin": "the gRPC service of a bookie: served by `server`, called in the simulation",
    "audit": "one audit: the command, and what compares copies with the metadata",
    "collect": "one collection of deleted ledgers: the bookie's pass, the command that approves it",
    "digests": "of entries: computed in `frames`, verified on every copy by a repair",
    "engine": "the Engine of a repair: the interface and the one in process, the one on Spark",
    "opening": "what a room does once, when its store, its storage or its engine is opened",
    "pacing": "holds work to a rate: a bookie's upkeep, a repair's reads",
    "session": "of ZooKeeper in `metadata`, of Spark in `repair`, as each calls it",
    "bookies": "of a cluster: their manifests, their branch of the status tree",
    "jobs": "of Kubernetes: what both platforms run, its manifests",
    "left_over": "what a bookie that left keeps: its fields of the status, who decides on it",
    "reports": "what jobs report: its model, and who reads it",
    "tasks": "BookieTasks: the planner's ends of them, the commands that make them",
}
"""Module names that stand in several rooms of one package, and why each means one thing."""

Left = dict[str, int]
"""Lines of the ratchet: what is left, and how often."""


def words_of(name: str) -> list[str]:
    """The words of a name in either style: `ZooKeeperLedgerIds`, `zookeeper_ledger_ids`."""
    split = r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+"
    found = re.findall(split, name.replace("ZooKeeper", "Zookeeper"))
    return [word.lower() for word in found if word not in ("v", "V")]


def forms(word: str) -> set[str]:
    """The word, and what it may be the plural of: `copies`, `classes`, `marks`."""
    singulars = {word[:-1]} if word.endswith("s") else set()
    if word.endswith("es"):
        singulars |= {word[:-2], word[:-3] + "y"}
    return {word} | singulars


def explained() -> set[str]:
    """Words that the glossary has: the first column of the first table, the lists of the second."""
    own, _heading, fields = GLOSSARY.read_text(encoding="utf-8").partition(FIELDS)
    cells = [(row[0] for row in rows_of(own)), (row[1] for row in rows_of(fields))]
    return {
        word for cell in itertools.chain(*cells) for word in re.findall(r"[a-z]+", cell.lower())
    }


def rows_of(text: str) -> list[list[str]]:
    """The cells of the rows of the tables in this text."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


class Module(NamedTuple):
    """What is written in one module; `texts`: docstrings, those below a field included.

    `names`: of functions, arguments and variables.
    """

    path: Path
    classes: list[str]
    names: list[str]
    texts: list[str]


@functools.cache
def written() -> tuple[Module, ...]:
    """Every module of the product."""
    return tuple(map(read, modules()))


def read(path: Path) -> Module:
    module = Module(path, [], [], [])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef):
            module.classes.append(node.name)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            module.names.append(node.name)
        elif isinstance(node, ast.arg):
            module.names.append(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            module.names.append(node.id)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            module.texts.append(str(node.value.value))
    return module


def unexplained() -> Left:
    """Words of names of modules and classes that nothing explains."""
    known = explained()
    names = [name for module in written() for name in (module.path.stem, *module.classes)]
    words = {word for name in names for word in words_of(name)}
    return {f"word {word}": 1 for word in words if not forms(word) & (known | PLAIN)}


def room_of(path: Path) -> str:
    """`bookie.storage` for what lies in that folder or below it, the package for what does not."""
    [source] = [source for source in SOURCES if path.is_relative_to(source)]
    parts = path.relative_to(source).parts
    return ".".join(parts[:2] if len(parts) > 2 else parts[:1])


def banned() -> Left:
    """Banned words by room: in names, and in docstrings."""
    found: Counter[str] = Counter()
    for module in written():
        names = [module.path.stem, *module.classes, *module.names]
        in_names = uses(BANNED_IN_NAMES, [" ".join(words_of(name)) for name in names])
        for word in in_names + uses(BANNED, module.texts):
            found[f"banned {word} in {room_of(module.path)}"] += 1
    return dict(found)


def uses(words: Iterable[str], texts: Iterable[str]) -> list[str]:
    """Those of the words that stand in the texts, each as often as it stands there."""
    choices = "|".join(r"\s+".join(word.split()) for word in words)
    found = re.findall(rf"\b({choices})\b", "\n\n.\n".join(texts), re.IGNORECASE)
    return [" ".join(word.lower().split()) for word in found]


def shared_names() -> set[str]:
    """`package name` of each module name that stands in several rooms of one package."""
    rooms: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for path in (module.path for module in written()):
        if path.stem != "__init__":
            rooms[room_of(path).partition(".")[0], path.stem].add(str(path.parent))
    return {f"{package} {name}" for (package, name), where in rooms.items() if len(where) > 1}


def twins() -> Left:
    """Module names that mean two things."""
    found = {line for line in shared_names() if line.split()[1] not in SHARED_NAMES}
    return {f"module {line}": 1 for line in found}


def now() -> Left:
    """Everything that is not in order now."""
    return unexplained() | banned() | twins()


def left() -> Left:
    """What the ratchet allows."""
    lines = [
        line for line in LEFT.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"
    ]
    return {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in lines}


def grown(found: Left, allowed: Left) -> list[str]:
    """What is new since the ratchet was written."""
    return [f"{line} {n}" for line, n in sorted(found.items()) if n > allowed.get(line, 0)]


def stale(found: Left, allowed: Left) -> list[str]:
    """Lines of the ratchet that are not true any more."""
    return [f"{line} {n}" for line, n in sorted(allowed.items()) if n > found.get(line, 0)]


def write(kept: Left) -> None:
    head = "Words left to explain or to replace; see words.py. It only shrinks."
    lines = [f"{line} {count}" for line, count in sorted(kept.items())]
    LEFT.write_text("\n".join([f"# {head}", *lines]) + "\n", encoding="utf-8")


def shown(title: str, lines: Iterable[str]) -> int:
    """Prints the lines; how many there are."""
    lines = list(lines)
    for line in lines:
        print(f"{title}: {line}")
    return len(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="The words that names are made of.")
    parser.add_argument("--write", action="store_true", help="drop what is not left any more")
    parser.add_argument("--grow", action="store_true", help="and take in what is new")
    options = parser.parse_args()
    found, allowed = now(), left() if LEFT.exists() else {}
    if options.write:
        if not options.grow:
            found = {line: min(n, allowed[line]) for line, n in found.items() if line in allowed}
        write(found)
        return 0
    return 1 if shown("new", grown(found, allowed)) + shown("stale", stale(found, allowed)) else 0


if __name__ == "__main__":
    sys.exit(main())
