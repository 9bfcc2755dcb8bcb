"""What a migration of a table takes up, and the JSON that it reads and writes."""

from __future__ import annotations

import functools
import io
import itertools
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from tornproof.harness.common.patch import replaced
from tornproof.harness.common.whose_error import needed, the_only
from tornproof.harness.explorers.corruption import every_type
from tornproof.harness.explorers.model_based.other_footers import (
    CHUNK_FACTS,
    CHUNKS,
    GROUPS,
    SCHEMA,
    STATISTICS,
    with_fields_of,
    with_footer,
    within,
)
from tornproof.harness.explorers.roundtrip.forms import (
    OF_SOMEBODY_ELSE,
    duplicated_file,
    in_form,
    parquet_of,
    reader_of,
)
from tornproof.harness.explorers.roundtrip.metadata import meta_files
from tornproof.harness.explorers.roundtrip.metadata.metadata_draft import SORTED_BY_TIMESTAMP
from tornproof.harness.explorers.roundtrip.parquet.cold_reads import migrated
from tornproof.harness.explorers.roundtrip.worked_out.parquet.column_types import LONG, PLAIN_TAGS, TIMESTAMP
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask, outcome_of
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.chunk.duplicate_values import read_chunk_values, read_column_values
from tornproof.impl.chunk.duplicates import ChunkForm
from tornproof.impl.errors import CorruptError, Problem, ProblemError, TornproofError, UnsupportedError
from tornproof.impl.extension.encode import flatbuffer_of
from tornproof.impl.extension.footer import footer_tail, read_file_footer
from tornproof.impl.extension.point import with_extension
from tornproof.impl.layout.parquet import DATA_FILE, MAGIC, FooterForm
from tornproof.impl.migrate.chunks import chunk_of
from tornproof.impl.migrate.convert import ConversionMode, convert
from tornproof.impl.migrate.json_rules import JsonError, parse_json
from tornproof.impl.migrate.partition_migration import Converted, check_unchanged, convert_partition
from tornproof.impl.migrate.partition_publish import UNFINISHED_SUFFIX
from tornproof.impl.migrate.plain_file import migrate_file
from tornproof.impl.migrate.plan import Migration, Outcome, PartitionMigration
from tornproof.impl.migrate.table_migration import TablePlan, migrate_table, plan_table, publish_output
from tornproof.impl.parquet.footer import decode_footer
from tornproof.impl.parquet.thrift import Field, Kind, Struct, struct_list, with_fields
from tornproof.impl.pm.chain import decode_chain
from tornproof.impl.pm.header import FileHeader
from tornproof.impl.storage.interface import Storage
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy, decode_metadata_file
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.table.questdb_json import QUESTDB_KEY, updated_json
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.pins import PINS_FILE

END = struct.Struct("<Q")
"""The first field of metadata: where its newest generation ends."""
END_BYTES = END.size
TYPE, DATE = struct.Struct("<i"), 7
FOOTER_END = struct.Struct("<I4x")
"""The end of a file: the length of its footer, and four letters."""
KEY_VALUES = 5
"""The field of a footer that has texts by their keys."""
PAGE_BYTES = 12
"""The start of a file's first page."""
DESIGNATED, DESCENDING = TIMESTAMP | 1 << 17, 1 << 20
CHILD_COUNT, OLDER_DECIMAL, OLDER_TEXT = 5, {6: 5, 7: 0, 8: 5}, {6: 0}
"""The field of an element with children, and those of a decimal (its annotation, scale and digits) and of a text."""
PHYSICAL_TYPE, FIXED_LENGTH = 1, 7
"""The field of an element's type, and the type of values of a fixed length."""
REPETITION, OLDER_ANNOTATION, ANNOTATION = 3, 6, 10
BLOOM_FILTER_OFFSET, BEHIND_BYTES = 14, 4096
"""The field of a chunk's facts, and a place behind any file that is made here."""
GLOBAL_KEYS, ASCII, OPTIONAL = 1, 2, 4
"""Flags of a column in metadata."""
FORMS = (FooterForm.PRIVATE, FooterForm.MIGRATION, FooterForm.FINAL)
LARGE = {
    (GROUPS, 2): "total_byte_size",
    (GROUPS, 5): "file_offset of a row group",
    (GROUPS, 6): "total_compressed_size of a row group",
    (CHUNKS, 2): "file_offset",
    (CHUNK_FACTS, 5): "num_values",
    (CHUNK_FACTS, 6): "total_uncompressed_size",
    (CHUNK_FACTS, 7): "total_compressed_size",
    (CHUNK_FACTS, 9): "data_page_offset",
}
"""Fields of 64 bits, with the structs that they are in."""
LARGE_NUMBERS = ((1 << 31) - 1, 1 << 31, 1 << 32, (1 << 40) + 7)
MIN_VALUE = 6
"""The field of Parquet's statistics."""
BEHIND_DATA = {
    "no bytes": b"",
    "a byte": b"\0",
    "a page and more": bytes(5_000),
    "another footer": bytes(4) + struct.pack("<I", 4) + MAGIC,
}
"""What writers that were killed, or that go on, leave in data.parquet behind what is committed."""
_OTHERS: tuple[Any, ...] = (None, {}, [1], [[]], "x")
"""What is no list of columns."""


