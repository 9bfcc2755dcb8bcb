"""What must hold inside a generation whose checksum is right: each rule accepts the good and names the bad."""

import struct
from pathlib import Path

import golden_archive
import pm_builder as pm
import pytest
from msgspec.structs import replace
from rejections import rejection

from tornproof.impl.layout import pm as layout
from tornproof.impl.pm.block import Statistic
from tornproof.impl.pm.chain import Metadata, decode_chain, decode_metadata, walk
from tornproof.impl.pm.check import check_metadata
from tornproof.impl.pm.encode import NewRowGroup
from tornproof.impl.pm.header import Column
from tornproof.impl.pm.statistics import in_order, value_of
from tornproof.impl.types.questdb import TypeTag

PLAIN = pm.header()
TWO = pm.file(PLAIN, pm.row_group(PLAIN, 0), pm.row_group(PLAIN, 1))
LIMIT = pm.TOKEN - 8 - pm.THRIFT_BYTES


def fields(data: bytes) -> list[str]:
    return [problem.field for problem in pm.problems(data)]


def entry_offset(data: bytes, ordinal: int) -> int:
    return pm.newest(data).offset_bytes + 40 + 4 * ordinal


def test_a_sound_generation_has_no_problems() -> None:
    assert pm.problems(TWO) == []


@pytest.mark.parametrize(
    ("field", "good", "bad", "blamed"),
    [
        ("num_values", 10, 11, "NUM_VALUES"),
        ("num_values", 10, (1 << 64) - 1, "NUM_VALUES"),
        ("null_count", 10, 11, "NULL_COUNT"),
        ("null_count", 0, 1 << 63, "NULL_COUNT"),
        ("byte_range_start", 4, 3, "BYTE_RANGE_START"),
        ("byte_range_start", 404, 399, "BYTE_RANGE_START"),
        ("byte_range_start", LIMIT - 100, LIMIT - 99, "TOTAL_COMPRESSED"),
        ("total_compressed", LIMIT - 304, LIMIT - 303, "TOTAL_COMPRESSED"),
        ("total_compressed", 0, (1 << 64) - 1, "TOTAL_COMPRESSED"),
        ("encodings", 0b0011_1111, 0b0100_0000, "ENCODINGS"),
        ("min_stat", 1999, 2000, "MIN_STAT"),
    ],
)
def test_a_chunk_that_contradicts_itself_or_its_surroundings_is_named(
    field: str, good: int, bad: int, blamed: str
) -> None:
    # The value column of the last row group; the only other chunk there is from byte 204 to 304.
    data = pm.set_chunk(TWO, "byte_range_start", 304, column=1, row_group=1)
    data = pm.set_chunk(data, "total_compressed", 0, column=0, row_group=0)
    assert fields(pm.set_chunk(data, field, good, column=1, row_group=1)) == []
    if field == "byte_range_start" and bad == 399:
        # The chunk before is changed to end at byte 400.
        data = pm.set_chunk(data, "total_compressed", 196, column=0, row_group=1)
    changed = pm.set_chunk(data, field, bad, column=1, row_group=1)
    [problem] = pm.problems(changed)
    assert problem.field == f"{blamed} of column 'v' of row group 1"
    at = layout.ColumnChunk.layout.offset_of(blamed.lower())
    assert problem.offset_bytes == pm.chunk_offset(changed, 1, 1) + at


def test_nested_columns_may_have_other_counts_than_the_row_group() -> None:
    nested = pm.header(pm.TIMESTAMP, pm.column("a", max_rep_level=1))
    assert fields(pm.set_chunk(pm.file(nested), "num_values", 77, column=1)) == []


def test_a_required_column_has_no_nulls() -> None:
    assert fields(pm.set_chunk(TWO, "null_count", 1, column=1)) == []
    assert fields(pm.set_chunk(TWO, "null_count", 1, column=0)) == ["NULL_COUNT of column 'ts' of row group 0"]


