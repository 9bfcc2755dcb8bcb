"""What a verification looks at and counts, also in threads, and which errors of a system are no damage."""

from __future__ import annotations

import datetime
import functools
import io
import itertools
import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tornproof.harness.common.new_tables import new_table
from tornproof.harness.common.patch import all_replaced, replaced
from tornproof.harness.common.whose_error import needed, the_only
from tornproof.harness.explorers.model_based.other_footers import (
    CHUNK_FACTS,
    GROUPS,
    SCHEMA,
    STATISTICS,
    with_fields_of,
    with_footer,
    within,
)
from tornproof.harness.explorers.roundtrip.forms import OF_SOMEBODY_ELSE, in_form, parquet_of, reader_of
from tornproof.harness.explorers.roundtrip.metadata.placed_partitions import GENERATED, PARQUET
from tornproof.harness.explorers.roundtrip.metadata.transaction_files import Entry, of_entries
from tornproof.harness.explorers.roundtrip.worked_out.changed_files import (
    DAY,
    PATH,
    Files,
    files_of,
    storage_of,
    with_entry,
)
from tornproof.harness.explorers.roundtrip.worked_out.operators.migrations import (
    DESIGNATED,
    as_decimal,
    as_text,
    document_of,
)
from tornproof.harness.explorers.roundtrip.worked_out.parquet.column_types import TIMESTAMP
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask, outcome_of
from tornproof.harness.explorers.roundtrip.writing.kills import Rows, commit, table_of_rows
from tornproof.harness.simulator.filesystem.faulty import RefusingStorage
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.chunk.duplicates import ChunkForm
from tornproof.impl.errors import Problem
from tornproof.impl.extension.point import with_extension
from tornproof.impl.layout.parquet import DATA_FILE, FooterForm
from tornproof.impl.migrate.convert import convert
from tornproof.impl.parquet.thrift import STOP, Field, Items, Kind, Struct, with_fields, without
from tornproof.impl.query.predicate_text import parse_predicate
from tornproof.impl.read.decoding import SYNCHRONOUS, by_threads
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.repair.kept import kept_name
from tornproof.impl.repair.repair import repair_table
from tornproof.impl.storage.interface import OpenMode, StorageReason
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.questdb_json import ids_in
from tornproof.impl.table.table import Table, open_table
from tornproof.impl.txn.pins import PINS_FILE
from tornproof.impl.verify.verify import NATIVE, LookedAt, PartitionReport, TableReport, verify_table
from tornproof.impl.write.writer_options import BloomOptions, WriterOptions

TXN, KEPT = "_txn", "_recovered/day/_pm"
EXPANSION = "tornproof.impl.chunk.expansion"
OTHER_SIZES, FLIPPED_BIT = "with other sizes in the footer", "with a flipped bit in that column"
BOUNDS = {"minimum": (2, 6), "maximum": (1, 5)}
"""The fields of statistics with each, the older and the newer one."""
UUID, LONG128, NULL_COUNT = 19, 24, 3
"""Codes of types, and the field of statistics."""
ROW_COUNT, GROUP_ROWS, COMMITS = 2_000, 500, 2
FILTERED = WriterOptions(
    blooms=BloomOptions(columns={"v": 0.01}), row_group_row_count_max=GROUP_ROWS, rewrite_unused_ratio=1e9
)
WITH_EXTENSION = (FooterForm.PRIVATE, FooterForm.MIGRATION)
EXTENSION_ENDS = {"FlatBuffers": 41, "their checksum": 37, "their size": 33, "its checksum": 29}
"""How far before a file's end these begin: 16 bytes that say which extension, a stop and 8 bytes of Parquet follow."""
UNIONS: Mapping[str, Callable[[Struct], Field]] = {
    "order of a column": lambda union: Field(7, Kind.LIST, Items(Kind.STRUCT, (union,))),
    "encryption": lambda union: Field(8, Kind.STRUCT, union),
}
"""Of a footer, which later releases of the format may give other members."""
LISTS = [[1.5], [2.5, None], None, [], [3.5]]
ROWS_MORE = Field(3, Kind.I64, 3)
"""The rows that a footer says it has."""
EXPANDED_COUNT, EXPANDED_BYTES_MAX = 1_000, 200_000
SMALL_PM_BYTES = 3_000
"""So small a limit of metadata makes filters go to data.parquet."""


