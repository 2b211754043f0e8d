"""Programs that the stories run: with a deadline, and with what they printed when they fail."""

import os
import subprocess
from collections.abc import Mapping, Sequence

from harness.settings import PATIENCE


class CommandError(AssertionError):
    """A program failed; the message is its command and the end of what it printed."""

    def __init__(self, command: Sequence[str], code: int, output: str) -> None:
        super().__init__(f"{' '.join(command)}\nended with {code}:\n{output[-4000:]}")
        self.code = code
        self.output = output


def run(
    command: Sequence[str],
    *,
    stdin: str | None = None,
    seconds: float = 60.0,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Its stdout; CommandError when it fails or is not done in time."""
    try:
        done = subprocess.run(
            list(command),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=seconds * PATIENCE,
            check=False,
            env={**os.environ, **(environment or {})},
        )
    except subprocess.TimeoutExpired as error:
        raise CommandError(
            command, -1, f"not done after {seconds * PATIENCE} s; {error.stderr!r}"
        ) from None
    if done.returncode != 0:
        raise CommandError(command, done.returncode, done.stdout + done.stderr)
    return done.stdout