def test_chunks_inside_of_others_are_all_named() -> None:
    data = pm.set_chunk(TWO, "total_compressed", 400)
    assert fields(data) == [
        "BYTE_RANGE_START of column 'v' of row group 0",
        "BYTE_RANGE_START of column 'ts' of row group 1",
        "BYTE_RANGE_START of column 'v' of row group 1",
    ]


def test_row_groups_follow_each_other_by_timestamp() -> None:
    swapped = pm.file(PLAIN, pm.row_group(PLAIN, 1), pm.row_group(PLAIN, 0))
    assert fields(swapped) == ["MIN_STAT of column 'ts' of row group 1"]
    touching = pm.set_chunk(TWO, "min_stat", 999, row_group=1)
    assert fields(touching) == []
    assert fields(pm.set_chunk(TWO, "min_stat", 998, row_group=1)) == ["MIN_STAT of column 'ts' of row group 1"]


def test_row_groups_without_order_may_be_in_any() -> None:
    made = pm.header(designated_timestamp=-1)
    assert fields(pm.file(made, pm.row_group(made, 1), pm.row_group(made, 0))) == []


def test_ascending_order_excludes_a_descending_timestamp() -> None:
    descending = replace(pm.TIMESTAMP, flags=layout.DESCENDING.mask)
    assert fields(pm.file(pm.header(descending, pm.VALUE))) == ["FLAGS of column 'ts'"]
    assert fields(pm.file(pm.header(descending, pm.VALUE, sorting_columns=(0,)))) == ["FLAGS of column 'ts'"]
    assert fields(pm.file(pm.header(pm.TIMESTAMP, replace(pm.VALUE, flags=layout.DESCENDING.mask)))) == []


def test_the_designated_timestamp_is_the_first_sorting_column() -> None:
    columns = (pm.TIMESTAMP, pm.VALUE)
    assert fields(pm.file(pm.header(*columns, sorting_columns=(0, 1)))) == []
    assert fields(pm.file(pm.header(*columns, sorting_columns=(1, 0)))) == ["DESIGNATED_TIMESTAMP"]
    assert fields(pm.file(pm.header(*columns, sorting_columns=(1, 0), designated_timestamp=-1))) == []
    assert fields(pm.file(pm.header(*columns, feature_flags=0))) == ["DESIGNATED_TIMESTAMP"]


@pytest.mark.parametrize(
    ("field", "good", "bad"), [("fixed_byte_len", 0, 8), ("max_rep_level", 1, 2), ("physical_type", 1, 7)]
)
def test_a_descriptor_that_contradicts_itself_is_a_problem(field: str, good: int, bad: int) -> None:
    position = pm.descriptor_offset(1)
    # Without statistics any physical type will do.
    data = pm.set_chunk(pm.file(), "stat_flags", 0, column=1)
    assert fields(pm.seal(pm.set_field(data, layout.ColumnDescriptor, position, field, good))) == []
    blamed = "fixed_byte_len" if field == "physical_type" else field
    [problem] = pm.problems(pm.seal(pm.set_field(data, layout.ColumnDescriptor, position, field, bad)))
    assert problem.field == f"{blamed.upper()} of column 'v'"
    assert problem.offset_bytes == position + layout.ColumnDescriptor.layout.offset_of(blamed)


@pytest.mark.parametrize(("distinct_count", "is_sound"), [(0, True), (10, True), (11, False), ((1 << 64) - 1, False)])
def test_there_are_no_more_distinct_values_than_values(distinct_count: int, is_sound: bool) -> None:
    data = pm.set_chunk(pm.file(), "distinct_count", distinct_count, column=1)
    assert fields(data) == []
    known = pm.set_chunk(data, "stat_flags", 0xFF, column=1)
    assert fields(known) == ([] if is_sound else ["DISTINCT_COUNT of column 'v' of row group 0"])


@pytest.mark.parametrize("offset_bytes", [0, 8, 64])
def test_a_block_inside_of_the_header_is_a_problem(offset_bytes: int) -> None:
    # Without columns a block is eight bytes, so that it can be anywhere.
    data = pm.file(pm.header(designated_timestamp=-1))
    empty = pm.set_header(data, "column_count", 0)
    changed = pm.seal(
        pm.set_field(empty, layout.RowGroupEntry, entry_offset(empty, 0), "block_offset", offset_bytes >> 3)
    )
    assert fields(empty) == []
    assert fields(changed) == (["BLOCK_OFFSET of row group 0"] if offset_bytes < 32 else [])


