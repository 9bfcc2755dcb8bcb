"""What Thrift footers say, of small files of which one part is another one, and what they say to other readers."""

from __future__ import annotations

import functools
import io
import itertools
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tornproof.harness.common.new_tables import commit_rows, new_table
from tornproof.harness.common.whose_error import needed, the_only
from tornproof.harness.explorers.model_based.other_footers import (
    GROUPS,
    SCHEMA,
    STATISTICS,
    UNKNOWN_ID,
    with_elements,
    with_footer,
    within,
)
from tornproof.harness.explorers.roundtrip.forms import opened, parquet_of
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, outcome_of
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.chunk.duplicates import NewChunk, duplicate_of, with_duplicate
from tornproof.impl.errors import CorruptError
from tornproof.impl.extension.point import with_extension
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.parquet.encode_options import ColumnOptions, EncodeOptions
from tornproof.impl.parquet.fields import PageEncoding
from tornproof.impl.parquet.footer import ParquetFooter, check_for_others, decode_footer
from tornproof.impl.parquet.thrift import (
    Field,
    Items,
    Kind,
    Known,
    Struct,
    Value,
    encode,
    value_of,
    with_fields,
    without,
)
from tornproof.impl.write.writer_options import WriterOptions

STATISTIC_FIELDS = {
    "deprecated_max": Field(1, Kind.BINARY, b"\1" + bytes(7)),
    "deprecated_min": Field(2, Kind.BINARY, b"\2" + bytes(7)),
    "null_count": Field(3, Kind.I64, 3),
    "distinct_count": Field(4, Kind.I64, 4),
    "max_value": Field(5, Kind.BINARY, b"\5" + bytes(7)),
    "min_value": Field(6, Kind.BINARY, b"\6" + bytes(7)),
    "is_max_value_exact": Field(7, Kind.BOOL, True),
    "is_min_value_exact": Field(8, Kind.BOOL, False),
}
EMPTY = Struct(())
UNITS = {"MILLIS": 1, "MICROS": 2, "NANOS": 3}
UNIT_VALUES: dict[Kind, Value] = {Kind.STRUCT: EMPTY, Kind.I32: 1, Kind.I64: 1, Kind.BINARY: b"x", Kind.BOOL: True}
CHUNK_META = Struct((Field(1, Kind.I32, 5), Field(5, Kind.I64, 77)))
ENCODED = b"encoded"
LOGICAL_TYPE, TIMESTAMP, UNIT = 10, 8, 2
TYPE, CHILD_COUNT = 1, 5
PATH = "table"
LONG_TEXT = "x" * 5_000


def thrift_footers() -> Iterator[Question]:
    """Yield what statistics, schemas, units of times, and records of duplicates say, and which footers are damaged."""
    cases = itertools.chain(_statistics(), _schemas(), _units(), _duplicates(), _indexes(), _wrong_lists())
    for name, found, expected in cases:
        yield Question("Thrift footers", name, found, expected)


def _statistics() -> Iterator[tuple[str, Callable[[], Any], Any]]:
    for name in STATISTIC_FIELDS:
        for has, names in (
            ("nothing but", [name]),
            ("everything but", [each for each in STATISTIC_FIELDS if each != name]),
        ):
            expected = {each: STATISTIC_FIELDS[each].value if each in names else None for each in STATISTIC_FIELDS}
            yield f"statistics that have {has} {name}", functools.partial(_read_statistics, names), expected


def _read_statistics(names: Sequence[str]) -> dict[str, Any]:
    statistics = Struct(tuple(STATISTIC_FIELDS[name] for name in names))
    content = with_footer(_file({"a": pa.int64()}), within(STATISTICS, lambda _: statistics))
    found = opened(content).decoded().row_groups[0].chunks[0].statistics
    return {name: getattr(found, name) for name in STATISTIC_FIELDS}


def _schemas() -> Iterator[tuple[str, Callable[[], Any], Any]]:
    without_groups = functools.partial(_with_list, GROUPS[0], 0)
    no_elements = functools.partial(_with_list, SCHEMA[0], 0)
    one_element = functools.partial(_with_list, SCHEMA[0], 1)
    yield "the leaves of a file without row groups", functools.partial(_leaf_count, [without_groups]), 2
    for words, change in (("no element", no_elements), ("a root alone", one_element)):
        name = f"the leaves of a file without row groups whose schema has {words}"
        yield name, functools.partial(_leaf_count, [without_groups, change]), "CorruptError"
    yield "a footer with one leaf less, after one with the same row group", _leaves_of_two_footers, [2, "CorruptError"]


def _with_list(field_id: int, count: int, footer: Struct) -> Struct:
    return with_elements(footer, field_id, lambda elements: elements[:count])


def _leaf_count(changes: Sequence[Callable[[Struct], Struct]]) -> Any:
    content = _file({"a": pa.int64(), "b": pa.int64()})
    for change in changes:
        content = with_footer(content, change)
    return outcome_of(lambda: len(opened(content).decoded().leaves))


def _leaves_of_two_footers() -> list[Any]:
    """Return how many leaves footers have of which the second one has the second leaf within the first."""
    content = _file({"a": pa.int64(), "b": pa.int64()})
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    nested = with_footer(content, functools.partial(with_elements, field_id=SCHEMA[0], change=_nested))
    needed(len(nested) == len(content), "both footers are of one size")
    known = Known()
    decoded = functools.partial(decode_footer, file=DATA_FILE, offset_bytes=start, known=known)
    return [outcome_of(functools.partial(_count_of, decoded, each[start:-8])) for each in (content, nested)]


def _count_of(decoded: Callable[[bytes], ParquetFooter], footer_bytes: bytes) -> int:
    return len(decoded(footer_bytes).leaves)