def migrations_of_one() -> Iterator[Question]:
    """Yield what there is to migrate in tables of one partition and of none, of all or of one by its name."""
    image, path = every_type.image_of_every_type(), every_type.PATH
    directory = the_only({file.split("/")[1] for file in image.files if file.endswith(DATA_FILE)})
    empty = MemoryStorage()
    create_table(empty, "none", [NewColumn(name="ts", type=TIMESTAMP)], timestamp="ts", partition_by=PartitionBy.DAY)
    tables: tuple[tuple[str, Storage, str, dict[str | None, int | None]], ...] = (
        (
            "one partition",
            MemoryStorage.of(image),
            path,
            {None: 1, directory: 1, f"{directory}1": None, "2024-01-02": None},
        ),
        ("no partition", empty, "none", {None: 0, directory: None}),
    )
    for words, storage, where, expected in tables:
        for only, count in expected.items():
            name = f"what to migrate of a table with {words}, of {only or 'all'}"
            yield ask("migrations", name, count, _planned, storage, where, only)

    for is_left, dry_run in itertools.product((False, True), repeat=2):
        words = f"{'that' if is_left else 'that no'} killed run left, {'in a dry run' if dry_run else 'elsewhere'}"
        found = functools.partial(_changed_files, is_left=is_left, dry_run=dry_run)
        yield Question("migrations", f"the files of a table that a migration changes {words}", found, [])

    for there, dry_run in itertools.product((None, b"same", b"other"), (False, True)):
        outcome = {None: Outcome.MIGRATED, b"same": Outcome.ALREADY, b"other": Outcome.REPLACED}[there]
        words = f"metadata that are written where {there!r} is{', in a dry run' if dry_run else ''}"
        left = there if dry_run else b"same"
        yield ask("migrations", words, (outcome, left), _put_out, there, dry_run=dry_run)

    for outcome in Outcome:
        expected = {**dict.fromkeys(map(str, Outcome), 0), str(outcome): 2, "native": 1}
        words = f"the counts of two partitions with problems that are {outcome}"
        yield ask("migrations", words, expected, _counts, outcome)


def _counts(outcome: Outcome) -> dict[str, int]:
    damaged = PartitionMigration(name="day", outcome=outcome, token=0, problems=(Problem("_pm", "", 0, "", ""),))
    return dict(Migration(path="", partitions=(damaged, damaged), native_count=1).counts())


def _put_out(there: bytes | None, *, dry_run: bool) -> tuple[Outcome, bytes | None]:
    """Return what is said of metadata that are written elsewhere, and what is there afterwards."""
    path = f"elsewhere/{PM_FILE}"
    storage = MemoryStorage.of(DiskImage.of_files({} if there is None else {path: there}))
    outcome = publish_output(storage, path, b"same", dry_run=dry_run)
    return outcome, storage.image().files.get(path)


def _changed_files(*, is_left: bool, dry_run: bool) -> list[str]:
    """Return which files of a table without metadata are others after a migration that leaves it as it is."""
    image, path = every_type.image_of_every_type(), every_type.PATH
    file = the_only(each for each in image.files if each.endswith(PM_FILE))
    before = image.without_file(file).without_file(f"{path}/{PINS_FILE}")
    before = before.with_file(f"{file}{UNFINISHED_SUFFIX}", b"left") if is_left else before
    storage = MemoryStorage.of(before)
    done = migrate_table(storage, path, dry_run=dry_run, out=None if dry_run else "elsewhere")
    needed(the_only(done.partitions).outcome is Outcome.MIGRATED, "it is not migrated")
    after = storage.image().files
    return sorted(
        each
        for each in {*before.files, *after}
        if each.startswith(f"{path}/") and before.files.get(each) != after.get(each)
    )


def _planned(storage: Storage, path: str, only: str | None) -> int | None:
    plan = plan_table(storage, path, only=only)
    return len(plan.partitions) if isinstance(plan, TablePlan) else None


