"""A bookie's settings by Apache's names, as those of one of our bookies; or what ours has not.

Pure: text of a properties file in, the content of a `bookie.yaml` out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

MIB: Final = 1 << 20
COLLECT_SECONDS_MIN: Final = 0.5
FLUSH_SECONDS_MIN: Final = 0.1

TAKEN_OVER: Final = frozenset(
    {
        "metadataServiceUri",
        "journalDirectories",
        "journalDirectory",
        "ledgerDirectories",
        "gcWaitTime",
        "flushInterval",
        "bookiePort",
        "bookieId",
        "advertisedAddress",
        "useHostNameAsBookieID",
        "useShortHostName",
        "listeningInterface",
    }
)
"""Those that `translated`, or the id and address of the bookie, come from."""
OF_ITS_OWN_STORAGE: Final = frozenset(
    {
        "journalFlushWhenQueueEmpty",
        "journalFormatVersionToWrite",
        "fileInfoFormatVersionToWrite",
        "entryLogFilePreallocationEnabled",
        "logSizeLimit",
        "minUsableSizeForEntryLogCreation",
        "openFileLimit",
        "pageLimit",
        "metastoreImplClass",
        "ledgerStorageClass",
        "skipListSizeLimit",
        "skipListArenaChunkSize",
        "skipListArenaMaxAllocSize",
        "sortedLedgerStorageEnabled",
        "dbStorage_writeCacheMaxSizeMb",
        "dbStorage_readAheadCacheMaxSizeMb",
        "indexDirectories",
        "diskUsageThreshold",
        "diskUsageWarnThreshold",
        "diskCheckInterval",
        "allocatorPoolingPolicy",
        "minorCompactionInterval",
        "majorCompactionInterval",
        "minorCompactionThreshold",
        "majorCompactionThreshold",
        "journalMaxSizeMB",
        "journalMaxBackups",
        "journalReuseFiles",
    }
)
"""How Apache's bookie keeps what it has: no client sees the difference."""
OF_ITS_THREADS: Final = frozenset(
    {
        "numAddWorkerThreads",
        "numReadWorkerThreads",
        "numHighPriorityWorkerThreads",
        "enableTaskExecutionStats",
        "allowLoopback",
        "allowEphemeralPorts",
        "statisticsEnabled",
        "tlsEnabledProtocols",
        "zkTimeout",
        "zkRetryBackoffMaxRetries",
        "zkRetryBackoffMaxMs",
        "zkRetryBackoffStartMs",
        "disableServerSocketBind",
        "enableLocalTransport",
    }
)
"""How it runs. Those of a bookie without a port are refused by the Java side."""
OF_AUTORECOVERY: Final = frozenset(
    {
        "openLedgerRereplicationGracePeriod",
        "rwRereplicateBackoffMs",
        "rereplicationEntryBatchSize",
        "lostBookieRecoveryDelay",
        "autoRecoveryDaemonEnabled",
        "clientConnectTimeoutMillis",
        "storeSystemTimeAsLedgerUnderreplicatedMarkTime",
        "clientAuthProviderFactoryClass",
        "repairedPlacementPolicyNotAdheringBookieEnabled",
        "ensemblePlacementPolicy",
    }
)
"""Apache's auditor and worker run in the test."""
AUDITOR: Final = "auditor"
"""What begins so is of autorecovery, too."""
OF_NO_CONSEQUENCE: Final = TAKEN_OVER | OF_ITS_OWN_STORAGE | OF_ITS_THREADS | OF_AUTORECOVERY
KNOWN_VALUES: Final = {
    "ledgerManagerFactoryClass": "HierarchicalLedgerManagerFactory",
    "readOnlyModeEnabled": "true",
    "forceReadOnlyBookie": "false",
    "journalWriteData": ("true", "false"),
}
"""By the ends of their values. The layout is read from the cluster; ours always turns read-only by
itself, and never from its start."""


class NotOursError(Exception):
    """A test sets what our bookie has not; the sentence names it."""


@dataclass(frozen=True, slots=True)
class Place:
    """Which bookie it is to be: `host` and `port` are those of the stock port."""

    bookie_id: str
    host: str
    port: int


def parsed(text: str) -> dict[str, str]:
    """Lines `name=value`."""
    return {name: value for name, _, value in (line.partition("=") for line in text.splitlines())}


def translated(
    stock: Mapping[str, str], place: Place, durability: Mapping[str, Any]
) -> dict[str, Any]:
    """NotOursError where there is no such bookie of ours."""
    for name, value in sorted(stock.items()):
        if not _is_known(name, value):
            raise NotOursError(f"setting {name}={value.rpartition('.')[2]}")
    journal, *_ = _listed(stock.get("journalDirectories") or stock["journalDirectory"])
    every_s = max(float(stock.get("gcWaitTime", "1000")) / 1000, COLLECT_SECONDS_MIN)
    flush = {}
    if "flushInterval" in stock:
        flush["flushIntervalSeconds"] = max(float(stock["flushInterval"]) / 1000, FLUSH_SECONDS_MIN)
    return {
        "bookieId": place.bookie_id,
        "metadata": _metadata(stock["metadataServiceUri"]),
        "host": place.host,
        "ports": {"stock": place.port, "run": 0, "admin": 0, "http": 0},
        "journal": {"directory": f"{journal}/our-journal"},
        "ledgers": [
            {"directory": f"{directory}/our-ledger-{number}"}
            for number, directory in enumerate(_listed(stock["ledgerDirectories"]))
        ],
        "durability": {**_durability(stock, durability), **flush},
        "storage": {
            "ringBytes": 12 * MIB,
            "logFileBytes": 16 * MIB,
            "collectIntervalSeconds": every_s,
            "collectGraceSeconds": every_s,
            "collectShareMax": 1,
        },
    }


def _is_known(name: str, value: str) -> bool:
    if name in KNOWN_VALUES:
        return value.endswith(KNOWN_VALUES[name])
    return name in OF_NO_CONSEQUENCE or name.startswith(AUDITOR)


def _durability(stock: Mapping[str, str], usual: Mapping[str, Any]) -> Mapping[str, Any]:
    """`usual`: that of the run, where the test says nothing of it."""
    wanted = stock.get("journalWriteData")
    if wanted == "true":
        return {"journalWriteData": True}
    if wanted == "false" and usual["journalWriteData"]:
        return {"journalWriteData": False, "ack": "memory"}
    return usual


def _metadata(uri: str) -> str:
    """`zk+longhierarchical://a:1/x` is `zk://a:1/x`: the layout is read from the cluster."""
    parts = urlsplit(uri)
    return f"zk://{parts.netloc.replace(';', ',')}{parts.path}"


def _listed(value: str) -> Sequence[str]:
    return [word for word in value.split(",") if word]
