"""Property tests beside mutants: the same examples in every run, and nothing remembered of them.

A counterexample that a mutant gave must not be tried first, as if it were one of the product.
"""

from hypothesis import HealthCheck, settings


def load_profile() -> None:
    """For this process, before any test is imported."""
    settings.register_profile(
        "mutation",
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("mutation")
