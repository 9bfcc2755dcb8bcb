"""What a table is asked for beside its rows, and how it is refused: ranges of times, room, files that are gone, advice.

And which tables are below a folder. Tables are made here, and each answer is written down beside its question.
"""

from __future__ import annotations

import functools
import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tornproof.harness.common.new_tables import new_table_of_rows
from tornproof.harness.common.patch import Controls, not_noticed, replaced
from tornproof.harness.common.whose_error import the_only
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
from tornproof.harness.explorers.roundtrip.metadata.transaction_files import Entry, of_entries
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask, outcome_of, problem_of
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.pm.view import MetadataView, VerifiedGenerations, open_view
from tornproof.impl.read.reader import Snapshot, open_snapshot, snapshot_of
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.indexed_columns import reject_indexed
from tornproof.impl.table.metadata_file import META_FILE, PartitionBy, TableColumn, TableMetadata
from tornproof.impl.table.parquet_last import parquet_last_advice
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.table.tables_below import is_root, tables_below
from tornproof.impl.txn.transaction import Transaction, decode_transaction

__all__ = ["PROPERTY", "asked_tables", "failed_controls", "problem_of"]

PROPERTY = "a table answers what it is asked for, and refuses it for the right reason"
PATH, TXN = "table", "_txn"
DAY = 86_400_000_000
TIMESTAMP, LONG, VARCHAR, SYMBOL, DESIGNATED = 8, 6, 26, 12, 1 << 17
NO_ROOM, GONE, DAMAGED, NO_TIME = "UnsupportedError", "FileVanishedError", "CorruptError", "UnknownColumnError"
TIMES: dict[str | None, int | None] = {None: None, "1970-01-01": 0, "1970-01-02T00:00:00.000001": DAY + 1}
LINKED_TIMES = range(FIRST_TIME, FIRST_TIME + 3)
WIDE_NAMES = ("zeit", "größe", "abcdefg", "日本", "ab", "größen")
"""Some have as many bytes as others have characters."""
TEXTS = [f"t{number}" for number in range(60)]
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
        *_views(),
        *_places(),
        *_unreferenced(),
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
        yield ask("ranges", f"the times from {start} to {end}", expected, _range, start, end)


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
                yield ask("rooms", name, expected, _read_within, snapshot, some, needed_bytes + step)


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
        ("a rewritten one", (_changed(mine, name_txn=5),), GONE),
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


def _decoded(entries: Sequence[Entry]) -> Transaction:
    return decode_transaction(of_entries(entries).content(), file=TXN)


def _resolved(mine: Entry, now: Sequence[Entry]) -> Any:
    storage = DiskImage.of_files({f"{PATH}/{TXN}": of_entries(now).content()})
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
        ("another type", [(0, [time, value]), (0, [time, (1, VARCHAR, "value")])], NO_ROOM),
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
        yield ask("unnamed", f"a table without _meta of {words}", expected, _columns, partitions)


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
    for has_index, has_log in itertools.product((False, True), repeat=2):
        of = f"a table with{'' if has_index else 'out'} an index and with{'' if has_log else 'out'} a log"
        columns = tuple(
            TableColumn(id=number, name=f"c{number}", type=SYMBOL, is_indexed=has_index and number == 1)
            for number in range(3)
        )
        metadata = TableMetadata(columns=columns, partition_by=PartitionBy.DAY, timestamp_id=-1, has_wal=has_log)
        table = Table(storage=DiskImage(), path=PATH, metadata=metadata)
        rejected = "IndexedColumnError" if has_index else None
        yield ask("advice", f"a commit to {of}", rejected, outcome_of, functools.partial(reject_indexed, table))
        for is_last, end in ((False, "native"), (True, "in Parquet")):
            found = functools.partial(_is_said, functools.partial(parquet_last_advice, table, is_last))
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
        ("a checkpoint beside a table", ["b/_txn", ".checkpoint/a/_txn"], {}, ["b"]),
        ("a copy of a checkpoint", ["b/_txn", "c/_checkpoint_meta.d", "c/a/_txn"], {}, ["b"]),
        ("a snapshot of an early release", ["b/_txn", "c/_snapshot", "c/a/_txn"], {}, ["b"]),
        ("a table of the name snapshot", ["snapshot/a/_txn"], {}, ["snapshot/a"]),
        ("a view beside a table", ["a/_txn", "a/_view", "b/_txn", "_view"], {}, ["b"]),
    )
    for words, files, links, expected in cases:
        of = f"a folder with {words}"
        yield ask("below", f"the tables below {of}", expected, made, files, links, _found)
        is_above = expected not in ([], ["."])
        yield ask("below", f"whether {of} has tables below it", is_above, made, files, links, _is_root)
    for words, files in (("files", ["a/b", "c"]), ("a file that is no folder", ["_txn/x"])):
        yield ask("below", f"whether a folder with {words} has tables below it", False, made, files, {}, _is_root)


