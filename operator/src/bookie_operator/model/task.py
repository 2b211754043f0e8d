"""BookieTask: one operation that a person asks of a cluster, once, with its outcome kept."""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import AwareDatetime, ConfigDict, StringConstraints, model_validator

from bookie_operator.model.base import (
    API_VERSION,
    LongText,
    Name,
    ObjectMeta,
    Resource,
    ShortText,
    rule,
)


class TaskType(StrEnum):
    REPAIR = "repair"
    AUDIT = "audit"
    APPROVE_COOKIE_FIX = "approve-cookie-fix"
    REPLACE_DISK = "replace-disk"


class TaskPhase(StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def is_final(self) -> bool:
        return self in (TaskPhase.SUCCEEDED, TaskPhase.FAILED)


BookieName = Annotated[str, StringConstraints(pattern=r"^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]


class TaskSpec(Resource):
    """What to do, to which cluster and bookie."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                rule("self == oldSelf", "a task cannot change: create another one"),
                rule(
                    "self.type == 'audit' || self.bookie != ''",
                    "bookie is needed by every task but audit",
                ),
                rule(
                    "self.type != 'approve-cookie-fix' || self.planId != ''",
                    "planId is needed: it names the fix that is approved",
                ),
                rule("self.type != 'replace-disk' || self.disk != ''", "disk is needed"),
            ]
        }
    )

    cluster: Name
    type: TaskType
    bookie: BookieName = ""
    disk: ShortText = ""
    plan_id: ShortText = ""
    approved_by: ShortText = ""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.type is not TaskType.AUDIT and not self.bookie:
            raise ValueError(f"bookie: found nothing, expected the bookie to {self.type.value}")
        if self.type is TaskType.APPROVE_COOKIE_FIX and not self.plan_id:
            raise ValueError("planId: found nothing, expected the id of the pending fix (status)")
        if self.type is TaskType.REPLACE_DISK and not self.disk:
            raise ValueError("disk: found nothing, expected the name of a disk")
        return self


class TaskStatus(Resource):
    phase: TaskPhase = TaskPhase.PENDING
    message: LongText = ""
    started_at: AwareDatetime | None = None
    finished_at: AwareDatetime | None = None
    target: ShortText = ""
    """What the task acts on: the job's name, or the uid of the volume that goes."""


class BookieTask(Resource):
    """A one-shot operation, as the API server stores it."""

    api_version: Literal["bookkeeper.bookie-operator.dev/v1alpha1"] = API_VERSION
    kind: Literal["BookieTask"] = "BookieTask"
    metadata: ObjectMeta
    spec: TaskSpec
    status: TaskStatus = TaskStatus()
