"""Partitions whose footers are extended, or whose numbers are in a new encoding too: each generation gets its own."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chunk_forms import all_values, bits_of, footer_of_form
from footer_forms import reader_of
from msgspec.structs import replace
from real_tables import rows_of, snapshot_of, verified
from written_tables import DAY, DIRECTORY, IN_PLACE, PATH, new_table, rows, write, writer_on

from tornproof.harness.common.patch import wrapped
from tornproof.harness.mutation.catalogue import fault_named
from tornproof.harness.mutation.fault import Mutant
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.chunk.duplicate_values import ChunkSource
from tornproof.impl.chunk.duplicates import duplicates_in
from tornproof.impl.errors import OptionsRejectedError
from tornproof.impl.extension.footer import FileFooter, Source, read_file_footer
from tornproof.impl.extension.point import HeaderForm, append_extension
from tornproof.impl.layout.parquet import FooterForm
from tornproof.impl.migrate.chunk_layout import span_of
from tornproof.impl.parquet.arrow_writer import FOOTER, GROUP
from tornproof.impl.parquet.encode_options import EncodeOptions
from tornproof.impl.parquet.thrift import structs_in, value_of
from tornproof.impl.pm.chain import walk
from tornproof.impl.storage.interface import OpenMode
from tornproof.impl.table.table import open_table
from tornproof.impl.verify.verify import verify_table
from tornproof.impl.write.partition_build import PartitionBuild
from tornproof.impl.write.partition_change import WriterOptions

SIDE_BY_SIDE = (FooterForm.PRIVATE, FooterForm.MIGRATION)


def asking(form: FooterForm | None, options: WriterOptions = IN_PLACE) -> WriterOptions:
    return replace(options, encoding=EncodeOptions(footer_extension=form), allow_unreadable_by_servers=True)


def footers(storage: MemoryStorage, directory: str = DIRECTORY) -> Iterator[FileFooter]:
    """Yield the footer of each generation, the oldest first, as a reader sees it at the token of that generation."""
    files = storage.image().files
    pm, data = files[f"{directory}/_pm"], files[f"{directory}/data.parquet"]
    for position in [*walk(pm[: int.from_bytes(pm[:8], "little")], file="_pm")][::-1]:
        yield read_file_footer(reader_of(data[: position.token]), position.token, file="data.parquet")


def forms(storage: MemoryStorage, directory: str = DIRECTORY) -> list[FooterForm]:
    found = list(footers(storage, directory))
    assert [each.source for each in found if each.form is not FooterForm.THRIFT] == [Source.FLATBUFFERS] * sum(
        each.form is not FooterForm.THRIFT for each in found
    )
    for each in found:
        assert each.flat is None or each.flat.thrift() == each.thrift()
    return [each.form for each in found]


BATCHES = (rows([0, 10, 20]), rows([30], 3), rows([5], 4), rows([40, 50], 5))


@pytest.mark.parametrize("form", SIDE_BY_SIDE)
def test_a_writer_that_is_asked_once_makes_one_that_later_writers_keep(form: FooterForm) -> None:
    storage, _ = new_table()
    plain, _ = new_table()
    for number, batch in enumerate(BATCHES):
        write(storage, batch, options=asking(form) if number == 0 else IN_PLACE)
        write(plain, batch)
        assert verified(PATH, storage).sound
    assert forms(storage) == [form] * len(BATCHES)
    assert forms(plain) == [FooterForm.THRIFT] * len(BATCHES)
    assert rows_of(snapshot_of(PATH, storage)).equals(rows_of(snapshot_of(PATH, plain)))
    extended, thrift = list(footers(storage)), list(footers(plain))
    assert (
        [each.decoded().num_rows for each in extended] == [each.decoded().num_rows for each in thrift] == [3, 4, 5, 7]
    )


def test_the_form_changes_with_the_next_commit_that_asks_and_back_to_the_bytes_of_thrift_alone() -> None:
    storage, _ = new_table()
    plain, _ = new_table()
    asked = (FooterForm.PRIVATE, FooterForm.MIGRATION, FooterForm.THRIFT, None)
    for form, batch in zip(asked, BATCHES, strict=True):
        write(storage, batch, options=asking(form))
        write(plain, batch)
    assert forms(storage) == [FooterForm.PRIVATE, FooterForm.MIGRATION, FooterForm.THRIFT, FooterForm.THRIFT]
    assert verified(PATH, storage).sound


def test_a_rewrite_keeps_it_and_one_that_asks_changes_it() -> None:
    storage, _ = new_table()
    write(storage, BATCHES[0], options=asking(FooterForm.PRIVATE))
    for form, expected in ((None, FooterForm.PRIVATE), (FooterForm.MIGRATION, FooterForm.MIGRATION)):
        with writer_on(storage, asking(form)) as writer:
            writer.rewrite_partition(DAY)
            writer.commit()
        table = open_table(storage, PATH)
        (partition,) = table.transaction().partitions
        assert forms(storage, table.files_of(partition).path) == [expected]
        assert verify_table(table).sound


def test_other_readers_of_parquet_read_the_committed_file() -> None:
    storage, _ = new_table()
    write(storage, *BATCHES, options=asking(FooterForm.MIGRATION))
    content = storage.image().files[f"{DIRECTORY}/data.parquet"]
    assert pq.read_table(pa.BufferReader(content)).num_rows == 7


def test_a_prepared_partition_has_it() -> None:
    storage, table = new_table()
    assert table.metadata is not None
    with PartitionBuild(
        storage, f"{PATH}/prepared", table.metadata, asking(FooterForm.PRIVATE), table_name="t"
    ) as build:
        build.append(build.encoded(table_rows(storage)))
        build.finish(DAY)
    assert forms(storage, f"{PATH}/prepared") == [FooterForm.PRIVATE]


def table_rows(storage: MemoryStorage) -> pa.Table:
    other, _ = new_table()
    write(other, BATCHES[0])
    return rows_of(snapshot_of(PATH, other))


def test_the_extension_of_somebody_else_does_not_describe_the_next_generation() -> None:
    """It was kept as an unknown field, and would have described row groups that are no more."""
    storage, _ = new_table()
    foreign = b"somebody else's, of 3 rows in one row group"
    with wrapped(
        "tornproof.impl.write.partition_writer:extended_footer",
        lambda _: lambda thrift, form, **__: append_extension(thrift, foreign, HeaderForm.ZIGZAG),
    ):
        write(storage, BATCHES[0])
    (before,) = footers(storage)
    assert before.doubt == "its UUID is unknown"
    write(storage, BATCHES[1])
    *_, after = footers(storage)
    assert (after.form, after.doubt) == (FooterForm.THRIFT, None)


def test_footers_without_thrift_are_not_for_tables() -> None:
    with pytest.raises(OptionsRejectedError, match="no server could read them"):
        asking(FooterForm.FINAL)


@pytest.mark.parametrize("name", ["extension of an older generation", "checksum of the extension over the wrong bytes"])
def test_verify_names_an_extension_that_is_not_of_its_footer(name: str) -> None:
    storage, _ = new_table()
    write(storage, BATCHES[0], options=asking(FooterForm.MIGRATION))
    with Mutant(fault_named(name)).planted():
        write(storage, BATCHES[1], BATCHES[2])
    report = verify_table(open_table(storage, PATH))
    assert not report.sound
    assert {problem.field for problem in report.all_problems} <= {"Thrift footer", "extension"}
    assert rows_of(snapshot_of(PATH, storage)).num_rows == 5


def test_verify_finds_every_flipped_bit_of_the_extension() -> None:
    storage, _ = new_table()
    write(storage, BATCHES[0], options=asking(FooterForm.PRIVATE))
    path = f"{DIRECTORY}/data.parquet"
    content = storage.image().files[path]
    (footer,) = footers(storage)
    start = footer.offset_bytes + len(footer.thrift()) + 3
    assert len(content) - start > 500
    for position in range(start, len(content), 37):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        with storage.open_for_writing(path, OpenMode.EXISTING) as file:
            file.pwrite(bytes(damaged), 0)
        assert not verify_table(open_table(storage, PATH), whole=False).sound or is_uuid(position, content)
    with storage.open_for_writing(path, OpenMode.EXISTING) as file:
        file.pwrite(content, 0)
    assert verify_table(open_table(storage, PATH)).sound


def is_uuid(position: int, content: bytes) -> bool:
    """A flipped UUID makes it somebody else's extension, of which nothing is known."""
    return len(content) - 8 - 1 - 16 <= position < len(content) - 8 - 1


