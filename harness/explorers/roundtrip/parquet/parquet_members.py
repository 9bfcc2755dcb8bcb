"""Whether the structs of Parquet's metadata are read by their declarations: which members they have, and of what.

The declarations are those of [parquet.thrift](https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift),
with the numbers that may not be negative marked, and structs are read by them a second time here.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from tornproof.harness.common.patch import Controls, not_noticed, original_of
from tornproof.harness.explorers.roundtrip.parquet.thrift_forms import (
    FALSE,
    INTEGER_KINDS,
    KINDS,
    STRUCT,
    TRUE,
    Made,
    Members,
    binary,
    byte,
    items,
    number,
    struct,
    written_bytes,
)
from tornproof.impl.parquet import fields
from tornproof.impl.parquet.pages import quick_read
from tornproof.impl.parquet.records import Table, make, read
from tornproof.impl.parquet.thrift import BrokenError, Items, Padded, Struct, Value, encode

PROPERTY = "structs of Parquet's metadata are read by their declarations"
DECLARATIONS = """
DECIMAL_TYPE 1 scale i32!, 2 precision i32!
TIME_UNIT 1 MILLIS {}, 2 MICROS {}, 3 NANOS {}
TIME_TYPE 1 is_adjusted_to_utc bool!, 2 unit TIME_UNIT!
INTEGER_TYPE 1 bit_width u8!, 2 is_signed bool!
LOGICAL_TYPE 1 STRING {}, 2 MAP {}, 3 LIST {}, 4 ENUM {}, 5 DECIMAL DECIMAL_TYPE, 6 DATE {}, 7 TIME TIME_TYPE, \
 8 TIMESTAMP TIME_TYPE, 10 INTEGER INTEGER_TYPE, 11 UNKNOWN {}, 12 JSON {}, 13 BSON {}, 14 UUID {}, 15 FLOAT16 {}, \
 16 VARIANT {}, 17 GEOMETRY {}, 18 GEOGRAPHY {}, 19 VECTOR {}
SCHEMA_ELEMENT 1 type enum7, 2 type_length size32, 3 repetition_type enum2, 4 name text!, 5 num_children size32, \
 6 converted_type i32, 7 scale i32, 8 precision i32, 9 field_id i32, 10 logical_type ~LOGICAL_TYPE, 11 vector_length i32
SIZE_STATISTICS 1 unencoded_byte_array_data_bytes i64, 2 repetition_level_histogram ~[i64], \
 3 definition_level_histogram ~[i64]
STATISTICS 1 max bytes, 2 min bytes, 3 null_count count64, 4 distinct_count count64, 5 max_value bytes, \
 6 min_value bytes, 7 is_max_value_exact bool, 8 is_min_value_exact bool, 9 nan_count count64
KEY_VALUE 1 key text!, 2 value text
SORTING_COLUMN 1 column_index i32!, 2 descending bool!, 3 nulls_first bool!
PAGE_ENCODING_STATS 1 page_type i32!, 2 encoding i32!, 3 count i32!
COLUMN_META_DATA 1 type i32!, 2 encodings [i32]!, 3 path_in_schema [text]!, 4 codec enum7!, 5 num_values count64!, \
 6 total_uncompressed_size count64!, 7 total_compressed_size size64!, 8 key_value_metadata ~[KEY_VALUE], \
 9 data_page_offset size64!, 10 index_page_offset size64, 11 dictionary_page_offset size64, 12 statistics STATISTICS, \
 13 encoding_stats ~[PAGE_ENCODING_STATS], 14 bloom_filter_offset count64, 15 bloom_filter_length count32, \
 16 size_statistics ~SIZE_STATISTICS, 17 geospatial_statistics {}
ENCRYPTION_WITH_COLUMN_KEY 1 path_in_schema [text]!, 2 key_metadata bytes
COLUMN_CRYPTO_META_DATA 1 ENCRYPTION_WITH_FOOTER_KEY {}, 2 ENCRYPTION_WITH_COLUMN_KEY ENCRYPTION_WITH_COLUMN_KEY
AES_GCM 1 aad_prefix bytes, 2 aad_file_unique bytes, 3 supply_aad_prefix bool
ENCRYPTION_ALGORITHM 1 AES_GCM_V1 AES_GCM, 2 AES_GCM_CTR_V1 AES_GCM
COLUMN_CHUNK 1 file_path text, 2 file_offset i64!, 3 meta_data COLUMN_META_DATA!, 4 offset_index_offset count64, \
 5 offset_index_length count32, 6 column_index_offset count64, 7 column_index_length count32, \
 8 crypto_metadata ~COLUMN_CRYPTO_META_DATA, 9 encrypted_column_metadata bytes
