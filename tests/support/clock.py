"""A clock for whatever takes one as an argument: it stands until a test sets it."""


class Clock:
    """`now`: what it tells, in seconds."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