def _nested(elements: tuple[Struct, ...]) -> tuple[Struct, ...]:
    root, group, leaf = elements
    one = Field(CHILD_COUNT, Kind.I32, 1)
    return with_fields(root, one), with_fields(without(group, TYPE), one), leaf


def _units() -> Iterator[tuple[str, Callable[[], Any], Any]]:
    for (name, number), kind, is_alone in itertools.product(UNITS.items(), UNIT_VALUES, (True, False)):
        words = f"a unit of times that is {name} as {kind.name}{'' if is_alone else ' beside an unknown field'}"
        found = functools.partial(_unit_for_others, number, kind, is_alone=is_alone)
        yield words, found, "taken" if kind is Kind.STRUCT else "CorruptError"


def _unit_for_others(number: int, kind: Kind, *, is_alone: bool) -> Any:
    others = () if is_alone else (Field(UNKNOWN_ID, Kind.STRUCT, EMPTY),)
    unit = Struct((Field(number, kind, UNIT_VALUES[kind]), *others))
    time = Struct((Field(1, Kind.BOOL, True), Field(UNIT, Kind.STRUCT, unit)))
    logical = Field(LOGICAL_TYPE, Kind.STRUCT, Struct((Field(TIMESTAMP, Kind.STRUCT, time),)))
    change = within(SCHEMA, lambda each: each if value_of(each, LOGICAL_TYPE) is None else with_fields(each, logical))
    footer = opened(with_footer(_file({"t": pa.timestamp("us")}), change)).decoded()

    def judged() -> str:
        check_for_others(footer, file=DATA_FILE)
        return "taken"

    return outcome_of(judged)


def _duplicates() -> Iterator[tuple[str, Callable[[], Any], Any]]:
    for words, extended in (
        ("none", _as_it_is),
        ("that of another program", _with_foreign_extension),
        ("an own one", _with_own_extension),
    ):
        name = f"the record of a duplicate in metadata of which the extension was {words}"
        expected = [40, len(ENCODED), zlib.crc32(ENCODED), zlib.crc32(encode(CHUNK_META))]
        yield name, functools.partial(_recorded, extended), expected


def _wrong_lists() -> Iterator[tuple[str, Callable[[], Any], Any]]:
    for kind, value in ((Kind.I32, 7), (Kind.BINARY, b"x")):
        name = f"what is said of a footer whose row groups are a list of {kind.name}"
        yield (
            name,
            functools.partial(_said_of_groups, Field(4, Kind.LIST, Items(kind, (value,)))),
            f"LIST of wire type {kind}",
        )
    yield "what is said of a footer without row groups", functools.partial(_said_of_groups, None), "none"


def _said_of_groups(field: Field | None) -> str | None:
    """Return what a file has instead of the list of its row groups, by the error."""
    thrift = opened(parquet_of(pa.table({"a": [1]}))).thrift()
    tree = decode_footer(thrift, file=DATA_FILE, offset_bytes=0).tree
    changed = without(tree, 4) if field is None else with_fields(tree, field)
    try:
        decode_footer(encode(changed), file=DATA_FILE, offset_bytes=0)
    except CorruptError as error:
        return error.problem.actual
    return None


def _as_it_is(meta: Struct) -> Struct:
    return meta


def _with_foreign_extension(meta: Struct) -> Struct:
    return with_extension(meta, b"other")


def _with_own_extension(meta: Struct) -> Struct:
    return with_duplicate(meta, NewChunk.of(b"before", PageEncoding.ALP), 8)


def _recorded(extended: Callable[[Struct], Struct]) -> Any:
    def found() -> list[int]:
        meta = with_duplicate(extended(CHUNK_META), NewChunk.of(ENCODED, PageEncoding.ALP), 40)
        record = duplicate_of(meta, file=DATA_FILE).record
        needed(record is not None, "there is a record")
        assert record is not None
        return [record.chunk_offset, record.chunk_length, record.chunk_crc, record.meta_crc]

    return outcome_of(found)


def _indexes() -> Iterator[tuple[str, Callable[[], Any], Any]]:
    for words, columns, texts, expected in (
        ("with bounds", {}, ["a", "b"], {"ts": True, "n": True, "t": True}),
        (
            "of which one is without",
            {"n": ColumnOptions(statistics=False)},
            ["a", "b"],
            {"ts": True, "n": False, "t": True},
        ),
        ("of which one has long texts", {}, ["a", LONG_TEXT], {"ts": True, "n": True, "t": False}),
    ):
        name = f"which columns have a column index for other readers, of columns {words}"
        yield name, functools.partial(_indexed, columns, texts), expected


def _indexed(columns: dict[str, ColumnOptions], texts: list[str]) -> dict[str, bool]:
    storage = MemoryStorage()
    new_table(storage, PATH, {"ts": "TIMESTAMP", "n": "LONG", "t": "VARCHAR"})
    options = WriterOptions(encoding=EncodeOptions(columns=columns, page_index=True))
    rows = pa.table({"ts": [FIRST_TIME, FIRST_TIME + 1], "n": [1, 2], "t": texts})
    commit_rows(storage, PATH, rows, options=options)
    content = the_only(each for path, each in storage.image().files.items() if path.endswith(DATA_FILE))
    group = pq.ParquetFile(io.BytesIO(content)).metadata.row_group(0)
    chunks = [group.column(number) for number in range(group.num_columns)]
    return {chunk.path_in_schema: chunk.has_column_index for chunk in chunks}


def _file(columns: dict[str, pa.DataType]) -> bytes:
    rows = pa.table({name: pa.array([1], pa.int64()).cast(of) for name, of in columns.items()})
    return parquet_of(rows)
