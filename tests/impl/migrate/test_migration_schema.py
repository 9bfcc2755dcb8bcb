import itertools
from typing import Any

import migrated_files as mf
import pyarrow as pa
import pytest
from migrated_files import META, file_of_leaf, file_of_type, logical, schema_element, struct
from parquet_files import written
from rejections import rejection
from type_values import decimal_type

from tornproof.impl.migrate.footer_reader import read_footer
from tornproof.impl.migrate.rejections import Cause, RejectedCorruptError, RejectedUnsupportedError, RejectionError
from tornproof.impl.migrate.shapes import FileMetaData
from tornproof.impl.parquet.fields import ConvertedType
from tornproof.impl.parquet.footer import decode_footer
from tornproof.impl.parquet.thrift import Entries, Items, Kind, Padded, Struct, Value
from tornproof.impl.types.questdb import TypeTag

BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FLBA = range(8)
CONVERTED = {each.name: int(each) for each in ConvertedType}
STRING, MAP, LIST, ENUM, DATE, NULL, JSON, BSON, UUID, FLOAT16 = (
    logical(number) for number in (1, 2, 3, 4, 6, 11, 12, 13, 14, 15)
)
ROOT, REQUIRED, OPTIONAL, REPEATED = schema_element("root", children=1), 0, 1, 2


def decimal(precision: int, scale: int) -> Struct:
    return logical(5, (1, Kind.I32, scale), (2, Kind.I32, precision))


def time(number: int, unit: int) -> Struct:
    return logical(number, (1, Kind.BOOL, True), (2, Kind.STRUCT, struct((unit, Kind.STRUCT, struct()))))


def integer(width: int, signed: bool) -> Struct:
    return logical(10, (1, Kind.BYTE, width), (2, Kind.BOOL, signed))


def converted_decimal(precision: int, scale: int) -> dict[str, int]:
    return {"converted": CONVERTED["DECIMAL"], "precision": precision, "scale": scale}


