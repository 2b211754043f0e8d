"""Basis of all resources: the API group, the pydantic configuration, object metadata.

Names are snake_case in Python and camelCase in manifests. The models have the defaults, and so the
CRDs' schemas have them. The operator ignores unknown fields, since it may be older than an object;
people's manifests must not have any (`manifest.py`).
"""

from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    StringConstraints,
    model_serializer,
)
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from bookie import pods

GROUP: Final = pods.GROUP
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
LONG_TEXT_MAX: Final = 1024
LongText = Annotated[str, StringConstraints(max_length=LONG_TEXT_MAX)]
Count = Annotated[int, Field(ge=0)]


OPEN_OBJECT: Final[dict[str, Any]] = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
}
"""Schema of a part that Kubernetes defines and its API server checks."""


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
        """The object as in a manifest: camelCase, JSON types, without absent values."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class StatusPart(Resource):
    """A part of a status; its JSON has no empty optional fields.

    Otherwise `kubectl describe` would show 300 lines that are mostly empty. Numbers stay, since 0
    is information. `untouched`: names of sections that are also left out while they still have
    their default value.
    """

    untouched: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _without_nothing(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        nothing = [
            name for name, field in type(self).model_fields.items() if self._lacks(name, field)
        ]
        names = {*nothing, *map(to_camel, nothing)}
        return {key: value for key, value in whole(self).items() if key not in names}

    def _lacks(self, name: str, field: FieldInfo) -> bool:
        value = getattr(self, name)
        is_empty = not value and isinstance(value, str | tuple | dict)
        is_untouched = name in self.untouched and value == field.default
        return not field.is_required() and (is_empty or is_untouched)


class ObjectMeta(Resource):
    """The part of Kubernetes' object metadata that the operator reads."""

    name: Name
    """Name of the object, of at most 40 characters."""
    namespace: ShortText = ""
    """Namespace of the object; empty on the local platform."""
    uid: ShortText = ""
    """Id of this object; a later object of the same name has another one."""
    generation: Annotated[int, Field(ge=0)] = 0
    """Number of changes of the spec, as the API server counts them; 0 = not known."""
    resource_version: ShortText = ""
    """Version of the object as it was read, so that a write cannot overwrite another change."""
    deletion_timestamp: ShortText = ""
    """When somebody asked to delete it; empty = nobody has."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """Annotations, as people and other programs wrote them."""


def rule(expression: str, message: str) -> dict[str, JsonValue]:
    """One CEL rule of a CRD schema."""
    return {"rule": expression, "message": message}


def whole_milliseconds(moment: datetime) -> datetime:
    """The moment in UTC, cut to milliseconds, as the status stores it."""
    moment = moment.astimezone(UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
