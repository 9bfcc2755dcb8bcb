"""What a table is asked for beside its rows, and how it is refused: ranges of times, room, files that are gone, advice.

And which tables are below a folder, which files recoveries have kept, who has pins and locks, and which names are
synced. Tables are made here, and each answer is written down beside its question.
"""

from __future__ import annotations

import functools
import gc
import itertools
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from tornproof.harness.common.new_tables import new_table, new_table_of_rows
from tornproof.harness.common.patch import Controls, not_noticed, replaced
from tornproof.harness.common.whose_error import needed
from tornproof.harness.explorers.corruption import every_type
from tornproof.harness.explorers.roundtrip.metadata.chains import generation
from tornproof.harness.explorers.roundtrip.metadata.metadata_draft import (
    SORTED_BY_TIMESTAMP,
    WORD_BYTES,
    Draft,
    DraftColumn,
    chunk_start,
)
from tornproof.harness.explorers.roundtrip.metadata.placed_partitions import GENERATED, PARQUET
from tornproof.harness.explorers.roundtrip.metadata.transaction_files import Entry, TransactionFile
from tornproof.harness.explorers.roundtrip.worked_out.new_tables import META_COLUMN, META_HEADER
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, outcome_of, problem_of
from tornproof.harness.simulator.filesystem.faulty import Fault, FaultyStorage
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import BARRIERS, CHANGES, Call, CallKind, InterceptedStorage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.errors import StorageError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.migrate.table_migration import migrate_table
from tornproof.impl.pm.view import MetadataView, VerifiedGenerations, open_view
from tornproof.impl.read.reader import Snapshot, open_snapshot, snapshot_of
from tornproof.impl.repair.kept import KEPT_DIRECTORY, keep, kept_files, kept_name
from tornproof.impl.repair.repair import repair_table
from tornproof.impl.storage.interface import LockMode, OpenMode, Storage, StorageReason
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.indexed_columns import reject_indexed
from tornproof.impl.table.metadata_file import META_FILE, PartitionBy, TableColumn, TableMetadata
from tornproof.impl.table.parquet_last import parquet_last_advice
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.table.tables_below import is_root, tables_below
from tornproof.impl.txn.pins import pin_committed
from tornproof.impl.txn.transaction import Transaction, decode_transaction

__all__ = ["PROPERTY", "asked_tables", "failed_controls", "problem_of"]

PROPERTY = "a table answers what it is asked for, and refuses it for the right reason"
REAL = "tornproof.impl.storage.operating_system"
PATH, TXN, PINS = "table", "_txn", "_pins"
DAY = 86_400_000_000
TIMESTAMP, LONG, VARCHAR, SYMBOL, DESIGNATED = 8, 6, 26, 12, 1 << 17
NO_ROOM, GONE, DAMAGED, NO_TIME = "UnsupportedError", "FileVanishedError", "CorruptError", "UnknownColumnError"
TIMES: dict[str | None, int | None] = {None: None, "1970-01-01": 0, "1970-01-02T00:00:00.000001": DAY + 1}
META_FLAGS_BYTES, INDEXED = 4, 1
SOUND = "without damage"
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    SOUND: lambda metadata: metadata,
    "whose metadata are not published": lambda metadata: bytes(WORD_BYTES) + metadata[WORD_BYTES:],
    "with a word behind its metadata": lambda metadata: metadata + bytes(WORD_BYTES),
    "with a generation behind its metadata": lambda metadata: metadata + metadata[-100:],
}
KEPT_FILE = f"2024-01-01/{PM_FILE}"
KEPT_AS = f"{KEPT_DIRECTORY}/{KEPT_FILE}"
NO_SPACE, BROKEN = StorageReason.NO_SPACE, StorageReason.INPUT_OUTPUT
LINKED_TIMES = range(FIRST_TIME, FIRST_TIME + 3)
TEXTS = [f"t{number}" for number in range(60)]
NAMED = {"ts": "TIMESTAMP", "s": "SYMBOL"}
Columns = Sequence[tuple[int, int, str]]
"""Number, type and name of each; -1 as the number says that it has none."""


