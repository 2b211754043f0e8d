"""The clock of leases: nobody sets it, and it runs on while the machine sleeps."""

import time


def boot_time() -> float:
    """Seconds since this machine booted, those included in which it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
