"""How the plugin calls kubectl, and what it makes of what kubectl says."""

import os

import pytest
from bookie_operator.kubectl import client
from bookie_operator.kubectl.client import CLUSTERS, KubectlError, NotFoundError
from kubectl_lab import FakeLab, tree_of

WATCH = "get", CLUSTERS, "demo", "--watch", "--output-watch-events", "--output=json"


@pytest.mark.parametrize(
    ("flags", "namespace"),
    [
        ((), "books"),
        (("--context=--namespace=x",), "books"),
        (("--context=x", "--namespace=shelf"), "shelf"),
        (("--namespace=shelf", "--context=x"), "shelf"),
        (("--namespace=shelf", "--namespace=attic"), "attic"),
    ],
)
def test_the_namespace_is_the_last_that_was_given_else_the_context_s(
    lab: FakeLab, flags: tuple[str, ...], namespace: str
) -> None:
    assert lab.kubectl(*flags).namespace() == namespace


@pytest.mark.parametrize(
    ("shown", "namespace"),
    [
        ("{}", "default"),
        ('{"contexts": null}', "default"),
        ('{"contexts": [{"name": "x"}]}', "default"),
        ('{"contexts": [{"context": null}]}', "default"),
        ('{"contexts": [{"context": {"namespace": ""}}]}', "default"),
        ('{"contexts": [{"context": {"namespace": "shelf"}}]}', "shelf"),
    ],
)
def test_a_context_without_a_namespace_means_the_default_one(
    lab: FakeLab, shown: str, namespace: str
) -> None:
    lab.answer_by(f"echo '{shown}'")
    assert lab.kubectl("--context=x").namespace() == namespace


@pytest.mark.parametrize(
    ("shown", "user"),
    [
        ('{"status": {"userInfo": {"username": "jo"}}}', "jo"),
        ('{"status": {"userInfo": {}}}', ""),
        ('{"status": {"userInfo": null}}', ""),
        ('{"status": null}', ""),
        ("{}", ""),
    ],
)
def test_who_calls_is_who_the_api_server_says(lab: FakeLab, shown: str, user: str) -> None:
    lab.answer_by(f"echo '{shown}'")
    assert lab.kubectl().user() == user


def test_where_the_api_server_does_not_say_who_calls_it_is_the_user_here(
    lab: FakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "ann-here")
    lab.refuse("auth", "error: unknown command")
    assert lab.kubectl().user() == client.user_name() == "ann-here"


@pytest.mark.parametrize(
    ("seconds", "limit"),
    [
        (None, ()),
        (0.2, ("--request-timeout=1s",)),
        (1.4, ("--request-timeout=1s",)),
        (1.6, ("--request-timeout=2s",)),
        (90.0, ("--request-timeout=90s",)),
    ],
)
def test_a_watch_has_the_time_that_it_is_given_but_a_second_at_least(
    lab: FakeLab, seconds: float | None, limit: tuple[str, ...]
) -> None:
    lab.put_cluster("healthy")
    assert [one.type for one in lab.kubectl().watch(CLUSTERS, "demo", seconds=seconds)] == ["ADDED"]
    assert lab.calls()[0]["words"] == [*WATCH, *limit]


@pytest.mark.parametrize("seconds", [None, 60.0])
@pytest.mark.parametrize(
    ("complaint", "kind", "told"),
    [
        (
            "Error from server (NotFound): x not found",
            NotFoundError,
            "^x not found: check the",
        ),
        ("error: something new", KubectlError, "^something new$"),
        ("", KubectlError, f"kubectl get {CLUSTERS}: nothing was said$"),
    ],
)
def test_a_watch_that_fails_before_its_time_says_why(
    lab: FakeLab, seconds: float | None, complaint: str, kind: type[Exception], told: str
) -> None:
    lab.refuse("get", complaint)
    with pytest.raises(kind, match=told):
        list(lab.kubectl().watch(CLUSTERS, "demo", seconds=seconds))


def test_a_watch_that_fails_once_its_time_is_up_has_ended(lab: FakeLab) -> None:
    lab.refuse("get", "error: the time is up")
    assert not list(lab.kubectl().watch(CLUSTERS, "demo", seconds=0))


