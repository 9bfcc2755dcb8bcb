"""Whether a migration reads structs of Parquet's metadata as QuestDB's converter does, and as a careful one does.

What the two read and reject is stated a second time here, by docs/migration.md, on the structs of `thrift_forms` and
`parquet_members`.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tornproof.harness.common.patch import Controls, not_noticed
from tornproof.harness.explorers.roundtrip.parquet.parquet_members import Declared, Type, declared, is_of, members_cases
from tornproof.harness.explorers.roundtrip.parquet.thrift_forms import (
    INTEGER_KINDS,
    KINDS,
    STRUCT,
    UUID,
    signed,
    thrift_forms,
    varint,
    written_bytes,
)
from tornproof.impl.migrate import footer_reader
from tornproof.impl.migrate.footer_reader import UNKNOWN, StructReader, read_footer
from tornproof.impl.migrate.rejections import Cause, RejectionError
from tornproof.impl.migrate.shapes import Union
from tornproof.impl.parquet import fields
from tornproof.impl.parquet.records import struct_of
from tornproof.impl.parquet.thrift import Entries, Items, Padded, Struct, Value

PROPERTY = "a migration reads the structs of a footer as QuestDB's converter does"
BASE_BYTES = 5000
BITS = {KINDS["i16"]: 16, KINDS["i32"]: 32, KINDS["i64"]: 64}
COUNT_BYTES_MAX, ID_BYTES_MAX = 5, 3
STRUCT_COST, ITEM_COST = 2, 8
"""What a struct and an element cost; bytes cost what they are."""
TAIL_BYTES, BUDGET_BYTES = 8, 1024
"""Two for each byte are allowed, those behind the footer too, and so many more."""
UNIONS = {
    *("TIME_UNIT", "LOGICAL_TYPE", "COLUMN_CRYPTO_META_DATA", "ENCRYPTION_ALGORITHM", "COLUMN_ORDER"),
    *("BLOOM_FILTER_ALGORITHM", "BLOOM_FILTER_HASH", "BLOOM_FILTER_COMPRESSION"),
}
LATER = {
    "LOGICAL_TYPE": {15, 16, 17, 18, 19},
    "COLUMN_ORDER": {2, 3},
    "SCHEMA_ELEMENT": {11},
    "STATISTICS": {7, 8, 9},
    "COLUMN_META_DATA": {16, 17},
}
"""Members that the converter does not know."""
OPTIONAL = {("COLUMN_CHUNK", "meta_data")}
"""Members whose absence is no matter yet."""
KEPT = {
    "SCHEMA_ELEMENT": "type type_length repetition_type name num_children converted_type scale precision field_id "
    "logical_type",
    "DECIMAL_TYPE": "scale precision",
    "TIME_TYPE": "unit",
    "INTEGER_TYPE": "bit_width is_signed",
    "STATISTICS": "null_count distinct_count max_value min_value",
    "COLUMN_META_DATA": "encodings codec num_values total_compressed_size data_page_offset dictionary_page_offset "
    "statistics bloom_filter_offset bloom_filter_length",
    "COLUMN_CHUNK": "file_path meta_data",
    "SORTING_COLUMN": "column_index descending",
    "ROW_GROUP": "columns total_byte_size num_rows sorting_columns",
    "KEY_VALUE": "key value",
    "FILE_META_DATA": "schema num_rows row_groups key_value_metadata",
    "BLOOM_FILTER_HEADER": "num_bytes",
}
"""The members whose values are used."""
NOT_KNOWN = object()
"""A union whose only member is not known."""
LEVELS_MAX = 64
ROOT = "root"


class TurnedAwayError(Exception):
    """A struct is not read, for a cause and at the end of a path; `struct` is the one that is said to be wrong."""

    def __init__(self, cause: Cause, *steps: str, struct: Struct | None = None) -> None:
        super().__init__(cause, steps)
        self.cause, self.steps, self.struct = cause, steps, struct


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A struct and what must come of it: its tree, or for one that is not a struct the cause."""

    kind: str
    name: str
    content: bytes
    table: str = ""
    tree: Struct | None = None
    causes: tuple[Cause | None, Cause | None] = (None, None)


