"""What an open found."""

import pytest
from bookie.storage.opening import OpenReport


@pytest.mark.parametrize("finding", ["torn", "journal_lost", "index_rebuilt"])
def test_each_finding_alone_makes_an_open_suspect(finding: str) -> None:
    assert OpenReport(**{finding: True}).is_suspect and not OpenReport().is_suspect
