"""One execution of a target: commits, kills, failing calls and openings, which are steps of one world.

Sessions of the writer and the reads between them are processes that join the world one after the other. The first run
of a commit or an opening is in a copy of the world, and shows at which of its calls a fault can be chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias

from tornproof.harness.common.system import Target
from tornproof.harness.common.verdict import shown
from tornproof.harness.explorers.kills.exploration import (
    FAILED_CALL,
    KILLED_RECOVERY,
    NEW_STATE,
    OLD_STATE,
    WORKING_RECOVERY,
)
from tornproof.harness.explorers.kills.plan import Failure, failures
from tornproof.harness.explorers.kills.sessions import Violation
from tornproof.harness.search.crash_world import after_kill_of, begun_with, fail_call, with_process, write_part
from tornproof.harness.search.failed_sync import (
    LOST,
    LOST_BY_OPENING,
    LOST_EARLIER,
    LostName,
    disk_without,
    names_lost_by,
    still_lost,
)
from tornproof.harness.search.outcome import path_to
from tornproof.harness.simulator.filesystem.intercept import BARRIERS, STEPS, CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel, Rejected
from tornproof.harness.simulator.process.bodies import (
    ACKNOWLEDGED,
    FAILED,
    OPENED,
    TO_BE_TOLD,
    obedient_session,
    reader_session,
)
from tornproof.harness.simulator.process.case import WRITER, NotExplorableError, TestCase
from tornproof.harness.simulator.process.observer import Judge, NoVersionError, Operations, Progress, Property
from tornproof.harness.simulator.process.simulated_process import Process
from tornproof.harness.simulator.process.world import ProcessGroup, World
from tornproof.model.trace import Known

Choose: TypeAlias = Callable[[int], int]
"""Takes the number of possibilities and returns one of them, from 0 on."""
KILLS_IN_COMMITS = "kills in commits"
KILLS_IN_RECOVERY = "kills in recovery"
FAILING_CALLS = "failing calls"
FAILING_OPENINGS = "failing calls in openings"
NOTHING_FAILS = "commits of which no call can fail"
OPENING = "open the writer"
REOPENING = "close the writer, open another"


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, in the plural where it is not 1."""
    return f"{count} {noun}" if count == 1 else f"{count:,} {noun}s"


