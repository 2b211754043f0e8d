"""Reads the table of transitions at the head of a module: `| state | event | next states |`."""

from types import ModuleType

Transition = tuple[str, str, str]
"""State before, event, state after."""


def transitions(module: ModuleType) -> set[Transition]:
    """Every transition that the module's docstring allows."""
    lines = [line for line in (module.__doc__ or "").splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]
    return {(state, event, after) for state, event, nexts in rows for after in nexts.split(", ")}
