"""Pages with checksums are not decoded to be verified, and nothing that a reader would see otherwise is missed."""

from typing import Any

import pyarrow as pa
import pytest
import table_builder as tb
from depth import sampled
from msgspec.structs import replace
from real_tables import resolved_partitions, rows_of, snapshot_of, verified
from written_tables import DAY, IN_PLACE, PATH, filled, new_table, rows, write

from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.chunk.chunk import are_vouched, check_pages
from tornproof.impl.errors import CorruptError, ProblemError, UnsupportedError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.parquet.bloom_filter import BLOCK_BYTES
from tornproof.impl.parquet.encode_options import EncodeOptions
from tornproof.impl.parquet.fields import Codec
from tornproof.impl.parquet.pages import PageInfo
from tornproof.impl.table.create import NewColumn
from tornproof.impl.table.partition import ResolvedPartition, read_chunk
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.verify.beside_pages import FileParts
from tornproof.impl.verify.verify import check_thrift_footer
from tornproof.impl.write.writer_options import BloomOptions, BloomPosition, WriterOptions

WITHOUT_CHECKSUMS = WriterOptions(
    row_group_row_count_max=4, rewrite_unused_ratio=1.0, encoding=EncodeOptions(page_checksums=False)
)

OF_SEVERAL_PAGES = WriterOptions(
    row_group_row_count_max=4, rewrite_unused_ratio=1.0, encoding=EncodeOptions(page_row_count_max=2)
)


def written(options: WriterOptions = IN_PLACE) -> MemoryStorage:
    return filled(rows(range(4)), rows(range(4, 8), 4), options=options)


def partition_of(storage: MemoryStorage) -> ResolvedPartition:
    (resolved,) = resolved_partitions(PATH, storage)
    return resolved


def pages_of(storage: MemoryStorage) -> list[PageInfo]:
    resolved = partition_of(storage)
    with resolved.files.open_data() as handle:
        return [
            page
            for block in resolved.metadata.blocks
            for column, chunk in zip(resolved.metadata.header.columns, block.chunks, strict=True)
            for page in check_pages(read_chunk(handle, chunk, file=""), column, chunk, file="").pages
        ]


def flip(storage: MemoryStorage, offset_bytes: int, bit: int) -> None:
    path = f"{partition_of(storage).files.path}/{DATA_FILE}"
    with storage.open_for_writing(path) as file:
        (byte,) = file.pread(1, offset_bytes)
        file.pwrite(bytes([byte ^ 1 << bit]), offset_bytes)


def test_of_pages_with_checksums_only_times_are_decoded_because_they_must_be_in_order() -> None:
    counts = verified(PATH, written()).counts
    assert (counts.chunks, counts.decoded_chunks) == (6, 2)


def test_pages_with_checksums_are_decoded_where_only_values_confirm_their_index() -> None:
    storage = written(OF_SEVERAL_PAGES)
    counts = verified(PATH, storage).counts
    assert (counts.chunks, counts.decoded_chunks) == (6, 6)


def test_pages_without_checksums_are_decoded() -> None:
    counts = verified(PATH, written(WITHOUT_CHECKSUMS)).counts
    assert (counts.chunks, counts.decoded_chunks) == (6, 6)


def test_a_flipped_bit_in_a_page_is_found_by_its_checksum() -> None:
    storage = written()
    for page in pages_of(storage):
        flip(storage, page.body_offset_bytes, 3)
        (problem,) = verified(PATH, storage).all_problems
        assert problem.field.endswith("crc")
        flip(storage, page.body_offset_bytes, 3)
    assert verified(PATH, storage).sound


@pytest.mark.parametrize("number", sampled(1, range(6)))
def test_no_bit_of_a_page_header_makes_a_sound_table_read_otherwise(number: int) -> None:
    storage = written()
    expected = rows_of(snapshot_of(PATH, storage))
    page = pages_of(storage)[number]
    found = 0
    for offset_bytes in range(page.header_offset_bytes, page.body_offset_bytes):
        for bit in range(8):
            flip(storage, offset_bytes, bit)
            if verified(PATH, storage).sound:
                try:
                    assert rows_of(snapshot_of(PATH, storage)).equals(expected), (offset_bytes, bit)
                except ProblemError as error:
                    pytest.fail(f"bit {bit} of byte {offset_bytes}: verified, and then {error}")
            else:
                found += 1
            flip(storage, offset_bytes, bit)
    assert found > page.header_length_bytes


