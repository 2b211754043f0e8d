"""Converts ZooKeeper's answer to `mntr` into Prometheus's text format, under ZooKeeper's own names.
Pure.

The names are those of ZooKeeper's own Prometheus provider, so dashboards and alerts work for a
ZooKeeper with that provider, too. The provider itself is not used here because Spark does not
include its jars.
"""

import re
from collections.abc import Iterator
from typing import Final

from bookie.errors import UnavailableError

PREFIX: Final = "zk_"
PART: Final = re.compile(r"^(avg|min|max|cnt|sum|p\d+)_(.+)$")
"""Name of one value of a summary. ZooKeeper's provider leaves out averages and extremes, which
never fall."""
SUFFIXES: Final = {"cnt": "_count", "sum": "_sum"}
QUANTILES: Final = {"p50": "0.5", "p95": "0.95", "p99": "0.99", "p999": "0.999"}
KEYED: Final = re.compile(r"^(.+)_((?:read|write)_per_namespace)$")
"""Name of a summary that exists for each znode below the root, after the name of that znode."""
NOT_IN_A_NAME: Final = re.compile(r"\W", re.ASCII)


def exposition(answer: str) -> str:
    """The answer in Prometheus's text format. UnavailableError when it holds no metrics."""
    figures = dict(_figures(answer))
    if not figures:
        said = answer.strip().partition("\n")[0] or "nothing"
        raise UnavailableError(f"ZooKeeper gives no metrics now; it said: {said}")
    families: dict[str, list[str]] = {}
    kinds: dict[str, str] = {}
    for name, value in figures.items():
        part = PART.match(name)
        if part is None or f"cnt_{part[2]}" not in figures:
            family = NOT_IN_A_NAME.sub("_", name)
            kinds[family] = "untyped"
            families.setdefault(family, []).append(f"{family} {value}")
        elif line := _of_summary(part[1], part[2], value):
            family, sample = line
            kinds[family] = "summary"
            families.setdefault(family, []).append(sample)
    return "".join(
        f"# TYPE {family} {kinds[family]}\n" + "".join(f"{line}\n" for line in lines)
        for family, lines in families.items()
    )


def _figures(answer: str) -> Iterator[tuple[str, str]]:
    """Name, without its prefix, and value of each metric; values that are no numbers (version,
    state) are left out.
    """
    for line in answer.splitlines():
        name, _tab, value = line.partition("\t")
        if name.startswith(PREFIX) and _is_number(value):
            yield name.removeprefix(PREFIX), value


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _of_summary(part: str, name: str, value: str) -> tuple[str, str] | None:
    """The summary's name and one sample of it; None for a value that Prometheus has no use for."""
    keyed = KEYED.match(name)
    family = NOT_IN_A_NAME.sub("_", keyed[2] if keyed else name)
    labels = [f'key="{_escaped(keyed[1])}"'] if keyed else []
    if part in SUFFIXES:
        metric = family + SUFFIXES[part]
    elif part in QUANTILES:
        metric = family
        labels.append(f'quantile="{QUANTILES[part]}"')
    else:
        return None
    return family, f"{metric}{{{','.join(labels)}}} {value}" if labels else f"{metric} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