@pytest.mark.parametrize(
    ("fields", "column_type"),
    [
        ({"type": BOOLEAN}, 1),
        ({"type": INT32}, 5),
        ({"type": INT32, "logical": integer(32, True), "converted": CONVERTED["INT_8"]}, 5),
        ({"type": INT32, "logical": integer(24, False), "converted": CONVERTED["DATE"]}, 5),
        ({"type": INT32, "logical": integer(16, True)}, 3),
        ({"type": INT32, "converted": CONVERTED["INT_16"]}, 3),
        ({"type": INT32, "logical": integer(8, True)}, 2),
        ({"type": INT32, "converted": CONVERTED["INT_8"]}, 2),
        ({"type": INT32, "logical": integer(8, False)}, 5),
        ({"type": INT32, "converted": CONVERTED["UINT_16"]}, 5),
        ({"type": INT32, "logical": DATE}, 7),
        ({"type": INT32, "converted": CONVERTED["DATE"]}, 7),
        ({"type": INT32, "logical": time(7, 1)}, 5),
        ({"type": INT32, "logical": NULL}, 5),
        ({"type": INT32, "converted": CONVERTED["INT_32"]}, 5),
        ({"type": INT32, "logical": decimal(2, 1)}, decimal_type(TypeTag(28), 2, 1)),
        ({"type": INT32, "logical": decimal(9, 0), **converted_decimal(4, 2)}, decimal_type(TypeTag(30), 9, 0)),
        ({"type": INT32, "logical": integer(32, True), **converted_decimal(4, 2)}, 5),
        ({"type": INT64}, 6),
        ({"type": INT64, "logical": time(8, 1)}, 7),
        ({"type": INT64, "logical": time(8, 2)}, 8),
        ({"type": INT64, "logical": time(8, 3)}, 262152),
        ({"type": INT64, "logical": time(8, 2), **converted_decimal(4, 2)}, 8),
        ({"type": INT64, "converted": CONVERTED["TIMESTAMP_MICROS"]}, 6),
        ({"type": INT64, "logical": time(7, 2)}, 6),
        ({"type": INT64, "logical": integer(64, False)}, 6),
        ({"type": INT64, **converted_decimal(18, 18)}, decimal_type(TypeTag(31), 18, 18)),
        ({"type": INT96}, 262152),
        ({"type": FLOAT}, 9),
        ({"type": DOUBLE}, 10),
        ({"type": BYTE_ARRAY}, 18),
        ({"type": BYTE_ARRAY, "logical": STRING}, 26),
        ({"type": BYTE_ARRAY, "converted": CONVERTED["UTF8"]}, 26),
        ({"type": BYTE_ARRAY, "logical": ENUM, "converted": CONVERTED["ENUM"]}, 18),
        ({"type": BYTE_ARRAY, "logical": JSON}, 18),
        ({"type": BYTE_ARRAY, "logical": BSON}, 18),
        ({"type": BYTE_ARRAY, "logical": decimal(4, 2)}, decimal_type(TypeTag(29), 4, 2)),
        ({"type": BYTE_ARRAY, "logical": STRING, **converted_decimal(39, 0)}, decimal_type(TypeTag(33), 39, 0)),
        ({"type": BYTE_ARRAY, "logical": decimal(77, 0)}, -1),
        ({"type": BYTE_ARRAY, "logical": decimal(256, 0)}, -1),
        ({"type": BYTE_ARRAY, "logical": decimal(300, 45)}, -1),
        ({"type": BYTE_ARRAY, "logical": decimal(300, 44)}, decimal_type(TypeTag(33), 44, 44)),
        ({"type": FLBA, "type_length": 16}, 24),
        ({"type": FLBA, "type_length": 16, "logical": UUID}, 19),
        ({"type": FLBA, "type_length": 32}, 13),
        ({"type": FLBA, "type_length": 5}, -1),
        ({"type": FLBA, "type_length": 0}, -1),
        ({"type": FLBA, "type_length": 12, "converted": CONVERTED["INTERVAL"]}, -1),
        ({"type": FLBA, "type_length": 16, "logical": decimal(38, 10)}, decimal_type(TypeTag(32), 38, 10)),
        ({"type": FLBA, "type_length": 2, "logical": FLOAT16}, -1),
        ({"type": INT64, "type_length": -5}, 6),
        ({"type": INT64, "precision": 3}, 6),
    ],
)
def test_type_of_a_leaf(fields: dict[str, Any], column_type: int) -> None:
    assert file_of_type(**fields) == column_type


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({}, Cause.SCHEMA),
        ({"type": 8}, Cause.SCHEMA),
        ({"type": -1}, Cause.SCHEMA),
        ({"type": INT32, "repetition": None}, Cause.SCHEMA),
        ({"type": INT32, "repetition": 3}, Cause.OUT_OF_RANGE),
        ({"type": FLBA}, Cause.SCHEMA),
        ({"type": FLBA, "type_length": -1}, Cause.NEGATIVE),
        ({"type": INT32, "converted": 22}, Cause.SCHEMA),
        ({"type": INT32, "converted": -1}, Cause.SCHEMA),
        ({"type": INT32, "converted": CONVERTED["LIST"]}, Cause.SCHEMA),
        ({"type": INT32, "converted": CONVERTED["DATE"], "scale": 1}, Cause.SCHEMA),
        ({"type": INT32, "converted": CONVERTED["DECIMAL"]}, Cause.SCHEMA),
        ({"type": INT32, **converted_decimal(-1, 0)}, Cause.NEGATIVE),
        ({"type": INT32, "logical": decimal(1, -1)}, Cause.NEGATIVE),
        ({"type": INT32, **converted_decimal(0, 0)}, Cause.SCHEMA),
        ({"type": INT32, **converted_decimal(2, 3)}, Cause.SCHEMA),
        ({"type": INT32, **converted_decimal(10, 0)}, Cause.SCHEMA),
        ({"type": INT64, "logical": decimal(19, 0)}, Cause.SCHEMA),
        ({"type": FLBA, "type_length": 1, "logical": decimal(3, 0)}, Cause.SCHEMA),
        ({"type": FLBA, "type_length": 0, "logical": decimal(1, 0)}, Cause.SCHEMA),
        ({"type": DOUBLE, "logical": decimal(1, 0)}, Cause.SCHEMA),
        ({"type": INT64, "logical": time(7, 1)}, Cause.SCHEMA),
        ({"type": INT32, "logical": time(7, 3)}, Cause.SCHEMA),
        ({"type": INT32, "logical": time(8, 1)}, Cause.SCHEMA),
        ({"type": INT64, "logical": integer(24, True)}, Cause.SCHEMA),
        ({"type": INT32, "logical": integer(64, True)}, Cause.SCHEMA),
        ({"type": FLBA, "type_length": 15, "logical": UUID}, Cause.SCHEMA),
        ({"type": FLBA, "type_length": 11, "converted": CONVERTED["INTERVAL"]}, Cause.SCHEMA),
        ({"type": INT96, "converted": CONVERTED["TIMESTAMP_MICROS"]}, Cause.SCHEMA),
        ({"type": INT64, "logical": NULL}, Cause.SCHEMA),
        ({"type": INT32, "logical": LIST}, Cause.SCHEMA),
        ({"type": BYTE_ARRAY, "logical": logical(9)}, None),
    ],
)
def test_illegal_leaf_is_rejected(fields: dict[str, Any], cause: Cause | None) -> None:
    assert mf.cause_of(file_of_leaf(**fields)) is cause


