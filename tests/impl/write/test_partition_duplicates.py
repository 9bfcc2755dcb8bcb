"""Partitions whose numbers are in a new encoding too: each row group gets its own, and nothing else changes."""

import pyarrow as pa
import pyarrow.parquet as pq
from chunk_forms import all_values, bits_of, footer_of_form
from msgspec.structs import replace
from real_tables import rows_of, snapshot_of, verified
from written_tables import DAY, DIRECTORY, IN_PLACE, PATH, new_table, rows, write, writer_on

from tornproof.harness.mutation.catalogue import fault_named
from tornproof.harness.mutation.fault import Mutant
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.chunk.duplicate_values import ChunkSource
from tornproof.impl.chunk.duplicates import duplicates_in
from tornproof.impl.migrate.chunk_layout import span_of
from tornproof.impl.parquet.arrow_writer import FOOTER, GROUP
from tornproof.impl.parquet.encode_options import EncodeOptions
from tornproof.impl.parquet.thrift import structs_in, value_of
from tornproof.impl.storage.interface import OpenMode
from tornproof.impl.table.table import open_table
from tornproof.impl.verify.verify import verify_table
from tornproof.impl.write.partition_change import WriterOptions

BATCHES = (rows([0, 10, 20]), rows([30], 3), rows([5], 4), rows([40, 50], 5))


def asking(duplicates: bool | None) -> WriterOptions:
    return replace(IN_PLACE, encoding=EncodeOptions(duplicates=duplicates), allow_unreadable_by_servers=True)


def content_of(storage: MemoryStorage, directory: str = DIRECTORY) -> bytes:
    return storage.image().files[f"{directory}/data.parquet"]


def duplicate_count(content: bytes) -> int:
    found = list(duplicates_in(footer_of_form(content), file="data.parquet"))
    assert all(each.doubt is None for _, _, each in found)
    return len(found)


def test_a_writer_that_is_asked_once_makes_them_and_later_writers_go_on() -> None:
    storage, _ = new_table()
    plain, _ = new_table()
    for number, batch in enumerate(BATCHES):
        write(storage, batch, options=asking(True if number == 0 else None))
        write(plain, batch)
        assert verified(PATH, storage).sound
        content = content_of(storage)
        values = all_values(content)
        assert values and {(each.source, each.doubt) for each in values.values()} == {(ChunkSource.DUPLICATE, None)}
        assert duplicate_count(content) == len(values)
        assert {key: bits_of(each) for key, each in values.items()} == {
            key: bits_of(each) for key, each in all_values(content_of(plain)).items()
        }
    assert rows_of(snapshot_of(PATH, storage)).equals(rows_of(snapshot_of(PATH, plain)))
    theirs = pq.read_table(pa.BufferReader(content_of(storage)), page_checksum_verification=True)
    assert theirs.equals(pq.read_table(pa.BufferReader(content_of(plain))))


def test_row_groups_have_none_from_the_commit_on_that_asks_for_none() -> None:
    storage, _ = new_table()
    write(storage, BATCHES[0], options=asking(True))
    before = duplicate_count(content_of(storage))
    write(storage, BATCHES[1], options=asking(False))
    assert duplicate_count(content_of(storage)) == before > 0
    write(storage, BATCHES[2], options=asking(False))
    assert duplicate_count(content_of(storage)) == 0
    assert verified(PATH, storage).sound


def test_a_row_group_begins_with_its_first_page_and_not_with_a_duplicate() -> None:
    storage, _ = new_table()
    for batch in BATCHES[:2]:
        write(storage, batch, options=asking(True))
    footer = footer_of_form(content_of(storage))
    starts = [
        min(chunk.dictionary_page_offset or chunk.data_page_offset for chunk in each.chunks)
        for each in footer.row_groups
    ]
    trees = structs_in(footer.tree, FOOTER["row_groups"])
    assert [value_of(tree, GROUP["file_offset"]) for tree in trees] == starts


def test_a_rewrite_keeps_them() -> None:
    storage, _ = new_table()
    write(storage, *BATCHES[:2], options=asking(True))
    with writer_on(storage, IN_PLACE) as writer:
        writer.rewrite_partition(DAY)
        writer.commit()
    table = open_table(storage, PATH)
    (partition,) = table.transaction().partitions
    assert duplicate_count(content_of(storage, table.files_of(partition).path)) > 0
    assert verify_table(table).sound


def test_bytes_of_replaced_duplicates_are_unused() -> None:
    counts = []
    for duplicates in (True, False):
        storage, _ = new_table()
        write(storage, BATCHES[0], options=asking(duplicates))
        write(storage, BATCHES[2], options=asking(duplicates))
        report = verify_table(open_table(storage, PATH))
        assert report.sound
        counts.append(report.partitions[0].unused_bytes)
    assert counts[0] > counts[1] + 100


def test_a_flipped_bit_of_a_duplicate_is_found_by_verify_and_harms_no_reader_of_the_table() -> None:
    storage, _ = new_table()
    write(storage, *BATCHES, options=asking(True))
    expected = rows_of(snapshot_of(PATH, storage))
    content = bytearray(content_of(storage))
    found = [each.record for _, _, each in duplicates_in(footer_of_form(bytes(content)), file="x")]
    assert found and found[0] is not None
    content[found[0].chunk_offset + 20] ^= 1
    with storage.open_for_writing(f"{DIRECTORY}/data.parquet", OpenMode.EXISTING) as file:
        file.pwrite(bytes(content), 0)
    report = verify_table(open_table(storage, PATH))
    assert [problem.actual for problem in report.all_problems] == ["its checksum is wrong"]
    assert rows_of(snapshot_of(PATH, storage)).equals(expected)


def test_a_damaged_old_chunk_is_one_problem_and_not_that_of_its_duplicate() -> None:
    storage, _ = new_table()
    write(storage, BATCHES[0], options=asking(True))
    content = bytearray(content_of(storage))
    (start, end) = span_of(footer_of_form(bytes(content)).row_groups[0].chunks[0])
    content[end - 3] ^= 1
    with storage.open_for_writing(f"{DIRECTORY}/data.parquet", OpenMode.EXISTING) as file:
        file.pwrite(bytes(content), 0)
    (problem,) = verify_table(open_table(storage, PATH)).all_problems
    assert problem.offset_bytes == start and "crc" in problem.field


def test_verify_names_a_duplicate_that_is_not_of_its_row_group() -> None:
    storage, _ = new_table()
    write(storage, BATCHES[0], options=asking(True))
    with Mutant(fault_named("duplicate chunk stale after a merge")).planted():
        write(storage, BATCHES[2])
    report = verify_table(open_table(storage, PATH))
    assert {problem.actual for problem in report.all_problems} == {"its pages do not decode: pages"}
    values = all_values(content_of(storage))
    assert {each.source for each in values.values()} == {ChunkSource.OLD}
