"""Goes through the crash points of a run, makes their images, and checks each different one once.

Two levels: after some of the images of a run the boot itself is recorded, and crashed at each of
its own points.
"""

import time
from collections import Counter
from dataclasses import dataclass, field

from bookie.errors import BookieError
from bookie.metadata.memory import MemoryCluster
from bookie.testing.inline import InlineLoop
from crash_bookie import RecordedBookie
from crash_check import Outcome, Verdict, check, same_words, seeded
from crash_choices import KILLED, Chooser, made, told
from crash_runs import Run
from crash_trace import CrashPoint


@dataclass(frozen=True, slots=True)
class Depth:
    """How much to look at. `images_max`: of a crash point with more images some are drawn, `seeds`
    among them. `boots`: of so many images of each run the boot is crashed in turn, and of each of
    those boots at most `boot_images` images are looked at. A run ends with `findings_max`."""

    images_max: int = 4096
    seeds: int = 30
    boots: int = 2
    boot_images: int = 80
    findings_max: int = 100


@dataclass(frozen=True, slots=True)
class Place:
    """One image of one crash point; `first`: that whose boot was crashed, where it was one."""

    point: int
    image: str
    first: "Place | None" = None

    def __str__(self) -> str:
        before = f"{self.first}," if self.first else ""
        return f"{before}{self.point}:{self.image}"


Spot = tuple[Place, CrashPoint]


@dataclass(frozen=True, slots=True)
class Finding:
    """An image after which the bookie was wrong, or refused where it must not."""

    run: str
    place: Place
    before: str
    kept: list[str]
    lost: list[str]
    why: str

    def __str__(self) -> str:
        lines = [f"{self.run}: crash before {self.before}: {self.why}"]
        lines += [f"  kept: {change}" for change in self.kept]
        lines += [f"  lost: {change}" for change in self.lost]
        again = f"--run {self.run} --image {self.place}"
        return "\n".join([*lines, f"  again: python tests/crash_images {again}"])


@dataclass(slots=True)
class Tally:
    """What one run came to."""

    name: str
    operations: int = 0
    points: int = 0
    complete: int = 0
    """Crash points of which every image was made."""
    images: int = 0
    """Different ones, each booted."""
    right: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0
    """Of processor time."""

    def figures(self) -> dict[str, object]:
        """For the record."""
        return {
            "name": self.name, "operations": self.operations, "crash_points": self.points,
            "complete": self.complete, "images": self.images, "right": dict(self.right),
            "refused": dict(self.refused), "findings": [str(each) for each in self.findings],
            "processor_seconds": round(self.seconds, 2),
        }  # fmt: skip


class Exploration:
    """One run on its way through its images."""

    def __init__(self, run: Run, depth: Depth, *, loop: InlineLoop) -> None:
        self._run = run
        self._depth = depth
        self._loop = loop
        self._seen: set[object] = set()
        self.tally = Tally(run.name)

    def all(self) -> Tally:
        began = time.process_time()
        booted = self._judged(_spread(self._images_of(self.trace()), self._run.images))
        for place, point in _spread(booted, self._depth.boots):
            found = self._images_of(self.trace_of_boot(point, place.image), first=place)
            self._judged(_spread(found, self._depth.boot_images))
        self.tally.seconds = time.process_time() - began
        return self.tally

    def _judged(self, images: list[Spot]) -> list[Spot]:
        """Those on which the bookie booted, and was right."""
        booted = []
        for place, point in images:
            if len(self.tally.findings) >= self._depth.findings_max:
                break
            if self.judge(point, place).verdict is Verdict.RIGHT:
                booted.append((place, point))
        return booted

    def repeat(self, place: Place) -> Outcome:
        """One image again, by its place."""
        return self.judge(self._point_at(place), place)

    def _point_at(self, place: Place) -> CrashPoint:
        if place.first is None:
            return self.trace()[place.point]
        return self.trace_of_boot(self._point_at(place.first), place.first.image)[place.point]

    # ---- traces ---------------------------------------------------------------------------------

    def trace(self) -> list[CrashPoint]:
        """The crash points of the run itself."""
        bookie = RecordedBookie(self._run.settings)
        with seeded(self._run.name):
            self._loop.run_until_complete(self._run.tell(bookie))
        return self._points_of(bookie)

    def trace_of_boot(self, point: CrashPoint, image: str) -> list[CrashPoint]:
        """The crash points of the boot on an image, up to where it serves or refuses."""
        bookie = RecordedBookie.after(point, made(point.disk, image))
        with seeded(image):
            self._loop.run_until_complete(_try_boot(bookie))
        return self._points_of(bookie)

    def _points_of(self, bookie: RecordedBookie) -> list[CrashPoint]:
        bookie.recorder.cut("nothing more")
        bookie.disk.close_databases()
        self.tally.operations += bookie.recorder.operations
        self.tally.points += len(bookie.recorder.points)
        return bookie.recorder.points

    # ---- images ---------------------------------------------------------------------------------

    def _images_of(self, points: list[CrashPoint], *, first: Place | None = None) -> list[Spot]:
        """Every image that differs from all that were found before."""
        chooser = Chooser(images_max=self._depth.images_max, seeds=self._depth.seeds)
        found = []
        for point in points:
            images = chooser.images(point.disk, seed=f"{self._run.name} {point.number}")
            self.tally.complete += images.is_complete
            for image in images.found:
                key = (image.key, point.promises.fingerprint, _state(point.cluster))
                if key not in self._seen:
                    self._seen.add(key)
                    found.append((Place(point.number, image.name, first), point))
        return found

    def judge(self, point: CrashPoint, place: Place) -> Outcome:
        """Boots on one image and counts what came of it."""
        outcome = check(point, place.image, loop=self._loop)
        tally = self.tally
        tally.images += 1
        if outcome.verdict is Verdict.RIGHT:
            tally.right[outcome.why] += 1
        elif outcome.verdict is Verdict.REFUSED and self._run.allows(outcome.why):
            tally.refused[same_words(outcome.why)] += 1
        else:
            tally.findings.append(self._finding(point, place, outcome))
        return outcome

    def _finding(self, point: CrashPoint, place: Place, outcome: Outcome) -> Finding:
        why = outcome.why if outcome.verdict is Verdict.WRONG else f"refused: {outcome.why}"
        kept, lost = (told(point.disk, place.image, kept=keep) for keep in (True, False))
        return Finding(self._run.name, place, point.before, kept, lost, why)


def _spread(found: list[Spot], count: int) -> list[Spot]:
    """So many, evenly over the whole and with the last one: what happened most leaves most."""
    step = max(1, -(-len(found) // max(1, count)))
    return found[::-1][::step][:count][::-1]


async def _try_boot(bookie: RecordedBookie) -> None:
    try:
        await bookie.boot()
    except BookieError:
        bookie.booted = None  # what it did until then is a trace as well


def _state(cluster: MemoryCluster) -> object:
    """Equal for equal metadata, as far as a boot can tell."""
    return (
        cluster.instance_id,
        repr(cluster.next_ledger_ids),
        tuple((i, found.version) for i, found in sorted(cluster.ledgers.items())),
        tuple((i, found.version) for i, found in sorted(cluster.cookies.items())),
        tuple((i, found.version) for i, found in sorted(cluster.boots.items())),
    )


def place_named(text: str) -> Place:
    """The place that a finding names."""
    place: Place | None = None
    for part in text.split(","):
        number, _, image = part.partition(":")
        place = Place(int(number), image or KILLED, place)
    assert place is not None
    return place
