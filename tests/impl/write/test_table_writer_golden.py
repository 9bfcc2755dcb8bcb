"""Many commits on copies of what real servers wrote, each compared with other readers and with a plain merge."""

from pathlib import Path

import golden_data
import pytest
from depth import drawn, nightly, sampled
from real_tables import in_memory
from writer_run import MICROSECONDS, Run, start_run

from tornproof.harness.common.made_rows import rows_for
from tornproof.impl.errors import CorruptError, RowsRejectedError
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.txn.pins import PINS_FILE, take_writer_lock
from tornproof.impl.write.partition_change import WriterOptions
from tornproof.impl.write.table_writer import open_writer

FEW_COMMITS, MANY_COMMITS = 7, 50
# Its footers have 300 columns for each row group, so only few stay small where all commits grow in place.
WIDE_COMMITS, MANY_WIDE_COMMITS = 2, 16
IMAGES_OF_MANY_COMMITS = 9
WIDE = "tables/9.4.2/wide"
EVERY_STEP_TABLES = (
    "tables/9.4.2/chain",
    "tables/9.4.2/dedup",
    "tables/9.4.2/oddcols",
    "tables/2026-07/nanosecond",
)
IMAGES = (*golden_data.TABLES, *golden_data.CRASHES, *golden_data.AFTER_RESTARTS)
# A table with an index is not written to.
INDEXED = "tables/9.4.2/nonwal"
FEW_COMMIT_IMAGES = sorted({*golden_data.TABLES, *golden_data.CRASHES} - {WIDE, INDEXED, *EVERY_STEP_TABLES})


def kind_of(name: str) -> str:
    """Return what an image is of: a table of this name in any release, or a crash in this run of a server."""
    return name.rpartition("-")[0] if name in golden_data.CRASHES else name.rpartition("/")[2]


ONE_OF_EACH_KIND = tuple({kind_of(name): name for name in FEW_COMMIT_IMAGES}.values())


def append(run: Run) -> None:
    last = run.times()[-1]
    run.write([min(last + 1 + position, run.main + run.interval - 1) for position in range(5)])


