from pathlib import Path, PurePosixPath
from typing import Any

import golden_data
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from depth import sampled
from golden_data import CopyOf
from msgspec.structs import replace
from real_tables import (
    only,
    parquet_only,
    parquet_partitions,
    parquet_rows_of_json,
    read_json,
    rows_of,
    snapshot_of,
    sql_rows,
)

from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.read.reader import Snapshot, open_snapshot

EXPORTS = golden_data.files("tables/*/*/expected.parquet")
SOUND_POWER_LOSSES = [
    name
    for name in golden_data.POWER_LOSSES
    if PurePosixPath(name).name.startswith(("control", "orphan", "one-byte"))
    and name != "power-loss/9.4.2/one-byte-flipped-inside-a-data-page"
]
SQL_TYPES = {"ts": "TIMESTAMP", "v": "LONG", "d": "DOUBLE", "n": "VARCHAR"}


def export_of(path: Path, snapshot: Snapshot) -> pa.Table:
    """The server's own export of the parquet partitions; of its schema only names, types and nullability are kept."""
    export = pq.read_table(path)
    export = export.cast(pa.schema([pa.field(field.name, field.type, field.nullable) for field in export.schema]))
    timestamps = export.column(timestamp_name(snapshot)).cast(pa.int64()).to_pylist()
    starts = [partition.timestamp for partition in snapshot.transaction.partitions]
    return export.take(parquet_only(list(range(len(timestamps))), timestamps.__getitem__, snapshot, starts))


def timestamp_name(snapshot: Snapshot) -> str:
    return next(column.name for column in snapshot.columns if column.id == snapshot.timestamp_id)


def plain_rows(snapshot: Snapshot, *names: str) -> list[list[Any]]:
    """Rows of those columns as the JSON of crashes and histories has them."""
    return sql_rows(rows_of(snapshot, list(names)), [SQL_TYPES[name] for name in names])


def answered_by_sql(folder: Path, snapshot: Snapshot) -> tuple[list[list[Any]], list[str]]:
    """Rows of parquet partitions as SQL gave them, and the types of their columns."""
    expected = read_json(folder / "expected.json")
    assert [column["name"] for column in expected["columns"]] == snapshot.schema.names
    assert snapshot.schema.names[expected["timestamp"]] == timestamp_name(snapshot)
    answered = parquet_rows_of_json(expected["rows"], expected["timestamp"], snapshot)
    assert answered
    return answered, [column["type"] for column in expected["columns"]]


@pytest.mark.parametrize("name", EXPORTS)
def test_parquet_partitions_equal_the_servers_own_export(name: str, questdb_data: Path) -> None:
    snapshot = snapshot_of((questdb_data / name).with_name("table"))
    export, rows = export_of(questdb_data / name, snapshot), rows_of(snapshot)
    assert export.num_rows > 0
    assert rows.schema.equals(export.schema)
    assert rows.equals(export)


def test_one_table_alone_has_no_export() -> None:
    assert set(golden_data.TABLES) - {str(PurePosixPath(name).parent) for name in EXPORTS} == {"tables/9.4.2/oddcols"}


@pytest.mark.parametrize("name", golden_data.TABLES)
def test_parquet_partitions_equal_what_sql_answered(name: str, questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / name / "table")
    answered, sql_types = answered_by_sql(questdb_data / name, snapshot)
    assert sql_rows(rows_of(snapshot), sql_types) == answered


@pytest.mark.parametrize("name", golden_data.CRASHES)
def test_table_of_a_killed_server_has_the_rows_of_its_committed_version(name: str, questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / name / "table")
    expected = read_json(questdb_data / name / "expected.json")["rows_sorted_by_ts_v"]
    answered = parquet_rows_of_json(expected, 0, snapshot)
    assert answered
    assert sorted(plain_rows(snapshot, "ts", "v", "n"), key=lambda row: row[:2]) == answered


@pytest.mark.parametrize("name", golden_data.AFTER_RESTARTS)
def test_chain_that_jumps_an_orphan_has_the_rows_in_table_order(name: str, questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / name / "table")
    answered = parquet_rows_of_json(read_json(questdb_data / name / "expected.json")["rows"], 0, snapshot)
    assert answered
    assert plain_rows(snapshot, "ts", "v", "n") == answered