@functools.cache
def converted_reads() -> tuple[Read, ...]:
    """Return all structs, always in the same order."""
    wrong = (Read(kind="rejections", name=name, content=content, causes=causes) for name, content, causes in _wrong())
    forms = (
        Read(kind="forms", name=each.name, content=each.content, tree=each.tree)
        for each in thrift_forms()
        if each.tree is not None
    )
    members = (
        Read(kind=each.table, name=each.name, content=each.content, table=each.table, tree=each.tree)
        for each in members_cases()
    )
    return (*wrong, *_budgets(), *forms, *members)


def _budgets() -> Iterator[Read]:
    """Yield footers that cost as much as the converter allows for their length, and a little more."""
    usual = next(each for each in members_cases() if each.name == "FILE_META_DATA: what is required")

    def with_elements(count: int) -> bytes:
        # A list of booleans in a field that nobody knows.
        return usual.content[:-1] + b"\x09" + varint(signed(-1)) + b"\xf1" + varint(count, 2) + b"\1" * count + b"\0"

    allowed = 2 * (len(with_elements(0)) + TAIL_BYTES) + BUDGET_BYTES
    # Each has a byte, for which two more are allowed.
    count = (allowed - _cost(usual.tree)) // (ITEM_COST - 2)
    for more in (0, 1):
        causes = None, Cause.BUDGET if more else None
        yield Read(kind="budgets", name=f"{more} elements too many", content=with_elements(count + more), causes=causes)


