"""When a partition grows in place and when it is rewritten, and that its rows are the same either way."""

from pathlib import Path
from struct import pack

import pyarrow as pa
import pytest
from independent_readers import normalised, ours_and_content, read_with_pyarrow
from real_tables import in_memory, only, parquet_partitions, resolved_partitions, rows_of, snapshot_of, verified
from rejections import rejection
from written_tables import (
    DAY,
    DAY_LENGTH,
    PATH,
    change_type,
    filled,
    new_table,
    pairs_on,
    rows,
    table_on,
    write,
    writer_on,
)

from tornproof.harness.common.made_rows import rows_for
from tornproof.harness.simulator.filesystem.faulty import FaultyStorage
from tornproof.harness.simulator.filesystem.intercept import CallKind
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.errors import UnsupportedError
from tornproof.impl.layout import pm as layout
from tornproof.impl.layout.parquet import MAGIC
from tornproof.impl.parquet.footer import file_tail, row_group_facts, split_footer
from tornproof.impl.table.column_versions import CV_FILE
from tornproof.impl.table.create import NewColumn
from tornproof.impl.table.metadata_file import META_FILE, NAME_FILE
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.types.names import type_code
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write.partition_change import WriterOptions
from tornproof.impl.write.table_writer import open_writer
from tornproof.impl.write.writer_options import BloomOptions

ODDCOLS = "tables/9.4.2/oddcols/table"
NEVER = WriterOptions(row_group_row_count_max=4, rewrite_unused_ratio=1.0)


def directories_after(options: WriterOptions, commit_count: int) -> list[str]:
    """Names of the partition's directory after each commit of one row, and the rows are those of all commits."""
    storage, table = new_table()
    names = []
    with writer_on(storage, options) as writer:
        for number in range(commit_count):
            writer.write(rows([number], number))
            writer.commit()
            names.append(table.directory_of(writer.transaction.partitions[0]))
    assert pairs_on(storage) == [(number, number) for number in range(commit_count)]
    return names


def test_partition_is_written_anew_once_more_than_the_ratio_of_it_is_unused() -> None:
    assert directories_after(NEVER, 8) == ["2024-01-01.0"] * 8
    names = directories_after(WriterOptions(), 8)
    assert 1 < len(set(names)) < 8
    assert directories_after(WriterOptions(rewrite_unused_ratio=0.0), 4) == [
        # The first update makes the first bytes unused, so that every second commit is a rewrite.
        "2024-01-01.0", "2024-01-01.0", "2024-01-01.2", "2024-01-01.2"
    ]  # fmt: skip


def test_partition_is_written_anew_once_more_bytes_than_the_bound_are_unused() -> None:
    storage = filled(rows([1]), rows([2]))
    (resolved,) = resolved_partitions(PATH, storage)
    unused_bytes = resolved.metadata.generation.position.fixed.unused_bytes
    for bound, is_new in ((unused_bytes, False), (unused_bytes - 1, True)):
        copy = storage.copy()
        options = WriterOptions(rewrite_unused_ratio=1.0, rewrite_unused_bytes=bound)
        write(copy, rows([3]), options=options)
        assert (copy.kind(f"{PATH}/2024-01-01.2").value == "directory") is is_new


def test_rewrite_that_was_asked_for_drops_unused_bytes_and_fills_row_groups() -> None:
    storage = filled(*(rows([number], number) for number in range(9)))
    before = pairs_on(storage)
    with writer_on(storage) as writer:
        writer.rewrite_partition(DAY)
        writer.commit()
    (resolved,) = resolved_partitions(PATH, storage)
    assert resolved.files.name == "2024-01-01.9"
    assert resolved.metadata.generation.position.fixed.unused_bytes == 0
    assert [block.num_rows for block in resolved.metadata.blocks] == [4, 4, 1]
    assert pairs_on(storage) == before


