"""cert-manager signs for a whole fleet and renews, and is missed when it is gone."""

from collections.abc import Iterator

import pytest
from harness.cert_manager import AUTHORITY, CONTROLLER, ISSUER, CertManager
from harness.credentials import LONGER, SIGNED_LONGER, Credentials
from harness.fleet import condition_of
from harness.operator import Operator
from harness.story import Story

CERTIFICATES = "CertificatesValid"


@pytest.fixture
def cert_manager(operator: Operator, story: Story) -> Iterator[CertManager]:
    """It runs, and has an issuer; the operator has the right to ask it."""
    if not CONTROLLER.exists():
        pytest.skip(f"no {CONTROLLER}: `make cert-manager` builds it, with Go")
    with CertManager(story.kube, story.folder / "cert-manager.log") as found:
        operator.install(values=("rbac.certManager=true",))
        try:
            found.make_issuer()
            yield found
        finally:
            story.end()  # while there are kinds that the operator clears away
            operator.install()


@pytest.mark.story("qq", "cert-manager signs, renews, is gone and comes back, under load")
def test_cert_manager_signs_for_the_whole_fleet(story: Story, cert_manager: CertManager) -> None:
    fleet, credentials = story.fleet, Credentials(story.fleet)
    story.up({"tls": {"issuer": {"name": ISSUER}}})
    story.write()
    before = story.boots()
    fleet.wait_condition(CERTIFICATES)
    ready = cert_manager.certificates()
    assert len(ready) > 5 and all(ready.values()), ready
    assert story.kube.get("secret", "demo-ca") is None, "the operator has no authority of its own"
    assert {one["signer"] for one in credentials.shown().values()} == {
        credentials.key_identifier(AUTHORITY)
    }

    fleet.change({"tls": LONGER})
    credentials.wait_lasting(SIGNED_LONGER)
    assert story.boots() == before, "nobody is restarted for a renewal"
    story.load.goes_on()

    cert_manager.stop()
    mark = fleet.watch.mark()
    credentials.take_away("bookie-1")
    said = fleet.wait_condition(CERTIFICATES, "False", reason="CertificateMissing", since=mark)
    assert "demo-bookie-1-tls" in condition_of(said, CERTIFICATES)["message"]
    cert_manager.start()
    fleet.wait_condition(CERTIFICATES, since=fleet.watch.mark() - 1)
    assert story.boots() == before
    story.nothing_is_lost()
