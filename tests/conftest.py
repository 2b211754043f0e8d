"""Shared fixtures: modules of tests/support, loaded as plugins."""

pytest_plugins = [
    "boot_lab",
    "cli_lab",
    "server_lab",
    "town",
    "spark_fixture",
    "stock_client",
    "zookeeper_fixture",
]
