"""What faults work on: the bookies, the network, the store, the clients of one simulation."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from bookie.metadata.memory import MemoryCluster
from bookie.metadata.store import MetadataStore
from bookie.testing.simulation.bookies import SimBookie
from bookie.testing.simulation.clients import Shared
from bookie.testing.simulation.collection_watch import CollectionWatch
from bookie.testing.simulation.disk import MachineDisk
from bookie.testing.simulation.history import History
from bookie.testing.simulation.metadata import StoreWeather
from bookie.testing.simulation.network import Network
from bookie.testing.simulation.plan import Plan
from bookie.testing.simulation.process import Process


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