# Numbers in a new encoding too


def asking_duplicates(duplicates: bool | None) -> WriterOptions:
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
        write(storage, batch, options=asking_duplicates(True if number == 0 else None))
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
    write(storage, BATCHES[0], options=asking_duplicates(True))
    before = duplicate_count(content_of(storage))
    write(storage, BATCHES[1], options=asking_duplicates(False))
    assert duplicate_count(content_of(storage)) == before > 0
    write(storage, BATCHES[2], options=asking_duplicates(False))
    assert duplicate_count(content_of(storage)) == 0
    assert verified(PATH, storage).sound


def test_a_row_group_begins_with_its_first_page_and_not_with_a_duplicate() -> None:
    storage, _ = new_table()
    for batch in BATCHES[:2]:
        write(storage, batch, options=asking_duplicates(True))
    footer = footer_of_form(content_of(storage))
    starts = [
        min(chunk.dictionary_page_offset or chunk.data_page_offset for chunk in each.chunks)
        for each in footer.row_groups
    ]
    trees = structs_in(footer.tree, FOOTER["row_groups"])
    assert [value_of(tree, GROUP["file_offset"]) for tree in trees] == starts


def test_a_rewrite_keeps_them() -> None:
    storage, _ = new_table()
    write(storage, *BATCHES[:2], options=asking_duplicates(True))
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
        write(storage, BATCHES[0], options=asking_duplicates(duplicates))
        write(storage, BATCHES[2], options=asking_duplicates(duplicates))
        report = verify_table(open_table(storage, PATH))
        assert report.sound
        counts.append(report.partitions[0].unused_bytes)
    assert counts[0] > counts[1] + 100