def scatter(run: Run) -> None:
    times = run.times()
    span = times[-1] - times[0] + 1
    run.write([times[0] + position * 7919 * span // 16 % span for position in range(9)])


def tie(run: Run) -> None:
    times = run.times()
    run.write([times[position * len(times) // 6] for position in (5, 3, 1, 1)])
    run.write([times[0], times[-1], times[-1]])


def fill_gaps(run: Run) -> None:
    """Between row groups and before the first one, where no row group's span is met."""
    snapshot = open_snapshot(run.writer.table)
    partition = next(each for each in snapshot.transaction.partitions if each.timestamp == run.main)
    times, border, chosen = run.times(), 0, [max(run.times()[0] - 1, run.main)]
    for block in snapshot.resolve(partition).metadata.blocks[:-1]:
        border += block.num_rows
        chosen.append((times[border - 1] + times[border]) // 2)
    run.write(sorted(chosen[:6], reverse=True))


def several(run: Run) -> None:
    scatter(run)
    for partition in sorted(run.rows)[:3]:
        times = run.times(partition)
        run.write([times[-1], times[0], (times[0] + times[-1]) // 2])
    create(run)


def create(run: Run) -> None:
    start = max(run.taken()) + 2 * run.interval
    run.write([start + position * 1000 % 7777 for position in range(20)])
    # Two, so that the last partition can be dropped: a native one may not become the last.
    run.write([start + run.interval, start + run.interval])


def create_first(run: Run) -> None:
    start = min(run.taken()) - run.interval
    run.write([start + position for position in (5, 0, 3)])


def rewrite(run: Run) -> None:
    run.writer.rewrite_partition(run.main)
    append(run)


def other_text(run: Run) -> None:
    times = run.times()
    run.write([times[len(times) // 2], times[-1]], is_ascii=False)


def drop_newest(run: Run) -> None:
    append(run)
    run.drop(max(start for start in run.rows if start != run.main))


def drop_and_make_anew(run: Run) -> None:
    start = min(start for start in run.rows if start != run.main)
    run.drop(start)
    run.write([start + 9, start + 4])


FIRST_STEPS = (append, scatter, several, tie, fill_gaps, create_first, drop_newest, scatter, fill_gaps, append, scatter)
LATER_STEPS = (rewrite, several, fill_gaps, drop_and_make_anew, tie, append, other_text, scatter, tie)
STEPS = (*FIRST_STEPS, *LATER_STEPS)


def drive(run: Run, commit_count: int) -> None:
    with run.writer:
        for number in range(commit_count):
            STEPS[number % len(STEPS)](run)
            run.commit()
            run.check(number + 1, is_last=number + 1 == commit_count)


@pytest.mark.parametrize(
    "name",
    [*sampled(1, ONE_OF_EACH_KIND), *map(nightly, sorted({*FEW_COMMIT_IMAGES} - {*ONE_OF_EACH_KIND}))],
)
def test_few_commits_are_what_a_plain_merge_makes_and_every_reader_sees(
    name: str, questdb_data: Path, tmp_path: Path
) -> None:
    run = start_run(tmp_path, questdb_data / name / "table")
    drive(run, FEW_COMMITS)
    assert run.reached["in place"] >= FEW_COMMITS - 1
    assert (run.reached["created"], run.reached["dropped"]) == (3, 1)


@pytest.mark.nightly
def test_commits_of_300_columns_are_what_a_plain_merge_makes_and_every_reader_sees(
    questdb_data: Path, tmp_path: Path
) -> None:
    run = start_run(tmp_path, questdb_data / WIDE / "table")
    drive(run, WIDE_COMMITS)
    assert run.reached["in place"] == WIDE_COMMITS


@pytest.mark.nightly
def test_many_commits_of_300_columns_are_what_a_plain_merge_makes(questdb_data: Path, tmp_path: Path) -> None:
    run = start_run(tmp_path, questdb_data / WIDE / "table", options=WriterOptions(), other_readers_at=1)
    drive(run, MANY_WIDE_COMMITS)
    assert run.reached["in place"] > 1 and run.reached["rewritten"] > 1


@pytest.mark.parametrize("name", sampled(1, EVERY_STEP_TABLES))
def test_every_kind_of_commit_is_what_a_plain_merge_makes_and_every_reader_sees(
    name: str, questdb_data: Path, tmp_path: Path
) -> None:
    run = start_run(tmp_path, questdb_data / name / "table")
    drive(run, len(STEPS))
    assert run.reached["in place"] >= len(STEPS) - 1 and run.reached["rewritten"] >= 2
    assert (run.reached["created"], run.reached["dropped"]) == (5, 2)


@pytest.mark.nightly
@pytest.mark.parametrize("name", drawn(IMAGES_OF_MANY_COMMITS, sorted({*IMAGES} - {WIDE})))
def test_fifty_commits_on_a_real_image_are_what_a_plain_merge_makes(
    name: str, questdb_data: Path, tmp_path: Path
) -> None:
    run = start_run(tmp_path, questdb_data / name / "table", other_readers_at=1)
    drive(run, MANY_COMMITS)
    assert run.reached["in place"] > MANY_COMMITS and run.reached["rewritten"] > 2
    assert run.reached["created"] >= 5 and run.reached["dropped"] >= 4


REJECTED_AT_OPENING = {
    "pm-header-old-txn-new": "token at byte 424: expected one of the chain's 2",
    "pm-old-whole-txn-new": "token at byte 424: expected one of the chain's 2",
    "pm-one-bit-flipped-in-a-committed-block": "CHECKSUM at byte 1740",
    "pm-tail-zeros-header-new-txn-old": "FOOTER_LENGTH at byte 1744",
    "txn-version-new-record-area-old": "TXN at byte 400: expected 4, the version, found 2",
}
"""Nothing of the table is known for sure, because `_txn` or a `_pm` that it names is damaged."""
REJECTED_AT_COMMIT = {
    "2026-07/data-tail-first-512-b-zero": "pages",
    "9.4.2/data-tail-first-512-b-zero": "version at byte 5452",
    "2026-07/data-tail-lost-length": "size: expected 7586 bytes or more, the committed token",
    "9.4.2/data-tail-lost-length": "size: expected 6667 bytes or more, the committed token",
    "2026-07/data-tail-zeros": "MAGIC at byte 7582",
    "9.4.2/data-tail-zeros": "MAGIC at byte 6663",
    "9.4.2/one-byte-flipped-inside-a-data-page": "MAX_STAT of column 'ts'",
}
"""Old rows are damaged, and a rewrite that copied them would make them look sound."""


@pytest.mark.parametrize("name", sampled(6, golden_data.POWER_LOSSES))
def test_image_of_a_power_loss_is_written_to_only_where_the_old_rows_are_whole(
    name: str, questdb_data: Path, tmp_path: Path
) -> None:
    position, kind = questdb_data / name / "table", name.rpartition("/")[2]
    path, storage = in_memory(position)
    before = storage.image().files
    if kind in REJECTED_AT_OPENING:
        with pytest.raises(CorruptError, match=REJECTED_AT_OPENING[kind]):
            open_writer(storage, path, allow_parquet_last=True)
    elif (message := REJECTED_AT_COMMIT.get(name.removeprefix("power-loss/"))) is not None:
        with open_writer(storage, path, allow_parquet_last=True) as writer:
            writer.rewrite_partition(writer.transaction.partitions[0].timestamp)
            with pytest.raises(CorruptError, match=message):
                writer.commit()
            writer.rollback()
    else:
        drive(start_run(tmp_path, position), FEW_COMMITS)
        return
    after = storage.image().files
    # Both released the lock, so that the table can be repaired.
    take_writer_lock(storage, path).release()
    assert {file: content for file, content in after.items() if not file.endswith(PINS_FILE)} == before


@pytest.mark.parametrize("name", golden_data.LEGACY_TABLES)
def test_partition_of_a_release_before_pm_is_left_as_it_is_while_others_are_made(
    name: str, questdb_data: Path, tmp_path: Path
) -> None:
    path, storage = in_memory(questdb_data / name / "table")
    before = storage.image().files
    with open_writer(storage, path, allow_parquet_last=True) as writer:
        assert writer.table.metadata is not None
        first = next(each for each in writer.transaction.partitions if each.is_parquet)
        writer.write(rows_for(writer.table, [first.timestamp], seed=0))
        with pytest.raises(RowsRejectedError, match="it has no _pm, because a release before"):
            writer.commit()
        writer.rollback()
        later = first.timestamp + 40 * MICROSECONDS[PartitionBy.DAY]
        writer.write(rows_for(writer.table, [later], seed=0))
        writer.commit()
        assert writer.transaction.partitions[-1].row_count == 1
    assert all(storage.image().files[file] == content for file, content in before.items() if DATA_FILE in file)
