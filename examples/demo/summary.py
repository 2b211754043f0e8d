"""The summary: what was acknowledged, what came back, what each incident cost; and the verdict."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(slots=True)
class Summary:
    """The content of demo/summary.json; the names are those of the file."""

    acked_entries: int = 0
    acked_bytes: int = 0
    lost_entries: int = 0
    wrong_bytes: int = 0
    ledgers_written: int = 0
    ledgers_read: int = 0
    writer_reopened: int = 0
    incidents: list[dict[str, Any]] = field(default_factory=list)
    audit: dict[str, int] = field(default_factory=dict)
    engine: str = ""
    spark_app_id: str = ""
    bookie_memory_mib: float = 0.0
    seconds: float = 0.0
    complaints: list[str] = field(default_factory=list)

    def judge(self) -> list[str]:
        """Everything that is not well, or that would make a good result prove nothing."""
        checks = [
            (self.acked_entries > 0, "nothing was acknowledged"),
            (self.lost_entries == 0, f"{self.lost_entries} acknowledged entries are lost"),
            (self.wrong_bytes == 0, f"{self.wrong_bytes} bytes differ from the input"),
            (self.ledgers_read == self.ledgers_written, "the final read left ledgers out"),
            (self.writer_reopened > 0, "no writer met a fence, so none showed that it goes on"),
            (self.audit.get("missing", 1) == 0, "the audit found entries missing"),
            (self.audit.get("unknown", 1) == 0, "the audit left entries unknown"),
            (self.audit.get("entries", 0) > 0, "the audit looked at nothing"),
            (self.engine.startswith("spark"), f"the repair engine was {self.engine or 'none'}"),
            (bool(self.spark_app_id), "no Spark application id"),
            (self.bookie_memory_mib < 2048, f"bookies use {self.bookie_memory_mib:.0f} MiB"),
            *self._incident_checks(),
        ]
        self.complaints = [text for fine, text in checks if not fine]
        return self.complaints

    def _incident_checks(self) -> list[tuple[bool, str]]:
        kills = [item for item in self.incidents if item["kind"] == "kill"]
        disks = [item for item in self.incidents if item["kind"] == "disk"]
        checks = [(bool(kills), "no kill was seen"), (bool(disks), "no replaced disk was seen")]
        for item in kills:
            for name in ("ledgers_in_limbo", "entries_copied"):
                checks.append((item[name] > 0, f"the kill of {item['bookie']}: {name} is 0"))
        for item in disks:
            checks.append((item["ledgers_fenced"] > 0, "without its disk it fenced no ledger"))
            checks.append(
                (item["entries_copied_closed"] > 0, "the disk got no closed ledger's entry")
            )
        for item in self.incidents:
            checks.append(
                (item["seconds_to_clear"] is not None, f"{item['kind']}: limbo never cleared")
            )
        return checks

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        names = [name for name in self.__slots__]
        path.write_text(json.dumps({name: getattr(self, name) for name in names}, indent=2) + "\n")

    def show(self, path: Path) -> None:
        """The summary as a person reads it."""
        console = Console(highlight=False)
        table = Table(box=None, show_header=False, pad_edge=False, title="what happened")
        table.add_column(style="bold")
        table.add_column()
        table.add_row("acknowledged", f"{self.acked_entries:,} entries, {self.acked_bytes:,} bytes")
        table.add_row("read back", f"{self.ledgers_read} of {self.ledgers_written} ledgers")
        table.add_row("lost entries", str(self.lost_entries))
        table.add_row("wrong bytes", str(self.wrong_bytes))
        for item in self.incidents:
            table.add_row(f"{item['kind']} {item['bookie']}", _incident(item))
        table.add_row("audit", ", ".join(f"{name} {value:,}" for name, value in self.audit.items()))
        table.add_row("repair engine", f"{self.engine} {self.spark_app_id}")
        table.add_row("memory of all bookies", f"{self.bookie_memory_mib:.0f} MiB")
        table.add_row("seconds", f"{self.seconds:.1f}")
        table.add_row("summary", str(path))
        console.print(table)
        for text in self.complaints:
            console.print(f"✘ {text}", style="bold red")
        if not self.complaints:
            console.print("✔ nothing acknowledged was lost", style="bold green")


def _incident(item: dict[str, Any]) -> str:
    return (
        f"epoch {item['boot_epoch_before']} -> {item['boot_epoch_after']}, "
        f"detected in {item['seconds_to_detect']:.1f} s, {item['ledgers_fenced']} ledgers fenced, "
        f"{item['ledgers_in_limbo']} in limbo, {item['entries_copied']:,} entries copied "
        f"({item['entries_copied_closed']:,} of closed ledgers), clear after "
        f"{item['seconds_to_clear'] or 0:.1f} s"
    )