ROW_GROUP 1 columns [COLUMN_CHUNK]!, 2 total_byte_size size64!, 3 num_rows size64!, \
 4 sorting_columns [SORTING_COLUMN], 5 file_offset i64, 6 total_compressed_size i64, 7 ordinal i16
COLUMN_ORDER 1 TYPE_ORDER {}, 2 IEEE_754_TOTAL_ORDER {}, 3 INT96_TIMESTAMP_ORDER {}
FILE_META_DATA 1 version i32!, 2 schema [SCHEMA_ELEMENT]!, 3 num_rows size64!, 4 row_groups [ROW_GROUP]!, \
 5 key_value_metadata [KEY_VALUE], 6 created_by text, 7 column_orders ~[COLUMN_ORDER], \
 8 encryption_algorithm ~ENCRYPTION_ALGORITHM, 9 footer_signing_key_metadata bytes
DATA_PAGE_HEADER 1 num_values size32!, 2 encoding i32!, 3 definition_level_encoding i32!, \
 4 repetition_level_encoding i32!, 5 statistics ~STATISTICS
DICTIONARY_PAGE_HEADER 1 num_values size32!, 2 encoding i32!, 3 is_sorted bool
DATA_PAGE_HEADER_V2 1 num_values size32!, 2 num_nulls size32!, 3 num_rows size32!, 4 encoding i32!, \
 5 definition_levels_byte_length size32!, 6 repetition_levels_byte_length size32!, 7 is_compressed bool, \
 8 statistics ~STATISTICS
PAGE_HEADER 1 type enum3!, 2 uncompressed_page_size size32!, 3 compressed_page_size size32!, 4 crc i32, \
 5 data_page_header DATA_PAGE_HEADER, 6 index_page_header {}, 7 dictionary_page_header DICTIONARY_PAGE_HEADER, \
 8 data_page_header_v2 DATA_PAGE_HEADER_V2
BLOOM_FILTER_ALGORITHM 1 BLOCK {}!
BLOOM_FILTER_HASH 1 XXHASH {}!
BLOOM_FILTER_COMPRESSION 1 UNCOMPRESSED {}!
BLOOM_FILTER_HEADER 1 num_bytes size32!, 2 algorithm BLOOM_FILTER_ALGORITHM!, 3 hash BLOOM_FILTER_HASH!, \
 4 compression BLOOM_FILTER_COMPRESSION!
PAGE_LOCATION 1 offset size64!, 2 compressed_page_size size32!, 3 first_row_index size64!
OFFSET_INDEX 1 page_locations [PAGE_LOCATION]!, 2 unencoded_byte_array_data_bytes ~[i64]
COLUMN_INDEX 1 null_pages ~[bool]!, 2 min_values [bytes]!, 3 max_values [bytes]!, 4 boundary_order closed2!, \
 5 null_counts [size64], 6 repetition_level_histograms ~[i64], 7 definition_level_histograms ~[i64]
"""
"""Members by id, name and type. `!` is required, `~` not decoded, `size` not negative, `enum` and `closed` from 0 to
the last one, which for `enum` is the last known one.

`count` is like `size`, except for a reader that tolerates what QuestDB's converter does. `{}` has no known members."""
RECORDS = "tornproof.impl.parquet.records"
CONVERT = f"{RECORDS}:_convert"
QUICKLY_READ = ("PAGE_HEADER", "DATA_PAGE_HEADER", "DATA_PAGE_HEADER_V2", "DICTIONARY_PAGE_HEADER", "STATISTICS")
"""What a quick reader reads; it looks at no text."""
QUICK_LEVELS, QUICK_NUMBER_BYTES, QUICK_KINDS = 4, 9, {*INTEGER_KINDS, FALSE, KINDS["binary"], STRUCT}


class Range(NamedTuple):
    """What an integer may be: at least `low`, or `low_tolerant`, and at most `high`, above which it may be of later."""

    kind: int
    low: int
    low_tolerant: int
    high: int
    is_open: bool = False


