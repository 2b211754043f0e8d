"""Converts the settings file into the settings of each part of a bookie.

The parts do not know the file: tests and tools use storage and boot without one.
"""

from bookie.boot.cookie_fix import FixPolicy
from bookie.boot.takeover import BootSettings
from bookie.ids import BookieId
from bookie.metadata.session import ZooKeeperSettings
from bookie.protocol.collection import CollectionRules
from bookie.server.pacing import BusyRates
from bookie.server.replies import ReplyLimits
from bookie.server.sessions import RequestLimits
from bookie.server.settings import BookieSettings, Limits
from bookie.storage.settings import StorageSettings
from bookie.tls.environment import ACCEPTED


def reply_limits(limits: Limits) -> ReplyLimits:
    """Limits of the data ports for replies."""
    return ReplyLimits(
        per_connection=min(limits.reply_bytes_per_connection, limits.reply_bytes),
        total=limits.reply_bytes,
        seconds=limits.reply_seconds,
    )


def request_limits(limits: Limits) -> RequestLimits:
    """Limits of the data ports for requests."""
    return RequestLimits(total=limits.request_bytes, seconds=limits.request_seconds)


def zookeeper_settings(settings: BookieSettings) -> ZooKeeperSettings:
    """Settings of the session with the metadata store; what they leave open comes from the
    environment.
    """
    tls = settings.tls
    return ZooKeeperSettings(
        tls=None if tls is None else tls.directory,
        login=settings.zookeeper.credentials_file,
        open_access=tls is not None and tls.mode == ACCEPTED,
    )


def boot_settings(settings: BookieSettings) -> BootSettings:
    """Settings of the boot and the storage."""
    storage = StorageSettings(
        journal_dir=settings.journal.directory,
        ledger_dirs=tuple(disk.directory for disk in settings.ledgers),
        mode=settings.durability.mode,
        flush_interval_s=settings.durability.flush_interval_seconds,
        note_idle_flushes=settings.durability.note_idle_flushes,
        ring_bytes=settings.storage.ring_bytes,
        log_file_bytes=settings.storage.log_file_bytes,
        direct_io=settings.storage.direct_io,
    )
    return BootSettings(
        BookieId(settings.bookie_id),
        storage,
        FixPolicy(settings.cookie_fix.policy),
        volume_uids=(settings.journal.volume_uid, *(disk.volume_uid for disk in settings.ledgers)),
        lease_wait_s=settings.lease.wait_s,
        lease_s=settings.lease.seconds,
    )


def busy_rates(settings: BookieSettings) -> BusyRates:
    """Rates for pacing."""
    return BusyRates(
        recovery=settings.limits.recovery_bytes_per_second_busy,
        compaction=settings.storage.compaction_bytes_per_second_busy,
    )


def collection_rules(settings: BookieSettings) -> CollectionRules:
    """Rules for the collection of deleted ledgers."""
    options = settings.storage
    return CollectionRules(
        options.collect_grace_seconds, options.collect_share_max, options.collect_brake_from
    )
