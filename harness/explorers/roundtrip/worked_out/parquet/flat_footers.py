"""What a FlatBuffers footer states of minima and maxima, dictionaries and nested columns, by its schema."""

from __future__ import annotations

import functools
import io
import itertools
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tornproof.harness.common.patch import replaced
from tornproof.harness.explorers.model_based.other_footers import (
    CHUNK_FACTS,
    SCHEMA,
    Change,
    with_fields_of,
    with_footer,
    within,
)
from tornproof.harness.explorers.model_based.other_footers import GROUPS as ROW_GROUPS
from tornproof.harness.explorers.roundtrip.forms import in_form, opened, parquet_of, unaligned
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask, outcome_of
from tornproof.impl.chunk.duplicates import ChunkForm
from tornproof.impl.extension import parquet3_generated as schema
from tornproof.impl.extension.bounds import Bound, packed_bounds, unpacked_bound
from tornproof.impl.extension.decode import FlatFooter
from tornproof.impl.extension.encode import flatbuffer_of
from tornproof.impl.extension.point import HeaderForm
from tornproof.impl.layout.parquet import FooterForm
from tornproof.impl.parquet.thrift import (
    Field,
    Kind,
    Struct,
    encode,
    struct_list,
    structs_in,
    value_of,
    with_fields,
    without,
)
from tornproof.impl.types.physical import PhysicalType

STATED_BYTES_MAX = 16
ENDS = (b"", b"a", b"a" * 8, b"\0" * 9, b"a" * 15, b"\xff" * 15, b"a" * 16, b"\xff" * 16, b"a" * 17, b"\xff" * 17)
STARTS = (b"", b"\0", b"prefix", b"a prefix that is longer than a bound may be")
WORDS = {"INT32": (4, 0), "FLOAT": (4, 0), "INT64": (0, 8), "DOUBLE": (0, 8), "INT96": (4, 8)}
"""How many bytes of a value are in the word of four bytes, and behind them in that of eight."""

DICTIONARY_BYTES = 400
"""Of a dictionary that has room for some of the texts."""
LOGICAL_TYPE, ORDINAL, NUM_VALUES = 10, 7, 5
"""The fields of an element of the schema, of a row group, and of a chunk's facts."""
LOGICAL_MEMBERS = (*range(11, 14), *range(16, 24))
"""Of the union of logical types, those that need no members, and those that the schema of FlatBuffers may not have."""
GROUPS = {"lists": 3, "maps": 2, "key": 1, "decimals": 5}
"""The members of the union of logical types: lists, maps, texts and decimals."""
ENCODING_STATS, DICTIONARY_PAGE = 13, 2
"""The field of a chunk's facts that counts pages by kind and encoding, and a kind."""
DICTIONARY_PAGE_OFFSET, MAGIC_BYTES = 11, 4
"""The field of a chunk's facts, and where the first chunk begins."""
NUM_ROWS, STATISTICS_FIELD = 3, 12
"""The fields of a footer and of a chunk's facts."""
FLAT_FORMS = (FooterForm.PRIVATE, FooterForm.MIGRATION, FooterForm.FINAL)
HEADERS = {HeaderForm.PLAIN: bytes.fromhex("08ffff01"), HeaderForm.ZIGZAG: bytes.fromhex("08feff03")}
"""The bytes of the type and of the id 32767, as Parquet documents them and as Thrift's compact protocol has them."""
ROW_COUNTS = (0, 1, (1 << 31) - 1, 1 << 31, (1 << 32) + 1, (1 << 62) + 3)
FILE = "data.parquet"

Stated = tuple[int, int, int, int] | None
"""The words of four bytes, of the low and of the high eight, and the length."""