def looked_at() -> Iterator[Question]:
    """Yield native partitions and what a verification says that it looked at, of all of a table or of sizes alone."""
    for quick in (False, True):
        words = f"what {'a quick' if quick else 'a'} verification looks at in a native partition"
        found = functools.partial(_looked_at, quick=quick)
        yield Question("looked at", words, found, LookedAt.SIZES if quick else LookedAt.OFFSETS_AND_SYMBOL_KEYS)

    for counts in itertools.product((0, 1, 2), repeat=len(LookedAt)):
        expected = [rows for place, count in enumerate(counts) if (rows := count * 10**place)]
        words = f"the rows of so many native partitions by what is looked at: {counts}"
        yield ask("looked at", words, expected, _rows_in_verdict, counts)


def _rows_in_verdict(counts: Sequence[int]) -> list[int]:
    """Return the numbers of rows in the words on native partitions, each of which has a power of ten of them."""
    partitions = tuple(
        PartitionReport(name="", format=NATIVE, rows=10**place, token=-1, looked_at=looked_at)
        for place, (looked_at, count) in enumerate(zip(LookedAt, counts, strict=True))
        for _ in range(count)
    )
    report = TableReport(table=PATH, version=1, partitions=partitions)
    return [int(number) for number in re.findall(r"\((\d+) rows?\)", report.verdict)]


def _looked_at(*, quick: bool) -> LookedAt:
    """Return it for the only partition of a table, which has the files of one of its two columns."""
    files = {**_with_native_partition([(FIRST_TIME, 1)]), "2024-01-01/ts.d": bytes(8)}
    return the_only(verify_table(open_table(storage_of(files), PATH), quick=quick).partitions).looked_at


def verified() -> Iterator[Question]:
    """Yield tables with filters in both places, and what a verification counts, in threads or not, and what is dead."""
    for limit, in_threads in itertools.product((1 << 20, SMALL_PM_BYTES), (False, True)):
        groups = COMMITS * ROW_COUNT // GROUP_ROWS
        expected = {"row_groups": groups, "chunks": 2 * groups, "rows": COMMITS * ROW_COUNT, "partitions": 1}
        place = "metadata" if limit > SMALL_PM_BYTES else "data.parquet"
        words = f"a table with filters in {place}, verified {'in threads' if in_threads else 'at once'}"
        found = functools.partial(_counts, limit, in_threads=in_threads)
        yield Question("verified", f"what is counted of {words}", found, (expected, True, (), 0))
        yield ask("verified", f"what there is to recover of {words}", [], _actions, limit)
    columns = [{"column_type": 6, "column_top": 0, **more} for more in ({"id": 0}, {"id": -1}, {}, {"id": 7})]
    ids = functools.partial(ids_in, json.dumps({"version": 1, "schema": columns}))
    yield Question("verified", "the ids of columns in a JSON", ids, (0, None, None, 7))
    for count, wrong in ((0, 0), (1, 0), (1, 1), (3, 1)):
        words = f"what is counted and noted of indexes of which {count} were compared and {wrong} are wrong"
        yield ask("verified", words, (count, wrong, ["not compared"]), _said_of_indexes, count, wrong)
    for day in range(2):
        words = f"whose problems are found where the metadata of day {day + 1} of 2 are those of later rows"
        yield ask("verified", words, {f"2024-01-{day + 1:02d}.0/{DATA_FILE}"}, _with_problems, day)

    for first, last in itertools.product((-1, 0, 1), repeat=2):
        words = f"what is wrong with the times of a native partition, {first} and {last} beside those in _txn"
        fields = [name for name, more in (("MIN_TIMESTAMP", first), ("MAX_TIMESTAMP", last)) if more]
        yield ask("verified", words, fields, _problems_of_times, first, last)


