"""A planted fault as a value: what it changes, at which single location, which explorers find it and which miss it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from tornproof.harness.common.patch import wrapped
from tornproof.harness.mutation.source_patch import SourcePatch
from tornproof.harness.systems.table import TableTarget
from tornproof.impl.read import reader_protocol
from tornproof.impl.read.reader_protocol import ReaderProtocol
from tornproof.impl.write import commit
from tornproof.impl.write.commit import Protocol

Wrap: TypeAlias = Callable[[Any], Any]
"""Takes the original object of a location and returns what replaces it."""


class Explorer(enum.StrEnum):
    """Who searches for a fault, roughly from the cheapest to the dearest; the bounds are in `detectors`."""

    SEQUENTIAL = "sequential"
    METRIC = "metric"
    SOFT_LINKS = "soft links"
    SMALL_LIMITS = "small limits"
    PROTECTED = "protected tables"
    TRACE_RULE = "trace rule"
    SCHEDULES = "schedules"
    CRASH = "crash"
    TORN_CRASH = "crash inside writes"
    POWER_B = "power B"
    POWER_C_4096 = "power C-4096"
    POWER_C_512 = "power C-512"
    POWER_CDIR = "power Cdir"
    FAILED_SYNC = "failed sync"
    PRODUCT_A = "product A"
    MEMORY_SEQUENTIAL = "memory, sequential consistency"
    MEMORY_TOTAL_STORE_ORDER = "memory, total store order"
    MEMORY_WEAK = "memory, weak"
    DAMAGE = "damage"
    STATEFUL = "stateful"


def nothing(_: object) -> Callable[..., None]:
    """Replace a function by one that does nothing."""
    return lambda *_, **__: None


@dataclass(frozen=True, slots=True)
class PlantedFault:
    """One fault of the catalogue; `number` is its row in the list that it comes from, None if it is not on it.

    `location` is `package.module:name` if `substitute` wraps that object, else the field of a protocol; "" for a patch.
    `explorer` is the cheapest that finds it on `scenario`; those in `also` find it there too, at a higher cost, and
    those in `hidden_from` miss it there. `argument` says why a fault harms no reader, and `reference` where the mistake
    was really made.
    """

    number: int | None
    name: str
    change: str
    property_broken: str
    location: str
    substitute: Wrap | Protocol | ReaderProtocol | SourcePatch
    explorer: Explorer
    scenario: str
    also: tuple[Explorer, ...] = ()
    hidden_from: tuple[Explorer, ...] = ()
    argument: str = ""
    family: str = ""
    reference: str = ""


class Mutant:
    """A fault that can be planted repeatedly; `reached_count` counts the uses of what is planted."""

    def __init__(self, fault: PlantedFault) -> None:
        """Prepare the fault, without planting it."""
        self._fault = fault
        self.reached_count = 0

    @property
    def target(self) -> TableTarget:
        """The tables with the fault if it is another protocol, else ours."""
        match self._fault.substitute:
            case Protocol() as protocol:
                return TableTarget(protocol=protocol)
            case ReaderProtocol() as reader:
                return TableTarget(reader=reader)
            case SourcePatch():
                return TableTarget(protocol=commit.HARDENED, reader=reader_protocol.HARDENED_READER)
            case _:
                return TableTarget()

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Plant the fault while the block runs."""
        fault, substitute = self._fault, self._fault.substitute
        if isinstance(substitute, Protocol | ReaderProtocol):
            self.reached_count += 1
            yield
            return
        if isinstance(substitute, SourcePatch):
            with substitute.planted(self._count):
                yield
            return
        with wrapped(fault.location, lambda original: self._counted(substitute(original))):
            yield

    def _count(self) -> None:
        self.reached_count += 1

    def _counted(self, made: Any) -> Any:
        if isinstance(made, Mapping):
            return {key: self._counted(value) for key, value in made.items()}
        if not callable(made):
            self.reached_count += 1
            return made

        def counted(*arguments: Any, **settings: Any) -> Any:
            self.reached_count += 1
            return made(*arguments, **settings)

        return counted