def flat_bounds() -> Iterator[Question]:
    """Yield both bounds of texts and numbers, each of which is a value or a limit, or is not there."""
    pairs, exactness = itertools.product((None, *ENDS), repeat=2), itertools.product((False, True), repeat=2)
    for start, differ, ends, are_exact in itertools.product(STARTS, (b"", b"-+"), pairs, exactness):
        bounds = [
            None if end is None else Bound(start + differ[place : place + 1] + end, is_exact)
            for place, (end, is_exact) in enumerate(zip(ends, are_exact, strict=True))
        ]
        yield _question(PhysicalType.BYTE_ARRAY, bounds, _of_texts(bounds))
    for name, (few, more) in WORDS.items():
        for size_bytes, is_exact in itertools.product((few + more - 1, few + more, few + more + 1), (False, True)):
            value = bytes(range(1, size_bytes + 1))
            little = [int.from_bytes(each, "little") for each in (value[:few], value[few:])]
            length = size_bytes if is_exact else -size_bytes
            stated = (*little, 0, length) if size_bytes == few + more else None
            yield _question(PhysicalType[name], [Bound(value, is_exact), None], ([stated, None], b""))


def flat_dictionaries() -> Iterator[Question]:
    """Yield chunks of texts, and whether a dictionary has all of them, so that readers need not look at the pages."""
    for words, is_used, limit_bytes, expected in (
        ("in a dictionary", True, 1 << 20, True),
        ("of which some are in a dictionary", True, DICTIONARY_BYTES, False),
        ("without a dictionary", False, 1 << 20, False),
    ):
        found = functools.partial(_is_fully_in_dictionary, _texts(is_used, limit_bytes))
        yield Question("dictionaries in FlatBuffers", f"whether all texts {words} are in one", found, expected)
    for words, kept in (("no page", ()), ("the dictionary's page", (DICTIONARY_PAGE,))):
        content = with_footer(_texts(True, 1 << 20), within(CHUNK_FACTS, functools.partial(_with_pages, kept)))
        name = f"whether all texts are in a dictionary whose footer names {words} alone"
        yield ask("dictionaries in FlatBuffers", name, False, _is_fully_in_dictionary, content)
    with_dictionary, without_one = (_texts(is_used, 1 << 20) for is_used in (True, False))
    no_dictionary = Field(DICTIONARY_PAGE_OFFSET, Kind.I64, 0)
    at_zero = with_fields_of(without_one, CHUNK_FACTS, no_dictionary)
    for words, content in (
        ("with a dictionary", with_dictionary),
        ("without one", without_one),
        ("with one at byte 0, which is none,", at_zero),
    ):
        yield ask("dictionaries in FlatBuffers", f"where a chunk {words} begins", MAGIC_BYTES, _start_of_chunk, content)


def _with_pages(kept: tuple[int, ...], facts: Struct) -> Struct:
    """Return the facts of a chunk with those entries on its pages that are of some kinds of pages."""
    pages = [each for each in structs_in(facts, ENCODING_STATS) if value_of(each, 1) in kept]
    return with_fields(facts, struct_list(ENCODING_STATS, pages))


def _texts(is_used: bool, limit_bytes: int) -> bytes:
    rows = pa.table({"t": [f"text {number % 500}" for number in range(2_000)]})
    pages: dict[str, Any] = {"store_schema": True, "data_page_size": 500, "write_batch_size": 50}
    return parquet_of(rows, use_dictionary=is_used, dictionary_pagesize_limit=limit_bytes, **pages)


def _start_of_chunk(content: bytes) -> int:
    return _flat(content).chunk(0, 0).start_bytes


def _is_fully_in_dictionary(content: bytes) -> bool:
    return _flat(content).chunk(0, 0).is_fully_dict_encoded


