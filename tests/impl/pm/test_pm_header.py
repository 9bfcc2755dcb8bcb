"""The header of `_pm`: what its optional parts mean, what is kept, and what is rejected."""

from functools import partial

import pm_builder as pm
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rejections import rejection

from tornproof.harness.explorers.roundtrip.metadata.generations import reencode_generations
from tornproof.impl.errors import UnsupportedError
from tornproof.impl.layout import pm as layout
from tornproof.impl.pm.encode import encode_file
from tornproof.impl.pm.header import COLUMN_COUNT_LIMIT, FileHeader, decode_header, encode_header

UNKNOWN_OPTIONAL = 1 << 9
COLUMNS = (pm.TIMESTAMP, pm.VALUE, pm.UUID)


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(pm.header(*COLUMNS), id="ascending by timestamp"),
        pytest.param(pm.header(*COLUMNS, designated_timestamp=-1), id="no timestamp"),
        pytest.param(pm.header(*COLUMNS, sorting_columns=(2, 0)), id="explicit sorting columns"),
        pytest.param(pm.header(*COLUMNS, squash_tracker=-5), id="squash tracker"),
        pytest.param(pm.header(*COLUMNS, bloom_columns=(0, 2), squash_tracker=7), id="blooms and squash tracker"),
        pytest.param(pm.header(pm.column("größe_μ"), designated_timestamp=-1), id="name beyond ASCII"),
        pytest.param(pm.header(pm.column(""), pm.column(""), designated_timestamp=-1), id="empty names"),
    ],
)
def test_a_header_is_decoded_to_what_was_encoded(made: FileHeader) -> None:
    data = pm.file(made)
    decoded = pm.header_of(data)
    assert decoded == made
    assert decoded.size_bytes == made.size_bytes
    assert encode_header(decoded, parquet_meta_file_size=len(data)) == data[: decoded.size_bytes]


def test_the_order_is_the_timestamps_or_the_stored_one() -> None:
    assert pm.header_of(pm.file(pm.header(*COLUMNS))).sorting == (0,)
    assert pm.header_of(pm.file(pm.header(*COLUMNS))).sorting_columns == ()
    explicit = pm.file(pm.header(*COLUMNS, sorting_columns=(2, 0)))
    assert pm.header_of(explicit).sorting == (2, 0)
    assert explicit[32 + 3 * 32 :][:8] == bytes([2, 0, 0, 0, 0, 0, 0, 0])
    assert pm.header_of(pm.file(pm.header(*COLUMNS, designated_timestamp=-1))).sorting == ()


def test_sections_stand_right_behind_the_names_in_bit_order() -> None:
    made = pm.header(*COLUMNS, bloom_columns=(1,), squash_tracker=-2)
    data = pm.file(made)
    assert data[32 + 3 * 32 :].startswith(b"tsvu" + bytes([1, 0, 0, 0, 1, 0, 0, 0, 0xFE]) + b"\xff" * 7)


def test_a_missing_squash_tracker_is_not_minus_one() -> None:
    assert pm.header_of(pm.file()).squash_tracker is None


@pytest.mark.parametrize("payload", [b"", b"abc", b"abc" + bytes(20), bytes(16)])
@pytest.mark.parametrize("row_group_count", [0, 2])
def test_sections_of_unknown_optional_bits_are_ignored_and_kept(payload: bytes, row_group_count: int) -> None:
    plain = pm.header(*COLUMNS)
    made = replace(plain, feature_flags=plain.feature_flags | UNKNOWN_OPTIONAL, extra=payload)
    groups = [pm.row_group(made, ordinal) for ordinal in range(row_group_count)]
    data = encode_file(made, groups, pm.facts())
    decoded = pm.read(data).header
    assert decoded.columns == plain.columns
    assert decoded.extra.rstrip(b"\0") == payload.rstrip(b"\0")
    assert pm.problems(data) == []
    assert reencode_generations(data, file=pm.FILE).mismatches == ()


