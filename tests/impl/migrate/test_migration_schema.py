import itertools
from typing import Any

import migrated_files as mf
import pytest
from migrated_files import file_of_leaf, file_of_type, logical, schema_element, struct
from type_values import decimal_type

from tornproof.impl.migrate.rejections import Cause
from tornproof.impl.parquet.fields import ConvertedType
from tornproof.impl.parquet.thrift import Kind, Struct
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
