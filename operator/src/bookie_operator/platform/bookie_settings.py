"""The settings file of one bookie, on any platform. Pure; a platform writes it.

Every byte counts: on Kubernetes the ConfigMap's name is made from its content, so another text
would be another ConfigMap for a bookie that nobody changed. Keys keep their order, and values that
are not given are left out, so that a new key changes only files that have it.
"""

from collections.abc import Mapping
from typing import Any, Final

import yaml

from bookie_operator.model.bookie_options import BookieOptions
from bookie_operator.model.storage_spec import DiskRole
from bookie_operator.observed import Volume
from bookie_operator.plan.actions import BookieTemplate

SECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "durability": ("journalWriteData", "ack", "flushIntervalSeconds", "noteIdleFlushes"),
    "storage": ("compactionBytesPerSecondBusy", "collectGraceSeconds", "collectShareMax"),
    "limits": ("recoveryBytesPerSecondBusy",),
}
"""Section of a bookie's settings -> the options of the spec that it holds, by their own names."""
NO_NOTES: Final = ("noteIdleFlushes", 0)
"""An absent field of a spec is as good as null, so the spec has 0 where a bookie has null."""


def settings_text(
    template: BookieTemplate,
    volumes: Mapping[str, Volume],
    *,
    metadata_url: str,
    directories: Mapping[str, str],
    ports: Mapping[str, int],
    host: str | None = None,
    runtime_file: str | None = None,
    credentials: str = "",
    users_file: str = "",
    login_file: str = "",
) -> str:
    """The settings of a bookie: the template's, and those that only its platform knows.

    `directories`: where the platform puts each disk, by the disk's name. `credentials`: the folder
    with those of this bookie, for one that speaks TLS. `users_file`, `login_file`: where the
    contents of the Secrets lie that the template names.
    """
    disks = {
        role: [
            {"directory": directories[disk.name], "volumeUid": volumes[disk.name].uid}
            for disk in template.disks
            if disk.role is role
        ]
        for role in DiskRole
    }
    [journal] = disks[DiskRole.JOURNAL]
    sections = _sections(template.options)
    settings = {
        "bookieId": template.bookie_id,
        "metadata": metadata_url,
        "host": host,
        "ports": dict(ports),
        "journal": journal,
        "ledgers": disks[DiskRole.LEDGER],
        "durability": sections.pop("durability"),
        "cookieFix": {"policy": "Approve" if template.asks_before_cookie_fix else "Never"},
        "runtimeFile": runtime_file,
        **sections,
        "zookeeper": {"credentialsFile": login_file} if template.login_secret else None,
        "tls": _tls(template, credentials),
        "authentication": _authentication(template, users_file),
    }
    given = {name: value for name, value in settings.items() if value is not None}
    return yaml.safe_dump(given, sort_keys=False)


def _tls(template: BookieTemplate, credentials: str) -> dict[str, Any] | None:
    if template.tls is None:
        return None
    section: dict[str, Any] = {"directory": credentials, "mode": template.tls.mode.value}
    return section | ({"http": True} if template.tls.http else {})


def _authentication(template: BookieTemplate, users_file: str) -> dict[str, Any] | None:
    asked = template.authentication
    if asked is None:
        return None
    section: dict[str, Any] = {"mechanisms": list(asked.mechanisms)}
    return section | ({"usersFile": users_file} if asked.users_secret else {})


def _written(name: str, value: Any) -> Any:
    return None if (name, value) == NO_NOTES else value


def _sections(options: BookieOptions) -> dict[str, dict[str, Any]]:
    """The sections that somebody has set an option of."""
    given = options.as_dict()
    sections = {
        section: {name: _written(name, given[name]) for name in names if name in given}
        for section, names in SECTIONS.items()
    }
    return {section: values for section, values in sections.items() if values}