class Type(NamedTuple):
    """What a member is: an integer, text, bytes, a struct by its name, or a list of one of them."""

    name: str
    is_list: bool = False
    is_tree: bool = False

    @property
    def element(self) -> Type:
        """What the elements of a list are."""
        return Type(self.name, is_tree=self.is_tree)

    @property
    def numbers(self) -> Range | None:
        """The range of an integer."""
        return None if self.is_list else RANGES.get(self.name)

    @property
    def kind(self) -> int:
        """The wire type."""
        if self.is_list:
            return KINDS["list"]
        if self.name in RANGES:
            return RANGES[self.name].kind
        return KINDS["binary"] if self.name in ("text", "bytes") else STRUCT


class Declared(NamedTuple):
    """A member of a struct."""

    id: int
    name: str
    type: Type
    is_required: bool


def _signed(kind: str, bits: int) -> Range:
    low = -(1 << bits - 1)
    return Range(KINDS[kind], low, low, -low - 1)


RANGES = {
    "i16": _signed("i16", 16),
    "i32": _signed("i32", 32),
    "i64": _signed("i64", 64),
    "size32": _signed("i32", 32)._replace(low=0, low_tolerant=0),
    "size64": _signed("i64", 64)._replace(low=0, low_tolerant=0),
    "count32": _signed("i32", 32)._replace(low=0),
    "count64": _signed("i64", 64)._replace(low=0),
    "u8": Range(KINDS["byte"], 0, 0, 255),
    "bool": Range(FALSE, 0, 0, 1),
    "closed2": Range(KINDS["i32"], 0, 0, 2),
    **{f"enum{last}": Range(KINDS["i32"], 0, 0, last, is_open=True) for last in (2, 3, 7)},
}


class RejectedError(Exception):
    """A struct is no struct of its declaration; the steps lead from the outermost one to where it is not."""

    def __init__(self, offset_bytes: int | None, *steps: str, is_supported: bool = True) -> None:
        super().__init__(steps)
        self.steps, self.offset_bytes, self.is_supported = steps, offset_bytes, is_supported


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A struct of a declaration, by its bytes and their tree."""

    table: str
    name: str
    content: bytes
    tree: Struct


@functools.cache
def declared() -> Mapping[str, tuple[Declared, ...]]:
    """Return the members of each struct."""
    lines = (line.split(" ", 1) for line in DECLARATIONS.strip().splitlines())
    return {name: tuple(_declared(*each.split()) for each in members.split(",")) for name, members in lines}


@functools.cache
def members_cases() -> tuple[Case, ...]:
    """Return structs of each declaration, with and without each member, and with other values of it."""
    return tuple(
        Case(table=table, name=f"{table}: {name}", content=content, tree=tree)
        for table in declared()
        for name, members in _variants(table)
        for content, tree in [struct(members)(0)]
        if isinstance(tree, Struct)
    )


def problem_of(case: Case) -> str | None:
    """Say what is wrong with how a struct is read; None if nothing is."""
    table = getattr(fields, case.table)
    for tolerant in (False, True):
        expected = _expected(case, tolerant)
        found = _found(case, table, tolerant)
        if found != expected:
            return f"it is read as {found}, and should be as {expected}"
    if case.table in QUICKLY_READ and (problem := _quick_problem(case, quick_read(case.content, 0, table))):
        return problem
    written = _written(case, table)
    return f"it is written as {written.hex()}" if written not in (None, case.content) else _naming_problem(case, table)


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of readers that take other lists, other texts, other integers and other numbers."""
    controls: Controls = (
        ("lists of anything are taken", f"{RECORDS}:_fits", lambda *_: True),
        ("texts are not looked at", f"{RECORDS}:_text", lambda value: value.decode(errors="replace")),
        ("integers of another width are no integers", f"{RECORDS}:INTEGER_KINDS", frozenset()),
        ("numbers are one too large", CONVERT, partial(_one_more, original_of(CONVERT)), "it is read as"),
        ("nothing is written", f"{__name__}:encode", lambda _: b"", "it is written as"),
        ("no struct has ids", "tornproof.impl.parquet.fields:ids_of", lambda _: {}, "its ids are"),
        ("inner fields have no names", f"{RECORDS}:_inner_table", lambda _: None, "is spelled"),
    )
    yield from not_noticed(controls, problem_of, members_cases())
    quick = f"{__name__}:quick_read"
    quick_controls: Controls = (
        ("quick readers take nothing", quick, lambda *_: None, "a quick reader does not take it"),
        ("quick readers take all", quick, lambda data, *_: ({}, len(data)), "a quick reader takes it, and"),
        ("quick readers end at the start", quick, lambda *_: ({}, 0), "a quick reader ends at byte"),
        ("quick readers find nothing", quick, lambda data, *_: ({}, len(data)), "a quick reader finds"),
        ("quick readers take false for true", "tornproof.impl.parquet.pages:TRUE", FALSE, "a quick reader finds"),
    )
    yield from not_noticed(quick_controls, problem_of, [each for each in members_cases() if each.table in QUICKLY_READ])