def test_what_servers_answered_from_sound_power_loss_images_fits_our_rows(questdb_data: Path) -> None:
    native_parts = set()
    for name in SOUND_POWER_LOSSES:
        snapshot = snapshot_of(questdb_data / name / "table")
        read = read_json(questdb_data / name / "outcome.json")["read"]
        if not isinstance(read, list):
            # 9.4.2 itself cannot read beside an orphan; the committed version is that of 2026-07.
            assert name == "power-loss/9.4.2/orphan-header-tail-new-data-new-txn-old-kill-9"
            read = read_json(questdb_data / name.replace("9.4.2", "2026-07") / "outcome.json")["read"]
        ours = plain_rows(snapshot, "ts", "v", "n")
        assert read[3] == ours[0][0]
        native_parts.add(
            (read[0] - len(ours), read[1] - sum(row[1] for row in ours), read[2] - sum(len(row[2]) for row in ours))
        )
        native = [partition for partition in snapshot.transaction.partitions if not partition.is_parquet]
        assert read[0] - len(ours) == sum(partition.row_count for partition in native)
    # The images lack the native partition, but it is the same in all of them.
    assert len(SOUND_POWER_LOSSES) == 5
    assert len(native_parts) == 1


@pytest.mark.parametrize("name", sampled(14, golden_data.HISTORY_STEPS))
def test_every_commit_of_a_history_is_read_from_its_directory_alone(name: str, questdb_data: Path) -> None:
    folder = questdb_data / name
    snapshot = snapshot_of(folder)
    answered = parquet_rows_of_json(read_json(folder / "rows.json"), 0, snapshot)
    assert snapshot.table.metadata is None
    assert answered
    assert plain_rows(snapshot, *snapshot.schema.names) == answered


@pytest.mark.parametrize("name", sampled(2, golden_data.HISTORIES))
def test_every_committed_token_stays_readable_in_all_later_files(name: str, questdb_data: Path) -> None:
    steps = [snapshot_of(questdb_data / step) for step in golden_data.HISTORY_STEPS if step.startswith(name + "/")]
    walked_back = 0
    for position, step in enumerate(steps):
        for partition in parquet_partitions(step):
            directory = step.table.directory_of(partition)
            now = step.resolve(partition)
            own_rows = rows_of(only(step, partition))
            later_steps = [later for later in steps[position + 1 :] if still_names(later, directory)]
            for later in later_steps:
                resolved = later.resolve(partition)
                assert resolved.metadata.blocks == now.metadata.blocks
                walked_back += resolved.resolved.orphan_count > 0
            if later_steps:
                assert rows_of(only(later_steps[-1], partition)).equals(own_rows)
    assert walked_back > 0


def still_names(snapshot: Snapshot, directory: str) -> bool:
    return directory in {snapshot.table.directory_of(partition) for partition in parquet_partitions(snapshot)}


@pytest.mark.parametrize("name", golden_data.LEGACY_TABLES)
def test_table_of_a_release_before_pm_is_rejected_in_words(name: str, questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / name / "table")
    in_words = pytest.raises(UnsupportedError, match=r"a release before 9\.4\.0 and was not migrated")
    with in_words:
        rows_of(snapshot)
    with in_words:
        open_snapshot(replace(snapshot.table, metadata=None))


@pytest.mark.parametrize("name", golden_data.LEGACY_TABLES)
def test_legacy_table_is_read_once_its_pm_are_there(name: str, copy_of: CopyOf) -> None:
    folder = copy_of(name)
    for migrated in (folder / "migrated").glob("*.pm"):
        migrated.rename(folder / "table" / migrated.stem / "_pm")
    snapshot = snapshot_of(folder / "table")
    answered, sql_types = answered_by_sql(folder, snapshot)
    assert sql_rows(rows_of(snapshot), sql_types) == answered


def test_value_that_contradicts_its_statistics_is_rejected(questdb_data: Path) -> None:
    with pytest.raises(CorruptError, match="MAX_STAT of column 'ts'"):
        rows_of(snapshot_of(questdb_data / "power-loss/9.4.2/one-byte-flipped-inside-a-data-page/table"))


def test_partition_whose_metadata_and_files_disagree_is_rejected_at_the_first_problem(questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / "tables/9.4.2/chain/table")
    (partition,) = parquet_partitions(snapshot)
    with pytest.raises(CorruptError, match=r"ROW_COUNT of 2024-01-01\.1"):
        rows_of(only(snapshot, replace(partition, row_count=partition.row_count + 1)))
    assert rows_of(only(snapshot, partition)).num_rows == partition.row_count


def test_table_without_metadata_file_has_the_columns_that_its_partitions_name(questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / "tables/9.4.2/types/table")
    assert rows_of(open_snapshot(replace(snapshot.table, metadata=None))).equals(rows_of(snapshot))
