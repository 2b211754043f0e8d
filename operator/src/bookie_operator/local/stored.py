"""What a directory of the local platform remembers of its cluster."""

from pathlib import Path
from typing import Final

from bookie_operator.errors import LocalError
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.platform.folders import LocalFolders, read_json

EXAMPLE: Final = Path(__file__).with_name("example.yaml")
"""A BookieCluster for who has no manifest; examples/bookiecluster.yaml is the same text."""


def stored_cluster(folders: LocalFolders) -> BookieCluster | None:
    """The cluster as last published in this directory; None = nothing was ever brought up."""
    tree = read_json(folders.status_file)
    return BookieCluster.model_validate(tree) if tree is not None else None


def known_cluster(folders: LocalFolders) -> BookieCluster:
    """As `stored_cluster`; LocalError when nothing was ever brought up."""
    cluster = stored_cluster(folders)
    if cluster is None:
        raise LocalError(f"nothing was ever brought up in {folders.root}: choose --dir")
    return cluster


def manifest_of(folders: LocalFolders) -> Path:
    """The manifest that the directory was brought up with last, or else the example."""
    return folders.cluster_file if folders.cluster_file.exists() else EXAMPLE
