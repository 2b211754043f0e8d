"""What a proving command found: one JSON file, and one last line for the person who ran it.

The commands are `make model`, `sim`, `mutants`, `crash-images`, `soak`. `docs/safety.md` shows the
figures of such files; nobody types them. Each says what code it speaks of: the revision, and the
digest of the core, which changes with the core only.
"""

import hashlib
import json
import platform
import subprocess
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import bookie

CORE: Final = (
    "boot",
    "client",
    "frames",
    "metadata",
    "protocol",
    "repair",
    "server",
    "storage",
    "wire",
)
"""Packages of `bookie` that the promises rest on; the command line and the fakes are none."""
SHARED: Final = ("errors.py", "ids.py", "points.py", "progress.py", "rows.py")
"""Modules that these packages share."""
GENERATED: Final = ("_pb2.py", "_pb2_grpc.py")
DIGEST_CHARACTERS: Final = 12
PROJECT: Final = Path(__file__).parents[4] / "pyproject.toml"


def core_digest() -> str:
    """A digest of the core's sources, which does not depend on the commit."""
    root = Path(str(bookie.__file__)).parent
    paths = [path for package in CORE for path in (root / package).rglob("*.py")]
    paths += [root / name for name in SHARED]
    return digest_of((path.relative_to(root).as_posix(), path.read_bytes()) for path in paths)


def digest_of(files: Iterable[tuple[str, bytes]]) -> str:
    """The digest of these files of `bookie` (path within it, content), generated ones left out."""
    whole = hashlib.sha256()
    for path, content in sorted(files):
        if not path.endswith(GENERATED):
            whole.update(f"{path} {len(content)}\n".encode())
            whole.update(content)
    return whole.hexdigest()[:DIGEST_CHARACTERS]


def release() -> str:
    """The version that these sources are on the way to; `unknown` outside of the repository."""
    if not PROJECT.exists():
        return "unknown"
    return str(tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["version"])


def code_revision() -> str:
    """The commit that is checked out, with `+` when files differ from it; `unknown` without git.

    Pages do not count: one command writes its figures there before the next one asks.
    """
    commit = _git("rev-parse", "--short=12", "HEAD")
    but_pages = (":/", ":(exclude,top)docs")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", *but_pages)
    return f"{commit}+" if changed else commit or "unknown"


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()


def source() -> dict[str, str]:
    """What a figure says of the code that it was found on."""
    return {"revision": code_revision(), "core": core_digest(), "release": release()}


def tell(
    command: str,
    figures: Mapping[str, Any],
    *,
    path: Path,
    line: str,
    of: Mapping[str, str] | None = None,
) -> None:
    """Writes the figures to `path` and prints `line` last; `command` is what to run for them.
    `of`: `source()` as it was when a long run began, since somebody may change the tree meanwhile.
    """
    content = {
        "command": command,
        **(source() if of is None else of),
        "python": platform.python_version(),
        **figures,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"{line} ({path})", flush=True)
