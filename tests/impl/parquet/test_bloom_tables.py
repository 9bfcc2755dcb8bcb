"""Tables with bloom filters, of QuestDB and of our own writer; hashes, sizes and bits are those of other writers."""

import io
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from bloom_filters import FoundFilter, filters_on
from golden_data import BLOOM
from hypothesis import given, settings
from hypothesis import strategies as st
from parquet_files import written
from pm_builder import seal
from real_tables import in_memory, resolved_partitions, verified
from type_values import SYMBOLS, TYPES, arrow
from written_tables import DAY, DAY_LENGTH, DIRECTORY, PATH, alter, filled, new_table, rows, table_on, write, writer_on

from tornproof.harness.common.made_rows import rows_for
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.errors import OptionsRejectedError
from tornproof.impl.layout import pm as layout
from tornproof.impl.parquet.bloom import (
    bitset_of_values,
    bitset_size_bytes,
    build_bitset,
    can_be_hashed,
    hash_of,
    hashes_of,
    may_contain,
    probe,
)
from tornproof.impl.parquet.bloom_filter import (
    SIZE_MAX_BYTES,
    SIZE_MIN_BYTES,
    decode_filter_header,
    encode_filter_header,
)
from tornproof.impl.pm.header import FileHeader
from tornproof.impl.table.create import NewColumn
from tornproof.impl.table.metadata_file import PartitionBy, TableColumn, TableMetadata
from tornproof.impl.table.partition import ResolvedPartition
from tornproof.impl.table.partition_schema import new_header
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.verify.pages import missing_values
from tornproof.impl.write.partition_change import WriterOptions
from tornproof.impl.write.stored_arrays import stored_array
from tornproof.impl.write.table_writer import open_writer
from tornproof.impl.write.writer_options import BloomOptions, BloomPosition

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


# Hashes, sizes and bits


# The bits of the file bloom_filter.xxhash.bin of Apache's parquet-testing, which holds four words: offset and byte.
PUBLIC_WORDS = ("hello", "parquet", "bloom", "filter")
PUBLIC_BITS = {
    130: 0x10, 133: 0x02, 137: 0x04, 140: 0x80, 145: 0x02, 151: 0x80, 155: 0x10, 159: 0x08,
    162: 0x80, 167: 0x10, 168: 0x01, 175: 0x10, 176: 0x20, 182: 0x20, 187: 0x40, 190: 0x08,
    224: 0x04, 230: 0x40, 234: 0x40, 238: 0x08, 243: 0x04, 245: 0x20, 248: 0x10, 252: 0x02,
    322: 0x20, 325: 0x08, 329: 0x01, 335: 0x20, 338: 0x80, 343: 0x08, 345: 0x01, 349: 0x10,
}  # fmt: skip
PUBLIC_HEADER = bytes.fromhex("1580101c1c00001c1c00001c1c000000")


def random_words(seed: int, count: int) -> pa.Array:
    """Return different 64-bit integers; other seeds give other ones."""
    numbers = np.arange(count, dtype=np.uint64) * np.uint64(2) + np.uint64(seed % 2)
    return pa.array((numbers * np.uint64(0x9E3779B97F4A7C15)).view(np.int64))


def filters_of(file: bytes) -> dict[str, tuple[bytes, bytes]]:
    """Return header and bitset of each filter in the first row group."""
    found = {}
    row_group = pq.read_metadata(io.BytesIO(file)).row_group(0)
    for position in range(row_group.num_columns):
        chunk = row_group.column(position)
        if chunk.bloom_filter_offset is not None:
            raw = file[chunk.bloom_filter_offset : chunk.bloom_filter_offset + chunk.bloom_filter_length]
            size_bytes, start = decode_filter_header(raw, file="made")
            assert len(raw) == start + size_bytes
            found[chunk.path_in_schema] = raw[:start], raw[start:]
    return found


@given(st.integers(0, 40), st.data())
def test_hashes_of_values_of_any_fixed_size_are_those_of_the_reference(width_bytes: int, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.binary(min_size=width_bytes, max_size=width_bytes), min_size=1, max_size=5))
    expected = [xxhash.xxh64_intdigest(value) for value in values]
    assert hashes_of(pa.array(values, pa.binary(width_bytes))).tolist() == expected
    assert hashes_of(pa.array(values)).tolist() == expected
    assert [hash_of(value) for value in values] == expected