@pytest.mark.parametrize("shift_bytes", [0, 8, 72, 128])
def test_blocks_that_overlap_are_corrupt(shift_bytes: int) -> None:
    first, second = pm.read(TWO).blocks
    assert second.offset_bytes - first.offset_bytes == 136
    entry = (first.offset_bytes + shift_bytes) >> 3
    changed = pm.seal(pm.set_field(TWO, layout.RowGroupEntry, entry_offset(TWO, 1), "block_offset", entry))
    problem = rejection(lambda: pm.read(changed))
    assert problem.offset_bytes == first.offset_bytes


@pytest.mark.parametrize("entry", [1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1])
def test_a_block_past_its_own_footer_is_corrupt(entry: int) -> None:
    changed = pm.seal(pm.set_field(TWO, layout.RowGroupEntry, entry_offset(TWO, 1), "block_offset", entry))
    assert rejection(lambda: pm.read(changed)).offset_bytes == entry << 3


def test_a_block_of_a_newer_generation_is_corrupt_in_an_older_one() -> None:
    data = pm.chain_of(10_000, 20_000)
    older = pm.newest(data[: pm.newest(data).fixed.prev_parquet_meta_file_size])
    newer_block = pm.read(data, 20_000).blocks[1].offset_bytes
    entry = older.offset_bytes + 40
    changed = pm.seal(pm.set_field(data, layout.RowGroupEntry, entry, "block_offset", newer_block >> 3))
    assert newer_block > older.end_bytes
    rejection(lambda: pm.read(changed, 10_000))
    assert pm.read(changed, 20_000).row_count == 20


def test_bloom_bitsets_lie_in_their_own_block_and_apart() -> None:
    bloomed = pm.header(pm.TIMESTAMP, pm.VALUE, bloom_columns=(0, 1))
    groups = [pm.row_group(bloomed, nth, blooms=(b"x" * 32, b"y" * 32)) for nth in range(2)]
    data = pm.file(bloomed, *groups)
    matrix = pm.newest(data).offset_bytes + 40 + 2 * 4
    words = [int.from_bytes(data[matrix + 4 * nth :][:4], "little") for nth in range(4)]

    def referring(nth: int, word: int) -> bytes:
        return pm.seal(pm.set_field(data, layout.InlineBloomReference, matrix + 4 * nth, "bitset_offset", word))

    assert fields(data) == []
    assert fields(referring(1, 0)) == []
    shared = "bloom reference of column 'v' of row group 0"
    assert fields(referring(1, words[0])) == [shared]
    foreign = "bloom reference of column 'ts' of row group 1"
    assert fields(referring(2, words[0])) == [foreign, foreign]
    assert "BLOCK_OFFSET of row group 1" in fields(referring(0, words[2]))
    assert rejection(lambda: pm.problems(referring(3, (1 << 32) - 1))).field == "Bloom bitset, inlined"


BYTE_ORDER = pm.column("c", TypeTag.UUID, 7, fixed_byte_len=2)


