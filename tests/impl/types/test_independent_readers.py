"""Other readers of Parquet, given data.parquet up to the token, compared with ours."""

import io
from collections.abc import Callable
from pathlib import Path

import golden_data
import polars
import pyarrow as pa
import pytest
from depth import sampled
from independent_readers import READERS, normalised, ours_and_content, read_with_pyarrow
from real_tables import parquet_partitions, snapshot_of

from tornproof.impl.types.questdb import TypeTag, tag_of

LAST_STEPS = [
    max(step for step in golden_data.HISTORY_STEPS if step.startswith(f"{name}/")) for name in golden_data.HISTORIES
]
CRASHED = (*golden_data.CRASHES, *golden_data.AFTER_RESTARTS)
FOLDERS = [f"{name}/table" for name in (*golden_data.TABLES, *CRASHED)]
READ_FOLDERS = [*FOLDERS, *LAST_STEPS]


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize(
    "name",
    sampled(4, READ_FOLDERS),
)
def test_other_reader_gets_the_same_rows(
    name: str, read: Callable[[bytes, Path], pa.Table], questdb_data: Path, tmp_path: Path
) -> None:
    snapshot = snapshot_of(questdb_data / name)
    partitions = parquet_partitions(snapshot)
    assert partitions
    for partition in partitions:
        ours, content = ours_and_content(snapshot, partition)
        assert ours.num_rows == partition.row_count
        theirs, mine = normalised(read(content, tmp_path), ours)
        assert theirs.equals(mine)


@pytest.mark.parametrize("name", sampled(14, READ_FOLDERS))
def test_pyarrow_finds_our_very_types_but_for_arrays(name: str, questdb_data: Path, tmp_path: Path) -> None:
    snapshot = snapshot_of(questdb_data / name)
    for partition in parquet_partitions(snapshot):
        ours, content = ours_and_content(snapshot, partition)
        types = [pa.binary() if pa.types.is_list(each) else each for each in ours.schema.types]
        assert read_with_pyarrow(content, tmp_path).schema.types == types


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_other_reader_disagrees_when_a_value_differs(
    read: Callable[[bytes, Path], pa.Table], questdb_data: Path, tmp_path: Path
) -> None:
    snapshot = snapshot_of(questdb_data / "tables/9.4.2/types/table")
    (partition,) = parquet_partitions(snapshot)
    ours, content = ours_and_content(snapshot, partition)
    theirs, mine = normalised(read(content, tmp_path), ours)
    for position, name in enumerate(mine.schema.names):
        shifted = mine.set_column(
            position,
            name,
            pa.concat_arrays([*mine.column(position).slice(1).chunks, pa.nulls(1, mine.column(position).type)]),
        )
        assert not theirs.equals(shifted), name


def test_polars_still_rejects_decimals_of_more_than_38_digits(questdb_data: Path) -> None:
    snapshot = snapshot_of(questdb_data / "tables/9.4.2/types/table")
    (partition,) = parquet_partitions(snapshot)
    ours, content = ours_and_content(snapshot, partition)
    with pytest.raises(polars.exceptions.PolarsError, match="Decimal"):
        polars.read_parquet(io.BytesIO(content))
    assert [field.name for field in ours.schema if pa.types.is_decimal256(field.type)] == ["dec256"]


def test_every_type_of_questdb_but_one_is_among_what_others_read(questdb_data: Path) -> None:
    tags = {tag_of(column.type) for name in FOLDERS for column in snapshot_of(questdb_data / name).columns}
    assert set(TypeTag) - tags == {TypeTag.LONG128}
