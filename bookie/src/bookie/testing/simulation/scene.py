"""What faults work on: the bookies, the network, the store, the clients of one simulation."""

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from bookie.ids import BookieId, LedgerId
from bookie.metadata.memory import MemoryCluster
from bookie.metadata.store import MetadataStore
from bookie.protocol.ledger import LedgerMetadata
from bookie.testing.simulation.bookies import SimBookie
from bookie.testing.simulation.clients import Shared
from bookie.testing.simulation.collection_watch import CollectionWatch
from bookie.testing.simulation.disk import MachineDisk
from bookie.testing.simulation.history import History
from bookie.testing.simulation.metadata import StoreWeather
from bookie.testing.simulation.network import Network
from bookie.testing.simulation.plan import Fault, Plan
from bookie.testing.simulation.process import Process


@dataclass(slots=True)
class Pause:
    """Who passes that place for the time after `left` others sleeps for a while."""

    point: str
    who: str
    """What the name begins with."""
    lasts_s: float
    left: int = 0


@dataclass(slots=True)
class AnswerStep:
    """What is to happen once the bookie has given an answer of that kind."""

    what: str
    then: Callable[[], None]
    left: int = 0
    """So many of them are let pass before."""


@dataclass(slots=True)
class Scene:
    """What faults work on. `clients`: name -> how to kill and begin it again."""

    plan: Plan
    bookies: list[SimBookie]
    network: Network
    store: StoreWeather
    history: History
    rng: random.Random
    restart_client: Callable[[int], str]
    restart_repair: Callable[[], None]
    jump_clock: Callable[[float], None]
    client_names: Callable[[], list[str]]
    excuse: Callable[[str], None]
    """Called when a disk's lies make its bookie break promises unknowingly."""
    process_of: Callable[[str], Process]
    visit: Callable[[str, Callable[[Shared, MetadataStore, str], Awaitable[None]]], None]
    """Sends a client that does one deed."""
    namesake: Callable[[str], SimBookie]
    """A bookie of another cluster with this name and address, not begun yet."""
    twin: Callable[[str, MachineDisk], SimBookie]
    """A second process of this bookie, elsewhere and on this disk, not begun yet."""
    resting: set[str]
    """Names of clients that sleep or idle."""
    distrust: Callable[[str], None]
    """Called when what a bookie stores may be wrong without its knowing."""
    look_at_marks: Callable[[], None]
    cluster: MemoryCluster
    """What the metadata store holds."""
    collection: CollectionWatch
    writing: Mapping[str, LedgerId]
    """Writer -> its ledger of now."""
    newcomers: Callable[[], list[str]]
    """Bookies that hold a copy by a recovery whose ledger does not name them yet."""
    pauses: list[Pause] = field(default_factory=list)
    """Places of the code at which whoever passes them is to stop for a while."""
    answers: dict[str, AnswerStep] = field(default_factory=dict)
    """Bookie -> the answer after which its power goes."""
    armed_points: dict[str, int] = field(default_factory=dict)
    """Places of the code at which a client that passes them is killed, too."""
    counts: dict[str, int] = field(default_factory=dict)
    """Faults carried out, by kind."""
    passed_over: int = 0
    forgetful: dict[str, bool] = field(default_factory=dict)
    """Bookies that may lack something -> whether for good."""

    @property
    def budget(self) -> int:
        return self.plan.scale.ack_quorum - 1

    def stored_generation(self, bookie: SimBookie) -> int:
        """What the metadata store knows of how often the bookie has reported that it wrote."""
        stored = self.cluster.boots.get(BookieId(bookie.name))
        return stored.value.generation if stored is not None else 0

    def meant_ledger(self) -> LedgerMetadata | None:
        """The one whose writer rests; else one that is written."""
        names = [name for name in sorted(self.resting) if name in self.writing]
        for name in names or sorted(self.writing):
            metadata = self.history.ledger(self.writing[name]).metadata
            if metadata is not None:
                return metadata
        return None

    def meant(self, fault: Fault) -> SimBookie | None:
        """The bookie that a fault means; see plan.Fault. None: there is no such one now."""
        metadata, named = self.meant_ledger(), [bookie.name for bookie in self.bookies]
        if fault.aim == "newcomer":
            named = self.newcomers()
            if not named:
                return None
        elif fault.aim and metadata is not None:
            members: list[str] = list(metadata.last_fragment.ensemble)
            spares = [name for name in named if name not in members]
            named = (members if fault.aim == "member" else spares) or named
        chosen = named[fault.who % len(named)]
        return next(bookie for bookie in self.bookies if bookie.name == chosen)