def flat_groups() -> Iterator[Question]:
    """Yield lists and maps, with their logical types and with the older annotations alone, and their logical types."""
    rows = pa.table(
        {
            "lists": pa.array([[1]], pa.list_(pa.int64())),
            "maps": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
            "decimals": pa.array([Decimal("12.34")], pa.decimal128(9, 2)),
        }
    )
    newer = parquet_of(rows, store_decimal_as_integer=True)
    older = with_footer(newer, within(SCHEMA, lambda element: without(element, LOGICAL_TYPE)))
    for words, content in (("logical types", newer), ("older annotations alone", older)):
        yield ask("groups in FlatBuffers", f"the logical types of groups with {words}", GROUPS, _logical_types, content)

    facts, texts = {"empty": "", "": "of no name", "a": "b"}, io.BytesIO()
    with pq.ParquetWriter(texts, rows.schema, store_schema=False) as writer:
        writer.add_key_value_metadata(facts)
    stated = functools.partial(_key_values, texts.getvalue())
    yield Question("groups in FlatBuffers", "keys and values of which some are empty", stated, [*facts.items()])

    empty = io.BytesIO()
    pq.ParquetWriter(empty, rows.schema).close()
    count = functools.partial(_row_group_count, empty.getvalue())
    yield Question("groups in FlatBuffers", "how many row groups a file without any has", count, 0)


def restored() -> Iterator[Question]:
    """Yield files with many row groups, and with one chunk that is unlike the others, and whether Thrift comes back."""
    few = pa.table({name: [0.5, 1.5, 2.5] for name in ("a", "b", "c")})
    of_few = parquet_of(few)
    for member in LOGICAL_MEMBERS:
        kind = Field(LOGICAL_TYPE, Kind.STRUCT, Struct((Field(member, Kind.STRUCT, Struct(())),)))
        content = with_fields_of(of_few, SCHEMA, kind)
        yield ask("restored", f"a footer of columns of the logical type {member}", True, _comes_back, content)
    wide = parquet_of(pa.table({f"column {number:030}": [number] for number in range(500)}))
    yield ask("restored", "a footer of more than 64 KiB", True, _comes_back, wide)
    for size_bytes in (0, 1, 8):
        words = f"whether another footer is made of one with {size_bytes} bytes behind it"
        yield ask("restored", words, "UnsupportedError" if size_bytes else True, _is_made, of_few, bytes(size_bytes))
    for at, is_flat in itertools.product(((0, 0), (0, 2), (0, 3), (1, 0), (7, 7)), (False, True)):
        expected = "values" if at[0] < 1 and at[1] < 3 else "IndexError"
        words = f"what is said of column {at[1]} of row group {at[0]}, {'' if is_flat else 'not '}in FlatBuffers"
        yield ask("restored", words, expected, _chunk_at, of_few, at, is_flat=is_flat)
    for words, rows in (("200 row groups", pa.table({"a": range(200)})), ("9 chunks", few)):
        content = parquet_of(rows, row_group_size=1, write_page_index=True)
        content = with_footer(content, within(ROW_GROUPS, _numbering()))
        yield ask("restored", f"a footer of {words}", True, _comes_back, content)
        for place in range(0, len(rows.column_names) * 3, 4):
            changed = with_footer(content, within(CHUNK_FACTS, _twice_at(place)))
            words_of_place = f"a footer of {words}, of which chunk {place} has two counts of values"
            yield ask("restored", words_of_place, True, _comes_back, changed)


