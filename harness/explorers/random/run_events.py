"""The history of one simulated run: what its processes report, as events for the history checkers.

The version of an event is that of the record; a digest covers all else that a reader sees. The first event is what the
table held before. An abandoned commit makes no version, so it makes no event.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence

from tornproof.harness.common.history import Event, EventKind
from tornproof.harness.explorers.random.random_run import Watcher
from tornproof.harness.explorers.schedules.points import Points
from tornproof.harness.search.crash_world import WRITER_INDEX
from tornproof.harness.simulator.process import bodies
from tornproof.harness.simulator.process.case import WRITER
from tornproof.harness.simulator.process.observer import Operations, Oracle, Progress
from tornproof.harness.simulator.process.simulated_process import Mark
from tornproof.harness.simulator.process.world import World
from tornproof.harness.systems.table_readers import Seen

PROCESS = "simulator"
"""The one recorder of all events, which sees all processes, so that sequence numbers are the order of events."""
DIGEST_BYTES = 16


def digest_of(seen: Seen) -> str:
    """Return a digest that distinguishes observations of one version."""
    content = repr((seen.names, seen.row_count, seen.digest)).encode()
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


class Recorder(Watcher):
    """Records a run while it goes on; `time` counts steps, and is recorded as nanoseconds.

    `reached` are the coverage points of its schedules.
    """

    def __init__(self, oracle: Oracle, points: Points) -> None:
        """Record the initial version."""
        self.reached: set[str] = set()
        self._points = points
        self.events: list[Event] = []
        self.time = 0
        self._oracle = oracle
        self._reading: set[str] = set()
        self._attempt: Seen | None = None
        self._record(EventKind.RECOVERED, WRITER, self._expected(()))

    def step(self, world: World, process_index: int) -> None:
        """Let a process make its next call, and record what it reports."""
        before = world.progress
        self.time += 1
        if world.nodes[process_index].begins:
            self._start_read(world.process_group.processes[process_index].name)
        world.step(process_index)
        self._record_marks(world, process_index, before)

    def fail(self, world: World, before: Progress) -> None:
        """Record what the writer reports after one of its calls failed."""
        self.time += 1
        self._record_marks(world, WRITER_INDEX, before)

    def kill(self, processes: Sequence[str]) -> None:
        """Record that these processes were killed."""
        self.time += 1
        for process in processes:
            self._reading.discard(process)
            self._record(EventKind.KILLED, process)
        self._attempt = None

    def look(self, world: World) -> None:
        """Note the coverage points of a world."""
        self.reached |= self._points.of(world)

    def _record_marks(self, world: World, process_index: int, before: Progress) -> None:
        process, node = world.process_group.processes[process_index].name, world.nodes[process_index]
        committed = before.committed
        for mark in node.marks:
            if mark.kind == bodies.RECOVERED and before.pending is not None:
                # A recovery may find the commit that the previous writer had not finished.
                is_there = world.process_group.judge.version_of(before, mark.value) == len(committed) + 1
                committed = (*committed, before.pending) if is_there else committed
            committed = self._record_mark(process, mark, committed)
        if node.outcome:
            self._record_failure(process, node.outcome)

    def _record_mark(self, process: str, mark: Mark, committed: Operations) -> Operations:
        """Record what a process reports, and return what is committed then."""
        match mark.kind:
            case bodies.COMMIT:
                assert isinstance(mark.value, int)
                attempt = self._expected((*committed, mark.value))
                if attempt.version != self._expected(committed).version:
                    self._attempt = attempt
                    self._record(EventKind.COMMIT_START, process, attempt)
            case bodies.ACKNOWLEDGED:
                assert isinstance(mark.value, int)
                if self._attempt is not None:
                    self._record(EventKind.COMMIT_ACKNOWLEDGED, process, self._attempt)
                self._attempt = None
                return (*committed, mark.value)
            case bodies.RECOVERED:
                self._record(EventKind.RECOVERED, process, mark.value)
            case bodies.SEEN:
                self._start_read(process)
                self._record(EventKind.READ_END, process, mark.value)
                self._reading.discard(process)
            case bodies.REJECTED:
                self._start_read(process)
                self._record_failure(process, str(mark.value))
            case bodies.FAILED:
                self._record_failure(process, str(mark.value))
        return committed

    def _start_read(self, process: str) -> None:
        if process not in self._reading:
            self._reading.add(process)
            self._record(EventKind.READ_START, process)

    def _record_failure(self, process: str, reason: str) -> None:
        """End the read or commit that a process has begun, if any, as failed."""
        if process in self._reading:
            self._reading.discard(process)
            self._record(EventKind.READ_FAILED, process, details=reason)
        elif process == WRITER and self._attempt is not None:
            self._attempt = None
            self._record(EventKind.COMMIT_FAILED, process, details=reason)

    def _expected(self, operations: Operations) -> Seen:
        seen = self._oracle(operations)
        assert isinstance(seen, Seen), "only tables have histories"
        return seen

    def _record(self, kind: EventKind, process: str, observed: Hashable = None, details: str = "") -> None:
        seen = observed if isinstance(observed, Seen) else None
        self.events.append(
            Event(
                process=PROCESS,
                sequence=len(self.events),
                client=process,
                kind=kind,
                time_ns=self.time,
                version=None if seen is None else seen.version,
                digest=None if seen is None else digest_of(seen),
                details=details,
            )
        )
