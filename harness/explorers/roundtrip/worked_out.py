"""What the format spells out, worked out a second time by docs/format.md: directories, types, hashes, reloads and more.

Writer and reader have these functions in common, so that a mistake in one is in both, and only a server sees it.
"""

from __future__ import annotations

import functools
import io
import itertools
import json
import math
import pickle
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash
from msgspec import structs

from tornproof.harness.common.patch import replaced
from tornproof.harness.common.whose_error import errors_as_problems
from tornproof.harness.explorers.corruption import every_type
from tornproof.harness.explorers.model_based.other_footers import CHUNK_FACTS, with_footer, within
from tornproof.harness.explorers.roundtrip.forms import reader_of
from tornproof.harness.explorers.roundtrip.metadata.metadata_rules import bounds_of_types, proven
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.errors import (
    BusyError,
    CorruptError,
    FileMissingError,
    FileVanishedError,
    NotATableError,
    RowsRejectedError,
    StorageError,
    TornproofError,
    UnsupportedError,
)
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.layout.txn import TransactionRecord
from tornproof.impl.migrate.convert import convert
from tornproof.impl.migrate.json_rules import JsonError, parse_json
from tornproof.impl.migrate.rejections import RejectedCorruptError
from tornproof.impl.migrate.table_migration import TablePlan, plan_table
from tornproof.impl.parquet import bloom
from tornproof.impl.parquet.fields import Codec, ConvertedType, PageEncoding, PageType, Repetition
from tornproof.impl.parquet.thrift import Field, Kind, Struct, encode, with_fields
from tornproof.impl.pm.chain import TokenMissingError
from tornproof.impl.read.decoding import SYNCHRONOUS, Decoding, InOrder
from tornproof.impl.storage import checksum
from tornproof.impl.storage.interface import Storage
from tornproof.impl.table import partition_names, symbol_hash
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy, TableColumn, TableMetadata, decode_metadata_file
from tornproof.impl.table.partition_schema import new_header
from tornproof.impl.txn.reader import TransactionReader
from tornproof.impl.txn.sequencer import SEQUENCER_FILE, pending_transaction_count
from tornproof.impl.txn.transaction import Partition, Transaction
from tornproof.impl.types import names
from tornproof.impl.types.arrow import arrow_type
from tornproof.impl.types.physical import PhysicalType
from tornproof.impl.write.questdb_json import updated_json

