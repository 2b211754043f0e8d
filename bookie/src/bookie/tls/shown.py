"""What the certificate of a control plane caller says; gRPC passes the certificate on with each
call.

A connection stays open when its certificate expires, and gRPC resumes a session without checking
the time: so the end of the certificate is checked with each call. Names are read from the
certificate itself, because in gRPC's list a name ends at its first zero byte.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, Self

from cryptography import x509

from bookie.tls.credentials import MALFORMED, principal_of
from bookie.tls.principals import Principal

KEPT_MAX: Final = 1024
"""How many parsed certificates are cached."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The certificate that a caller showed. `principal`: its holder; None when it names no member
    of a fleet, or cannot be read.
    """

    principal: Principal | None
    ends_at: datetime

    @classmethod
    @lru_cache(KEPT_MAX)
    def from_pem(cls, pem: bytes) -> Self:
        try:
            leaf = x509.load_pem_x509_certificate(pem)
            return cls(principal_of(leaf), leaf.not_valid_after_utc)
        except MALFORMED:
            return cls(None, datetime.max.replace(tzinfo=UTC))

    def why_not(self, now: datetime) -> str:
        """Why the certificate is no longer valid; empty while it is."""
        if now <= self.ends_at:
            return ""
        return f"the certificate of {self.principal} ended at {self.ends_at}: connect again"