@functools.cache
def asked_tables() -> tuple[Question, ...]:
    """Return all questions, always in the same order."""
    return (
        *_ranges(),
        *_rooms(),
        *_gone(),
        *_unnamed(),
        *_advice(),
        *_below(),
        *_linked(),
        *_kept(),
        *_views(),
        *_pinned(),
        *_dry_runs(),
        *_synced_names(),
        *_unreferenced(),
        *_left_copies(),
    )


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of a reader by which no file is ever gone, and of one that follows no renaming."""
    module = "tornproof.impl.read.reader"
    controls: Controls = (
        ("no file is gone", f"{module}:FileMissingError", KeyError),
        ("all columns have one key", f"{module}:column_key", lambda index, _: index),
    )
    return not_noticed(controls, problem_of, asked_tables())


def _ranges() -> Iterator[Question]:
    """Yield ranges of times, which may begin where they end, and not later."""
    for start, end in itertools.product(TIMES, TIMES):
        low, high = TIMES[start], TIMES[end]
        is_right = low is None or high is None or low <= high
        expected = (low, high) if is_right else "TimeTextError"
        yield Question("ranges", f"the times from {start} to {end}", functools.partial(_range, start, end), expected)


def _range(start: str | None, end: str | None) -> Any:
    def found() -> tuple[int | None, int | None]:
        times = _every_type().time_range(start, end)
        return times.start, times.end

    return outcome_of(found)


@functools.cache
def _every_type() -> Snapshot:
    return open_snapshot(open_table(every_type.image_of_every_type(), every_type.PATH))


def _rooms() -> Iterator[Question]:
    """Yield reads of columns that may take just as much room as they need, and a byte less."""
    # Before they are decoded, booleans count as bytes.
    every = [f"c{number}" for number, of in enumerate(every_type.TYPES) if of != "BOOLEAN"]
    for words, snapshot, names, step_count in (
        ("columns of each type", _every_type, every, 1),
        ("texts", _texts, TEXTS, 7),
    ):
        for count in range(1, len(names) + 1, step_count):
            some = names[:count]
            needed_bytes = sum(column.nbytes for batch in snapshot().batches(some) for column in batch.columns)
            for step in (-1, 0, 8):
                expected = NO_ROOM if step < 0 else every_type.ROW_COUNT
                name = f"a read of {count} {words} in {step} bytes more than they need"
                read = functools.partial(_read_within, snapshot, some, needed_bytes + step)
                yield Question("rooms", name, read, expected)


@functools.cache
def _texts() -> Snapshot:
    storage = MemoryStorage()
    columns = {"ts": "TIMESTAMP", **dict.fromkeys(TEXTS, "VARCHAR")}
    new_table_of_rows(storage, PATH, columns, range(FIRST_TIME, FIRST_TIME + every_type.ROW_COUNT))
    return open_snapshot(open_table(storage, PATH))


def _read_within(snapshot: Callable[[], Snapshot], names: list[str], bound_bytes: int) -> Any:
    with replaced("tornproof.impl.read.row_group:batch_bound_bytes", lambda _: bound_bytes):
        return outcome_of(lambda: sum(batch.num_rows for batch in snapshot().batches(names)))


def _gone() -> Iterator[Question]:
    """Yield partitions of an older version whose files are not there, and what the current version has instead."""
    mine = Entry(timestamp=DAY, row_count=5, name_txn=3, token=100, flags=PARQUET | GENERATED)
    earlier = Entry(timestamp=0, row_count=5, name_txn=3, token=100, flags=PARQUET | GENERATED)
    for words, now, expected in (
        ("the same", (mine,), DAMAGED),
        ("the same, which has grown,", (_changed(mine, token=200, row_count=9),), DAMAGED),
        ("a rewritten one", (_changed(mine, name_txn=7),), GONE),
        ("one that was rewritten to a directory without a number", (_changed(mine, name_txn=-1),), GONE),
        ("none", (), GONE),
        ("another one", (earlier,), GONE),
        ("the same, and another one", (earlier, mine), DAMAGED),
    ):
        found = functools.partial(_resolved, mine, now)
        yield Question("gone", f"a partition without files, of which the current version has {words}", found, expected)


def _changed(entry: Entry, **values: int) -> Entry:
    kept = {name: getattr(entry, name) for name in ("timestamp", "row_count", "flags", "name_txn", "token")}
    return Entry(**kept | values)


def _version(entries: Sequence[Entry]) -> TransactionFile:
    last = entries[-1].row_count if entries else 0
    return TransactionFile(name="", entries=tuple(entries), transient_row_count=last, symbols=())


def _decoded(entries: Sequence[Entry]) -> Transaction:
    return decode_transaction(_version(entries).content(), file=TXN)


def _resolved(mine: Entry, now: Sequence[Entry]) -> Any:
    storage = DiskImage.of_files({f"{PATH}/{TXN}": _version(now).content()})
    columns = (TableColumn(id=0, name="time", type=TIMESTAMP),)
    metadata = TableMetadata(columns=columns, partition_by=PartitionBy.DAY, timestamp_id=0)
    snapshot = snapshot_of(Table(storage=storage, path=PATH, metadata=metadata), _decoded([mine]))
    return outcome_of(lambda: snapshot.resolve(snapshot.transaction.partitions[0]))


def _unnamed() -> Iterator[Question]:
    """Yield partitions of tables without `_meta`, and the columns and the timestamp that the table has."""
    time, value = (0, TIMESTAMP, "time"), (1, LONG, "value")
    cases: tuple[tuple[str, Sequence[tuple[int, Columns]], Any], ...] = (
        ("one partition", [(0, [time, value])], (["time", "value"], 0)),
        ("a column that was renamed", [(0, [time, value]), (0, [time, (1, LONG, "new")])], (["time", "new"], 0)),
        ("a column that came later", [(0, [time]), (0, [time, value])], (["time", "value"], 0)),
        ("a column that went", [(0, [time, value]), (0, [time])], (["time", "value"], 0)),
        ("columns in another order", [(0, [time, value]), (1, [value, time])], (["time", "value"], 0)),
        ("another type", [(0, [time, value]), (0, [time, (1, VARCHAR, "value")])], DAMAGED),
        (
            "names that were exchanged",
            [(0, [time, value, (2, LONG, "v")]), (0, [time, (1, LONG, "v"), (2, LONG, "value")])],
            (["time", "v", "value"], 0),
        ),
        ("one name for two", [(0, [time, value]), (0, [time, (2, LONG, "value")])], DAMAGED),
        ("no timestamp", [(-1, [value])], (["value"], NO_TIME)),
        ("no timestamp, and times without a number", [(-1, [(-1, TIMESTAMP, "t"), value])], (["t", "value"], NO_TIME)),
        ("a timestamp without a number", [(1, [value, (-1, TIMESTAMP, "t")])], (["value", "t"], 0)),
    )
    for words, partitions, expected in cases:
        yield Question(
            "unnamed", f"a table without _meta of {words}", functools.partial(_columns, partitions), expected
        )


def _columns(partitions: Sequence[tuple[int, Columns]]) -> Any:
    """Return the names of the columns, and what a time of 1970 is in the unit of the designated timestamp."""
    entries, files = list[Entry](), dict[str, bytes]()
    for day, (timestamp, columns) in enumerate(partitions):
        drafts = [
            DraftColumn(
                name=name, id=number, type=of | DESIGNATED * (place == timestamp), physical=6 if of == VARCHAR else 2
            )
            for place, (number, of, name) in enumerate(columns)
        ]
        flags = SORTED_BY_TIMESTAMP if timestamp >= 0 else 0
        draft = Draft(columns=drafts, groups=[], rows=[], place=[], timestamp=timestamp, flags=flags, footer_offset=4)
        files[f"{PATH}/1970-01-0{1 + day}/_pm"] = draft.encoded()
        entries.append(Entry(timestamp=day * DAY, row_count=0, token=draft.token, flags=PARQUET | GENERATED))
    table = Table(storage=DiskImage.of_files(files), path=PATH, metadata=None)

    def found() -> tuple[list[str], Any]:
        snapshot = snapshot_of(table, _decoded(entries))
        return [each.name for each in snapshot.columns], outcome_of(lambda: snapshot.time_of("1970-01-01"))

    return outcome_of(found)


def _advice() -> Iterator[Question]:
    """Yield tables with and without indexes and a log, whether they are written to, and what is said of their end."""
    for has_index, has_log, is_last in itertools.product((False, True), repeat=3):
        of = f"a table with{'' if has_index else 'out'} an index and with{'' if has_log else 'out'} a log"
        columns = tuple(
            TableColumn(id=number, name=f"c{number}", type=SYMBOL, is_indexed=has_index and number == 1)
            for number in range(3)
        )
        metadata = TableMetadata(columns=columns, partition_by=PartitionBy.DAY, timestamp_id=-1, has_wal=has_log)
        table = Table(storage=DiskImage(), path=PATH, metadata=metadata)
        rejected = "IndexedColumnError" if has_index else None
        yield Question(
            "advice",
            f"a commit to {of}",
            functools.partial(outcome_of, functools.partial(reject_indexed, table)),
            rejected,
        )
        found = functools.partial(_is_said, functools.partial(parquet_last_advice, table, is_last))
        end = "in Parquet" if is_last else "native"
        yield Question("advice", f"advice on {of}, whose last partition is {end}", found, is_last and not has_log)


def _is_said(advice: Callable[[], str | None]) -> bool:
    return advice() is not None


def _below() -> Iterator[Question]:
    """Yield folders with tables, links to them, and links that lead in a circle, and the tables below."""
    cases: tuple[tuple[str, Sequence[str], dict[str, str], list[str]], ...] = (
        ("nothing", [], {}, []),
        ("tables", ["b/_txn", "a/_txn", "c/d/_txn"], {}, ["a", "b", "c/d"]),
        ("a table itself", ["_txn", "a/_txn"], {}, ["."]),
        ("a table in a table", ["a/_txn", "a/b/_txn"], {}, ["a"]),
        ("a folder with the name of a file", ["a/_txn/x", "b/_txn"], {}, ["b"]),
        ("a link to a table", ["b/_txn"], {"a": "b"}, ["a"]),
        ("a second link to a table", ["b/_txn"], {"c": "b", "d/e": "../b"}, ["b"]),
        ("a link to a folder of tables", ["a/b/_txn", "a/c/_txn"], {"d": "a"}, ["a/b", "a/c"]),
        ("a link in a circle", ["a/b/_txn"], {"a/c": "..", "a/d": "d"}, ["a/b"]),
        ("a link to nothing", ["b/_txn"], {"a": "missing"}, ["b"]),
    )
    for words, files, links, expected in cases:
        of = f"a folder with {words}"
        yield Question("below", f"the tables below {of}", functools.partial(_made, files, links, _found), expected)
        is_above = expected not in ([], ["."])
        found = functools.partial(_made, files, links, _is_root)
        yield Question("below", f"whether {of} has tables below it", found, is_above)
    for words, files in (("files", ["a/b", "c"]), ("a file that is no folder", ["_txn/x"])):
        found = functools.partial(_made, files, {}, _is_root)
        yield Question("below", f"whether a folder with {words} has tables below it", found, False)


def _is_root(top: Path) -> bool:
    return is_root(str(top))


def _linked() -> Iterator[Question]:
    """Yield tables with a partition on another volume, to which a link leads, with and without `_meta`."""
    for has_meta in (True, False):
        name = f"a table {'with' if has_meta else 'without'} `_meta` to whose partition a link leads"
        yield Question("linked", name, functools.partial(_rows_behind_a_link, has_meta=has_meta), len(LINKED_TIMES))


def _synced_names() -> Iterator[Question]:
    """Yield what makes files and directories, none of whose names may be lost in a power cut afterwards."""
    calls: tuple[tuple[str, Callable[[Storage], object]], ...] = (
        ("a new table with rows", lambda storage: new_table_of_rows(storage, "new", {"ts": "TIMESTAMP"}, LINKED_TIMES)),
        ("a new table named with a slash", lambda storage: new_table(storage, "new/", NAMED)),
        ("a new table with symbols", lambda storage: new_table_of_rows(storage, "new", NAMED, LINKED_TIMES)),
        ("a migration", lambda storage: migrate_table(storage, every_type.PATH)),
        ("a migration to a new directory", lambda storage: migrate_table(storage, every_type.PATH, out="out")),
        ("a migration to one that is there", lambda storage: migrate_table(storage, every_type.PATH, out=".")),
    )
    for words, call in calls:
        found = functools.partial(_unsynced, _without_pm(), call)
        yield Question("synced", f"what is not synced after {words}", found, [])
    for words, change in (
        ("what is behind the committed bytes", lambda name, each: each + b"?" * name.endswith(DATA_FILE)),
        (
            "metadata that are not published",
            lambda name, each: bytes(8 * name.endswith(PM_FILE)) + each[8 * name.endswith(PM_FILE) :],
        ),
    ):
        storage = MemoryStorage.of(_changed_image(change))
        found = functools.partial(_unsynced, storage, lambda storage: repair_table(storage, every_type.PATH))
        yield Question("synced", f"what is not synced after a recovery of {words}", found, [])


def _changed_image(change: Callable[[str, bytes], bytes]) -> DiskImage:
    image = every_type.image_of_every_type()
    return DiskImage({path: change(path, content) for path, content in image.files.items()}, image.directories)


def _unsynced(start: MemoryStorage, call: Callable[[Storage], object]) -> list[str]:
    """Return the directories and the files that a call has changed and not synced."""
    storage = FaultyStorage(MemoryStorage.of(start.image()))
    call(storage)
    changed = set[str]()
    for each in storage.calls:
        if each.kind in (CallKind.PWRITE, CallKind.TRUNCATE, CallKind.STORE):
            changed.add(each.path)
        elif each.kind in (CallKind.MKDIR, CallKind.RENAME):
            changed.add(str(PurePosixPath(each.target_path or each.path).parent))
        elif each.kind in BARRIERS:
            changed.discard(each.path)
    return sorted(changed)


class _Refusing(InterceptedStorage):
    """A storage that refuses all calls on the file of pins, or only its locks, for one reason."""

    def __init__(self, inner: Storage, reason: StorageReason, *, at_lock: bool) -> None:
        super().__init__(inner)
        self._reason, self._at_lock = reason, at_lock

    def intercept(self, call: Call, run: Callable[[], Any]) -> Any:
        if call.path.endswith(PINS) and (call.kind is CallKind.LOCK or not self._at_lock):
            raise StorageError(file=call.path, operation=call.kind.value, reason=self._reason)
        return run()


def _pinned() -> Iterator[Question]:
    """Yield readers who may not open the file of pins: they read without one if that is because of its permissions."""
    for reason in StorageReason:
        expected = False if reason.name in ("MISSING", "NOT_PERMITTED") else "StorageError"
        words = f"whether a reader has a pin where {reason.value}"
        yield Question("pins", words, functools.partial(_is_pinned, reason), expected)
        # Where there are no locks, as on other systems, nobody has a pin.
        expected = False if reason is StorageReason.NO_LOCKS else "StorageError"
        words = f"whether a reader has a pin that cannot be locked: {reason.value}"
        yield Question("pins", words, functools.partial(_is_pinned, reason, at_lock=True), expected)
    for words, location, substitute in (
        ("another system", "sys:platform", "darwin"),
        ("a machine without fences", f"{REAL}:fence_of_this_machine", lambda: None),
    ):
        found = functools.partial(_is_locked_where, location, substitute)
        yield Question("pins", f"whether a lock is granted on {words}", found, "StorageError")
    yield Question("pins", "whether a lock ends with a file that was forgotten", _is_free_again, [False, True])
    words = "whether a lock ends with its file, which was refused another one and is still mapped"
    yield Question("pins", words, _is_free_beside_a_mapping, [True, False, True])


def _is_locked_where(location: str, substitute: object) -> Any:
    """Return whether a lock of a file that is there is granted by a real storage, elsewhere than here."""

    def granted() -> bool:
        with replaced(location, substitute), OperatingSystemStorage().open_for_writing(path) as file:
            return file.try_lock(LockMode.EXCLUSIVE, offset_bytes=0, size_bytes=1)

    with tempfile.TemporaryDirectory() as name:
        path = f"{name}/{PINS}"
        Path(path).touch()
        return outcome_of(granted)


def _is_free_again() -> list[bool]:
    """Return whether another file gets a lock before and after the one that holds it is forgotten."""
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings(action="ignore", category=ResourceWarning):
        storage, path = OperatingSystemStorage(), f"{name}/{PINS}"
        forgotten = [storage.open_for_writing(path, OpenMode.NEW)]
        granted = list[bool]()
        with storage.open_for_writing(path) as other:
            forgotten[0].try_lock(LockMode.EXCLUSIVE, offset_bytes=0, size_bytes=1)
            for _ in range(2):
                granted.append(other.try_lock(LockMode.EXCLUSIVE, offset_bytes=0, size_bytes=1))
                forgotten.clear()
                gc.collect()
        return granted


def _is_free_beside_a_mapping() -> list[bool]:
    """Return whether two locks of a file are granted, the second of which another one has, and the first afterwards."""
    with tempfile.TemporaryDirectory() as name:
        storage, path = OperatingSystemStorage(), f"{name}/{PINS}"
        Path(path).write_bytes(bytes(WORD_BYTES))
        with storage.open_for_writing(path) as other, ExitStack() as held:
            other.try_lock(LockMode.EXCLUSIVE, offset_bytes=1, size_bytes=1)
            with storage.open_for_writing(path) as file:
                held.enter_context(file.map(WORD_BYTES))
                granted = [file.try_lock(LockMode.EXCLUSIVE, offset_bytes=at, size_bytes=1) for at in range(2)]
            return [*granted, other.try_lock(LockMode.EXCLUSIVE, offset_bytes=0, size_bytes=1)]


def _is_pinned(reason: StorageReason, *, at_lock: bool = False) -> Any:
    def found() -> bool:
        with pin_committed(_Refusing(storage, reason, at_lock=at_lock), PATH) as pin:
            return pin.is_held

    storage = MemoryStorage()
    new_table_of_rows(storage, PATH, {"ts": "TIMESTAMP"}, LINKED_TIMES)
    return outcome_of(found)


def _dry_runs() -> Iterator[Question]:
    """Yield recoveries of tables with and without an index, and dry runs of them, which promise what is then done."""
    for has_index, dry_run, damage in itertools.product((False, True), (False, True), DAMAGES):
        words = f"{'a dry run of ' * dry_run}a recovery of a table {damage}"
        is_damaged = damage != SOUND
        expected = "IndexedColumnError" if has_index and is_damaged else ["publish_committed"] * is_damaged
        found = functools.partial(_recovered, has_index=has_index, damage=damage, dry_run=dry_run)
        yield Question("dry runs", f"{words} with{'' if has_index else 'out'} an index", found, expected)

    for out in (None, "out", "."):
        words = f"what a dry run of a migration to {out or 'the table'} changes"
        yield Question("dry runs", words, functools.partial(_changed_by_dry_run, out), [])


def _changed_by_dry_run(out: str | None) -> list[str]:
    storage = FaultyStorage(_without_pm())
    needed(migrate_table(storage, every_type.PATH, out=out, dry_run=True).partitions, "there is nothing to migrate")
    return [f"{call.kind} {call.path}" for call in storage.calls if call.kind in CHANGES]


def _without_pm() -> MemoryStorage:
    image = every_type.image_of_every_type()
    files = {path: content for path, content in image.files.items() if not path.endswith(PM_FILE)}
    return MemoryStorage.of(DiskImage(files, image.directories))


def _unreferenced() -> Iterator[Question]:
    """Yield tables of each interval with directories, and those that a version without partitions does not name."""
    names = ["1970-01-01", "default", "default.5", "other"]
    for partition_by in PartitionBy:
        expected = [each for each in names[:3] if each != "default" or partition_by is not PartitionBy.NONE]
        words = f"the directories that are not named of a table by {partition_by.name.lower()}"
        yield Question("unreferenced", words, functools.partial(_unreferenced_of, partition_by, names), expected)


def _unreferenced_of(partition_by: PartitionBy, names: Sequence[str]) -> list[str]:
    metadata = TableMetadata(columns=(), partition_by=partition_by, timestamp_id=-1)
    image = DiskImage.of_files({f"{PATH}/{name}/{PM_FILE}": b"" for name in names})
    return [*Table(storage=image, path=PATH, metadata=metadata).unreferenced_directories(_decoded([]))]


def _left_copies() -> Iterator[Question]:
    """Yield copies of what recoveries keep that end in an error, of which nothing may be left."""
    for kind, reason in itertools.product((CallKind.PWRITE, CallKind.FSYNC), (NO_SPACE, BROKEN)):
        words = f"what is left of a copy when it cannot {kind}: {reason.value}"
        yield Question("kept", words, functools.partial(_left_of_copy, kind, reason), [])


def _left_of_copy(kind: CallKind, reason: StorageReason) -> list[str]:
    file = f"{PATH}/{KEPT_FILE}"
    storage = MemoryStorage.of(DiskImage.of_files({file: b"what is kept"}))
    with suppress(StorageError):
        keep(FaultyStorage(storage, Fault(at=0, reason=reason, among=frozenset({kind}))), PATH, KEPT_FILE, 0, KEPT_AS)
    return [path.removeprefix(f"{PATH}/") for path in storage.image().files if path != file]


def _recovered(*, has_index: bool, damage: str, dry_run: bool) -> Any:
    storage = MemoryStorage()
    new_table_of_rows(storage, PATH, {"ts": "TIMESTAMP", "s": "SYMBOL"}, LINKED_TIMES)
    files = dict(storage.image().files)
    if has_index:
        # Of the second column; there is no encoder of tables with an index.
        at = META_HEADER.size + META_COLUMN.size + META_FLAGS_BYTES
        content = bytearray(files[f"{PATH}/{META_FILE}"])
        content[at] |= INDEXED
        files[f"{PATH}/{META_FILE}"] = bytes(content)
    (file,) = (each for each in files if each.endswith(PM_FILE))
    files[file] = DAMAGES[damage](files[file])
    storage = MemoryStorage.of(DiskImage(files, storage.image().directories))
    report = functools.partial(repair_table, storage, PATH, dry_run=dry_run)
    return outcome_of(lambda: [str(action.kind) for action in report().actions])


def _kept() -> Iterator[Question]:
    """Yield links in the directory of what recoveries keep, which are followed by nobody who forgets it."""
    kept = f"{KEPT_DIRECTORY}/2024-01-01"
    for words, file, links, ours in (
        ("a kept file", f"{kept}/{PM_FILE}", {}, True),
        ("a link to a kept file", f"volume/{PM_FILE}", {f"{kept}/{PM_FILE}": f"../../volume/{PM_FILE}"}, False),
        ("a link to a directory of kept files", f"volume/{PM_FILE}", {kept: "../volume"}, False),
        ("a link to a directory of them all", f"volume/2024-01-01/{PM_FILE}", {KEPT_DIRECTORY: "volume"}, False),
    ):
        found = functools.partial(_made, [file], links, _kept_in)
        yield Question("kept", f"what can be forgotten of {words}", found, [f"{kept}/{PM_FILE}"] * ours)

    content = b"ten bytes."
    for words, there, name in (
        ("the same bytes", content, PM_FILE),
        ("bytes that begin in the same way", content[:-1] + b"!", f"{PM_FILE}.1"),
        ("bytes that end in the same way", b"!" + content[1:], f"{PM_FILE}.1"),
        ("fewer bytes", content[:-1], f"{PM_FILE}.1"),
        ("more bytes", content + b"!", f"{PM_FILE}.1"),
        ("nothing", None, PM_FILE),
    ):
        found = functools.partial(_kept_as, content, there)
        yield Question("kept", f"where bytes are kept beside {words}", found, f"{kept}/{name}")


def _kept_as(content: bytes, there: bytes | None) -> str:
    files = {f"{PATH}/2024-01-01/{PM_FILE}": content, f"{PATH}/{KEPT_DIRECTORY}/2024-01-01/{PM_FILE}": there}
    image = DiskImage.of_files({path: each for path, each in files.items() if each is not None})
    with replaced("tornproof.impl.storage.file_pieces:PIECE_BYTES", 4):
        return kept_name(image, PATH, f"2024-01-01/{PM_FILE}", 0)


def _kept_in(top: Path) -> list[str]:
    return kept_files(OperatingSystemStorage(), str(top))[0]


def _rows_behind_a_link(*, has_meta: bool) -> int:
    with tempfile.TemporaryDirectory() as name:
        storage, table_path, volume = OperatingSystemStorage(), Path(name, "linked"), Path(name, "volume")
        columns = {"time": "TIMESTAMP", "v": "LONG"}
        # Without `_meta` the name of a directory is looked for among those of all intervals.
        new_table_of_rows(storage, str(table_path), columns, LINKED_TIMES, partition_by=PartitionBy.HOUR)
        (directory,) = (each for each in table_path.iterdir() if each.is_dir())
        directory.rename(volume)
        directory.symlink_to(volume)
        if not has_meta:
            table_path.joinpath(META_FILE).unlink()
        snapshot = open_snapshot(open_table(storage, str(table_path)))
        return sum(batch.num_rows for batch in snapshot.batches())


def _made(files: Sequence[str], links: dict[str, str], found: Callable[[Path], Any]) -> Any:
    """Return what is found in a folder of these empty files and links."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        for path in map(top.joinpath, (*files, *links)):
            path.parent.mkdir(parents=True, exist_ok=True)
        for file in files:
            top.joinpath(file).touch()
        for link, target in links.items():
            top.joinpath(link).symlink_to(target)
        return found(top)


def _found(top: Path) -> list[str]:
    return [str(each.relative_to(top)) for each in tables_below(top)]


def _views() -> Iterator[Question]:
    """Yield row groups whose blocks are said to begin near the footer, before which each must end."""
    draft = generation(0)
    draft.encoded()
    last_start = (draft.at["footer"] - chunk_start(0, len(draft.columns))) // WORD_BYTES
    for group, words in itertools.product(range(len(draft.groups)), (-1, 0, 1, 5, last_start, 1 << 20)):
        name = f"a view of row group {group} whose block begins {words} words after the last place that has room"
        moved = generation(0)
        moved.patches.append((f"entry {group}", 0, "<I", last_start + words))
        found = functools.partial(_viewed, moved.encoded(), moved.token)
        yield Question("views", name, found, DAMAGED if words > 0 else "seen")


def _viewed(content: bytes, token: int) -> Any:
    def found() -> str:
        return "seen" if len(_view(content, token).row_counts) else "not seen"

    return outcome_of(found)


def _view(content: bytes, token: int) -> MetadataView:
    return open_view(content, token, file="_pm", verified=VerifiedGenerations())