def test_a_flipped_bit_of_a_duplicate_is_found_by_verify_and_harms_no_reader_of_the_table() -> None:
    storage, _ = new_table()
    write(storage, *BATCHES, options=asking_duplicates(True))
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
    write(storage, BATCHES[0], options=asking_duplicates(True))
    content = bytearray(content_of(storage))
    (start, end) = span_of(footer_of_form(bytes(content)).row_groups[0].chunks[0])
    content[end - 3] ^= 1
    with storage.open_for_writing(f"{DIRECTORY}/data.parquet", OpenMode.EXISTING) as file:
        file.pwrite(bytes(content), 0)
    (problem,) = verify_table(open_table(storage, PATH)).all_problems
    assert problem.offset_bytes == start and "crc" in problem.field


def test_verify_names_a_duplicate_that_is_not_of_its_row_group() -> None:
    storage, _ = new_table()
    write(storage, BATCHES[0], options=asking_duplicates(True))
    with Mutant(fault_named("duplicate chunk stale after a merge")).planted():
        write(storage, BATCHES[2])
    report = verify_table(open_table(storage, PATH))
    assert {problem.actual for problem in report.all_problems} == {"its pages do not decode: pages"}
    values = all_values(content_of(storage))
    assert {each.source for each in values.values()} == {ChunkSource.OLD}
