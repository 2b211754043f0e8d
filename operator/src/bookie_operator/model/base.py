"""Ground of all resources: the API group, the pydantic configuration, object metadata.

Python names are snake_case, manifests camelCase. Defaults live in the models and so in the CRDs'
schemas; the operator parses leniently (an older operator meets a newer object), people's manifests
are parsed strictly (`manifest.py`).
"""

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints
from pydantic.alias_generators import to_camel

GROUP: Final = "bookkeeper.bookie-operator.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = "bookkeeper.bookie-operator.dev/v1alpha1"
CATEGORY: Final = "bookkeeper"

NAME_PATTERN: Final = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
NAME_LENGTH_MAX: Final = 40
"""`NAME-bookie-99` plus a revision's hash, or plus a job's epoch and attempt, are values of labels
of pods, which Kubernetes limits to 63."""

Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN, max_length=NAME_LENGTH_MAX)]
"""A DNS label, short enough that names derived from it stay below Kubernetes' limit."""

ShortText = Annotated[str, StringConstraints(max_length=253)]
LongText = Annotated[str, StringConstraints(max_length=1024)]


class Resource(BaseModel):
    """A part of a custom resource: frozen, camelCase outside, unknown fields ignored."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        extra="ignore",
        validate_default=True,
        use_attribute_docstrings=True,
    )

    def as_dict(self) -> dict[str, Any]:
        """The object as manifests spell it: camelCase, JSON types, absent values left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class ObjectMeta(Resource):
    """The part of Kubernetes' object metadata that the operator reads."""

    name: Name
    namespace: ShortText = ""
    uid: ShortText = ""
    generation: Annotated[int, Field(ge=0)] = 0
    resource_version: ShortText = ""
    deletion_timestamp: ShortText = ""
    annotations: dict[str, str] = Field(default_factory=dict)


def rule(expression: str, message: str) -> dict[str, JsonValue]:
    """One CEL rule of a CRD schema."""
    return {"rule": expression, "message": message}