def _problems_of_times(first: int, last: int) -> list[str]:
    """Return the fields of `_txn` that are said to be wrong, where rows are in a native partition."""
    times = [FIRST_TIME + 10, FIRST_TIME + 20, FIRST_TIME + 30]
    beside = _with_native_partition([(time, 1) for time in times])
    times[0], times[-1] = times[0] + first, times[-1] + last
    values = {"ts": times, "v": [1] * len(times)}
    own = {f"2024-01-01/{name}.d": struct.pack("<3q", *numbers) for name, numbers in values.items()}
    return [each.field for each in verify_table(open_table(storage_of({**beside, **own}), PATH)).all_problems]


def _with_native_partition(rows: Rows) -> Files:
    """Return the files of a table with one partition, which is native, but for those of that partition."""
    files = files_of(table_of_rows(PATH, rows))
    return with_entry({path: each for path, each in files.items() if "/" not in path}, 0, name_txn=-1, token=-1)


def _with_problems(day: int) -> set[str]:
    times = [FIRST_TIME + each * DAY + number for each in range(2) for number in range(4)]
    image, later = (table_of_rows(PATH, [(time + more, 1) for time in times]) for more in (0, 1))
    path = sorted(path for path in image.files if path.endswith(PM_FILE))[day]
    damaged = image.with_file(path, later.files[path])
    return {each.file for each in verify_table(open_table(damaged, PATH)).all_problems}


def recovered() -> Iterator[Question]:
    """Yield tables that nobody has locked yet, with bytes behind some partitions, and what is behind them then."""
    for day_count, left_count in ((1, 1), (2, 1), (2, 2), (3, 3)):
        words = f"what is behind {day_count} partitions that nobody has locked, once {left_count} were recovered"
        yield ask("recovered", words, [0] * day_count, _left_after, day_count, left_count)
    for there in ("", "the same", "others", "a directory", "a link to a directory"):
        name = KEPT if there in ("", "the same") else f"{KEPT}.1"
        words = f"the name that bytes are kept under where the first one has {there or 'nothing'}"
        yield ask("recovered", words, name, _kept_as, there)
    for is_link, expected in ((False, ([], 0)), (True, (["a symbolic link"], len(b"left over")))):
        words = f"what is behind the rows in {'a link' if is_link else 'a file'} after a recovery"
        yield ask("recovered", words, expected, _left_behind, is_link=is_link)


def _kept_as(there: str) -> str:
    """Return the name that bytes are kept under where something has the first one."""
    storage, first = MemoryStorage(), f"/{PATH}/{KEPT}"
    for directory in (f"/{PATH}", f"/{PATH}/day", f"/{PATH}/_recovered", f"/{PATH}/_recovered/day", "/elsewhere"):
        storage.mkdir(directory)
    if there == "a directory":
        storage.mkdir(first)
    elif there == "a link to a directory":
        storage.link_symbolically("/elsewhere", first)
    elif there:
        with storage.open_for_writing(first, OpenMode.NEW) as file:
            file.pwrite(b"kept" if there == "the same" else b"others", 0)
    with storage.open_for_writing(f"/{PATH}/day/{PM_FILE}", OpenMode.NEW) as file:
        file.pwrite(b"kept", 0)
    return kept_name(storage, f"/{PATH}", f"day/{PM_FILE}", 0)


def _left_behind(*, is_link: bool) -> tuple[list[str], int]:
    """Return the problems of a recovery, and how many bytes are behind the committed ones of a file or a link then."""
    image = table_of_rows(f"/{PATH}", [(FIRST_TIME, 0)])
    path, content = the_only((path, each) for path, each in image.files.items() if path.endswith(DATA_FILE))
    target = "/volume/data" if is_link else path
    files = {**{other: each for other, each in image.files.items() if other != path}, target: content + b"left over"}
    storage = MemoryStorage.of(DiskImage(files, image.directories | {"/volume"}))
    if is_link:
        storage.link_symbolically(target, path)
    problems = [problem.actual for problem in repair_table(storage, f"/{PATH}").problems]
    return problems, len(storage.image().files[target]) - len(content)