def test_annotations_that_each_physical_type_takes() -> None:
    taken = {
        (physical, name)
        for physical, (name, number) in itertools.product(range(8), CONVERTED.items())
        if mf.cause_of(file_of_leaf(type=physical, type_length=12, converted=number, precision=1, scale=0)) is None
    }
    by_type = {
        BYTE_ARRAY: "UTF8 ENUM JSON BSON DECIMAL",
        INT32: "DATE TIME_MILLIS INT_8 INT_16 INT_32 UINT_8 UINT_16 UINT_32 DECIMAL",
        INT64: "TIME_MICROS TIMESTAMP_MILLIS TIMESTAMP_MICROS INT_64 UINT_64 DECIMAL",
        FLBA: "INTERVAL DECIMAL",
    }
    assert taken == {(physical, name) for physical, names in by_type.items() for name in names.split()}


def nested_doubles(*groups: tuple[int, Struct | None], leaf: int = REQUIRED) -> bytes:
    """A file whose only leaf is a DOUBLE below single children, each given by repetition and annotation."""
    elements = [schema_element("g", children=1, repetition=repetition, logical=mark) for repetition, mark in groups]
    return mf.file_of(ROOT, *elements, schema_element("leaf", type=DOUBLE, repetition=leaf))


@pytest.mark.parametrize(
    ("content", "column_type", "levels"),
    [
        (nested_doubles((OPTIONAL, LIST), (REPEATED, None), leaf=OPTIONAL), 27 + (10 << 8), (1, 3)),
        (nested_doubles((OPTIONAL, LIST), (REPEATED, None)), 27 + (10 << 8), (1, 2)),
        (
            nested_doubles((OPTIONAL, LIST), (REPEATED, None), (OPTIONAL, LIST), (REPEATED, None), leaf=OPTIONAL),
            27 + (10 << 8) + (1 << 14),
            (2, 5),
        ),
        # By these levels alone, the numbers and not the inner lists would be read as null.
        (
            nested_doubles((OPTIONAL, LIST), (REPEATED, None), (OPTIONAL, LIST), (REPEATED, None)),
            10,
            (2, 4),
        ),
        (nested_doubles((OPTIONAL, LIST), leaf=REPEATED), 10, (1, 2)),
        (nested_doubles((REPEATED, None)), 10, (1, 1)),
        (nested_doubles((OPTIONAL, None), (REPEATED, None)), 10, (1, 2)),
        (nested_doubles((OPTIONAL, LIST), *[(REPEATED, None)] * 33), 10, (33, 34)),
        (nested_doubles((OPTIONAL, LIST), *[(REPEATED, None)] * 32), 27 + (10 << 8) + (31 << 14), (32, 33)),
    ],
)
def test_lists_of_doubles_are_arrays(content: bytes, column_type: int, levels: tuple[int, int]) -> None:
    (column,) = mf.decoded(mf.converted(content)).header.columns
    assert (column.name, column.type, (column.max_rep_level, column.max_def_level)) == ("g", column_type, levels)


