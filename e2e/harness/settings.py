"""Variables of the e2e run, with ordinary defaults; the README of e2e explains them."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

ROOT: Final = Path(__file__).parents[2]
ARTIFACTS: Final = ROOT / "e2e" / "artifacts"
TAG: Final = os.environ.get("E2E_TAG", "dev")
"""Of the images; spec.image and the chart's values say the same."""
PATIENCE: Final = float(os.environ.get("E2E_PATIENCE", "1"))
"""By how much every wait is longer than on a machine of 2 cores that does nothing else."""
BUILD: Final = f"make images TAG={TAG}"
BUILD_BEFORE: Final = "make images-before"
IMAGES: Final = tuple(f"bookie-operator/{name}:{TAG}" for name in ("bookie", "operator", "repair"))


@dataclass(frozen=True, slots=True)
class Settings:
    """`cluster_up`: a command that prints a kubeconfig's path, or leaves the current one set."""

    cluster_up: str
    cluster_name: str
    node_image: str
    base_image: str
    """What the images are built from, by the command below as it is by default."""
    tools: str
    """Folders with kind, kubectl and helm, in front of PATH."""
    build: str
    """The command that builds the images; empty = they are there."""
    build_before: str
    """The command that builds those of the release before; empty = they are there."""
    keep: bool
    """Leave clusters, namespaces and the operator as they are at the end."""

    @classmethod
    def from_environment(cls) -> Self:
        build = os.environ.get("E2E_BUILD", BUILD)
        offline = " OFFLINE=1" if "OFFLINE=1" in build else ""
        build_before = f"{BUILD_BEFORE}{offline}" if build else ""
        return cls(
            cluster_up=os.environ.get("E2E_CLUSTER_UP", ""),
            cluster_name=os.environ.get("E2E_CLUSTER_NAME", "bookie-e2e"),
            node_image=os.environ.get("E2E_NODE_IMAGE", ""),
            base_image=os.environ.get("E2E_BASE_IMAGE", "python:3.11-slim"),
            tools=os.environ.get("E2E_TOOLS", ""),
            build=build,
            build_before=os.environ.get("E2E_BUILD_BEFORE", build_before),
            keep=os.environ.get("E2E_KEEP", "0") != "0",
        )

    @property
    def builds_from_base(self) -> bool:
        """Not from wheels, as with OFFLINE=1, and not by a command of the user's own."""
        return self.build == BUILD and not os.environ.get("OFFLINE")

    def path(self) -> str:
        """PATH of every command that is started."""
        path = os.environ.get("PATH", os.defpath)
        return f"{self.tools}{os.pathsep}{path}" if self.tools else path
