"""What a directory of the local platform stores about its cluster."""

from pathlib import Path
from typing import Final

from bookie_operator.errors import LocalError
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.platform.folders import LocalFolders, read_json

EXAMPLE: Final = Path(__file__).with_name("example.yaml")
"""The BookieCluster for people who have no manifest; examples/bookiecluster.yaml is the same."""


def stored_cluster(folders: LocalFolders) -> BookieCluster | None:
    """The cluster that was last published in this directory; None = none was ever started."""
    tree = read_json(folders.status_file)
    return BookieCluster.model_validate(tree) if tree is not None else None


def known_cluster(folders: LocalFolders) -> BookieCluster:
    """The cluster that was last published; LocalError if none was ever started here."""
    cluster = stored_cluster(folders)
    if cluster is None:
        raise LocalError(f"no cluster was ever started in {folders.root}: choose another --dir")
    return cluster


def manifest_of(folders: LocalFolders) -> Path:
    """The manifest that this directory was started with last, or else the example."""
    return folders.cluster_file if folders.cluster_file.exists() else EXAMPLE
