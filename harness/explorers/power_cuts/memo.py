"""Memoised examinations of disks: the result of a process is a function of the bytes that it read.

A decision tree over the bytes that were read leads to the facts. For a disk that differs only where nothing reads, this
costs a few slices and lookups instead of the steps of the examination.
"""

from __future__ import annotations

from typing import Any

from tornproof.harness.explorers.power_cuts.examination import BEGUN, REJECTED, SAW, SESSION, Facts, Stage, Write
from tornproof.harness.explorers.power_cuts.known import Known, Read
from tornproof.harness.simulator.filesystem.intercept import REPEATED, Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Answer, Kernel
from tornproof.harness.simulator.persistence.legal_disks import Disk
from tornproof.harness.simulator.persistence.legal_names import Tree, tree_of
from tornproof.harness.simulator.process.simulated_process import Body, Node, Process

_READS = frozenset({CallKind.PREAD, CallKind.READ_MAPPED, CallKind.LOAD, CallKind.VIEW})
_WRITES = frozenset({CallKind.PWRITE, CallKind.STORE, CallKind.TRUNCATE})
_SIZES = frozenset({CallKind.SIZE, CallKind.MAP})
_RECOVERING = frozenset({Stage.READ, Stage.RECOVER})
"""The stages whose changes are the recovery: in some formats, as in SQLite's, a reader undoes what a crash left."""


class _Test:
    """An inner node of the tree: what is read next, and the child for each answer."""

    __slots__ = ("answers", "file_index", "start", "stop")

    def __init__(self, read: Read) -> None:
        self.file_index, self.start, self.stop = read
        self.answers: dict[bytes | int, Any] = {}


class Examiner:
    """Examines disks with one process body; disks on which it reads the same bytes share one `Facts` object."""

    def __init__(self, body: Body) -> None:
        """Start the process."""
        self.process = Process("examiner", body)
        self._first: dict[Tree, Any] = {}
        self.reads: dict[Facts, tuple[tuple[str, int, int], ...]] = {}
        """What each result depends on: ranges of files, each as a path, start, stop."""
        self.stepped_count = 0
        """How many disks were examined by stepping."""

    def close(self) -> None:
        """End all greenlets."""
        self.process.close()

    def examine(self, disk: Disk) -> Facts:
        """Return the facts about a disk."""
        contents = disk.contents
        node = self._first.get(disk.tree)
        while node.__class__ is _Test:
            content, stop = contents[node.file_index], node.stop
            node = node.answers.get(content[node.start : stop] if stop else len(content))
        return self._examine_anew(disk) if node is None else node

    def step(self, disk: Disk) -> tuple[Facts, list[Read]]:
        """Examine a disk step by step; return the facts and the reads that do not follow from earlier ones."""
        self.stepped_count += 1
        run = _Run(disk.tree, disk.kernel())
        node = self.process.root
        run.observe(node)
        while node.call is not None:
            answer = run.step(node)
            node = self.process.advance(node, answer)
            run.observe(node)
        return run.facts(node), run.known.reads

    def _examine_anew(self, disk: Disk) -> Facts:
        facts, reads = self.step(disk)
        answers: dict[Any, Any] = self._first
        answer: Any = disk.tree
        for read in reads:
            test = answers.get(answer)
            if test is None:
                test = answers[answer] = _Test(read)
            assert (test.file_index, test.start, test.stop) == read, "after the same bytes the process reads others"
            answers, answer = test.answers, read.of(disk.contents)
        answers[answer] = facts
        paths = disk.tree.paths
        self.reads[facts] = tuple((paths[read.file_index], read.start, read.stop) for read in reads if read.stop)
        return facts


class _Run:
    """One examination on a kernel."""

    def __init__(self, tree: Tree, kernel: Kernel) -> None:
        self.known: Known = Known(tree.path_indexes(), kernel)
        self._kernel = kernel
        self._stage = Stage.READ
        self._seen: dict[Stage, Any] = {}
        self._rejected: tuple[Stage, str] | None = None
        self._recovery: list[Call] = []
        self._recovery_changes = self._reader_repairs = False
        self._writes: list[Write] = []
        self._recovered_files: tuple[Tree, tuple[int, ...]] | None = None
        self._recovered: Kernel | None = None
        self._is_idempotent = True

    def observe(self, node: Node) -> None:
        for mark in node.marks:
            match mark.kind, mark.value:
                case (kind, Stage() as stage) if kind == BEGUN:
                    self._begin(stage)
                case (kind, (Stage() as stage, value)) if kind == SAW:
                    self._seen[stage] = value
                case (kind, (Stage() as stage, str() as error)) if kind == REJECTED:
                    self._rejected = stage, error

    def step(self, node: Node) -> Answer:
        call, kernel = node.call, self._kernel
        assert call is not None
        self._note(call)
        if self._stage in _RECOVERING and call.kind in REPEATED:
            self._recovery.append(call)
        before = kernel.entry_changes
        answer = node.make_call(kernel, SESSION)
        if self._stage in _RECOVERING:
            self._recovery_changes |= kernel.entry_changes is not before
            if call.kind in _WRITES and answer is None:
                file = kernel.file_of(SESSION, call)
                assert file is not None, "a file that is not open cannot be written to"
                is_truncation = call.kind is CallKind.TRUNCATE
                offset_bytes, content = (call.size_bytes, None) if is_truncation else (call.offset_bytes, call.content)
                self._writes.append(Write(file, offset_bytes, content))
        return answer

    def facts(self, end: Node) -> Facts:
        return Facts(
            seen=self._seen,
            rejected=self._rejected,
            broke=end.outcome,
            is_endless=end.is_endless,
            is_idempotent=self._is_idempotent,
            reader_repairs=self._reader_repairs,
            recovery=tuple(self._recovery) if self._recovery_changes else (),
            writes=tuple(self._writes),
            files=self._recovered_files or tree_of(self._kernel.directories),
        )

    def _begin(self, stage: Stage) -> None:
        self._stage = stage
        if stage is Stage.RECOVER:
            self._reader_repairs = self._recovery_changes
            if not self._recovery_changes:
                self._recovery.clear()
        elif stage is Stage.READ_AGAIN:
            self._recovered_files = tree_of(self._kernel.directories)
        elif stage is Stage.RECOVER_AGAIN:
            self._recovered = self._kernel.fork()
        elif stage is Stage.COMMIT and self._recovered is not None:
            self._is_idempotent = self._is_same_as(self._recovered)

    def _is_same_as(self, before: Kernel) -> bool:
        """Return whether names and bytes are as before; this reads the files of each name that leads to another one."""
        now = dict(self._kernel.paths())
        for path, number in before.paths():
            if now.get(path, number) != number:
                self.known.read_whole(number)
                self.known.read_whole(now[path])
        return self._kernel.image().is_same(before.image())

    def _note(self, call: Call) -> None:
        """Note the bytes that the answer depends on, and those that are overwritten."""
        kind = call.kind
        if kind in _READS:
            self.known.read(call, SESSION)
        elif kind in _SIZES:
            self.known.size(call, SESSION)
        elif kind in _WRITES:
            is_compared = self._stage is Stage.RECOVER_AGAIN or kind is CallKind.STORE
            is_same = self.known.write(call, SESSION, is_compared=is_compared)
            if self._stage in _RECOVERING and not (is_compared and is_same):
                self._recovery_changes = True