@pytest.mark.parametrize(
    ("column", "low", "high"),
    [
        pytest.param(pm.column("c", TypeTag.BOOLEAN, 0), b"\0", b"\1", id="boolean"),
        pytest.param(pm.column("c", TypeTag.BYTE, 1), b"\xff" * 4, b"\0" * 4, id="byte is signed"),
        pytest.param(pm.column("c", TypeTag.INT, 1), b"\0\0\0\x80", b"\0\0\0\0", id="int is signed"),
        pytest.param(pm.column("c", TypeTag.CHAR, 1), b"\1\0\0\0", b"\xff\xff\0\0", id="char"),
        pytest.param(pm.column("c", TypeTag.IPV4, 1), b"\0\0\0\x7e", b"\0\0\0\x7f", id="low ipv4"),
        pytest.param(pm.column("c", TypeTag.IPV4, 1), b"\0\0\0\x80", b"\0\0\0\xff", id="ipv4 is unsigned"),
        pytest.param(pm.column("c"), b"\xff" * 8, b"\0" * 8, id="long is signed"),
        pytest.param(pm.column("c", TypeTag.FLOAT, 4), struct.pack("<f", -1.5), struct.pack("<f", 0.5), id="float"),
        pytest.param(pm.column("c", TypeTag.DOUBLE, 5), struct.pack("<d", -2e9), struct.pack("<d", -1e9), id="double"),
        pytest.param(pm.column("c", TypeTag.VARCHAR, 6), b"a", b"aa", id="varchar"),
        pytest.param(pm.column("c", TypeTag.VARCHAR, 6), b"z", "é".encode(), id="varchar is unsigned"),
        pytest.param(BYTE_ORDER, b"\x01\xff", b"\x02\x00", id="uuid bytewise"),
        pytest.param(BYTE_ORDER, b"\x7f\x00", b"\x80\x00", id="uuid is unsigned"),
        pytest.param(replace(BYTE_ORDER, type=TypeTag.DECIMAL16), b"\xff\xff", b"\x00\x01", id="decimal is signed"),
        pytest.param(replace(BYTE_ORDER, type=TypeTag.DECIMAL16), b"\x00\xff", b"\x01\x00", id="decimal is big-endian"),
        pytest.param(pm.column("c", TypeTag.DECIMAL16, 6), b"\xff", b"\x00\x01", id="decimal of any length is signed"),
        pytest.param(pm.column("c", -1, 6), b"\x7f\x00", b"\x80\x00", id="unknown type"),
    ],
)
def test_a_minimum_above_its_maximum_is_named_in_the_order_of_the_type(column: Column, low: bytes, high: bytes) -> None:
    made = pm.header(pm.TIMESTAMP, column)
    timestamp = pm.row_group(made).chunks[0]

    def with_bounds(minimum: bytes, maximum: bytes) -> bytes:
        chunk = pm.chunk(104, low=minimum, high=maximum)
        return pm.file(made, NewRowGroup(num_rows=10, chunks=(timestamp, chunk)))

    assert fields(with_bounds(low, high)) == []
    assert fields(with_bounds(low, low)) == []
    assert fields(with_bounds(high, low)) == ["MIN_STAT of column 'c' of row group 0"]


@pytest.mark.parametrize(
    ("tag", "physical_type", "id", "is_sound"),
    [
        (TypeTag.INT, 1, -1, True),
        (TypeTag.LONG, 2, -1, True),
        (TypeTag.LONG, 2, 0, False),
        (TypeTag.SHORT, 1, -1, False),
        (TypeTag.TIMESTAMP, 2, -1, False),
    ],
)
def test_bounds_of_unsigned_integers_of_others_are_in_order(
    tag: TypeTag, physical_type: int, id: int, is_sound: bool
) -> None:
    made = pm.header(pm.TIMESTAMP, pm.column("c", tag, physical_type, id=id))
    size_bytes = 4 * physical_type
    largest = pm.chunk(104, low=b"\0" * size_bytes, high=b"\xff" * size_bytes)
    timestamp = pm.row_group(made).chunks[0]
    problems = fields(pm.file(made, NewRowGroup(num_rows=10, chunks=(timestamp, largest))))
    assert problems == ([] if is_sound else ["MIN_STAT of column 'c' of row group 0"])


@pytest.mark.parametrize(("low", "high"), [(b"\x00\xc0", b"\x00\x40"), (b"\x00\x40", b"\x00\xc0")])
def test_values_of_fixed_length_and_unknown_type_have_no_order(low: bytes, high: bytes) -> None:
    made = pm.header(pm.TIMESTAMP, replace(BYTE_ORDER, type=-1, fixed_byte_len=2))
    chunk = pm.chunk(104, low=low, high=high)
    timestamp = pm.row_group(made).chunks[0]
    assert fields(pm.file(made, NewRowGroup(num_rows=10, chunks=(timestamp, chunk)))) == []


