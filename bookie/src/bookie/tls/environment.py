"""The names that the environment has for the credentials of this process; nothing is imported."""

from typing import Final

DIRECTORY_VARIABLE: Final = "BOOKIE_TLS__DIRECTORY"
MODE_VARIABLE: Final = "BOOKIE_TLS__MODE"
"""The two settings of a bookie, and of a client the same: whose credentials it shows, and whether
it goes in plain where a server has no TLS."""
REQUIRED: Final = "Required"
ACCEPTED: Final = "Accepted"
"""What the mode may be."""