def test_list_of_structs_is_no_array_and_its_leaves_share_name_and_id() -> None:
    content = mf.file_of(
        ROOT,
        schema_element("l", children=1, repetition=OPTIONAL, converted=CONVERTED["LIST"], field_id=0),
        schema_element("list", children=2, repetition=REPEATED, field_id=7),
        schema_element("a", type=DOUBLE, repetition=REQUIRED),
        schema_element("b", type=DOUBLE, repetition=OPTIONAL),
    )
    columns = mf.decoded(mf.converted(content)).header.columns
    assert [(column.name, column.id, column.type, column.flags, column.max_def_level) for column in columns] == [
        ("l", 0, 10, 1 << 2, 2),
        ("l", 0, 10, 1 << 2, 3),
    ]


LEAF = schema_element("x", type=INT32, repetition=REQUIRED)


@pytest.mark.parametrize(
    ("elements", "cause"),
    [
        ((), Cause.SCHEMA),
        ((ROOT,), Cause.SCHEMA),
        ((ROOT, LEAF, LEAF), Cause.SCHEMA),
        ((LEAF,), Cause.SCHEMA),
        ((ROOT, schema_element("g", children=2, repetition=REQUIRED), LEAF), Cause.SCHEMA),
        ((ROOT, schema_element("g", children=1), LEAF), Cause.SCHEMA),
        ((ROOT, schema_element("g", children=1, repetition=9), LEAF), Cause.OUT_OF_RANGE),
        ((ROOT, schema_element("g", children=1, repetition=0, converted=0), LEAF), Cause.SCHEMA),
        ((ROOT, schema_element("g", children=1, repetition=0, logical=STRING), LEAF), Cause.SCHEMA),
        ((ROOT, schema_element("g", children=-1, repetition=0)), None),
        ((schema_element("root", children=-1),), None),
        ((ROOT, LEAF), None),
        ((schema_element("root", children=1, converted=0, logical=STRING, repetition=9), LEAF), None),
        ((ROOT, schema_element("g", children=1, repetition=0, converted=2, logical=MAP), LEAF), None),
    ],
)
def test_elements_must_be_one_tree(elements: tuple[Struct, ...], cause: Cause | None) -> None:
    assert mf.cause_of(mf.file_of(*elements)) is cause


@pytest.mark.parametrize(("depth", "cause"), [(254, None), (255, Cause.LEVELS), (5000, Cause.LEVELS)])
def test_levels_beyond_a_byte_are_rejected(depth: int, cause: Cause | None) -> None:
    assert mf.cause_of(nested_doubles(*[(OPTIONAL, None)] * depth, leaf=OPTIONAL)) is cause


def test_groups_without_levels_may_be_nested_deeper() -> None:
    (column,) = mf.decoded(mf.converted(nested_doubles(*[(REQUIRED, None)] * 5000))).header.columns
    assert (column.max_rep_level, column.max_def_level) == (0, 0)


PLAIN = written(pa.table({"v": pa.array([1, 2, None]), "s": pa.array(["a", "b", "b"])}), row_group_size=2)
UNKNOWN = 99


