"""What a bookie of a cluster is told, on each platform."""

from pathlib import Path
from typing import Any, Final

import yaml
from bookie.ids import BookieId
from bookie_operator.observed import Volume
from bookie_operator.plan.actions import template_of
from bookie_operator.platform.folders import LocalFolders
from bookie_operator.platform.kubelet import process_settings
from bookie_operator.platform.kubernetes.bookies import pod_settings
from operator_scenes import cluster

B0: Final = BookieId("bookie-0")
URL: Final = "zk://zk:2181/ledgers"


def settings(**spec: Any) -> list[dict[str, Any]]:
    """On Kubernetes, and on the local platform."""
    template = template_of(cluster(**spec).spec, B0)
    volumes = {disk.name: Volume(disk.name, f"{disk.name}-uid") for disk in template.disks}
    folders = LocalFolders(Path("/fleet"))
    texts = (
        pod_settings(template, volumes, URL),
        process_settings(template, volumes, folders=folders, metadata_url=URL),
    )
    return [yaml.safe_load(text) for text in texts]
