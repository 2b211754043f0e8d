"""The fake API server keeps the claims that a real one keeps in e2e/test_api_contract.py."""

import pytest
from api_claims import ApiClaims
from bookie_operator.platform.kubernetes.api import NODE, Api
from fake_api import FakeApi
from fake_controllers import Controllers


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