def _one_more(convert: Callable[..., Any], *arguments: Any) -> Any:
    value = convert(*arguments)
    return value + 1 if isinstance(value, int) else value


def _declared(number: str, name: str, type_text: str) -> Declared:
    text = type_text.rstrip("!").lstrip("~")
    is_tree = type_text.startswith("~") or text == "{}"
    return Declared(int(number), name, Type(text.strip("[]"), text.startswith("["), is_tree), type_text.endswith("!"))


def _expected(case: Case, tolerant: bool) -> object:
    try:
        return _read(case.tree, case.table, tolerant)
    except RejectedError as error:
        return error.steps, error.offset_bytes, error.is_supported


def _found(case: Case, table: Table, tolerant: bool) -> object:
    try:
        return read(case.tree, table, tolerant=tolerant)
    except BrokenError as error:
        return tuple(map(str, error.steps[::-1])), error.offset_bytes, error.is_supported


def _read(tree: Struct, table: str, tolerant: bool) -> dict[str, Any]:
    """Read a struct by its declaration."""
    by_id = {member.id: member for member in declared().get(table, ())}
    values: dict[str, Any] = {"offset_bytes": tree.offset_bytes}
    for field in tree.fields:
        member = by_id.get(field.id)
        if member is None or not is_of(field.kind, field.value, member.type):
            continue
        try:
            values[member.name] = _value(field.value, member.type, tolerant)
        except RejectedError as error:
            at = field.offset_bytes if error.offset_bytes is None else error.offset_bytes
            raise RejectedError(at, member.name, *error.steps, is_supported=error.is_supported) from None
    for member in by_id.values():
        if member.is_required and member.name not in values:
            raise RejectedError(tree.offset_bytes, member.name)
    return values


def is_of(kind: int, value: Value, of: Type) -> bool:
    """Return whether a field has the wire type of its declaration, and its elements one that stands for it."""
    if kind != of.kind:
        return False
    if not of.is_list or not isinstance(value, Items) or not value.elements:
        return True
    found, wanted = value.element_kind, of.element.kind
    return found == wanted or any(found in kinds and wanted in kinds for kinds in (INTEGER_KINDS, (TRUE, FALSE)))


def _value(value: Value, of: Type, tolerant: bool) -> Any:
    if isinstance(value, Padded):
        value = value.value
    if of.is_tree:
        return value
    if isinstance(value, Items):
        values = []
        for index, each in enumerate(value.elements):
            try:
                values.append(_value(each, of.element, tolerant))
            except RejectedError as error:
                raise RejectedError(
                    error.offset_bytes, f"[{index}]", *error.steps, is_supported=error.is_supported
                ) from None
        return values
    if isinstance(value, Struct):
        return _read(value, of.name, tolerant)
    if isinstance(value, bytes):
        try:
            return value.decode() if of.name == "text" else value
        except UnicodeDecodeError:
            raise RejectedError(None) from None
    assert isinstance(value, int) and of.numbers is not None
    if not (of.numbers.low_tolerant if tolerant else of.numbers.low) <= value <= of.numbers.high:
        raise RejectedError(None, is_supported=not (of.numbers.is_open and value > of.numbers.high))
    return value


def _quick_problem(case: Case, quick: tuple[dict[str, Any], int] | None) -> str | None:
    """Say what is wrong with a quick reader's numbers and structs, or with leaving a usual one to a careful one."""
    try:
        expected = _read(case.tree, case.table, tolerant=False)
    except RejectedError as error:
        return None if quick is None else f"a quick reader takes it, and {'.'.join(error.steps)} is wrong"
    if quick is None:
        return "a quick reader does not take it" if _is_usual(case.tree, case.table, QUICK_LEVELS) else None
    found, end = quick
    if end != len(case.content):
        return f"a quick reader ends at byte {end} of {len(case.content)}"
    wanted, numbers = _numbers_of(expected, case.table), _numbers_of(found, case.table)
    return None if numbers == wanted else f"a quick reader finds {numbers}, and should {wanted}"