PROPERTY = "what the format spells out is what its documentation says"
CHECKSUM = "tornproof.impl.storage.checksum"
DAYS = ("1969-12-31", "1970-01-01", "2019-12-30", "2020-02-29", "2021-01-03", "2024-12-31", "2026-11-27")
TIMES = (
    *("00:00:00", "07:00:00", "23:00:00", "07:00:30", "07:50:00", "07:50:30", "00:00:01", "00:01:00", "23:59:59"),
    *("07:00:00.5", "00:00:00.000001", "07:50:30.999999", "23:59:59.100000", "23:59:59.999999"),
)
NO_DIRECTORIES = (
    *("", ".1", "2024-", "24-01-01", "2024-1-01", "2024-01-01-1", "2024-W5", "2024-W05-", "2024-W05-12", "2024/01"),
    *("x2024", "default1", "2024-01-01.", "2024-01-01.x", "2024-01-01.-1", "2024-01-01.1.2", "2024-01-01 "),
    *("2024-01-01.detached", "2024-01-01.5.attachable", "2024-01-01.tmp", "2024.old", "2024-01-01T", "2024-01-01T7"),
    *("2024-01-01T0750", "2024-01-01T075030-", "2024-01-01T075030-1", "2024-01-01T075030-1234567", "2024T07", "_pm"),
)
"""Names that no partition's directory has: others of operators and servers begin like it."""
NANOSECONDS = (0, 1, 120, 999)
UNITS = {PartitionBy.YEAR: "Y", PartitionBy.MONTH: "M", PartitionBy.DAY: "D", PartitionBy.HOUR: "h"}
SYMBOLS = ("", "a", "one", "two", "three", "Aa", "BB", "größe", "🌡", "a long symbol " * 9, "\uffff\uffff\uffff\uffff")
CAPACITIES = (1, 2, 3, 4, 5, 8, 100, 128, 256, 1 << 20)
DECIMAL_TAGS = {28: 2, 29: 4, 30: 9, 31: 18, 32: 38, 33: 76}
"""The digits that fit into 1, 2, 4, 8, 16 and 32 bytes."""
GEOHASH_TAGS = {14: 7, 15: 15, 16: 31, 17: 60}
"""The bits of a geohash in 1, 2, 4 and 8 bytes, without the one that says null."""
PLAIN_TAGS = {
    **{name: number for number, name in enumerate(("BOOLEAN", "BYTE", "SHORT", "CHAR", "INT", "LONG", "DATE"), 1)},
    **{name: number for number, name in enumerate(("TIMESTAMP", "FLOAT", "DOUBLE", "STRING", "SYMBOL", "LONG256"), 8)},
    **{"BINARY": 18, "UUID": 19, "LONG128": 24, "IPV4": 25, "VARCHAR": 26, "TIMESTAMP_NS": 8 | 1 << 18},
}
TIMESTAMP, LONG = PLAIN_TAGS["TIMESTAMP"], PLAIN_TAGS["LONG"]
META_HEADER, META_COLUMN = struct.Struct("<6i2qBii79x"), struct.Struct("<iqii4xi4x")
COLUMN_ORDERS: tuple[tuple[str, dict[int, int], set[int], list[int]], ...] = (
    ("nothing", {}, set(), [0, 1, 2]),
    ("another type of one in the middle", {3: 1}, set(), [0, 3, 2]),
    ("another type of the last one", {3: 2}, set(), [0, 1, 3]),
    ("two changes of one", {3: 1, 4: 3}, set(), [0, 4, 2]),
    ("two changes of one, and a new one between them", {3: 1, 5: 3}, set(), [0, 5, 2, 4]),
    ("changes of two in turn", {3: 1, 4: 2, 5: 3, 6: 4}, set(), [0, 5, 6]),
    ("a removal and a new one", {}, {1}, [0, 2, 3]),
    ("a removal of one that was changed", {3: 1}, {3}, [0, 2, 4]),
)
"""What was changed, which column took the place of which, those that were removed, and the writer indexes in order."""
ENUMERATIONS: dict[type[IntEnum], str] = {
    PhysicalType: "BOOLEAN INT32 INT64 INT96 FLOAT DOUBLE BYTE_ARRAY FIXED_LEN_BYTE_ARRAY",
    Repetition: "REQUIRED OPTIONAL REPEATED",
    Codec: "UNCOMPRESSED SNAPPY GZIP LZO BROTLI LZ4 ZSTD LZ4_RAW",
    ConvertedType: "UTF8 MAP MAP_KEY_VALUE LIST ENUM DECIMAL DATE TIME_MILLIS TIME_MICROS TIMESTAMP_MILLIS "
    "TIMESTAMP_MICROS UINT_8 UINT_16 UINT_32 UINT_64 INT_8 INT_16 INT_32 INT_64 JSON BSON INTERVAL",
    PageType: "DATA_V1 INDEX DICTIONARY DATA_V2",
    Kind: "- TRUE BOOL BYTE I16 I32 I64 DOUBLE BINARY LIST SET MAP STRUCT UUID",
    PageEncoding: "PLAIN - PLAIN_DICTIONARY RLE BIT_PACKED DELTA_BINARY_PACKED DELTA_LENGTH_BYTE_ARRAY "
    "DELTA_BYTE_ARRAY RLE_DICTIONARY BYTE_STREAM_SPLIT ALP PFOR",
}
"""Those of Parquet's metadata and of Thrift, by their numbers from 0 on."""
PARQUET_FORMS = {
    "TIMESTAMP": "INT64 0 TIMESTAMP_MICROS Timestamp(microseconds)",
    "BOOLEAN": "BOOLEAN 0 NONE None",
    "BYTE": "INT32 0 INT_8 Int(8, signed)",
    "SHORT": "INT32 0 INT_16 Int(16, signed)",
    "CHAR": "INT32 0 UINT_16 Int(16, unsigned)",
    "INT": "INT32 0 NONE None",
    "LONG": "INT64 0 NONE None",
    "DATE": "INT64 0 TIMESTAMP_MILLIS Timestamp(milliseconds)",
    "TIMESTAMP_NS": "INT64 0 NONE Timestamp(nanoseconds)",
    "FLOAT": "FLOAT 0 NONE None",
    "DOUBLE": "DOUBLE 0 NONE None",
    **dict.fromkeys(("STRING", "VARCHAR", "SYMBOL"), "BYTE_ARRAY 0 UTF8 String"),
    **dict.fromkeys(("BINARY", "DOUBLE[]", "DOUBLE[][]"), "BYTE_ARRAY 0 NONE None"),
    "UUID": "FIXED_LEN_BYTE_ARRAY 16 NONE UUID",
    "LONG256": "FIXED_LEN_BYTE_ARRAY 32 NONE None",
    "LONG128": "FIXED_LEN_BYTE_ARRAY 16 NONE None",
    "IPV4": "INT32 0 UINT_32 Int(32, unsigned)",
    "GEOHASH(7b)": "INT32 0 INT_8 Int(8, signed)",
    "GEOHASH(3c)": "INT32 0 INT_16 Int(16, signed)",
    "GEOHASH(6c)": "INT32 0 INT_32 Int(32, signed)",
    "GEOHASH(12c)": "INT64 0 INT_64 Int(64, signed)",
    "DECIMAL(2,1)": "FIXED_LEN_BYTE_ARRAY 1 DECIMAL Decimal(2, 1)",
    "DECIMAL(4,2)": "FIXED_LEN_BYTE_ARRAY 2 DECIMAL Decimal(4, 2)",
    "DECIMAL(9,2)": "FIXED_LEN_BYTE_ARRAY 4 DECIMAL Decimal(9, 2)",
    "DECIMAL(18,3)": "FIXED_LEN_BYTE_ARRAY 8 DECIMAL Decimal(18, 3)",
    "DECIMAL(38,10)": "FIXED_LEN_BYTE_ARRAY 16 DECIMAL Decimal(38, 10)",
    "DECIMAL(76,20)": "FIXED_LEN_BYTE_ARRAY 32 DECIMAL Decimal(76, 20)",
}
"""Physical type, width, converted and logical type of a column of each type, as pyarrow sees them."""
BLOOM_SALTS = (
    *(0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D),
    *(0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31),
)
NEVER_NULL = {"BOOLEAN", "BYTE", "SHORT", "CHAR"}
CONTENTS = tuple(bytes(range(256)) * 3 + bytes(rest) for rest in range(9))
NAMES_LACK = "?.,'\"\\/:()+-*%~\x7f\ufeff\x00\x0f"
"""The characters that no name has."""
SMALL_HALF_BYTES = 3
WORK_BYTES, WORK_BYTES_MAX = (1, 20 << 10, 12 << 20, 33 << 20), 32 << 20
FILTER_BYTES_MAX = 4096
ONLY = Struct((Field(1, Kind.STRUCT, Struct(())),))
"""A choice among one, as that of a filter's algorithm, hash and compression."""
_OTHERS: tuple[Any, ...] = (None, {}, [1], [[]], "x")
"""What is no list of columns."""
COUNTERS = ("partition_table_version", "column_version", "truncate_version")
"""Of a record: what announces that an older partition is another one."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is worked out twice: its kind, the words for it, what the implementation says, and what is right."""

    kind: str
    name: str
    found: Callable[[], Any]
    expected: Any


