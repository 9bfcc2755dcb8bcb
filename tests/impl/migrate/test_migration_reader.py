from typing import Any

import migrated_files as mf
import pyarrow as pa
import pytest
from migrated_files import META, schema_element, struct
from parquet_files import written
from rejections import rejection

from tornproof.impl.migrate.footer_reader import read_footer
from tornproof.impl.migrate.rejections import Cause, RejectedCorruptError, RejectedUnsupportedError, RejectionError
from tornproof.impl.migrate.shapes import FileMetaData
from tornproof.impl.parquet.footer import decode_footer
from tornproof.impl.parquet.thrift import Entries, Items, Kind, Padded, Struct, Value

ROOT = schema_element("root", children=1)
LEAF = schema_element("x", type=1, repetition=0)
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
