"""Whether a migration takes each number of a Parquet footer that may be, states it, and rejects what may not be.

The ids are those of [parquet.thrift](https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift);
what a metadata file says is read from its bytes, as docs/format.md lays them out.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from tornproof.harness.common.patch import Controls, not_noticed, original_of
from tornproof.harness.explorers.model_based.other_footers import Change, with_elements, with_footer
from tornproof.harness.explorers.roundtrip.forms import parquet_of, reader_of
from tornproof.harness.explorers.roundtrip.metadata.metadata_draft import (
    CHUNK_FIELDS,
    FOOTER_BYTES,
    WORD_BYTES,
    chunk_start,
)
from tornproof.impl.errors import CorruptError, ProblemError
from tornproof.impl.migrate.convert import convert
from tornproof.impl.parquet.thrift import Field, Items, Kind, Struct, value_of, with_fields, without

PROPERTY = "a migration states the numbers of a footer that may be, and rejects others"
FILE = "footer.parquet"
ROW_GROUPS, CHUNKS, FACTS, STATISTICS = 4, 1, 3, 12
GROUP_COUNT, COLUMN_COUNT, GROUP_ROWS = 2, 2, 4
STATED = {
    "codec": "B",
    "num_values": "Q",
    "encodings": "B",
    "stat_flags": "B",
    "null_count": "Q",
    "distinct_count": "Q",
}
"""Fields of a chunk of metadata, and their formats."""
LONGEST_BOUND_BYTES = (1 << 16) - 1
REJECTED = "rejected"

Case: TypeAlias = tuple[str, Callable[[int, int], Change], str, int]
"""What the name, the change in a row group and column, the field and the value of a rule are."""
Structs: TypeAlias = tuple[Struct, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FooterRule:
    """A change of a chunk or row group, and the field of the metadata that says so with its value, or a rejection."""

    name: str
    group: int
    column: int
    change: Callable[[int, int], Change]
    field: str = ""
    value: int = 0

    @property
    def kind(self) -> str:
        """What is right: the field that is stated, or a rejection."""
        return self.field or "taken"


@functools.cache
def footer_rules() -> tuple[FooterRule, ...]:
    """Return all changes, each in every row group and column."""
    return tuple(
        FooterRule(
            name=f"{name}, in column {column} of row group {group}",
            group=group,
            column=column,
            change=change,
            field=field,
            value=value,
        )
        for name, change, field, value in (*_of_groups(), *_of_chunks(), *_of_statistics())
        for group in range(GROUP_COUNT)
        for column in range(COLUMN_COUNT)
    )


def problem_of(rule: FooterRule) -> str | None:
    """Say what is wrong with the migration; None if nothing is."""
    content = with_footer(_file(), rule.change(rule.group, rule.column))
    try:
        metadata = convert(reader_of(content), size_bytes=len(content), file=FILE)
    except ProblemError as error:
        path = error.problem.field
        is_there = path.startswith(f"row_groups[{rule.group}].")
        is_there &= "columns[" not in path or f".columns[{rule.column}]." in path
        return None if rule.field == REJECTED and is_there else f"it is rejected: {error}"
    if rule.field == REJECTED:
        return "it is taken"
    if not rule.field:
        return None
    found = _stated(metadata, rule)
    return None if found == rule.value else f"{rule.field} is {found}, and should be {rule.value}"


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of migrations that take all numbers, no encodings, or name another row group."""

    read = original_of(f"{__name__}:convert")

    def convert_elsewhere(*given: Any, **named: Any) -> Any:
        try:
            return read(*given, **named)
        except ProblemError as error:
            raise CorruptError(FILE, f"row_groups[{GROUP_COUNT}].total_byte_size", None, 0, -1) from error

    controls: Controls = (
        ("another row group is named", f"{__name__}:convert", convert_elsewhere, "it is rejected"),
        ("negative numbers are taken", "tornproof.impl.migrate.chunks:_not_negative", lambda *_: None, "it is taken"),
        ("a codec is not known", "tornproof.impl.migrate.chunks:Codec", range(7), "it is rejected"),
        ("encodings are not looked at", "tornproof.impl.migrate.chunks:_encodings", lambda _: 0, "and should be"),
    )
    return not_noticed(controls, problem_of, footer_rules())


def _stated(metadata: bytes, rule: FooterRule) -> int:
    (length,) = struct.unpack_from("<I", metadata, len(metadata) - 4)
    entries = len(metadata) - 4 - length + FOOTER_BYTES
    (block,) = struct.unpack_from("<I", metadata, entries + 4 * rule.group)
    at = chunk_start(block * WORD_BYTES, rule.column) + CHUNK_FIELDS[rule.field]
    return int(struct.unpack_from(f"<{STATED[rule.field]}", metadata, at)[0])


def _of_groups() -> Iterator[Case]:
    for name, number, value, field in (
        ("no bytes in all", 2, 0, ""),
        ("fewer bytes in all than none", 2, -1, REJECTED),
        ("fewer rows than none", 3, -1, REJECTED),
        ("the fewest rows", 3, -(1 << 63), REJECTED),
    ):
        yield name, partial(_group, partial(_with_number, number, value)), field, 0
    yield (
        "a chunk less",
        partial(_group, lambda group, column: with_elements(group, CHUNKS, partial(_one_less, column))),
        REJECTED,
        0,
    )
    yield (
        "a chunk more",
        partial(_group, lambda group, column: with_elements(group, CHUNKS, partial(_one_more, column))),
        REJECTED,
        0,
    )