def causes(content: bytes) -> tuple[Cause | None, Cause | None]:
    """The cause of rejection by QuestDB, and by us without its limits."""
    return mf.cause_of(content, as_questdb=True), mf.cause_of(content)


def careful(content: bytes) -> FileMetaData:
    """The footer as read by a reader that checks wire types."""
    length = int.from_bytes(content[-8:-4], "little")
    return read_footer(content[-8 - length :], offset_bytes=0, as_questdb=False)


def careful_cause(content: bytes) -> Cause:
    with pytest.raises(RejectionError) as caught:
        careful(content)
    return caught.value.cause


def with_unknown(value: Value, kind: Kind) -> bytes:
    return mf.edited(PLAIN, (UNKNOWN,), value, kind)


def items(kind: int, *elements: Value) -> Items:
    return Items(kind, elements)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, Kind.BOOL),
        (7, Kind.BYTE),
        (-1, Kind.I16),
        (1 << 40, Kind.I64),
        (bytes(8), Kind.DOUBLE),
        ("ä".encode(), Kind.BINARY),
        (items(Kind.TRUE, 1, 2), Kind.LIST),
        (items(Kind.BINARY, b"a"), Kind.SET),
        (Entries(Kind.BINARY, Kind.I32, ((b"a", 1),)), Kind.MAP),
        (Entries(0, 0, ()), Kind.MAP),
        (struct((1, Kind.STRUCT, struct()), (400, Kind.I32, 5)), Kind.STRUCT),
    ],
)
def test_unknown_fields_are_read_past(value: Value, kind: Kind) -> None:
    content = with_unknown(value, kind)
    fixed = mf.decoded(mf.converted(content)).generation.position.fixed
    assert fixed.parquet_footer_length == len(content) - 8 - fixed.parquet_footer_offset
    assert mf.decoded(mf.converted(content)).blocks == mf.decoded(mf.converted(PLAIN)).blocks
    assert mf.converted(content, as_questdb=True) == mf.converted(content)


@pytest.mark.parametrize(
    ("value", "kind", "as_questdb"),
    [
        (b"\xff", Kind.BINARY, Cause.BAD_DATA),
        (bytes(16), Kind.UUID, Cause.BAD_DATA),
        (items(Kind.UUID), Kind.LIST, Cause.BAD_DATA),
        (items(Kind.BOOL, 1), Kind.LIST, Cause.BAD_DATA),
        (items(Kind.TRUE, 0), Kind.LIST, Cause.BAD_DATA),
        (Entries(Kind.BOOL, Kind.I32, ((1, 1),)), Kind.MAP, Cause.BAD_DATA),
        (items(Kind.I32, *[0] * 1000), Kind.LIST, Cause.BUDGET),
        (Entries(Kind.I32, Kind.I32, ((0, 0),) * 1000), Kind.MAP, Cause.BUDGET),
    ],
)
def test_what_only_the_converter_rejects_is_read_past_without_its_limits(
    value: Value, kind: Kind, as_questdb: Cause
) -> None:
    assert causes(with_unknown(value, kind)) == (as_questdb, None)


def nested(depth: int) -> Struct:
    inner = struct()
    for _ in range(depth - 1):
        inner = struct((1, Kind.STRUCT, inner))
    return inner


@pytest.mark.parametrize(("depth", "cause"), [(63, None), (64, None), (65, Cause.DEPTH)])
def test_unknown_structs_are_nested_64_deep_at_most(depth: int, cause: Cause | None) -> None:
    assert causes(with_unknown(nested(depth), Kind.STRUCT)) == (cause, cause)


def test_budget_is_twice_the_footer_and_1024() -> None:
    rejected = [
        count
        for count in range(900)
        if mf.cause_of(with_unknown(items(Kind.I32, *[0] * count), Kind.LIST), as_questdb=True)
    ]
    assert rejected == list(range(rejected[0], 900))
    # Each element costs 8 and brings 2; what the footer itself needs is between its length and the budget.
    length = int.from_bytes(PLAIN[-8:-4], "little")
    assert 1024 // 6 < rejected[0] < (2 * length + 1024) // 6