PLAIN_FORMS: list[tuple[pa.Array, list[bytes]]] = [
    (pa.array([-1, 5], pa.int8()), [b"\xff\xff\xff\xff", b"\5\0\0\0"]),
    (pa.array([-2, 5], pa.int16()), [b"\xfe\xff\xff\xff", b"\5\0\0\0"]),
    (pa.array([0xFFFF], pa.uint16()), [b"\xff\xff\0\0"]),
    (pa.array([0xFFFF_FFFF], pa.uint32()), [b"\xff" * 4]),
    (pa.array([1, None, -1], pa.int32()), [b"\1\0\0\0", b"\xff" * 4]),
    (pa.array([None, 1 << 40], pa.int64()), [(1 << 40).to_bytes(8, "little")]),
    (pa.array([1], pa.timestamp("us", "UTC")), [b"\1" + bytes(7)]),
    (pa.array([1.0, -0.0], pa.float32()), [b"\0\0\x80\x3f", b"\0\0\0\x80"]),
    (pa.array([1.0, -0.0], pa.float64()), [b"\0\0\0\0\0\0\xf0\x3f", b"\0\0\0\0\0\0\0\x80"]),
    (pa.array(["ä", None, ""]), ["ä".encode(), b""]),
    (pa.array(["ä"], pa.large_string()), ["ä".encode()]),
    (pa.array([b"\0\xff"], pa.binary()), [b"\0\xff"]),
    (pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0123456789abcdef"], pa.binary(16))), [b"0123456789abcdef"]),
    (pa.DictionaryArray.from_arrays(pa.array([2, None, 0, 2]), pa.array(["x", "unused", "z"])), [b"z", b"x", b"z"]),
    (pa.array([], pa.int64()), []),
    (pa.array([None, None], pa.string()), []),
]


@pytest.mark.parametrize(("stored", "plain"), PLAIN_FORMS)
def test_values_are_hashed_in_the_form_of_plain_pages_and_nulls_are_left_out(stored: pa.Array, plain: Any) -> None:
    assert can_be_hashed(stored.type)
    assert hashes_of(stored).tolist() == [hash_of(value) for value in plain]
    assert hashes_of(stored.slice(1)).tolist() == [hash_of(value) for value in plain][len(stored[:1].drop_null()) :]


@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=12)
@given(data=st.data())
def test_a_filter_of_any_type_holds_every_value_that_it_was_made_of(name: str, data: st.DataObject) -> None:
    column_type, of, values = TYPES[name]
    metadata = TableMetadata(
        columns=(TableColumn(id=0, name="x", type=column_type),), partition_by=PartitionBy.DAY, timestamp_id=-1
    )
    array = arrow(data.draw(st.lists(values, max_size=20)), of)
    stored = stored_array(array, new_header(metadata).columns[0], symbols=SYMBOLS).array
    assert can_be_hashed(stored.type) is (name != "boolean")
    if name == "boolean":
        return
    bitset = bitset_of_values(stored, 0.01)
    hashes = hashes_of(stored)
    assert probe(bitset, hashes).all()
    assert all(may_contain(bitset, int(each)) for each in hashes)


def test_the_public_filter_is_made_of_its_words() -> None:
    public = bytes(PUBLIC_BITS.get(position, 0) for position in range(1024))
    assert build_bitset(hashes_of(pa.array(PUBLIC_WORDS)), 1024) == public
    assert all(may_contain(public, hash_of(word.encode())) for word in PUBLIC_WORDS)
    assert not any(may_contain(public, hash_of(word.encode())) for word in ("Hello", "parque", "", "filters"))
    assert encode_filter_header(1024) == PUBLIC_HEADER
    assert decode_filter_header(PUBLIC_HEADER + public, file="public") == (1024, 16)


