"""Limits and times of a pool of connections to bookies."""

from dataclasses import dataclass, field

from bookie.tls.client_tls import ClientTls, from_environment


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """Limits of a pool; times in seconds.

    `in_flight_bytes_max` and `in_flight_requests_max`: limits for the unanswered requests to one
    bookie, beyond which it counts as unreachable. After a failed connection attempt the next one
    waits `backoff_min_s`, doubling up to `backoff_max_s`; requests in between fail at once.
    `is_advertised`: connect to the addresses that bookies advertise to clients elsewhere, if they
    do. `tls`: the client's credentials, by default those that the environment names; None: connect
    without TLS. `last_adds_s`: how long `close` waits for the answers to adds under way.
    """

    request_timeout_s: float = 10.0
    connect_timeout_s: float = 3.0
    backoff_min_s: float = 0.05
    backoff_max_s: float = 2.0
    address_ttl_s: float = 5.0
    sweep_interval_s: float = 0.25
    in_flight_bytes_max: int = 256 * 1024 * 1024
    in_flight_requests_max: int = 65536
    is_advertised: bool = False
    tls: ClientTls | None = field(default_factory=from_environment)
    last_adds_s: float = 2.0
