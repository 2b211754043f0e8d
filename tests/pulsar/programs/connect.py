"""How the programs come to a broker: as Pulsar's client does it, with more patience."""

import pulsar

PATIENCE_S = 120
"""A topic that is loaded while its bookies are struck takes its time."""


def connected(url: str) -> pulsar.Client:
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn)
    return pulsar.Client(url, operation_timeout_seconds=PATIENCE_S, logger=logger)