@pytest.mark.parametrize("rate", [0.5, 0.1, 0.05, 0.01, 0.001, 0.0001])
def test_filters_are_as_large_as_those_of_pyarrow_and_have_the_same_bits(rate: float) -> None:
    for count in (1, 5, 26, 27, 53, 64, 1000, 4096):
        stored = pa.table({"n": random_words(1, count)})
        content = written(stored, bloom_filter_options={"n": {"ndv": count, "fpp": rate}})
        header, bitset = filters_of(content)["n"]
        assert len(bitset) == bitset_size_bytes(count, rate)
        assert bitset == bitset_of_values(stored.column(0).combine_chunks(), rate)
        assert header == encode_filter_header(len(bitset))


def test_filters_are_never_smaller_than_a_block_or_larger_than_readers_take() -> None:
    assert bitset_size_bytes(0, 0.01) == bitset_size_bytes(1, 0.9) == SIZE_MIN_BYTES == 32
    assert bitset_size_bytes(1 << 31, 0.001) == bitset_size_bytes(1 << 60, 0.001) == SIZE_MAX_BYTES == 1 << 27


def test_filters_that_duckdb_writes_are_ours(tmp_path: Path) -> None:
    path = tmp_path / "duckdb.parquet"
    duckdb.execute(
        "COPY (SELECT (i * 7919)::BIGINT AS long, (i % 37)::INTEGER AS int, 's' || (i % 50) AS text, "
        f"(i % 41) / 2 AS double, ((i % 29) / 4)::FLOAT AS float FROM range(3000) r(i)) TO '{path}' (FORMAT parquet)"
    )
    rows, found = pq.read_table(path), filters_of(path.read_bytes())
    assert len(found) >= 4
    for name, (header, bitset) in found.items():
        stored = rows.column(name).combine_chunks()
        assert build_bitset(hashes_of(stored), len(bitset)) == bitset
        assert header == encode_filter_header(len(bitset))
        assert probe(bitset, hashes_of(stored)).all()


def measured_rate(rate: float, load: float) -> float:
    """Return how often a filter is wrong that holds such a part of the values for which its size is chosen."""
    size_bytes = bitset_size_bytes(20_000, rate)
    room = next(count for count in range(20_000, 80_000) if bitset_size_bytes(count + 1, rate) > size_bytes)
    bitset = build_bitset(hashes_of(random_words(0, int(room * load))), size_bytes)
    absent = hashes_of(random_words(1, 1_000_000))
    return np.count_nonzero(probe(bitset, absent)) / len(absent)


@pytest.mark.parametrize(("rate", "load"), [(0.05, 1.0), (0.01, 1.0), (0.001, 0.9)])
def test_absent_values_are_found_about_as_often_as_was_asked_for(rate: float, load: float) -> None:
    assert rate / 3 < measured_rate(rate, load) < rate * 1.5


def test_where_the_common_rule_sizes_too_small_is_known() -> None:
    # It leaves out that some blocks get more values than others.
    assert 0.0015 < measured_rate(0.001, 1.0) < 0.0025


@given(st.binary(min_size=32, max_size=96).filter(lambda raw: len(raw) % 32 == 0), st.integers(0, (1 << 64) - 1))
def test_single_and_many_probes_agree_on_any_bits(bitset: bytes, value_hash: int) -> None:
    assert probe(bitset, np.array([value_hash], np.uint64)).tolist() == [may_contain(memoryview(bitset), value_hash)]


def test_a_filter_of_a_negative_zero_has_both_zeros() -> None:
    """A server skipped the row group for a condition on 0.0, and what servers write for it was damage."""
    for form, of in (("<f", pa.float32()), ("<d", pa.float64())):
        negative, positive = (hash_of(struct.pack(form, zero)) for zero in (-0.0, 0.0))
        both = bitset_of_values(pa.array([-0.0, None, 7.0], of), 0.01)
        assert may_contain(both, negative) and may_contain(both, positive)
        alone = bitset_of_values(pa.array([0.0], of), 0.01)
        assert may_contain(alone, positive) and not may_contain(alone, negative)


def test_a_filter_of_no_values_holds_nothing_and_one_of_all_bits_everything() -> None:
    empty = bitset_of_values(pa.array([None], pa.int64()), 0.01)
    assert empty == bytes(32)
    assert not may_contain(empty, 0) and may_contain(b"\xff" * 32, 0)
    assert not probe(empty, hashes_of(random_words(0, 100))).any()
