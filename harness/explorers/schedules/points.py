"""Coverage points of schedules, recognized by the answers that each process got."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from tornproof.harness.search.outcome import path_to
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Answer, Rejected
from tornproof.harness.simulator.process import bodies
from tornproof.harness.simulator.process.simulated_process import Node
from tornproof.harness.simulator.process.world import World
from tornproof.impl.errors import CorruptError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.pm.chain import walk
from tornproof.impl.storage.interface import LockMode, StorageReason
from tornproof.impl.table.partition import PM_FILE, TAIL_BYTES
from tornproof.impl.txn.pins import PINS_FILE
from tornproof.impl.txn.transaction import TXN_FILE

ONE_BACK = "a reader walked one footer back"
TWO_BACK = "a reader walked two footers back"
MOVED = "the version moved while a record was read, which was read again"
MOVED_TWICE = "the version moved twice during one read"
PM_GREW = "_pm had grown past its published size"
DATA_GREW = "data.parquet had grown past the token"
DUPLICATE_TOKEN = "a reader met two footers with one token"
VANISHED = "a file had vanished under a reader without a pin"
PIN_REJECTED = "a pin was refused, because a purge was at work"
PIN_LATE = "the version moved while it was being pinned"
PURGE_REJECTED = "a purge was refused, because of a pin"
PURGED = "a purge removed a directory"
REWRITTEN = "a new directory was made beside readers"
TWO_VERSIONS = "one reader saw two versions"
DISAGREEMENT = "two readers saw different versions"
BEFORE_COMMIT = "a reader saw a version before the last one"
AFTER_COMMIT = "a reader saw the last version"
POINTS = (
    ONE_BACK,
    TWO_BACK,
    MOVED,
    MOVED_TWICE,
    PM_GREW,
    DATA_GREW,
    DUPLICATE_TOKEN,
    VANISHED,
    PIN_REJECTED,
    PIN_LATE,
    PURGE_REJECTED,
    PURGED,
    REWRITTEN,
    TWO_VERSIONS,
    DISAGREEMENT,
    BEFORE_COMMIT,
    AFTER_COMMIT,
)
POINTS_OF_A_TABLE = (ONE_BACK, MOVED, PM_GREW, DATA_GREW, BEFORE_COMMIT, AFTER_COMMIT)
"""What one reader beside two commits to any table reaches."""
POINTS_OF_A_PURGE = (PIN_REJECTED, PIN_LATE, PURGE_REJECTED, PURGED)
"""What one pinned reader beside a rewrite and a purge of any table reaches."""


class _AnsweredCall(NamedTuple):
    call: Call
    answer: Answer

    def is_of(self, kind: CallKind, name: str) -> bool:
        return self.call.kind is kind and self.call.path.rpartition("/")[2] == name


class Points:
    """Determines the points of whole runs, and caches those of each process's path."""

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._known: dict[Node, frozenset[str]] = {}

    def of(self, world: World) -> set[str]:
        """Return the points that a run has reached."""
        reached: set[str] = set()
        for node in world.nodes:
            known = self._known.get(node)
            if known is None:
                known = self._known[node] = frozenset(_of_path(path_to(node)))
            reached |= known
        last: dict[str, int] = {}
        for process, count in world.progress.observations:
            last.setdefault(process, count)
            reached.add(AFTER_COMMIT if count == len(world.progress.committed) else BEFORE_COMMIT)
        if len(set(last.values())) > 1:
            reached.add(DISAGREEMENT)
        return reached


def _of_path(path: list[Node]) -> Iterator[str]:
    marks = [mark for node in path for mark in node.marks]
    calls = [_AnsweredCall(before.call, after.answer) for before, after in pairwise(path) if before.call is not None]
    if any(mark.kind == bodies.COMMIT for mark in marks):
        yield from _of_writer(calls)
        return
    seen = [mark.value for mark in marks if mark.kind == bodies.SEEN]
    if len(set(seen)) > 1:
        yield TWO_VERSIONS
    yield from _of_transactions(calls)
    yield from _of_generations(calls)
    yield from _of_pins(calls)
    for each in calls:
        is_gone = isinstance(each.answer, Rejected) and each.answer.reason is StorageReason.MISSING
        if is_gone and any(each.is_of(CallKind.OPEN_FOR_READING, name) for name in (PM_FILE, DATA_FILE)):
            yield VANISHED


def _of_writer(calls: list[_AnsweredCall]) -> Iterator[str]:
    for each in calls:
        if each.is_of(CallKind.LOCK, PINS_FILE) and each.answer is False:
            yield PURGE_REJECTED
        elif each.call.kind is CallKind.RMDIR and each.answer is None:
            yield PURGED
        elif each.call.kind is CallKind.MKDIR and each.answer is None:
            yield REWRITTEN


def _of_transactions(calls: list[_AnsweredCall]) -> Iterator[str]:
    """Count the reads of the version while `_txn` is open: two suffice when it does not change."""
    read_count = 0
    for each in calls:
        if each.is_of(CallKind.OPEN_FOR_READING, TXN_FILE):
            read_count = 0
        elif each.is_of(CallKind.PREAD, TXN_FILE) and (each.call.offset_bytes, each.call.size_bytes) == (0, 8):
            read_count += 1
            if read_count > 2:
                yield MOVED if read_count <= 4 else MOVED_TWICE


def _of_generations(calls: list[_AnsweredCall]) -> Iterator[str]:
    """Compare what `_pm` published with the token that the reader used, which its read of the tail shows."""
    chains: list[tuple[int, int]] = []
    published = content = b""
    data_size_bytes = 0
    for each in calls:
        answer = each.answer
        if each.is_of(CallKind.PREAD, PM_FILE) and isinstance(answer, bytes):
            is_head = each.call.size_bytes == 8
            published = answer if is_head else published
            content = b"" if is_head else (content if each.call.offset_bytes else b"") + answer
        elif each.is_of(CallKind.SIZE, PM_FILE) and isinstance(answer, int):
            if answer > int.from_bytes(published, "little"):
                yield PM_GREW
        elif each.is_of(CallKind.SIZE, DATA_FILE) and isinstance(answer, int):
            data_size_bytes = answer
        elif each.is_of(CallKind.PREAD, DATA_FILE) and each.call.size_bytes == TAIL_BYTES and content:
            token = each.call.offset_bytes + TAIL_BYTES
            if data_size_bytes > token:
                yield DATA_GREW
            yield from _of_chain(content, token, chains)
            content = b""


def _of_chain(content: bytes, token: int, chains: list[tuple[int, int]]) -> Iterator[str]:
    """Yield how far the token's footer is from the newest; `chains` are all footers that this process has read."""
    try:
        footers = [(footer.token, footer.end_bytes) for footer in walk(content, file=PM_FILE)]
    except CorruptError:
        return
    back = next((number for number, (found, _) in enumerate(footers) if found == token), 0)
    if back:
        yield ONE_BACK if back == 1 else TWO_BACK
    end = next((end for found, end in footers if found == token), 0)
    if any(found == token and other != end for found, other in chains):
        yield DUPLICATE_TOKEN
    chains += footers


def _of_pins(calls: list[_AnsweredCall]) -> Iterator[str]:
    for each in calls:
        if each.is_of(CallKind.LOCK, PINS_FILE) and each.call.lock is LockMode.SHARED and each.answer is False:
            yield PIN_REJECTED
        elif each.is_of(CallKind.UNLOCK, PINS_FILE):
            yield PIN_LATE
