"""A storage that stops its process at a chosen position of the writer's work, also inside a write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tornproof.harness.simulator.filesystem.intercept import STEPS, Answer, Call, CallKind, InterceptedStorage
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.storage.interface import File, Storage
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.txn.transaction import TXN_FILE

COMMIT, RECOVERY, PURGE = "commit", "recovery", "purge"
MAKE_DIRECTORY, APPEND_DATA, SYNC_DATA, APPEND_PM, SYNC_PM = (
    "make directory",
    "append data",
    "sync data",
    "append pm",
    "sync pm",
)
PATCH_HEADER, SYNC_HEADER = "patch header", "sync header"
SYNC_PARTITION_DIRECTORY, SYNC_TABLE_DIRECTORY = "sync partition directory", "sync table directory"
STORE_RECORD, SYNC_RECORD, STORE_VERSION, SYNC_VERSION = "store record", "sync record", "store version", "sync version"
REMOVE_FILE, REMOVE_DIRECTORY = "remove file", "remove directory"
WRITES = (APPEND_DATA, SYNC_DATA, APPEND_PM, SYNC_PM)
"""Steps for each partition, new or old."""
HEADERS = (PATCH_HEADER, SYNC_HEADER)
"""Further steps for a partition that grows in place."""
DIRECTORIES = (SYNC_PARTITION_DIRECTORY, SYNC_TABLE_DIRECTORY)
"""Further steps for a new directory, after the writes."""
PUBLICATION = (STORE_RECORD, SYNC_RECORD, STORE_VERSION, SYNC_VERSION)
"""The last steps of every commit."""
_COMMIT_STEPS = (MAKE_DIRECTORY, *WRITES, *HEADERS, *DIRECTORIES, *PUBLICATION)
POSITIONS = (
    *(f"{COMMIT}: {step}" for step in _COMMIT_STEPS),
    *(f"{RECOVERY}: {step}" for step in (PATCH_HEADER, SYNC_HEADER, STORE_VERSION, SYNC_VERSION)),
    *(f"{RECOVERY}: {step}" for step in (APPEND_PM, SYNC_PM, REMOVE_FILE, REMOVE_DIRECTORY)),
    *(f"{PURGE}: {step}" for step in (REMOVE_FILE, REMOVE_DIRECTORY, SYNC_TABLE_DIRECTORY)),
)
"""Where a writer can be killed, as stage and step; the first ones are those of a commit."""
COMMIT_POSITIONS = POSITIONS[: len(_COMMIT_STEPS)]
_BY_FILE = {
    (CallKind.PWRITE, DATA_FILE): APPEND_DATA,
    (CallKind.FDATASYNC, DATA_FILE): SYNC_DATA,
    (CallKind.PWRITE, PM_FILE): APPEND_PM,
    (CallKind.FDATASYNC, PM_FILE): SYNC_PM,
    (CallKind.STORE, PM_FILE): PATCH_HEADER,
    (CallKind.MSYNC, PM_FILE): SYNC_HEADER,
}
_BY_KIND = {
    CallKind.MKDIR: MAKE_DIRECTORY,
    CallKind.UNLINK: REMOVE_FILE,
    CallKind.RMDIR: REMOVE_DIRECTORY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Where a writer stops: before the `occurrence`-th (from 1) step at a position; of a write, a part is done."""

    position: str
    occurrence: int
    written_part: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """Where a writer has stopped, and whether its commit has published a generation that no version names yet."""

    position: str
    is_published: bool


class StoppingStorage(InterceptedStorage):
    """Counts the steps at each position; `stage`, set by the writer, is the first part of a position."""

    def __init__(self, inner: Storage, table_path: str, on_stop: Callable[[Stopped], None]) -> None:
        """Do not stop yet; `on_stop` returns when the writer may continue."""
        super().__init__(inner)
        self.stage = RECOVERY
        self.counts: Counter[str] = Counter()
        self._table_path = table_path
        self._on_stop = on_stop
        self._stop: Stop | None = None
        self._steps_left = 0
        self._is_published = False
        self._is_version_stored = False

    def stop_at(self, stop: Stop | None) -> None:
        """Count from now on, and stop once."""
        self._stop = stop
        self._steps_left = 0 if stop is None else stop.occurrence

    def intercept(self, call: Call, run: Callable[[], Answer]) -> Answer:
        """Let the call happen, but stop before the chosen one."""
        self._pass(call, lambda stop: None)
        return run()

    def intercept_write(self, file: File, call: Call, run: Callable[[], None]) -> None:
        """Let the write happen, but stop after a part of the chosen one; a writer that continues writes all of it."""

        def write_part(stop: Stop) -> None:
            part = call.content[: int(len(call.content) * stop.written_part)]
            if part:
                file.pwrite(part, call.offset_bytes)

        self._pass(call, write_part)
        run()

    def _pass(self, call: Call, last_effect: Callable[[Stop], None]) -> None:
        """Stop at a call if it is the chosen one, and count it."""
        step = self._step(call) if call.kind in STEPS else ""
        if not step:
            return
        position = f"{self.stage}: {step}"
        self.counts[position] += 1
        if self._stop is not None and position == self._stop.position:
            self._steps_left -= 1
            if not self._steps_left:
                stop, self._stop = self._stop, None
                last_effect(stop)
                self._on_stop(Stopped(position=position, is_published=self._is_published))
        if step in (STORE_RECORD, STORE_VERSION):
            self._is_version_stored = step == STORE_VERSION
        if position in (f"{COMMIT}: {PATCH_HEADER}", f"{COMMIT}: {STORE_VERSION}"):
            self._is_published = step == PATCH_HEADER

    def _step(self, call: Call) -> str:
        directory, _, name = call.path.rpartition("/")
        if call.kind is CallKind.SYNC_DIRECTORY:
            return SYNC_TABLE_DIRECTORY if call.path == self._table_path else SYNC_PARTITION_DIRECTORY
        if name == TXN_FILE and directory == self._table_path:
            if call.kind is CallKind.STORE:
                return STORE_RECORD if call.offset_bytes else STORE_VERSION
            if call.kind is CallKind.MSYNC:
                return SYNC_VERSION if self._is_version_stored else SYNC_RECORD
        return _BY_FILE.get((call.kind, name)) or _BY_KIND.get(call.kind, "")
