"""The volumes that every bookie has: their number, roles, names and sizes."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, StringConstraints, field_validator

from bookie_operator.model.base import NAME_PATTERN, Resource, ShortText, rule
from bookie_operator.model.quantity import Size

DISKS_MAX: Final = 32


class DiskRole(StrEnum):
    JOURNAL = "journal"
    LEDGER = "ledger"


class Disk(Resource):
    """A volume that every bookie has. Name, role and order cannot change."""

    name: Annotated[str, StringConstraints(pattern=NAME_PATTERN, max_length=20)]
    """Name of the disk: a DNS label of at most 20 characters, such as `ledger-0`. It is part of the
    name of the volume claim."""
    role: DiskRole
    """`journal` or `ledger`. A bookie has exactly one journal and one or more ledger disks."""
    size: Size = "10Gi"
    """Size of the volume, such as `10Gi`. It can grow but not shrink."""
    storage_class: ShortText = ""
    """Storage class of the volume. Empty: the default class of the Kubernetes cluster. A change
    affects only volumes that are made later; `status.blocked` names volumes of another class."""


class Storage(Resource):
    """Volumes on which each bookie stores its data."""

    disks: Annotated[
        tuple[Disk, ...],
        Field(
            min_length=2,
            max_length=DISKS_MAX,
            json_schema_extra={
                "x-kubernetes-list-type": "atomic",
                "x-kubernetes-validations": [
                    rule(
                        "self.exists_one(d, d.role == 'journal')",
                        "storage.disks needs exactly one disk of role journal",
                    ),
                    rule(
                        "self.all(d, self.exists_one(o, o.name == d.name))",
                        "storage.disks must have different names",
                    ),
                    rule(
                        "self.map(d, d.name + '/' + d.role) == "
                        "oldSelf.map(d, d.name + '/' + d.role)",
                        "number, order, name and role of disks cannot change: "
                        "ledgers are routed by them",
                    ),
                    rule(
                        "self.all(d, oldSelf.all(o, o.name != d.name || "
                        "quantity(d.size).compareTo(quantity(o.size)) >= 0))",
                        "a disk's size can only grow",
                    ),
                ],
            },
        ),
    ]
    """Volumes of each bookie: one of role journal and at least one of role ledger. Their number,
    order, names and roles cannot change, since they determine which disk holds a ledger."""

    @field_validator("disks")
    @classmethod
    def _roles_and_names(cls, disks: tuple[Disk, ...]) -> tuple[Disk, ...]:
        journals = sum(disk.role is DiskRole.JOURNAL for disk in disks)
        if journals != 1:
            raise ValueError(f"found {journals} disks of role journal, expected exactly one")
        names = [disk.name for disk in disks]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"found {', '.join(twice)} twice, expected different names")
        return disks
