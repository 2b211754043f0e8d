"""What the certificate of a caller of the control plane says: gRPC hands it on with each call.

A connection outlives the handshake that let it in, and gRPC takes up a session again without a look
at the clock: so the end of a certificate is looked at with each call. Names are read from the
certificate itself: in gRPC's list of them a name ends at its first zero byte.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, Self

from cryptography import x509

from bookie.tls.credentials import MALFORMED, principal_of
from bookie.tls.principals import Principal

KEPT_MAX: Final = 1024
"""Certificates that are not parsed again."""


@dataclass(frozen=True, slots=True)
class Shown:
    """`principal`: None when it names nobody of a fleet, or cannot be read."""

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
        """Why it is one no more; empty while it is."""
        if now <= self.ends_at:
            return ""
        return f"the certificate of {self.principal} ended at {self.ends_at}: connect again"