@functools.cache
def questions() -> tuple[Question, ...]:
    """Return all questions, always in the same order."""
    names = (*_directories(), *_types(), *_hashes(), *_checksums())
    tables = (*_column_orders(), *_creations(), *_reloads(), *_bounds(), *_filters(), *_documents(), *_pending())
    return (
        *names,
        *tables,
        *_enumerations(),
        *_parquet_forms(),
        *_migrated_documents(),
        *_bloom_filters(),
        *_migrations_of_one(),
        *_errors(),
        *_work(),
        *_new_partitions(),
    )


@errors_as_problems
def problem_of(question: Question) -> str | None:
    """Say what is wrong with an answer; None if it is right."""
    found = question.found()
    return None if found == question.expected else f"{found} instead of {question.expected}"


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of a hash of bytes, and of directories without a time."""
    for what, location, broken in (
        ("another hash", "tornproof.impl.table.symbol_hash:HASH_FACTOR", 33),
        ("directories without a time", "tornproof.impl.table.partition_names:_time_name", lambda *_: ""),
    ):
        with replaced(location, broken):
            if all(problem_of(question) is None for question in questions()):
                yield f"{what} was not noticed"


def _directories() -> Iterator[Question]:
    """Yield names of partitions, which begin at an interval or where a server has split one, and their intervals."""
    for (day, time), by in itertools.product(itertools.product(DAYS, TIMES), PartitionBy):
        for nanosecond in (None, *(NANOSECONDS if "." in time else NANOSECONDS[:2])):
            is_fine = nanosecond is not None
            start = np.datetime64(f"{day}T{time}", "ns" if is_fine else "us") + (nanosecond or 0)
            timestamp = int(start.astype(np.int64))
            words = f"a partition by {by.name.lower()} at {start}"
            name = _directory(start, by)
            settings: dict[str, Any] = {"partition_by": by, "nanoseconds": is_fine}
            for txn, suffix in ((-1, ""), (12, ".12")):
                yield Question(
                    "directories",
                    f"the directory of {words}",
                    functools.partial(partition_names.directory_names, timestamp, txn, **settings),
                    (name + suffix,),
                )
                yield Question(
                    "names",
                    f"the parts of {name + suffix}",
                    functools.partial(_parts_of, name + suffix),
                    (True, (name, txn)),
                )
            first, end = interval_of(start, by)
            yield Question(
                "starts",
                f"the start of {words}",
                functools.partial(partition_names.interval_start, timestamp, **settings),
                first,
            )
            yield Question(
                "ends",
                f"the end of {words}",
                functools.partial(partition_names.interval_end, timestamp, **settings),
                end,
            )

    for name in NO_DIRECTORIES:
        found = functools.partial(partition_names.looks_like_partition, name)
        yield Question("names", f"whether {name!r} is a partition's directory", found, False)


def _parts_of(name: str) -> tuple[bool, tuple[str, int]]:
    return partition_names.looks_like_partition(name), partition_names.split_name(name)


def _directory(start: np.datetime64, by: PartitionBy) -> str:
    if by is PartitionBy.NONE:
        return "default"
    interval, day = _interval_name(start, by), str(start.astype("datetime64[D]"))
    first = interval_of(start, by)[0]
    if first == int(start.astype(np.int64)):
        return interval
    if by is PartitionBy.WEEK:
        day = f"{interval}-{1 + _weekday(start)}"
    clock, _, fraction = str(start).partition("T")[2].partition(".")
    hours, minutes, seconds = clock.split(":")
    if int(fraction):
        return f"{day}T{hours}{minutes}{seconds}-{fraction}"
    if minutes + seconds != "0000":
        return f"{day}T{hours}{minutes}{seconds}"
    return f"{day}T{hours}" if hours != "00" else day


def _interval_name(start: np.datetime64, by: PartitionBy) -> str:
    if by is PartitionBy.WEEK:
        # A week is of the year in which its Thursday is.
        thursday = start.astype("datetime64[D]") - _weekday(start) + 3
        week = int((thursday - thursday.astype("datetime64[Y]").astype("datetime64[D]")).astype(int)) // 7 + 1
        return f"{thursday.astype('datetime64[Y]')}-W{week:02d}"
    return str(start.astype(f"datetime64[{UNITS[by]}]"))


def _weekday(start: np.datetime64) -> int:
    """Return the days since the last Monday."""
    return (int(start.astype("datetime64[D]").astype(np.int64)) + 3) % 7


def interval_of(start: np.datetime64, by: PartitionBy) -> tuple[int | None, int | None]:
    """Return where the interval begins and ends, in the unit of the time."""
    if by is PartitionBy.NONE:
        return None, None
    unit = np.datetime_data(start)[0]
    if by is PartitionBy.WEEK:
        first = start.astype("datetime64[D]") - _weekday(start)
        following = first + 7
    else:
        first = start.astype(f"datetime64[{UNITS[by]}]")
        following = first + 1
    begin, end = (int(each.astype(f"datetime64[{unit}]").astype(np.int64)) for each in (first, following))
    return begin, end


def _types() -> Iterator[Question]:
    """Yield types by their names, and names by types; of too many digits or bits there is none."""
    codes: dict[str, int | None] = dict(PLAIN_TAGS)
    for digits in range(1, 78):
        tag = next((tag for tag, most in DECIMAL_TAGS.items() if digits <= most), None)
        for scale in sorted({0, 1, digits}):
            codes[f"DECIMAL({digits},{scale})"] = None if tag is None else tag | digits << 8 | scale << 18
    for bits in range(1, 62):
        tag = next((tag for tag, most in GEOHASH_TAGS.items() if bits <= most), None)
        codes[f"GEOHASH({bits}b)"] = None if tag is None else tag | bits << 8 | 1 << 16
    for dimensions in (1, 2, 5, 32):
        codes["DOUBLE" + "[]" * dimensions] = 27 | 10 << 8 | dimensions - 1 << 14
    for digits, scale in ((1, 0), (1, 1), (2, 1), (38, 38), (39, 0), (76, 76)):
        code = codes[f"DECIMAL({digits},{scale})"]
        of = pa.decimal256(digits, scale) if digits > DECIMAL_TAGS[32] else pa.decimal128(digits, scale)
        found = functools.partial(arrow_type, code, physical_type=7, fixed_byte_len=1)
        yield Question("Arrow types", f"the Arrow type of DECIMAL({digits},{scale})", found, of)
    for name, code in codes.items():
        yield Question("types", f"the type {name}", functools.partial(names.type_code, name), code)
        if code is not None:
            shown = "IPv4" if name == "IPV4" else name
            yield Question(
                "type names", f"the name of the type {code}", functools.partial(names.type_name, code), shown
            )
    for digits, bits in ((1, 5), (3, 15), (6, 30), (12, 60)):
        of = functools.partial(names.type_code, f"geohash({digits}c)")
        yield Question("geohashes", f"a geohash of {digits} digits", of, codes[f"GEOHASH({bits}b)"])


def _hashes() -> Iterator[Question]:
    """Yield where the hash index of a dictionary has symbols."""
    for capacity in CAPACITIES:
        bucket_count = next(1 << power for power in range(1, 32) if 1 << power >= capacity // 2)
        buckets = [_java_hash(symbol) % (1 << 28) % bucket_count for symbol in SYMBOLS]
        yield Question(
            "buckets",
            f"the buckets of symbols in a dictionary for {capacity}",
            functools.partial(_buckets, capacity),
            buckets,
        )
    yield Question(
        "positions", "the positions of symbols 5 to 7", lambda: symbol_hash.positions_of(5, 3).tolist(), [104, 112, 120]
    )


def _buckets(capacity: int) -> list[int]:
    return [*map(int, symbol_hash.buckets_of(SYMBOLS, capacity))]


def _java_hash(text: str) -> int:
    value = 0
    for unit in np.frombuffer(text.encode("utf-16-le"), "<u2").tolist():
        value = (31 * value + unit) % (1 << 32)
    return value


def _column_orders() -> Iterator[Question]:
    """Yield `_meta` of tables whose columns were changed to other types or removed, and the columns in their order."""
    for name, replaced_by, removed, expected in COLUMN_ORDERS:
        records = [(replaced_by.get(number, -1), number) for number in range(max(expected) + 1)]
        dead = {*replaced_by.values(), *removed}
        content = META_HEADER.pack(len(records), 0, 0, 426, 1, 500_000, 600_000_000, 0, 0, 0, 0)
        codes = [TIMESTAMP, *[LONG] * (len(records) - 1)]
        content += b"".join(
            META_COLUMN.pack(-code if number in dead else code, 0, 0, 0, 1 + replaced)
            for code, (replaced, number) in zip(codes, records, strict=True)
        )
        for _, number in records:
            text = f"c{number}".encode("utf-16-le")
            content += len(text[::2]).to_bytes(4, "little") + text
        yield Question("columns", f"the order of columns after {name}", functools.partial(_ids, content), expected)


def _ids(meta: bytes) -> list[int]:
    return [column.id for column in decode_metadata_file(meta, file="_meta").columns]


def _creations() -> Iterator[Question]:
    """Yield the creation of a table where there is one already, which has no rows yet."""
    yield Question("creations", "a second creation of a table", _created_twice, "rejected, and the table is as it was")
    for name, is_right in (
        *((each, True) for each in ("a", "x" * 127, "größe", "_", "a b", "0", "[", "\x10", "\x1f")),
        *((each, False) for each in ("", "x" * 128, "\ud800", *(f"a{each}" for each in NAMES_LACK))),
        *(("TS", False), ("Ts", False)),
    ):
        column = NewColumn(name=name, type=LONG)
        yield Question("creations", f"a column {name!r}", functools.partial(_is_created, column), is_right)
        # A table is named by its path, up to a tilde.
        if name.lower() != "ts" and name[-1:] not in ("/", "~"):
            found = functools.partial(_is_created, table=name)
            yield Question("creations", f"a table {name!r}", found, is_right)
    for number, is_right in (
        *(
            (each, True)
            for each in (*PLAIN_TAGS.values(), 27 | 10 << 8, *(31 | 18 << 8 | each << 18 for each in (0, 18)))
        ),
        *(
            (each, False)
            for each in (0, 20, 23, 34, 27, 27 | 9 << 8, 27 | 10 << 8 | 1 << 30, 14, 17, 31 | 19 << 8 | 20 << 18)
        ),
        *((tag | 1 << 18, False) for tag in (LONG, 1, 26)),
        *((tag | 1 << 8, False) for tag in (LONG, TIMESTAMP, 1, 26)),
    ):
        found = functools.partial(_is_created, NewColumn(name="column", type=number))
        yield Question("creations", f"a column of type {number:#x}", found, is_right)
    for capacity in (-1, 0, 1, 2, 3, 4, 5, 1023, 1024, 1025, (1 << 20) - 1, 1 << 20, (1 << 20) + 1):
        made = functools.partial(_capacity_of, capacity)
        expected = (
            next(1 << power for power in range(22) if 1 << power >= capacity) if 2 <= capacity <= 1 << 20 else None
        )
        yield Question("creations", f"a capacity of {capacity}", made, expected)
    for key_names in itertools.product((False, True), repeat=2):
        found = functools.partial(
            _is_created, NewColumn(name="k", type=LONG, is_dedup_key=key_names[1]), has_key=key_names[0]
        )
        yield Question("creations", f"keys {key_names}", found, key_names != (False, True))


def _is_created(column: NewColumn | None = None, table: str = "table", *, has_key: bool = False) -> bool:
    columns = [NewColumn(name="ts", type=TIMESTAMP, is_dedup_key=has_key), *([column] if column else [])]
    try:
        create_table(MemoryStorage(), table, columns, timestamp="ts", partition_by=PartitionBy.DAY)
    except TornproofError:
        return False
    return True


def _capacity_of(capacity: int) -> int | None:
    storage = MemoryStorage()
    columns = [
        NewColumn(name="ts", type=TIMESTAMP),
        NewColumn(name="text", type=PLAIN_TAGS["SYMBOL"], symbol_capacity=capacity),
    ]
    try:
        table = create_table(storage, "table", columns, timestamp="ts", partition_by=PartitionBy.DAY)
    except TornproofError:
        return None
    return table.metadata.columns[1].symbol_capacity if table.metadata else -1


def _created_twice() -> str:
    storage = MemoryStorage()

    def create(name: str) -> None:
        columns = [NewColumn(name="ts", type=TIMESTAMP), NewColumn(name=name, type=LONG)]
        create_table(storage, "table", columns, timestamp="ts", partition_by=PartitionBy.DAY)

    create("first")
    before = storage.image().files
    try:
        create("second")
    except TornproofError:
        is_same = storage.image().files == before
        return f"rejected, and the table is {'as it was' if is_same else 'another one'}"
    return "done"


def _migrations_of_one() -> Iterator[Question]:
    """Yield what there is to migrate in tables of one partition and of none, of all or of one by its name."""
    image, path = every_type.image_of_every_type(), every_type.PATH
    (directory,) = {file.split("/")[1] for file in image.files if file.endswith(DATA_FILE)}
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
            yield Question("migrations", name, functools.partial(_planned, storage, where, only), count)


def _planned(storage: Storage, path: str, only: str | None) -> int | None:
    plan = plan_table(storage, path, only=only)
    return len(plan.partitions) if isinstance(plan, TablePlan) else None


def _reloads() -> Iterator[Question]:
    """Yield two versions of a table, and what a reader that follows it is told of the second."""
    before = dict.fromkeys(range(3), 10)
    for changes, is_longer, counter in itertools.product(
        itertools.product((0, 1, None), repeat=len(before)), (False, True), (None, *COUNTERS)
    ):
        after = {number: before[number] + more for number, more in enumerate(changes) if more is not None}
        after |= {len(before): 10} if is_longer else {}
        same = [number for number in after if after[number] == before.get(number)]
        # The last partition may grow without announcement, or be gone.
        is_unannounced = counter is None and not {*before} - {max(before)} <= {*same}
        yield Question(
            "reloads",
            f"row counts {before} and then {after}, {counter or 'no counter'} changed",
            functools.partial(_reload, before, after, counter),
            (is_unannounced, [] if counter == "truncate_version" else same),
        )


def _reload(before: dict[int, int], after: dict[int, int], counter: str | None) -> tuple[bool, list[int]]:
    """Return whether a change was not announced, and which partitions may be kept open."""
    versions = iter((_version(before, None), _version(after, counter)))
    with replaced("tornproof.impl.txn.reader:safe_read", lambda *_: next(versions)):
        reader = TransactionReader(MemoryStorage(), "_txn")
        reader.reload()
        found = reader.reload()
    return bool(found.unannounced), [partition.timestamp for partition in found.unchanged]


def _version(row_counts: dict[int, int], counter: str | None) -> Transaction:
    record = bytearray(TransactionRecord.layout.size_bytes)
    if counter is not None:
        record[TransactionRecord.layout.offset_of(counter)] = 1
    partitions = (
        Partition(
            timestamp=timestamp,
            row_count=row_count,
            name_txn=-1,
            token=-1,
            flags=0,
            entry_offset_bytes=0,
            row_count_offset_bytes=0,
        )
        for timestamp, row_count in row_counts.items()
    )
    decoded = TransactionRecord.unpack(bytes(record), 0, file="_txn")
    return Transaction(version=0, record=decoded, symbol_counts=(), partitions=tuple(partitions))


def _checksums() -> Iterator[Question]:
    for content in CONTENTS:
        yield Question(
            "checksums",
            f"the checksum of {len(content)} bytes in halves",
            functools.partial(_in_halves, content),
            zlib.crc32(content),
        )


def _in_halves(content: bytes) -> int:
    with replaced(f"{CHECKSUM}:HALF_BYTES_MIN", SMALL_HALF_BYTES):
        return checksum.large_crc32(content)


def _bounds() -> Iterator[Question]:
    """Yield what bounds of each type prove; of INT and LONG, one alone may be that of unsigned numbers."""
    for each in bounds_of_types():
        low, high = each.values or (None, None)
        may_be_unsigned = each.name in ("INT", "LONG")
        for words, given, expected in (
            ("both bounds", (each.low, each.high), (low, high)),
            ("one value as both bounds", (each.high, each.high), (high, high)),
            ("both bounds, exchanged,", (each.high, each.low), (None, None)),
            ("its minimum alone", (each.low, None), (low, None)),
            ("its maximum alone", (None, each.high), (None, high)),
            ("its maximum alone as the minimum", (each.high, None), (None if may_be_unsigned else high, None)),
            ("its minimum alone as the maximum", (None, each.low), (None, None if may_be_unsigned else low)),
            ("no bound", (None, None), (None, None)),
        ):
            name = f"what {words} of {each.name} prove"
            yield Question("bounds", name, functools.partial(proven, each, *given), expected)


def _filters() -> Iterator[Question]:
    """Yield how often a filter is in the metadata of a small file whose row groups share it."""
    for size_bytes in (32, FILTER_BYTES_MAX):
        for count in (1, 2, 8):
            name = f"the copies of a filter of {size_bytes} bytes that {count} row groups share"
            yield Question("filters", name, functools.partial(_copied_filters, count, size_bytes), count)


def _copied_filters(group_count: int, size_bytes: int) -> int:
    rows, target = pa.table({"a": pa.array(range(group_count), pa.int64())}), io.BytesIO()
    pq.write_table(rows, target, row_group_size=1, store_schema=False)
    plain, bits = target.getvalue(), b"\xff" * size_bytes
    head = encode(Struct((Field(1, Kind.I32, size_bytes), *(Field(number, Kind.STRUCT, ONLY) for number in (2, 3, 4)))))
    found = head + bits
    footer_bytes = int.from_bytes(plain[-8:-4], "little") + 8
    facts = Field(14, Kind.I64, len(plain) - footer_bytes), Field(15, Kind.I32, len(found))
    content = plain[:-footer_bytes] + found + plain[-footer_bytes:]
    content = with_footer(content, within(CHUNK_FACTS, lambda chunk: with_fields(chunk, *facts)))
    metadata = convert(reader_of(content), size_bytes=len(content), file="shared.parquet")
    return metadata.count(size_bytes.to_bytes(4, "little") + bits)


def _documents() -> Iterator[Question]:
    """Yield documents on columns in the `questdb` key of a footer, and what an update makes of each."""
    column = {"column_type": 8, "column_top": 0, "id": 0}
    sound: dict[str, Any] = {"version": 1, "schema": [column]}

    def of_column(**members: Any) -> dict[str, Any]:
        return {**sound, "schema": [column | members]}

    kept = (
        *(of_column(format=form) for form in (1, None)),
        *(of_column(ascii=value) for value in (True, False, None)),
        *(of_column(column_type=number) for number in (1, 0x7FFFFFFF)),
        of_column(more={"x": [1, 2]}),
    )
    for document in (sound, *kept):
        yield _document(json.dumps(document), {**document, "unused_bytes": 7})
    yield _document(json.dumps(of_column(column_top=5)), {**sound, "unused_bytes": 7})
    yield _document(json.dumps({**sound, "unused_bytes": 3, "x": 1}), {**sound, "unused_bytes": 7, "x": 1})
    wrong = (
        *({**sound, "version": version} for version in (None, True, "1", 1.0, 0, 2, -1)),
        *({**sound, "schema": schema} for schema in _OTHERS),
        *(of_column(column_type=number) for number in (None, 0, -1, True, "8", 8.0, 0x80000000)),
        *(of_column(column_top=count) for count in (None, -1, True, "0", 1.5)),
        *(of_column(format=form) for form in (0, 2, -1, True, "1", 1.0)),
        *(of_column(ascii=value) for value in (0, 1, "true")),
        *({**sound, "unused_bytes": count} for count in (None, -1, False, "3", 2.5)),
        *({name: value for name, value in sound.items() if name != left_out} for left_out in sound),
    )
    texts = ("", "null", "[]", "{", '{"version":1,"schema":[],}', '{"version":1,"version":1,"schema":[]}')
    numbers = (f'{{"version":1,"schema":[],"x":{value}}}' for value in ("NaN", "1e999", '"\\ud800"'))
    for text in (*map(json.dumps, wrong), *texts, *numbers):
        yield _document(text, None)


def _migrated_documents() -> Iterator[Question]:
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


def _document(text: str, expected: dict[str, Any] | None) -> Question:
    right = "rejected" if expected is None else json.dumps(expected, separators=(",", ":"))
    return Question("documents", f"what an update makes of {text!r}", functools.partial(_updated, text), right)


def _updated(text: str) -> str:
    try:
        return updated_json(text, unused_bytes=7)
    except TornproofError:
        return "rejected"


def _enumerations() -> Iterator[Question]:
    for of, spelled in ENUMERATIONS.items():
        expected = {name: number for number, name in enumerate(spelled.split()) if name != "-"}
        found = functools.partial(lambda members: {each.name: int(each) for each in members}, of)
        yield Question("enumerations", f"the numbers of {of.__name__}", found, expected)


def _parquet_forms() -> Iterator[Question]:
    """Yield how columns of every type are declared in a file that our writer makes."""
    for number, of in enumerate(every_type.TYPES):
        # The first one is the designated timestamp.
        is_required = number == 0 or of in NEVER_NULL
        expected = f"c{number} {number} {PARQUET_FORMS[of]} {'required' if is_required else 'optional'}"
        yield Question(
            "Parquet forms", f"a column of the type {of}", functools.partial(_parquet_form, number), expected
        )
        told = functools.partial(_told_by_json, number)
        yield Question("JSON of footers", f"a column of the type {of}", told, _told_column(number, of))


def _file_of_every_type() -> pq.ParquetFile:
    image = every_type.image_of_every_type()
    return pq.ParquetFile(io.BytesIO(next(image.files[path] for path in image.files if path.endswith(DATA_FILE))))


def _told_column(number: int, of: str) -> dict[str, Any]:
    """Return what the JSON in a footer says of a column; only that of the first one is the designated timestamp."""
    more = {"format": 1} if of == "SYMBOL" else {"ascii": False} if of == "VARCHAR" else {}
    code = (names.type_code(of) or 0) | (1 << 17 if number == 0 else 0)
    return {"column_type": code, "column_top": 0, **more}


def _told_by_json(number: int) -> dict[str, Any]:
    told = json.loads(_file_of_every_type().metadata.metadata[b"questdb"])
    return dict(told["schema"][number])


def _parquet_form(number: int) -> str:
    file = _file_of_every_type()
    column, field = file.schema.column(number), file.schema_arrow.field(number)
    logical = str(column.logical_type)
    for text, shorter in (
        ("isAdjustedToUTC=true, timeUnit=", ""),
        (", is_from_converted_type=false, force_set_converted_type=false", ""),
        ("bitWidth=", ""),
        ("isSigned=true", "signed"),
        ("isSigned=false", "unsigned"),
        ("precision=", ""),
        ("scale=", ""),
    ):
        logical = logical.replace(text, shorter)
    field_id = field.metadata[b"PARQUET:field_id"].decode()
    form = f"{column.physical_type} {column.length} {column.converted_type} {logical}"
    return f"{column.name} {field_id} {form} {'optional' if column.max_definition_level else 'required'}"


def _bloom_filters() -> Iterator[Question]:
    """Yield hashes of values, the bits that they set in filters, what filters may contain, and how large they are."""
    numbers = (*range(-3, 4), 1 << 20, -(1 << 31), (1 << 31) - 1)
    plain = [bytes((row * 7 + at) % 256 for at in range(64)) for row in range(5)]
    arrays: list[tuple[str, pa.Array, list[bytes]]] = [
        ("32 bits", pa.array(numbers, pa.int32()), [struct.pack("<i", each) for each in numbers]),
        ("64 bits", pa.array(numbers, pa.int64()), [struct.pack("<q", each) for each in numbers]),
        (
            "16 bits",
            pa.array(numbers[:8], pa.int32()).slice(0, 7).cast(pa.int16()),
            [struct.pack("<i", each) for each in numbers[:7]],
        ),
        ("floats", pa.array([0.5, -2.0], pa.float32()), [struct.pack("<f", each) for each in (0.5, -2.0)]),
        ("doubles", pa.array([0.1, -1e300], pa.float64()), [struct.pack("<d", each) for each in (0.1, -1e300)]),
        ("texts", pa.array(SYMBOLS), [each.encode() for each in SYMBOLS]),
        ("keys", pa.array(SYMBOLS[::-1]).dictionary_encode(), [each.encode() for each in SYMBOLS[::-1]]),
        ("values and nulls", pa.array([5, None, 6], pa.int64()), [struct.pack("<q", each) for each in (5, 6)]),
    ]
    for width in (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 24, 31, 32, 33, 64):
        cut = [each[:width] for each in plain]
        arrays.append((f"{width} bytes", pa.array(cut, pa.binary(width)), cut))
    for name, array, contents in arrays:
        hashes = [xxhash.xxh64_intdigest(content) for content in contents]
        yield Question("bloom filters", f"hashes of {name}", functools.partial(_value_hashes, array), hashes)
        for size_bytes in (32, 64, 4096):
            filled = filter_of(hashes, size_bytes)
            name_of = f"a filter of {size_bytes} bytes of {name}"
            made = functools.partial(_made_filter, hashes, size_bytes)
            yield Question("bloom filters", name_of, made, filled)
            asked = [*hashes, *(xxhash.xxh64_intdigest(struct.pack("<q", each)) for each in range(100, 140))]
            found = functools.partial(_contained, filled, asked)
            yield Question(
                "bloom filters", f"what is in {name_of}", found, [may_be_in(filled, each) for each in asked] * 2
            )
    for count, rate in itertools.product((0, 1, 30, 1000, 10**6, 10**9), (0.5, 0.05, 0.001)):
        bits = -8 * count / math.log(1 - rate ** (1 / 8))
        expected = next(1 << power for power in range(5, 28) if 8 << power >= bits or power == 27)
        name = f"the bytes of a filter of {count} values at a rate of {rate}"
        yield Question("bloom filters", name, functools.partial(bloom.bitset_size_bytes, count, rate), expected)


def _value_hashes(array: pa.Array) -> list[int]:
    return [int(each) for each in bloom.hashes_of(array)]


def _made_filter(hashes: list[int], size_bytes: int) -> bytes:
    return bloom.build_bitset(np.array(hashes, np.uint64), size_bytes)


def _contained(content: bytes, hashes: list[int]) -> list[bool]:
    together = bloom.probe(content, np.array(hashes, np.uint64)).tolist()
    return [*(bool(bloom.may_contain(content, each)) for each in hashes), *together]


def _bits_of(content_bytes: int, value_hash: int) -> Iterator[int]:
    """Yield the bits that a hash sets: its upper half chooses a block, its lower half a bit in each of eight words."""
    block = (value_hash >> 32) * (content_bytes // 32) >> 32
    for word, salt in enumerate(BLOOM_SALTS):
        yield block * 256 + word * 32 + ((value_hash % (1 << 32)) * salt % (1 << 32) >> 27)


def filter_of(hashes: list[int], size_bytes: int) -> bytes:
    """Return a bloom filter of values with these hashes."""
    found = functools.reduce(
        lambda bits, bit: bits | 1 << bit, (bit for each in hashes for bit in _bits_of(size_bytes, each)), 0
    )
    return found.to_bytes(size_bytes, "little")


def may_be_in(content: bytes, value_hash: int) -> bool:
    """Return whether a filter has all bits of a hash."""
    return all(content[bit // 8] >> bit % 8 & 1 for bit in _bits_of(len(content), value_hash))


def _pending() -> Iterator[Question]:
    """Yield logs of a sequencer, and how many of its transactions a version of the seventh does not contain."""
    for last, expected in ((-1, 0), (6, 0), (7, 0), (8, 1), (1 << 40, (1 << 40) - 7)):
        for more in (b"", b"\xff" * 9):
            content = struct.pack("<iq", 0, last) + more
            name = f"transactions after the seventh in a log of {len(content)} bytes that ends with {last}"
            yield Question("pending", name, functools.partial(_pending_in, content), expected)
    for size_bytes in (0, 4, 11):
        name = f"transactions in a log of {size_bytes} bytes"
        yield Question("pending", name, functools.partial(_pending_in, bytes(size_bytes)), None)
    yield Question("pending", "transactions without a log", functools.partial(_pending_in, None), None)


def _pending_in(content: bytes | None) -> int | None:
    version = _version({}, None)
    version = structs.replace(version, record=version.record.changed(seq_txn=7))
    image = DiskImage.of_files({} if content is None else {f"table/{SEQUENCER_FILE}": content})
    return pending_transaction_count(image, "table", version)


def _errors() -> Iterator[Question]:
    """Yield errors as another process gets them."""
    place = ("_pm", "NUM_ROWS", 8, 1, 2)
    for error, bases in (
        (CorruptError(*place), "ProblemError TornproofError"),
        (UnsupportedError(*place), "ProblemError TornproofError"),
        (RejectedCorruptError(*place), "CorruptError ProblemError TornproofError"),
        (TokenMissingError(*place), "CorruptError ProblemError TornproofError"),
        (StorageError("_txn", "open", "no room"), "TornproofError"),
        (FileMissingError("_txn", "open", "no file"), "StorageError TornproofError"),
        (FileVanishedError("_pm"), "FileMissingError StorageError TornproofError"),
        (FileVanishedError("_pm", "list", "purged"), "FileMissingError StorageError TornproofError"),
        (RowsRejectedError.at("column", 3, 1, 2), "TornproofError"),
        (BusyError("a writer holds it"), "TornproofError"),
        (NotATableError("no table"), "TornproofError"),
    ):
        expected = [type(error).__name__, *bases.split()], str(error), vars(error)
        yield Question(
            "errors", f"{type(error).__name__} in another process", functools.partial(_unpickled, error), expected
        )


def _unpickled(error: Exception) -> tuple[list[str], str, dict[str, Any]]:
    found = pickle.loads(pickle.dumps(error))
    names = [each.__name__ for each in type(found).__mro__]
    return names[: names.index("Exception")], str(found), vars(found)


def _work() -> Iterator[Question]:
    """Yield pieces of work of these sizes, so many of which may be in progress, and not more bytes than are allowed."""
    small, usual, large, too_large = WORK_BYTES
    sequences = [(small,) * 5, (usual,) * 9, (large,) * 6, (too_large,) * 3, (usual, too_large, small, large) * 3]
    sequences += itertools.product(WORK_BYTES, repeat=3)
    for ahead, sizes in itertools.product((0, 1, 4), sequences):
        name = f"work on {sizes}, {ahead} ahead"
        yield Question("work", name, functools.partial(_work_done, ahead, sizes), _work_in_order(ahead, sizes))


def _work_in_order(ahead: int, sizes: tuple[int, ...]) -> list[list[int]]:
    """Return which results there are after each piece was begun, and at the end."""
    found, waiting = list[list[int]](), list[int]()
    for number in range(len(sizes)):
        waiting.append(number)
        given = list[int]()
        while len(waiting) > ahead or sum(sizes[each] for each in waiting) > WORK_BYTES_MAX:
            given.append(waiting.pop(0))
        found.append(given)
    return [*found, waiting]


def _work_done(ahead: int, sizes: tuple[int, ...]) -> list[list[int]]:
    work = InOrder[int](Decoding(start=SYNCHRONOUS.start, ahead_count=ahead))
    found = []
    for number, size_bytes in enumerate(sizes):
        work.begin(functools.partial(int, number), size_bytes)
        found.append([*work.due()])
    return [*found, [*work.rest()]]


def _new_partitions() -> Iterator[Question]:
    """Yield what the header of a new partition says of its filters and its order."""
    columns = [
        TableColumn(id=number, name=f"c{number}", type=kind) for number, kind in ((3, TIMESTAMP), (5, LONG), (6, 26))
    ]
    for timestamp_id, ids, is_external in itertools.product((3, -1), ((), (5,), (6, 3), (4,)), (False, True)):
        filtered = tuple(index for index, column in enumerate(columns) if column.id in ids)
        flags = 4 * (timestamp_id >= 0) + (1 + 2 * is_external if filtered else 0)
        metadata = TableMetadata(columns=tuple(columns), timestamp_id=timestamp_id, partition_by=PartitionBy.DAY)
        made = functools.partial(_new_header, metadata, ids, is_external)
        name = f"a header with filters of {ids}, {'in the file' if is_external else 'in it'}, by {timestamp_id}"
        yield Question("new partitions", name, made, (flags, 0 if timestamp_id >= 0 else -1, filtered))


def _new_header(metadata: TableMetadata, ids: tuple[int, ...], is_external: bool) -> tuple[int, int, tuple[int, ...]]:
    header = new_header(metadata, bloom_ids=ids, blooms_external=is_external)
    return header.feature_flags, header.designated_timestamp, header.bloom_columns
