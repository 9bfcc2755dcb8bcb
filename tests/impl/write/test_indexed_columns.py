"""A table with an indexed column is not written to: the server's lookups would no longer fit its rows."""

import datetime
import struct
from pathlib import Path

import golden_data
import pyarrow as pa
import pytest
from real_tables import files_below, in_memory, verified

from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.errors import IndexedColumnError
from tornproof.impl.repair.repair import repair_table
from tornproof.impl.table.indexed_columns import index_advice
from tornproof.impl.table.metadata_file import NAME_FILE, PartitionBy, TableColumn, TableMetadata, encode_name
from tornproof.impl.table.table import Table
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.table_writer import open_writer

DROPPED = "indexed/9.4.2/index_dropped"
INDEXED = (*(name for name in golden_data.INDEXED_TABLES if name != DROPPED), "tables/9.4.2/nonwal")
NEWEST = "2024-05-02.2"


@pytest.mark.parametrize("name", INDEXED)
def test_writer_is_refused_in_words_that_name_column_and_cure_and_nothing_is_written(
    name: str, questdb_data: Path
) -> None:
    path, storage = in_memory(questdb_data / name / "table")
    before = storage.image().files
    with pytest.raises(IndexedColumnError) as caught:
        open_writer(storage, path)
    alter = f'ALTER TABLE "{name.rpartition("/")[2]}" ALTER COLUMN "s"'
    for words in ("column 's' has an index", f"{alter} DROP INDEX first", f"{alter} ADD INDEX afterwards"):
        assert words in str(caught.value)
    assert storage.image().files == before


def test_table_whose_index_was_dropped_is_written_to(questdb_data: Path) -> None:
    path, storage = in_memory(questdb_data / DROPPED / "table")
    with open_writer(storage, path) as writer:
        writer.rewrite_partition(writer.transaction.partitions[0].timestamp)
        writer.commit()
    assert verified(path, storage).sound


@pytest.mark.parametrize(
    ("day", "rewrites", "file", "field"),
    [
        (1, False, "2024-05-01.1/s.v", "row of key 1"),
        (1, True, "2024-05-01.4/s.k", "file"),
        (9, False, "2024-05-09.4/s.k", "file"),
    ],
)
def test_what_the_writer_would_do_to_lookups_is_seen_by_verify(
    day: int, rewrites: bool, file: str, field: str, questdb_data: Path
) -> None:
    path, storage = in_memory(questdb_data / "indexed/9.4.2/indexed_nonwal/table")
    with open_writer(storage, path, allow_parquet_last=True, ignore_indexes=True) as writer:
        time = datetime.datetime(2024, 5, day, 3, 7)
        rows = {"ts": [time], "v": [1], "n": ["merged"], "s": ["s1"]}
        writer.write(pa.table([pa.array(rows[name], writer.schema.field(name).type) for name in rows], list(rows)))
        if rewrites:
            writer.rewrite_partition(writer.transaction.partitions[0].timestamp)
        writer.commit()
    (problem,) = verified(path, storage).all_problems
    assert (problem.file, problem.field) == (file, field)


@pytest.mark.parametrize("dry_run", [False, True])
def test_recovery_is_refused_where_it_would_remove_rows_that_the_index_has(dry_run: bool, questdb_data: Path) -> None:
    path, storage = in_memory(questdb_data / "indexed/9.4.2/indexed_nonwal/table")
    with storage.open_for_writing(f"{path}/{NEWEST}/data.parquet") as data:
        data.pwrite(b"rows of a commit that was not completed", data.size_bytes())
    before = files_below(path, storage)
    with pytest.raises(IndexedColumnError, match="DROP INDEX"):
        repair_table(storage, path, dry_run=dry_run)
    assert files_below(path, storage) == before


def test_recovery_of_an_indexed_table_that_needs_nothing_says_so_and_names_the_index(questdb_data: Path) -> None:
    path, storage = in_memory(questdb_data / "indexed/9.4.2/indexed_nonwal/table")
    report = repair_table(storage, path)
    assert (report.actions, report.problems) == ((), ())
    assert [("'s' has an index" in note, "DROP INDEX" in note) for note in report.notes] == [(True, True)]


@pytest.mark.parametrize(
    ("name_file", "name"),
    [
        (encode_name("a new name"), "a new name"),
        (None, "trades"),
        (b"", "trades"),
        (struct.pack("<i", 5) + b"cut", "trades"),
        (struct.pack("<iH", 1, 0xD800), "trades"),
    ],
)
def test_cure_has_the_name_that_a_table_got_by_rename_or_that_of_its_directory_without_the_number(
    name_file: bytes | None, name: str
) -> None:
    """After RENAME TABLE, which leaves the directory its name, the statement was about a table that is not there."""
    column = TableColumn(id=0, name="from", type=TypeTag.SYMBOL, is_indexed=True)
    metadata = TableMetadata(columns=(column,), partition_by=PartitionBy.DAY, timestamp_id=-1)
    image = DiskImage.of_files({} if name_file is None else {f"db/trades~12/{NAME_FILE}": name_file})
    advice = index_advice(Table(storage=image, path="db/trades~12", metadata=metadata))
    assert advice is not None and f'ALTER TABLE "{name}" ALTER COLUMN "from" DROP INDEX first' in advice