def row_group_bytes(storage: MemoryStorage) -> list[bytes]:
    (resolved,) = resolved_partitions(PATH, storage)
    with resolved.files.open_data() as handle:
        return [
            handle.pread(
                block.chunks[-1].byte_range_end - block.chunks[0].byte_range_start, block.chunks[0].byte_range_start
            )
            for block in resolved.metadata.blocks
        ]


def test_row_groups_that_new_rows_do_not_meet_stay_where_they_are() -> None:
    storage = filled(rows([0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110]))
    before = resolved_partitions(PATH, storage)[0].metadata
    write(storage, rows([45], 99))
    after = resolved_partitions(PATH, storage)[0].metadata
    starts = [block.chunks[0].byte_range_start for block in before.blocks]
    assert [block.num_rows for block in after.blocks] == [4, 4, 1, 4]
    assert after.blocks[0].chunks[0].byte_range_start == starts[0]
    assert after.blocks[-1].chunks[0].byte_range_start == starts[2]
    assert after.generation.block_offsets[0] == before.generation.block_offsets[0]
    assert all(block.chunks[0].byte_range_start >= before.token for block in after.blocks[1:3])


def test_every_byte_of_a_written_file_is_a_live_row_group_a_footer_or_counted_as_unused() -> None:
    storage, _ = new_table()
    unused = []
    for number in range(5):
        write(storage, rows([50 * number, 7 * number + 1, 300], number))
        (resolved,) = resolved_partitions(PATH, storage)
        fixed = resolved.metadata.generation.position.fixed
        with resolved.files.open_data() as handle:
            footer = handle.pread(fixed.parquet_footer_length, fixed.parquet_footer_offset)
        groups = split_footer(footer, file="data.parquet", offset_bytes=0).row_groups
        live_bytes = sum(row_group_facts(group).unused_bytes for group in groups)
        ends_bytes = len(MAGIC) + len(file_tail(footer))
        assert live_bytes + ends_bytes + fixed.unused_bytes == resolved.metadata.token
        unused.append(fixed.unused_bytes)
    assert unused[0] == 0 and unused == sorted(set(unused))


@pytest.mark.parametrize(("text", "is_new"), [("plain", False), ("größe", True)])
def test_text_that_breaks_a_files_promise_of_ascii_makes_it_anew(text: str, is_new: bool, questdb_data: Path) -> None:
    path, storage = in_memory(questdb_data / "tables/9.4.2/rewrite/table")
    before = snapshot_of(path, storage)
    partition = before.transaction.partitions[0]
    header = before.resolve(partition).metadata.header
    assert [column.name for column in header.columns if layout.IS_ASCII.get(column.flags)] == ["n"]
    with open_writer(storage, path, options=NEVER, allow_parquet_last=True) as writer:
        writer.write(pa.table({"ts": [partition.timestamp], "n": [text]}))
        writer.commit()
    after = snapshot_of(path, storage)
    assert (after.transaction.partitions[0].name_txn != partition.name_txn) is is_new
    found = only(after, after.transaction.partitions[0])
    assert rows_of(found)["n"].to_pylist().count(text) == 1
    header = found.resolve(found.transaction.partitions[0]).metadata.header
    assert any(layout.IS_ASCII.get(column.flags) for column in header.columns) is not is_new


