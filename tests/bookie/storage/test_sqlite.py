"""What every index asks of SQLite."""

import sqlite3

import pytest
from bookie.storage.sqlite import all_or_nothing


def test_a_transaction_that_fails_changes_nothing_and_the_next_one_begins() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE t (x)")
    with pytest.raises(ZeroDivisionError), all_or_nothing(connection):
        connection.execute("INSERT INTO t VALUES (1)")
        raise ZeroDivisionError
    with all_or_nothing(connection):
        connection.execute("INSERT INTO t VALUES (2)")
    assert connection.execute("SELECT x FROM t").fetchall() == [(2,)]
    connection.close()
