"""cert-manager's own controller, as a process of this machine beside the cluster, with its CRDs.

`make cert-manager` builds it. Its webhook is left out: it refuses objects that are written wrongly,
and what we write is to be taken by the controller itself.
"""

import subprocess
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final

import yaml

from harness.kube import Kube, Object, wait_for
from harness.settings import ROOT

HOME: Final = ROOT / "build" / "cert-manager"
CONTROLLER: Final = HOME / "controller"
GROUP: Final = "cert-manager.io/v1"
ISSUER: Final = "corporate"
AUTHORITY: Final = "corporate-ca"
READY_S: Final = 60.0
END_S: Final = 10.0


class CertManager:
    """A context manager: CRDs and controller are there, and gone afterwards."""

    def __init__(self, kube: Kube, log: Path) -> None:
        """`kube`: within the namespace whose issuers it serves. `log`: where its words go."""
        self._kube = kube
        self._log = log
        self._out: IO[str] | None = None
        """None before the first start."""
        self._running: subprocess.Popen[str] | None = None
        """None while it is stopped."""

    def __enter__(self) -> "CertManager":
        self._kube.apply(*crds())
        for crd in crds():
            words = ("wait", "crd", crd["metadata"]["name"], "--for=condition=Established")
            self._kube(*words, "--timeout=60s", seconds=70)
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        if self._out is not None:
            self._out.close()
        self._kube.delete("crd", *(str(crd["metadata"]["name"]) for crd in crds()), wait=True)

    def start(self) -> None:
        assert self._running is None, "it runs"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._out = self._out or self._log.open("a", encoding="utf-8")
        words = ["--kubeconfig", str(self._kube.kubeconfig), "--leader-elect=false", "--v=2"]
        words += ["--namespace", self._kube.namespace]
        self._running = self._kube.start([str(CONTROLLER), *words], self._out)

    def stop(self) -> None:
        running, self._running = self._running, None
        if running is None:
            return
        running.terminate()
        try:
            running.wait(END_S)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()

    def make_issuer(self) -> None:
        """An authority that signs itself, and the issuer of its name."""
        self._kube.apply(
            issuer("itself", {"selfSigned": {}}),
            authority(),
            issuer(ISSUER, {"ca": {"secretName": AUTHORITY}}),
        )
        wait_for("an issuer that is ready", self._is_issuer_ready, seconds=READY_S)

    def _is_issuer_ready(self) -> bool:
        found = self._kube.get("issuer.cert-manager.io", ISSUER) or {}
        conditions = (found.get("status") or {}).get("conditions") or ()
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def certificates(self) -> dict[str, bool]:
        """Whether each Certificate is ready, by its name."""
        return {
            str(one["metadata"]["name"]): any(
                condition["type"] == "Ready" and condition["status"] == "True"
                for condition in (one.get("status") or {}).get("conditions") or ()
            )
            for one in self._kube.items("certificate.cert-manager.io")
        }


def crds() -> list[Object]:
    """As cert-manager's module has them; their labels are a template of its chart."""
    found: list[Object] = []
    for path in sorted((HOME / "crds").glob("crd-*.yaml")):
        crd: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        del crd["metadata"]["labels"]
        found.append(crd)
    return found


def issuer(name: str, spec: Object) -> Object:
    return {"apiVersion": GROUP, "kind": "Issuer", "metadata": {"name": name}, "spec": spec}


def authority() -> Object:
    spec: Object = {
        "secretName": AUTHORITY,
        "commonName": "corporate authority",
        "isCA": True,
        "duration": "43800h0m0s",
        "privateKey": {"algorithm": "ECDSA", "size": 256},
        "issuerRef": {"name": "itself", "kind": "Issuer"},
    }
    meta = {"name": AUTHORITY}
    return {"apiVersion": GROUP, "kind": "Certificate", "metadata": meta, "spec": spec}
