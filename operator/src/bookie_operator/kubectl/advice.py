"""One piece of advice: the form of what `hints` and `refusals` tell."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hint:
    """`command`: words after `kubectl`, without the flags of this call."""

    text: str
    command: tuple[str, ...] = ()
