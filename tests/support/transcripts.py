"""Texts that are written down beside a test: syrupy compares each, in a file of its own.

A claim says what somebody thought of. A transcript says all of what was made, so that also what
nobody thought of cannot change unseen: whoever changes it reads the difference and commits it
(`make transcripts`). It judges change, not truth: what was wrong when it was written stays wrong.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

import yaml
from bookie.testing.figures import release
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

RELEASE: Final = release()


class _Lines(yaml.SafeDumper):
    """A text of several lines is written as such."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Lines.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    ),
)


class Manifests(SingleFileSnapshotExtension):
    """Objects of Kubernetes as YAML, ordered by kind and name, without the number of a release."""

    _write_mode = WriteMode.TEXT
    file_extension = "yaml"

    def serialize(self, data: Iterable[dict[str, Any]], **_: Any) -> str:
        ordered = sorted(data, key=_place)
        return _without_release(yaml.dump_all(ordered, Dumper=_Lines, width=100, sort_keys=True))


class Words(SingleFileSnapshotExtension):
    """What a person reads, as it is."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"

    def serialize(self, data: str, **_: Any) -> str:
        return _without_release(data)


def _place(tree: dict[str, Any]) -> tuple[str, str, str]:
    metadata = tree.get("metadata", {})
    return tree.get("kind", ""), metadata.get("namespace", ""), metadata.get("name", "")


def _without_release(text: str) -> str:
    return re.sub(rf"(?<![\w.]){re.escape(RELEASE)}(?![\w.])", "RELEASE", text)
