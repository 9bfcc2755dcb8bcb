"""Tables that nobody means well with, each made by one function in an empty folder.

Sizes and counts are at the edges of their types, checksums are right where only a right one gets a reader further.
"""

import functools
import os
import random
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pm_builder as pm
import pyarrow as pa
import table_builder as tb

from tornproof.impl.layout import meta as meta_layout
from tornproof.impl.layout import pm as pm_layout
from tornproof.impl.layout import txn as txn_layout
from tornproof.impl.layout.record import Record
from tornproof.impl.pm.chain import walk
from tornproof.impl.types.questdb import TypeTag

Make = Callable[[Path], None]
FILES = {"_txn": "_txn", "_meta": "_meta", "_pm": tb.PM, "data.parquet": tb.DATA}
ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\r\n[red]x[/red]\u202e\0"
I32_MAX, I64_MAX, U32_MAX, U64_MAX = 2**31 - 1, 2**63 - 1, 2**32 - 1, 2**64 - 1
GARBAGE = random.Random(7).randbytes(5000)
RECORD_OFFSET = txn_layout.BaseHeader.layout.size_bytes
ENTRY_OFFSET = RECORD_OFFSET + txn_layout.TransactionRecord.layout.size_bytes + 4


@functools.cache
def sound() -> tb.BuiltTable:
    """The table that the others differ from in one place."""
    return tb.build({"v": (TypeTag.LONG, pa.array([1, 2, None])), "s": (TypeTag.VARCHAR, pa.array(["a", "bb", "c"]))})


def with_file(name: str, content: bytes) -> Make:
    """The sound table with one file of other content."""

    def make(folder: Path) -> None:
        sound().with_file(FILES[name], content).write_to(folder)

    return make


def instead_of(name: str, put: Callable[[Path], None]) -> Make:
    """The sound table with something else where a file should be."""

    def make(folder: Path) -> None:
        sound().write_to(folder)
        (folder / FILES[name]).unlink()
        put(folder / FILES[name])

    return make


def sparse(name: str, content: bytes, size_bytes: int) -> Make:
    """The sound table with one file of other content and of a size that it only claims to have."""

    def make(folder: Path) -> None:
        with_file(name, content)(folder)
        os.truncate(folder / FILES[name], size_bytes)

    return make


def txn_with(record: type[Record], offset_bytes: int, **values: int) -> bytes:
    """The sound `_txn` with some fields of one record changed."""
    content = sound().files["_txn"]
    for field, value in values.items():
        content = pm.set_field(content, record, offset_bytes, field, value)
    return content


def meta_with(record: type[Record], offset_bytes: int, field: str, value: int) -> bytes:
    """The sound `_meta` with one field changed."""
    return pm.set_field(sound().files["_meta"], record, offset_bytes, field, value)


def metadata() -> bytes:
    """The sound `_pm`."""
    return sound().files[tb.PM]


