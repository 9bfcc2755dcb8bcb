"""From lines to sorted runs, from runs to row groups of so many bytes, from row groups to files of a partition."""

import gzip
import itertools
import json
import random
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from depth import sampled
from real_tables import rows_of, snapshot_of, verified

from tornproof.impl.errors import CorruptError
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.write.adoption import PreparedPartition
from tornproof.impl.write.table_writer import open_writer
from tornproof.impl.write.writer_options import WriterOptions
from tornproof.pipeline.files import location_of
from tornproof.pipeline.ingest import job as archive
from tornproof.pipeline.ingest import spill as archive_spool
from tornproof.pipeline.ingest.build import BuildTask, build_partition, row_groups
from tornproof.pipeline.ingest.job import grown_in_place
from tornproof.pipeline.ingest.schema import TYPES, ArchiveColumn, ArchiveSchema
from tornproof.pipeline.ingest.source import Lines, SourceUnreadableError, digest_of
from tornproof.pipeline.ingest.spill import Reading, Run, SortedRuns, SourceLines, by_partition

HOUR = 3_600_000_000
START = 1_704_067_200_000_000
SCHEMA = ArchiveSchema(
    columns=tuple(
        ArchiveColumn(name=name, keys=(name,), type=TYPES[kind])
        for name, kind in (("ts", "TIMESTAMP"), ("n", "LONG"), ("text", "VARCHAR"))
    ),
    timestamp="ts",
)


def times(count: int) -> list[int]:
    """Times in three hours, in no order, with many twins."""
    chosen = random.Random(count)
    return [START + chosen.randrange(3) * HOUR + chosen.randrange(50) for _ in range(count)]


def frame(time: int, number: int) -> bytes:
    return json.dumps({"ts": time, "n": number, "text": "x" * (number % 40)}).encode() + b"\n"


def read(directory: Path, content: bytes, attempt: str = "0") -> SourceLines:
    path = directory / f"frames-{attempt}.jsonl"
    path.write_bytes(content)
    spool = directory / "spool"
    spool.mkdir(exist_ok=True)
    reading = Reading(schema=SCHEMA, partition_by=PartitionBy.HOUR, directory=str(spool))
    return reading.read(location_of(path), digest_of(str(path)), attempt)


def sorted_rows(runs: list[Run], row_count: int) -> list[pa.Table]:
    with SortedRuns(runs, "ts") as rows:
        return [pa.Table.from_pylist(each.to_pylist(), each.schema) for each in rows.slices(row_count)]


