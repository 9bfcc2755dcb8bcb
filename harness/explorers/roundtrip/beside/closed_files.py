"""Whether all that an operation opens or maps is closed when it ends, also where any one of its calls fails."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from tornproof.harness.common.patch import Controls, not_noticed, original_of
from tornproof.harness.explorers.roundtrip.beside.operations import OPERATIONS
from tornproof.harness.explorers.roundtrip.beside.small_tables import PATH, State, small_table
from tornproof.harness.simulator.filesystem.faulty import FALLIBLE, Fault, FaultyStorage
from tornproof.harness.simulator.filesystem.intercept import Answer, Call, CallKind
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.errors import TornproofError
from tornproof.impl.query.predicate_text import parse_predicate
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.storage.interface import ReadableFile, Storage, StorageReason
from tornproof.impl.table.table import open_table
from tornproof.impl.verify.verify import verify_table

PROPERTY = "what is opened is closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedFiles:
    """What is done to a table in a state; with `fails` it is done once for each of its calls, which fails then."""

    name: str
    of: State
    run: Callable[[Storage], object]
    fails: bool

    @property
    def kind(self) -> str:
        """What is done."""
        return self.name


class Opened(FaultyStorage):
    """A storage that knows which files and mappings are open, by their numbers."""

    def __init__(self, storage: Storage, *faults: Fault) -> None:
        """Begin without any."""
        super().__init__(storage, *faults)
        self.left: dict[int, Call] = {}

    def intercept(self, call: Call, run: Callable[[], Answer]) -> Answer:
        """Make the call, and note what it opens or closes."""
        answer = super().intercept(call, run)
        if call.kind in (CallKind.OPEN_FOR_READING, CallKind.OPEN_FOR_WRITING, CallKind.MAP):
            self.left[call.mapping or call.file] = call
        elif call.kind in (CallKind.CLOSE, CallKind.UNMAP):
            self.left.pop(call.mapping or call.file, None)
        return answer


@functools.cache
def closed_files() -> tuple[ClosedFiles, ...]:
    """Return all operations, those of readers too, always in the same order."""
    looking = ("a verification", _verify), ("a read of the rows of a condition", _read), ("a read given up", _begin)
    done = [(each.name, each.of, each.run) for each in OPERATIONS]
    done += [(name, State.SOUND, run) for name, run in looking]
    return tuple(
        ClosedFiles(name=name, of=of, run=run, fails=fails)
        for (name, of, run), fails in itertools.product(done, (False, True))
    )


def problem_of(case: ClosedFiles) -> str | None:
    """Say what is left open; None if nothing is."""
    for at in itertools.count() if case.fails else (None,):
        fault = () if at is None else (Fault(at=at, reason=StorageReason.INPUT_OUTPUT, among=FALLIBLE),)
        storage = Opened(MemoryStorage.of(small_table(case.of)), *fault)
        with suppress(TornproofError):
            case.run(storage)
        if storage.left:
            because = "" if storage.failed is None else f" if {storage.failed.kind} of {storage.failed.path} fails"
            return f"{', '.join(sorted({call.path for call in storage.left.values()}))} is left open{because}"
        if storage.failed is None:
            break
    return None


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of readers and writers that leave files open."""
    module = "tornproof.impl.read.counters:_WatchedFile"
    never = type("Never", (original_of(module),), {"close": lambda _: None})
    unless_failing = type("UnlessFailing", (original_of(module),), {"__exit__": _close_unless_failing})
    controls: Controls = (
        ("data is never closed", module, never, "is left open"),
        ("data is closed unless a call fails", module, unless_failing, "fails"),
    )
    return not_noticed(controls, problem_of, [each for each in closed_files() if each.run is _read])


def _close_unless_failing(file: ReadableFile, *exception: object) -> None:
    if exception[0] is None:
        file.close()


def _verify(storage: Storage) -> object:
    return verify_table(open_table(storage, PATH)).all_problems


def _read(storage: Storage) -> object:
    snapshot = open_snapshot(open_table(storage, PATH))
    return [*snapshot.batches(where=parse_predicate("n = 12", snapshot.columns))]


def _begin(storage: Storage) -> object:
    return next(iter(open_snapshot(open_table(storage, PATH)).batches()))