@pytest.mark.parametrize(
    ("path", "value", "kind"),
    [
        ((*META, 15), items(Kind.BINARY, b"x"), Kind.LIST),
        ((*META, 12), b"\x00\x00", Kind.BINARY),
        ((2, [1], 9), b"ab", Kind.BINARY),
        ((5,), b"\x01", Kind.BINARY),
    ],
)
def test_known_field_of_another_wire_type_is_dropped(path: Any, value: Value, kind: Kind) -> None:
    assert careful(mf.edited(PLAIN, path, value, kind)) == careful(mf.edited(PLAIN, path, None))


def test_converter_reads_a_known_field_as_what_it_should_be() -> None:
    # The first empty string's length ends the struct, and what follows is taken for fields of the outer one.
    content = mf.edited(PLAIN, (*META, 15), items(Kind.BINARY, b"", b"", b""), Kind.LIST)
    as_questdb, without_limits = causes(content)
    assert as_questdb is not None
    assert without_limits is None
    # A list's header is an integer too, and so is what follows it.
    harmless = mf.edited(PLAIN, (*META, 15), items(0), Kind.LIST)
    assert mf.converted(harmless, as_questdb=True) == mf.converted(harmless)


def test_required_field_of_another_wire_type_is_missing() -> None:
    assert careful_cause(mf.edited(PLAIN, (3,), b"", Kind.BINARY)) is Cause.FIELD_MISSING
    assert causes(mf.edited(PLAIN, (3,), None)) == (Cause.FIELD_MISSING,) * 2


def test_integers_of_any_width_are_taken_in_lists() -> None:
    content = mf.edited(PLAIN, (*META, 2), items(Kind.I64, 0, 8), Kind.LIST)
    (first, *_) = mf.decoded(mf.converted(content)).blocks
    assert first.chunks[0].encodings == 0b11
    assert careful_cause(mf.edited(PLAIN, (*META, 2), items(Kind.BINARY, b"a"), Kind.LIST)) is Cause.FIELD_MISSING


@pytest.mark.parametrize(
    "path",
    [
        (1,),
        (2,),
        (3,),
        (4,),
        (2, [1], 4),
        *((4, [0], number) for number in (1, 2, 3)),
        (4, [0], 1, [0], 2),
        *((*META, number) for number in (1, 2, 3, 4, 5, 6, 7, 9)),
        (*META, 13, [0], 3),
        (5, [0], 1),
    ],
)
def test_required_fields(path: Any) -> None:
    assert causes(mf.edited(PLAIN, path, None)) == (Cause.FIELD_MISSING,) * 2


def test_missing_metadata_of_a_chunk_is_another_cause() -> None:
    assert causes(mf.edited(PLAIN, META, None)) == (Cause.ROW_GROUP,) * 2


@pytest.mark.parametrize("path", [(2, [1], 4), (5, [0], 1), (5, [0], 2), (6,), (4, [0], 1, [0], 1)])
def test_text_must_be_utf8(path: Any) -> None:
    assert causes(mf.edited(PLAIN, path, b"\xc3(", Kind.BINARY)) == (Cause.BAD_DATA,) * 2


def test_statistics_are_free_bytes() -> None:
    content = mf.edited(PLAIN, (*META, 12, 6), b"\xff\xfe", Kind.BINARY)
    minimum = mf.decoded(mf.converted(content, as_questdb=True)).blocks[0].chunks[0].minimum
    assert minimum is not None
    assert minimum.value == b"\xff\xfe"


