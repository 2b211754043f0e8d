"""Claims of one run with their figures, and choices that its seed decides."""

import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

POLL_S: Final = 0.5

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Claim:
    """`detail`: what was found where it does not hold."""

    words: str
    holds: bool
    detail: str = ""


@dataclass(slots=True, kw_only=True)
class Claims:
    """`name`: of whoever uses the fleet."""

    name: str
    seed: int
    claims: list[Claim] = field(default_factory=list)
    figures: dict[str, Document] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    def say(self, words: str) -> None:
        print(f"{self.name} {time.monotonic() - self.began:4.0f} s: {words}", flush=True)

    def claim(self, words: str, found: Iterable[str] | str | bool = ()) -> bool:
        """It holds where nothing is found against it; a truth value stands for itself."""
        if isinstance(found, bool):
            self.claims.append(Claim(words, found))
        else:
            detail = found if isinstance(found, str) else "; ".join(found)
            self.claims.append(Claim(words, not detail, detail))
        last = self.claims[-1]
        self.say(f"{'holds' if last.holds else 'FAILED'}: {words} {last.detail}".rstrip())
        return last.holds

    @contextmanager
    def reported(self, name: str, *errors: type[Exception]) -> Iterator[None]:
        """One of these errors ends a story, and is a claim that does not hold."""
        self.say(f"{name}:")
        try:
            yield
        except errors as error:
            self.claim(f"{name} goes to its end", str(error) or repr(error))

    def drawn(self, what: str) -> random.Random:
        """A source of choices that the seed and this name decide."""
        return random.Random(f"{what} {self.seed}")

    def until(self, lacking: Callable[[], str], *, seconds: float) -> str:
        """Empty once nothing is lacking; else what is, after so many seconds."""
        began = time.monotonic()
        while missing := lacking():
            if time.monotonic() - began > seconds:
                return f"after {seconds:.0f} s: {missing}"
            time.sleep(POLL_S)
        return ""

    def outcome(self, error: str = "") -> "Outcome":
        return Outcome(tuple(self.claims), self.figures, error)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to. `error`: what ended it before its end."""

    claims: tuple[Claim, ...] = ()
    figures: Document = field(default_factory=dict)
    error: str = ""

    @property
    def failed(self) -> list[Claim]:
        return [claim for claim in self.claims if not claim.holds]

    @property
    def counted(self) -> str:
        """For the last line of a run: what ended it counts as a failure, too."""
        lost = len(self.failed) + bool(self.error)
        return f"{len(self.claims) - len(self.failed)} passed, {lost} failed"

    @property
    def is_good(self) -> bool:
        return bool(self.claims) and not self.failed and not self.error