def _with_number(number: int, value: int, group: Struct, _: int) -> Struct:
    return with_fields(group, Field(number, Kind.I64, value))


def _one_less(column: int, chunks: Structs) -> Structs:
    return (*chunks[:column], *chunks[column + 1 :])


def _one_more(column: int, chunks: Structs) -> Structs:
    return (*chunks, chunks[column])


def _of_chunks() -> Iterator[Case]:
    yield "no facts", partial(_chunk, lambda chunk: without(chunk, FACTS)), REJECTED, 0
    for name, fields, field, value in (
        ("codec 0", [Field(4, Kind.I32, 0)], "codec", 0),
        ("codec 7", [Field(4, Kind.I32, 7)], "codec", 7),
        ("codec 8", [Field(4, Kind.I32, 8)], REJECTED, 0),
        ("codec -1", [Field(4, Kind.I32, -1)], REJECTED, 0),
        ("values below 0", [Field(5, Kind.I64, -1)], "num_values", 0),
        ("pages of less than no bytes", [Field(7, Kind.I64, -1)], REJECTED, 0),
        ("a data page before the file", [Field(9, Kind.I64, -1)], REJECTED, 0),
        ("a dictionary before the file", [Field(11, Kind.I64, -1)], REJECTED, 0),
        ("a dictionary at 0", [Field(11, Kind.I64, 0)], "", 0),
        ("no encoding", [_list(2)], "encodings", 0),
        ("all encodings", [_list(2, 0, 8, 5, 6, 7, 9)], "encodings", 63),
        ("an encoding of old dictionaries", [_list(2, 2)], "encodings", 2),
        ("encodings of levels alone", [_list(2, 3, 4)], "encodings", 0),
        ("encodings that nobody knows", [_list(2, 99, 0, -1)], "encodings", 1),
    ):
        yield name, partial(_facts, tuple(fields)), field, value


def _of_statistics() -> Iterator[Case]:
    longest = b"\1" * LONGEST_BOUND_BYTES
    both, bounds = 1 | 2 | 4 | 8 | 16 | 32, struct.pack("<q", 1)
    for name, fields, field, value in (
        ("a count of nulls", [Field(3, Kind.I64, 3)], "null_count", 3),
        ("a count of nulls below 0", [Field(3, Kind.I64, -3)], "null_count", 0),
        ("a count of values that differ", [Field(4, Kind.I64, 2)], "distinct_count", 2),
        ("a count of values that differ below 0", [Field(4, Kind.I64, -1)], "distinct_count", 0),
        ("nothing", [], "stat_flags", 0),
        ("both bounds", [Field(5, Kind.BINARY, bounds), Field(6, Kind.BINARY, bounds)], "stat_flags", both),
        ("a minimum alone", [Field(6, Kind.BINARY, bounds)], "stat_flags", 7),
        ("a maximum alone", [Field(5, Kind.BINARY, bounds)], "stat_flags", 56),
        ("empty bounds", [Field(5, Kind.BINARY, b""), Field(6, Kind.BINARY, b"")], "stat_flags", 0),
        ("the longest minimum", [Field(6, Kind.BINARY, longest)], "stat_flags", 5),
        ("the longest maximum", [Field(5, Kind.BINARY, longest)], "stat_flags", 40),
        ("a minimum that is longer", [Field(6, Kind.BINARY, longest + b"\1")], REJECTED, 0),
        ("a maximum that is longer", [Field(5, Kind.BINARY, longest + b"\1")], REJECTED, 0),
    ):
        statistics = Field(STATISTICS, Kind.STRUCT, Struct(tuple(fields)))
        yield f"statistics with {name}", partial(_facts, (statistics,)), field, value


def _list(number: int, *values: int) -> Field:
    return Field(number, Kind.LIST, Items(Kind.I32, values))


def _group(change: Callable[[Struct, int], Struct], group: int, column: int) -> Change:
    return lambda footer: _with_nth(footer, ROW_GROUPS, group, lambda each: change(each, column))


def _chunk(change: Callable[[Struct], Struct], group: int, column: int) -> Change:
    return _group(lambda each, _: _with_nth(each, CHUNKS, column, change), group, column)


def _with_nth(struct: Struct, field_id: int, nth: int, change: Callable[[Struct], Struct]) -> Struct:
    return with_elements(struct, field_id, lambda each: (*each[:nth], change(each[nth]), *each[nth + 1 :]))


def _facts(fields: tuple[Field, ...], group: int, column: int) -> Change:
    def changed(chunk: Struct) -> Struct:
        facts = value_of(chunk, FACTS)
        assert isinstance(facts, Struct)
        return with_fields(chunk, Field(FACTS, Kind.STRUCT, with_fields(facts, *fields)))

    return _chunk(changed, group, column)


@functools.cache
def _file() -> bytes:
    numbers = pa.array(range(GROUP_COUNT * GROUP_ROWS), pa.int64())
    rows, options = pa.table({"coded": numbers, "plain": numbers}), {"use_dictionary": ["coded"], "compression": "none"}
    return parquet_of(rows, row_group_size=GROUP_ROWS, **options)