def _is_usual(tree: Struct, table: str, levels_left: int) -> bool:
    """Return whether a struct has plain fields with short ids, and in its members what is declared."""
    by_id = {member.id: member for member in declared().get(table, ())}
    for field in tree.fields:
        member = by_id.get(field.id)
        if field.kind not in QUICK_KINDS or field.id_width_bytes or (member and member.type.kind != field.kind):
            return False
        if field.kind in INTEGER_KINDS and written_bytes(field.value) > QUICK_NUMBER_BYTES:
            return False
        inner = member.type.name if member and not member.type.is_tree else ""
        if isinstance(field.value, Struct) and not (levels_left > 1 and _is_usual(field.value, inner, levels_left - 1)):
            return False
    return True


def _numbers_of(values: Mapping[str, Any], table: str) -> dict[str, Any]:
    """Return what a quick reader has to find: integers, and those of structs."""
    found: dict[str, Any] = {}
    for member in declared()[table]:
        value = values.get(member.name)
        if isinstance(value, dict) and not member.type.is_tree:
            found[member.name] = _numbers_of(value, member.type.name)
        elif isinstance(value, int):
            found[member.name] = value
    return found


def _written(case: Case, table: Table) -> bytes | None:
    """Return a struct written from its values; None if it has something that is not declared, or twice."""
    by_id = {member.id: member for member in declared()[case.table]}
    known = [(by_id.get(each.id), each.value, each.kind) for each in case.tree.fields]
    if not all(member and _is_plain(value, kind, member.type) for member, value, kind in known):
        return None
    ids = [field.id for field in case.tree.fields]
    if ids != sorted(set(ids)) or any(field.id_width_bytes for field in case.tree.fields):
        return None
    try:
        _read(case.tree, case.table, tolerant=True)
    except RejectedError:
        return None
    values = {member.name: _given(value, member.type) for member, value, _ in known if member}
    absent = {member.name: None for member in by_id.values() if member.name not in values}
    return encode(make(table, **dict(reversed([*values.items(), *absent.items()]))))


def _is_plain(value: Value, kind: int, of: Type) -> bool:
    """Return whether a value is as a writer would have it."""
    if not isinstance(value, Items):
        return kind == of.kind and not isinstance(value, Padded)
    elements_are = value.element_kind == of.element.kind and not any(
        isinstance(each, Padded) for each in value.elements
    )
    return kind == of.kind and elements_are


def _given(value: Value, of: Type) -> Any:
    """Return a value as `make` takes it."""
    if isinstance(value, Items):
        return [_given(each, of.element) for each in value.elements]
    return value.decode() if of.name == "text" and isinstance(value, bytes) else value


def _naming_problem(case: Case, table: Table) -> str | None:
    """Say which path is not spelled with the names of its fields."""
    if fields.ids_of(table) != {member.name: member.id for member in declared()[case.table]}:
        return f"its ids are {fields.ids_of(table)}"
    for steps, expected in _paths(case.table):
        if table.path_text(steps) != expected:
            return f"the path {steps} is spelled {table.path_text(steps)}, and should be {expected}"
    return None


@functools.cache
def _paths(table: str) -> tuple[tuple[tuple[int | str, ...], str], ...]:
    found: list[tuple[tuple[int | str, ...], str]] = [((99, 1), "99.1"), ((), "struct")]
    for member in declared()[table]:
        index: tuple[str, ...] = ("[2]",) if member.type.is_list else ()
        found.append(((member.id, *index), member.name + "".join(index)))
        for inner in declared().get(member.type.name, ()):
            path = f"{member.name}{''.join(index)}.{inner.name}"
            found.append(((member.id, *index, inner.id), path))
            found.append(((member.id, *index, inner.name), path))
    return tuple(found)