def test_partition_of_other_columns_is_written_anew_with_those_of_now(questdb_data: Path) -> None:
    path, storage = in_memory(questdb_data / ODDCOLS)
    before = snapshot_of(path, storage)
    old_rows = {each.timestamp: rows_of(only(before, each)) for each in parquet_partitions(before)}
    columns = [column.id for column in before.columns]
    ids = {
        each.timestamp: [column.id for column in before.resolve(each).metadata.header.columns]
        for each in parquet_partitions(before)
    }
    outdated = [timestamp for timestamp, known in ids.items() if known != columns]
    assert outdated and len(outdated) < len(ids)
    with open_writer(storage, path, options=NEVER, allow_parquet_last=True) as writer:
        for timestamp in old_rows:
            writer.write(rows_for(writer.table, [timestamp], seed=timestamp % 97))
        writer.commit()
    after = snapshot_of(path, storage)
    for partition in parquet_partitions(after):
        was = next(each for each in before.transaction.partitions if each.timestamp == partition.timestamp)
        assert (partition.name_txn != was.name_txn) is (partition.timestamp in outdated)
        header = after.resolve(partition).metadata.header
        assert [column.id for column in header.columns] == columns
        added = rows_for(after.table, [partition.timestamp], seed=partition.timestamp % 97)
        ours = rows_of(only(after, partition))
        times = ours["ts"].cast(pa.int64()).to_pylist()
        old_times = old_rows[partition.timestamp]["ts"].cast(pa.int64()).to_pylist()
        assert times == sorted([*old_times, partition.timestamp])
        position = old_times.count(partition.timestamp)
        assert ours.slice(position, 1).equals(added)
        assert pa.concat_tables([ours.slice(0, position), ours.slice(position + 1)]).equals(
            old_rows[partition.timestamp]
        )
        mine, content = ours_and_content(after, partition)
        theirs, mine = normalised(read_with_pyarrow(content, Path()), mine)
        assert theirs.equals(mine)


def test_open_writer_reads_no_more_of_a_file_than_the_row_groups_that_new_rows_meet() -> None:
    storage = filled(rows(range(0, 400, 10)))
    lengths = list(map(len, row_group_bytes(storage)))
    assert len(lengths) == 10

    recorded = FaultyStorage(storage)

    def reads_of_commit(time: int) -> list[int]:
        recorded.arm()
        writer.write(rows([time], 99))
        writer.commit()
        reads = [call for call in recorded.calls if call.kind is CallKind.PREAD]
        return [call.size_bytes for call in reads if not call.path.endswith(TXN_FILE)]

    with writer_on(recorded) as writer:
        assert reads_of_commit(401) != []
        assert reads_of_commit(402) == []
        assert sum(reads_of_commit(225)) == lengths[5]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.0])
def test_special_number_survives_merge_and_rewrite(value: float) -> None:
    storage, _ = new_table(NewColumn(name="d", type=TypeTag.DOUBLE))
    write(storage, rows([1, 5], d=[value, 1.0]), rows([3], d=[value]))
    with writer_on(storage) as writer:
        writer.rewrite_partition(DAY)
        writer.commit()
    found = rows_of(snapshot_of(PATH, storage))["d"].to_pylist()
    assert [pack("<d", each) for each in found] == [pack("<d", each) for each in (value, value, 1.0)]


@pytest.mark.parametrize(
    ("before", "changes", "values"),
    [
        ("VARCHAR", ["STRING"], ["a", None]),
        ("INT", ["LONG"], [-7, None]),
        ("INT", ["BINARY", "DOUBLE"], [-7, None]),
        ("FLOAT", ["DOUBLE"], [0.5, None]),
        ("LONG", ["BINARY", "LONG"], [1 << 40, None]),
    ],
)
def test_values_outlive_a_change_of_their_columns_type_and_keep_its_first_id(
    before: str, changes: list[str], values: list[object]
) -> None:
    """They were read as null, and the next commit lost them: a server's file has the column under its first id."""
    storage, _ = new_table(NewColumn(name="c", type=type_code(before) or 0))
    write(storage, rows([1, 2], c=values))
    for change in changes:
        change_type(storage, "c", change)
    assert rows_of(snapshot_of(PATH, storage), ["c"])["c"].to_pylist() == values
    assert verified(PATH, storage).sound
    write(storage, rows([3], c=pa.nulls(1)))
    after = snapshot_of(PATH, storage)
    assert rows_of(after, ["c"])["c"].to_pylist() == [*values, None]
    (resolved,) = resolved_partitions(PATH, storage)
    header = resolved.metadata.header
    assert [(column.id, column.type) for column in header.columns[3:]] == [(3, type_code(changes[-1]))]
    assert verified(PATH, storage).sound


