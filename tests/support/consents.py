"""How a person consents to a plan, and does not: alike at each command of `bookie` that asks."""

Consent = tuple[str, tuple[str, ...], str, int, str]
"""The plan that waits, the words of the command, what is typed, its exit code, what it says."""


def consents(why: str) -> list[Consent]:
    """To `plan-1` of bookie-0, of which the bookie says this."""
    return [
        ("plan-1", (), "y\n", 0, f"bookie-0: {why}. Approve? [y/N] "),
        ("plan-1", (), "n\n", 1, "nothing was changed"),
        ("plan-1", (), "", 2, "pass --yes"),
        ("plan-1", ("--yes",), "", 0, ""),
        ("plan-1", ("--plan", "plan-1"), "", 0, ""),
    ]
