"""A fleet's certificates and its ways to TLS and back, pass by pass, over fakes."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest
from bookie.ids import BookieId
from bookie.metadata.memory import MemoryCluster, MemoryStore
from bookie.metadata.store import BookieInfo, MetadataStore
from bookie.tls.principals import Role
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.tls import TlsMode
from bookie_operator.observe import Observer
from bookie_operator.plan.actions import IssueCertificate
from bookie_operator.plan.decisions import decision_job
from bookie_operator.platform.credential_files import authorities_of, certificate_of
from bookie_operator.reconcile import Reconciler
from bookie_operator.tls_view import Issuer
from fake_platform import FakeControl, FakePlatform
from operator_scenes import T0, cluster, task

DAY_S = 86400.0
STEP_S = 15.0
"""Between passes: longer than a bookie with new settings has to run before the next one goes."""
B0 = BookieId("bookie-0")


@dataclass
class Fleet:
    """A cluster with TLS, whatever it is at first; passes go by, and the days."""

    cluster: BookieCluster
    platform: FakePlatform = field(default_factory=FakePlatform)
    metadata: MemoryCluster = field(default_factory=MemoryCluster)
    now: datetime = T0
    told: list[str] = field(default_factory=list)
    """What each pass changed: what bookies take, who signs, who is trusted."""

    def __post_init__(self) -> None:
        self.platform.clock = lambda: self.now
        control = FakeControl()
        observer = Observer(self.platform, control, opener=self._open, clock=lambda: self.now)
        self.reconciler = Reconciler(self.platform, observer, control)
        self._sessions: list[MemoryStore] = []

    async def _open(self, url: str) -> MetadataStore:
        return MemoryStore(self.metadata)

    async def run(self, passes: int = 1, *, step_s: float = STEP_S) -> None:
        for _ in range(passes):
            status = await self.reconciler.run_pass(self.cluster)
            self.cluster = self.cluster.model_copy(update={"status": status})
            self.now += timedelta(seconds=step_s)
            line = self.line()
            if not self.told or self.told[-1] != line:
                self.told.append(line)

    async def up(self) -> "Fleet":
        await self.run(6)
        for bookie_id in self.cluster.spec.bookie_ids:
            session = MemoryStore(self.metadata)
            self._sessions.append(session)
            await session.register(BookieInfo(bookie_id, ()))
        await self.run(2)
        self.told.clear()
        return self

    def want(self, **tls: object) -> None:
        spec = self.cluster.spec
        wanted = spec.tls.model_validate(spec.tls.as_dict() | tls)
        self.cluster = self.cluster.model_copy(
            update={"spec": spec.model_copy(update={"tls": wanted})}
        )

    def line(self) -> str:
        modes = "".join(
            one.process.tls.value[0] if one.process else "-"
            for _name, one in sorted(self.platform.fleet.items())
        )
        return f"{modes} {self.authorities()}".rstrip()

    def authorities(self) -> str:
        """`1/1+2: 4,2` = the first signs, both are trusted, four hold what it signed, and two what
        the second did."""
        files = self.platform.vault.files.get(None)
        if files is None:
            return ""
        found = authorities_of(files)
        known = sorted(found.trusted.values(), key=lambda one: one.not_after)
        number = {one.fingerprint: n for n, one in enumerate(known, start=1)}
        signing = number[found.signing.fingerprint] if found.signing else "-"
        leaves = [
            certificate_of(self.platform.vault.files[one]) for one in self.platform.vault.holders
        ]
        counts = ",".join(str(sum(one.signer == name for one in leaves)) for name in number)
        both = sum(len(one.trusted) == len(known) for one in leaves)
        return f"{signing}/{len(known)}: {counts}; {both} trust all"

    def condition(self, kind: ConditionType) -> tuple[str, str, str]:
        found = self.cluster.status.condition(kind)
        return (found.status, found.reason, found.message) if found else ("", "", "")

    def certificates(self) -> tuple[str, str, str]:
        return self.condition(ConditionType.CERTIFICATES_VALID)

    def in_force(self) -> tuple[str, str, str]:
        return self.condition(ConditionType.TLS_IN_FORCE)

    @property
    def modes(self) -> set[TlsMode]:
        return {one.process.tls for one in self.platform.fleet.values() if one.process}


async def secure(**tls: object) -> Fleet:
    return await Fleet(cluster(tls=tls)).up()


async def fleet() -> Fleet:
    """A plain one."""
    return await secure(mode="Off")


async def with_an_old_authority() -> Fleet:
    """Whose certificates have been renewed, and which ends too soon for another renewal."""
    one = await secure(authorityDays=181, lifetimeDays=90)
    one.now += timedelta(days=61)
    await one.run(2)
    one.now += timedelta(days=31)
    one.told.clear()
    return one


async def test_a_new_fleet_has_certificates_before_its_first_bookie_runs() -> None:
    one = Fleet(cluster(tls={"mode": "Required"}))
    await one.run()
    assert one.certificates()[:2] == ("Unknown", "CertificatesPending")
    assert not any(bookie.process for bookie in one.platform.fleet.values())
    await one.run(3)
    assert one.modes == {TlsMode.REQUIRED} and one.in_force()[:2] == ("True", "InForce")
    assert one.certificates()[:2] == ("True", "AllValid")


async def test_a_plain_fleet_has_nothing_to_do_with_it() -> None:
    one = await fleet()
    assert one.cluster.status.tls is None and not one.platform.vault.files
    assert one.certificates() == one.in_force() == ("", "", "")


async def test_from_plain_to_tls_nobody_is_left_behind() -> None:
    one = await fleet()
    one.want(mode="Required")
    await one.run(12)
    trust = "1/1: 6; 6 trust all"
    assert [line.split(" ")[0] for line in one.told] == [
        *("OOOO", "OOOO", "AOOO", "AAOO", "AAAO", "AAAA"),
        *("RAAA", "RRAA", "RRRA", "RRRR"),
    ]
    assert one.told[-1].endswith(trust)
    assert one.in_force() == ("True", "InForce", "every bookie takes Required")


async def test_the_way_is_in_a_condition() -> None:
    one = await fleet()
    one.want(mode="Required")
    await one.run(4)
    status, reason, message = one.in_force()
    assert (status, reason) == ("False", "Accepting")
    assert "on the way to Required; not yet: bookie-1 (Off), bookie-2 (Off)" in message
    assert one.cluster.status.tls is not None and one.cluster.status.tls.clients == "Accepted"


async def test_and_back_again() -> None:
    one = await secure()
    one.want(mode="Off")
    await one.run(12)
    assert [line.split(" ")[0] for line in one.told] == [
        *("ARRR", "AARR", "AAAR", "AAAA", "OAAA", "OOAA", "OOOA", "OOOO"),
    ]
    assert one.cluster.status.tls is None and one.in_force() == ("", "", "")


async def test_the_way_may_be_turned_at_any_time() -> None:
    one = await fleet()
    one.want(mode="Required")
    await one.run(9)
    assert one.modes == {TlsMode.ACCEPTED, TlsMode.REQUIRED}
    one.want(mode="Off")
    await one.run(12)
    assert one.modes == {TlsMode.OFF}


async def test_one_authority_takes_over_from_another_without_a_gap() -> None:
    one = await with_an_old_authority()
    await one.run(16)
    assert [line.split(" ", 1)[1] for line in one.told] == [
        "1/2: 6,0; 0 trust all",
        "1/2: 6,0; 6 trust all",
        "2/2: 6,0; 6 trust all",
        "2/2: 0,6; 6 trust all",
        "1/1: 6; 0 trust all",
        "1/1: 6; 6 trust all",
    ]
    assert one.cluster.status.tls is not None and one.cluster.status.tls.rollover == ""


async def test_each_step_of_it_gives_processes_time_to_read() -> None:
    one = await with_an_old_authority()
    one.platform.spreads_within = timedelta(seconds=100)
    await one.run(8, step_s=10)
    assert one.told[-1].endswith("1/2: 6,0; 6 trust all"), "nothing is signed by it yet"
    assert one.cluster.status.tls is not None
    assert one.cluster.status.tls.rollover == "Trusting"
    await one.run(8, step_s=10)
    assert one.told[-1].endswith("2/2: 0,6; 6 trust all"), "the old one is trusted still"


async def test_a_lost_authority_is_trusted_until_another_has_taken_over() -> None:
    one = await secure()
    del one.platform.vault.files[None]
    await one.run()
    assert one.certificates()[:2] == ("False", "AuthorityLost")
    await one.run(12)
    assert "-/2: 6,0; 6 trust all" in one.told[1]
    assert one.told[-1].endswith("1/1: 6; 6 trust all")
    assert one.certificates()[:2] == ("True", "AllValid")


async def test_certificates_are_renewed_in_time() -> None:
    one = await secure()
    one.platform.certified.clear()
    one.now += timedelta(days=59)
    await one.run()
    assert not one.platform.certified
    one.now += timedelta(days=2)
    await one.run(2)
    assert {type(action) for action in one.platform.certified} == {IssueCertificate}
    assert len(one.platform.certified) == 6 and one.certificates()[0] == "True"


def garbled(one: Fleet) -> None:
    one.platform.vault.garble(one.platform.holder(Role.BOOKIE, B0))


def deleted(one: Fleet) -> None:
    del one.platform.vault.files[one.platform.holder(Role.BOOKIE, B0)]


def of_another(one: Fleet) -> None:
    files = one.platform.vault.files
    other = files[one.platform.holder(Role.BOOKIE, "bookie-1")]
    files[one.platform.holder(Role.BOOKIE, B0)] = other


def trusting_nobody_known(one: Fleet) -> None:
    holder = one.platform.holder(Role.BOOKIE, B0)
    mine = one.platform.vault.files[holder]
    one.platform.vault.files[holder] = {**mine, "ca.crt": mine["tls.crt"]}


def expired(one: Fleet) -> None:
    one.now += timedelta(days=91)


def from_tomorrow(one: Fleet) -> None:
    one.now -= timedelta(days=1)


WRONG: dict[str, Callable[[Fleet], None]] = {
    "CertificateUnusable": garbled,
    "CertificateMissing": deleted,
    "WrongName": of_another,
    "WrongAuthority": trusting_nobody_known,
    "CertificateExpired": expired,
    "ClockOff": from_tomorrow,
}


@pytest.mark.parametrize("reason", WRONG)
async def test_what_other_hands_and_clocks_did_is_seen_named_and_mended(reason: str) -> None:
    one = await secure()
    before = {name: bookie.process for name, bookie in one.platform.fleet.items()}
    WRONG[reason](one)
    await one.run()
    assert one.certificates()[:2] == ("False", reason)
    assert "Secret demo-bookie-0-tls" in one.certificates()[2]
    assert reason in one.platform.reasons
    await one.run()
    assert one.certificates()[0] == "True" and "CertificatesValid" in one.platform.reasons
    assert {name: bookie.process for name, bookie in one.platform.fleet.items()} == before


async def test_what_an_issuer_has_to_mend_is_reported_and_nothing_is_signed() -> None:
    one = await secure(issuer={"name": "corporate"})
    assert one.certificates()[:2] == ("True", "AllValid"), "of the operator's own, until here"
    one.platform.issuer = Issuer("Issuer corporate", "no such issuer", is_there=False)
    one.platform.certified.clear()
    await one.run(2)
    assert one.certificates()[:2] == ("False", "IssuerMissing")
    found = one.cluster.status.condition(ConditionType.DEGRADED)
    assert found is not None and found.reason == "CertificatesInvalid"
    assert not one.platform.certified and one.modes == {TlsMode.REQUIRED}


async def test_a_paused_cluster_is_told_of_and_left_alone() -> None:
    one = await secure()
    spec = one.cluster.spec.model_copy(update={"paused": True})
    one.cluster = one.cluster.model_copy(update={"spec": spec})
    one.platform.certified.clear()
    garbled(one)
    await one.run(2)
    assert one.certificates()[:2] == ("False", "CertificateUnusable")
    assert not one.platform.certified


async def test_a_right_that_lacks_stops_no_repair() -> None:
    one = await secure()

    async def denied(*_: object) -> None:
        from bookie_operator.errors import ForbiddenError

        raise ForbiddenError('User "operator" cannot get resource "secrets"')

    one.platform.certificates = denied  # type: ignore[method-assign, assignment]
    await one.run()
    assert one.certificates()[:2] == ("Unknown", "CertificatesUnseen")
    assert one.cluster.status.is_true(ConditionType.AVAILABLE)


async def test_a_bookie_reached_from_outside_has_that_name_in_its_certificate() -> None:
    one = await secure()
    bookie = one.platform.fleet[B0]
    assert bookie.process is not None
    outside = replace(bookie.process, advertised="stock=b0.example.org:3181 run=[2001:db8::1]:1")
    one.platform.fleet[B0] = replace(bookie, process=outside)
    await one.run(2)
    files = one.platform.vault.files[one.platform.holder(Role.BOOKIE, B0)]
    assert certificate_of(files).hosts >= {"b0.example.org", "2001:db8::1", "localhost"}


async def test_no_key_is_in_events_or_statuses() -> None:
    one = await secure()
    for harm in WRONG.values():
        harm(one)
        await one.run(2)
    written = str(one.platform.events) + str([c.as_dict() for c in one.platform.published])
    assert "PRIVATE" not in written and "BEGIN" not in written


async def test_a_decision_has_a_certificate_for_as_long_as_its_job_runs() -> None:
    one = await secure()
    wish = task("accept-loss", ledger=7, reason="power cut", approvedBy="ann")
    job, ann = decision_job(wish), one.platform.holder(Role.DECISION, "ann")
    one.platform.tasks_seen = [wish]
    await one.run(1)
    assert ann in one.platform.vault.files and job not in one.platform.jobs_seen
    assert one.platform.published[-1].status.tls.decision.job == job  # type: ignore[union-attr]
    await one.run(2)
    assert one.platform.shown[job] == ann and ann in one.platform.vault.files
    ended = replace(one.platform.jobs_seen[job], running=False, ended_at=one.now, exit_code=0)
    one.platform.jobs_seen[job] = ended
    await one.run(2)
    assert ann not in one.platform.vault.files
    assert one.cluster.status.tls is not None and one.cluster.status.tls.decision is None
    told = [event.reason for event in one.platform.events if "decision ann" in event.message]
    assert told == ["CertificateIssued", "CertificateWithdrawn"]
    assert one.certificates()[:2] == ("True", "AllValid"), "nobody else is told of it"
