"""What ZooKeeper says of itself (`mntr`) as Prometheus's text, under ZooKeeper's own names. Pure.

The names are those that ZooKeeper's own provider for Prometheus gives, whose jars Spark does not
bring: dashboards and alerts are the same for a ZooKeeper of one's own that has the provider.
"""

import re
from collections.abc import Iterator
from typing import Final

from bookie.errors import UnavailableError

PREFIX: Final = "zk_"
PART: Final = re.compile(r"^(avg|min|max|cnt|sum|p\d+)_(.+)$")
"""One figure of a summary. The provider has neither averages nor extremes: they never fall."""
SUFFIXES: Final = {"cnt": "_count", "sum": "_sum"}
QUANTILES: Final = {"p50": "0.5", "p95": "0.95", "p99": "0.99", "p999": "0.999"}
KEYED: Final = re.compile(r"^(.+)_((?:read|write)_per_namespace)$")
"""A summary of each znode below the root, whose name stands before it."""
NOT_IN_A_NAME: Final = re.compile(r"\W", re.ASCII)


def exposition(answer: str) -> str:
    """The answer as Prometheus reads it. UnavailableError when it holds no figures."""
    figures = dict(_figures(answer))
    if not figures:
        said = answer.strip().partition("\n")[0] or "nothing"
        raise UnavailableError(f"ZooKeeper gives no figures now; it said: {said}")
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
    """Name, without its prefix, and number; what is no number (version, state) is left out."""
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
    """Its name and one sample; None for a part that Prometheus has no use for."""
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