def _left_after(day_count: int, left_count: int) -> Any:
    """Return how many bytes are behind the committed ones of each partition after a recovery."""
    image = table_of_rows(PATH, [(FIRST_TIME + day * DAY, day) for day in range(day_count)])
    before = {path: content for path, content in image.files.items() if path.endswith(DATA_FILE)}
    left = {path: before[path] + b"left over" for path in sorted(before)[:left_count]}
    files = {path: content for path, content in {**image.files, **left}.items() if path != f"{PATH}/{PINS_FILE}"}
    storage = MemoryStorage.of(DiskImage(files, image.directories))

    def sizes() -> list[int]:
        repair_table(storage, PATH)
        after = storage.image().files
        return [len(after[path]) - len(content) for path, content in before.items()]

    return outcome_of(sizes)


def files_of_others() -> Iterator[Question]:
    """Yield files as other programs write them: decimals of any width with filters, bytes as texts, and many nulls."""
    for width in (4, 5, 9, 16, 17, 20, 32):
        words = f"what is wrong with decimals of {width} bytes that have a filter"
        yield ask("files of others", words, [], _problems_of_decimals, width)
    for year, told, expected in (
        (2024, None, [1_704_067_200 * 10**9, None]),
        (2024, TIMESTAMP, [1_704_067_200 * 10**6, None]),
        (9999, None, "UnsupportedError"),
        (1, None, "UnsupportedError"),
    ):
        words = f"which times come of one of 96 bits and a null in the year {year} in a column of type {told}"
        time = pa.array([datetime.datetime(year, 1, 1), None], pa.timestamp("us"))
        yield ask("files of others", words, expected, _times_of_96_bits, time, told)
    for number in (-1_001, -1_000, -1, 1, 999):
        time = pa.array([number, None], pa.timestamp("ns"))
        words = f"which times come of one of 96 bits, {number} nanoseconds after 1970, and a null"
        yield ask("files of others", words, [number, None], _times_of_96_bits, time, None)
    for bound, bits in itertools.product(("minimum", "maximum"), (32, 64)):
        words = f"what is wrong with unsigned numbers of {bits} bits without a {bound}"
        yield ask("files of others", words, [], _problems_of_unsigned, bits, bound)
    for names in (("a", "a"), ("b", "b"), ("a", "b")):
        words = f"whether partitions can be read whose times are in columns {names[0]} and {names[1]}, and are sound"
        is_one = names[0] == names[1]
        yield ask("files of others", words, (2 if is_one else "CorruptError", is_one), _by_two_times, names)
    for order, code, stated in itertools.product(("xnn", "nnx", "nxn"), (UUID, LONG128), range(4)):
        # Of rows that are older than a UUID column some servers count no nulls.
        is_older = code == UUID and stated < 2 and order.startswith("n" * (2 - stated))
        is_sound = is_older or stated == 2
        right = ([], is_older, 2) if is_sound else (["NULL_COUNT of column 'u'"], False, None)
        words = f"the problems, notes and nulls of {order} of type {code}, of which {stated} are said to be null"
        yield ask("files of others", words, right, _of_stated_nulls, order, code, stated)
    words = "what is wrong with lists in a footer that have no elements, and no type of them"
    yield Question("files of others", words, _problems_of_empty_lists, [])
    words = "what is wrong with a footer that has an extension of somebody else"
    yield Question("files of others", words, _problems_of_extension, [])
    words = "what is wrong with a footer of a row more than its row groups"
    yield Question("files of others", words, _problems_of_rows, ["ROW_COUNT of 1970-01-01", "num_rows"])
    for form, (what, before_end) in itertools.product(WITH_EXTENSION, EXTENSION_ENDS.items()):
        words = f"what is wrong with a {form} extension of which a bit of {what} is flipped"
        yield ask("files of others", words, ["extension"], _problems_of_bit, form, before_end)
    for content, expected in (
        (b"5 \x7f", "texts"),
        (b"\xc2\x80", "texts"),
        *((each, "CorruptError") for each in (b"5 \x80", b"\xff", b"\x80")),
    ):
        yield ask("files of others", f"what comes of a chunk of texts {content!r}", expected, _decoded_texts, content)
    for text_bytes, outcome in ((100, (EXPANDED_COUNT, True)), (10_000, ("UnsupportedError", False))):
        words = f"what comes of {EXPANDED_COUNT} equal texts of {text_bytes} bytes, and whether these are in memory"
        yield ask("files of others", words, outcome, _expanded, text_bytes)
    for rows_max, count in ((2, "UnsupportedError"), (3, 3)):
        words = f"what comes of a read of 3 nulls in a row group where {rows_max} rows may be"
        yield ask("files of others", words, count, _rows_within, rows_max)

    for (name, field_of), member in itertools.product(UNIONS.items(), (1, 2, 99)):
        content = with_footer(_two_rows(), functools.partial(_with_union, field_of, member))
        words = f"the problems of a file whose {name} is member {member} of its union"
        yield ask("files of others", words, [], _problems_of_file, content)


