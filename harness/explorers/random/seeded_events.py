"""The history of one simulated run: what clients say of themselves, as the events that the history checkers judge.

A version is that of the record, and a digest stands for all else that a reader sees. What the table held before is the
event that the history begins with. An abandoned commit makes no version, so it makes no event.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence

from tornproof.harness.common.history import Event, EventKind
from tornproof.harness.search.crash_world import WRITER_PLACE
from tornproof.harness.simulator.process import bodies as programs
from tornproof.harness.simulator.process.case import WRITER
from tornproof.harness.simulator.process.observer import Operations, Oracle, Progress
from tornproof.harness.simulator.process.simulated_process import Mark
from tornproof.harness.simulator.process.world import World
from tornproof.harness.systems.table_readers import Seen

PROCESS = "simulator"
"""Who has recorded all events: one that sees everybody, so that their numbers are their order."""
DIGEST_BYTES = 16


def digest_of(seen: Seen) -> str:
    """Return what tells two observations of one version apart."""
    content = repr((seen.names, seen.row_count, seen.digest)).encode()
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


class Recorder:
    """Writes down a run as it goes on; `time` is how many steps were made, and stands for nanoseconds."""

    def __init__(self, oracle: Oracle) -> None:
        """Begin with the version that is there."""
        self.events: list[Event] = []
        self.time = 0
        self._oracle = oracle
        self._reading: set[str] = set()
        self._attempt: Seen | None = None
        self._record(EventKind.RECOVERED, WRITER, self._expected(()))

    def step(self, world: World, position: int) -> None:
        """Let a client make its next call, and take down what it says."""
        before = world.progress
        self.time += 1
        if world.nodes[position].begins:
            self._start_read(world.process_group.processes[position].name)
        world.step(position)
        self._take_down(world, position, before)

    def fail(self, world: World, before: Progress) -> None:
        """Take down what the writer says, one of whose calls has failed."""
        self.time += 1
        self._take_down(world, WRITER_PLACE, before)

    def kill(self, processes: Sequence[str]) -> None:
        """Take down that these have died."""
        self.time += 1
        for client in processes:
            self._reading.discard(client)
            self._record(EventKind.KILLED, client)
        self._attempt = None

    def _take_down(self, world: World, position: int, before: Progress) -> None:
        client, node, committed = world.process_group.processes[position].name, world.nodes[position], before.committed
        for mark in node.marks:
            if mark.kind == programs.RECOVERED and before.pending is not None:
                # A recovery may find the commit that the writer before it was in the middle of.
                is_there = world.process_group.judge.version_of(before, mark.value) == len(committed) + 1
                committed = (*committed, before.pending) if is_there else committed
            committed = self._mark(client, mark, committed)
        if node.outcome:
            self._end_badly(client, node.outcome)

    def _mark(self, client: str, mark: Mark, committed: Operations) -> Operations:
        """Return what is committed after a mark."""
        match mark.kind:
            case programs.COMMIT:
                assert isinstance(mark.value, int)
                attempt = self._expected((*committed, mark.value))
                if attempt.version != self._expected(committed).version:
                    self._attempt = attempt
                    self._record(EventKind.COMMIT_START, client, attempt)
            case programs.ACKNOWLEDGED:
                assert isinstance(mark.value, int)
                if self._attempt is not None:
                    self._record(EventKind.COMMIT_ACKNOWLEDGED, client, self._attempt)
                self._attempt = None
                return (*committed, mark.value)
            case programs.RECOVERED:
                self._record(EventKind.RECOVERED, client, mark.value)
            case programs.SEEN:
                self._start_read(client)
                self._record(EventKind.READ_END, client, mark.value)
                self._reading.discard(client)
            case programs.REJECTED:
                self._start_read(client)
                self._end_badly(client, str(mark.value))
            case programs.FAILED:
                self._end_badly(client, str(mark.value))
        return committed

    def _start_read(self, client: str) -> None:
        if client not in self._reading:
            self._reading.add(client)
            self._record(EventKind.READ_START, client)

    def _end_badly(self, client: str, why: str) -> None:
        """End what a client is in the middle of, if anything."""
        if client in self._reading:
            self._reading.discard(client)
            self._record(EventKind.READ_FAILED, client, details=why)
        elif client == WRITER and self._attempt is not None:
            self._attempt = None
            self._record(EventKind.COMMIT_FAILED, client, details=why)

    def _expected(self, operations: Operations) -> Seen:
        seen = self._oracle(operations)
        assert isinstance(seen, Seen), "only tables have histories"
        return seen

    def _record(self, kind: EventKind, client: str, seen: Hashable = None, details: str = "") -> None:
        reported = seen if isinstance(seen, Seen) else None
        self.events.append(
            Event(
                process=PROCESS,
                sequence=len(self.events),
                client=client,
                kind=kind,
                time_ns=self.time,
                version=None if reported is None else reported.version,
                digest=None if reported is None else digest_of(reported),
                details=details,
            )
        )
