"""Certificates of a fleet as they lie in Secrets, as its servers show them, and as somebody who is
clumsy or hostile would change them. By kubectl and `cryptography`: no code of the product."""

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from harness.fleet import Fleet, pod_name
from harness.kube import Object, wait_for
from harness.manifests import CLUSTER, WRITER
from harness.settings import ROOT

FILES: Final = ("tls.crt", "tls.key", "ca.crt")
MOUNTED_S: Final = 200.0
"""A kubelet brings a changed Secret into a pod within two minutes."""
ZOOKEEPER: Final = f"{CLUSTER}-zookeeper"
LONGER: Final = {"lifetimeDays": 400, "renewBeforeDays": 100}
"""What was signed for 90 days ends too early by that, and what is signed then does not."""
SIGNED_LONGER: Final = timedelta(days=300)
PORTS: Final = (3181, 3182, 3183)
"""Of a bookie: the stock wire, the native one, and its control plane."""


class Credentials:
    """Of the cluster `demo` of one namespace."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._kube = fleet.kube

    # Secrets
    def read(self, name: str) -> Mapping[str, bytes]:
        found = self._kube.get("secret", name)
        assert found is not None, f"no secret {name}"
        return {key: base64.b64decode(text) for key, text in found["data"].items()}

    def of(self, holder: str) -> x509.Certificate:
        """The certificate of one: `bookie-0`, `client`, `zookeeper`."""
        return x509.load_pem_x509_certificate(self.read(secret_name(holder))["tls.crt"])

    def key_identifier(self, secret: str) -> str:
        """Of the authority in a Secret, as certificates name their signer."""
        found = x509.load_pem_x509_certificate(self.read(secret)["tls.crt"])
        key = found.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        return key.digest.hex()

    def put(self, holder: str, files: Mapping[str, bytes]) -> None:
        """Somebody else's hands: over what the Secret has."""
        data = {key: base64.b64encode(text).decode("ascii") for key, text in files.items()}
        self._kube.patch("secret", secret_name(holder), {"data": data})

    def take_away(self, holder: str) -> None:
        self._kube.delete("secret", secret_name(holder), wait=True)

    def written_to(self, folder: Path, holder: str) -> Path:
        """As files, for programs of this machine."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in self.read(secret_name(holder)).items():
            (folder / name).write_bytes(text)
        return folder

    def expired(self, holder: str) -> dict[str, bytes]:
        """What the authority would have signed a year ago: all is right but its time."""
        now, found = datetime.now(UTC), self.of(holder)
        authority = self.read(f"{CLUSTER}-ca")
        issuer = x509.load_pem_x509_certificate(authority["tls.crt"])
        signer = serialization.load_pem_private_key(authority["tls.key"], None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            x509.CertificateBuilder()
            .subject_name(found.subject)
            .issuer_name(issuer.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=365))
            .not_valid_after(now - timedelta(hours=1))
        )
        own = (x509.SubjectKeyIdentifier,)
        for extension in found.extensions:
            if not isinstance(extension.value, own):
                builder = builder.add_extension(extension.value, extension.critical)
        signed = builder.sign(signer, hashes.SHA256())
        return {
            "tls.crt": signed.public_bytes(serialization.Encoding.PEM),
            "tls.key": key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        }

    # What servers show, and what pods have
    def shown(self) -> dict[str, Mapping[str, str]]:
        """By `host:port`, of every bookie and the ZooKeeper, seen from the writer's pod."""
        bookies = [str(one["id"]) for one in self._fleet.status()["bookies"]]
        targets = [f"{self._host(bookie)}:{port}" for bookie in bookies for port in PORTS]
        targets.append(f"{ZOOKEEPER}:2181")
        script = (ROOT / "e2e" / "pods" / "served.py").read_text(encoding="utf-8")
        inside = ("exec", WRITER, "--", "python", "-c", script, *targets)
        found: Object = json.loads(self._kube(*inside).splitlines()[-1])
        return found

    def wait_lasting(self, lifetime: timedelta) -> None:
        """Until every server shows a certificate that lasts so long still."""

        def do_all_last() -> bool:
            end = datetime.now(UTC) + lifetime
            return all(datetime.fromisoformat(one["ends"]) > end for one in self.shown().values())

        wait_for("servers that show what was renewed", do_all_last, seconds=MOUNTED_S)

    def _host(self, bookie: str) -> str:
        return f"{pod_name(bookie)}.{CLUSTER}-bookies"

    def wait_mounted(self, bookie: str, key: str, text: bytes) -> None:
        """Until the bookie's pod has this file."""
        words = ("exec", pod_name(bookie), "--", "cat", f"/etc/bookie/tls/{key}")
        wait_for(
            f"{key} in the pod of {bookie}",
            lambda: self._kube(*words).strip() == text.decode("ascii").strip(),
            seconds=MOUNTED_S,
        )


def secret_name(holder: str) -> str:
    return f"{CLUSTER}-{holder}-tls"
