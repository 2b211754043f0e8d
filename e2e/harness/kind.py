"""A kind cluster: found, brought up, refused; its nodes as containers; images handed to them.

Only contexts that begin with `kind-` are ever touched. A cluster that was made here is deleted at
the end, one that was there is left as it was.
"""

import json
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.commands import CommandError, run
from harness.kube import Kube, current_context, kubeconfig_in_use
from harness.settings import IMAGES, ROOT, Settings

PREFIX: Final = "kind-"
UP_S: Final = 600.0
BUILD_S: Final = 1500.0
LOAD_S: Final = 300.0


class NoClusterError(Exception):
    """Nothing to run against; the message is the reason why the stories are skipped."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind cluster."""

    kube: Kube
    settings: Settings
    is_ours: bool
    """Made here: goes at the end."""

    @property
    def name(self) -> str:
        return self.kube.context.removeprefix(PREFIX)

    def on_node(self, node: str, script: str, *, seconds: float = 60.0) -> str:
        """What a shell script prints on a node."""
        return self.kube.tool("docker", "exec", node, "sh", "-ec", script, seconds=seconds)

    def nodes(self) -> list[str]:
        return [str(node["metadata"]["name"]) for node in self.kube.items("nodes")]

    def loaded(self, node: str) -> dict[str, str]:
        """Image ids by name, as the node's container runtime has them."""
        found = json.loads(self.on_node(node, "crictl images -o json"))["images"]
        return {
            tag.removeprefix("docker.io/"): str(image["id"]).removeprefix("sha256:")
            for image in found
            for tag in image["repoTags"]
        }

    def load(self, image: str) -> bool:
        """Hand an image to the nodes unless they have it; whether anything was done."""
        wanted = built(image, self.kube.path)
        if wanted is None:
            raise NoClusterError(f"image {image} is not there: `make images` builds it")
        if all(self.loaded(node).get(image) == wanted for node in self.nodes()):
            return False
        self.kube.tool("kind", "load", "docker-image", image, "--name", self.name, seconds=LOAD_S)
        return True

    def load_as(self, image: str, other: str) -> None:
        """The same image under another name, there too."""
        self.kube.tool("docker", "tag", image, other)
        self.load(other)

    def down(self) -> None:
        if self.is_ours and not self.settings.keep:
            self.kube.tool("kind", "delete", "cluster", "--name", self.name, seconds=120.0)


def missing_tool(settings: Settings) -> str:
    """Why there can be no cluster here, empty when there may be one; looks at PATH only."""
    path = settings.path()
    for tool in ("kubectl", "docker", "kind", "helm"):
        if not settings.cluster_up and shutil.which(tool, path=path) is None:
            return f"no {tool} on PATH and no E2E_CLUSTER_UP"
    return ""


def bring_up(settings: Settings) -> Kind:
    """The cluster to run against; NoClusterError says why there is none."""
    path = settings.path()
    if reason := missing_tool(settings):
        raise NoClusterError(reason)
    if settings.cluster_up:
        return _by_command(settings, path)
    if current_context(path).startswith(PREFIX):
        kind = _kind(settings, kubeconfig_in_use(), is_ours=False)
        if _answers(kind):
            return kind
    return _own(settings, path)


def _by_command(settings: Settings, path: str) -> Kind:
    """E2E_CLUSTER_UP's word: the last line that names a file is the kubeconfig."""
    done = subprocess.run(
        ("bash", "-c", settings.cluster_up),
        capture_output=True,
        text=True,
        timeout=UP_S,
        check=False,
    )
    if done.returncode != 0:
        tail = (done.stdout + done.stderr).strip().splitlines()[-1:]
        raise NoClusterError(f"E2E_CLUSTER_UP ended with {done.returncode}: {' '.join(tail)}")
    files = [line.strip() for line in done.stdout.splitlines() if Path(line.strip()).is_file()]
    kubeconfig = Path(files[-1]) if files else kubeconfig_in_use()
    for tool in ("kubectl", "docker", "kind", "helm"):
        if shutil.which(tool, path=path) is None:
            raise NoClusterError(
                f"no {tool} on PATH after E2E_CLUSTER_UP: name its folder in E2E_TOOLS"
            )
    return _kind(settings, kubeconfig, is_ours=False)


