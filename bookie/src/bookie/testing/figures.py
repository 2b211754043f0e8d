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
    """The commit that is checked out, with `+` when files differ from it; `unknown` without git."""
    here = Path(__file__).parent
    found = subprocess.run(
        ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"],
        cwd=here,
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() or "unknown"


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
