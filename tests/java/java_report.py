"""What the launcher's XML reports say, in lines for people."""

import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

COMPLAINTS: Final = 20
COMPLAINT_LENGTH: Final = 160


@dataclass(frozen=True, slots=True)
class Report:
    """Counts and seconds by class of a whole run."""

    tests: Mapping[str, int]
    seconds: Mapping[str, float]
    failed: tuple[str, ...]
    skipped: tuple[str, ...]

    @classmethod
    def of(cls, folder: Path) -> "Report":
        tests: Counter[str] = Counter()
        seconds: Counter[str] = Counter()
        failed, skipped = [], []
        for file in sorted(folder.glob("*.xml")):
            for case in ElementTree.parse(file).iter("testcase"):
                name = case.get("classname", "").rpartition(".")[2]
                tests[name] += 1
                seconds[name] += float(case.get("time", 0))  # type: ignore[assignment]
                if case.find("failure") is not None or case.find("error") is not None:
                    failed.append(f"{name}.{case.get('name')}")
                if case.find("skipped") is not None:
                    skipped.append(f"{name}.{case.get('name')}")
        return cls(tests, seconds, tuple(failed), tuple(skipped))

    @property
    def total(self) -> int:
        return sum(self.tests.values())

    @property
    def is_good(self) -> bool:
        """Something ran and nothing failed."""
        return self.total > len(self.skipped) and not self.failed

    def summary(self, fleet: str, *, seconds: float) -> str:
        lines = [f"  {n:28} {self.tests[n]:4} {self.seconds[n]:6.1f} s" for n in sorted(self.tests)]
        lines += [f"  FAILED {name}" for name in self.failed]
        passed = self.total - len(self.failed) - len(self.skipped)
        lines.append(
            f"test-java: {fleet}: {passed} passed, {len(self.failed)} failed, "
            f"{len(self.skipped)} skipped in {seconds:.0f} s"
        )
        return "\n".join(lines)


def complaints(log: Path) -> str:
    """What the clients' log says most often, without numbers: why something took its time."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    complained = re.compile(r"\d{4}-\d\d-\d\d \S+ ((?:WARN|ERROR) .*)")
    said = (found[1] for line in lines if (found := complained.match(line)))
    counts = Counter(re.sub(r"\d+", "N", words)[:COMPLAINT_LENGTH] for words in said)
    return "\n".join(f"{n:5} {words}" for words, n in counts.most_common(COMPLAINTS))
