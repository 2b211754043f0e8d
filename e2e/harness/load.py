"""The writer's pod, from outside: start, how far it is, stop, and the check of every entry."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from harness.commands import CommandError
from harness.kube import Kube, LateError, Object, wait_for
from harness.manifests import (
    BOOKIE_IMAGE,
    JOB_CREDENTIALS,
    OFF,
    REQUIRED,
    WRITER,
    WRITER_SCRIPT,
    writer_pod,
    writer_script,
)

START_S: Final = 60.0
STOP_S: Final = 60.0
CHECK_S: Final = 180.0
UNDECIDED: Final = 4
"""The highest exit code of an audit that told what it found (docs/cli.md)."""


class Load:
    """One writer in one namespace."""

    def __init__(
        self,
        kube: Kube,
        metadata_url: str,
        *,
        image: str = BOOKIE_IMAGE,
        script: Path = WRITER_SCRIPT,
        pod: str = WRITER,
        clients: str = REQUIRED,
    ) -> None:
        """`clients`: how it talks, `spec.tls.mode` of the cluster."""
        self._kube = kube
        self._metadata_url = metadata_url
        self._image = image
        self._script = script
        self._pod = pod
        self._clients = clients

    def start(self, *, prefill: tuple[int, int] = (0, 0), rate: int = 240) -> "Load":
        """Begin to write and wait for the first acks; `prefill`: ledgers and MiB before that."""
        ledgers, mib = prefill
        words = ["--rate", str(rate)]
        if ledgers:
            words += ["--prefill-ledgers", str(ledgers), "--prefill-mib", str(mib)]
        namespace = self._kube.namespace
        self._kube.apply(
            writer_script(namespace, self._script),
            writer_pod(
                namespace,
                self._metadata_url,
                self._image,
                *words,
                name=self._pod,
                clients=self._clients,
            ),
        )
        wait_for(
            f"the first acks of at least {ledgers} ledgers",
            lambda: self._has(lambda progress: progress["ledgers"] > ledgers),
            seconds=START_S + mib,
        )
        return self

    def progress(self) -> Object:
        """The writer's last word; it fails when the writer has failed."""
        lines = self._kube.logs(self._pod, "--tail", "30").splitlines()
        said = [json.loads(line) for line in lines if line.startswith("{")]
        ended = [line["ended"] for line in said if "ended" in line]
        if ended and ended[0] != 0:
            raise AssertionError("the writer failed:\n" + "\n".join(lines))
        progress = [line for line in said if "acked" in line]
        found: Object = progress[-1] if progress else {"acked": 0, "ledgers": 0, "stopped": False}
        return found

    def acked(self) -> int:
        return int(self.progress()["acked"])

    def goes_on(self, *, entries: int = 200, seconds: float = 60.0) -> None:
        """Wait until so many more entries are acknowledged."""
        before = self.acked()
        try:
            self._wait(lambda progress: progress["acked"] >= before + entries, seconds)
        except LateError as error:
            raise LateError(f"{error}; the writer says {self.progress()}") from None

    def stop(self) -> Object:
        """End the writing; the writer's last word."""
        self._kube("exec", self._pod, "--", "touch", "/state/stop")
        return self._wait(lambda progress: progress["stopped"], STOP_S)

    def notes(self) -> str:
        """Of what was acknowledged."""
        return self._kube("exec", self._pod, "--", "cat", "/state/acked")

    def append_one(self) -> None:
        """A ledger of one entry, by the command; CommandError when it is not acknowledged."""
        words = ("bookie", "ledger", "write", "--metadata", self._metadata_url)
        self._kube("exec", "--stdin", self._pod, "--", *words, stdin="an entry")

    def end(self) -> str:
        """Stop and go, for a writer of another version; the notes of what was acknowledged."""
        self.stop()
        notes = self.notes()
        self._kube.delete("pod", self._pod, wait=True)
        return notes

    def check_notes(self, notes: str) -> Object:
        """The same as `check` of what another writer noted."""
        folder = "/state/other"
        script = f"mkdir {folder} && cat >{folder}/acked"
        self._kube("exec", "--stdin", self._pod, "--", "sh", "-c", script, stdin=notes)
        return self.check(folder)

    def check(self, folder: str = "/state") -> Object:
        """A fresh client reads every acknowledged entry back; what it found."""
        words = ("python", "/e2e/writer.py", "check", "--folder", folder)
        command = ("exec", self._pod, "--", *words, "--metadata", self._metadata_url)
        try:
            text = self._kube(*command, seconds=CHECK_S)
        except CommandError as error:
            raise AssertionError(f"the check failed: {error}") from None
        found: Object = json.loads(text.strip().splitlines()[-1])
        return found

    def copies(self, *, digests: bool = True) -> Object:
        """Every bookie is asked for each copy that it owes; with `digests` each is verified.

        What is found missing, or cannot be told now, is no failure of the asking.
        """
        options = ("--verify-digests",) if digests else ()
        own = () if self._clients == OFF else ("--tls", JOB_CREDENTIALS)
        words = ("bookie", *own, "audit", *options, "--engine", "inline", "--output", "json")
        script = f'"$@"; code=$?; [ $code -le {UNDECIDED} ] || exit $code'
        command = ("sh", "-c", script, "copies", *words, "--metadata", self._metadata_url)
        told = self._kube("exec", self._pod, "--", *command, seconds=CHECK_S)
        found: Object = json.loads(told)
        return found

    def _has(self, wanted: Callable[[Object], Any]) -> Object | None:
        progress = self.progress()
        return progress if wanted(progress) else None

    def _wait(self, wanted: Callable[[Object], Any], seconds: float) -> Object:
        return wait_for("the writer", lambda: self._has(wanted), seconds=seconds)
