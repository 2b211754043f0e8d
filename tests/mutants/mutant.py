"""A planted bug: what is broken, which danger it stands for, what must notice it. Values only.

A mutant is a textual patch of the product's own code, applied to a copy of it. The product holds no
switch for any of them.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patch:
    """`old` stands exactly once in `file` (from the root of the repository)."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Tests:
    """Directed tests: each of them fails on the mutant and passes without it."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Model:
    """The mutant of this name in `tests/model`: the model without this rule has a violation."""

    mutant: str


@dataclass(frozen=True, slots=True)
class Simulation:
    """Seeds of the simulation of the real code that find the mutant. Committed where those that
    `make mutants-sim` runs find it rarely.
    """

    seeds: tuple[str, ...]


Check = Tests | Model | Simulation


@dataclass(frozen=True, slots=True)
class Mutant:
    """`name` says what is broken; `stands_for` are words of `dangers`."""

    name: str
    stands_for: tuple[str, ...]
    patches: tuple[Patch, ...]
    caught_by: tuple[Check, ...]

    @property
    def test_ids(self) -> tuple[str, ...]:
        return tuple(i for check in self.caught_by if isinstance(check, Tests) for i in check.ids)

    @property
    def model_mutants(self) -> tuple[str, ...]:
        return tuple(check.mutant for check in self.caught_by if isinstance(check, Model))

    @property
    def seeds(self) -> tuple[str, ...]:
        """Those committed for it."""
        checks = (check for check in self.caught_by if isinstance(check, Simulation))
        return tuple(seed for check in checks for seed in check.seeds)


def planted(
    name: str,
    *,
    stands_for: tuple[str, ...],
    file: str,
    old: str,
    new: str,
    tests: tuple[str, ...] = (),
    model: str = "",
    seeds: tuple[str, ...] = (),
    also: tuple[Patch, ...] = (),
) -> Mutant:
    """One entry of the catalogue; `also`: further places of the same mistake."""
    checks: list[Check] = [Tests(tests)] if tests else []
    checks += [Model(model)] if model else []
    checks += [Simulation(seeds)] if seeds else []
    return Mutant(name, stands_for, (Patch(file, old, new), *also), tuple(checks))
