"""Names of the environment variables for the TLS of this process. The module imports
none of ours.
"""

from typing import Final

DIRECTORY_VARIABLE: Final = "BOOKIE_TLS__DIRECTORY"
MODE_VARIABLE: Final = "BOOKIE_TLS__MODE"
"""The two variables are the TLS settings of a bookie, and a client uses the same ones: the folder
of its credentials, and whether it connects in plaintext to a server that has no TLS."""
REQUIRED: Final = "Required"
ACCEPTED: Final = "Accepted"
"""The two values that the mode may have."""