def lists_of_others() -> Iterator[Question]:
    """Yield lists of other programs, each behind a page of none, and fewer or more than their row group has."""
    for version, has_checksums in itertools.product(("1.0", "2.0"), (False, True)):
        how = f"of pages of version {version} {'with' if has_checksums else 'without'} checksums"
        options = {"data_page_version": version, "write_page_checksum": has_checksums}
        for size, words in ((1, "each in a row group behind a page of none"), (len(LISTS), "in one row group")):
            found = functools.partial(_lists_and_problems, _file_of_lists(size, **options))
            yield Question("lists of others", f"what comes of lists {how}, {words}", found, (LISTS, []))
        for count in (len(LISTS) - 1, len(LISTS) + 1):
            content = _file_of_lists(len(LISTS), **options)
            rows = Field(3, Kind.I64, count)
            content = with_fields_of(with_fields_of(content, GROUPS, rows), (), rows)
            words = f"what comes of {len(LISTS)} lists {how}, in a row group of {count}"
            yield ask("lists of others", words, ("CorruptError", ["rows of column 'a'"]), _lists_and_problems, content)


def _file_of_lists(row_group_size: int, **options: Any) -> bytes:
    """Return a file of the smallest pages: a first list that does not fit leaves one of none behind."""
    rows = pa.table({"a": pa.array(LISTS, pa.list_(pa.float64()))})
    return parquet_of(rows, row_group_size=row_group_size, data_page_size=1, **options)


def _lists_and_problems(content: bytes) -> tuple[Any, list[str]]:
    table = _table_of_file(content)

    def read() -> list[Any]:
        return [each for batch in open_snapshot(table).batches() for each in batch.column(0).to_pylist()]

    return outcome_of(read), _fields_of_problems(content)


def unsupported() -> Iterator[Question]:
    """Yield chunks that cannot be decoded here, alone and beside damage, and how many problems that is, if any."""
    bounds: dict[str, dict[str, int]] = {
        "within all limits": {},
        "beyond a limit of bytes": {"tornproof.impl.limits:CHUNK_LIMIT_BYTES": 1},
        "beyond a limit of values": {"tornproof.impl.chunk.chunk:VALUE_COUNT_MAX": 2},
        "beyond a limit of decoded bytes": {f"{EXPANSION}:EXPANDED_MAX_BYTES": 1, f"{EXPANSION}:EXPANSION_MAX": 0},
    }
    types = pa.list_(pa.int64()), pa.int64()
    for of, (bound, limits), is_compared in itertools.product(types, bounds.items(), (True, False)):
        count = 2 if limits else int(of != pa.int64())
        is_fetched, sound = bound != "beyond a limit of bytes", "UnsupportedError" if count else 0
        of_footer = {} if is_compared else {"tornproof.impl.verify.verify:THRIFT_LIMIT_BYTES": 0}
        for damage, expected in (
            ("sound", sound),
            # Nobody else says how large pages are.
            (OTHER_SIZES, count if is_fetched and is_compared else sound),
            (FLIPPED_BIT, 1 if is_fetched else "UnsupportedError"),
        ):
            words = f"how many problems there are in {of}, {bound}, and a column of numbers: {damage}"
            if not is_compared:
                words += ", whose Thrift footer is too large to be compared"
            yield ask("unsupported", words, expected, _problems_within, of, limits | of_footer, damage)