@pytest.mark.parametrize(
    ("column", "low", "high"),
    [
        pytest.param(pm.column("c", TypeTag.FLOAT, 4), struct.pack("<f", float("nan")), bytes(4), id="NaN"),
        pytest.param(pm.column("c", TypeTag.TIMESTAMP, 3), b"\xff" * 12, bytes(12), id="INT96"),
        # The maximum that older servers state of a BINARY which begins with eight 0xFF bytes.
        pytest.param(pm.column("c", TypeTag.BINARY, 6), b"a" * 9, bytes(8), id="BINARY"),
        # 128.0.0.0 is the least of addresses that are compared as signed numbers, as earlier servers did.
        pytest.param(pm.column("c", TypeTag.IPV4, 1), b"\0\0\0\x80", b"\0\0\0\x7f", id="IPv4"),
    ],
)
def test_what_has_no_order_is_never_out_of_order(column: Column, low: bytes, high: bytes) -> None:
    made = pm.header(column, designated_timestamp=-1)
    assert fields(pm.file(made, NewRowGroup(num_rows=10, chunks=(pm.chunk(low=low, high=high),)))) == []


@pytest.mark.parametrize("size_bytes", [1, 7, 9, 16])
def test_statistics_of_another_width_than_the_types_are_named(size_bytes: int) -> None:
    assert value_of(pm.VALUE, bytes(size_bytes)) is None
    chunk = replace(pm.chunk(), minimum=Statistic(value=bytes(size_bytes), exact=True), maximum=pm.statistic(5))
    made = pm.header(pm.VALUE, designated_timestamp=-1)
    assert fields(pm.file(made, NewRowGroup(num_rows=10, chunks=(chunk,)))) == ["MIN_STAT of column 'v' of row group 0"]


def test_one_bound_alone_is_not_compared() -> None:
    made = pm.header(pm.VALUE, designated_timestamp=-1)
    assert fields(pm.file(made, NewRowGroup(num_rows=10, chunks=(pm.chunk(low=5),)))) == []


def test_no_generation_of_a_table_that_questdb_wrote_has_a_problem(questdb_data: Path) -> None:
    checked = 0
    for name in golden_archive.member_names():
        folder = name.split("/")[0]
        content = (questdb_data / name).read_bytes() if name.endswith(("/_pm", ".pm")) else b""
        if not content or folder in ("external", "vectors", "power-loss"):
            continue
        data = content[: layout.Header.unpack(content, 0, file=name).parquet_meta_file_size]
        for position in walk(data, file=name):
            assert list(check_metadata(data, decode_metadata(data, position, file=name), file=name)) == []
            checked += 1
    assert checked >= 1090


def test_two_public_files_contradict_themselves_and_the_others_do_not(questdb_data: Path) -> None:
    counts = {}
    for path in sorted((questdb_data / "external").glob("*.pm")):
        data = path.read_bytes()
        metadata = decode_metadata(data, pm.newest(data), file=path.name)
        counts[path.name] = len(list(check_metadata(data, metadata, file=path.name)))
    assert len(counts) >= 47
    # One counts nulls in a required column, the other is a Parquet file of which only the footer was kept.
    assert {name: count for name, count in counts.items() if count} == {
        "ARROW-GH-47662.parquet.pm": 1,
        "ARROW-RS-GH-6229-DICTHEADER.parquet.pm": 3,
    }


@pytest.mark.parametrize(("tag", "is_sound"), [(TypeTag.TIMESTAMP, True), (TypeTag.DATE, True), (TypeTag.LONG, False)])
def test_the_designated_timestamp_is_a_time(tag: TypeTag, is_sound: bool) -> None:
    made = pm.header(replace(pm.TIMESTAMP, type=tag), pm.VALUE)
    assert fields(pm.file(made)) == ([] if is_sound else ["TYPE of column 'ts'"])