def test_vouched_for_are_only_pages_whose_encoding_is_known_from_elsewhere() -> None:
    resolved = partition_of(written())
    chunk, column = resolved.metadata.blocks[0].chunks[1], resolved.metadata.header.columns[1]
    (page, *_) = [page for page in pages_of(written()) if page.value_count == chunk.num_values]
    assert are_vouched((page,), column, chunk)
    assert not are_vouched((replace(page, crc=None),), column, chunk)
    assert not are_vouched((replace(page, encoding=5),), column, chunk)
    assert not are_vouched((replace(page, encoding=99),), column, chunk)
    assert not are_vouched((replace(page, encoding=4),), column, chunk)
    assert not are_vouched((replace(page, level_encodings=(4, 3)),), column, chunk)
    assert not are_vouched((page, replace(page, crc=None)), column, chunk)


def index_of(storage: MemoryStorage, name: str, row_group: int = 0, column: int = 1) -> tuple[int, int]:
    """Return where an index of a column's pages is in data.parquet."""
    footer, _ = check_thrift_footer(partition_of(storage))
    assert footer is not None
    chunk = footer.row_groups[row_group].chunks[column]
    return getattr(chunk, f"{name}_offset"), getattr(chunk, f"{name}_length")


def overwrite(storage: MemoryStorage, offset_bytes: int, content: bytes) -> None:
    path = f"{partition_of(storage).files.path}/{DATA_FILE}"
    with storage.open_for_writing(path) as file:
        file.pwrite(content, offset_bytes)


def bytes_at(storage: MemoryStorage, offset_bytes: int, length_bytes: int) -> bytes:
    with partition_of(storage).files.open_data() as handle:
        return handle.pread(length_bytes, offset_bytes)


@pytest.mark.parametrize("options", [IN_PLACE, WITHOUT_CHECKSUMS, OF_SEVERAL_PAGES])
def test_a_bound_of_a_page_that_leaves_out_a_value_is_damage(options: WriterOptions) -> None:
    # Other readers skip pages by these bounds: one flipped bit, and DataFusion lost committed rows of a sound table.
    storage = written(options)
    offset_bytes, length_bytes = index_of(storage, "column_index")
    content = bytes_at(storage, offset_bytes, length_bytes)
    largest = content.rindex((3).to_bytes(8, "little"))
    overwrite(storage, offset_bytes + largest, (2).to_bytes(8, "little"))
    (problem,) = verified(PATH, storage).all_problems
    last = 1 if options is OF_SEVERAL_PAGES else 0
    assert problem.field == f"max_values[{last}] in column index of column 'v' of row group 0"


@pytest.mark.parametrize("name", ["column_index", "offset_index"])
def test_an_index_of_pages_that_is_none_is_damage(name: str) -> None:
    storage = written()
    offset_bytes, length_bytes = index_of(storage, name)
    overwrite(storage, offset_bytes, b"\xff" * length_bytes)
    (problem,) = verified(PATH, storage).all_problems
    assert problem.field.endswith("of column 'v' of row group 0")
    assert problem.offset_bytes is not None and offset_bytes <= problem.offset_bytes < offset_bytes + length_bytes


def test_no_bit_of_an_offset_index_can_be_another_one() -> None:
    storage = written(OF_SEVERAL_PAGES)
    offset_bytes, length_bytes = index_of(storage, "offset_index")
    # The last byte ends the struct, and without it the next index is read as more of its fields.
    for position in range(offset_bytes, offset_bytes + length_bytes - 1):
        for bit in (0, 4):
            flip(storage, position, bit)
            assert not verified(PATH, storage).sound, (position, bit)
            flip(storage, position, bit)


