"""Types of columns: their numbers, their bounds, and their forms in Parquet."""

from __future__ import annotations

import functools
import io
import itertools
import json
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tornproof.harness.common.made_rows import rows_for
from tornproof.harness.common.new_tables import commit_rows, new_table
from tornproof.harness.common.whose_error import the_only
from tornproof.harness.explorers.corruption import every_type
from tornproof.harness.explorers.roundtrip.metadata.metadata_rules import Bounds, bounds_of_types, proven
from tornproof.harness.explorers.roundtrip.metadata.usual_records import column_of
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.chunk.chunk import leaf_of
from tornproof.impl.chunk.metadata import Leaf
from tornproof.impl.errors import RowsRejectedError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.parquet.fields import Codec, ConvertedType, PageEncoding, PageType, Repetition
from tornproof.impl.parquet.thrift import Kind
from tornproof.impl.pm.header import Column
from tornproof.impl.table.symbols import SymbolTable
from tornproof.impl.types import names
from tornproof.impl.types.arrow import arrow_type
from tornproof.impl.types.physical import PhysicalType
from tornproof.impl.write.stored_arrays import stored_array

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
ROOTS = {"table": "table", "Table": "Table", "GRÖSSEN ßA": "GRÖSSEN ßA", "a/B_c": "B_c", "B_c~12": "B_c"}
"""Names of tables by their directories, to which servers append ~ and a number where there is a write-ahead log."""
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
DECIMAL_FORMS = {"INT32", "INT64", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"}
LEVELS = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (2, 5), (2, 6))
"""The highest levels of repetition and definition of a column."""
NEVER_NULL = {"BOOLEAN", "BYTE", "SHORT", "CHAR"}


def types() -> Iterator[Question]:
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
    for digits in (2, 20, 38, 39, 76):
        found = functools.partial(arrow_type, 33 | digits << 8 | 2 << 18, physical_type=7, fixed_byte_len=32)
        yield Question("Arrow types", f"the Arrow type of 32 bytes of {digits} digits", found, pa.decimal256(digits, 2))
    for name, code in codes.items():
        yield ask("types", f"the type {name}", code, names.type_code, name)
        if code is not None:
            shown = "IPv4" if name == "IPV4" else name
            yield ask("type names", f"the name of the type {code}", shown, names.type_name, code)
    for name, code in (("TIMESTAMP", 8), ("TIMESTAMP_NS", 8 | 1 << 18)):
        yield ask("type names", f"the name of the designated {name}", name, names.type_name, code | 1 << 17)
    for words in ("DECIMAL(18, 1)", "decimal( 18 , 1 )", "Decimal(18 ,1)"):
        yield ask("types", f"the type {words}", codes["DECIMAL(18,1)"], names.type_code, words)
    for digits, bits in ((1, 5), (3, 15), (6, 30), (12, 60)):
        of = functools.partial(names.type_code, f"geohash({digits}c)")
        yield Question("geohashes", f"a geohash of {digits} digits", of, codes[f"GEOHASH({bits}b)"])


def bounds() -> Iterator[Question]:
    """Yield what bounds of each type prove; of INT and LONG, one alone may be that of unsigned numbers.

    A maximum of BINARY proves nothing, so that it is not below a minimum, and neither does a minimum of texts.
    """
    for each in bounds_of_types():
        low, high = each.values or (None, None)
        may_be_unsigned = each.name in ("INT", "LONG")
        for words, given, expected in (
            ("both bounds", (each.low, each.high), (low, high)),
            ("one value as both bounds", (each.high, each.high), (high, high)),
            ("both bounds, exchanged,", (each.high, each.low), (None if each.has_maximum else high, None)),
            ("its minimum alone", (each.low, None), (low, None)),
            ("its maximum alone", (None, each.high), (None, high)),
            ("its maximum alone as the minimum", (each.high, None), (None if may_be_unsigned else high, None)),
            ("its minimum alone as the maximum", (None, each.low), (None, None if may_be_unsigned else low)),
            ("no bound", (None, None), (None, None)),
        ):
            name = f"what {words} of {each.name} prove"
            right = _of_any_server(each, *(expected if each.has_maximum else (expected[0], None)))
            yield ask("bounds", name, right, proven, each, *given)


def _of_any_server(each: Bounds, low: Any, high: Any) -> tuple[Any, Any]:
    """Return what of bounds is also true where an earlier server made them of those of pages."""
    if each.physical == PhysicalType.BYTE_ARRAY:
        # Texts that begin with the maximum may be there, and no text has this byte.
        return None, None if high is None else high + b"\xff"
    if not each.name.endswith("IPv4"):
        return low, high
    half = 1 << 31
    return None if low is None or low >= half else low, None if high is None or high < half else high