@pytest.mark.parametrize(
    ("union", "expected"),
    [
        (struct(), (Cause.BAD_DATA, Cause.BAD_DATA)),
        (struct((1, Kind.STRUCT, struct()), (4, Kind.STRUCT, struct())), (Cause.BAD_DATA, Cause.BAD_DATA)),
        (struct((33, Kind.STRUCT, struct())), (Cause.BAD_DATA, None)),
        (struct((1, Kind.I32, 5)), (Cause.BAD_DATA, None)),
        (struct((15, Kind.STRUCT, struct())), (Cause.BAD_DATA, None)),
        (struct((1, Kind.STRUCT, struct())), (None, None)),
    ],
)
def test_unions_have_exactly_one_member(union: Struct, expected: tuple[Cause | None, Cause | None]) -> None:
    content = mf.file_of_leaf(type=6, logical=union)
    assert causes(content) == expected


def test_timestamp_of_an_unknown_unit_is_no_annotation() -> None:
    unit = struct((4, Kind.STRUCT, struct()))
    content = mf.file_of_leaf(type=2, logical=mf.logical(8, (1, Kind.BOOL, True), (2, Kind.STRUCT, unit)))
    assert causes(content) == (Cause.BAD_DATA, None)
    (column,) = mf.decoded(mf.converted(content)).header.columns
    assert column.type == 6


@pytest.mark.parametrize("number", [2, 9])
def test_unknown_order_of_a_column_is_ignored(number: int) -> None:
    content = mf.edited(PLAIN, (7, [0]), struct((number, Kind.STRUCT, struct())))
    assert causes(content) == (Cause.BAD_DATA, None)


def test_varints_have_as_many_bytes_as_their_type() -> None:
    assert causes(mf.edited(PLAIN, (1,), Padded(2, 5))) == (None, None)
    assert causes(mf.edited(PLAIN, (1,), Padded(2, 6))) == (Cause.VARINT, Cause.VARINT)


def test_integers_lose_the_bits_that_their_type_does_not_have() -> None:
    content = mf.edited(mf.file_of(ROOT, LEAF), (2, [1], 1), (1 << 32) + 5)
    (column,) = mf.decoded(mf.converted(content, as_questdb=True)).header.columns
    assert column.physical_type == 5


def test_footer_that_ends_early_is_rejected_wherever_it_is_cut() -> None:
    length = int.from_bytes(PLAIN[-8:-4], "little")
    footer = PLAIN[-8 - length : -8]
    for end in range(0, length - 1, 7):
        for as_questdb in (True, False):
            with pytest.raises(RejectionError) as caught:
                read_footer(footer[:end], offset_bytes=0, as_questdb=as_questdb)
            assert caught.value.cause in (Cause.TRUNCATED, Cause.BAD_DATA, Cause.BUDGET)


def test_readers_of_footers_agree(questdb_data: Any) -> None:
    for name in mf.EXTERNAL:
        source = mf.external(questdb_data, name)
        ours = read_footer(source.tail, offset_bytes=0, as_questdb=False)
        theirs = decode_footer(source.tail, file=name, offset_bytes=0, tolerant=True)
        assert len(ours.row_groups) == len(theirs.row_groups)
        for left, right in zip(ours.row_groups, theirs.row_groups, strict=True):
            assert left.num_rows == right.num_rows
            assert [chunk.meta_data.codec for chunk in left.columns if chunk.meta_data] == [
                chunk.codec for chunk in right.chunks
            ]
            assert [chunk.meta_data.num_values for chunk in left.columns if chunk.meta_data] == [
                chunk.num_values for chunk in right.chunks
            ]


def test_errors_name_file_field_and_offset() -> None:
    problem = rejection(lambda: mf.converted(mf.edited(PLAIN, (*META, 4), None)), RejectedCorruptError)
    assert (problem.file, problem.field) == (mf.FILE, "row_groups[0].columns[0].meta_data.codec")
    assert problem.offset_bytes is not None
    assert 0 < problem.offset_bytes < len(PLAIN)
    with pytest.raises(RejectedUnsupportedError) as unsupported:
        mf.converted(mf.edited(PLAIN, (4, [0], 1, [0], 1), b"", Kind.BINARY))
    assert unsupported.value.cause is Cause.FILE_PATH