def test_indexes_of_many_chunks_that_claim_the_same_bytes_are_not_read_without_end() -> None:
    reads: list[int] = []

    def read(length_bytes: int, offset_bytes: int) -> bytes:
        reads.append(length_bytes)
        return bytes(length_bytes)

    footer, _ = check_thrift_footer(partition_of(written()))
    assert footer is not None
    parts = FileParts(read=read, file=DATA_FILE, size_bytes=100 << 20)
    chunk = replace(footer.row_groups[0].chunks[0], offset_index_offset=4, offset_index_length=40 << 20)
    for _ in range(2):
        parts.offset_index_of(chunk, "a column")
    with pytest.raises(UnsupportedError):
        parts.offset_index_of(chunk, "a column")
    with pytest.raises(CorruptError):
        parts.offset_index_of(replace(chunk, offset_index_length=1 << 30), "a column")
    assert reads == [40 << 20] * 2


@pytest.mark.parametrize("position", [BloomPosition.EXTERNAL, BloomPosition.BOTH])
def test_a_filter_that_only_other_readers_use_has_all_values_of_its_chunk(position: BloomPosition) -> None:
    # `_pm` had its own filter, and the one in data.parquet was never looked at.
    blooms = BloomOptions(columns={"v": 0.01}, position=position)
    storage = filled(rows(range(4)), options=WriterOptions(blooms=blooms))
    offset_bytes, length_bytes = index_of(storage, "bloom_filter")
    assert verified(PATH, storage).sound
    overwrite(storage, offset_bytes + length_bytes - BLOCK_BYTES, bytes(BLOCK_BYTES))
    assert {problem.field for problem in verified(PATH, storage).all_problems} == {
        "bloom filter of column 'v' of row group 0"
    }


@pytest.mark.parametrize("has_checksums", [False, True])
def test_lists_of_fewer_rows_than_their_row_group_are_damage_also_where_checksums_match(has_checksums: bool) -> None:
    list_type = TypeTag.ARRAY | TypeTag.DOUBLE << 8
    table = tb.with_lists_of_fewer_rows(list_type, write_page_checksum=has_checksums)
    (problem,) = verified("/table", table.image(), whole=False).all_problems
    assert (problem.field, problem.actual) == ("rows of column 'x'", "3")
    lists = pa.array([[1.0], [2.0, 3.0], None], pa.list_(pa.float64()))
    sound = tb.build({"x": (list_type, lists)}, write_page_checksum=has_checksums)
    assert verified("/table", sound.image(), whole=False).sound


def test_times_that_descend_in_a_row_group_are_damage() -> None:
    # Readers search the row group by bisection: one flipped bit in a page without a checksum, and rows were not found.
    storage = filled(
        rows(range(4)), options=WriterOptions(encoding=EncodeOptions(page_checksums=False, codec=Codec.UNCOMPRESSED))
    )
    second, third = ((DAY + time).to_bytes(8, "little") for time in (1, 2))
    content = bytes_at(storage, 0, partition_of(storage).metadata.token)
    overwrite(storage, content.index(second + third), third + second)
    (problem,) = verified(PATH, storage).all_problems
    assert (problem.field, problem.actual) == ("row 2 of column 'ts'", str(DAY + 1))


@pytest.mark.parametrize(("bound", "changed"), [("min_values", (b"n0", b"n1")), ("max_values", (b"n99", b"n98"))])
def test_bounds_of_pages_of_many_texts_are_compared(bound: str, changed: tuple[bytes, bytes]) -> None:
    storage = filled(rows(range(300)), options=WriterOptions())
    offset_bytes, length_bytes = index_of(storage, "column_index", column=2)
    content = bytes_at(storage, offset_bytes, length_bytes)
    assert content.count(changed[0]) == 1
    overwrite(storage, offset_bytes, content.replace(*changed))
    (problem,) = verified(PATH, storage).all_problems
    assert problem.field == f"{bound}[0] in column index of column 'n' of row group 0"


