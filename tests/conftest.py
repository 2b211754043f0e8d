"""Shared fixtures: modules of tests/support, loaded as plugins."""

pytest_plugins = ["zookeeper_fixture", "spark_fixture"]
