"""What ended work in Spark: an error of ours that a task raised, or that Spark itself gave up.

Spark reports pages of Java. A person, and the operator's status, get the one sentence that counts.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from bookie.errors import (
    BookieError,
    InconsistentError,
    MetadataFormatError,
    SettingsError,
    UnavailableError,
)

OWN_ERRORS: Final = {
    f"{kind.__module__}.{kind.__name__}": kind
    for kind in (InconsistentError, MetadataFormatError, SettingsError, UnavailableError)
}
"""Our errors by their names in a task's traceback, since Spark reports nothing else of an error."""
STAGE_FAILURE: Final = re.compile(
    r"Job aborted due to stage failure: (.+?)(?=\n\tat |\nDriver stacktrace|\nCaused by: |\Z)",
    re.DOTALL,
)
OUT_OF_MEMORY: Final = re.compile(r"java\.lang\.OutOfMemoryError.*")
OF_A_TASK: Final = "Traceback (most recent call last)"
"""Part of an error that Python code raised in a task."""
WORDS_MAX: Final = 600
JVM_ENDED: Final = "its JVM has ended: it ran out of memory, or somebody stopped it"
Value = TypeVar("Value")


def named_errors(work: Callable[[SparkSession], Value], spark: SparkSession) -> Value:
    """The work; where it fails, an error with a sentence instead of Spark's pages.

    That is ours if a task raised one of ours, and UnavailableError if Spark gave up, as when an
    executor ended again and again: another run may have better luck. Others stay as they are.
    """
    try:
        return work(spark)
    except BookieError:
        raise
    except Exception as error:
        names, text = "|".join(map(re.escape, OWN_ERRORS)), text_of(error)
        if raised := re.findall(rf"({names}): (.+)", text):
            name, message = raised[-1]
            raise OWN_ERRORS[name](message.strip()) from error
        why = why_given_up(text)
        if not why and not has_jvm(spark.sparkContext):
            why = JVM_ENDED
        if why:
            raise UnavailableError(f"Spark gave up: {why}") from error
        raise


def why_given_up(text: str) -> str:
    """Why Spark gave up by its own words; empty if it did not, or a task raised an error."""
    if OF_A_TASK in text:
        return ""
    found = STAGE_FAILURE.search(text)
    if found is not None:
        return " ".join(found[1].split())[:WORDS_MAX]
    found = OUT_OF_MEMORY.search(text)
    return found[0][:WORDS_MAX] if found is not None else ""


def text_of(error: Exception) -> str:
    """The error's words; empty when only the JVM knows them, and it has ended."""
    with suppress(Py4JError, OSError):
        return str(error)
    return ""


def java_reason(error: Exception) -> str:
    """The line that names Java's own exception, such as `: java.lang.Error: why`; empty: none."""
    return next((line for line in text_of(error).splitlines() if line.startswith(": ")), "")


def has_jvm(context: SparkContext) -> bool:
    """Whether the JVM behind a session answers."""
    try:
        context._jsc.sc().isStopped()
    except Py4JJavaError:
        return True
    except (Py4JError, OSError):
        return False
    return True
