"""What a ledger is opened with is shown nowhere: no repr has it, and no error of a stored value."""

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import fields, is_dataclass

import bookie.frames
import bookie.metadata
import bookie.protocol
import bookie.storage
import pytest
from bookie.errors import MetadataFormatError
from bookie.ids import LedgerId
from bookie.metadata.codec import decode_ledger, encode_ledger
from metadata_cases import some_ledger

SECRETS = ("password", "master_key", "secret")
PACKAGES = (bookie.frames, bookie.metadata, bookie.protocol, bookie.storage)
L1 = LedgerId(1)


def dataclasses() -> Iterator[type]:
    for package in PACKAGES:
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(found.name)
            yield from (one for one in vars(module).values() if isinstance(one, type))


def test_no_repr_has_what_opens_a_ledger() -> None:
    secret = [
        (kind.__name__, field)
        for kind in filter(is_dataclass, dataclasses())
        for field in fields(kind)
        if field.name in SECRETS
    ]
    assert secret and [f"{kind}.{field.name}" for kind, field in secret if field.repr] == []


@pytest.mark.parametrize("ledger_id", [L1, LedgerId(2**40)])
def test_no_error_of_a_broken_value_repeats_a_password(ledger_id: LedgerId) -> None:
    raw = encode_ledger(some_ledger(ledger_id, password=b"hunter-2"))
    said = []
    for length in range(len(raw)):
        for broken in (raw[:length], raw[length:], raw[:length] + b"\xff" + raw[length:]):
            try:
                decode_ledger(broken, ledger_id=ledger_id, stored_at_ms=0)
            except MetadataFormatError as error:
                said.append(f"{error} {error!r} {error.__cause__!r}")
    assert said and not [words for words in said if "hunter" in words]
