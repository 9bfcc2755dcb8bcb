"""A trace of what a writer does to the memory of `_txn`, and the body of a reader of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tornproof.harness.common.system import Target
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import Call
from tornproof.harness.simulator.filesystem.kernel import CallRejectedError, Kernel
from tornproof.harness.simulator.memory_model.memory_views import StoreHistory
from tornproof.harness.simulator.process.bodies import ACKNOWLEDGED, COMMIT, FAILED, REJECTED, SEEN
from tornproof.harness.simulator.process.case import NotExplorableError, TestCase
from tornproof.harness.simulator.process.observer import Progress
from tornproof.harness.simulator.process.simulated_process import READ, Body, Say
from tornproof.impl.errors import TornproofError
from tornproof.impl.storage.interface import Storage
from tornproof.impl.txn.transaction import TXN_FILE, Transaction, decode_transaction, safe_read


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterTrace:
    """The calls of a session, each with the number of its commit, 0 for those before the first.

    `contents` are those of `_txn` before the first commit and after each, and `versions` what they say.
    """

    path: str
    calls: tuple[tuple[Call, int], ...]
    contents: tuple[bytes, ...]
    versions: tuple[Transaction, ...]

    def settled(self, commit_count: int) -> WriterTrace:
        """Return the rest of the trace after its first commits, whose stores all processes have seen."""
        if not commit_count:
            return self
        return WriterTrace(
            path=self.path,
            calls=tuple((call, commit - commit_count) for call, commit in self.calls if commit > commit_count),
            contents=self.contents[commit_count:],
            versions=self.versions[commit_count:],
        )

    def history(self, *, system_calls_are_fences: bool) -> StoreHistory:
        """Return the stores to `_txn`; raises NotMappedError."""
        return StoreHistory.of(self.contents[0], self.calls, self.path, system_calls_are_fences=system_calls_are_fences)


def trace_writer(target: Target, operations: Sequence[Any], *, start: DiskImage | None, path: str) -> WriterTrace:
    """Run one session of the real writer that commits all operations; raises NotExplorableError where it fails."""
    numbers = tuple(range(len(operations)))
    test_case = TestCase(target=target, path=path, operations=tuple(operations), first_session=numbers, start=start)
    process_group = test_case.process_group()
    try:
        world = process_group.begin(test_case.kernel(), Progress())
        file = f"{path}/{TXN_FILE}"
        contents = [_content(world.kernel, file)]
        calls: list[tuple[Call, int]] = []
        commit = 0
        while world.nodes[0].call is not None:
            calls.append((world.call(0), commit))
            world.step(0)
            node = world.nodes[0]
            for mark in node.marks:
                if mark.kind == FAILED:
                    raise NotExplorableError(f"the writer fails without a fault: {mark.value}")
                commit += mark.kind == COMMIT
                if mark.kind == ACKNOWLEDGED:
                    contents.append(_content(world.kernel, file))
        if world.nodes[0].outcome:
            raise NotExplorableError(f"the writer ends with {world.nodes[0].outcome}")
    finally:
        process_group.close()
    versions = tuple(decode_transaction(content, file=TXN_FILE) for content in contents)
    return WriterTrace(path=file, calls=tuple(calls), contents=tuple(contents), versions=versions)


def transaction_reader(path: str, read_count: int) -> Body:
    """Return a process body that reads the committed version `read_count` times, as every reader of a table does."""

    def run(storage: Storage, say: Say) -> None:
        for _ in range(read_count):
            say(READ, None)
            try:
                seen = safe_read(storage, f"{path}/{TXN_FILE}")
            except TornproofError as error:
                say(REJECTED, f"{type(error).__name__}: {error}")
            else:
                say(SEEN, seen)

    return run


def _content(kernel: Kernel, path: str) -> bytes:
    try:
        return kernel.files[kernel.entry(path)].content
    except CallRejectedError as error:
        raise NotExplorableError(f"there is no {path}: {error.reason}") from error