def kinds(name: str) -> dict[str, Make]:
    """What may stand in a file's place, and beginnings of the file."""
    content = sound().files[FILES[name]]
    cases = {
        "a directory": instead_of(name, Path.mkdir),
        "a FIFO": instead_of(name, os.mkfifo),
        "a link to itself": instead_of(name, lambda path: path.symlink_to(path.name)),
        "empty": with_file(name, b""),
        "garbage": with_file(name, GARBAGE),
        "zeros": with_file(name, bytes(5000)),
        "ones": with_file(name, b"\xff" * 5000),
        "its text": with_file(name, b"Once upon a time there was a table.\n" * 100),
    }
    for size_bytes in sorted({1, 7, 8, 31, 64, 100, len(content) // 2, len(content) - 1} - {0}):
        cases[f"{size_bytes} bytes"] = with_file(name, content[:size_bytes])
    if name != "_meta":
        cases["missing"] = instead_of(name, lambda path: None)
    return {f"{name}: {what}": make for what, make in cases.items()}


def txn_cases() -> dict[str, Make]:
    """Numbers of `_txn` at the edges."""
    base = txn_layout.BaseHeader
    cases: dict[str, Make] = {}
    for field in ("a_record_offset", "a_symbols_size", "a_partitions_size"):
        for value in (-(2**31), -8, 0, 8, 65, I32_MAX, I32_MAX // 32 * 32, 2**27 * 8, 2**27):
            content = txn_with(base, 0, **{field: value})
            cases[f"_txn: {field} = {value}"] = with_file("_txn", content)
    for field in ("version",):
        for value in (-1, -(2**63), I64_MAX - 1, I64_MAX):
            cases[f"_txn: {field} = {value}"] = with_file("_txn", txn_with(base, 0, version=value))
    record = txn_layout.TransactionRecord
    for field in ("transient_row_count", "fixed_row_count", "symbol_column_count", "txn"):
        for value in (-1, 1, I32_MAX, 2**62, I64_MAX):
            content = txn_with(record, RECORD_OFFSET, **{field: value})
            cases[f"_txn: {field} = {value}"] = with_file("_txn", content)
    entry = txn_layout.PartitionEntry
    for field in ("timestamp", "name_txn", "token", "row_count_and_flags"):
        for value in (-(2**63), -2, -1, 0, 1, 7, 8, 2**31, 2**62, I64_MAX):
            content = txn_with(entry, ENTRY_OFFSET, **{field: value})
            cases[f"_txn: {field} = {value}"] = with_file("_txn", content)
    claim = txn_with(base, 0, a_partitions_size=I32_MAX // 32 * 32)
    claim = pm.set_field(claim, txn_layout.PartitionTableSize, ENTRY_OFFSET - 4, "partitions_size", I32_MAX // 32 * 32)
    cases["_txn: 2^26 partitions in a file that is large enough"] = sparse("_txn", claim, 2**31 + 4096)
    cases["_txn: an area behind 2 GiB"] = sparse("_txn", txn_with(base, 0, a_record_offset=2**31 - 512), 2**31 + 4096)
    return cases


def many_partitions(count: int) -> Make:
    """A `_txn` of as many native partitions, one a day, none of which is there."""
    day = 86_400_000_000

    def make(folder: Path) -> None:
        entries = [
            txn_layout.PartitionEntry(timestamp=index * day, row_count_and_flags=0, name_txn=-1, token=-1).pack()
            for index in range(count)
        ]
        with_file("_txn", tb.txn(rows=0, token=0, entries=entries))(folder)

    return make


def meta_cases() -> dict[str, Make]:
    """Numbers of `_meta` at the edges, and names in it."""
    names_offset = meta_layout.MetaHeader.layout.size_bytes + 3 * meta_layout.MetaColumn.layout.size_bytes
    cases: dict[str, Make] = {}
    for field in ("column_count", "partition_by", "timestamp_index"):
        for value in (-(2**31), -2, 2, 6, 1000, 2**27, I32_MAX):
            content = meta_with(meta_layout.MetaHeader, 0, field, value)
            cases[f"_meta: {field} = {value}"] = with_file("_meta", content)
    for value in (-1, 0, 1000, 2**30, I32_MAX):
        content = meta_with(meta_layout.NameLength, names_offset, "code_unit_count", value)
        cases[f"_meta: a name of {value} units"] = with_file("_meta", content)
    first_column = meta_layout.MetaHeader.layout.size_bytes
    for value in (-1, 0, 255, I32_MAX, TypeTag.LONG256):
        content = meta_with(meta_layout.MetaColumn, first_column + 32, "type", value)
        cases[f"_meta: type = {value}"] = with_file("_meta", content)
    cases["_meta: 17 MiB"] = sparse("_meta", sound().files["_meta"], 17 << 20)
    many = meta_layout.MetaHeader.layout.size_bytes + 100_000 * 36
    count = meta_with(meta_layout.MetaHeader, 0, "column_count", 100_000)
    cases["_meta: 100,000 columns of zeros"] = sparse("_meta", count, many)
    surrogate = sound().files["_meta"].replace("v".encode("utf-16-le"), b"\x00\xd8")
    cases["_meta: half a character in a name"] = with_file("_meta", surrogate)
    types = {"ts": TypeTag.TIMESTAMP, ESCAPES: TypeTag.LONG, "s": TypeTag.VARCHAR}
    cases["_meta: a name that steers terminals"] = with_file("_meta", tb.meta(types))
    twice = sound().files["_meta"].replace(b"\x01\0\0\0s\0", b"\x01\0\0\0v\0")
    cases["_meta: two columns of one name"] = with_file("_meta", twice)
    return cases


def pm_cases() -> dict[str, Make]:
    """Numbers of `_pm` at the edges, with right checksums where a reader gets to see the numbers at all."""
    position = pm.newest(metadata())
    descriptor = pm.descriptor_offset(1)
    block = position.fixed.prev_parquet_meta_file_size + pm.read(metadata(), position.token).blocks[0].offset_bytes
    entry = position.offset_bytes + pm_layout.Footer.layout.size_bytes
    edges32, edges64 = (0, 1, 2**27, 2**31, U32_MAX), (0, 1, 2**31, 2**32 + 3, 2**62, 2**63, U64_MAX)
    targets: list[tuple[type[Record], int, Mapping[str, tuple[int, ...]]]] = [
        (
            pm_layout.Header,
            0,
            {
                "parquet_meta_file_size": (*edges64, len(metadata()) - 1, len(metadata()) + 1),
                "feature_flags": (2, U32_MAX, 2**62, 2**63, U64_MAX),
                "designated_timestamp": (2, 1000, 2**31, U32_MAX),
                "sorting_column_count": edges32,
                "column_count": edges32,
                "reserved": (1, U32_MAX),
            },
        ),
        (
            pm_layout.ColumnDescriptor,
            descriptor,
            {
                "name_offset": edges64,
                "name_length": edges32,
                "id": (2, 1000, 2**31, U32_MAX),
                "type": (0, 255, I32_MAX, U32_MAX),
                "fixed_byte_len": (1, I32_MAX, U32_MAX),
                "physical_type": (0, 7, 8, 255),
                "max_rep_level": (1, 255),
                "max_def_level": (0, 2, 255),
            },
        ),
        (pm_layout.RowGroupHeader, block, {"num_rows": (0, 1, 2**24, 2**62, U64_MAX)}),
        (
            pm_layout.ColumnChunk,
            pm.chunk_offset(metadata(), 1),
            {
                "codec": (2, 3, 99, 255),
                "num_values": (0, 1, 2**24, 2**62, U64_MAX),
                "byte_range_start": edges64,
                "total_compressed": edges64,
                "null_count": edges64,
                "stat_sizes": (0, 0x88, 0xFF),
                "stat_flags": (0, 0x3F, 0xFF),
                "min_stat": edges64,
                "max_stat": edges64,
            },
        ),
        (
            pm_layout.Footer,
            position.offset_bytes,
            {
                "parquet_footer_offset": edges64,
                "parquet_footer_length": edges32,
                "row_group_count": edges32,
                "unused_bytes": edges64,
                "prev_parquet_meta_file_size": (
                    *edges64,
                    len(metadata()),
                    position.offset_bytes,
                    position.offset_bytes + 8,
                    76,
                ),
                "footer_feature_flags": (1, 2**31, 2**62, U64_MAX),
            },
        ),
        (pm_layout.RowGroupEntry, entry, {"block_offset": (0, 1, 4, 2**31, U32_MAX, entry >> 3)}),
        (pm_layout.Trailer, position.checksum_offset, {"footer_length": (0, 43, 44, 2**27, 2**31, U32_MAX)}),
    ]
    return {
        f"_pm: {field} = {value}": with_file("_pm", _sealed(record, offset, field, value))
        for record, offset, fields in targets
        for field, values in fields.items()
        for value in values
    }


def _sealed(record: type[Record], offset_bytes: int, field: str, value: int) -> bytes:
    changed = pm.set_field(metadata(), record, offset_bytes, field, value)
    try:
        (_newest, *_) = walk(changed, file=pm.FILE)
        return pm.seal(changed)
    except Exception:
        # The chain leads to no footer any more, so there is no checksum to repair either.
        return changed


def of_rows(count: int, columns: int, *, in_pm: int = 1) -> Make:
    """A table that says it has `count` rows in few bytes: its chunks are all null, further columns not in `_pm`."""

    def make(folder: Path) -> None:
        table = tb.build({f"c{index}": (TypeTag.LONG, pa.nulls(3, pa.int64())) for index in range(in_pm)})
        data = table.files[tb.PM]
        block = pm.read(data, len(table.files[tb.DATA])).blocks[0].offset_bytes
        data = pm.set_field(data, pm_layout.RowGroupHeader, block, "num_rows", count)
        for column in range(1 + in_pm):
            offset = pm.chunk_offset(data, column)
            for field in ("num_values", "null_count"):
                data = pm.set_field(data, pm_layout.ColumnChunk, offset, field, count)
        # A required column cannot be all null.
        data = pm.set_field(data, pm_layout.ColumnDescriptor, pm.descriptor_offset(0), "max_def_level", 1)
        missing = {f"c{index}": TypeTag.LONG256 for index in range(in_pm, columns)}
        types = {"ts": TypeTag.TIMESTAMP, **{f"c{index}": TypeTag.LONG for index in range(in_pm)}, **missing}
        table = table.with_file(tb.PM, pm.seal(data)).with_file("_meta", tb.meta(types))
        table.with_file("_txn", tb.txn(rows=count, token=len(table.files[tb.DATA]))).write_to(folder)

    return make


def bomb(values: Callable[[], list[Any]], type_: int, **options: Any) -> Make:
    """A sound table whose pages unpack to far more than they are; its values are made when it is."""

    def make(folder: Path) -> None:
        tb.build({"v": (type_, pa.array(values()))}, **options).write_to(folder)

    return make


def overlapping_blocks(folder: Path) -> None:
    """Two row groups that share a block."""
    table = tb.build({"v": (TypeTag.LONG, pa.array([1, 2, 3, 4]))}, row_group_size=2)
    data = table.files[tb.PM]
    entry = pm.newest(data).offset_bytes + pm_layout.Footer.layout.size_bytes
    first = pm_layout.RowGroupEntry.unpack(data, entry, file=pm.FILE).block_offset
    changed = pm.seal(pm.set_field(data, pm_layout.RowGroupEntry, entry + 4, "block_offset", first))
    table.with_file(tb.PM, changed).write_to(folder)


def hostile_names(folder: Path) -> None:
    """A sound table without `_meta` whose column's name steers terminals."""
    columns = {ESCAPES.replace("\0", ""): (int(TypeTag.LONG), pa.array([1, 2, 3]))}
    tb.build(columns, has_meta=False).write_to(folder)


def special_cases() -> dict[str, Make]:
    """Tables that differ in more than one number."""
    published = struct.pack("<Q", 127 << 20)
    return {
        "20,000 partitions": many_partitions(20_000),
        "260,000 partitions": many_partitions(260_000),
        "2^62 rows": of_rows(2**62, 1),
        "2^24 + 1 rows": of_rows(2**24 + 1, 1),
        "2^24 rows": of_rows(2**24, 1),
        "2^24 rows of 8 columns": of_rows(2**24, 8),
        "2^24 rows of 8 columns in _pm": of_rows(2**24, 8, in_pm=8),
        "two row groups in one block": overlapping_blocks,
        "a bomb of zeros": bomb(lambda: [0] * (1 << 20), TypeTag.LONG, compression="zstd", use_dictionary=False),
        "a bomb of repeated text": bomb(
            lambda: ["x" * (1 << 20)] * 40, TypeTag.VARCHAR, compression="zstd", use_dictionary=False
        ),
        "a bomb of a dictionary": bomb(lambda: ["x" * (1 << 17)] * 4000, TypeTag.VARCHAR, compression="zstd"),
        "a name that steers terminals": hostile_names,
        "_pm of 127 MiB of zeros": sparse("_pm", published, 127 << 20),
        "_pm of 200 MiB of zeros": sparse("_pm", struct.pack("<Q", 200 << 20), 200 << 20),
        "data.parquet of 150 MiB": sparse("data.parquet", sound().files[tb.DATA], 150 << 20),
        "data.parquet of 1 TiB": sparse("data.parquet", sound().files[tb.DATA], 1 << 40),
    }


def all_cases() -> dict[str, Make]:
    """Every hostile table by its name."""
    cases: dict[str, Make] = {}
    for name in FILES:
        cases |= kinds(name)
    return {**cases, **txn_cases(), **meta_cases(), **pm_cases(), **special_cases()}
