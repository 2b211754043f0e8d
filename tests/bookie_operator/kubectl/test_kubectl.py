"""The fake kubectl keeps what the real one does (`e2e/test_kubectl_plugin.py`)."""

from kubectl_contract import KubectlContract


class TestFake(KubectlContract):
    pass
