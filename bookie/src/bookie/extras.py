"""Says which extra of the package a program needs, where a module is missing.

The package installs all programs, whichever extras a person chose.
"""

from typing import Final

_OURS: Final = ("bookie", "bookie_operator")


def needs_extra(error: ModuleNotFoundError, extra: str) -> str:
    """The sentence for a person; empty where the missing module is our own, which is a defect."""
    module = (error.name or "").partition(".")[0]
    if not module or module in _OURS:
        return ""
    return (
        f"found no module {module}, expected what the extra `{extra}` brings: "
        f"pip install 'bookie-operator[{extra}]' (docs/packages.md)"
    )
