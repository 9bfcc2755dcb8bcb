"""The view of a Parquet footer accepts what QuestDB's converter accepts and rejects what contradicts the format."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from damage import each_flipped
from hypothesis import given
from hypothesis import strategies as st
from parquet_files import footer_of, written
from rejections import rejection

from tornproof.impl.errors import CorruptError, Problem, ProblemError, UnsupportedError
from tornproof.impl.extension.decode import FlatFooter
from tornproof.impl.extension.encode import flatbuffer_of
from tornproof.impl.parquet.fields import (
    FILE_META_DATA,
    KEY_VALUE,
    LOGICAL_TYPE,
    PAGE_HEADER,
    SCHEMA_ELEMENT,
    Codec,
    Repetition,
)
from tornproof.impl.parquet.footer import ParquetFooter, check_for_others, decode_footer, read_footer_tail, split_footer
from tornproof.impl.parquet.records import Form, Member, Table, read
from tornproof.impl.parquet.schema import SCHEMA_DEPTH_MAX
from tornproof.impl.parquet.thrift import STOP, Field, Items, Kind, Padded, Struct, Value, decode, encode
from tornproof.impl.types.physical import PhysicalType

Steps: TypeAlias = tuple[str | int, ...]
# What QuestDB's converter rejects for a reason outside of the view: its memory budget, its rules for unknown fields,
# its JSON, and files that point into other files.
CONVERTER_ALONE_REJECTS = {
    "footer-budget-300-encodings",
    "footer-size-stats-histogram-200",
    "footer-ext-in-columnmetadata-nonutf8",
    "footer-unknown-uuid-type-13",
    "footer-file-path-empty",
    "backfill-short-json",
}
CHUNK: Steps = ("row_groups", 0, "columns", 0)
META: Steps = (*CHUNK, "meta_data")


def plain_file() -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.table({"a": pa.array([1, 2], pa.int64())})
    with pq.ParquetWriter(sink, table.schema, store_schema=False, sorting_columns=[pq.SortingColumn(0)]) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"k": "v"})
    return bytes(sink.getvalue())


PLAIN = plain_file()
PLAIN_TREE = footer_of(PLAIN).tree


def check(tree: Struct, *, tolerant: bool = False) -> ParquetFooter:
    return decode_footer(encode(tree), file="data.parquet", offset_bytes=1000, tolerant=tolerant)


def rejected(tree: Struct, kind: type[ProblemError] = CorruptError) -> Problem:
    problem = rejection(lambda: check(tree), kind)
    assert problem.offset_bytes is not None
    return problem


def edited(struct: Struct, table: Table, path: Steps, change: Callable[[Struct, Table], Struct]) -> Struct:
    """The tree with the struct at the end of the path changed."""
    if not path:
        return change(struct, table)
    name, *rest = path
    member = member_named(table, name)
    fields = [
        field._replace(value=_inside(field.value, member.form, tuple(rest), change)) if field.id == member.id else field
        for field in struct.fields
    ]
    assert fields != list(struct.fields), path
    return Struct(tuple(fields))


def _inside(value: Any, form: Form, path: Steps, change: Callable[[Struct, Table], Struct]) -> Value:
    if form.element is None:
        assert form.table is not None
        return edited(value, form.table, path, change)
    index, *rest = path
    assert isinstance(index, int)
    elements = list(value.elements)
    elements[index] = _inside(elements[index], form.element, tuple(rest), change)
    return Items(value.element_kind, tuple(elements))


def member_named(table: Table, name: str | int) -> Member:
    return next(member for member in table.by_id.values() if member.name == name)


def with_field(path: Steps, change: Callable[[Field], Field | None], tree: Struct = PLAIN_TREE) -> Struct:
    """The tree with one field changed, or left out where the change gives None."""

    def change_in(struct: Struct, table: Table) -> Struct:
        member = member_named(table, path[-1])
        assert any(field.id == member.id for field in struct.fields), path
        changed = (change(field) if field.id == member.id else field for field in struct.fields)
        return Struct(tuple(field for field in changed if field is not None))

    return edited(tree, FILE_META_DATA, path[:-1], change_in)


def with_value(path: Steps, value: Value, tree: Struct = PLAIN_TREE) -> Struct:
    return with_field(path, lambda field: field._replace(value=value), tree)


def with_member(path: Steps, name: str, value: Value) -> Struct:
    """The tree whose struct at `path` has this member, behind the others."""

    def add(struct: Struct, table: Table) -> Struct:
        member = member_named(table, name)
        others = tuple(field for field in struct.fields if field.id != member.id)
        return Struct((*others, Field(member.id, member.form.kind, value)))

    return edited(PLAIN_TREE, FILE_META_DATA, path, add)


def path_text(path: Steps) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)[1:]


def required_paths(table: Table, base: Steps = ()) -> Iterator[Steps]:
    for member in table.by_id.values():
        path = (*base, member.name)
        if member.required:
            yield path
        form = member.form
        inner = form.element.table if form.element else form.table
        is_there = member.name in {
            "schema",
            "row_groups",
            "columns",
            "meta_data",
            "sorting_columns",
            "key_value_metadata",
            "statistics",
        }
        if inner and is_there and not form.as_tree:
            yield from required_paths(inner, (*path, 0) if form.element else path)


REQUIRED = list(required_paths(FILE_META_DATA))
SIZES: list[Steps] = [
    ("num_rows",),
    ("row_groups", 0, "num_rows"),
    ("row_groups", 0, "total_byte_size"),
    (*META, "total_compressed_size"),
    (*META, "data_page_offset"),
]


def test_unchanged_tree_is_taken() -> None:
    footer = check(PLAIN_TREE)
    assert (footer.num_rows, footer.offset_bytes, footer.length_bytes) == (2, 1000, len(encode(PLAIN_TREE)))
    assert footer.row_groups[0].chunks[0].path_in_schema == footer.leaves[0].path == ("a",)


@pytest.mark.parametrize("path", REQUIRED, ids=path_text)
def test_required_field_must_be_there(path: Steps) -> None:
    error = rejected(with_field(path, lambda field: None))
    assert (error.field, error.actual) == (path_text(path), "none")


@pytest.mark.parametrize("path", REQUIRED, ids=path_text)
def test_required_field_must_have_its_wire_type(path: Steps) -> None:
    def change(field: Field) -> Field:
        return field._replace(kind=Kind.DOUBLE, value=bytes(8))

    error = rejected(with_field(path, change))
    assert (error.field, error.actual) == (path_text(path), "DOUBLE")


def test_list_must_hold_its_wire_type_but_any_integer_will_do() -> None:
    path = (*META, "encodings")
    assert check(with_value(path, Items(Kind.I16, (0, 3)))).row_groups[0].chunks[0].encodings == (0, 3)
    assert check(with_value(path, Items(Kind.STRUCT, ()))).row_groups[0].chunks[0].encodings == ()
    problem = rejected(with_value(path, Items(Kind.BINARY, (b"",))))
    assert (problem.field, problem.expected) == (path_text(path), "a required LIST of I32")
    assert problem.actual == f"LIST of wire type {int(Kind.BINARY)}"


@pytest.mark.parametrize(
    "path",
    [(*META, "key_value_metadata"), (*META, "encodings"), (*CHUNK[:2], "sorting_columns"), ("key_value_metadata",)],
    ids=path_text,
)
def test_list_without_elements_may_have_no_wire_type_as_fastparquet_writes_it(path: Steps) -> None:
    """Its files were refused by a migration, and called damaged."""
    *inside, name = path
    tree = with_member(tuple(inside), str(name), Items(STOP, ()))
    check_for_others(check(tree), file="data.parquet")
    assert FlatFooter(flatbuffer_of(encode(tree), file="x"), file="x").thrift() == encode(tree)
    assert split_footer(encode(tree), file="x", offset_bytes=0).with_key_value("k", "w").key_value("k") == "w"
    for wrong in (Items(14, ()), Items(Kind.DOUBLE, (bytes(8),))):
        with pytest.raises(CorruptError):
            check_for_others(check(with_member(tuple(inside), str(name), wrong)), file="data.parquet")


def test_optional_field_of_another_wire_type_is_skipped_as_readers_do() -> None:
    path = (*META, "statistics")
    number = with_field(path, lambda field: field._replace(kind=Kind.I32, value=5))
    assert check(number).row_groups[0].chunks[0].statistics is None
    assert check(PLAIN_TREE).row_groups[0].chunks[0].statistics is not None


def test_unknown_field_is_kept_in_the_tree_and_not_in_the_way() -> None:
    extension = Field(-16384, Kind.BINARY, b"\xff\x00")
    footer = check(Struct((*PLAIN_TREE.fields, extension)))
    assert footer.tree.fields[-1].value == b"\xff\x00"
    assert footer.row_groups == check(PLAIN_TREE).row_groups


def test_last_of_two_equal_fields_wins() -> None:
    rows = next(member for member in FILE_META_DATA.by_id.values() if member.name == "num_rows")
    assert check(Struct((*PLAIN_TREE.fields, Field(rows.id, Kind.I64, 77)))).num_rows == 77


def test_padded_number_is_read_as_its_value() -> None:
    assert check(with_value(("num_rows",), Padded(2, 5))).num_rows == 2


@pytest.mark.parametrize("path", SIZES, ids=path_text)
def test_negative_size_is_rejected_even_when_tolerant(path: Steps) -> None:
    tree = with_value(path, -1)
    for tolerant in (False, True):
        problem = rejection(partial(check, tree, tolerant=tolerant))
        assert (problem.field, problem.actual) == (path_text(path), "-1")
    check(with_value(path, 0))


@pytest.mark.parametrize("name", ["index_page_offset", "dictionary_page_offset"])
def test_negative_offset_of_an_optional_page_is_rejected(name: str) -> None:
    assert rejected(with_member(META, name, -1)).field == path_text((*META, name))


@pytest.mark.parametrize(
    "path",
    [(*META, "num_values"), (*META, "total_uncompressed_size"), (*META, "statistics", "null_count")],
    ids=path_text,
)
def test_negative_count_is_for_tolerant_callers_alone(path: Steps) -> None:
    tree = with_value(path, -5)
    assert rejected(tree).field == path_text(path)
    chunk = check(tree, tolerant=True).row_groups[0].chunks[0]
    assert chunk.statistics is not None
    assert -5 in (chunk.num_values, chunk.total_uncompressed_size, chunk.statistics.null_count)


@pytest.mark.parametrize("name", ["bloom_filter_offset", "bloom_filter_length"])
def test_negative_position_of_a_bloom_filter_is_only_for_tolerant_callers(name: str) -> None:
    tree = with_member(META, name, -5)
    assert rejected(tree).field == path_text((*META, name))
    assert getattr(check(tree, tolerant=True).row_groups[0].chunks[0], name) == -5


def test_number_wider_than_its_field_is_rejected() -> None:
    check(with_value(("version",), 2**31 - 1))
    assert rejected(with_value(("version",), 2**31)).field == "version"


@pytest.mark.parametrize(("stored", "meant"), [(0, None), (4, 4)])
def test_dictionary_page_offset_of_zero_means_none(stored: int, meant: int | None) -> None:
    tree = with_member(META, "dictionary_page_offset", stored)
    assert check(tree).row_groups[0].chunks[0].dictionary_page_offset == meant


def test_empty_file_path_is_not_absent() -> None:
    tree = with_member(CHUNK, "file_path", b"")
    assert check(tree).row_groups[0].chunks[0].file_path == ""
    assert check(PLAIN_TREE).row_groups[0].chunks[0].file_path is None


@pytest.mark.parametrize(
    "path",
    [("created_by",), ("schema", 1, "name"), ("key_value_metadata", 0, "key"), ("key_value_metadata", 0, "value")],
    ids=path_text,
)
def test_text_must_be_utf8(path: Steps) -> None:
    check(with_value(path, "Zürich".encode()))
    problem = rejected(with_value(path, b"Z\xfcrich"))
    assert (problem.field, problem.actual) == (path_text(path), "byte 0xfc at 1 of 6")


def test_path_in_schema_must_be_utf8() -> None:
    problem = rejected(with_value((*META, "path_in_schema"), Items(Kind.BINARY, (b"a", b"\xff"))))
    assert problem.field == path_text((*META, "path_in_schema")) + "[1]"


@pytest.mark.parametrize(
    ("path", "last"),
    [
        ((*META, "codec"), Codec.LZ4_RAW),
        (("schema", 1, "type"), PhysicalType.FIXED_LEN_BYTE_ARRAY),
        (("schema", 1, "repetition_type"), Repetition.REPEATED),
    ],
    ids=["codec", "type", "repetition"],
)
def test_unknown_choice_is_unsupported_and_a_negative_one_corrupt(path: Steps, last: int) -> None:
    check(with_value(path, int(last)))
    assert rejected(with_value(path, last + 1), UnsupportedError).field == path_text(path)
    assert rejected(with_value(path, -1)).field == path_text(path)


def test_key_values_keep_order_and_duplicates_and_the_first_counts() -> None:
    def pair(key: str, value: str | None) -> Struct:
        texts = [Field(1, Kind.BINARY, key.encode())]
        return Struct(tuple(texts if value is None else [*texts, Field(2, Kind.BINARY, value.encode())]))

    assert [member.name for member in KEY_VALUE.by_id.values()] == ["key", "value"]
    pairs = (("q", "first"), ("none", None), ("q", "second"))
    footer = check(with_value(("key_value_metadata",), Items(Kind.STRUCT, tuple(pair(*entry) for entry in pairs))))
    assert footer.key_values == pairs
    assert footer.metadata == {"q": "first", "none": None}


def test_row_group_must_have_a_chunk_for_each_leaf() -> None:
    path: Steps = ("row_groups", 0, "columns")
    problem = rejected(with_value(path, Items(Kind.STRUCT, ())))
    assert (problem.field, problem.expected) == (path_text(path), "1 chunks, one for each leaf")


def test_version_and_ordinal_are_those_of_the_file() -> None:
    assert [check(with_value(("version",), version)).version for version in (1, 2)] == [1, 2]
    assert check(with_member(("row_groups", 0), "ordinal", 5)).row_groups[0].ordinal == 5
    assert check(PLAIN_TREE).row_groups[0].ordinal is None


def test_bytes_behind_the_stop_byte_are_ignored() -> None:
    footer = decode_footer(encode(PLAIN_TREE) + b"abc", file="data.parquet", offset_bytes=0)
    assert footer.length_bytes == len(encode(PLAIN_TREE))


def test_error_in_the_bytes_names_the_field_and_the_file_offset() -> None:
    data = encode(PLAIN_TREE)
    problem = rejection(lambda: decode_footer(data[:-1], file="data.parquet", offset_bytes=500))
    assert problem.offset_bytes == 500 + len(data) - 1
    with pytest.raises(CorruptError, match=r"^data\.parquet: schema\[0\]\.name at byte 506: "):
        decode_footer(bytes.fromhex("15 02 19 2C 48 7F 00"), file="data.parquet", offset_bytes=500)


def test_limit_of_nodes_reaches_the_decoder() -> None:
    with pytest.raises(UnsupportedError, match="limit"):
        decode_footer(encode(PLAIN_TREE), file="data.parquet", offset_bytes=0, node_count_max=20)


def test_logical_type_can_be_read_from_its_tree() -> None:
    table = pa.table({"t": pa.array([1], pa.timestamp("us", "UTC"))})
    logical_type = footer_of(written(table)).leaves[0].element.logical_type
    assert logical_type is not None
    timestamp = read(logical_type, LOGICAL_TYPE)["TIMESTAMP"]
    assert timestamp["is_adjusted_to_utc"] is True
    assert "MICROS" in timestamp["unit"] and "MILLIS" not in timestamp["unit"]


@pytest.mark.parametrize("table", [FILE_META_DATA, PAGE_HEADER], ids=lambda table: table.name)
def test_paths_of_unknown_fields_keep_their_numbers(table: Table) -> None:
    assert table.path_text([99, "[0]", 1]) == "99[0].1"
    assert FILE_META_DATA.path_text([4, "[3]", 1, "[0]", 3, 12, 6, 8]) == (
        "row_groups[3].columns[0].meta_data.statistics.min_value.8"
    )


def element(name: str, *, children: int = 0, repetition: int | None = 0, physical_type: int | None = 1) -> Struct:
    values = {
        "type": None if children else physical_type,
        "repetition_type": repetition,
        "name": name.encode(),
        "num_children": children or None,
    }
    ids = {member.name: member for member in SCHEMA_ELEMENT.by_id.values()}
    return Struct(
        tuple(Field(ids[key].id, ids[key].form.kind, value) for key, value in values.items() if value is not None)
    )


def schema_of(*elements: Struct) -> Struct:
    tree = with_value(("schema",), Items(Kind.STRUCT, elements))
    return with_value(("row_groups",), Items(Kind.STRUCT, ()), tree)


def test_levels_count_what_is_optional_and_repeated_on_the_way() -> None:
    footer = check(
        schema_of(
            element("root", children=3, repetition=None),
            element("flat", repetition=Repetition.OPTIONAL),
            element("list", children=1, repetition=Repetition.OPTIONAL),
            element("item", children=2, repetition=Repetition.REPEATED),
            element("x"),
            element("y", repetition=Repetition.REPEATED),
            element("last"),
        )
    )
    found = [(leaf.dotted_path, leaf.top.name, leaf.max_rep, leaf.max_def) for leaf in footer.leaves]
    assert found == [
        ("flat", "flat", 0, 1),
        ("list.item.x", "list", 1, 2),
        ("list.item.y", "list", 2, 3),
        ("last", "last", 0, 0),
    ]


@pytest.mark.parametrize(
    ("elements", "field"),
    [
        ([], "schema"),
        ([element("root", children=2)], "schema"),
        ([element("root", children=2), element("a")], "schema"),
        ([element("root", children=1), element("a"), element("b")], "schema[2]"),
        ([element("root")], "schema[0]"),
        ([element("root", children=1), element("a", repetition=None)], "schema[1]"),
        ([element("root", children=1), element("a", physical_type=None)], "schema[1]"),
        ([element("root", children=2**31 - 1), element("a")], "schema"),
    ],
)
def test_schema_must_be_one_tree(elements: list[Struct], field: str) -> None:
    assert rejected(schema_of(*elements)).field == field


def test_depth_of_the_schema_is_limited() -> None:
    def nested(levels: int) -> Struct:
        return schema_of(*[element("g", children=1)] * levels, element("leaf"))

    assert len(check(nested(SCHEMA_DEPTH_MAX)).leaves[0].path) == SCHEMA_DEPTH_MAX
    rejected(nested(SCHEMA_DEPTH_MAX + 1), UnsupportedError)


def test_tail_of_a_real_file_finds_its_footer() -> None:
    offset_bytes, length_bytes = read_footer_tail(PLAIN[-8:], file="data.parquet", token=len(PLAIN))
    assert offset_bytes + length_bytes + 8 == len(PLAIN)
    assert decode(PLAIN, file="data.parquet", start=offset_bytes)[1] == len(PLAIN) - 8


@pytest.mark.parametrize(("length_bytes", "token"), [(1, 13), (88, 100)])
def test_tail_may_claim_all_that_stands_before_it(length_bytes: int, token: int) -> None:
    tail = length_bytes.to_bytes(4, "little") + b"PAR1"
    assert read_footer_tail(tail, file="data.parquet", token=token) == (token - 8 - length_bytes, length_bytes)


@pytest.mark.parametrize(
    ("tail", "token", "field", "offset_bytes"),
    [
        (b"\x01\0\0\0PAR2", 100, "magic", 96),
        (b"\x00\0\0\0PAR1", 100, "footer_length", 92),
        (b"\x59\0\0\0PAR1", 100, "footer_length", 92),
        (b"\xff\xff\xff\xffPAR1", 100, "footer_length", 92),
        (b"\x01\0\0\0PAR1", 11, "size", None),
        (b"\x01\0\0\0PAR1", 0, "size", None),
        (b"\x01\0\0\0PAR1", -1, "size", None),
        (b"\0\0\0PAR1", 100, "Parquet tail", 0),
    ],
)
def test_tail_that_names_no_footer_is_rejected(tail: bytes, token: int, field: str, offset_bytes: int | None) -> None:
    problem = rejection(lambda: read_footer_tail(tail, file="data.parquet", token=token))
    assert (problem.field, problem.offset_bytes) == (field, offset_bytes)


def test_encrypted_footer_is_unsupported() -> None:
    with pytest.raises(UnsupportedError):
        read_footer_tail(b"\x01\0\0\0PARE", file="data.parquet", token=100)


def test_verdicts_are_those_of_the_real_converter(questdb_data: Path) -> None:
    index = json.loads((questdb_data / "vectors" / "index.json").read_text())
    assert len(index) == 100
    for name, outcome in index.items():
        content = (questdb_data / "vectors" / f"{name}.parquet").read_bytes()
        try:
            footer_of(content, tolerant=True)
            verdict = True
        except (CorruptError, UnsupportedError):
            verdict = False
        assert verdict == (outcome["tool"] == "ok" or name in CONVERTER_ALONE_REJECTS), name


def test_every_flipped_bit_of_a_footer_is_rejected_or_read() -> None:
    data = encode(PLAIN_TREE)
    rejections = 0
    for damaged in each_flipped(data):
        try:
            decode_footer(damaged, file="data.parquet", offset_bytes=0)
        except (CorruptError, UnsupportedError):
            rejections += 1
    assert len(data) * 2 < rejections < len(data) * 8


@given(st.binary(max_size=60))
def test_random_bytes_are_no_footer(data: bytes) -> None:
    with pytest.raises((CorruptError, UnsupportedError)):
        decode_footer(data, file="data.parquet", offset_bytes=0)


@given(
    st.lists(
        st.tuples(st.integers(0, len(encode(PLAIN_TREE)) - 1), st.binary(max_size=4), st.integers(0, 4)), max_size=3
    )
)
def test_damaged_footers_are_rejected_or_read(damages: list[tuple[int, bytes, int]]) -> None:
    data = encode(PLAIN_TREE)
    for position, inserted, removed_bytes in damages:
        data = data[:position] + inserted + data[position + removed_bytes :]
    try:
        footer = decode_footer(data, file="data.parquet", offset_bytes=0)
    except (CorruptError, UnsupportedError):
        return
    assert encode(footer.tree) == data[: footer.length_bytes]