def test_sections_of_unknown_optional_bits_end_where_the_oldest_generation_starts() -> None:
    made = replace(pm.header(), feature_flags=UNKNOWN_OPTIONAL, extra=b"payload.")
    first = pm.file(made)
    # All blocks of the newest generation are new ones, far behind the header.
    data = pm.append(first, pm.row_group(made, 1), footer=pm.facts(20_000), reuse=False)
    metadata = pm.read(data, 20_000)
    assert metadata.header.extra.startswith(b"payload.")
    assert metadata.header.size_bytes == pm.read(first).blocks[0].offset_bytes
    assert reencode_generations(data, file=pm.FILE).mismatches == ()


def test_a_header_that_runs_into_the_blocks_is_a_problem() -> None:
    data = pm.file(pm.header(*COLUMNS))
    block = pm.read(data).blocks[0].offset_bytes
    grown = pm.set_field(data, layout.ColumnDescriptor, pm.descriptor_offset(2), "name_length", block - 130)
    assert [problem.field for problem in pm.problems(pm.seal(grown))] == ["BLOCK_OFFSET of row group 0"]


def test_a_header_that_runs_into_the_footer_is_a_problem() -> None:
    # The footer's first byte has to be a letter, or it would be no name.
    token = ord("A") + 8 + pm.THRIFT_BYTES
    data = encode_file(pm.header(*COLUMNS), [], pm.facts(token))
    assert pm.problems(data, token) == []
    grown = pm.set_field(data, layout.ColumnDescriptor, pm.descriptor_offset(2), "name_length", 2)
    assert [problem.field for problem in pm.problems(pm.seal(grown), token)] == ["FOOTER_LENGTH"]


@pytest.mark.parametrize("bit", [32, 40, 63])
def test_an_unknown_required_bit_rejects_the_file(bit: int) -> None:
    data = pm.chain_of(10_000, 20_000)
    flags = pm.header_of(data).feature_flags | 1 << bit
    changed = pm.set_header(data, "feature_flags", flags)
    for token in (10_000, 20_000):
        problem = rejection(partial(pm.read, changed, token), UnsupportedError)
        assert (problem.field, problem.actual, problem.offset_bytes) == ("FEATURE_FLAGS", f"bits {bit}", 8)


@pytest.mark.parametrize(
    ("field", "value", "blamed"),
    [
        ("feature_flags", 0b010, "FEATURE_FLAGS"),
        ("feature_flags", 0b110, "FEATURE_FLAGS"),
        ("designated_timestamp", -1, "DESIGNATED_TIMESTAMP"),
        ("designated_timestamp", -2, "DESIGNATED_TIMESTAMP"),
        ("designated_timestamp", 3, "DESIGNATED_TIMESTAMP"),
        ("sorting_column_count", 1, "SORTING_COLUMN_COUNT"),
        ("column_count", 0, "DESIGNATED_TIMESTAMP"),
        ("column_count", 4, "NAME_OFFSET"),
        ("column_count", 1 << 31, "COLUMN_COUNT"),
        ("reserved", 1, "RESERVED"),
    ],
)
def test_a_contradiction_in_the_fixed_part_is_corrupt(field: str, value: int, blamed: str) -> None:
    changed = pm.set_field(pm.file(pm.header(*COLUMNS)), layout.Header, 0, field, value)
    assert rejection(lambda: pm.header_of(changed)).field.startswith(blamed)


@pytest.mark.parametrize(("count", "is_sound"), [(2, True), (3, True), (4, False), (1 << 31, False)])
def test_there_are_no_more_sorting_columns_than_columns(count: int, is_sound: bool) -> None:
    data = pm.file(pm.header(*COLUMNS, sorting_columns=(2, 0, 1)))
    changed = pm.set_field(data, layout.Header, 0, "sorting_column_count", count)
    if is_sound:
        assert pm.header_of(changed).sorting == (2, 0, 1)[:count]
    else:
        assert rejection(lambda: pm.header_of(changed)).field == "SORTING_COLUMN_COUNT"


def test_a_sorting_column_that_is_not_there_is_corrupt() -> None:
    data = pm.file(pm.header(*COLUMNS, sorting_columns=(2, 0)))
    changed = pm.set_field(data, layout.SortingColumn, 32 + 3 * 32 + 4, "index", 3)
    problem = rejection(lambda: pm.header_of(changed))
    assert (problem.field, problem.offset_bytes) == ("SORTING_COLUMNS", 32 + 3 * 32 + 4)