def _own(settings: Settings, path: str) -> Kind:
    """Our own cluster by name: an earlier one, or a new one."""
    environment = {"PATH": path}
    kubeconfig = ROOT / "e2e" / "artifacts" / f"{settings.cluster_name}.kubeconfig"
    kubeconfig.parent.mkdir(parents=True, exist_ok=True)
    name = ("--name", settings.cluster_name, "--kubeconfig", str(kubeconfig))
    try:
        known = run(("kind", "get", "clusters"), environment=environment).split()
        if settings.cluster_name in known:
            run(("kind", "export", "kubeconfig", *name), environment=environment)
            return _kind(settings, kubeconfig, is_ours=False)
        image = ("--image", settings.node_image) if settings.node_image else ()
        create = ("kind", "create", "cluster", *name, *image, "--wait", "180s")
        run(create, environment=environment, seconds=UP_S)
    except CommandError as error:
        raise NoClusterError(f"no kind cluster can be made: {_last_line(error)}") from error
    return _kind(settings, kubeconfig, is_ours=True)


def _kind(settings: Settings, kubeconfig: Path, *, is_ours: bool) -> Kind:
    """The guard: the kubeconfig's own context, and only one of kind's."""
    path = settings.path()
    words = ("kubectl", "--kubeconfig", str(kubeconfig), "config", "current-context")
    try:
        context = run(words, environment={"PATH": path}).strip()
    except CommandError as error:
        raise NoClusterError(f"{kubeconfig} names no context: {_last_line(error)}") from error
    if not context.startswith(PREFIX):
        raise NoClusterError(f"the context is {context!r}, expected one that begins with {PREFIX}")
    return Kind(Kube(kubeconfig, context, path), settings, is_ours)


def _answers(kind: Kind) -> bool:
    try:
        kind.kube("get", "--raw", "/readyz", seconds=15.0)
    except CommandError:
        return False
    return True


def _last_line(error: CommandError) -> str:
    lines = error.output.strip().splitlines()
    return lines[-1] if lines else str(error)


# Images
def built(image: str, path: str) -> str | None:
    """The id of an image that docker has here."""
    try:
        found = run(("docker", "image", "inspect", image), environment={"PATH": path})
    except CommandError:
        return None
    described: list[dict[str, Any]] = json.loads(found)
    return str(described[0]["Id"]).removeprefix("sha256:")


def build_images(settings: Settings) -> None:
    """`make images`, or what E2E_BUILD says, from the base image that the settings name."""
    _build(settings.build, settings)


def build_images_before(settings: Settings) -> None:
    """Those of the release before: `make images-before`, or what E2E_BUILD_BEFORE says."""
    if settings.build_before:
        _build(settings.build_before, settings)


def _build(words: str, settings: Settings) -> None:
    environment = {"PATH": settings.path()}
    if settings.builds_from_base:
        _have_base(settings)
        environment["IMAGE_ARGS"] = f"--build-arg BASE={settings.base_image}"
    command = ("bash", "-c", f"cd {shlex.quote(str(ROOT))} && {words}")
    run(command, seconds=BUILD_S, environment=environment)


def _have_base(settings: Settings) -> None:
    """Without a base there is nothing to build from, and that is no fault of this tree."""
    environment = {"PATH": settings.path()}
    if built(settings.base_image, settings.path()) is not None:
        return
    try:
        run(("docker", "pull", settings.base_image), seconds=BUILD_S, environment=environment)
    except CommandError as error:
        raise NoClusterError(
            f"base image {settings.base_image} cannot be had ({_last_line(error)}): name another "
            "in E2E_BASE_IMAGE, or a command that builds the images in E2E_BUILD"
        ) from error


def load_images(kind: Kind) -> list[str]:
    """The names of those that the nodes did not have yet."""
    if kind.settings.build:
        build_images(kind.settings)
    return [image for image in IMAGES if kind.load(image)]
