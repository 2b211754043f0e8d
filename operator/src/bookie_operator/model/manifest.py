"""Reads people's manifests from YAML into models; every mistake becomes one sentence.

A sentence names the path of the field, what was found, and what is expected.
"""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from bookie.yaml_text import YAML_CHARACTERS_MAX, parse_yaml
from pydantic import BaseModel, ValidationError

from bookie_operator.errors import ManifestError
from bookie_operator.model.base import Resource
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.task import BookieTask

Model = TypeVar("Model", bound=Resource)


def load_cluster(path: Path) -> BookieCluster:
    """The one BookieCluster of a YAML file; ManifestError says everything that is wrong."""
    return _load(path, BookieCluster)


def load_task(path: Path) -> BookieTask:
    return _load(path, BookieTask)


def parse(model: type[Model], tree: object, *, source: str) -> Model:
    """A model from parsed YAML or JSON; unknown fields are mistakes."""
    try:
        return model.model_validate(tree, extra="forbid")
    except ValidationError as error:
        sentences = [f"  {sentence}" for sentence in mistakes_of(model, error)]
        raise ManifestError("\n".join([f"{source} is not valid:", *sentences])) from error


def mistakes_of(model: type[BaseModel], error: ValidationError) -> list[str]:
    """One sentence for each mistake."""
    return [_sentence(model, dict(mistake)) for mistake in error.errors()]


def _load(path: Path, model: type[Model]) -> Model:
    try:
        with path.open(encoding="utf-8") as file:
            documents = parse_yaml(file.read(YAML_CHARACTERS_MAX + 1))
    except OSError as error:
        raise ManifestError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise ManifestError(f"{path} is not valid YAML: {error}") from error
    found = [tree for tree in documents if tree is not None]
    kinds = [tree.get("kind") if isinstance(tree, dict) else type(tree).__name__ for tree in found]
    if kinds != [model.__name__]:
        names = ", ".join(str(kind) for kind in kinds) or "nothing"
        raise ManifestError(f"{path}: found {names}; expected exactly one {model.__name__}")
    return parse(model, found[0], source=str(path))


def _sentence(model: type[BaseModel], mistake: Mapping[str, Any]) -> str:
    location = mistake["loc"]
    where = _path(location)
    found = mistake["input"]
    if mistake["type"] == "extra_forbidden":
        known = _known_fields(model, location[:-1])
        close = difflib.get_close_matches(str(location[-1]), known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"expected one of {', '.join(known)}"
        return f"{where}: unknown field; {hint}"
    if mistake["type"] == "missing":
        return f"{where}: found nothing, expected a value"
    if mistake["type"] == "value_error":  # our own: they name found and expected themselves
        return f"{where}: {str(mistake['msg']).removeprefix('Value error, ')}"
    context = mistake.get("ctx", {})
    expected = context.get("expected") or context.get("pattern")
    expectation = f"expected {expected}" if expected else str(mistake["msg"]).replace("Input", "it")
    return f"{where}: found {_brief(found)}, {expectation}"


def _path(location: Sequence[str | int]) -> str:
    text = ""
    for step in location:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".") or "manifest"


def _brief(found: object) -> str:
    text = repr(found)
    return text if len(text) <= 60 else text[:57] + "..."


def _known_fields(model: type[BaseModel], location: Sequence[str | int]) -> list[str]:
    """Names (as manifests spell them) of the fields at `location`."""
    current: object = model
    for step in location:
        if isinstance(step, str):
            fields = _fields_of(current)
            current = fields.get(step, current)
    return sorted(_fields_of(current))


def _fields_of(annotation: object) -> dict[str, object]:
    found = _model_in(annotation)
    if found is None:
        return {}
    return {field.alias or name: field.annotation for name, field in found.model_fields.items()}


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        found = _model_in(argument)
        if found is not None:
            return found
    return None
