"""Clients outside of the Kubernetes cluster: this machine is one, and cannot resolve any name of
the cluster's inside. What writes and judges is the stock Java client, and the native one after it.
"""

import asyncio
import json
import time
from pathlib import Path
from typing import Final

import judge_java
import pytest
from bookie.errors import UnavailableError
from bookie.metadata.opening import open_store
from harness.commands import CommandError, run
from harness.credentials import Credentials
from harness.fleet import BKC
from harness.kube import Object, wait_for
from harness.manifests import CLUSTER
from harness.story import Story

KUBELET_S: Final = 180.0
"""The kubelet renews the files of a pod about once a minute."""
WRITE_S: Final = 20.0
WRITING: Final = {"writers": 2, "rate": 200, "layouts": "3/3/2,4/3/2", "entries": 500}


def outside_url(story: Story) -> str:
    """By an address of the node and the port that the Service was given."""
    service = story.kube.get("service", f"{CLUSTER}-zookeeper-external")
    assert service is not None
    [node] = story.kube.items("nodes")
    [host] = [one["address"] for one in node["status"]["addresses"] if one["type"] == "InternalIP"]
    return f"zks://{host}:{service['spec']['ports'][0]['nodePort']}/ledgers"


def instances(cluster: Object) -> dict[str, str]:
    return {one["id"]: str(one["instance"]) for one in cluster["status"]["bookies"]}


def advertising(cluster: Object) -> list[str]:
    return [one["id"] for one in cluster["status"]["bookies"] if one.get("advertised")]


async def registered(url: str) -> dict[str, list[str]]:
    """Ids of the endpoints of each bookie, in order."""
    store = await open_store(url)
    try:
        bookies = await store.bookies()
        return {name: [one.endpoint_id for one in it.endpoints] for name, it in bookies.items()}
    finally:
        await store.close()


@pytest.mark.story("oo", "clients outside of the Kubernetes cluster, by ports of the node")
def test_clients_outside_reach_every_bookie(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.up()
    tls = Credentials(story.fleet).written_to(tmp_path / "tls", "client")
    monkeypatch.setenv("BOOKIE_TLS__DIRECTORY", str(tls))
    before = instances(story.fleet.object())
    story.fleet.change({"external": {"type": "NodePort", "zookeeper": True}})
    story.fleet.wait("addresses", lambda found: len(advertising(found)) == 4, seconds=60)
    url = outside_url(story)

    def all_registered() -> bool:
        try:
            found = asyncio.run(registered(url))
        except UnavailableError:  # ZooKeeper does not show a certificate of this address yet
            return False
        return all(ids[0] == "bookie-rpc-advertised" for ids in found.values())

    wait_for("registrations with addresses outside", all_registered, seconds=KUBELET_S)
    assert instances(story.fleet.object()) == before, "nobody was restarted"

    judge = judge_java.Judge(judge_java.build().classpath(), tmp_path, url, tls)
    writer = judge.write(seconds=600, seed=1, options=WRITING)
    time.sleep(WRITE_S)  # is the load, not a wait
    epoch = story.fleet.epoch("bookie-1")
    story.faults.kill("bookie-1")
    story.fleet.wait_cleared("bookie-1", after=epoch)
    story.numbers["written"] = writer.stop()["acknowledged"]
    status = tmp_path / "status.json"
    status.write_text(json.dumps(story.fleet.object()), encoding="utf-8")
    verdict = judge.check(status=status, faults=1, name="verdict")
    assert verdict["exitCode"] == judge_java.WHOLE, verdict

    where = ("--metadata", url, "--output", "json")
    words = ["bookie", "ledger", "write", __file__, *where]
    with pytest.raises(CommandError):
        run(words, seconds=60)  # names of the inside mean nothing here
    ledger = str(json.loads(run([*words, "--advertised"], seconds=60))["ledger_id"])
    words = ["bookie", "ledger", "read", ledger, "--raw", "--metadata", url, "--advertised"]
    assert run(words, seconds=60) == Path(__file__).read_text(encoding="utf-8")

    story.kube.patch(BKC, CLUSTER, {"spec": {"external": None}})
    story.fleet.wait("no address", lambda found: not advertising(found), seconds=60)
    left = story.kube.items("services", "bookkeeper.bookie-operator.dev/component=external")
    assert left == []