def unopened() -> Iterator[Question]:
    """Yield reasons for which a system does not open a file, none of which says that the file is damaged."""
    reasons = [each for each in StorageReason if each is not StorageReason.MISSING]
    calls: tuple[tuple[str, Callable[[Table], object]], ...] = (("a verification", verify_table), ("a read", _read))
    for file, reason, (words, call) in itertools.product((PM_FILE, DATA_FILE), reasons, calls):
        name = f"what comes of {words} where {file} cannot be opened: {reason.value}"
        yield ask("unopened", name, "StorageError", _unopened, file, reason, call)


@functools.cache
def _filtered(limit: int) -> DiskImage:
    storage = MemoryStorage()
    new_table(storage, PATH, {"ts": "TIMESTAMP", "v": "LONG"})
    with replaced("tornproof.impl.limits:PM_LIMIT_BYTES", limit):
        for number in range(COMMITS):
            first = FIRST_TIME + (1 + number) * ROW_COUNT
            rows = [(first + each, each) for each in range(ROW_COUNT)]
            commit(storage, PATH, rows, options=FILTERED)
    return storage.image()


def _counts(limit: int, *, in_threads: bool) -> Any:
    """Return what is counted, whether all bytes of pages are, the problems, and how many bytes are dead."""
    table = open_table(MemoryStorage.of(_filtered(limit)), PATH)
    if in_threads:
        with by_threads() as decoding:
            report = verify_table(table, decoding=decoding)
    else:
        report = verify_table(table, decoding=SYNCHRONOUS)
    counts = report.counts
    partition = the_only(table.transaction().partitions)
    metadata = open_snapshot(table).resolve(partition).metadata
    needed(metadata.header.blooms_external == (limit == SMALL_PM_BYTES), "the filters are elsewhere")
    needed(metadata.header.bloom_columns, "there are no filters")
    pages_bytes = sum(chunk.total_compressed for block in metadata.blocks for chunk in block.chunks)
    return (
        {name: getattr(counts, name) for name in ("row_groups", "chunks", "rows", "partitions")},
        counts.pages_bytes == pages_bytes,
        report.all_problems,
        sum(each.dead_bytes for each in report.partitions),
    )


def _actions(limit: int) -> list[str]:
    return [str(each.kind) for each in repair_table(MemoryStorage.of(_filtered(limit)), PATH, dry_run=True).actions]


def _unopened(file: str, reason: StorageReason, call: Callable[[Table], object]) -> Any:
    def reason_of(call: Call) -> StorageReason | None:
        return reason if call.kind is CallKind.OPEN_FOR_READING and call.path.endswith(f"/{file}") else None

    storage = RefusingStorage(MemoryStorage.of(table_of_rows(PATH, [(FIRST_TIME, 0)])), reason_of)
    return outcome_of(lambda: call(open_table(storage, PATH)))


def _read(table: Table) -> int:
    return sum(batch.num_rows for batch in open_snapshot(table).batches())


def _said_of_indexes(compared: int, wrong: int) -> tuple[int, int, list[str]]:
    """Return how many indexes a verification counts, and finds wrong, and its notes: one index is not compared."""
    problems = tuple(Problem("index", "keys", number, "sound", "wrong") for number in range(wrong))
    found = SimpleNamespace(compared=compared, notes=("not compared",), problems=problems)
    indexes = SimpleNamespace(of=lambda _: SimpleNamespace(compare=lambda *_: found))
    with replaced("tornproof.impl.verify.verify:Indexes", indexes):
        report = verify_table(open_table(table_of_rows(PATH, [(FIRST_TIME, 0)]), PATH))
    return report.counts.indexes, len(report.all_problems), [*report.notes]


def _table_of_file(content: bytes) -> Table:
    return _table_of_files([content])


