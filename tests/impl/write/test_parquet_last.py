"""A parquet partition as the last one of a table without write-ahead log, into which servers fail to insert."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from real_tables import in_memory, verified, with_wal
from written_tables import DAY_LENGTH, PATH, new_table, rows

from tornproof.harness.common.made_rows import rows_for
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.probe import probe
from tornproof.harness.systems.releases import PRESETS
from tornproof.impl.errors import ParquetLastError
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.pins import PINS_FILE
from tornproof.impl.write.table_writer import TableWriter, open_writer

NATIVE_LAST = "tables/9.4.2/fastpath/table"
DAY_MICROSECONDS = 86_400_000_000
SERVERS = [name for name in PRESETS if name.startswith("questdb")]


def files_of(storage: MemoryStorage) -> dict[str, bytes]:
    return {name: content for name, content in storage.image().files.items() if not name.endswith(PINS_FILE)}


@contextmanager
def rejected(writer: TableWriter, name: str) -> Iterator[None]:
    with pytest.raises(ParquetLastError) as caught:
        yield
    for words in ("without allow_parquet_last", f'ALTER TABLE "{name}" SET TYPE WAL and a restart'):
        assert words in str(caught.value)
    writer.rollback()


def test_first_partition_of_a_new_table_is_rejected_unless_allowed() -> None:
    storage, _ = new_table()
    before = files_of(storage)
    with open_writer(storage, PATH) as writer:
        writer.write(rows([0]))
        with rejected(writer, "t"):
            writer.commit()
        assert files_of(storage) == before
        assert writer.commit() == 0
    with open_writer(storage, PATH, allow_parquet_last=True) as writer:
        writer.write(rows([0]))
        assert writer.commit() == 1
    assert verified(PATH, storage).sound


def test_only_the_last_partition_counts(questdb_data: Path) -> None:
    path, storage = in_memory(questdb_data / NATIVE_LAST)
    with open_writer(storage, path) as writer:
        parquet, native = writer.transaction.partitions
        assert (parquet.is_parquet, native.is_parquet) == (True, False)
        writer.write(rows_for(writer.table, [parquet.timestamp + 1], seed=0))
        writer.commit()
        writer.write(rows_for(writer.table, [native.timestamp + 3 * DAY_MICROSECONDS], seed=1))
        with rejected(writer, "fastpath"):
            writer.commit()
    assert verified(path, storage).sound


def test_dropping_the_last_native_partition_is_rejected(questdb_data: Path) -> None:
    path, storage = in_memory(questdb_data / NATIVE_LAST)
    with open_writer(storage, path) as writer:
        writer.drop_partition(writer.transaction.partitions[-1].timestamp)
        with rejected(writer, "fastpath"):
            writer.commit()
        writer.drop_partition(writer.transaction.partitions[-1].timestamp)
        writer.drop_partition(writer.transaction.partitions[0].timestamp)
        writer.commit()
    assert open_table(storage, path).transaction().partitions == ()


def test_table_with_a_write_ahead_log_is_written_to(questdb_data: Path) -> None:
    path, storage = in_memory(questdb_data / "crashes/9.4.2/sync-1-06/table")
    with open_writer(storage, path) as writer:
        last = writer.transaction.partitions[-1]
        assert last.is_parquet
        writer.write(rows_for(writer.table, [last.timestamp + DAY_MICROSECONDS], seed=0))
        writer.commit()


def made_image() -> DiskImage:
    storage, _ = new_table()
    with open_writer(storage, PATH, allow_parquet_last=True) as writer:
        writer.write(rows([0, DAY_LENGTH]))
        writer.commit()
    return storage.image()


@pytest.mark.parametrize("name", SERVERS)
def test_probe_predicts_that_a_server_cannot_continue_and_names_the_cure(name: str) -> None:
    image = made_image()
    compatibility = probe(image, PATH, PRESETS[name])
    assert (compatibility.readable, compatibility.writable) == (True, False)
    assert 'ALTER TABLE "t" SET TYPE WAL and a restart cure that' in compatibility.reason
    assert probe(with_wal(image, PATH), PATH, PRESETS[name]).writable
    assert probe(image, PATH, PRESETS["hardened"]).writable
