"""Examinations of disks, remembered by what they read: a program is a function of the bytes that it looked at.

A tree of tests leads from a disk's first byte that was looked at to the facts; a disk that differs in nothing that
anybody reads costs some slices and look-ups, and not one step.
"""

from __future__ import annotations

from typing import Any

from tornproof.harness.explorers.power_cuts.examination import BEGUN, REJECTED, SAW, Facts, Stage
from tornproof.harness.explorers.power_cuts.known import Known, Read
from tornproof.harness.simulator.filesystem.intercept import STEPS, Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Answer, Kernel
from tornproof.harness.simulator.persistence.legal_disks import Disk
from tornproof.harness.simulator.persistence.legal_names import Tree
from tornproof.harness.simulator.process.simulated_process import Body, Node, Process

_SESSION = 0
_REPEATED = STEPS | {CallKind.OPEN_FOR_READING, CallKind.MAP, CallKind.CLOSE, CallKind.UNMAP}
_READS = frozenset({CallKind.PREAD, CallKind.READ_MAPPED, CallKind.LOAD, CallKind.VIEW})
_WRITES = frozenset({CallKind.PWRITE, CallKind.STORE, CallKind.TRUNCATE})
_SIZES = frozenset({CallKind.SIZE, CallKind.MAP})


class _Test:
    __slots__ = ("answers", "position", "start", "stop")

    def __init__(self, read: Read) -> None:
        self.position, self.start, self.stop = read
        self.answers: dict[bytes | int, Any] = {}


class Examiner:
    """Examines disks with one program; the facts about a disk are one object for all disks that read alike."""

    def __init__(self, body: Body) -> None:
        """Start the program."""
        self.process = Process("examiner", body)
        self._first: dict[Tree, Any] = {}
        self.stepped_count = 0
        """How many disks were really examined."""

    def close(self) -> None:
        """End all greenlets."""
        self.process.close()

    def examine(self, disk: Disk) -> Facts:
        """Return the facts about a disk."""
        contents = disk.contents
        node = self._first.get(disk.tree)
        while node.__class__ is _Test:
            content, stop = contents[node.position], node.stop
            node = node.answers.get(content[node.start : stop] if stop else len(content))
        return self._remembered(disk) if node is None else node

    def step(self, disk: Disk) -> tuple[Facts, list[Read]]:
        """Examine a disk step by step, and return what was read of it, without what follows from earlier reads."""
        self.stepped_count += 1
        run = _Run(disk.tree, disk.kernel())
        node = self.process.root
        run.listen(node)
        while node.call is not None:
            answer = run.step(node)
            node = self.process.advance(node, answer)
            run.listen(node)
        return run.facts(node.outcome), run.known.reads

    def _remembered(self, disk: Disk) -> Facts:
        facts, reads = self.step(disk)
        answers: dict[Any, Any] = self._first
        way: Any = disk.tree
        for read in reads:
            test = answers.get(way)
            if test is None:
                test = answers[way] = _Test(read)
            assert (test.position, test.start, test.stop) == read, "a program that got the same bytes read others"
            answers, way = test.answers, read.of(disk.contents)
        answers[way] = facts
        return facts


class _Run:
    """One examination on a kernel."""

    def __init__(self, tree: Tree, kernel: Kernel) -> None:
        self.known: Known = Known(tree.positions(), kernel)
        self._kernel = kernel
        self._stage = Stage.READ
        self._seen: dict[Stage, Any] = {}
        self._rejected: tuple[Stage, str] | None = None
        self._recovery: list[Call] = []
        self._recovery_changes = False
        self._settled: tuple[object, object] | None = None
        self._is_idempotent = True

    def listen(self, node: Node) -> None:
        for mark in node.marks:
            match mark.kind, mark.value:
                case (kind, Stage() as stage) if kind == BEGUN:
                    self._begin(stage)
                case (kind, (Stage() as stage, value)) if kind == SAW:
                    self._seen[stage] = value
                case (kind, (Stage() as stage, str() as words)) if kind == REJECTED:
                    self._rejected = stage, words

    def step(self, node: Node) -> Answer:
        call, kernel = node.call, self._kernel
        assert call is not None
        self._look(call)
        if self._stage is Stage.RECOVER and call.kind in _REPEATED:
            self._recovery.append(call)
        before = kernel.entry_changes
        answer = node.make_call(kernel, _SESSION)
        if self._stage is Stage.RECOVER and kernel.entry_changes is not before:
            self._recovery_changes = True
        return answer

    def facts(self, outcome: str) -> Facts:
        return Facts(
            seen=self._seen,
            rejected=self._rejected,
            broke=outcome,
            is_idempotent=self._is_idempotent,
            recovery=tuple(self._recovery) if self._recovery_changes else (),
        )

    def _begin(self, stage: Stage) -> None:
        self._stage = stage
        if stage is Stage.RECOVER_AGAIN:
            self._settled = self._content()
        elif stage is Stage.COMMIT:
            self._is_idempotent = self._settled == self._content()

    def _content(self) -> tuple[object, object]:
        kernel = self._kernel
        return {number: state.content for number, state in kernel.files.items()}, kernel.directories.copy()

    def _look(self, call: Call) -> None:
        """Note what an answer will depend on, and what nothing depends on any more because it is overwritten."""
        kind = call.kind
        if kind in _READS:
            self.known.read(call, _SESSION)
        elif kind in _SIZES:
            self.known.size(call, _SESSION)
        elif kind in _WRITES:
            is_compared = self._stage is Stage.RECOVER_AGAIN or kind is CallKind.STORE
            is_same = self.known.write(call, _SESSION, is_compared=is_compared)
            if self._stage is Stage.RECOVER and not (is_compared and is_same):
                self._recovery_changes = True
