"""The Thrift codec keeps every byte that it reads, and rejects hostile bytes before they cost anything."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from parquet_files import footer_bytes, written
from rejections import rejection
from work import peak_bytes

from tornproof.impl.errors import CorruptError, Problem, UnsupportedError
from tornproof.impl.parquet.thrift import DEPTH_MAX, Entries, Field, Items, Kind, Padded, Struct, decode, encode

INTEGERS = (Kind.I16, Kind.I32, Kind.I64)
EXTENSION_AS_DOCUMENTED = bytes.fromhex("08 FF FF 01")
EXTENSION_AS_ZIGZAG = bytes.fromhex("08 FE FF 03")


SMALL_FOOTER, _ = footer_bytes(written(pa.table({"a": [1, 2, None], "b": [["x"], [], None]})))


def rejected(data: bytes, **limits: Any) -> Problem:
    return rejection(lambda: decode(data, file="data.parquet", **limits))


def without_offsets(value: Any) -> Any:
    """The same tree with every node at byte 0, for comparison with one written by hand."""
    if isinstance(value, Struct):
        return Struct(tuple(f._replace(offset_bytes=0, value=without_offsets(f.value)) for f in value.fields))
    if isinstance(value, Items):
        return value._replace(offset_bytes=0, elements=tuple(map(without_offsets, value.elements)))
    if isinstance(value, Entries):
        entries = tuple((without_offsets(key), without_offsets(entry)) for key, entry in value.entries)
        return value._replace(offset_bytes=0, entries=entries)
    return value


def width_of(number: int) -> int:
    return max(1, -(-number.bit_length() // 7))


@st.composite
def integers(draw: st.DrawFn) -> Any:
    number = draw(st.integers(-(2**63), 2**63 - 1) | st.integers(-200, 200))
    return padded(draw, number, width_of(2 * number if number >= 0 else -2 * number - 1))


@st.composite
def binaries(draw: st.DrawFn) -> Any:
    content = draw(st.binary(max_size=6) | st.binary(min_size=130, max_size=140))
    return padded(draw, content, width_of(len(content)))


def padded(draw: st.DrawFn, value: Any, width_bytes: int) -> Any:
    padding_bytes = draw(st.sampled_from([0, 0, 0, 1, 3]))
    wide_bytes = min(10, width_bytes + padding_bytes)
    return Padded(value, wide_bytes) if wide_bytes > width_bytes else value


def values(kind: int, depth: int) -> st.SearchStrategy[Any]:
    simple: dict[int, st.SearchStrategy[Any]] = {
        Kind.TRUE: st.integers(0, 255),
        Kind.BOOL: st.integers(0, 255),
        Kind.BYTE: st.integers(0, 255),
        Kind.I16: integers(),
        Kind.I32: integers(),
        Kind.I64: integers(),
        Kind.DOUBLE: st.binary(min_size=8, max_size=8),
        Kind.BINARY: binaries(),
        Kind.UUID: st.binary(min_size=16, max_size=16),
    }
    if kind in simple:
        return simple[kind]
    if kind == Kind.STRUCT:
        return structs(depth - 1)
    return maps(depth - 1) if kind == Kind.MAP else lists(depth - 1)


def kinds(depth: int) -> st.SearchStrategy[Kind]:
    containers = {Kind.STRUCT, Kind.LIST, Kind.SET, Kind.MAP}
    return st.sampled_from([kind for kind in Kind if depth > 0 or kind not in containers])


@st.composite
def lists(draw: st.DrawFn, depth: int) -> Items:
    kind = draw(kinds(depth))
    elements = draw(
        st.lists(values(kind, depth), max_size=4) | st.lists(values(kind, 0), min_size=15, max_size=17)
        if kind < Kind.LIST
        else st.lists(values(kind, depth), max_size=3)
    )
    width_bytes = draw(st.sampled_from([1, 2]) if len(elements) > 14 else st.sampled_from([0, 0, 1, 2]))
    return Items(kind, tuple(elements), 0, width_bytes)


@st.composite
def maps(draw: st.DrawFn, depth: int) -> Entries:
    key_kind, value_kind = draw(kinds(0)), draw(kinds(depth))
    entries = draw(st.lists(st.tuples(values(key_kind, 0), values(value_kind, depth)), max_size=3))
    width_bytes = draw(st.sampled_from([1, 2]))
    return Entries(key_kind if entries else 0, value_kind if entries else 0, tuple(entries), 0, width_bytes)


@st.composite
def structs(draw: st.DrawFn, depth: int) -> Struct:
    fields: list[Field] = []
    previous_id = 0
    for _ in range(draw(st.integers(0, 4))):
        field_id = draw(
            st.integers(previous_id + 1, min(previous_id + 15, 32767)) | st.integers(-32768, 32767)
            if previous_id < 32767
            else st.integers(-32768, 32767)
        )
        kind = draw(kinds(depth).filter(lambda kind: kind is not Kind.TRUE))
        value = draw(st.booleans()) if kind is Kind.BOOL else draw(values(kind, depth))
        needed = width_of(2 * field_id if field_id >= 0 else -2 * field_id - 1)
        long_width = draw(st.sampled_from([needed, needed + 1]))
        is_short = 1 <= field_id - previous_id <= 15 and draw(st.booleans())
        fields.append(Field(field_id, kind, value, 0, 0 if is_short else long_width))
        previous_id = field_id
    return Struct(tuple(fields))


@given(structs(depth=3), st.binary(max_size=3), st.binary(max_size=3))
def test_any_tree_survives_encoding_and_decoding(tree: Struct, before: bytes, after: bytes) -> None:
    data = encode(tree)
    decoded, end = decode(before + data + after, file="data.parquet", start=len(before))
    assert without_offsets(decoded) == tree
    assert end == len(before) + len(data)


@pytest.mark.parametrize(
    ("hex_bytes", "field"),
    [
        ("11 00", Field(1, Kind.BOOL, True)),
        ("12 00", Field(1, Kind.BOOL, False)),
        ("13 FE 00", Field(1, Kind.BYTE, 0xFE)),
        ("14 01 00", Field(1, Kind.I16, -1)),
        ("F5 02 00", Field(15, Kind.I32, 1)),
        ("16 AC 02 00", Field(1, Kind.I64, 150)),
        ("16 FF FF FF FF FF FF FF FF FF 01 00", Field(1, Kind.I64, -(2**63))),
        ("17 00 00 00 00 00 00 F0 3F 00", Field(1, Kind.DOUBLE, bytes(6) + b"\xf0?")),
        ("18 02 68 69 00", Field(1, Kind.BINARY, b"hi")),
        ("19 25 02 03 00", Field(1, Kind.LIST, Items(Kind.I32, (1, -2)))),
        ("1A 22 01 02 00", Field(1, Kind.SET, Items(Kind.BOOL, (1, 2)))),
        ("1B 01 85 01 78 02 00", Field(1, Kind.MAP, Entries(Kind.BINARY, Kind.I32, ((b"x", 1),)))),
        ("1B 00 00", Field(1, Kind.MAP, Entries(0, 0, ()))),
        ("1C 00 00", Field(1, Kind.STRUCT, Struct(()))),
        ("1D" + "AB" * 16 + "00", Field(1, Kind.UUID, b"\xab" * 16)),
        ("05 20 02 00", Field(16, Kind.I32, 1, 0, 1)),
    ],
)
def test_each_wire_type_is_encoded_as_the_protocol_says(hex_bytes: str, field: Field) -> None:
    data = bytes.fromhex(hex_bytes)
    tree, end = decode(data, file="data.parquet")
    assert without_offsets(tree) == Struct((field._replace(offset_bytes=0),))
    assert end == len(data)
    assert encode(Struct((field,))) == data


@pytest.mark.parametrize(
    ("hex_bytes", "field"),
    [
        ("05 02 02 00", Field(1, Kind.I32, 1, 0, 1)),
        ("05 82 00 02 00", Field(1, Kind.I32, 1, 0, 2)),
        ("15 82 80 00 00", Field(1, Kind.I32, Padded(1, 3))),
        ("16 82 80 80 80 80 80 80 80 80 00 00", Field(1, Kind.I64, Padded(1, 10))),
        ("18 81 00 68 00", Field(1, Kind.BINARY, Padded(b"h", 2))),
        ("19 F5 01 02 00", Field(1, Kind.LIST, Items(Kind.I32, (1,), 0, 1))),
        ("19 F5 81 00 02 00", Field(1, Kind.LIST, Items(Kind.I32, (1,), 0, 2))),
        ("19 15 82 00 00", Field(1, Kind.LIST, Items(Kind.I32, (Padded(1, 2),)))),
        ("1B 80 00 00", Field(1, Kind.MAP, Entries(0, 0, (), 0, 2))),
        ("19 11 00 00", Field(1, Kind.LIST, Items(Kind.TRUE, (0,)))),
    ],
)
def test_unusual_choices_of_a_writer_are_kept(hex_bytes: str, field: Field) -> None:
    data = bytes.fromhex(hex_bytes)
    tree, _ = decode(data, file="data.parquet")
    assert without_offsets(tree).fields == (field,)
    assert encode(tree) == data


@pytest.mark.parametrize(
    ("header", "field_id"), [(EXTENSION_AS_DOCUMENTED, -16384), (EXTENSION_AS_ZIGZAG, 32767)], ids=["uleb", "zigzag"]
)
def test_extension_field_in_either_header_form_is_kept(header: bytes, field_id: int) -> None:
    data = SMALL_FOOTER[:-1] + header + b"\x04\x00\xff\x19\x08" + b"\x00"
    tree, end = decode(data, file="data.parquet")
    assert tree.fields[-1]._replace(offset_bytes=0) == Field(field_id, Kind.BINARY, b"\x00\xff\x19\x08", 0, 3)
    assert (encode(tree), end) == (data, len(data))


def test_every_real_footer_is_encoded_to_its_own_bytes(questdb_data: Path) -> None:
    paths = sorted(path for folder in ("tables", "legacy") for path in (questdb_data / folder).rglob("*.parquet"))
    assert len(paths) > 100
    for path in paths:
        footer = footer_bytes(path.read_bytes())[0]
        tree, end = decode(footer, file=path.name)
        assert (encode(tree), end) == (footer, len(footer)), path


def test_long_header_without_need_makes_no_difference_to_the_next_short_one() -> None:
    data = bytes.fromhex("05 06 02 15 04 00")
    tree, _ = decode(data, file="data.parquet")
    assert [field.id for field in tree.fields] == [3, 4]
    assert encode(tree) == data


def test_equal_ids_in_a_row_need_the_long_header() -> None:
    tree = Struct((Field(1, Kind.I32, 1), Field(1, Kind.I32, 2)))
    assert encode(tree) == bytes.fromhex("15 02 05 02 04 00")


@pytest.mark.parametrize(("count", "header"), [(14, "E3"), (15, "F3 0F"), (200, "F3 C8 01")])
def test_count_of_a_list_made_by_hand_takes_the_shortest_form(count: int, header: str) -> None:
    data = bytes.fromhex("19" + header) + bytes(count) + b"\x00"
    assert encode(Struct((Field(1, Kind.LIST, Items(Kind.BYTE, (0,) * count)),))) == data
    assert encode(decode(data, file="data.parquet")[0]) == data


def test_field_that_moved_gets_the_header_that_it_needs() -> None:
    tree, _ = decode(bytes.fromhex("15 02 F5 04 15 06 00"), file="data.parquet")
    assert encode(Struct(tree.fields[2:])) == bytes.fromhex("05 22 06 00")


def test_nodes_know_where_in_the_file_they_stand() -> None:
    tree, _ = decode(bytes.fromhex("15 02 19 1C 15 04 00 1B 00 00"), file="data.parquet", offset_bytes=1000)
    number, structs_list, entries = tree.fields
    assert (tree.offset_bytes, number.offset_bytes, structs_list.offset_bytes) == (1000, 1000, 1002)
    assert isinstance(structs_list.value, Items) and isinstance(structs_list.value.elements[0], Struct)
    assert structs_list.value.offset_bytes == 1003
    assert structs_list.value.elements[0].offset_bytes == structs_list.value.elements[0].fields[0].offset_bytes == 1004
    assert isinstance(entries.value, Entries)
    assert (entries.offset_bytes, entries.value.offset_bytes) == (1007, 1008)


@pytest.mark.parametrize(
    ("hex_bytes", "path", "offset_bytes"),
    [
        ("10 00", "1", 100),
        ("1E 00", "1", 100),
        ("1F 00", "1", 100),
        ("15 02 16 FF FF FF FF FF FF FF FF FF FF 01 00", "2", 103),
        ("16 FF FF FF FF FF FF FF FF FF 02 00", "1", 101),
        ("16 82 80 80 80 80 80 80 80 80 80 00 00", "1", 101),
        ("05 80 80 04 02 00", "struct", 101),
        ("18 7F 68 00", "1", 102),
        ("19 F5 FF FF FF FF 7F 00", "1", 107),
        ("19 E5 02 00", "1", 102),
        ("1B FF FF FF FF 7F 55 02 02 00", "1", 106),
        ("19 2C 00 15 02 18 05 00 00", "1[1].2", 107),
        ("1B 01 5C 02 18 05 00 00", "1[0].1", 106),
        ("1C 1C 17 00 00 00", "1.1.1", 103),
        ("", "struct", 100),
        ("15", "1", 101),
        ("19 1C 15 02", "1[0].1", 104),
    ],
)
def test_hostile_bytes_are_rejected_with_path_and_offset(hex_bytes: str, path: str, offset_bytes: int) -> None:
    problem = rejected(bytes.fromhex(hex_bytes), offset_bytes=100)
    assert (problem.file, problem.field, problem.offset_bytes) == ("data.parquet", path, offset_bytes)


def test_field_ids_stay_within_16_bits() -> None:
    highest = bytes.fromhex("02 FE FF 03")
    tree, _ = decode(highest + b"\x02\x02\x00", file="data.parquet")
    assert [field.id for field in tree.fields] == [32767, 1]
    lowest, _ = decode(bytes.fromhex("02 FF FF 03 00"), file="data.parquet")
    assert lowest.fields[0].id == -32768
    assert rejected(bytes.fromhex("02 81 80 04 00")).actual == "-32769"
    for beyond in (highest + b"\x12\x00", highest + b"\x12\x02\x02\x00"):
        assert rejected(beyond).actual == "32768"


@pytest.mark.parametrize("content", ["18 03 61 62 63", "19 33 61 62 63", "1B 02 33 61 62 63 64"])
def test_claim_may_reach_the_last_byte_and_no_further(content: str) -> None:
    data = bytes.fromhex(content)
    assert rejected(data).expected == "more bytes"
    assert rejected(data[: -1 if data[0] != 0x1B else -4]).expected.startswith("at most the ")


def test_every_cut_of_a_footer_is_rejected() -> None:
    for length_bytes in range(len(SMALL_FOOTER)):
        assert rejected(SMALL_FOOTER[:length_bytes]).offset_bytes is not None


@pytest.mark.parametrize("inner", [b"\x1c", b"\x19\x1c"], ids=["structs", "lists of structs"])
def test_depth_is_limited(inner: bytes) -> None:
    levels = len(inner)
    most = (DEPTH_MAX - 1) // levels
    decode(inner * most + bytes(most + 1), file="data.parquet")
    assert rejected(inner * (most + 1) + bytes(most + 2)).expected == f"at most {DEPTH_MAX} levels"
    rejected(inner * 100_000)


def test_lists_inside_lists_and_maps_count_as_levels() -> None:
    rejected(b"\x19" + b"\x19" * 100_000)
    rejected(b"\x1b" + b"\x01\x5b\x02" * 100_000)


@pytest.mark.parametrize(
    ("data", "node_count"),
    [(b"\x15\x02\x15\x02\x00", 2), (b"\x19\x35\x02\x02\x02\x00", 4), (b"\x1b\x02\x55\x02\x02\x02\x02\x00", 3)],
    ids=["fields", "elements", "entries"],
)
def test_total_of_nodes_is_limited(data: bytes, node_count: int) -> None:
    decode(data, file="data.parquet", node_count_max=node_count)
    problem = rejection(lambda: decode(data, file="data.parquet", node_count_max=node_count - 1), UnsupportedError)
    assert "limit" in problem.expected


def test_claims_cost_no_memory() -> None:
    claims = [b"\x19\xf5\xff\xff\xff\xff\xff\x7f" + bytes(999), b"\x18\xff\xff\xff\xff\x7f" + bytes(999)]
    assert peak_bytes(lambda: [rejected(data) for data in claims]) < 100_000


@given(st.binary(max_size=80))
@example(b"\x1b\x01\x00\x00")
def test_random_bytes_are_rejected_or_kept(data: bytes) -> None:
    try:
        tree, end = decode(data, file="data.parquet")
    except CorruptError:
        return
    assert encode(tree) == data[:end]


@given(st.integers(0, len(SMALL_FOOTER) - 1), st.integers(0, 255), st.integers(0, 4))
def test_damaged_footers_are_rejected_or_kept(position: int, byte: int, removed_bytes: int) -> None:
    data = SMALL_FOOTER[:position] + bytes([byte]) + SMALL_FOOTER[position + removed_bytes :]
    try:
        tree, end = decode(data, file="data.parquet")
    except CorruptError:
        return
    assert encode(tree) == data[:end]