@pytest.mark.parametrize("heeds", ["", "trap '' TERM;"])
def test_a_watch_that_was_left_leaves_no_kubectl_behind(
    lab: FakeLab, monkeypatch: pytest.MonkeyPatch, heeds: str
) -> None:
    monkeypatch.setattr(client, "END_S", 0.01)
    event = '{"type": "ADDED", "object": {"pid": \'$$\'}}'
    lab.answer_by(f"{heeds} echo '{event}'; exec tail -f /dev/null >&2")
    changes = lab.kubectl().watch(CLUSTERS, "demo")
    pid = next(iter(changes)).found["pid"]
    changes.close()  # type: ignore[attr-defined]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_blank_lines_of_a_watch_mean_nothing(lab: FakeLab) -> None:
    event = '{"type": "ADDED", "object": {"name": "Ö"}}'
    lab.answer_by(f"printf '\\n%s\\n \\n' '{event}'")
    assert [one.found for one in lab.kubectl().watch(CLUSTERS, "demo")] == [{"name": "Ö"}]


@pytest.mark.parametrize(
    ("complaint", "told"),
    [
        ("error: it broke", "it broke"),
        ("Error from server (Conflict): it broke", "it broke"),
        ("Error from server: it broke", "it broke"),
        ("it broke with error: x", "it broke with error: x"),
        ("a warning\n  error: it broke  \n\n", "it broke"),
        ("error: it broke\nerror: and more", "and more"),
    ],
)
def test_the_last_line_of_a_complaint_is_told_without_its_prefix(
    lab: FakeLab, complaint: str, told: str
) -> None:
    lab.refuse("get", complaint)
    with pytest.raises(KubectlError) as raised:
        lab.kubectl().get(CLUSTERS, "demo")
    assert str(raised.value) == told


WHERE = "expected an API server: check --kubeconfig and --context"
WHO = "log in to the cluster again, or choose a --context"


@pytest.mark.parametrize(
    ("complaint", "told"),
    [
        ('Error from server (NotFound): namespaces "x" not found', "check the name and the namesp"),
        ('error: the server doesn\'t have a resource type "x"', "expected the CustomResourceDefin"),
        ("Error from server (Forbidden): x cannot list", "expected the right to do so"),
        ("error: Unauthorized (Unauthorized)", WHO),
        ("error: You must be logged in to the server", WHO),
        ("The connection to the server h:1 was refused", WHERE),
        ("dial tcp: lookup h: no such host", WHERE),
        ("Unable to connect to the server: x", WHERE),
        ("dial tcp 10.0.0.1:443: i/o timeout", WHERE),
        ("error: stat /x: no such file or directory", WHERE),
        ("Error in configuration: context was not found for x", "kubectl config get-contexts"),
        ('error: context "x" does not exist', "kubectl config get-contexts"),
    ],
)
def test_a_complaint_that_is_known_has_what_to_do_about_it(
    lab: FakeLab, complaint: str, told: str
) -> None:
    lab.refuse("get", complaint)
    with pytest.raises(KubectlError, match=told) as raised:
        lab.kubectl().get(CLUSTERS, "demo")
    assert isinstance(raised.value, NotFoundError) is ("(NotFound)" in complaint)


def test_a_command_that_says_nothing_is_named(lab: FakeLab) -> None:
    lab.refuse("get", "")
    with pytest.raises(KubectlError, match=f"kubectl get {CLUSTERS}: nothing was said$"):
        lab.kubectl().get(CLUSTERS, "demo")


def test_what_is_handed_in_arrives_whole(lab: FakeLab) -> None:
    lab.put_cluster("healthy")
    lab.kubectl("--context=x").patch(CLUSTERS, "demo", merge={"metadata": {"labels": {"Ö": "1"}}})
    [call] = lab.calls()
    assert call["words"][:4] == ["patch", CLUSTERS, "demo", "--type=merge"]
    assert call["words"][-1] == "--context=x"
    assert lab.get("bookieclusters", "demo")["metadata"]["labels"] == {"Ö": "1"}
    assert lab.get("bookieclusters", "demo")["spec"] == tree_of("healthy")["spec"]