@pytest.mark.parametrize(
    ("words", "blamed"),
    [
        ((0, 0, 2), "BLOOM_COL_COUNT"),
        ((4, 0, 2), "BLOOM_COL_COUNT"),
        ((1 << 31, 0, 2), "BLOOM_COL_COUNT"),
        ((2, 0, 3), "BLOOM_FILTER_COLUMNS"),
        ((2, 1, 1), "BLOOM_FILTER_COLUMNS"),
        ((2, 2, 0), "BLOOM_FILTER_COLUMNS"),
    ],
)
def test_bloom_columns_are_some_of_the_columns_ascending_and_unique(words: tuple[int, ...], blamed: str) -> None:
    data = pm.file(pm.header(*COLUMNS, bloom_columns=(0, 2)))
    start = 32 + 3 * 32 + len("tsvu")
    changed = data[:start] + b"".join(word.to_bytes(4, "little") for word in words) + data[start + 12 :]
    assert rejection(lambda: pm.header_of(changed)).field == blamed


@pytest.mark.parametrize(
    ("field", "value", "blamed"),
    [
        ("name_offset", 0, "NAME_OFFSET"),
        ("name_offset", 32 + 3 * 32 + 1, "NAME_OFFSET"),
        ("name_offset", 1 << 63, "NAME_OFFSET"),
        ("name_length", 1 << 31, "NAME_LENGTH"),
        ("physical_type", 8, "PHYSICAL_TYPE"),
        ("fixed_byte_len", -1, "FIXED_BYTE_LEN"),
        ("reserved", 1, "RESERVED"),
    ],
)
def test_a_contradiction_in_a_descriptor_is_corrupt(field: str, value: int, blamed: str) -> None:
    position = pm.descriptor_offset(1)
    changed = pm.set_field(pm.file(pm.header(*COLUMNS)), layout.ColumnDescriptor, position, field, value)
    problem = rejection(lambda: pm.header_of(changed))
    assert problem.field == blamed
    assert problem.offset_bytes == position + layout.ColumnDescriptor.layout.offset_of(field)


def test_a_name_that_is_not_utf_8_is_corrupt_at_its_bad_byte() -> None:
    data = pm.file(pm.header(pm.column("abc"), designated_timestamp=-1))
    problem = rejection(lambda: pm.header_of(data.replace(b"abc", b"a\xffc")))
    assert (problem.field, problem.offset_bytes) == ("NAME_STRINGS of column 0", 65)


@pytest.mark.parametrize("names", [("abc", "de"), ("abc", "")])
def test_names_that_share_bytes_are_corrupt(names: tuple[str, str]) -> None:
    data = pm.file(pm.header(*map(pm.column, names), designated_timestamp=-1))
    assert [column.name for column in pm.header_of(data).columns] == list(names)
    second = pm.descriptor_offset(1)
    shared = pm.set_field(data, layout.ColumnDescriptor, second, "name_offset", 32 + 2 * 32 + 2)
    assert rejection(lambda: pm.header_of(shared)).field == "NAME_OFFSET"


def test_more_columns_than_anybody_has_are_unsupported_before_they_are_read() -> None:
    head = encode_header(pm.header(), parquet_meta_file_size=0)
    fits = pm.set_field(head + bytes(32 * COLUMN_COUNT_LIMIT), layout.Header, 0, "column_count", COLUMN_COUNT_LIMIT + 1)
    assert rejection(lambda: pm.header_of(fits), UnsupportedError).field == "COLUMN_COUNT"


@given(end=st.integers(0, 200))
def test_a_header_that_is_cut_off_is_corrupt(end: int) -> None:
    made = pm.header(*COLUMNS, sorting_columns=(1,), bloom_columns=(0, 2), squash_tracker=1)
    data = encode_header(made, parquet_meta_file_size=0)
    if end < len(data):
        rejection(lambda: decode_header(data[:end], file=pm.FILE))
    else:
        assert decode_header(data[:end], file=pm.FILE) == made