def _table_of_files(contents: Sequence[bytes], **record: int) -> Table:
    return Table(storage=_image_of_files(contents, **record), path=PATH, metadata=None)


def _image_of_files(contents: Sequence[bytes], **record: int) -> DiskImage:
    """Return a table without `_meta` whose partitions are files, with metadata that a migration makes."""
    entries, files = [], {}
    for day, content in enumerate(contents):
        row_count, directory = pq.ParquetFile(io.BytesIO(content)).metadata.num_rows, f"{PATH}/1970-01-{day + 1:02d}"
        flags = PARQUET | GENERATED
        entries.append(Entry(timestamp=day * DAY, row_count=row_count, token=len(content), flags=flags))
        files[f"{directory}/{DATA_FILE}"] = content
        files[f"{directory}/{PM_FILE}"] = convert(reader_of(content), size_bytes=len(content), file=DATA_FILE)
    files[f"{PATH}/{TXN}"] = of_entries(entries, **record).content()
    return DiskImage.of_files(files)


def _problems_of_file(content: bytes) -> list[str]:
    return [str(each) for each in verify_table(_table_of_file(content), whole=False).all_problems]


def _problems_of_decimals(width: int) -> list[str]:
    rows = pa.table({"d": pa.array([bytes(width), bytes(width - 1) + b"\1"], pa.binary(width))})
    content = parquet_of(rows, bloom_filter_options={"d": {"ndv": 10, "fpp": 0.01}})
    return _problems_of_file(with_footer(content, within(SCHEMA, as_decimal)))


def _times_of_96_bits(times: pa.Array, told: int | None) -> Any:
    """Return the times of a file, as numbers of the column's unit."""
    content = parquet_of(pa.table({"t": times}), use_deprecated_int96_timestamps=True)
    if told is not None:
        content = _told(content, told)

    def read() -> list[int | None]:
        batches = open_snapshot(_table_of_file(content)).batches()
        return [number for batch in batches for number in batch.column(0).cast(pa.int64()).to_pylist()]

    return outcome_of(read)


def _told(content: bytes, *types: int) -> bytes:
    """Return a file with a document that its columns have these types."""
    return with_fields_of(content, (), document_of(*types))


def _of_stated_nulls(order: str, code: int, stated: int) -> Any:
    """Return what is wrong, whether a note names the column, and how many rows are null if nothing is wrong."""
    values = pa.array([None if each == "n" else bytes(16) for each in order], pa.binary(16))
    content = with_fields_of(parquet_of(pa.table({"u": values})), STATISTICS, Field(NULL_COUNT, Kind.I64, stated))
    table = _table_of_file(_told(content, code))
    verdict, is_null = verify_table(table, whole=False), parse_predicate("u IS NULL", open_snapshot(table).columns)
    nulls = None if verdict.all_problems else sum(map(len, open_snapshot(table).batches(where=is_null)))
    return [each.field for each in verdict.all_problems], any("'u'" in note for note in verdict.notes), nulls


def _problems_of_unsigned(bits: int, without_bound: str) -> list[str]:
    values = pa.array([5, (1 << bits) - 1, 7], pa.uint32() if bits == 32 else pa.uint64())
    left_out = within(STATISTICS, lambda members: without(members, *BOUNDS[without_bound]))
    return _problems_of_file(with_footer(parquet_of(pa.table({"n": values})), left_out))


def _by_two_times(names: tuple[str, str]) -> tuple[Any, bool]:
    """Return how many rows come of two partitions, each with its designated timestamp, and whether they are sound."""
    types = [[DESIGNATED if each == name else TIMESTAMP for each in ("a", "b")] for name in names]
    contents = []
    for day, told in enumerate(types):
        times = pa.array([day * DAY])
        schema = pa.schema([pa.field(each, pa.int64(), nullable=False) for each in ("a", "b")])
        contents.append(_told(parquet_of(pa.table([times, times], schema)), *told))
    table = _table_of_files(contents, min_timestamp=0, max_timestamp=DAY)

    def count() -> int:
        return sum(batch.num_rows for batch in open_snapshot(table).batches())

    return outcome_of(count), verify_table(table, whole=False).sound


