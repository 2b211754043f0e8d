"""The clock that leases use: nobody can set it, and it keeps running while the machine sleeps."""

import time


def boot_time() -> float:
    """Return the seconds since this machine booted, including the time it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
