"""What comes of a file that is published where something is already, beside another process, or not to the end."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from tornproof.harness.explorers.roundtrip.worked_out.changed_files import PATH as TABLE
from tornproof.harness.explorers.roundtrip.worked_out.changed_files import storage_of, two_days
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask, outcome_of
from tornproof.harness.explorers.roundtrip.writing.kills import commit
from tornproof.harness.simulator.filesystem.faulty import RefusingStorage
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind, InterceptedStorage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.errors import BusyError, StorageError
from tornproof.impl.migrate.partition_publish import UNFINISHED_SUFFIX, publish_file, publish_parts
from tornproof.impl.storage.interface import LockMode, Storage, StorageReason
from tornproof.impl.table.partition import PM_FILE, read_published
from tornproof.impl.table.table import open_table

Left: TypeAlias = tuple[Any, bytes | None, bytes | None]
"""What came of it, and what is in the file and in an unfinished one."""

DIRECTORY, PATH, LINK = "d", "d/file", "d/link"
SIZE_BYTES, CALLS_MANY = 8, 6
"""Of the size that metadata begin with, and more calls than a reader makes for them."""
OLD, NEW, UNFINISHED = b"old", b"new", b"left by somebody"
WRITES = (CallKind.PWRITE, CallKind.FSYNC, CallKind.RENAME)
BUSY, FAILED = BusyError.__name__, StorageError.__name__


def published_files() -> Iterator[Question]:
    """Yield what is at a path and beside it, and what is there after a publication, or who is told what."""
    for words, found, expected in _asked():
        yield Question("published files", f"what comes of a publication {words}", found, expected)


def published_meanwhile() -> Iterator[Question]:
    """Yield readers of metadata, the next ones of which are published before one of their calls."""
    for number in range(CALLS_MANY):
        words = f"what a reader finds of metadata that grow before its call {number}"
        yield ask("published files", words, True, _read_meanwhile, number)


class _Publishing(InterceptedStorage):
    """A table in which a generation is published before one of the calls for metadata."""

    def __init__(self, inner: MemoryStorage, number: int, path: str, published: bytes) -> None:
        super().__init__(inner)
        self._left, self._path, self._published = number, path, published

    def intercept(self, call: Call, run: Callable[[], Any]) -> Any:
        if call.path == self._path:
            if self._left == 0:
                with self._inner.open_for_writing(self._path) as file:
                    file.pwrite(self._published, 0)
            self._left -= 1
        return run()


def _read_meanwhile(number: int) -> bool:
    """Return whether what is read is what one commit or the next one has left."""
    contents, storage = list[bytes](), storage_of(two_days())
    for rows in ((), [(FIRST_TIME + 1, 3)]):
        if rows:
            commit(storage, TABLE, rows)
        table = open_table(storage, TABLE)
        files = table.files_of(table.transaction().partitions[0])
        contents.append(storage.image().files[f"{files.path}/{PM_FILE}"])
    disk = storage_of(two_days())
    table = open_table(_Publishing(disk, number, f"{files.path}/{PM_FILE}", contents[-1]), TABLE)
    found = read_published(table.files_of(table.transaction().partitions[0]))
    # The published size itself may be the next one already.
    return found.content[SIZE_BYTES:] in [
        content[SIZE_BYTES : int.from_bytes(content[:SIZE_BYTES], "little")] for content in contents
    ]


def _asked() -> Iterator[tuple[str, Callable[[], Any], Any]]:
    for is_there, is_new, is_left in itertools.product((False, True), repeat=3):
        words = f"{'over a file' if is_there else 'where there is none'}{', as a new one' if is_new else ''}"
        found = functools.partial(_published, is_there=is_there, is_new=is_new, is_left=is_left)
        is_refused = is_there and is_new
        left = (BUSY, OLD, UNFINISHED if is_left else None) if is_refused else (None, NEW, None)
        yield f"{words}{' beside an unfinished one' if is_left else ''}", found, left
    for mode in LockMode:
        found = functools.partial(_beside_other, mode)
        yield f"that another process has locked, {mode.name}", found, (BUSY, OLD, UNFINISHED)
    for kind, reason, came in (
        (CallKind.LOCK, StorageReason.NO_LOCKS, (None, NEW, None)),
        *(
            (kind, StorageReason.NO_SPACE, (FAILED, OLD, None))
            for kind in (CallKind.PWRITE, CallKind.FSYNC, CallKind.RENAME)
        ),
    ):
        yield f"where {kind} fails: {reason}", functools.partial(_refused, kind, reason), came
    yield "for another process meanwhile", _meanwhile, ([BUSY], NEW, None)
    for path in (DIRECTORY, LINK):
        yield f"over {path}", functools.partial(_over, path), (FAILED, OLD, None)


def _disk(*, is_there: bool = True, is_left: bool = False) -> MemoryStorage:
    files = {PATH: OLD} if is_there else {}
    files |= {PATH + UNFINISHED_SUFFIX: UNFINISHED} if is_left else {}
    return MemoryStorage.of(DiskImage(files, frozenset({DIRECTORY})))


def _left(disk: MemoryStorage, came: Any) -> Left:
    files = disk.image().files
    return came, files.get(PATH), files.get(PATH + UNFINISHED_SUFFIX)


def _published(*, is_there: bool, is_new: bool, is_left: bool) -> Left:
    disk = _disk(is_there=is_there, is_left=is_left)
    return _left(disk, outcome_of(lambda: publish_file(disk, PATH, NEW, is_new=is_new)))


def _beside_other(mode: LockMode) -> Left:
    disk = _disk(is_left=True)
    with disk.fork_process().open_for_writing(PATH + UNFINISHED_SUFFIX) as file:
        file.try_lock(mode, offset_bytes=0, size_bytes=1)
        return _left(disk, outcome_of(lambda: publish_file(disk, PATH, NEW)))


def _refused(kind: CallKind, reason: StorageReason) -> Left:
    disk = _disk()
    refusing: Storage = RefusingStorage(disk, lambda call: reason if call.kind is kind else None)
    return _left(disk, outcome_of(lambda: publish_file(refusing, PATH, NEW)))


def _meanwhile() -> Left:
    """Return what a second process is told while the first writes."""
    disk, told = _disk(), []

    def parts() -> Iterator[bytes]:
        told.append(outcome_of(lambda: publish_file(disk.fork_process(), PATH, b"of another")))
        yield NEW

    publish_parts(disk, PATH, parts())
    return _left(disk, told)


def _over(path: str) -> Left:
    disk = _disk()
    disk.link_symbolically(f"/{PATH}", LINK)
    return _left(disk, outcome_of(lambda: publish_file(disk, path, NEW)))