def _problems_within(of: pa.DataType, limits: dict[str, int], damage: str) -> Any:
    values = pa.array([[5], [6], [7]] if pa.types.is_list(of) else [5, 6, 7], of)
    rows = pa.table({"a": values, "b": [1, 2, 3]})
    content = parquet_of(rows, write_page_checksum=True, use_dictionary=False, compression="none")
    if damage == OTHER_SIZES:
        content = with_fields_of(content, CHUNK_FACTS, Field(6, Kind.I64, 1))
    files = dict(_image_of_files([content]).files)
    if damage == FLIPPED_BIT:
        path = the_only(each for each in files if each.endswith(DATA_FILE))
        chunk = pq.ParquetFile(io.BytesIO(content)).metadata.row_group(0).column(1)
        last = chunk.data_page_offset + chunk.total_compressed_size - 1
        files[path] = content[:last] + bytes([content[last] ^ 1]) + content[last + 1 :]
    table = Table(storage=DiskImage.of_files(files), path=PATH, metadata=None)
    with all_replaced(limits):
        return outcome_of(lambda: len(list(verify_table(table, whole=False).all_problems)))


def _two_rows() -> bytes:
    """Return a file of another program."""
    return parquet_of(pa.table({"n": [1, 2]}))


def _problems_of_empty_lists() -> list[str]:
    return _problems_of_file(with_fields_of(_two_rows(), CHUNK_FACTS, Field(8, Kind.LIST, Items(STOP, ()))))


def _problems_of_extension() -> list[str]:
    return _problems_of_file(with_footer(_two_rows(), lambda footer: with_extension(footer, OF_SOMEBODY_ELSE)))


def _problems_of_bit(form: FooterForm, before_end: int) -> list[str]:
    content = bytearray(in_form(_two_rows(), form, ChunkForm.OLD))
    content[-before_end] ^= 1
    return _fields_of_problems(bytes(content))


def _problems_of_rows() -> list[str]:
    return _fields_of_problems(with_fields_of(_two_rows(), (), ROWS_MORE))


def _with_union(field_of: Callable[[Struct], Field], member: int, footer: Struct) -> Struct:
    return with_fields(footer, field_of(Struct((Field(member, Kind.STRUCT, Struct(())),))))


def _fields_of_problems(content: bytes) -> list[str]:
    return [each.field for each in verify_table(_table_of_file(content), whole=False).all_problems]


def _decoded_texts(content: bytes) -> Any:
    """Return what comes of a chunk with many equal texts, which is larger than what is looked at as a whole."""
    rows = pa.table({"t": pa.array([content] * 3_000, pa.binary())})
    texts = parquet_of(rows, use_dictionary=False, compression="none", write_statistics=False)
    table = _table_of_file(with_footer(texts, within(SCHEMA, as_text)))

    def read() -> str:
        batches = open_snapshot(table).batches()
        return "texts" if {text for batch in batches for text in batch.column(0).to_pylist()} else "nothing"

    return outcome_of(read)


def _expanded(text_bytes: int) -> tuple[Any, bool]:
    """Return how many rows come of texts in a dictionary, of which few bytes may be, and whether all were in memory."""
    content = parquet_of(pa.table({"t": ["x" * text_bytes] * EXPANDED_COUNT}), write_statistics=False)
    table, before = _table_of_file(content), pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    try:
        with replaced(f"{EXPANSION}:EXPANDED_MAX_BYTES", EXPANDED_BYTES_MAX):
            rows = outcome_of(lambda: sum(map(len, open_snapshot(table).batches())))
    finally:
        pa.set_memory_pool(before)
    return rows, (pool.max_memory() or 0) >= EXPANDED_COUNT * text_bytes


def _rows_within(row_count_max: int) -> Any:
    table = _table_of_file(parquet_of(pa.table({"n": pa.array([None] * 3, pa.int64())})))
    with replaced("tornproof.impl.read.row_group:VALUE_COUNT_MAX", row_count_max):
        return outcome_of(lambda: _read(table))
