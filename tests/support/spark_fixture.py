"""One Spark session for the whole test run: a session per test would cost ten seconds each."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A local session with the settings of the product; imports pyspark only when asked for."""
    from bookie.repair.spark.session import spark_session

    with spark_session() as session:
        yield session
