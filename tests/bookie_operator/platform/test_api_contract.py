"""The fake API servers keep the claims that a real one keeps in e2e/test_api_contract.py."""

from collections.abc import AsyncIterator

import pytest
from api_claims import ApiClaims
from bookie_operator.platform.kubernetes.api import NODE, Api
from bookie_operator.platform.kubernetes.dynamic_api import ApiServer, DynamicApi
from fake_api import FakeApi
from fake_api_server import FakeApiServer
from fake_controllers import Controllers
from kubernetes.aio.client import Configuration


class TestFakeApi(ApiClaims):
    @pytest.fixture
    def api(self) -> FakeApi:
        made = FakeApi()
        made.not_in_schema = {"mood"}
        made.put(NODE, {"metadata": {"name": "node-1"}})
        return made

    async def let_go(self, api: Api) -> None:
        assert isinstance(api, FakeApi)
        Controllers(api).settle()


class TestFakeApiServer(ApiClaims):
    """The same over HTTP, asked by the real Api."""

    @pytest.fixture
    async def server(self) -> AsyncIterator[FakeApiServer]:
        async with FakeApiServer().serving() as made:
            made.namespace("fleet").not_in_schema = {"mood"}
            made.cluster_wide.put(NODE, {"metadata": {"name": "node-1"}})
            yield made

    @pytest.fixture
    async def api(self, server: FakeApiServer) -> AsyncIterator[Api]:
        self.server = server

        async def log_in(configuration: Configuration) -> None:
            configuration.host = server.url

        connection = await ApiServer.connect(log_in)
        yield DynamicApi(connection, "fleet")
        await connection.close()
        assert 501 not in {asked.code for asked in server.asked}, "it was asked what it cannot do"

    async def let_go(self, api: Api) -> None:
        Controllers(self.server.namespace(api.namespace)).settle()
