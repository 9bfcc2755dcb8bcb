"""Coverage points of power cuts; an exploration that misses a goal among them gives no verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tornproof.harness.explorers.power_cuts.trace import CrashPoint
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.persistence.legal_disks import Disk
from tornproof.harness.simulator.persistence.models import D, Model

SECTOR_BYTES = 512
_TXN, _PM, _DATA = "_txn", "_pm", "data.parquet"

DATA_WRITTEN = "crash between the write of data and its sync"
PM_WRITTEN = "crash between the pm body and the header patch"
HEADER_PATCHED = "crash between header patch and version"
INSIDE_RECORD = "crash inside a record"
RECORD_STORED = "crash between record and version"
VERSION_STORED = "crash between version and acknowledgement"
DIRECTORY_MADE = "crash while a partition's directory is made"
PURGING = "crash inside a purge"
OLD_STATE = "the state before the commit was found"
NEW_STATE = "the state after the commit was found before its acknowledgement"
RESTATED = "recovery restated a generation, as it met an orphan"
UNCOMMITTED_REMOVED = "recovery removed a directory that never came about"
NESTED = "crash inside a recovery that writes"
NESTED_LOST = "crash inside a recovery lost what it wrote"
WRITE_LOST = "unsynced write lost"
WRITE_KEPT = "unsynced write kept"
TORN = "torn record inside a sector"
NAME_LOST = "directory entry lost"
SYNC_FAILED = "a sync failed and the process went on"
CUT_AFTER_FAILURE = "power cut after a failed sync"
EVICTED = "unwritten pages evicted after a failed sync"
CUT_TWICE = "power cut again after a recovery"
CUT_AFTER_KILL = "power cut in the life after a kill"

_TRACE: tuple[str, ...] = (DATA_WRITTEN, PM_WRITTEN, HEADER_PATCHED, INSIDE_RECORD, RECORD_STORED, VERSION_STORED)
_TRACE += (DIRECTORY_MADE, PURGING)
_DISKS = (OLD_STATE, NEW_STATE, RESTATED, UNCOMMITTED_REMOVED, NESTED)


def coverage_goals(model: Model) -> tuple[str, ...]:
    """Return the points that a table's workload reaches under a model."""
    if model is D:
        return (SYNC_FAILED, CUT_AFTER_FAILURE, EVICTED, CUT_AFTER_KILL)
    if not model.everything_dies:
        return (*_TRACE, *_DISKS)
    torn = (TORN,) if model.block_bytes is not None and model.block_bytes < SECTOR_BYTES else ()
    return (*_TRACE, *_DISKS, NESTED_LOST, WRITE_LOST, WRITE_KEPT, NAME_LOST, *torn)


def reached_by_trace(point: CrashPoint) -> Iterator[str]:
    """Yield the points that a state of the writer reaches."""
    is_pending = point.operation is not None
    before = point.before
    if before is None:
        return
    file = before.path.rpartition("/")[2]
    if before.kind in (CallKind.UNLINK, CallKind.RMDIR):
        yield PURGING
    if not is_pending:
        return
    if file == _DATA and before.kind is CallKind.PWRITE:
        yield DATA_WRITTEN
    if file == _PM and before.kind is CallKind.PWRITE:
        yield PM_WRITTEN
    if any(call.kind is CallKind.MKDIR for call in point.since) and not _version_is_stored(point):
        yield DIRECTORY_MADE
    is_patched = any(call.kind is CallKind.STORE and call.path.endswith(_PM) for call in point.since)
    if _version_is_stored(point):
        yield VERSION_STORED
        return
    if is_patched:
        yield HEADER_PATCHED
    if before.path.endswith(_TXN) and before.kind is CallKind.STORE:
        yield INSIDE_RECORD
    if before.path.endswith(_TXN) and before.kind is CallKind.MSYNC:
        yield RECORD_STORED


def _version_is_stored(point: CrashPoint) -> bool:
    return any(
        call.kind is CallKind.STORE and call.path.endswith(_TXN) and call.offset_bytes == 0 for call in point.since
    )


def reached_by_recovery(recovery: tuple[Call, ...]) -> Iterator[str]:
    """Yield the points that the calls of a recovery reach."""
    if any(call.kind is CallKind.PWRITE and call.path.endswith(_PM) for call in recovery):
        yield RESTATED
    if any(call.kind is CallKind.RMDIR for call in recovery):
        yield UNCOMMITTED_REMOVED


def reached_by_disk(point: CrashPoint, latest: Disk, disk: Disk, model: Model) -> Iterator[str]:
    """Yield the points that a disk reaches; `latest` has all that was written."""
    if disk.tree is not latest.tree:
        yield NAME_LOST
        return
    if disk.contents == latest.contents:
        if any(len(state.versions) > 1 for state in point.kernel.files.values()):
            yield WRITE_KEPT
        return
    yield WRITE_LOST
    if model.block_bytes is not None and model.block_bytes < SECTOR_BYTES and _is_torn(point, disk):
        yield TORN


def _is_torn(point: CrashPoint, disk: Disk) -> bool:
    """Return whether a sector of a file differs from all that it ever held."""
    files = disk.files()
    for path, number in point.kernel.paths():
        content, versions = files.get(path, b""), point.kernel.files[number].versions
        for start in range(0, len(content) if len(versions) > 1 else 0, SECTOR_BYTES):
            sector = content[start : start + SECTOR_BYTES]
            if all(version[start : start + SECTOR_BYTES] != sector for version in versions):
                return True
    return False


def all_coverage_goals(models: Sequence[Model]) -> tuple[str, ...]:
    """Return the points that a table's workload reaches under these models."""
    return tuple(dict.fromkeys(name for model in models for name in coverage_goals(model)))