@pytest.mark.parametrize(
    ("row_count", "sorted_bytes"),
    sampled(3, list(itertools.product([1, 7, 1000, 1 << 20], [1, 5_000, 1 << 30]))),
)
def test_rows_of_a_partition_come_in_the_order_of_time_and_twins_in_that_of_their_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row_count: int, sorted_bytes: int
) -> None:
    monkeypatch.setattr(archive_spool, "SORTED_BYTES", sorted_bytes)
    monkeypatch.setattr("tornproof.pipeline.ingest.source.READ_BYTES", 1000)
    given = times(400 if row_count == 1 else 2000)
    halves = [given[: len(given) // 2], given[len(given) // 2 :]]
    numbers = iter(range(len(given)))
    contents = [b"".join(frame(time, next(numbers)) for time in half) for half in halves]
    sources = [read(tmp_path, content, str(number)) for number, content in enumerate(contents)]
    assert sum(source.row_count for source in sources) == len(given)
    partitions = by_partition(sources)
    assert list(partitions) == [START, START + HOUR, START + 2 * HOUR]
    for start, runs in partitions.items():
        slices = sorted_rows(runs, row_count)
        assert all(each.num_rows == row_count for each in slices[:-1]) and 0 < slices[-1].num_rows <= row_count
        rows = pa.concat_tables(slices)
        inside = [(time, number) for number, time in enumerate(given) if start <= time < start + HOUR]
        found = zip(rows["ts"].cast(pa.int64()).to_pylist(), rows["n"].to_pylist(), strict=True)
        assert list(found) == sorted(inside)
        assert rows["text"].to_pylist() == ["x" * (number % 40) for number in rows["n"].to_pylist()]


def test_lines_are_rows_rejects_and_blank_ones_and_rejects_are_kept_with_their_place(tmp_path: Path) -> None:
    source = read(tmp_path, frame(START, 1) + b"\nbad \xff\n" + frame(START, 2) + b'{"ts": 1, "n": "x"}\n[]')
    assert (source.line_count, source.row_count, source.blank_count) == (6, 2, 1)
    assert source.reject_counts == {"bad UTF-8": 1, "not an object": 1, "value of the wrong type": 1}
    kept = [json.loads(line) for line in Path(source.rejects_path).read_text().splitlines()]
    assert [(each["line"], each["raw"]) for each in kept] == [(3, "bad \\xff"), (5, '{"ts": 1, "n": "x"}'), (6, "[]")]
    assert {each["file"] for each in kept} == {source.path}


def test_without_a_directory_lines_are_counted_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "frames.jsonl"
    path.write_bytes(frame(START, 1) + b"bad\n")
    reading = Reading(schema=SCHEMA, partition_by=PartitionBy.HOUR, directory=None)
    source = reading.read(location_of(path), digest_of(str(path)), "0")
    assert (source.row_count, source.reject_counts, source.runs, source.rejects_path) == (1, {"not JSON": 1}, (), "")
    assert [file.name for file in tmp_path.iterdir()] == ["frames.jsonl"]


def test_a_file_that_changes_between_two_looks_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "frames.jsonl"
    path.write_bytes(frame(START, 1))
    reading = Reading(schema=SCHEMA, partition_by=PartitionBy.HOUR, directory=None)
    with pytest.raises(SourceUnreadableError, match="changed while it was read"):
        reading.read(location_of(path), "another digest", "0")


def test_rows_of_a_damaged_gzip_member_are_in_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that no source had were committed, because they were spooled before the member's check was read."""
    monkeypatch.setattr(archive_spool, "SORTED_BYTES", 1)
    monkeypatch.setattr(archive_spool, "Lines", partial(Lines, block_bytes=100))
    sound, damaged = (gzip.compress(b"".join(frame(START, n) for n in range(end))) for end in (5, 3000))
    source = read(tmp_path, sound + damaged[:-8] + bytes(8))
    assert (source.row_count, source.line_count) == (5, 6)
    assert source.reject_counts == {"damaged or truncated gzip": 1}
    (rejected,) = Path(source.rejects_path).read_text().splitlines()
    assert json.loads(rejected)["line"] == 6
    (runs,) = by_partition([source]).values()
    assert [row["n"] for rows in sorted_rows(list(runs), 100) for row in rows.to_pylist()] == [0, 1, 2, 3, 4]


def test_a_spool_file_with_other_rows_than_were_written_is_rejected(tmp_path: Path) -> None:
    (runs,) = by_partition([read(tmp_path, frame(START, 1) + frame(START, 2))]).values()
    read(tmp_path, frame(START, 3))
    with pytest.raises(CorruptError, match=r"/0\.arrow: rows of batch 0: expected 2, found 1"):
        SortedRuns(runs, "ts")


def one_hour(tmp_path: Path, count: int = 3000) -> list[Run]:
    content = b"".join(frame(START + time % HOUR, number) for number, time in enumerate(times(count)))
    (runs,) = by_partition([read(tmp_path, content)]).values()
    return runs


@pytest.mark.parametrize("size_bytes_max", [1, 1000, 30_000, 1 << 30])
def test_row_groups_are_bound_by_bytes_and_not_much_smaller(tmp_path: Path, size_bytes_max: int) -> None:
    runs = one_hour(tmp_path, 300 if size_bytes_max == 1 else 3000)
    options = WriterOptions(row_group_row_count_max=1 << 30, row_group_size_bytes_max=size_bytes_max)
    with SortedRuns(runs, "ts") as rows:
        groups = [(group.num_rows, group.nbytes) for group in row_groups(rows, runs, options)]
    assert sum(count for count, _ in groups) == sum(run.row_count for run in runs)
    assert all(size <= size_bytes_max or count == 1 for count, size in groups)
    total = sum(size for _, size in groups)
    assert len(groups) <= max(1, 4 * total // size_bytes_max)


def build(tmp_path: Path, runs: list[Run], attempt: str, **changed: Any) -> PreparedPartition:
    storage, path = OperatingSystemStorage(), str(tmp_path / "table")
    if not Path(path).exists():
        columns = [NewColumn(name=column.name, type=column.type) for column in SCHEMA.columns]
        create_table(storage, path, columns, timestamp="ts", partition_by=PartitionBy.HOUR)
    metadata = snapshot_of(path).table.metadata
    assert metadata is not None
    values: dict[str, Any] = {
        "timestamp": START,
        "runs": tuple(runs),
        "directory": f"{path}/2024-01-01T00",
        "table_name": "table",
        "metadata": metadata,
        "timestamp_name": "ts",
        "options": WriterOptions(row_group_row_count_max=1 << 30, row_group_size_bytes_max=20_000),
        "thread_count": 1,
    }
    return build_partition(storage, BuildTask(**{**values, **changed}), attempt)


def test_every_attempt_builds_the_same_files_with_any_number_of_threads(tmp_path: Path) -> None:
    runs = one_hour(tmp_path)
    first, second = build(tmp_path, runs, "7"), build(tmp_path, runs, "8", thread_count=3)
    assert first.directory_path.endswith("/2024-01-01T00.7.inprogress")
    for name in ("data.parquet", "_pm"):
        assert Path(first.directory_path, name).read_bytes() == Path(second.directory_path, name).read_bytes()
    with open_writer(OperatingSystemStorage(), str(tmp_path / "table"), allow_parquet_last=True) as writer:
        writer.adopt(second)
        writer.commit()
    assert verified(tmp_path / "table").sound
    assert rows_of(snapshot_of(tmp_path / "table")).num_rows == 3000


def test_the_fewest_late_rows_are_left_to_the_driver_and_no_more_than_it_has_memory_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seed in range(2_000):
        draw = random.Random(seed)
        limit = draw.randrange(60)
        monkeypatch.setattr(archive, "LATE_BYTES_MAX", limit)
        grown = {
            start: [Run(start, "spool", 0, 1, draw.randrange(30)) for _ in range(draw.randrange(1, 3))]
            for start in draw.sample(range(10), draw.randrange(6))
        }
        sizes = {start: sum(run.size_bytes for run in runs) for start, runs in grown.items()}
        left = grown_in_place(grown)
        fitting = [
            some
            for count in range(len(grown) + 1)
            for some in itertools.combinations(grown, count)
            if sum(sizes[start] for start in some) <= limit
        ]
        assert len(left) == max(map(len, fitting))
        assert sum(sizes[start] for start in left) <= limit
        assert list(left) == sorted(left) and all(left[start] is grown[start] for start in left)