@pytest.mark.parametrize("row_count", [4, 300])
def test_maxima_of_pages_of_binary_are_not_compared_and_minima_are(row_count: int) -> None:
    """Servers cut the maximum of a BINARY to 8 or 9 bytes, and none above eight 0xFF bytes has so few."""
    storage, _ = new_table(NewColumn(name="b", type=TypeTag.BINARY))
    low, high = b"low-", b"\xff" * 9
    options = WriterOptions(encoding=EncodeOptions(page_row_count_max=row_count // 2))
    write(storage, rows(range(row_count), b=[low, *[b"x"] * (row_count - 3), b"y", high]), options=options)
    offset_bytes, length_bytes = index_of(storage, "column_index", column=3)
    content = bytes_at(storage, offset_bytes, length_bytes)
    assert content.count(high) == content.count(low) == 1
    overwrite(storage, offset_bytes, content.replace(high, bytes(len(high))))
    assert verified(PATH, storage).sound
    overwrite(storage, offset_bytes, content.replace(low, b"low0"))
    (problem,) = verified(PATH, storage).all_problems
    assert problem.field == "min_values[0] in column index of column 'b' of row group 0"


@pytest.mark.parametrize("has_checksums", [False, True])
@pytest.mark.parametrize(
    ("of_chunk", "of_pages", "is_sound"),
    [(0, (0, 0), True), (0, (1, 0), True), (1, (1, 0), True), (1, (0, 0), False), (0, (0, 1), False)],
)
def test_an_index_may_leave_out_the_nulls_that_the_chunk_leaves_out(
    of_chunk: int, of_pages: tuple[int, int], is_sound: bool, has_checksums: bool
) -> None:
    """Tables of 9.0.1 to 9.3.1, which do not count rows that are older than a BINARY, were called damaged."""

    def recounted(content: bytes) -> bytes:
        content = content.replace(b"\x36\2\x28\2dd", bytes([0x36, 2 * of_chunk]) + b"\x28\2dd")
        assert content.count(b"\x19\x26\2\0") == 1
        return content.replace(b"\x19\x26\2\0", b"\x19\x26" + bytes(2 * count for count in of_pages))

    columns = {"b": (TypeTag.BINARY, pa.array([None, b"bb", b"cc", b"dd"]))}
    options: dict[str, Any] = {"write_page_index": True, "max_rows_per_page": 2, "write_page_checksum": has_checksums}
    problems = verified("/table", tb.build(columns, edit=recounted, **options).image()).all_problems
    expected = [] if is_sound else ["null_counts[0] in column index of column 'b' of row group 0"]
    assert [problem.field for problem in problems] == expected


@pytest.mark.parametrize(("has_checksums", "is_chunk_right"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize(("low", "high", "is_sound"), [(200, 100, True), (199, 100, False), (200, 101, False)])
def test_bounds_of_a_page_may_be_those_of_addresses_with_a_sign(
    low: int, high: int, is_sound: bool, has_checksums: bool, is_chunk_right: bool
) -> None:
    """Tables of earlier servers, which compared the addresses of a dictionary so, were called damaged."""
    first, last, least, most, below, above = (bytes([4, 0, 0, 0, each]) for each in (1, 240, 200, 100, low, high))

    def signed(content: bytes) -> bytes:
        index, of_chunk = b"\x19\x18%b\x19\x18%b", b"\x28%b\x18%b"
        assert content.count(index % (first, last)) == 1
        content = content.replace(index % (first, last), index % (below, above))
        return content if is_chunk_right else content.replace(of_chunk % (last, first), of_chunk % (most, least))

    addresses = pa.array([number << 24 for number in (1, 100, 200, 240)], pa.uint32())
    options: dict[str, Any] = {"write_page_index": True, "write_page_checksum": has_checksums}
    report = verified("/table", tb.build({"a": (TypeTag.IPV4, addresses)}, edit=signed, **options).image())
    expected = [] if is_sound else ["min_values[0] in column index of column 'a' of row group 0"]
    assert [problem.field for problem in report.all_problems] == expected
    assert any("earlier servers made them" in note for note in report.notes) or not is_sound