def problem_of(case: Read) -> str | None:
    """Say what is wrong with how a struct is read, as the converter does and as a careful reader; None if nothing."""
    for as_questdb in (False, True):
        problem = _problem_of_cause(case, as_questdb) if case.tree is None else _problem(case, case.tree, as_questdb)
        if problem:
            return f"as {'the converter' if as_questdb else 'a careful reader'}: {problem}"
    return None


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of readers that take too much, and of one that has no budget."""
    controls: Controls = [
        (name, f"{__name__}:StructReader", _broken(place, broken), words)
        for name, place, broken, words in (
            ("integers of any length are taken", "varint", _any_varint, "it is read, and should be rejected"),
            ("all wire types are taken", "check_kind", lambda *_: None, "it is read, and should be rejected"),
            ("all causes are the same", "rejection", _of_one_cause, "it is rejected because"),
            ("a byte less is read", "named", _one_byte_less, "it ends at byte"),
            ("there is no budget", "spend", lambda *_: None, "one less than what it costs"),
            ("fields of other wire types are read", "fits", lambda *_: True, "and should be as"),
        )
    ]
    yield from not_noticed(controls, problem_of, converted_reads())
    unlimited = _broken("spend", lambda *_: None)
    footers: Controls = [
        ("footers have no budget", "tornproof.impl.migrate.footer_reader:StructReader", unlimited, "it is read, and")
    ]
    yield from not_noticed(footers, problem_of, [case for case in converted_reads() if case.kind == "budgets"])


def _broken(place: str, broken: Callable[..., Any]) -> Any:
    return type("Broken", (StructReader,), {"__slots__": (), place: broken})


def _of_one_cause(reader: StructReader, _: Cause, *of: Any) -> RejectionError:
    return footer_reader.StructReader.rejection(reader, Cause.BAD_DATA, *of)


def _one_byte_less(reader: StructReader, form: Any, name: str) -> Any:
    found = footer_reader.StructReader.named(reader, form, name)
    reader.position -= name == ROOT
    return found


def _any_varint(reader: StructReader, _: int) -> int:
    found = shift = 0
    while (byte := reader.byte()) >= 128:
        found, shift = found | (byte & 127) << shift, shift + 7
    return found | byte << shift


def _problem_of_cause(case: Read, as_questdb: bool) -> str | None:
    wanted = case.causes[as_questdb]
    try:
        if case.kind == "budgets":
            read_footer(case.content + bytes(TAIL_BYTES), offset_bytes=BASE_BYTES, as_questdb=as_questdb)
        else:
            StructReader(case.content, BASE_BYTES, as_questdb=as_questdb).named(struct_of(None), ROOT)
    except RejectionError as error:
        return None if error.cause is wanted else f"it is rejected because {error.cause.value}, and not for {wanted}"
    return None if wanted is None else f"it is read, and should be rejected because {wanted.value}"


def _problem(case: Read, tree: Struct, as_questdb: bool) -> str | None:
    if as_questdb and not _fits_all(tree, case.table):
        # The converter reads some of it as what it is not.
        return None
    form = struct_of(getattr(fields, case.table) if case.table else None)
    try:
        expected: Any = _expected(tree, case.table, as_questdb)
    except TurnedAwayError as error:
        where = None if error.struct is None else error.struct.offset_bytes - tree.offset_bytes
        expected = error.cause, (ROOT, *error.steps), where
    cost = _cost(tree)
    for budget, outcome in ((cost, expected), (cost - 1, None)):
        reader = StructReader(case.content, BASE_BYTES, budget=budget, as_questdb=as_questdb)
        try:
            found: Any = reader.named(form, ROOT)
        except RejectionError as error:
            found = error.cause, tuple(map(str, error.steps[::-1])), _where(error, expected, case)
            if outcome is None and (error.cause is Cause.BUDGET or _is_rejection(expected)):
                continue
        else:
            if reader.position != len(case.content):
                return f"it ends at byte {reader.position} of {len(case.content)}"
            found = _plain(found)
        if outcome is None:
            return f"it is read as {found} with {budget}, one less than what it costs"
        if found != outcome:
            return f"it is read as {found}, and should be as {outcome}"
    return None


def _where(error: RejectionError, expected: Any, case: Read) -> int | None:
    """Return the position of an error, None where it only has to be one in the struct."""
    where = (error.offset_bytes or 0) - BASE_BYTES
    is_free = _is_rejection(expected) and expected[2] is None and 0 <= where <= len(case.content)
    return None if is_free else where


def _is_rejection(expected: Any) -> bool:
    return isinstance(expected, tuple) and bool(expected) and isinstance(expected[0], Cause)


def _plain(value: Any) -> Any:
    """Return what was read with dictionaries for records."""
    if value is UNKNOWN:
        return NOT_KNOWN
    if isinstance(value, Union):
        return {value.name: _plain(value.value)}
    if hasattr(value, "_asdict"):
        return {name: _plain(each) for name, each in value._asdict().items()}
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value


def _known(table: str) -> dict[int, Declared]:
    return {each.id: each for each in declared().get(table, ()) if each.id not in LATER.get(table, ())}


def _expected(tree: Struct, table: str, as_questdb: bool) -> Any:
    """Read a struct by its declaration."""
    known = _known(table)
    _check_widths(tree)
    if table in UNIONS:
        return _expected_union(tree, table, known, as_questdb)
    values: dict[str, Any] = {}
    is_unknown = False
    for field in tree.fields:
        member = known.get(field.id)
        if member is None or not is_of(field.kind, field.value, member.type):
            _skip(field.kind, field.value, as_questdb)
            continue
        value = _named(field.value, member, as_questdb)
        is_unknown |= value is NOT_KNOWN and member.is_required
        values[member.name] = None if value is NOT_KNOWN else value
    for member in known.values():
        if member.is_required and member.name not in values and (table, member.name) not in OPTIONAL:
            raise TurnedAwayError(Cause.FIELD_MISSING, member.name, struct=tree)
    return NOT_KNOWN if is_unknown else {name: values.get(name) for name in KEPT.get(table, "").split()}


def _expected_union(tree: Struct, table: str, known: dict[int, Declared], as_questdb: bool) -> Any:
    found: Any = None
    for field in tree.fields:
        member = known.get(field.id)
        if member is not None and is_of(field.kind, field.value, member.type):
            value = _named(field.value, member, as_questdb)
            found = NOT_KNOWN if value is NOT_KNOWN else {member.name: value}
        else:
            _skip(field.kind, field.value, as_questdb)
            found = found or NOT_KNOWN
    if len(tree.fields) != 1 or (found is NOT_KNOWN and as_questdb):
        raise TurnedAwayError(Cause.BAD_DATA, struct=tree)
    return found


def _named(value: Value, member: Declared, as_questdb: bool) -> Any:
    try:
        return _value(value, member.type, as_questdb)
    except TurnedAwayError as error:
        raise TurnedAwayError(error.cause, member.name, *error.steps, struct=error.struct) from None


def _value(value: Value, of: Type, as_questdb: bool) -> Any:
    if isinstance(value, Struct):
        return _expected(value, of.name, as_questdb)
    if isinstance(value, Items):
        values = []
        for index, each in enumerate(value.elements):
            try:
                values.append(_value(each, of.element, as_questdb))
            except TurnedAwayError as error:
                raise TurnedAwayError(error.cause, f"[{index}]", *error.steps, struct=error.struct) from None
        return tuple(values)
    if of.kind in INTEGER_KINDS:
        return _integer(value, BITS[of.kind])
    plain = value.value if isinstance(value, Padded) else value
    if isinstance(plain, bytes):
        _check(value, COUNT_BYTES_MAX)
        return _text(plain) if of.name == "text" else plain
    return plain


def _integer(value: Value, bits: int) -> int:
    """Return the low bits of a number that has no more bytes than it may have."""
    _check(value, (bits + 6) // 7)
    number = value.value if isinstance(value, Padded) else value
    assert isinstance(number, int)
    return (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def _check(value: Value, bytes_max: int) -> None:
    if written_bytes(value) > bytes_max:
        raise TurnedAwayError(Cause.VARINT)


def _check_widths(tree: Struct) -> None:
    if any(field.id_width_bytes > ID_BYTES_MAX for field in tree.fields):
        raise TurnedAwayError(Cause.VARINT)


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise TurnedAwayError(Cause.BAD_DATA) from None


def _skip(kind: int, value: Value, as_questdb: bool) -> None:
    """Skip a value; the converter takes binaries for texts also where it skips them, and does not know UUIDs."""
    if kind in INTEGER_KINDS:
        _integer(value, BITS[kind])
    elif kind == KINDS["binary"]:
        _check(value, COUNT_BYTES_MAX)
        if as_questdb:
            _text(value.value if isinstance(value, Padded) else value)  # type: ignore[arg-type]
    elif isinstance(value, Struct):
        _check_widths(value)
        for field in value.fields:
            _skip(field.kind, field.value, as_questdb)
    elif isinstance(value, Items | Entries):
        _skip_many(value, as_questdb)
    elif as_questdb and kind == UUID:
        raise TurnedAwayError(Cause.BAD_DATA)


def _skip_many(value: Items | Entries, as_questdb: bool) -> None:
    is_list = isinstance(value, Items)
    kinds = (value.element_kind,) if isinstance(value, Items) else (value.key_kind, value.value_kind)
    if not is_list and value.count_width_bytes > COUNT_BYTES_MAX:
        raise TurnedAwayError(Cause.VARINT)
    if any(each > (STRUCT if as_questdb else UUID) or (each == 2 and as_questdb) for each in kinds):
        raise TurnedAwayError(Cause.BAD_DATA)
    if value.count_width_bytes > COUNT_BYTES_MAX:
        raise TurnedAwayError(Cause.VARINT)
    elements = value.elements if isinstance(value, Items) else itertools.chain.from_iterable(value.entries)
    for kind, each in zip(itertools.cycle(kinds), elements, strict=False):
        if as_questdb and kind == 1 and each not in (1, 2):
            raise TurnedAwayError(Cause.BAD_DATA)
        _skip(kind, each, as_questdb)


def _fits_all(tree: Struct, table: str) -> bool:
    """Return whether every field that is known has the wire type of its declaration."""
    known = _known(table)
    for field in tree.fields:
        member = known.get(field.id)
        if member is None:
            continue
        if not is_of(field.kind, field.value, member.type):
            return False
        inner = field.value.elements if isinstance(field.value, Items) else (field.value,)
        if not all(_fits_all(each, member.type.name) for each in inner if isinstance(each, Struct)):
            return False
    return True


def _cost(value: Value, kind: int = STRUCT) -> int:
    """Return what it costs to read a value."""
    if isinstance(value, Struct):
        return STRUCT_COST + sum(_cost(each.value, each.kind) for each in value.fields)
    if isinstance(value, Items):
        return ITEM_COST * len(value.elements) + sum(_cost(each, value.element_kind) for each in value.elements)
    if isinstance(value, Entries):
        both = sum(_cost(key, value.key_kind) + _cost(each, value.value_kind) for key, each in value.entries)
        return ITEM_COST * len(value.entries) + both
    content = value.value if isinstance(value, Padded) else value
    return len(content) if kind == KINDS["binary"] and isinstance(content, bytes) else 0


def _wrong() -> Iterator[tuple[str, bytes, tuple[Cause | None, Cause | None]]]:
    """Yield bytes, and why a careful reader and the converter reject them; None where they do not."""
    empty_structs = b"\x1c" * LEVELS_MAX
    for name, content, careful, converter in (
        ("nothing", b"", Cause.TRUNCATED, Cause.TRUNCATED),
        ("no end", b"\x15\x02", Cause.TRUNCATED, Cause.TRUNCATED),
        ("no value", b"\x15", Cause.TRUNCATED, Cause.TRUNCATED),
        ("half a double", b"\x17" + bytes(7), Cause.TRUNCATED, Cause.TRUNCATED),
        ("fewer bytes than said", b"\x18\x05abc", Cause.TRUNCATED, Cause.TRUNCATED),
        ("fewer elements than said", b"\x19\x35\x02\x02", Cause.TRUNCATED, Cause.TRUNCATED),
        ("16 bits in 3 bytes", b"\x14" + varint(1, 3) + b"\0", None, None),
        ("16 bits in 4 bytes", b"\x14" + varint(1, 4) + b"\0", Cause.VARINT, Cause.VARINT),
        ("32 bits in 6 bytes", b"\x15" + varint(1, 6) + b"\0", Cause.VARINT, Cause.VARINT),
        ("64 bits in 11 bytes", b"\x16" + varint(1, 11) + b"\0", Cause.VARINT, Cause.VARINT),
        ("70 bits", b"\x16" + varint((1 << 70) - 1) + b"\0", None, None),
        ("a length of 6 bytes", b"\x18" + varint(1, 6) + b"x\0", Cause.VARINT, Cause.VARINT),
        ("a count of 6 bytes", b"\x19\xf3" + varint(1, 6) + b"\1\0", Cause.VARINT, Cause.VARINT),
        ("a count of entries of 6 bytes", b"\x1b" + varint(1, 6) + b"\x33\1\1\0", Cause.VARINT, Cause.VARINT),
        ("an id of 4 bytes", b"\5" + varint(2, 4) + b"\2\0", Cause.VARINT, Cause.VARINT),
        ("the id 32768", b"\5" + varint(signed(32768)) + b"\2\0", None, None),
        ("the id 32768 after 32767", b"\5" + varint(signed(32767)) + b"\2\x11\0", Cause.DEPTH, Cause.DEPTH),
        ("the id 32767 after 32766", b"\5" + varint(signed(32766)) + b"\2\x11\0", None, None),
        ("a UUID", b"\x1d" + bytes(16) + b"\0", None, Cause.BAD_DATA),
        ("a wire type that is none", b"\x1e\0\0", Cause.BAD_DATA, Cause.BAD_DATA),
        ("elements of a wire type that is none", b"\x19\x1e\0\0", Cause.BAD_DATA, Cause.BAD_DATA),
        ("no elements of a wire type that is none", b"\x19\x0e\0", Cause.BAD_DATA, Cause.BAD_DATA),
        ("elements of no wire type", b"\x19\x10\0\0", Cause.FIELD_MISSING, Cause.FIELD_MISSING),
        ("no elements of no wire type", b"\x19\0\0", None, None),
        ("booleans of the other wire type", b"\x19\x22\1\2\0", None, Cause.BAD_DATA),
        ("booleans", b"\x19\x21\1\2\0", None, None),
        ("booleans that are 0", b"\x19\x21\1\0\0", None, Cause.BAD_DATA),
        ("booleans that are 3", b"\x19\x21\1\3\0", Cause.BAD_DATA, Cause.BAD_DATA),
        ("keys of a wire type that is none", b"\x1b\1\xe3\0\0\0", Cause.BAD_DATA, Cause.BAD_DATA),
        ("values of a wire type that is none", b"\x1b\1\x3e\0\0\0", Cause.BAD_DATA, Cause.BAD_DATA),
        ("values that are booleans of the other wire type", b"\x1b\1\x32\0\1\0", None, Cause.BAD_DATA),
        ("text that is none", b"\x18\1\xff\0", None, Cause.BAD_DATA),
        ("as many levels as may be", empty_structs + bytes(LEVELS_MAX + 1), None, None),
        ("a number one level deeper", empty_structs + b"\x15\2" + bytes(LEVELS_MAX + 1), Cause.DEPTH, Cause.DEPTH),
        ("a level more", empty_structs + b"\x1c" + bytes(LEVELS_MAX + 2), Cause.DEPTH, Cause.DEPTH),
        ("lists in lists", b"\x19" * (LEVELS_MAX + 2), Cause.DEPTH, Cause.DEPTH),
        ("maps in maps", b"\x1b" + b"\1\x3b\1" * (LEVELS_MAX + 2), Cause.DEPTH, Cause.DEPTH),
    ):
        yield name, content, (careful, converter)