def enumerations() -> Iterator[Question]:
    """Yield the numbers of the enumerations of Parquet's metadata and of Thrift."""
    for of, spelled in ENUMERATIONS.items():
        expected = {name: number for number, name in enumerate(spelled.split()) if name != "-"}
        found = functools.partial(lambda members: {each.name: int(each) for each in members}, of)
        yield Question("enumerations", f"the numbers of {of.__name__}", found, expected)


def parquet_forms() -> Iterator[Question]:
    """Yield how columns of every type are declared in a file that our writer makes, and how the root is called."""
    for number, of in enumerate(every_type.TYPES):
        # The first one is the designated timestamp.
        is_required = number == 0 or of in NEVER_NULL
        expected = f"c{number} {number} {PARQUET_FORMS[of]} {'required' if is_required else 'optional'}"
        yield ask("Parquet forms", f"a column of the type {of}", expected, _parquet_form, number)
        yield ask("JSON of footers", f"a column of the type {of}", _told_column(number, of), _told_by_json, number)
    for path, name in ROOTS.items():
        yield ask("Parquet forms", f"the root of the schema in a new table at {path}", name, _root_name, path)
    for renamed in ("new", "GRÖSSEN ßA", "a~1"):
        question = f"the root of the schema in a table that was renamed to {renamed}"
        yield ask("Parquet forms", question, renamed, _root_name, "old~1", renamed)


def readable_forms() -> Iterator[Question]:
    """Yield columns of each type in each physical form and with some levels, and whether each is read and written."""
    decimals = dict.fromkeys((name for name in PARQUET_FORMS if name.startswith("DECIMAL")), DECIMAL_FORMS)
    others = {"DATE": {"INT32"}, "TIMESTAMP": {"INT96"}, "TIMESTAMP_NS": {"INT96"}, **decimals}
    for of, form in PARQUET_FORMS.items():
        own, length, *_ = form.split()
        code = names.type_code(of)
        assert code is not None, of
        dimensions = of.count("[]")
        for physical, fixed_bytes, levels in itertools.product(PhysicalType, sorted({0, 5, int(length)}), LEVELS):
            is_whole = of not in ("UUID", "LONG128", "LONG256") or fixed_bytes == int(length)
            is_plain = physical.name in {own} | others.get(of, set()) and is_whole and levels in ((0, 0), (0, 1))
            is_list = bool(dimensions) and physical is PhysicalType.DOUBLE
            # Each list may be null, or only the outer one; each element may be.
            is_nested = is_list and levels in ((dimensions, 2 * dimensions + 1), (dimensions, dimensions + 2))
            of_levels = {"max_rep_level": levels[0], "max_def_level": levels[1]}
            column = column_of(code, physical, fixed_byte_len=fixed_bytes, **of_levels)
            words = f"a column of the type {of} as {physical.name} of {fixed_bytes} bytes with the levels {levels}"
            yield ask("readable forms", words, is_plain or is_nested, _is_readable, column)
            is_own = (physical.name, fixed_bytes) == (own, int(length)) and levels in ((0, 0), (0, 1))
            yield ask("writable forms", words, is_own, _is_writable, column)


def _is_readable(column: Column) -> bool:
    return isinstance(leaf_of(column), Leaf)


def _is_writable(column: Column) -> bool:
    of = arrow_type(column.type, physical_type=column.physical_type, fixed_byte_len=column.fixed_byte_len)
    try:
        stored_array(pa.array([], of), column, symbols=SymbolTable(()))
    except RowsRejectedError:
        return False
    return True


def _file_of_every_type() -> pq.ParquetFile:
    image = every_type.image_of_every_type()
    return pq.ParquetFile(io.BytesIO(next(image.files[path] for path in image.files if path.endswith(DATA_FILE))))


def _root_name(path: str, renamed: str | None = None) -> str:
    """Return the name of the group that has all columns."""
    storage = MemoryStorage.of(DiskImage({}, frozenset({"a"})))
    table = new_table(storage, path, {"ts": "TIMESTAMP"})
    if renamed is not None:
        content = len(renamed).to_bytes(4, "little") + renamed.encode("utf-16-le")
        storage = MemoryStorage.of(storage.image().with_file(f"{path}/_name", content))
    commit_rows(storage, path, rows_for(table, [FIRST_TIME], seed=0))
    content = the_only(content for name, content in storage.image().files.items() if name.endswith(DATA_FILE))
    _, root, *_ = str(pq.ParquetFile(io.BytesIO(content)).schema).splitlines()
    return root.removeprefix("required group field_id=-1 ").removesuffix(" {")


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