def conversions() -> Iterator[Question]:
    """Yield metadata that a partition has already, and whether a migration makes it anew."""
    image, path = every_type.image_of_every_type(), every_type.PATH
    file = the_only(each for each in image.files if each.endswith(PM_FILE))
    whole = image.files[file]
    meta_file = f"{path}/{meta_files.FILE}"
    meta = bytearray(image.files[meta_file])
    columns = decode_metadata_file(meta, file=meta_file).columns
    nth = the_only(each.id for each in columns if each.type == meta_files.LONG)
    TYPE.pack_into(meta, meta_files.HEADER.size + meta_files.COLUMN.size * nth + meta_files.TYPE_AT, DATE)
    for words, contents, expected in (
        ("sound metadata", {}, "already"),
        ("no metadata", {file: None}, "made"),
        ("no metadata but zeros", {file: bytes(len(whole))}, "made"),
        ("half of the metadata", {file: whole[: len(whole) // 2]}, "made"),
        ("metadata whose end is not published", {file: bytes(END_BYTES) + whole[END_BYTES:]}, "left to recover"),
        (
            "metadata of which a later end is published",
            {file: END.pack(len(whole) + 8) + whole[END_BYTES:]},
            "left to recover",
        ),
        ("no metadata, and another type in the table", {file: None, meta_file: bytes(meta)}, "rejected"),
    ):
        files = {**image.files, **contents}
        table = DiskImage.of_files({name: each for name, each in files.items() if each is not None})
        for (what, behind), is_late in itertools.product(BEHIND_DATA.items(), (False, True)):
            when = "come meanwhile" if is_late else "are"
            name = f"a migration of a partition with {words}, where {what} {when} behind its data"
            yield ask("conversions", name, expected, _converted, table, path, behind, is_late=is_late)


def _converted(image: DiskImage, path: str, behind: bytes, *, is_late: bool) -> str:
    """Return what is made of a partition, with bytes behind its data that no version counts, maybe once it was read."""
    file = the_only(each for each in image.files if each.endswith(DATA_FILE))
    storage = MemoryStorage.of(image if is_late else image.with_file(file, image.files[file] + behind))
    table = open_table(storage, path)
    transaction = table.transaction()
    found = convert_partition(table, the_only(transaction.partitions), ConversionMode.TOOL, keeps_sound=True)
    if is_late:
        with storage.open_for_writing(file) as data:
            data.pwrite(behind, data.size_bytes())
    if isinstance(found, Converted):
        check_unchanged(table, found, transaction.version)
        return "made"
    return "left to recover" if "tornproof recover" in found.reason else found.outcome.value


def rejections() -> Iterator[Question]:
    """Yield files that a migration rejects: as damaged, or as sound and not to be described."""
    whole = _written({"n": [3, 1], "t": ["a", "b"]})
    yield from _rejected_files(whole)
    yield from _rejected_documents(whole)
    yield from _rejected_elements(whole)
    wide = _written({"a": [1, 2], "b": [3, 4], "c": [5, 6]})
    for limit, expected in ((5, "UnsupportedError"), (6, "made"), (7, "made")):
        words = f"a migration of a file with 6 chunks where readers take {limit}"
        yield ask("rejections", words, expected, _outcome_within, wide, limit)


def _rejected_files(whole: bytes) -> Iterator[Question]:
    plain: dict[str, Any] = {"write_statistics": False, "use_dictionary": False, "compression": "none"}
    times, later_times = (_written({"ts": [1, 2]}, is_first_empty=each, **plain) for each in (False, True))

    def changed(path: tuple[int, ...], *fields: Field, of: bytes = whole) -> bytes:
        return with_fields_of(of, path, *fields)

    wide, decimal = pa.schema([("d", pa.binary(200))]), within(SCHEMA, as_decimal)
    # Without bounds, the first and the last time are read from the pages.
    designated = changed((), document_of(DESIGNATED), of=times)
    page = slice(len(MAGIC), len(MAGIC) + PAGE_BYTES)
    without_page = designated[: page.start] + bytes(PAGE_BYTES) + designated[page.stop :]
    types = (LONG, PLAIN_TAGS["VARCHAR"], LONG)

    for words, content, expected in (
        ("as it is", whole, "made"),
        ("with a bound of 65,535 bytes", changed(STATISTICS, _bound((1 << 16) - 1)), "made"),
        ("with a bound of 65,536 bytes", changed(STATISTICS, _bound(1 << 16)), "UnsupportedError"),
        ("with chunks in another file", changed(CHUNKS, Field(1, Kind.BINARY, b"other")), "UnsupportedError"),
        ("with decimals of 200 bytes", with_footer(_written({"d": [bytes(200)]}, schema=wide), decimal), "made"),
        ("with structs in structs", changed((), Field(99, Kind.STRUCT, _nested(200))), "UnsupportedError"),
        ("with a negative count of rows", changed((), Field(3, Kind.I64, -1)), "CorruptError"),
        ("with times", designated, "made"),
        ("with times behind a row group of none", changed((), document_of(DESIGNATED), of=later_times), "made"),
        ("with times in a page without a header", without_page, "CorruptError"),
        ("without its end", whole[:-1], "CorruptError"),
        ("without its beginning", whole[-40:], "CorruptError"),
        *(
            (f"of two columns with a document of {count}", changed((), document_of(*types[:count])), says)
            for count, says in enumerate(("CorruptError", "CorruptError", "made", "CorruptError"))
        ),
    ):
        yield ask("rejections", f"a migration of a file {words}", expected, _outcome, content)
    for encoding, expected in (
        ({"use_dictionary": True}, "made"),
        ({"use_dictionary": False, "column_encoding": "DELTA_BINARY_PACKED"}, "made"),
        ({"use_dictionary": False, "column_encoding": "BYTE_STREAM_SPLIT"}, "CorruptError"),
    ):
        content = changed((), document_of(DESIGNATED), of=_written({"ts": [1, 2]}, write_statistics=False, **encoding))
        words = f"a migration of a file with times without bounds, {' '.join(map(str, encoding.values()))}"
        yield ask("rejections", words, expected, _outcome, content)


def _rejected_documents(whole: bytes) -> Iterator[Question]:
    """Yield documents that are none, which a migration by a server rejects."""
    for mode, expected in ((ConversionMode.SERVER, "CorruptError"), (ConversionMode.TOOL, "made")):
        for text in (b"", b"{", b"[]", b'{"version":2}', b"null"):
            content = with_fields_of(whole, (), _document(text))
            words = f"a migration, by the {mode.name}, of a document {text!r}"
            yield ask("rejections", words, expected, _outcome, content, mode)
            words = f"whether a file alone, with a document {text!r}, is migrated by the {mode.name}"
            yield ask("rejections", words, expected == "made", _is_migrated_alone, content, mode)


def _rejected_elements(whole: bytes) -> Iterator[Question]:
    """Yield leaves, groups and numbers whose annotations, types and repetitions may be or not."""
    for words, members in {
        "a decimal without a scale": {6: 5, 8: 5},
        "a decimal without a precision": {6: 5, 7: 1},
        "a decimal of no size": {6: 5},
        **{f"the older annotation {number}": {6: number} for number in (1, 2, 3, 22, -1)},
        **{f"the type {number}": {PHYSICAL_TYPE: number} for number in (8, -1)},
        "values of a negative length": {PHYSICAL_TYPE: FIXED_LENGTH, 2: -1},
        "values of a fixed length that is not there": {PHYSICAL_TYPE: FIXED_LENGTH},
    }.items():
        content = with_footer(whole, within(SCHEMA, functools.partial(_annotated, members=members)))
        yield ask("rejections", f"a migration of a file with {words}", "CorruptError", _outcome, content)
    groups, string = _written({"group": [{"a": 1, "b": 2}]}), Struct((Field(1, Kind.STRUCT, Struct(())),))
    for words, field, expected in (
        ("as it is", Field(REPETITION, Kind.I32, 1), "made"),
        ("as a list", Field(OLDER_ANNOTATION, Kind.I32, 3), "made"),
        ("as a text, by its older annotation", Field(OLDER_ANNOTATION, Kind.I32, 0), "CorruptError"),
        ("as a text", Field(ANNOTATION, Kind.STRUCT, string), "CorruptError"),
        *((f"repeated in the way {way}", Field(REPETITION, Kind.I32, way), "CorruptError") for way in (-1, 3)),
    ):
        content = with_footer(groups, within(SCHEMA, functools.partial(_with_group, field=field)))
        yield ask("rejections", f"a migration of a file with a group {words}", expected, _outcome, content)
    numbers, number = _written({"n": [3, 1]}), Struct((Field(10, Kind.STRUCT, _integer(64)),))
    for words, fields, expected in (
        ("as numbers", (Field(ANNOTATION, Kind.STRUCT, number),), "made"),
        ("as texts", (Field(OLDER_ANNOTATION, Kind.I32, 0),), "CorruptError"),
        (
            "as texts and as numbers",
            (Field(OLDER_ANNOTATION, Kind.I32, 0), Field(ANNOTATION, Kind.STRUCT, number)),
            "CorruptError",
        ),
    ):
        content = with_footer(numbers, within(SCHEMA, functools.partial(_with_leaf, fields=fields)))
        yield ask("rejections", f"a migration of a file with 64 bits {words}", expected, _outcome, content)


def as_decimal(element: Struct) -> Struct:
    """Return an element with the older annotation of a decimal of five digits; the root stays as it is."""
    return _annotated(element, OLDER_DECIMAL)


def as_text(element: Struct) -> Struct:
    """Return an element with the older annotation of a text; the root stays as it is."""
    return _annotated(element, OLDER_TEXT)


def _annotated(element: Struct, members: Mapping[int, int]) -> Struct:
    return _with_leaf(element, [Field(each, Kind.I32, value) for each, value in members.items()])


def _with_leaf(element: Struct, fields: Sequence[Field]) -> Struct:
    return element if _has(element, CHILD_COUNT) else with_fields(element, *fields)


def _with_group(element: Struct, field: Field) -> Struct:
    """Return a group with a field; the root and leaves stay as they are."""
    is_root = any(each.value == b"schema" for each in element.fields)
    return with_fields(element, field) if _has(element, CHILD_COUNT) and not is_root else element


def _has(element: Struct, field_id: int) -> bool:
    return any(field.id == field_id for field in element.fields)


def _integer(bits: int) -> Struct:
    """Return the annotation of signed integers."""
    return Struct((Field(1, Kind.BYTE, bits), Field(2, Kind.BOOL, True)))


def _is_migrated_alone(content: bytes, mode: ConversionMode) -> bool:
    storage = MemoryStorage.of(DiskImage.of_files({DATA_FILE: content}))
    return not migrate_file(storage, DATA_FILE, mode=mode, out=".").counts()["rejected"]


def _outcome_within(content: bytes, limit: int) -> str:
    with replaced("tornproof.impl.limits:CHUNK_COUNT_LIMIT", limit):
        return _outcome(content)


def filters_behind() -> Iterator[Question]:
    """Yield files whose filter is behind their end, in a longer file or not, and whether a migration has it."""
    for words, is_longer, expected in (("in a longer file", True, True), ("in no file", False, "RejectedCorruptError")):
        found = functools.partial(_has_filter, is_longer=is_longer)
        yield Question("filters behind", f"whether there is a filter that is behind a file {words}", found, expected)

    filtered, _ = _filtered()
    modes: tuple[tuple[ConversionMode, str, bytes, tuple[int, ...]], ...] = (
        (ConversionMode.SERVER, "filters", filtered, (0,)),
        (ConversionMode.SERVER, "filters of its last column", _filtered("m", "n")[0], (1,)),
        (ConversionMode.TOOL, "filters", filtered, ()),
        (ConversionMode.TOOL, "filters behind its end", _with_filter_behind(filtered), ()),
    )
    for mode, words, content, columns in modes:
        name = f"columns with filters, as the {mode} says of a file with {words}"
        yield ask("filters behind", name, columns, _filtered_columns, content, mode)


def _filtered_columns(content: bytes, mode: ConversionMode, *, longer: bytes | None = None) -> Any:
    """Return which columns have filters by the metadata of a file, which may be the beginning of a longer one."""

    def found() -> tuple[int, ...]:
        end_bytes = None if longer is None else len(longer)
        read = reader_of(content if longer is None else longer)
        made = convert(read, size_bytes=len(content), file=DATA_FILE, mode=mode, physical_size_bytes=end_bytes)
        return next(decode_chain(made, file=PM_FILE, end_bytes=len(made))).header.bloom_columns

    return outcome_of(found)


def _filtered(*names: str) -> tuple[bytes, bytes]:
    """Return a file of numbers with a filter of the last column, by default the only one, and the filter."""
    names = names or ("n",)
    rows, options = pa.table({name: [1, 2] for name in names}), {names[-1]: {"ndv": 10, "fpp": 0.01}}
    whole = parquet_of(rows, bloom_filter_options=options)
    column = pq.ParquetFile(io.BytesIO(whole)).metadata.row_group(0).column(len(names) - 1)
    at = needed(column.bloom_filter_offset, "there is no filter")
    return whole, whole[at : at + column.bloom_filter_length]


def _with_filter_behind(content: bytes) -> bytes:
    return with_fields_of(content, CHUNK_FACTS, Field(BLOOM_FILTER_OFFSET, Kind.I64, BEHIND_BYTES))


def _has_filter(*, is_longer: bool) -> Any:
    """Return whether metadata of a file of numbers have the filter that the footer says is behind its end."""
    whole, bloom_filter = _filtered()
    content = _with_filter_behind(whole)
    longer = content.ljust(BEHIND_BYTES, b"\0") + bloom_filter
    columns = _filtered_columns(content, ConversionMode.SERVER, longer=longer if is_longer else None)
    return columns if isinstance(columns, str) else bool(columns)


def described() -> Iterator[Question]:
    """Yield documents on a column of texts, and the type and the flags that the metadata of a migration give it."""
    whole = _written({"t": ["a", "b"]})
    for of, form, is_ascii in itertools.product(("VARCHAR", "SYMBOL"), (None, 1), (None, False, True)):
        column = {"column_type": PLAIN_TAGS[of], "column_top": 0, "format": form, "ascii": is_ascii}
        told = {name: value for name, value in column.items() if value is not None}
        flags = OPTIONAL | GLOBAL_KEYS * (form == 1) | ASCII * bool(is_ascii)
        words = f"what a migration says of a column with {told}"
        yield ask("described", words, (PLAIN_TAGS[of], flags), _described, whole, [told])
    columns = [{"column_type": PLAIN_TAGS[of], "column_top": 0} for of in ("VARCHAR", "SYMBOL")]
    for several in (columns, columns[::-1]):
        words = f"what a migration says of a column with {' and then '.join(map(str, several))}"
        yield ask("described", words, (several[0]["column_type"], OPTIONAL), _described, whole, several)

    field = pa.field("t", pa.string(), metadata={"PARQUET:field_id": "3"})
    for with_field, right in ((whole, -1), (_written({"t": ["a", "b"]}, schema=pa.schema([field])), 3)):
        for told_id, expected_id in ((None, right), (-1, right), (0, 0), (7, 7), ((1 << 31) - 1, (1 << 31) - 1)):
            told = {**columns[0], **({} if told_id is None else {"id": told_id})}
            words = f"the id that a migration gives the column {right} of a file, with {told}"
            yield ask("described", words, expected_id, _id, with_field, told)

    for tracker in (None, -1, 0, 5):
        words, known = f"the squash tracker of a document with {tracker}", None if tracker == -1 else tracker
        yield ask("described", words, known, _tracker, whole, tracker)

    times = _written({"ts": [1, 2]})
    for words, bits, expected in (
        ("none", 0, (-1, 0, ())),
        ("ascending times", DESIGNATED, (0, SORTED_BY_TIMESTAMP, ())),
        ("descending times", DESIGNATED | DESCENDING, (0, 0, (0,))),
    ):
        told = {"column_type": TIMESTAMP | bits, "column_top": 0}
        yield ask("described", f"the order that a migration says of a file with {words}", expected, _order, times, told)

    sorted_times = _written(
        {"ts": [1, 2]},
        schema=pa.schema([pa.field("ts", pa.int64(), nullable=False)]),
        sorting_columns=[pq.SortingColumn(0)],
    )
    for bits in (0, DESIGNATED):
        told = {"column_type": TIMESTAMP | bits, "column_top": 0}
        words = f"the order that a migration says of a file that is sorted, with {told}"
        yield ask("described", words, (0, SORTED_BY_TIMESTAMP, ()), _order, sorted_times, told)


def _tracker(content: bytes, tracker: int | None) -> int | None:
    """Return what metadata say of how often a partition was squashed, as the document in a footer does."""
    column = {"column_type": PLAIN_TAGS["VARCHAR"], "column_top": 0}
    document = {"version": 1, "schema": [column], **({} if tracker is None else {"squash_tracker": tracker})}
    field = _document(json.dumps(document).encode())
    return migrated(with_fields_of(content, (), field)).header.squash_tracker


def _order(content: bytes, told: dict[str, Any]) -> tuple[int, int, tuple[int, ...]]:
    """Return the designated timestamp, whether rows ascend by it, and by which columns they are sorted if not."""
    header = _header(content, [told])
    return header.designated_timestamp, header.feature_flags, header.sorting_columns


def _header(content: bytes, told: list[dict[str, Any]]) -> FileHeader:
    """Return the header of the metadata that a migration makes of a file whose footer has so many documents."""
    texts = [json.dumps({"version": 1, "schema": [each]}).encode() for each in told]
    return migrated(with_fields_of(content, (), _document(*texts))).header


def _described(content: bytes, told: list[dict[str, Any]]) -> tuple[int, int]:
    """Return what the metadata say of the only column, on which a footer has so many documents."""
    column = the_only(_header(content, told).columns)
    return column.type, column.flags


def _id(content: bytes, told: dict[str, Any]) -> int:
    """Return the id that metadata give the only column."""
    return the_only(_header(content, [told]).columns).id


def chunk_starts() -> Iterator[Question]:
    """Yield where a chunk begins by its dictionary, of which many writers say that it is at 0 if there is none."""
    for dictionary_at, as_questdb in itertools.product((None, 0, 4, 90), (False, True)):
        words = f"where a chunk begins whose dictionary is at {dictionary_at} and its data at 50"
        by = "the converter" if as_questdb else "a careful reader"
        expected = 50 if dictionary_at is None or (dictionary_at == 0 and not as_questdb) else dictionary_at
        yield ask("other forms", f"{words}, by {by}", expected, _start_of, dictionary_at, as_questdb=as_questdb)


def _start_of(dictionary_at: int | None, *, as_questdb: bool) -> int:
    numbers = {"codec": 0, "num_values": 1, "total_compressed_size": 60, "data_page_offset": 50}
    meta = SimpleNamespace(**numbers, dictionary_page_offset=dictionary_at, encodings=[0], statistics=None)
    return chunk_of(cast(Any, meta), as_questdb=as_questdb).byte_range_start


def other_forms() -> Iterator[Question]:
    """Yield files of numbers, whether their footer gets another form, and their values, if they are in the file."""
    whole = _written({"n": [3, 1]})
    encrypted = Field(8, Kind.STRUCT, Struct((Field(1, Kind.STRUCT, Struct(())),)))
    for words, path, field, expected in (
        ("with one more field", (), Field(99, Kind.I32, 1), ("made", [3, 1])),
        ("with columns that are encrypted", (), encrypted, ("UnsupportedError", [3, 1])),
        ("with chunks in another file", CHUNKS, Field(1, Kind.BINARY, b"other"), ("made", "UnsupportedError")),
        ("with chunks in a file without a name", CHUNKS, Field(1, Kind.BINARY, b""), ("made", [3, 1])),
    ):
        content = with_fields_of(whole, path, field)
        yield ask("other forms", f"a file {words}", expected, _other_form, content)
    for ((place, field_id), what), form, number in itertools.product(LARGE.items(), FORMS, LARGE_NUMBERS):
        content = with_fields_of(whole, place, Field(field_id, Kind.I64, number))
        words = f"whether a file whose {what} is {number} is what it was after a {form} footer"
        yield ask("other forms", words, True, _is_restored, content, form)
    theirs = with_footer(whole, lambda footer: with_extension(footer, OF_SOMEBODY_ELSE))
    for form in FORMS:
        words = f"a {form} footer for a file whose footer somebody else has extended"
        yield ask("other forms", words, "UnsupportedError", _changed_form, theirs, form, ChunkForm.OLD)
    for form, file in itertools.product(FORMS, (DATA_FILE, "2024-01-01.0/data.parquet")):
        words = f"which file the error of a {form} footer for encrypted columns of {file} names"
        content = with_fields_of(whole, (), encrypted)
        yield ask("other forms", words, file, _file_in_error, content, form, file)
    twice = duplicated_file(3, 3)
    former = twice.index(b"parquet-cpp", len(duplicated_file(3, 3)) // 4)
    spoilt = twice[:former] + b"P" + twice[former + 1 :]
    found = functools.partial(_changed_form, spoilt, FooterForm.THRIFT, ChunkForm.OLD)
    yield Question("other forms", "the way back of a file whose former footer is another one", found, "CorruptError")
    empty = io.BytesIO()
    pq.ParquetWriter(empty, pa.schema([("n", pa.int64())])).close()
    for chunks in ChunkForm:
        found = functools.partial(_changed_form, empty.getvalue(), FooterForm.PRIVATE, chunks)
        outcome = "made" if chunks is ChunkForm.OLD else "UsageError"
        yield Question("other forms", f"{chunks} chunks for a file without row groups", found, outcome)
    for number, column in itertools.product(range(-2, 4), range(-2, 3)):
        right = [[3], [1]][number] if number in (0, 1) and column == 0 else "IndexError"
        found = functools.partial(_chunk_values, whole, number, column)
        yield Question("other forms", f"values of column {column} of row group {number} of two", found, right)


def _is_restored(content: bytes, form: FooterForm) -> Any:
    changed = functools.partial(in_form, chunks=ChunkForm.OLD)
    return outcome_of(lambda: changed(changed(content, form), FooterForm.THRIFT) == content)


def _changed_form(content: bytes, footer: FooterForm, chunks: ChunkForm) -> Any:
    return outcome_of(lambda: in_form(content, footer, chunks) and "made")


def _file_in_error(content: bytes, form: FooterForm, file: str) -> str:
    try:
        footer_tail(_thrift_of(content), form, file=file)
    except ProblemError as error:
        return error.problem.file
    return "made"


def _thrift_of(content: bytes) -> bytes:
    """Return the Thrift footer of a file."""
    end = len(content) - FOOTER_END.size
    return content[end - FOOTER_END.unpack(content[end:])[0] : end]


def _chunk_values(content: bytes, row_group: int, column: int) -> Any:
    read = reader_of(content)
    footer = read_file_footer(read, len(content), file=DATA_FILE).decoded()
    try:
        return read_chunk_values(read, footer, row_group, column, file=DATA_FILE).values.to_pylist()
    except IndexError as error:
        return type(error).__name__


def _other_form(content: bytes) -> tuple[Any, Any]:
    thrift = _thrift_of(content)
    footer, read = decode_footer(thrift, file=DATA_FILE, offset_bytes=0), reader_of(content)
    return (
        outcome_of(lambda: flatbuffer_of(thrift, file=DATA_FILE) and "made"),
        outcome_of(lambda: read_column_values(read, footer, "n", file=DATA_FILE).values.to_pylist()),
    )


def decoded_times() -> Iterator[Question]:
    """Yield files without bounds, and the first and the last time of each of their row groups."""
    for count, group_rows, encoding in itertools.product((1, 2, 5, 9), (1, 2, 5), ("PLAIN", "DELTA_BINARY_PACKED")):
        times = [1000 * number for number in range(count)]
        plain: dict[str, Any] = {"write_statistics": False, "use_dictionary": False, "column_encoding": encoding}
        whole = _written({"ts": times}, group_rows=group_rows, **plain)
        content = with_fields_of(whole, (), document_of(DESIGNATED))
        groups = [times[at : at + group_rows] for at in range(0, count, group_rows)]
        expected = [(group[0], group[-1]) for group in groups]
        words = f"the times, {encoding}, in row groups of {group_rows} of {count} rows without bounds"
        yield ask("decoded times", words, expected, _times_of, content)


def _times_of(content: bytes) -> list[tuple[int, ...]]:
    """Return the bounds that metadata state of the only column."""
    chunks = [chunk for block in migrated(content).blocks for chunk in block.chunks]
    bounds = [[needed(each, "there is no bound") for each in (chunk.minimum, chunk.maximum)] for chunk in chunks]
    return [tuple(int.from_bytes(each.value, "little") for each in pair) for pair in bounds]


def _written(
    columns: dict[str, list[Any]],
    *,
    group_rows: int = 1,
    is_first_empty: bool = False,
    schema: pa.Schema | None = None,
    **settings: Any,
) -> bytes:
    """Return a file with a row group for each row, or so many, and maybe one without rows before them."""
    target, table = io.BytesIO(), pa.table(columns, schema)
    with pq.ParquetWriter(target, table.schema, store_schema=False, **settings) as writer:
        if is_first_empty:
            writer.write_table(table.slice(0, 0))
        writer.write_table(table, row_group_size=group_rows)
    return target.getvalue()


def document_of(*types: int) -> Field:
    """Return the field of a footer that has a document of columns of these types."""
    schema = [{"column_type": of, "column_top": 0, "id": number} for number, of in enumerate(types)]
    return _document(json.dumps({"version": 1, "schema": schema}).encode())


def _document(*texts: bytes) -> Field:
    key = Field(1, Kind.BINARY, QUESTDB_KEY.encode())
    return struct_list(KEY_VALUES, [Struct((key, Field(2, Kind.BINARY, text))) for text in texts])


def _bound(size_bytes: int) -> Field:
    return Field(MIN_VALUE, Kind.BINARY, b"a" * size_bytes)


def _nested(depth: int) -> Struct:
    return Struct((Field(1, Kind.STRUCT, _nested(depth - 1)),)) if depth else Struct(())


def _outcome(content: bytes, mode: ConversionMode = ConversionMode.SERVER) -> str:
    try:
        convert(reader_of(content), size_bytes=len(content), file=DATA_FILE, mode=mode)
    except UnsupportedError:
        return "UnsupportedError"
    except CorruptError:
        return "CorruptError"
    return "made"


def documents() -> Iterator[Question]:
    """Yield documents on columns in the `questdb` key of a footer, and what an update makes of each."""
    column = {"column_type": 8, "column_top": 0, "id": 0}
    sound: dict[str, Any] = {"version": 1, "schema": [column]}
    half = 1 << 31

    def of_column(**members: Any) -> dict[str, Any]:
        return {**sound, "schema": [column | members]}

    kept = (
        *(of_column(format=form) for form in (1, None)),
        *(of_column(ascii=value) for value in (True, False, None)),
        *(of_column(column_type=number) for number in (1, 0x7FFFFFFF)),
        *(of_column(id=number) for number in (None, -half, -1, half - 1)),
        of_column(more={"x": [1, 2]}),
    )
    for document in (sound, *kept):
        yield _updated_document(json.dumps(document), {**document, "unused_bytes": 7})
    yield _updated_document(json.dumps(of_column(column_top=5)), {**sound, "unused_bytes": 7})
    yield _updated_document(json.dumps({**sound, "unused_bytes": 3, "x": 1}), {**sound, "unused_bytes": 7, "x": 1})
    wrong = (
        *({**sound, "version": version} for version in (None, True, "1", 1.0, 0, 2, -1)),
        *({**sound, "schema": schema} for schema in _OTHERS),
        *(of_column(column_type=number) for number in (None, 0, -1, True, "8", 8.0, 0x80000000)),
        *(of_column(column_top=count) for count in (None, -1, True, "0", 1.5)),
        *(of_column(format=form) for form in (0, 2, -1, True, "1", 1.0)),
        *(of_column(ascii=value) for value in (0, 1, "true")),
        *(of_column(id=number) for number in (True, "1", 1.0, half, -half - 1)),
        *({**sound, "unused_bytes": count} for count in (None, -1, False, "3", 2.5)),
        *({name: value for name, value in sound.items() if name != left_out} for left_out in sound),
    )
    texts = ("", "null", "[]", "{", '{"version":1,"schema":[],}', '{"version":1,"version":1,"schema":[]}')
    numbers = (f'{{"version":1,"schema":[],"x":{value}}}' for value in ("NaN", "1e999", '"\\ud800"'))
    deep = "[" * 100_000, '{"x":' * 100_000, f'{{"version":1,"schema":[],"x":{"[" * 100_000}{"]" * 100_000}}}'
    for text in (*map(json.dumps, wrong), *texts, *numbers, *deep):
        yield _updated_document(text, None)


def migrated_documents() -> Iterator[Question]:
    """Yield descriptions of columns, and what a migration reads in them; what no converter takes is rejected."""
    whole, half = 1 << 64, 1 << 63
    members: tuple[tuple[dict[str, Any], tuple[list[Any], int | None] | None], ...] = (
        ({}, ([], None)),
        ({"version": 2}, None),
        ({"version": True}, None),
        ({"version": "1"}, None),
        ({"version": None}, None),
        ({"schema": None}, None),
        ({"schema": {}}, None),
        ({"schema": [5]}, None),
        *(({"unused_bytes": count}, ([], None)) for count in (0, whole - 1)),
        *(({"unused_bytes": count}, None) for count in (-1, whole, 0.5, None, "1")),
        *(({"squash_tracker": count}, ([], count)) for count in (-half, -2, 0, half - 1)),
        ({"squash_tracker": -1}, ([], None)),
        *(({"squash_tracker": count}, None) for count in (-half - 1, half, None)),
        ({"other": {"version": 2}, "größe": 1}, ([], None)),
    )
    for changes, expected in members:
        yield _migrated(json.dumps({"version": 1, "schema": [], **changes}), expected)
    tags = {*range(1, 20), *range(24, 34), 40}
    for tag in range(42):
        yield _migrated_column(
            {"column_type": tag}, (tag, False, False, tag == TIMESTAMP, False, False) if tag in tags else None
        )
    for bits, of in ((1 << 17, (True, False)), (1 << 20, (False, True)), (1 << 17 | 1 << 20, (True, True))):
        for tag in (TIMESTAMP, LONG):
            is_timestamp = tag == TIMESTAMP
            seen = (is_timestamp, of[0] and is_timestamp, of[1])
            yield _migrated_column({"column_type": tag | bits}, (tag | bits, False, False, *seen))
    sound = {"column_type": LONG}
    right: tuple[tuple[str, tuple[Any, ...], tuple[bool, bool]], ...] = (
        ("column_top", (0, 5, whole - 1), (False, False)),
        ("format", (None,), (False, False)),
        ("format", (1,), (True, False)),
        ("ascii", (None, False), (False, False)),
        ("ascii", (True,), (False, True)),
        ("id", (None, 0, -1, -(1 << 31), (1 << 31) - 1), (False, False)),
        ("more", (7, {}), (False, False)),
    )
    for name, values, flags in right:
        for value in values:
            yield _migrated_column({**sound, name: value}, (LONG, *flags, False, False, False))
    wrong: dict[str, tuple[Any, ...]] = {
        "column_top": (-1, whole, None),
        "format": (0, 2, True, "1"),
        "ascii": (0, 1, "true"),
        "column_type": (None, True, -1, 1 << 31),
        "id": (True, "1", 1.0, 1 << 31, -(1 << 31) - 1),
    }
    for name, values in wrong.items():
        for value in values:
            yield _migrated_column({**sound, name: value}, None)
    for text in (
        '{"version":1,"schema":[],"version":1}',
        '{"version":1,"schema":[],"\\ud800":1}',
        '{"version":1,"schema":[],"unused_bytes":-0}',
        '{"version":1,"schema":[],"unused_bytes":000}',
        '{"version":1,"schema":[],"unused_bytes":' + "1" * 21 + "}",
        '{"version":1,"schema":[],"x":NaN}',
        '{"version":1,"schema":[]',
        "[]",
        "",
        "[" * 100_000,
    ):
        yield _migrated(text, None)
    yield _migrated('{"version":1,"schema":[],"x":1.5,"x":-0}', ([], None))


def _migrated_column(column: dict[str, Any], expected: tuple[Any, ...] | None) -> Question:
    return _migrated(json.dumps({"version": 1, "schema": [column]}), None if expected is None else ([expected], None))


def _migrated(text: str, expected: tuple[list[Any], int | None] | None) -> Question:
    right = "rejected" if expected is None else expected
    return Question(
        "migrated documents",
        f"what a migration reads in {text[:200]!r}",
        functools.partial(_read_document, text),
        right,
    )


def _read_document(text: str) -> Any:
    try:
        found = parse_json(text)
    except JsonError:
        return "rejected"
    return [
        (each.type, each.is_local_key_global, each.is_ascii, each.is_timestamp, each.is_designated, each.is_descending)
        for each in found.columns
    ], found.squash_tracker


def _updated_document(text: str, expected: dict[str, Any] | None) -> Question:
    right = "rejected" if expected is None else json.dumps(expected, separators=(",", ":"))
    return Question("documents", f"what an update makes of {text[:200]!r}", functools.partial(_updated, text), right)


def _updated(text: str) -> str:
    try:
        return updated_json(text, unused_bytes=7)
    except TornproofError:
        return "rejected"