class Execution:
    """Executes steps one after the other, and raises `Violation` for a broken property.

    `lines` describe the steps, `operations` are those of all commits.
    """

    def __init__(self, target: Target, path: str) -> None:
        """Begin with an empty state, and no writer."""
        self.lines: list[str] = []
        self.counts: Counter[str] = Counter()
        self.reached: Counter[str] = Counter()
        self.operations: list[Any] = []
        self._case = TestCase(target=target, path=path, operations=self.operations, first_session=())
        self._judges = [Judge(self._oracle, difference=self._case.difference, fails=fails) for fails in (False, True)]
        self._writer = Process(WRITER, obedient_session(target, path, self.operations))
        self._reader = Process("reader", reader_session(target, path, 1))
        self._session = 0
        self._has_lost = False
        self._lost: tuple[LostName, ...] = ()
        self._acknowledged_count = 0
        self._is_recovered = False
        with _explorable():
            kernel = self._case.kernel()
        self._world = ProcessGroup(processes=(), judge=self._judges[False]).begin(
            kernel, Progress(), Known(is_open=False)
        )

    @property
    def _is_open(self) -> bool:
        """Whether there is a writer, which waits until it is told what to do."""
        nodes = self._world.nodes
        return bool(nodes) and nodes[self._session].call == TO_BE_TOLD

    @property
    def _outcomes(self) -> list[str]:
        """How the commits of the writer's session ended so far."""
        marks = [mark.kind for node in path_to(self._world.nodes[self._session]) for mark in node.marks]
        return [kind for kind in marks if kind in (ACKNOWLEDGED, FAILED)]

    @property
    def _has_rejected(self) -> bool:
        """Whether the writer rejected a commit before, so that it may reject others."""
        return FAILED in self._outcomes

    @property
    def _answer(self) -> str:
        return ": rejected" if self._outcomes[-1:] == [FAILED] else ": acknowledged"

    def end(self) -> None:
        """End all processes."""
        self._world.process_group.close()

    def commit(self, operation: Any, choose: Choose) -> None:
        """Commit, and check that a reader sees it."""
        worlds = self._commit(operation)
        if self._has_rejected:
            self.lines[-1] += self._answer
        self._end_commit(worlds)
        self._observe()

    def commit_killed(self, operation: Any, choose: Choose) -> None:
        """Kill the writer after a chosen step of a commit, or inside a write."""
        is_inside = self._kill(self._commit(operation), choose)
        self.counts[KILLS_IN_COMMITS] += 1
        is_new = self._observe_or_not(choose) == len(self._world.progress.begun)
        if is_inside:
            self.reached[NEW_STATE if is_new else OLD_STATE] += 1

    def commit_failing(self, operation: Any, choose: Choose) -> None:
        """Let a chosen call of a commit fail, after which a writer that rejects it is left, or is given the next one.

        One that rejects two in a row is not given another one.
        """
        worlds = self._commit(operation)
        ways = tuple(failures(0, [world.call(self._session) for world in worlds]))
        if ways:
            self._fail(worlds, ways[choose(len(ways))])
            if self._has_rejected and choose(2):
                self._leave()
        else:
            self.counts[NOTHING_FAILS] += not self._has_rejected
            self.lines[-1] += f", of which no call can fail{self._answer}"
            self._end_commit(worlds)
        self._observe()

    def reopen(self, choose: Choose) -> None:
        """Close the writer, if there is one, and open another."""
        self._close()
        self._open()

    def recovery_killed(self, choose: Choose) -> None:
        """Kill the next writer after a chosen step of its opening, or inside a write."""
        self._close()
        self.reached[KILLED_RECOVERY] += self._kill(self._start(), choose)
        # What it left is for the next opening to remove.
        self._is_recovered = False
        self.counts[KILLS_IN_RECOVERY] += 1
        self._observe_or_not(choose)

    def opening_failing(self, choose: Choose) -> None:
        """Let a chosen call of the next opening fail; the process ends there, or goes on."""
        self._close()
        before = self._world.progress
        worlds = [world for world in self._start() if not self._has_opened(world)]
        self._is_recovered = False
        ways = tuple(failures(0, [world.call(self._session) for world in worlds]))
        if ways:
            self._follow_lost(self._fail_call(worlds, ways[choose(len(ways))]))
            self.counts[FAILING_OPENINGS] += 1
            self.lines[-1] += ": opened all the same" if self._is_open else ": rejected"
            if self._is_open:
                self._lose(LOST_BY_OPENING, before)
        else:
            self.lines[-1] += ", of which no call can fail"
        self._observe()

    def written_back(self, choose: Choose) -> None:
        """Let all that is written get to the disk."""
        self.lines.append("all that is written gets to the disk")
        self._world.kernel.write_back()

    def _commit(self, operation: Any) -> list[World]:
        """Commit without a fault, and return the world before each call."""
        if not self._is_open:
            self._close()
            self._open()
        self.lines.append(f"commit {shown(operation)}")
        self.counts["commits"] += 1
        self.operations.append(operation)
        self._is_recovered = False
        return self._tell(len(self.operations) - 1)

    def _fail(self, worlds: Sequence[World], failure: Failure) -> None:
        """Let a call of a commit fail."""
        since = self._fail_call(worlds, failure)
        self.counts[FAILING_CALLS] += 1
        self.reached[FAILED_CALL] += 1
        self.lines[-1] += self._answer
        if failure.call.kind not in BARRIERS:
            self._end_commit(since)
        elif self._outcomes[-1] == ACKNOWLEDGED and not self._case.target.acknowledges_after_failed_sync:
            raise Violation(Property.SYNCED, "the commit was acknowledged")
        else:
            self._end_commit(since, LOST, Property.SYNCED)

    def _end_commit(self, worlds: Sequence[World], lost: str = LOST_EARLIER, violated: str = "") -> None:
        """Check what is acknowledged, if the commit with these worlds was, also where syncs of this session failed."""
        self._follow_lost(worlds)
        if self._outcomes[-1] == ACKNOWLEDGED:
            self._acknowledged_count = len(self._world.progress.committed)
            self._lose(lost, self._world.progress, violated)

    def _lose(self, lost: str, progress: Progress, violated: str = "") -> None:
        """Check that nothing acknowledged is missing when what failed syncs of this session were to write is.

        Of what else was begun, a prefix may be there, whatever a reader or a recovery found.
        """
        if not self._has_lost:
            return
        before, kept = self._world, (self._session, self._has_lost, self._lost)
        self._world = after_kill_of(before, self._session)
        self._world.kernel = Kernel.of(disk_without(before.kernel, self._lost))
        self._world.progress, self._world.known = begun_with(
            progress.begun, self._acknowledged_count, progress.absences
        )
        try:
            self._observe()
            self._start()
            self._observe()
        except Violation as violation:
            raise Violation(violated or violation.violated, f"{lost}, {violation.reason}") from violation
        self._world, (self._session, self._has_lost, self._lost) = before, kept

    def _fail_call(self, worlds: Sequence[World], failure: Failure) -> list[World]:
        """Go back to where a call can fail, and let it; return the world before each call after it."""
        self.lines[-1] += f", while a call fails: {failure_in_words(failure)}"
        self._world, fault = worlds[failure.fault.at], failure.fault
        self._follow_lost(worlds[: fault.at + 1])
        if failure.call.kind in BARRIERS:
            self._has_lost = True
            self._lost += names_lost_by(self._world.kernel, self._session, failure.call)
        self._judge(fails=True)
        write_part(self._world, self._session, fault.written_bytes)
        fail_call(self._world, self._session, Rejected(str(fault.reason)))
        return self._run()

    def _follow_lost(self, worlds: Sequence[World]) -> None:
        """Forget the lost names that are changed in one of these worlds."""
        for world in worlds if self._lost else ():
            self._lost = still_lost(world.kernel, self._lost)

    def _leave(self) -> None:
        """Let what the commit was rejected with end the writer's session."""
        self.lines[-1] += ", and the writer is left"
        self._judge(fails=True)
        self._world.answer(self._session, Rejected("the commit was rejected"))
        self._run()

    def _has_opened(self, world: World) -> bool:
        return any(mark.kind == OPENED for node in path_to(world.nodes[self._session]) for mark in node.marks)

    def _judge(self, *, fails: bool) -> None:
        self._world.process_group = replace(self._world.process_group, judge=self._judges[fails])

    def _kill(self, worlds: Sequence[World], choose: Choose) -> bool:
        """Kill the session before a step, inside a write or after the last one; say whether between the two ends."""
        worlds = [world for world in worlds if world.call(self._session).kind in STEPS]
        step_count, cut_bytes = choose(len(worlds) + 1), 0
        self.lines[-1] += f", killed after {step_count} of {len(worlds)} steps"
        is_whole = step_count == len(worlds)
        if not is_whole:
            self._world = worlds[step_count]
            call = self._world.call(self._session)
            if call.kind is CallKind.PWRITE and len(call.content) > 1:
                cut_bytes = choose(len(call.content))
            write_part(self._world, self._session, cut_bytes)
            inside = f"{cut_bytes} of {len(call.content)} bytes into" if cut_bytes else "before"
            self.lines[-1] += f", {inside}: {call.kind} {call.path}"
        self._world = after_kill_of(self._world, self._session)
        return not is_whole and step_count + cut_bytes > 0

    def _open(self) -> None:
        """Start a session; after a complete recovery it changes no file where it must not, and nothing that is read."""
        before = self._world.kernel.image()
        self._start()
        after = self._world.kernel.image()
        if not after.is_same(before):
            self.reached[WORKING_RECOVERY] += 1
            if self._is_recovered and not self._case.target.only_reads_count:
                raise Violation(Property.IDEMPOTENT, "opening the writer a second time changed the files again")
        self._is_recovered = True
        self._observe()

    def _start(self) -> list[World]:
        """Open the writer, and return the world before each call."""
        self._has_lost, self._lost = False, ()
        self._session = self._join(self._writer)
        return self._run()

    def _close(self) -> None:
        """Close the writer, if there is one, after which a reader sees the same."""
        self.lines.append(REOPENING if self._is_open else OPENING)
        if self._is_open:
            self._tell(None)
            self._observe()

    def _observe(self) -> int:
        """Read, and return the number of commits in what a reader sees."""
        self.counts["reads"] += 1
        # It is another process each time, which has seen nothing yet.
        self._world.progress = self._world.progress._replace(readings=())
        reader = self._join(self._reader)
        self._world.run(reader)
        self._check()
        return self._world.progress.observations[-1][1]

    def _observe_or_not(self, choose: Choose) -> int:
        """Read, and where that changed something, choose whether the next writer comes before any reader."""
        before = self._world
        self._world = before.fork()
        count = self._observe()
        if not self._world.kernel.image().is_same(before.kernel.image()) and choose(2):
            self._world = before
            self.lines[-1] += ", and no reader comes before the next writer"
        return count

    def _join(self, process: Process) -> int:
        self._judge(fails=False)
        self._world = with_process(self._world, process)
        return len(self._world.nodes) - 1

    def _tell(self, number: int | None) -> list[World]:
        """Let the writer commit an operation, or close; return the world before each call."""
        self._judge(fails=self._has_rejected)
        self._world.answer(self._session, number)
        return self._run()

    def _run(self) -> list[World]:
        """Let the session go on until it ends or is to be told what to do; return the world before each call."""
        worlds = []
        while self._world.nodes[self._session].call not in (None, TO_BE_TOLD):
            worlds.append(self._world.fork())
            self._world.step(self._session)
        self._check()
        return worlds

    def _check(self) -> None:
        for violation in self._world.progress.violations:
            raise Violation(violation.property, f"{violation.process}: {violation.sentence}")

    def _oracle(self, operations: Operations) -> Hashable:
        with _explorable():
            return self._case.oracle(operations)


@contextmanager
def _explorable() -> Iterator[None]:
    """Turn what goes wrong in a fault-free run into a violation."""
    try:
        yield
    except NotExplorableError as error:
        raise _NotExplorable(Property.FAULT_FREE, str(error)) from error


class _NotExplorable(Violation, NoVersionError):  # noqa: N818  # a verdict
    """A fault-free run fails, which is no violation where the judge asks for it without a commit that was rejected."""


def failure_in_words(failure: Failure) -> str:
    """Return which call fails, and how."""
    part = f" after {failure.fault.written_bytes} bytes" if failure.fault.written_bytes else ""
    return f"{failure.call.kind} {failure.call.path}{part} ({failure.fault.reason})"
