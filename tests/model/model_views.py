"""What a client sees and changes of each bookie, so that its moves are worked out once per sight.

Many states look the same to one client: what the bookies hold is not its knowledge. A view is the
part of a bookie that a client's moves read or change; the rest goes through a move untouched.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from model_bookie import Act, put
from model_state import Bookie, Interner, Shared, State

View = tuple[Hashable, ...]
Moves = Callable[[Shared, list[Bookie]], Iterator[tuple[int, Act, Shared, list[Bookie]]]]
Outcome = tuple[int, Act, int, list[tuple[int, int]]]
"""As a move, but with the number of what is shared, and the new view at each changed position."""


def writer_view() -> tuple[Callable[[Bookie], View], Callable[[Bookie, Any], Bookie]]:
    def view(bookie: Bookie) -> View:
        return (bookie.seat, bookie.adds, bookie.owns, bookie.place, bookie.serves)

    def merge(bookie: Bookie, seen: Any) -> Bookie:
        return bookie._replace(seat=seen[0], adds=seen[1], owns=seen[2], place=seen[3])

    return view, merge


def recoverer_view(who: int) -> tuple[Callable[[Bookie], View], Callable[[Bookie, Any], Bookie]]:
    def view(bookie: Bookie) -> View:
        return (bookie.desks[who], bookie.owns, bookie.serves, bookie.place)

    def merge(bookie: Bookie, seen: Any) -> Bookie:
        return bookie._replace(desks=put(bookie.desks, who, seen[0]), owns=seen[1])

    return view, merge


def mover_view() -> tuple[Callable[[Bookie], View], Callable[[Bookie, Any], Bookie]]:
    def view(bookie: Bookie) -> View:
        return (bookie.move, bookie.owns, bookie.held, bookie.synced, bookie.serves, bookie.noted)

    def merge(bookie: Bookie, seen: Any) -> Bookie:
        return bookie._replace(move=seen[0], owns=seen[1], held=seen[2], synced=seen[3])

    return view, merge


class Client:
    """The moves of one client, remembered by what it sees."""

    def __init__(
        self,
        shared: Interner[Shared],
        bookies: Interner[Bookie],
        moves: Moves,
        view: Callable[[Bookie], View],
        merge: Callable[[Bookie, Any], Bookie],
    ) -> None:
        self._shared = shared
        self._bookies = bookies
        self._moves = moves
        self._view = view
        self._merge = merge
        self._views: Interner[View] = Interner()
        self._view_of: dict[int, int] = {}
        self._merged: dict[tuple[int, int], int] = {}
        self._known: dict[tuple[int, ...], list[Outcome]] = {}

    def moves(self, shared_number: int, numbers: Sequence[int]) -> Iterator[tuple[int, Act, State]]:
        for at, act, left, changes in self._outcomes(shared_number, numbers):
            after = list(numbers)
            for position, view in changes:
                after[position] = self._changed(numbers[position], view)
            yield at, act, (left, *after)

    def successors(self, shared_number: int, numbers: Sequence[int]) -> Iterator[State]:
        """What the moves lead to, of canonical numbers, canonical: the search's short way."""
        changed = self._changed
        for at, _act, left, changes in self._outcomes(shared_number, numbers):
            if at > 0 and numbers[at] == numbers[at - 1]:
                continue
            after = list(numbers)
            for position, view in changes:
                after[position] = changed(numbers[position], view)
            after.sort()
            yield (left, *after)

    def _outcomes(self, shared_number: int, numbers: Sequence[int]) -> list[Outcome]:
        view_of = self._view_of
        try:
            sight = tuple([view_of[number] for number in numbers])
        except KeyError:
            for number in numbers:
                view_of[number] = self._views.number(self._view(self._bookies[number]))
            sight = tuple([view_of[number] for number in numbers])
        key = (shared_number, *sight)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._work_out(shared_number, numbers, sight)
        return found

    def _work_out(
        self, shared_number: int, numbers: Sequence[int], sight: tuple[int, ...]
    ) -> list[Outcome]:
        bookies = [self._bookies[number] for number in numbers]
        return [
            (at, act, self._shared.number(left), self._changes(sight, changed))
            for at, act, left, changed in self._moves(self._shared[shared_number], bookies)
        ]

    def _changes(self, sight: tuple[int, ...], bookies: list[Bookie]) -> list[tuple[int, int]]:
        views = [self._views.number(self._view(bookie)) for bookie in bookies]
        return [(at, view) for at, view in enumerate(views) if view != sight[at]]

    def _changed(self, number: int, view: int) -> int:
        found = self._merged.get((number, view))
        if found is None:
            merged = self._merge(self._bookies[number], self._views[view])
            found = self._merged[number, view] = self._bookies.number(merged)
        return found
