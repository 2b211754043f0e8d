"""The judge in a story: Apache's own Java client in a pod, which shares no code with the fleet.

It writes the whole time beside the writer's pod, on both stock wires, and notes what was
acknowledged. At the end it reads all of that back and asks every bookie of every write set for its
own copy; the status of that instant is held against what it saw (e2e/README.md).
"""

import json
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from judge_java import FOLDER, build

from harness.commands import CommandError
from harness.kube import Kube, Object, wait_for
from harness.manifests import JUDGE, JUDGE_FOLDER, judge_pod, tls_words
from harness.settings import PATIENCE, ROOT

LOG_SETTINGS: Final = ROOT / "bookie" / "src" / "bookie" / "testing" / "apache-log4j2.properties"
ARCHIVE: Final = FOLDER / "pod.tar"
NOT_IN_A_POD: Final = ("junit", "rocksdb", "opentest4j", "apiguardian")
"""Jars of the unit tests and of servers."""
START_S: Final = 90.0
COPY_S: Final = 120.0
STOP_S: Final = 90.0
CHECK_S: Final = 300.0
STATUS: Final = "/notes/status.json"
VERDICT: Final = "/notes/verdict.json"

OPTIONS: Final = (
    *("--seconds", "3600", "--writers", "1", "--rate", "60"),
    *("--entries", "400", "--layouts", "3/3/2,4/3/2"),
)
"""How it writes beside a story's own load: little, on each wire."""
BEGIN: Final = """\
read -r number || :
{ sh /judge/run "$@" >/notes/log-$number 2>&1 & echo $! >/notes/pid-$number; wait $!
  echo $? >/notes/ended-$number; } </dev/null >/dev/null 2>&1 &
"""
"""It goes on when whoever began it has gone; the number of the write comes by stdin."""


def archive() -> Path:
    """All that a JRE needs to run the judge, made anew with each build."""
    made_of = FOLDER / "made-of"
    if not ARCHIVE.exists() or ARCHIVE.stat().st_mtime < made_of.stat().st_mtime:
        unfinished = ARCHIVE.with_suffix(".part")
        with tarfile.open(unfinished, "w") as made:
            made.add(FOLDER / "classes", "classes")
            made.add(LOG_SETTINGS, "log4j2.properties")
            for jar in sorted((FOLDER / "lib").iterdir()):
                if not jar.name.startswith(NOT_IN_A_POD):
                    made.add(jar, f"lib/{jar.name}")
        unfinished.replace(ARCHIVE)
    return ARCHIVE


class Judge:
    """One judge in one namespace. `clients`: how it talks, `spec.tls.mode` of the cluster."""

    def __init__(self, kube: Kube, metadata_url: str, *, clients: str) -> None:
        self._kube = kube
        self._where = ["--metadata", metadata_url, *tls_words(clients)]
        self._clients = clients
        self._writes = 0
        """How often it began to write: each has notes of its own."""

    def start(self, *, seed: int, options: Sequence[str] = OPTIONS) -> "Judge":
        """Begin to write, and wait for the first acknowledgement; NoToolsError without a JDK."""
        if not self._writes:
            build().classpath()
            self._kube.apply(judge_pod(self._kube.namespace, self._clients))
            self._kube("wait", f"pod/{JUDGE}", "--for=condition=Ready", f"--timeout={START_S}s")
            self._hand_over(archive())
        self._writes += 1
        words = ["write", *self._where, *options, "--seed", str(seed)]
        words += ["--notes", self._file("acks"), "--json", self._file("write.json")]
        self._inside(BEGIN, *words, stdin=str(self._writes))
        wait_for("the judge's first acknowledgements", self._acknowledges, seconds=START_S)
        return self

    def stop(self) -> Object:
        """What was under way is waited for; what it wrote."""
        self._inside(f"kill -TERM $(cat {self._file('pid')})")
        ended = wait_for("the judge's writer to end", self._ended, seconds=STOP_S)
        assert ended == "0", (ended, self._read("log"))
        found: Object = json.loads(self._read("write.json"))
        return found

    def check(self, status: Mapping[str, Any], *, faults: int, seconds: float = CHECK_S) -> Object:
        """The verdict on all that was ever noted; its `exitCode` is that of the process.

        `faults`: so many bookies were made to forget, of each of which the status must know.
        `seconds` are for a quiet machine. What it has no time to ask for is unknown, which is no
        whole fleet.
        """
        self._inside(f"cat >{STATUS}", stdin=json.dumps(status))
        words = ["check", *self._where, "--json", VERDICT, "--status", STATUS]
        for number in range(1, self._writes + 1):
            words += ["--notes", f"/notes/acks-{number}"]
        words += ["--faults", str(faults), "--seconds", f"{seconds * PATIENCE:.0f}"]
        script = f'rm -f {VERDICT}; sh {JUDGE_FOLDER}/run "$@" >&2; echo "code $?"; cat {VERDICT}'
        said = self._inside(script, *words, seconds=seconds + STOP_S)
        code, _, verdict = said.partition("\n")
        assert verdict, f"the judge came to no verdict: {said}"
        return {**json.loads(verdict), "exitCode": int(code.removeprefix("code "))}

    def _inside(self, script: str, *words: str, stdin: str = "", seconds: float = 60.0) -> str:
        command = ("exec", "--stdin", JUDGE, "--", "sh", "-c", script, JUDGE, *words)
        return self._kube(*command, stdin=stdin, seconds=seconds)

    def _file(self, name: str) -> str:
        """Of the newest write."""
        return f"/notes/{name}-{self._writes}"

    def _read(self, name: str) -> str:
        return self._inside(f"tail -n 100 {self._file(name)}")

    def _acknowledges(self) -> bool:
        """By its notes; where there are none yet, it may have failed."""
        ended = self._ended()
        assert ended is None, (ended, self._read("log"))
        return self._inside(f"grep -cm1 ^ack {self._file('acks')} || :").strip() == "1"

    def _ended(self) -> str | None:
        """Its exit code; None while it writes."""
        return self._inside(f"cat {self._file('ended')} || :").strip() or None

    def _hand_over(self, archive: Path) -> None:
        """Into the pod."""
        unpack = (
            "import sys, tarfile;"
            f"tarfile.open(fileobj=sys.stdin.buffer, mode='r|').extractall({JUDGE_FOLDER!r})"
        )
        command = self._kube.words("exec", "--stdin", JUDGE, "--", "python", "-c", unpack)
        with archive.open("rb") as content:
            done = subprocess.run(
                command,
                stdin=content,
                capture_output=True,
                timeout=COPY_S * PATIENCE,
                check=False,
                env=self._kube.whole_environment,
            )
        if done.returncode != 0:
            raise CommandError(command, done.returncode, (done.stdout + done.stderr).decode())