def test_nanoseconds_that_the_converter_made_of_an_int96_timestamp_are_bounds() -> None:
    made = pm.header(replace(pm.TIMESTAMP, physical_type=3), pm.VALUE)
    assert fields(pm.file(made)) == []
    short = pm.set_chunk(pm.file(made), "stat_sizes", 0x77)
    assert fields(short) == ["MIN_STAT of column 'ts' of row group 0"]


# Generation by generation: what one shares with a newer one is looked into once


def overlapping(ordinal: int = 0) -> NewRowGroup:
    """A row group whose second chunk starts inside of the first."""
    sound = pm.row_group(PLAIN, ordinal)
    first, second = sound.chunks
    return replace(sound, chunks=(first, replace(second, byte_range_start=first.byte_range_start + 50)))


def generations(data: bytes) -> tuple[Metadata, Metadata]:
    newer, older = decode_chain(data, file=pm.FILE, end_bytes=len(data))
    return newer, older


def fields_beside(data: bytes, metadata: Metadata, newer: Metadata | None = None) -> list[str]:
    return [problem.field for problem in check_metadata(data, metadata, file=pm.FILE, newer=newer)]


def test_overlapping_ranges_of_a_block_that_the_newer_generation_dropped_are_found() -> None:
    data = pm.append(
        pm.file(PLAIN, overlapping(), footer=pm.facts(10_000)),
        pm.row_group(PLAIN, 1),
        footer=pm.facts(20_000),
        reuse=False,
    )
    newer, older = generations(data)
    assert fields_beside(data, newer) == []
    assert fields_beside(data, older, newer) == ["BYTE_RANGE_START of column 'v' of row group 0"]
    sound = pm.append(
        pm.file(PLAIN, footer=pm.facts(10_000)), pm.row_group(PLAIN, 1), footer=pm.facts(20_000), reuse=False
    )
    newer, older = generations(sound)
    assert fields_beside(sound, older, newer) == fields_beside(sound, newer) == []


def test_rows_out_of_order_in_a_block_that_the_newer_generation_dropped_are_found() -> None:
    first = pm.file(PLAIN, pm.row_group(PLAIN, 1), pm.row_group(PLAIN, 0), footer=pm.facts(10_000))
    data = pm.append(first, pm.row_group(PLAIN, 2), footer=pm.facts(20_000), reuse=False)
    newer, older = generations(data)
    assert fields_beside(data, older, newer) == ["MIN_STAT of column 'ts' of row group 1"]


def test_a_block_that_both_have_is_named_once() -> None:
    data = pm.append(
        pm.file(PLAIN, overlapping(), footer=pm.facts(10_000)), pm.row_group(PLAIN, 1), footer=pm.facts(20_000)
    )
    newer, older = generations(data)
    assert fields_beside(data, newer) == ["BYTE_RANGE_START of column 'v' of row group 0"]
    assert fields_beside(data, older, newer) == []
    assert fields_beside(data, older) == ["BYTE_RANGE_START of column 'v' of row group 0"]


@pytest.mark.parametrize(
    ("tag", "low", "high", "is_ordered"),
    [
        (TypeTag.CHAR, 1, 40_000, True),
        (TypeTag.CHAR, 40_000, 1, False),
        # A writer that widens 16 bits with their sign makes 32,768 and more look negative.
        (TypeTag.CHAR, 1, -32_768, True),
        (TypeTag.CHAR, -1, 32_767, False),
        (TypeTag.IPV4, 1, -1, True),
        (TypeTag.IPV4, -1, 1, False),
        (TypeTag.INT, 1, -1, False),
        (TypeTag.INT, -1, 1, True),
        (TypeTag.SHORT, 1, -32_768, False),
    ],
)
def test_characters_and_addresses_are_compared_without_sign(
    tag: TypeTag, low: int, high: int, is_ordered: bool
) -> None:
    column = pm.column("x", tag, physical_type=1)
    bounds = [value_of(column, bound.to_bytes(4, "little", signed=True)) for bound in (low, high)]
    assert bounds[0] is not None and bounds[1] is not None
    assert in_order(column, bounds[0], bounds[1]) is is_ordered