def test_values_of_a_type_that_is_not_converted_are_neither_read_nor_lost() -> None:
    """Other columns are read; a commit beside them is made, and one that would lose them is rejected in words."""
    storage, _ = new_table(NewColumn(name="c", type=TypeTag.LONG))
    write(storage, rows([1], c=[5]))
    change_type(storage, "c", "VARCHAR")
    found = snapshot_of(PATH, storage)
    assert rows_of(found, ["v"])["v"].to_pylist() == [0]
    for call in (
        lambda: rows_of(found),
        lambda: verified(PATH, storage),
        lambda: write(storage, rows([2], c=["x"])),
    ):
        problem = rejection(call, UnsupportedError)
        assert (problem.field, problem.actual) == ("TYPE of column 'c'", "LONG")
        assert problem.expected.startswith("VARCHAR, as it is in the table now")
    write(storage, rows([DAY_LENGTH], c=["x"]))
    assert rows_of(snapshot_of(PATH, storage), ["v"])["v"].to_pylist() == [0, 0]


def copied_without_meta(storage: MemoryStorage) -> MemoryStorage:
    image = storage.image()
    for name in (META_FILE, NAME_FILE, CV_FILE):
        image = image.without_file(f"{PATH}/{name}")
    return MemoryStorage.of(image)


@pytest.mark.parametrize("days", [(1, 0, 2), (1, 2, 0), (0, 1, 2)])
@pytest.mark.parametrize(
    ("before", "after", "values"),
    [
        ("INT", "LONG", [7, None, 1 << 40]),
        ("FLOAT", "DOUBLE", [0.5, None, 1e300]),
        ("VARCHAR", "STRING", ["a", None, "b"]),
    ],
)
def test_a_copy_without_meta_has_the_type_that_a_column_was_changed_to(
    before: str, after: str, values: list[object], days: tuple[int, ...]
) -> None:
    """Partitions of before and after the change were called damaged, whichever of them comes first."""
    storage, _ = new_table(NewColumn(name="c", type=type_code(before) or 0))
    first, *others = [rows([day * DAY_LENGTH], c=[value]) for day, value in zip(days, values, strict=True)]
    write(storage, first)
    change_type(storage, "c", after)
    write(storage, *others)
    copy = copied_without_meta(storage)
    assert verified(PATH, copy).all_problems == ()
    assert table_on(copy)["c"].to_pylist() == table_on(storage)["c"].to_pylist()
    found = snapshot_of(PATH, copy)
    assert found.schema.field("c").type == snapshot_of(PATH, storage).schema.field("c").type
    assert [batch.num_rows for batch in found.batches(["v"], where=found.condition("c IS NULL"))] == [1]


def test_a_copy_without_meta_is_unsupported_if_nothing_converts_the_types_of_a_column() -> None:
    storage, _ = new_table(NewColumn(name="c", type=TypeTag.LONG))
    write(storage, rows([1], c=[5]))
    change_type(storage, "c", "VARCHAR")
    write(storage, rows([DAY_LENGTH], c=["x"]))
    problem = rejection(lambda: snapshot_of(PATH, copied_without_meta(storage)), UnsupportedError)
    assert (problem.field, problem.expected) == ("TYPE of column 'c'", "LONG, as in an earlier partition")
    assert problem.actual == "VARCHAR: the type was changed, and `_meta` is missing"


def test_a_filter_follows_a_column_whose_type_was_changed() -> None:
    blooms = WriterOptions(blooms=BloomOptions(columns={"c": 0.01}))
    storage, _ = new_table(NewColumn(name="c", type=TypeTag.INT))
    write(storage, rows([1, 2], c=[7, 9]), options=blooms)
    change_type(storage, "c", "LONG")
    for count in (2, 3):
        found = snapshot_of(PATH, storage)
        (resolved,) = resolved_partitions(PATH, storage)
        assert [resolved.metadata.header.columns[place].id for place in resolved.metadata.header.bloom_columns] == [3]
        batches = [found.batches(where=found.condition(f"c = {value}")) for value in (7, 8)]
        assert [sum(batch.num_rows for batch in each) for each in batches] == [1, 0]
        assert rows_of(found).num_rows == count
        write(storage, rows([3], c=[10]))