def flat_files() -> Iterator[Question]:
    """Yield files of other sizes and counts in FlatBuffers: where numbers are, how many rows, and which header."""
    for same_bytes, column_count in itertools.product(range(9), range(1, 4)):
        texts = ["a" * same_bytes + each for each in ("b", "c" * 20)]
        of_texts = parquet_of(pa.table({f"{number}": texts for number in range(column_count)}))
        words = (
            f"numbers that are not aligned, in a footer of {column_count} columns that begin with {same_bytes} letters"
        )
        for form in FLAT_FORMS:
            yield ask("flat files", f"{words}, {form}", [], _unaligned_in, of_texts, form)
    of_one = parquet_of(pa.table({"a": [1]}))
    for count in ROW_COUNTS:
        row_count = Field(NUM_ROWS, Kind.I64, count)
        content = with_fields_of(of_one, (), row_count)
        yield ask("flat files", f"a footer of {count} rows", count, _stated_rows, content)
    for form, header in itertools.product((FooterForm.PRIVATE, FooterForm.MIGRATION), HEADERS):
        has_header = functools.partial(_has_header, of_one, form, header)
        yield Question("flat files", f"the header {header.name} of an extension, {form}", has_header, True)
    for header, stored in HEADERS.items():
        words = f"the header {header.name} before a field that is encoded alone"
        yield ask("flat files", words, stored, _encoded_header, header, len(stored))
    for words, fields in (("none", ()), ("a count of different values alone", (Field(4, Kind.I64, 1),))):
        statistics = Field(STATISTICS_FIELD, Kind.STRUCT, Struct(fields))
        content = with_fields_of(of_one, CHUNK_FACTS, statistics)
        name = f"whether a chunk has statistics, of which there is {words}"
        yield ask("flat files", name, bool(fields), _has_statistics, content)
    for has_deprecated, has_low, has_high, value in itertools.product(*[(False, True)] * 3, (0, 9)):
        numbers = {
            **({1: 7, 2: 3} if has_deprecated else {}),
            **({6: value} if has_low else {}),
            **({5: 9} if has_high else {}),
        }
        words = f"the bounds of a chunk whose statistics have the fields {[*numbers]}, the lower one {value}"
        expected_bounds = value if has_low else None, 9 if has_high else None
        binaries = [Field(number, Kind.BINARY, stated.to_bytes(8, "little")) for number, stated in numbers.items()]
        statistics = Field(STATISTICS_FIELD, Kind.STRUCT, Struct(tuple(binaries)))
        content = with_fields_of(of_one, CHUNK_FACTS, statistics)
        yield ask("flat files", words, expected_bounds, _bounds_in, content)
    for size_bytes, expected in ((1, "CorruptError"), (1 << 20, "bytes")):
        restored_of = functools.partial(_restored, of_one, size_bytes)
        yield Question("flat files", f"a Thrift footer restored of at most {size_bytes} bytes", restored_of, expected)


def _unaligned_in(content: bytes, form: FooterForm) -> list[str]:
    return unaligned(in_form(content, form, ChunkForm.OLD))


def _stated_rows(content: bytes) -> int:
    return int(_flat(content).row_count)


def _has_statistics(content: bytes) -> bool:
    root = _root(content)
    return root.RowGroups(0).Columns(0).MetaData().Statistics() is not None


def _bounds_in(content: bytes) -> tuple[int | None, int | None]:
    """Return the minimum and the maximum of the first chunk, which has integers."""
    stated = _root(content).RowGroups(0).Columns(0).MetaData().Statistics()
    if stated is None:
        return None, None
    low = None if stated.MinLen() is None else int(stated.MinLo8())
    return low, None if stated.MaxLen() is None else int(stated.MaxLo8())


def _has_header(content: bytes, form: FooterForm, header: HeaderForm) -> bool:
    """Return whether a changed file has the bytes of this header alone before its extension."""
    changed = in_form(content, form, ChunkForm.OLD, header)
    return [each for each in HEADERS if HEADERS[each] in changed] == [header]


def _encoded_header(header: HeaderForm, size_bytes: int) -> bytes:
    return encode(Struct((header.field(b"content"),)))[:size_bytes]


def _restored(content: bytes, size_bytes_max: int) -> str:
    with replaced("tornproof.impl.extension.decode:THRIFT_SIZE_MAX_BYTES", size_bytes_max):
        return str(outcome_of(lambda: type(_flat(content).thrift()).__name__))


def _chunk_at(content: bytes, place: tuple[int, int], *, is_flat: bool) -> str:
    if is_flat:
        content = in_form(content, FooterForm.FINAL, ChunkForm.OLD)
    try:
        return "values" if opened(content).chunk(*place).num_values else "nothing"
    except IndexError as error:
        return type(error).__name__


def _numbering() -> Change:
    """Return a change that gives each row group its number."""
    numbers = itertools.count()
    return lambda group: with_fields(group, Field(ORDINAL, Kind.I16, next(numbers)))


