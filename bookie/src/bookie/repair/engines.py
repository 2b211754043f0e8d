"""Which machinery carries the ledgers of a repair or audit, and why it was chosen.

All engines run the same functions (`ledgers.LedgerRepair`, `audit.Auditor`) and give the same
result. `inline` works in this process; `spark-local` in Spark workers on this machine.
"""

import importlib.util
from dataclasses import dataclass
from typing import Final

from bookie.metadata.java import find_java
from bookie.protocol.errors import SettingsError

INLINE: Final = "inline"
SPARK_LOCAL: Final = "spark-local"
SPARK_KUBERNETES: Final = "spark-kubernetes"
AUTO: Final = "auto"
AVAILABLE: Final = (INLINE, SPARK_LOCAL)
CHOICES: Final = (*AVAILABLE, AUTO)

SPARK_LEDGERS_MIN: Final = 100_000
"""Fewer ledgers are done in process before Spark has started: a session costs 5-14 CPU-s."""


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """An engine's name, and the reason for people to read."""

    name: str
    reason: str


def check_engine(requested: str) -> str:
    """The name itself; SettingsError when there is no such engine here."""
    if requested == SPARK_KUBERNETES:
        raise SettingsError(
            f"engine {SPARK_KUBERNETES} is not part of this version; "
            f"available: {', '.join(CHOICES)}"
        )
    if requested not in CHOICES:
        raise SettingsError(f"engine is {requested!r}, expected one of {', '.join(CHOICES)}")
    return requested


def choose_engine(requested: str, *, ledgers: int) -> EngineChoice:
    """The engine for this many ledgers; SettingsError when the one asked for cannot run here."""
    check_engine(requested)
    if requested == SPARK_LOCAL and (missing := spark_obstacle()) is not None:
        raise SettingsError(f"engine {SPARK_LOCAL} cannot run here: {missing}")
    if requested != AUTO:
        return EngineChoice(requested, "asked for")
    if ledgers < SPARK_LEDGERS_MIN:
        return EngineChoice(INLINE, f"{ledgers} ledgers, fewer than {SPARK_LEDGERS_MIN}")
    if (missing := spark_obstacle()) is not None:
        return EngineChoice(INLINE, f"{ledgers} ledgers, but Spark cannot run here: {missing}")
    return EngineChoice(SPARK_LOCAL, f"{ledgers} ledgers, {SPARK_LEDGERS_MIN} or more")


def spark_obstacle() -> str | None:
    """Why Spark cannot run on this machine, None when it can."""
    for package in ("pyspark", "pyarrow", "pandas"):
        if importlib.util.find_spec(package) is None:
            return f"{package} is not installed (the extra `repair` has it)"
    try:
        find_java()
    except SettingsError as error:
        return str(error)
    return None
