"""Partitions whose Parquet footers have an extension: each generation gets its own, and nothing else changes."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from footer_forms import reader_of
from msgspec.structs import replace
from real_tables import rows_of, snapshot_of, verified
from written_tables import DAY, DIRECTORY, IN_PLACE, PATH, new_table, rows, write, writer_on

from tornproof.harness.common.patch import wrapped
from tornproof.harness.mutation.catalogue import fault_named
from tornproof.harness.mutation.fault import Mutant
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.errors import OptionsRejectedError
from tornproof.impl.extension.footer import FileFooter, Source, read_file_footer
from tornproof.impl.extension.point import HeaderForm, append_extension
from tornproof.impl.layout.parquet import FooterForm
from tornproof.impl.parquet.encode_options import EncodeOptions
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
