"""What a directory of the local platform stores about its cluster."""

import os
import time
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from bookie_operator.errors import LocalError
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.manifest import mistakes_of
from bookie_operator.platform.folders import LocalFolders, operator_pid, read_json
from bookie_operator.status_tree.ages import span

EXAMPLE: Final = Path(__file__).with_name("example.yaml")
"""The BookieCluster for people who have no manifest; examples/bookiecluster.yaml is the same."""

STALE_AFTER_S: Final = 30.0
"""A pass begins every half second and takes some seconds where bookies do not answer."""


def stored_cluster(folders: LocalFolders) -> BookieCluster | None:
    """The cluster that was last published in this directory; None = none was ever started.

    LocalError: the file is there and holds no cluster.
    """
    tree = read_json(folders.status_file)
    if tree is None:
        return None
    try:
        return BookieCluster.model_validate(tree)
    except ValidationError as error:
        why = "; ".join(mistakes_of(BookieCluster, error))
        raise LocalError(
            f"{folders.status_file} holds no BookieCluster: {why}: move it away to go on"
        ) from error


def known_cluster(folders: LocalFolders) -> BookieCluster:
    """The cluster that was last published; LocalError if none was ever started here."""
    cluster = stored_cluster(folders)
    if cluster is None:
        raise LocalError(f"no cluster was ever started in {folders.root}: choose another --dir")
    return cluster


def mark_looked(folders: LocalFolders, *, began_s: float) -> bool:
    """Remember in the time of the status file when the last successful pass began, since a status
    that does not change is not written again. False: the file was moved away. Blocking.
    """
    try:
        os.utime(folders.status_file, (began_s, began_s))
    except FileNotFoundError:
        return False
    return True


def no_look(folders: LocalFolders) -> str:
    """Since when the operator has not looked at the cluster, in words, if that is too long; empty:
    it looks. Blocking.
    """
    age = time.time() - folders.status_file.stat().st_mtime
    if abs(age) <= STALE_AFTER_S:
        return ""
    if age < 0:  # a pass would have put the time right
        return "has not looked at the cluster since the clock was set back"
    return f"has not looked at the cluster for {span(age)}"


def why_not_current(folders: LocalFolders) -> str:
    """Why the last published status may no longer be true; empty: it is kept current. Blocking."""
    pid = operator_pid(folders)
    if pid is None:
        return "no operator runs: this is the last known status"
    if why := no_look(folders):
        return (
            f"the operator (process {pid}) {why}: this is the last known status; see "
            f"{folders.operator_log} and {folders.events_file}"
        )
    return ""


def manifest_of(folders: LocalFolders) -> Path:
    """The manifest that this directory was started with last, or else the example."""
    return folders.cluster_file if folders.cluster_file.exists() else EXAMPLE