def _is_root(top: Path) -> bool:
    return is_root(str(top))


def _linked() -> Iterator[Question]:
    """Yield tables with a partition on another volume, to which a link leads, with and without `_meta`."""
    for has_meta in (True, False):
        name = f"a table {'with' if has_meta else 'without'} `_meta` to whose partition a link leads"
        yield ask("linked", name, len(LINKED_TIMES), _rows_behind_a_link, has_meta=has_meta)


def _unreferenced() -> Iterator[Question]:
    """Yield tables of each interval with directories, and those that a version without partitions does not name."""
    days = ["1970-01-02T03", "1970-01-02T030405.6"]
    own = {
        PartitionBy.NONE: ["default.5"],
        PartitionBy.YEAR: ["1970.1", *days],
        PartitionBy.MONTH: ["1970-01.1", *days],
        PartitionBy.WEEK: ["1970-W01.1", "1970-W01-4T030405"],
        PartitionBy.DAY: days,
        PartitionBy.HOUR: days,
    }
    names = sorted({"default", "other", "1970-01-02.detached", *itertools.chain(*own.values())})
    for partition_by, expected in own.items():
        words = f"the directories that are not named of a table by {partition_by.name.lower()}"
        yield ask("unreferenced", words, sorted(expected), _unreferenced_of, partition_by, names)


def _unreferenced_of(partition_by: PartitionBy, names: Sequence[str]) -> list[str]:
    metadata = TableMetadata(columns=(), partition_by=partition_by, timestamp_id=-1)
    image = DiskImage.of_files({f"{PATH}/{name}/{PM_FILE}": b"" for name in names})
    return [*Table(storage=image, path=PATH, metadata=metadata).unreferenced_directories(_decoded([]))]


def _rows_behind_a_link(*, has_meta: bool) -> int:
    with tempfile.TemporaryDirectory() as name:
        storage, table_path, volume = OperatingSystemStorage(), Path(name, "linked"), Path(name, "volume")
        columns = {"time": "TIMESTAMP", "v": "LONG"}
        # Without `_meta` the name of a directory is looked for among those of all intervals.
        new_table_of_rows(storage, str(table_path), columns, LINKED_TIMES, partition_by=PartitionBy.HOUR)
        directory = the_only(each for each in table_path.iterdir() if each.is_dir())
        directory.rename(volume)
        directory.symlink_to(volume)
        if not has_meta:
            table_path.joinpath(META_FILE).unlink()
        snapshot = open_snapshot(open_table(storage, str(table_path)))
        return sum(batch.num_rows for batch in snapshot.batches())


def made(files: Sequence[str], links: dict[str, str], found: Callable[[Path], Any]) -> Any:
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
        yield ask("views", name, DAMAGED if words > 0 else "seen", _viewed, moved.encoded(), moved.token)


def _places() -> Iterator[Question]:
    """Yield names of columns, and their places in metadata, and copies of metadata that are damaged."""
    for number, name in enumerate(WIDE_NAMES):
        yield ask("places", f"the place of the column {name}", number, _place_of, name)
    name = "a view of metadata with another bit, after one of the sound ones at another path"
    yield Question("views", name, _viewed_after_others, DAMAGED)


def _place_of(name: str) -> int | None:
    storage = MemoryStorage()
    types = {each: "LONG" if number else "TIMESTAMP" for number, each in enumerate(WIDE_NAMES)}
    new_table_of_rows(storage, PATH, types, LINKED_TIMES)
    partition = the_only(open_table(storage, PATH).transaction().partitions)
    content = the_only(each for path, each in storage.image().files.items() if path.endswith(PM_FILE))
    return _view(content, partition.token).find_column(name)


def _viewed_after_others() -> Any:
    """Return what comes of a view of damaged metadata where the sound ones were verified before."""
    draft, verified = generation(0), VerifiedGenerations()
    content = draft.encoded()
    open_view(content, draft.token, file="one/_pm", verified=verified)
    at = draft.at["block 0"]
    damaged = content[:at] + bytes((content[at] ^ 1,)) + content[at + 1 :]
    return outcome_of(lambda: len(open_view(damaged, draft.token, file="other/_pm", verified=verified).row_counts))


def _viewed(content: bytes, token: int) -> Any:
    def found() -> str:
        return "seen" if len(_view(content, token).row_counts) else "not seen"

    return outcome_of(found)


def _view(content: bytes, token: int) -> MetadataView:
    return open_view(content, token, file="_pm", verified=VerifiedGenerations())
