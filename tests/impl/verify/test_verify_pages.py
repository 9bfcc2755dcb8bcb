"""Pages with checksums are not decoded to be verified, and nothing that a reader would see otherwise is missed."""

import pytest
from depth import sampled
from msgspec.structs import replace
from real_tables import resolved_partitions, rows_of, snapshot_of, verified
from written_tables import IN_PLACE, PATH, filled, rows

from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.chunk.chunk import are_vouched, check_pages
from tornproof.impl.errors import ProblemError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.parquet.encode_options import EncodeOptions
from tornproof.impl.parquet.pages import PageInfo
from tornproof.impl.table.partition import ResolvedPartition, read_chunk
from tornproof.impl.write.writer_options import WriterOptions

WITHOUT_CHECKSUMS = WriterOptions(
    row_group_row_count_max=4, rewrite_unused_ratio=1.0, encoding=EncodeOptions(page_checksums=False)
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


def test_pages_with_checksums_are_not_decoded() -> None:
    counts = verified(PATH, written()).counts
    assert (counts.chunks, counts.decoded_chunks) == (6, 0)


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