def _twice_at(place: int) -> Change:
    """Return a change that gives one chunk two counts of values, which no skeleton gives back."""
    places = itertools.count()

    def change(facts: Struct) -> Struct:
        return Struct((*facts.fields, Field(NUM_VALUES, Kind.I64, 0))) if next(places) == place else facts

    return change


def _comes_back(content: bytes) -> bool:
    thrift = opened(content).thrift()
    return FlatFooter(flatbuffer_of(thrift, file=FILE), file=FILE).thrift() == thrift


def _is_made(content: bytes, behind: bytes) -> Any:
    thrift = opened(content).thrift() + behind
    return outcome_of(lambda: bool(flatbuffer_of(thrift, file=FILE)))


def _row_group_count(content: bytes) -> int:
    return _flat(content).row_group_count


def _key_values(content: bytes) -> list[tuple[str | None, ...]]:
    root = _root(content)
    found = [root.Kv(number) for number in range(root.KvLength())]
    return [tuple(None if text is None else text.decode() for text in (each.Key(), each.Val())) for each in found]


def _logical_types(content: bytes) -> dict[str, int]:
    root = _root(content)
    elements = [root.Schema(number) for number in range(root.SchemaLength())]
    found = {each.Name().decode(): each.LogicalTypeType() for each in elements}
    return {name: kind for name, kind in found.items() if kind}


def _flatbuffer(content: bytes) -> bytes:
    return flatbuffer_of(opened(content).thrift(), file=FILE)


def _root(content: bytes) -> Any:
    return schema.FileMetaData.GetRootAs(_flatbuffer(content), 0)


def _flat(content: bytes) -> FlatFooter:
    return FlatFooter(_flatbuffer(content), file=FILE)


def _question(physical_type: PhysicalType, bounds: list[Bound | None], expected: Any) -> Question:
    words = " to ".join("none" if each is None else f"{each.value!r} ({each.is_exact})" for each in bounds)
    found = functools.partial(_stated, physical_type, bounds)
    return Question("bounds in FlatBuffers", f"{words} of {physical_type.name}", found, expected)


def _of_texts(bounds: list[Bound | None]) -> tuple[list[Stated], bytes]:
    """Return what is stated of texts, of which at most 16 bytes are behind what both begin with."""
    values = [each.value for each in bounds if each is not None]
    common = 0
    while len(values) > 1 and all(len(value) > common for value in values) and values[0][common] == values[1][common]:
        common += 1
    return [_of_text(each, common, place) for place, each in enumerate(bounds)], values[0][:common] if common else b""


def _of_text(bound: Bound | None, common: int, place: int) -> Stated:
    if bound is None:
        return None
    rest, is_exact = bound.value[common:], bound.is_exact
    if len(rest) > STATED_BYTES_MAX:
        # What is cut is a limit, and one above must not be below the text.
        digits, is_exact = [*rest[:STATED_BYTES_MAX]], False
        while place and digits and digits[-1] == 255:
            digits.pop()
        if not digits:
            return None
        digits[-1] += place
        rest = bytes(digits).ljust(STATED_BYTES_MAX, b"\0")
    if not rest and not is_exact:
        return None
    number = sum(digit << 8 * power for power, digit in enumerate(reversed(rest)))
    return 0, number % (1 << 64), number >> 64, len(rest) if is_exact else -len(rest)


def _stated(physical_type: PhysicalType, bounds: list[Bound | None]) -> Any:
    """Return both bounds and the prefix in the fields of the schema, if they are read again as they are stated."""
    packed = packed_bounds(physical_type, *bounds)
    for stated, bound in zip(packed[:2], bounds, strict=True):
        again = None if stated is None else unpacked_bound(physical_type, stated, packed.prefix)
        if stated is not None and again != bound and not (again and bound and not again.is_exact):
            return f"{bound} is read as {again}"
    return [None if each is None else tuple(each) for each in packed[:2]], packed.prefix