def _variants(table: str) -> Iterator[tuple[str, Members]]:
    members = declared()[table]
    required = tuple(_field(each) for each in members if each.is_required)
    every = tuple(_field(each) for each in members)
    yield "nothing", ()
    yield "what is required", required
    yield "all members", every
    yield "all members, the last one first", every[::-1]
    yield "a member that is not known", (*every, (99, KINDS["binary"], binary(b"new"), 0))
    yield "long ids", tuple((*each[:3], 2) for each in every)
    for member in members:
        others = tuple(each for each in every if each[0] != member.id)
        yield f"no {member.name}", others
        yield f"{member.name} alone", (_field(member),)
        for name, kind, value in _values(member.type):
            where = sum(each[0] < member.id for each in others)
            yield f"{member.name} {name}", (*others[:where], (member.id, kind, value, 0), *others[where:])
            yield f"{member.name} {name}, before that", ((member.id, kind, value, 0), *every)
            yield f"{member.name} {name}, after that", (*every, (member.id, kind, value, 0))


def _field(member: Declared) -> tuple[int, int, Made, int]:
    kind = TRUE if member.type.name == "bool" and member.id % 2 else member.type.kind
    return member.id, kind, _usual(member.type, member.id % 2), 0


def _usual(of: Type, number_of_one: int) -> Made:
    if of.is_list:
        return items(of.element.kind, tuple(_usual(of.element, each) for each in range(2)))
    if of.numbers is not None:
        return byte(number_of_one) if of.numbers.kind <= KINDS["byte"] else number(number_of_one)
    if of.kind == KINDS["binary"]:
        return binary(b"text %d" % number_of_one)
    members = declared().get(of.name, ())
    # Of a union there is one member.
    return struct(tuple(_field(each) for each in members if each.is_required) or tuple(map(_field, members[:1])))


def _values(of: Type) -> Iterator[tuple[str, int, Made]]:
    """Yield other values of a member, and those of other wire types."""
    for kind, made in ((KINDS["byte"], byte(1)), (KINDS["i16"], number(1)), (KINDS["i64"], number(1))):
        yield f"of wire type {kind}", kind, made
    yield "that is text", KINDS["binary"], binary(b"x")
    yield "that is empty", STRUCT, struct(())
    yield "that is true", TRUE, byte(0)
    yield "that is a set", KINDS["set"], items(STRUCT, ())
    for kind in (KINDS["i16"], KINDS["i64"], KINDS["binary"], STRUCT, KINDS["list"]):
        others = {KINDS["binary"]: binary(b"x"), STRUCT: struct(()), KINDS["list"]: items(STRUCT, ())}
        yield f"that is a list of {kind}", KINDS["list"], items(kind, (others.get(kind, number(1)),) * 2)
        yield f"that is an empty list of {kind}", KINDS["list"], items(kind, ())
    if of.is_list:
        for (name, kind, value), usual in itertools.product(_own_values(of.element), (0, 1)):
            if kind == of.element.kind:
                elements = (_usual(of.element, usual),) * usual + (value, value)
                yield f"with {name} behind {usual}", KINDS["list"], items(kind, elements)
    else:
        yield from _own_values(of)


def _own_values(of: Type) -> Iterator[tuple[str, int, Made]]:
    if of.numbers is not None and of.numbers.kind in INTEGER_KINDS:
        found = {each for limit in (of.numbers.low, of.numbers.low_tolerant, of.numbers.high) for each in _near(limit)}
        for value in sorted(found):
            yield str(value), of.kind, number(value)
        yield "in more bytes", of.kind, number(1, 5)
    elif of.name == "u8":
        yield "255", of.kind, byte(255)
    elif of.kind == KINDS["binary"]:
        for content in (b"", b"x\xff", b"\xc3", "größe".encode(), b"\0"):
            yield repr(content), of.kind, binary(content)
        yield "behind a long length", of.kind, binary(b"text", 3)
    elif of.kind == STRUCT:
        for name, members in (("nothing", ()), *_gaps(of.name)):
            yield name, STRUCT, struct(members)


def _near(limit: int) -> Iterator[int]:
    for value in (limit - 1, limit, limit + 1):
        if -(1 << 63) <= value < 1 << 63:
            yield value


def _gaps(table: str) -> Iterator[tuple[str, Members]]:
    """Yield the members of a struct without each of them, and with a number that is wrong."""
    every = tuple(declared().get(table, ()))
    for member in every:
        kept = tuple(_field(each) for each in every if each is not member)
        yield f"no {member.name}", kept
        if member.type.numbers is not None and member.type.numbers.kind in INTEGER_KINDS:
            yield f"a low {member.name}", (*kept, (member.id, member.type.kind, number(-1), 0))
