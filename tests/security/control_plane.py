"""Attacks on the control plane (3183): every call, by gRPC and the published proto alone."""

import importlib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import grpc
from strangers import Attacker

PROTO: Final = Path(__file__).parents[2] / "bookie/src/bookie/wire/admin/bookie_admin.proto"
MODULE: Final = "bookie_admin_pb2"
DEADLINE_S: Final = 5.0
REFUSALS: Final = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAVAILABLE)
"""The bookie's own word, and a handshake that did not come to its end."""


def compiled(folder: Path) -> Path:
    """The published proto as a module of Python, made for this run."""
    folder.mkdir()
    words = ["-m", "grpc_tools.protoc", f"-I{PROTO.parent}", f"--python_out={folder}"]
    subprocess.run([sys.executable, *words, PROTO.name], check=True)
    return folder / f"{MODULE}.py"


class Calls:
    """The service as its proto describes it; `folder` has what `compiled` made."""

    def __init__(self, folder: Path) -> None:
        sys.path.insert(0, str(folder))
        self.messages = importlib.import_module(MODULE)
        self.service = self.messages.DESCRIPTOR.services_by_name["BookieAdmin"]

    @property
    def methods(self) -> list[str]:
        return [one.name for one in self.service.methods]

    def request(self, method: str) -> Any:
        """As harmful as it can be."""
        pb = self.messages
        harmful = {
            "ClearLimbo": lambda: pb.ClearLimboRequest(ledger_ids=range(100)),
            "RecordLoss": lambda: pb.RecordLossRequest(
                ledger_id=4, ranges=[pb.EntryRange(first=0, last=2999)], by_person=True
            ),
            "SetReadOnly": lambda: pb.SetReadOnlyRequest(read_only=True),
            "GetAvailability": lambda: pb.GetAvailabilityRequest(ledger_ids=range(100)),
        }
        made = getattr(pb, self.service.methods_by_name[method].input_type.name)
        return harmful.get(method, made)()

    def meant(self, attacker: Attacker, target: str) -> dict[str, str]:
        """Whom a call has to mean, as the bookie says it to who may look."""
        with _channel(attacker, target) as channel:
            rpc = channel.unary_unary(
                f"/{self.service.full_name}/GetHealth",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=self.messages.Health.FromString,
            )
            said = rpc(self.messages.GetHealthRequest(), timeout=DEADLINE_S)
        epoch = str(said.boot.boot_epoch)
        return {"bookie-id": said.bookie_id, "cluster-id": said.instance_id, "boot-epoch": epoch}

    def call(
        self, attacker: Attacker, target: str, method: str, meant: Mapping[str, str]
    ) -> tuple[bool, str]:
        """Whether it was refused, and in which words."""
        descriptor = self.service.methods_by_name[method]
        reply = getattr(self.messages, descriptor.output_type.name)
        with _channel(attacker, target) as channel:
            rpc = channel.unary_unary(
                f"/{self.service.full_name}/{method}",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=reply.FromString,
            )
            try:
                answer = rpc(
                    self.request(method), timeout=DEADLINE_S, metadata=tuple(meant.items())
                )
            except grpc.RpcError as error:
                words = f"{error.code().name}: {error.details()}"
                return error.code() in REFUSALS, words
            return False, f"answered: {answer!s:.120}"


def _channel(attacker: Attacker, target: str) -> grpc.Channel:
    if attacker.folder is None:
        return grpc.insecure_channel(target)
    shown = grpc.ssl_channel_credentials(
        attacker.read("ca.crt"), attacker.read("tls.key"), attacker.read("tls.crt")
    )
    # Every server's certificate has this name: the attacker does not care whom it calls.
    name = (("grpc.ssl_target_name_override", "localhost"),)
    return grpc.secure_channel(target, shown, options=name)
