"""What a proving command found: one JSON file, and one last line for whoever ran it.

The commands are `make model`, `sim`, `mutants`, `crash-images`, `soak`. `docs/safety.md` shows the
figures of such files; nobody types them.
"""

import json
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any


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


def tell(command: str, figures: Mapping[str, Any], *, path: Path, line: str) -> None:
    """Writes the figures to `path` and prints `line` last; `command` is what to run for them."""
    content = {
        "command": command,
        "revision": code_revision(),
        "python": platform.python_version(),
        **figures,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"{line} ({path})", flush=True)
