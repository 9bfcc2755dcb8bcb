"""Tables with bloom filters: those of QuestDB, and those that our own writer creates, grows and rewrites."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bloom_filters import FoundFilter, filters_on
from pm_builder import seal
from real_tables import in_memory, resolved_partitions, verified
from type_values import TYPES
from written_tables import DAY, DAY_LENGTH, DIRECTORY, PATH, alter, filled, new_table, rows, table_on, write, writer_on

from tornproof.harness.common.made_rows import rows_for
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.errors import OptionsRejectedError
from tornproof.impl.layout import pm as layout
from tornproof.impl.parquet.bloom import bitset_of_values, bitset_size_bytes, hash_of, hashes_of, may_contain, probe
from tornproof.impl.parquet.bloom_filter import decode_filter_header
from tornproof.impl.pm.header import FileHeader
from tornproof.impl.table.create import NewColumn
from tornproof.impl.table.metadata_file import TableColumn, TableMetadata
from tornproof.impl.table.partition import ResolvedPartition
from tornproof.impl.table.partition_schema import new_header
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.verify.pages import missing_values
from tornproof.impl.write.partition_change import WriterOptions
from tornproof.impl.write.table_writer import open_writer
from tornproof.impl.write.writer_options import BloomOptions, BloomPosition

BLOOM = "tables/9.4.2/bloom/table"
APPENDED = (1, 10)
"""Row groups that updates by 9.4.2 wrote: their filters are in data.parquet alone."""
WITH_FILTERS = [name for name in TYPES if "array" not in name and name not in ("boolean", "symbol")]


def options(
    columns: Mapping[str, float], position: BloomPosition = BloomPosition.INLINED, **more: Any
) -> WriterOptions:
    return WriterOptions(
        **{"row_group_row_count_max": 4, "rewrite_unused_ratio": 1.0, **more},
        blooms=BloomOptions(columns=columns, position=position),
    )


def chosen(found: list[FoundFilter]) -> list[list[str]]:
    """Return for each row group the columns that have a filter."""
    groups: dict[tuple[str, int], list[str]] = {}
    for each in found:
        groups.setdefault((each.partition, each.ordinal), [])
        if each.bitset is not None:
            groups[each.partition, each.ordinal].append(each.column.name)
    return list(groups.values())


def sound_filters(storage: MemoryStorage, path: str = PATH) -> list[FoundFilter]:
    """Return all filters of a table that verifies, after seeing that none misses a value."""
    assert verified(path, storage).all_problems == ()
    found = list(filters_on(path, storage))
    assert all(each.bitset is None or missing_values(each.stored, each.bitset) == 0 for each in found)
    return found


def filters_in_data(resolved: ResolvedPartition) -> list[dict[str, bytes]]:
    """Return the bitsets that the Thrift footer of data.parquet leads to, by column, for each row group."""
    with resolved.files.open_data() as handle:
        data = handle.pread(resolved.metadata.token, 0)
    groups: list[dict[str, bytes]] = []
    for ordinal in range(len(resolved.metadata.blocks)):
        row_group = pq.read_metadata(pa.BufferReader(data)).row_group(ordinal)
        chunks = [row_group.column(position) for position in range(row_group.num_columns)]
        groups.append({})
        for chunk in chunks:
            if chunk.bloom_filter_offset is not None:
                raw = data[chunk.bloom_filter_offset :][: chunk.bloom_filter_length]
                size_bytes, start = decode_filter_header(raw, file="data.parquet")
                assert start + size_bytes == len(raw)
                groups[-1][chunk.path_in_schema] = raw[start:]
    return groups


def test_every_filter_of_questdb_is_what_we_make_of_its_values_at_one_per_cent(questdb_data: Path) -> None:
    found = list(filters_on(questdb_data / BLOOM))
    assert {each.column.name for each in found} == {"id", "s", "n", "u"}
    assert {each.ordinal for each in found if each.bitset is None} == set(APPENDED)
    (resolved,) = resolved_partitions(questdb_data / BLOOM)
    in_data = filters_in_data(resolved)
    for each in found:
        made = bitset_of_values(each.stored, 0.01)
        assert each.bitset in (made, None)
        assert in_data[each.ordinal][each.column.name] == made
        assert probe(made, hashes_of(each.stored)).all()
    # Sized by different values: these are fewer than the rows, and a filter for all rows would be twice as large.
    symbols = next(each for each in found if each.column.name == "s")
    assert (len(symbols.stored), len(symbols.stored.unique()), symbols.bitset and len(symbols.bitset)) == (64, 40, 64)


def test_filters_of_questdb_are_as_often_wrong_as_was_asked_for(questdb_data: Path) -> None:
    absent = hashes_of(pa.array([f"no such name {number}" for number in range(100_000)]))
    found = [each.bitset for each in filters_on(questdb_data / BLOOM) if each.bitset is not None]
    wrong = [np.count_nonzero(probe(bitset, absent)) for bitset in found]
    assert len(found) == 36
    assert 0 < sum(wrong) / (len(found) * len(absent)) < 0.015


def test_a_filter_that_misses_values_or_is_none_is_found_by_verifying() -> None:
    storage = filled(rows(range(8)), options=options({"v": 0.01, "n": 0.01}))
    (resolved,) = resolved_partitions(PATH, storage)
    reference = resolved.metadata.generation.blooms[1][0]
    assert verified(PATH, storage).sound and reference is not None
    for size_bytes, content, field in (
        (32, bytes(32), "bloom filter of column 'v' of row group 1"),
        (31, bytes(31), "bloom bitset LENGTH"),
    ):
        pm = bytearray(resolved.published.content)
        bitset = size_bytes.to_bytes(4, "little") + content
        pm[reference.offset_bytes : reference.offset_bytes + len(bitset)] = bitset
        damaged = MemoryStorage.of(storage.image().with_file(f"{DIRECTORY}/_pm", seal(bytes(pm))))
        (problem,) = verified(PATH, damaged).all_problems
        assert (problem.field, problem.offset_bytes) == (field, reference.offset_bytes)
    assert not verified(PATH, damaged, quick=True).all_problems


def test_an_external_filter_that_misses_values_is_found_by_verifying() -> None:
    storage = filled(rows(range(8)), options=options({"n": 0.01}, BloomPosition.EXTERNAL))
    (resolved,) = resolved_partitions(PATH, storage)
    reference = resolved.metadata.generation.blooms[0][0]
    assert verified(PATH, storage).sound and reference is not None and reference.length_bytes == 32
    name = f"{DIRECTORY}/data.parquet"
    data = storage.image().files[name]
    data = data[: reference.offset_bytes] + bytes(32) + data[reference.offset_bytes + 32 :]
    (problem,) = verified(PATH, storage.image().with_file(name, data)).all_problems
    assert str(problem).startswith("2024-01-01.0/_pm: bloom filter of column 'n' of row group 0: expected all values")
    assert problem.actual == "4 of 4 that are not"


def test_updates_of_a_table_of_questdb_keep_its_filters_and_add_their_own(questdb_data: Path) -> None:
    path, storage = in_memory(questdb_data / BLOOM)
    (before,) = resolved_partitions(path, storage)
    start = before.partition.timestamp
    with open_writer(storage, path, options=WriterOptions(rewrite_unused_ratio=1.0), allow_parquet_last=True) as writer:
        writer.write(rows_for(writer.table, [start + 3_600_000_000 * 23], seed=1))
        writer.write(rows_for(writer.table, [start + 1], seed=2))
        writer.commit()
    (after,) = resolved_partitions(path, storage)
    assert after.metadata.header == before.metadata.header
    assert after.metadata.generation.blooms[1:11] == before.metadata.generation.blooms[1:]
    grown = chosen(sound_filters(storage, path))
    assert [ordinal for ordinal, names in enumerate(grown) if not names] == list(APPENDED)
    assert grown[0] == grown[11] == ["id", "s", "n", "u"]
    rewrite(storage, path, start)
    (anew,) = resolved_partitions(path, storage)
    assert anew.metadata.header.bloom_columns == before.metadata.header.bloom_columns
    assert chosen(sound_filters(storage, path)) == [["id", "s", "n", "u"]]


def rewrite(storage: MemoryStorage, path: str = PATH, start: int = DAY, asked: WriterOptions | None = None) -> None:
    with open_writer(storage, path, options=asked, allow_parquet_last=True) as writer:
        writer.rewrite_partition(start)
        writer.commit()


@pytest.mark.parametrize("position", BloomPosition)
def test_filters_of_all_types_are_written_grown_and_found_by_ourselves_and_duckdb(
    position: BloomPosition, tmp_path: Path
) -> None:
    columns = [NewColumn(name=name.replace(" ", "_"), type=int(TYPES[name][0])) for name in WITH_FILTERS]
    storage, table = new_table(*columns)
    asked = options({"v": 0.05, "ts": 0.001, **{column.name: 0.01 for column in columns}}, position)
    with open_writer(storage, PATH, options=asked, allow_parquet_last=True) as writer:
        for number, times in enumerate((range(0, 60, 6), [70, 3, 71], [4])):
            writer.write(rows_for(table, [DAY + time for time in times], seed=100 * number))
            writer.commit()
    found = sound_filters(storage)
    assert all(each.bitset for each in found) and len({each.column.name for each in found}) == len(columns) + 2
    (resolved,) = resolved_partitions(PATH, storage)
    assert resolved.metadata.generation.position.fixed.unused_bytes > 0
    assert resolved.metadata.header.blooms_external is (position is BloomPosition.EXTERNAL)
    in_data = filters_in_data(resolved)
    assert all(bool(group) is (position is not BloomPosition.INLINED) for group in in_data)
    if position is BloomPosition.INLINED:
        return
    assert [in_data[each.ordinal][each.column.name] for each in found] == [each.bitset for each in found]
    path = tmp_path / "data.parquet"
    path.write_bytes(storage.image().files[f"{DIRECTORY}/data.parquet"])
    for value in (0, 100, 7777, 424_242):
        query = f"SELECT bloom_filter_excludes FROM parquet_bloom_probe('{path}', 'v', {value}::BIGINT)"
        excluded = [excludes for (excludes,) in duckdb.execute(query).fetchall()]
        plain = value.to_bytes(8, "little")
        assert excluded == [not may_contain(group["v"], hash_of(plain)) for group in in_data]
    assert pq.read_table(path)["v"].to_pylist() == table_on(storage)["v"].to_pylist()


def test_rows_that_a_filter_excludes_are_not_there_and_duckdb_finds_the_others(tmp_path: Path) -> None:
    storage = filled(rows(range(400)), options=options({"n": 0.01}, BloomPosition.BOTH, row_group_row_count_max=100))
    path = tmp_path / "data.parquet"
    path.write_bytes(storage.image().files[f"{DIRECTORY}/data.parquet"])
    for value, groups in (("n7", {0}), ("n399", {3}), ("absent", set())):
        (counted,) = duckdb.execute("SELECT count(*) FROM read_parquet(?) WHERE n = ?", [str(path), value]).fetchall()
        assert counted == (len(groups),)
        wanted = hash_of(value.encode())
        kept = {each.ordinal for each in filters_on(PATH, storage) if may_contain(each.bitset or b"", wanted)}
        assert groups <= kept and len(kept) <= 2


def test_new_partitions_have_the_filters_that_are_asked_for_and_others_keep_theirs() -> None:
    storage = filled(rows([0, 1, 2]), options=options({"v": 0.01}))
    write(storage, rows([3, DAY_LENGTH], 3), options=options({"n": 0.01, "ts": 0.01}, BloomPosition.EXTERNAL))
    write(storage, rows([4, DAY_LENGTH + 1, 2 * DAY_LENGTH], 9))
    assert chosen(sound_filters(storage)) == [["v"]] * 3 + [["ts", "n"]] * 2
    flags = [each.metadata.header.feature_flags for each in resolved_partitions(PATH, storage)]
    assert [layout.BLOOM_FILTERS.get(flag) for flag in flags] == [1, 1, 0]
    assert [layout.BLOOM_FILTERS_EXTERNAL.get(flag) for flag in flags] == [0, 1, 0]
    rewrite(storage)
    assert chosen(sound_filters(storage))[0] == ["v"]
    rewrite(storage, asked=options({"n": 0.01}))
    assert chosen(sound_filters(storage))[0] == ["n"]
    rewrite(storage, asked=options({}))
    assert chosen(sound_filters(storage)) == [["ts", "n"]] * 2


def bloom_columns_after_a_drop() -> list[str]:
    """Return the columns with filters after the column before them was dropped and the partition rewritten."""
    storage, _ = new_table(NewColumn(name="u", type=TypeTag.LONG))
    write(storage, rows(range(3), u=[7, 8, 9]), options=options({"n": 0.01}))
    alter(
        storage,
        TableColumn(id=0, name="ts", type=TypeTag.TIMESTAMP),
        TableColumn(id=1, name="v", type=-TypeTag.LONG),
        TableColumn(id=2, name="n", type=TypeTag.VARCHAR),
        TableColumn(id=3, name="u", type=TypeTag.LONG),
    )
    rewrite(storage)
    (resolved,) = resolved_partitions(PATH, storage)
    header = resolved.metadata.header
    return [header.columns[index].name for index in header.bloom_columns]


def test_filters_that_were_carried_by_position_would_be_on_the_wrong_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bloom_columns_after_a_drop() == ["n"]

    def by_position(metadata: TableMetadata, *, bloom_ids: Any = (), blooms_external: bool = False) -> FileHeader:
        ids = [column.id for position, column in enumerate(metadata.columns) if position in bloom_ids]
        return new_header(metadata, bloom_ids=ids, blooms_external=blooms_external)

    monkeypatch.setattr("tornproof.impl.write.partition_change.new_header", by_position)
    assert bloom_columns_after_a_drop() == ["u"]


def test_filters_follow_their_columns_when_these_are_renamed_dropped_and_added() -> None:
    storage, _ = new_table(NewColumn(name="u", type=TypeTag.LONG))
    write(storage, rows(range(3), u=[7, 8, 9]), options=options({"v": 0.01, "n": 0.001}))
    altered = [
        TableColumn(id=0, name="ts", type=TypeTag.TIMESTAMP),
        TableColumn(id=1, name="v", type=-TypeTag.LONG),
        TableColumn(id=2, name="title", type=TypeTag.VARCHAR),
        TableColumn(id=3, name="u", type=TypeTag.LONG),
        TableColumn(id=4, name="v", type=TypeTag.LONG),
    ]
    alter(storage, *altered)
    added = pa.table({"ts": [DAY + 9], "title": ["new"], "u": [10], "v": [11]})
    write(storage, added)
    (resolved,) = resolved_partitions(PATH, storage)
    header = resolved.metadata.header
    assert [column.name for column in header.columns] == ["ts", "title", "u", "v"]
    assert header.bloom_columns == (1,)
    (found,) = sound_filters(storage)
    assert (found.column.id, found.stored.to_pylist()) == (2, ["n0", "n1", "n2", "new"])
    # A renamed column keeps its original name in the file, and has the rate of its current name.
    altered[2] = TableColumn(id=2, name="heading", type=TypeTag.VARCHAR)
    alter(storage, *altered)
    texts = [f"t{number}" for number in range(100)]
    many = pa.table({"ts": range(DAY + 100, DAY + 200), "heading": texts, "u": range(100), "v": range(100)})
    write(storage, many, options=options({"heading": 0.2}, row_group_row_count_max=100))
    first, second = sound_filters(storage)
    assert (first.column.name, second.column.name) == ("title", "title")
    assert (len(second.stored), len(second.bitset or b"")) == (100, bitset_size_bytes(100, 0.2))
    alter(storage, altered[0], altered[1], TableColumn(id=2, name="x", type=-TypeTag.VARCHAR), *altered[3:])
    rewrite(storage)
    (resolved,) = resolved_partitions(PATH, storage)
    assert resolved.metadata.header.bloom_columns == ()
    assert not layout.BLOOM_FILTERS.get(resolved.metadata.header.feature_flags)
    assert sound_filters(storage) == []


def test_kept_row_groups_keep_their_references_and_one_filter_serves_all_generations() -> None:
    asked = options({"v": 0.01, "n": 0.01})
    storage = filled(rows(range(8)), options=asked)
    (before,) = resolved_partitions(PATH, storage)
    write(storage, rows([100], 100), options=asked)
    (after,) = resolved_partitions(PATH, storage)
    assert after.metadata.generation.blooms[:2] == before.metadata.generation.blooms
    assert all(reference is not None for row in after.metadata.generation.blooms for reference in row)


def test_filters_are_sized_by_different_values_and_the_rate() -> None:
    many = options({"v": 0.01, "n": 0.5}, row_group_row_count_max=1000)
    storage = filled(rows(range(1000)).set_column(1, "v", pa.array([5] * 1000)), options=many)
    sizes = {each.column.name: len(each.bitset or b"") for each in sound_filters(storage)}
    assert sizes == {"v": 32, "n": 512}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"nope": 0.01}, "there is no column 'nope'; the table has ts, v, n, yes, list"),
        ({"yes": 0.01}, "column 'yes': there are no bloom filters of booleans and arrays"),
        ({"list": 0.01}, "column 'list': there are no bloom filters of booleans and arrays"),
    ],
)
def test_filters_that_a_table_cannot_have_are_rejected_when_its_writer_opens(
    columns: dict[str, float], message: str
) -> None:
    storage, _ = new_table(
        NewColumn(name="yes", type=TypeTag.BOOLEAN), NewColumn(name="list", type=int(TYPES["array"][0]))
    )
    with pytest.raises(OptionsRejectedError, match=message):
        writer_on(storage, options(columns))
    write(storage, rows([1]), options=options({"v": 0.5}))


@pytest.mark.parametrize("rate", [0, 1, -0.5, 2, float("nan")])
def test_a_rate_is_a_part_of_one(rate: float) -> None:
    with pytest.raises(OptionsRejectedError, match="column 'v': a false-positive rate is above 0 and below 1"):
        options({"v": rate})
