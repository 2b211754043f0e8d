"""Which machinery carries the ledgers of a repair, audit, drain or re-replication, and why.

All engines do the same (see `engine.engine`) and give the same result. `inline` works in this
process, `spark-local` in Spark workers on this machine, and `spark-kubernetes` in executor pods of
which this process, in a pod of its own, is the driver.
"""

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bookie.errors import SettingsError
from bookie.metadata.java import find_java
from bookie.repair.engine.driver_pod import driver_obstacle

INLINE: Final = "inline"
SPARK_LOCAL: Final = "spark-local"
SPARK_KUBERNETES: Final = "spark-kubernetes"
AUTO: Final = "auto"
CHOICES: Final = (INLINE, SPARK_LOCAL, SPARK_KUBERNETES, AUTO)

SPARK_LEDGERS_MIN: Final = 100_000
"""Fewer ledgers are done in process before Spark has started: a session costs 5-14 CPU-s."""


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """An engine's name, and the reason for people to read."""

    name: str
    reason: str


def check_engine(requested: str, *, environ: Mapping[str, str] = os.environ) -> str:
    """The name itself; SettingsError when there is no such engine here."""
    if requested not in CHOICES:
        raise SettingsError(f"engine is {requested!r}, expected one of {', '.join(CHOICES)}")
    if requested == SPARK_KUBERNETES and (missing := driver_obstacle(environ)) is not None:
        raise SettingsError(
            f"engine {SPARK_KUBERNETES} cannot run here: {missing}; "
            f"elsewhere use {INLINE}, {SPARK_LOCAL} or {AUTO}"
        )
    return requested


def choose_engine(
    requested: str, *, ledgers: int, environ: Mapping[str, str] = os.environ
) -> EngineChoice:
    """The engine for this many ledgers; SettingsError when the one asked for cannot run here.

    `requested` has passed `check_engine`, which needs no number of ledgers.
    """
    uses_spark = requested in (SPARK_LOCAL, SPARK_KUBERNETES)
    if uses_spark and (missing := spark_obstacle()) is not None:
        raise SettingsError(f"engine {requested} cannot run here: {missing}")
    if requested != AUTO:
        return EngineChoice(requested, "asked for")
    if ledgers < SPARK_LEDGERS_MIN:
        return EngineChoice(INLINE, f"{ledgers} ledgers, fewer than {SPARK_LEDGERS_MIN}")
    if (missing := spark_obstacle()) is not None:
        return EngineChoice(INLINE, f"{ledgers} ledgers, but Spark cannot run here: {missing}")
    many = f"{ledgers} ledgers, {SPARK_LEDGERS_MIN} or more"
    if driver_obstacle(environ) is None:
        return EngineChoice(SPARK_KUBERNETES, f"{many}, in a pod that may make executors")
    return EngineChoice(SPARK_LOCAL, many)


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
