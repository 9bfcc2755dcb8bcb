"""The statistics that our writer stores, against pyarrow's own for the same rows and against a plain comparison."""

import decimal
import functools
import io
import struct
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import parquet_files
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from real_tables import in_memory, parquet_partitions, snapshot_of
from type_values import NEVER_NULL, TYPES, arrow
from written_tables import PATH, new_table, rows, write

from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.parquet.arrow_writer import BOUND_LIMIT_BYTES
from tornproof.impl.pm.block import Chunk
from tornproof.impl.pm.chain import Metadata
from tornproof.impl.pm.footer_comparison import compare_footer
from tornproof.impl.read.reader import Snapshot
from tornproof.impl.table.create import NewColumn
from tornproof.impl.write.partition_change import WriterOptions
from tornproof.impl.write.table_writer import open_writer

Facts: TypeAlias = tuple[bytes | None, bytes | None, int | None]
"""Minimum, maximum and null count of one chunk."""

TABLE = "tables/9.4.2/chain/table"
GROUP_ROWS = 3
OPTIONS = WriterOptions(row_group_row_count_max=GROUP_ROWS, rewrite_unused_ratio=1.0)
PACKED = {"BOOLEAN": "<?", "INT32": "<i", "INT64": "<q", "FLOAT": "<f", "DOUBLE": "<d"}
OWN_COLUMNS = 3
EXACT = decimal.Context(prec=decimal.MAX_PREC)
# A table of all types is slow to make, and making an example smaller takes thousands of them.
EXAMPLES = settings(max_examples=settings().max_examples // 4, phases=[Phase.explicit, Phase.reuse, Phase.generate])

# Pyarrow gives a column the order of its Arrow type, and for these that is QuestDB's. We hand it decimals as plain
# bytes, whose order is another one, and replace the bounds.
ORDERED_BY_PYARROW = sorted(name for name in TYPES if name != "symbol" and not name.startswith("array"))
DECIMALS = [name for name in ORDERED_BY_PYARROW if name.startswith("decimal")]
WITHOUT_BOUNDS = [name for name in TYPES if name.startswith("array")]

LONG_TEXTS = [
    letter * count for letter in "aü😀" for count in (200, BOUND_LIMIT_BYTES // 4, BOUND_LIMIT_BYTES // 2 + 1, 5000)
]
FLOATS = [0.0, -0.0, float("nan"), float("inf"), float("-inf"), 5e-324, 1.5]


def values_of(name: str) -> st.SearchStrategy[Any]:
    """Return values of a type, often those at which bounds go wrong."""
    _, of, values = TYPES[name]
    if pa.types.is_floating(of):
        values = st.sampled_from(FLOATS if of == pa.float64() else [*FLOATS[:5], 2.0**-149]) | values
    if of in (pa.string(), pa.binary()):
        long = [text if of == pa.string() else text.encode() for text in LONG_TEXTS]
        values = st.sampled_from(long) | st.sampled_from([long[0][:0]]) | values
    return values if name in NEVER_NULL else st.none() | values


@st.composite
def drawn_rows(draw: st.DrawFn, names: Sequence[str]) -> pa.Table:
    """Return some rows of all the types; a third of the columns hold one value again and again, null perhaps."""
    count = draw(st.integers(1, 2 * GROUP_ROWS + 1))
    columns = {}
    for name in names:
        values = draw(st.lists(values_of(name), min_size=count, max_size=count))
        if draw(st.integers(0, 2)) == 0:
            values = values[:1] * count
        columns[name] = arrow(values, TYPES[name][1])
    return pa.table(columns)


def written(values: pa.Table) -> Snapshot:
    """Return a new table with the values, written in row groups of `GROUP_ROWS`."""
    storage, _ = new_table(*(NewColumn(name=name, type=int(TYPES[name][0])) for name in values.column_names))
    columns = {name: values[name].combine_chunks() for name in values.column_names}
    write(storage, rows([0] * len(values), **columns), options=OPTIONS)
    return snapshot_of(PATH, storage)


def files_of(snapshot: Snapshot) -> tuple[Metadata, bytes]:
    """Return the `_pm` of the only partition in Parquet, and its data.parquet."""
    (partition,) = parquet_partitions(snapshot)
    resolved = snapshot.resolve(partition)
    with resolved.files.open_data() as handle:
        return resolved.metadata, handle.pread(partition.token, 0)


def facts_of(chunk: Chunk) -> Facts:
    low, high = (None if bound is None else bound.value for bound in (chunk.minimum, chunk.maximum))
    return low, high, chunk.null_count


def assert_equal_facts(chunk: Chunk, statistics: Any, name: str) -> None:
    """Assert that a chunk has pyarrow's statistics, but for an empty value and a very long one, which `_pm` leaves out.

    Pyarrow shows either both bounds or none, so it shows nothing for a chunk with one of them.
    """
    low, high, null_count = facts_of(chunk)
    assert null_count == statistics.null_count, name
    if statistics.has_min_max:
        assert (low, high) == tuple(map(stored, packed(statistics))), name
    else:
        assert low is None or high is None, name


def packed(statistics: Any) -> tuple[bytes, bytes]:
    """Return pyarrow's bounds as Parquet stores them."""
    low, high = (
        value if isinstance(value, bytes) else struct.pack(PACKED[statistics.physical_type], value)
        for value in (statistics.min_raw, statistics.max_raw)
    )
    return low, high


def stored(bound: bytes | None) -> bytes | None:
    """Return what `_pm` has of a bound."""
    return bound if bound and len(bound) <= BOUND_LIMIT_BYTES else None


def groups_of(content: bytes) -> Iterable[list[Any]]:
    """Yield the statistics of all columns of each row group, as pyarrow reads them from a file."""
    metadata = pq.read_metadata(io.BytesIO(content))
    for ordinal in range(metadata.num_row_groups):
        group = metadata.row_group(ordinal)
        yield [group.column(position).statistics for position in range(group.num_columns)]


def by_pyarrow(values: pa.Table) -> list[list[Any]]:
    """Return the statistics that pyarrow itself makes of these rows, in row groups of the same size."""
    return list(groups_of(parquet_files.written(values, row_group_size=GROUP_ROWS, store_schema=False)))


def assert_equal_groups(values: pa.Table, metadata: Metadata, statistics: Sequence[Sequence[Any]]) -> None:
    """Assert that `_pm` and pyarrow agree on every chunk of the value columns."""
    assert len(metadata.blocks) == len(statistics) == -(-len(values) // GROUP_ROWS)
    for block, group in zip(metadata.blocks, statistics, strict=True):
        for name, chunk, theirs in zip(values.column_names, block.chunks[OWN_COLUMNS:], group, strict=True):
            assert_equal_facts(chunk, theirs, name)


@EXAMPLES
@given(drawn_rows(ORDERED_BY_PYARROW))
def test_statistics_of_all_types_that_arrow_orders_alike_are_those_that_pyarrow_makes_itself(values: pa.Table) -> None:
    metadata, _ = files_of(written(values))
    assert_equal_groups(values, metadata, by_pyarrow(values))


@EXAMPLES
@given(drawn_rows([*ORDERED_BY_PYARROW, *WITHOUT_BOUNDS]))
def test_statistics_and_footer_of_all_types_in_our_data_file_are_those_that_pyarrow_reads_and_pm_has(
    values: pa.Table,
) -> None:
    metadata, content = files_of(written(values))
    assert_equal_groups(values, metadata, [group[OWN_COLUMNS:] for group in groups_of(content)])
    assert list(compare_footer(parquet_files.footer_of(content), metadata, file="data.parquet")) == []


def smallest_and_largest(values: list[Any], raw_of: Callable[[Any], bytes], key: Callable[[Any], Any]) -> Facts:
    """Return the statistics that plain comparing finds."""
    present = [value for value in values if value is not None]
    null_count = len(values) - len(present)
    if not present:
        return None, None, null_count
    return stored(raw_of(min(present, key=key))), stored(raw_of(max(present, key=key))), null_count


@EXAMPLES
@given(drawn_rows(DECIMALS))
def test_bounds_of_decimals_are_the_smallest_and_largest_number(values: pa.Table) -> None:
    """Their order is not that of the stored bytes, in which -1 is above 1; brute force finds the same."""
    metadata, _ = files_of(written(values))
    columns = metadata.header.columns[OWN_COLUMNS:]
    for ordinal, block in enumerate(metadata.blocks):
        part = values.slice(ordinal * GROUP_ROWS, GROUP_ROWS)
        for column, chunk in zip(columns, block.chunks[OWN_COLUMNS:], strict=True):
            scale = part.schema.field(column.name).type.scale
            unscaled = [
                None if value is None else int(value.scaleb(scale, EXACT)) for value in part[column.name].to_pylist()
            ]
            as_bytes = functools.partial(int.to_bytes, length=column.fixed_byte_len, byteorder="big", signed=True)
            assert facts_of(chunk) == smallest_and_largest(unscaled, as_bytes, key=int), column.name


UNSIGNED = functools.partial(int.to_bytes, length=4, byteorder="little")
BRUTE_FORCE: dict[str, tuple[Callable[[Any], bytes], Callable[[Any], Any]]] = {
    **dict.fromkeys(("char", "ipv4"), (UNSIGNED, int)),
    **dict.fromkeys(("string", "varchar"), (str.encode, str.encode)),
    **dict.fromkeys(("uuid", "long128", "long256", "binary"), (bytes, bytes)),
}
"""How values are stored, and what to compare them by."""


@EXAMPLES
@given(drawn_rows(list(BRUTE_FORCE)))
def test_bounds_of_bytes_and_unsigned_integers_are_the_smallest_and_largest_in_questdbs_order(values: pa.Table) -> None:
    """UUID and LONG256 compare bytewise as stored, texts by their UTF-8, CHAR and IPv4 as unsigned; by brute force."""
    metadata, _ = files_of(written(values))
    for ordinal, block in enumerate(metadata.blocks):
        part = values.slice(ordinal * GROUP_ROWS, GROUP_ROWS)
        for name, chunk in zip(values.column_names, block.chunks[OWN_COLUMNS:], strict=True):
            column = part[name].combine_chunks()
            plain = column.storage.to_pylist() if name == "uuid" else column.to_pylist()
            raw_of, key = BRUTE_FORCE[name]
            assert facts_of(chunk) == smallest_and_largest(plain, raw_of, key), name


@EXAMPLES
@given(data=st.data())
def test_bounds_of_symbols_are_the_smallest_and_largest_that_rows_hold(
    data: st.DataObject, chain: tuple[str, MemoryStorage, tuple[str, ...], int]
) -> None:
    """Not of the dictionary, which holds all symbols of the table up to the largest key; brute force on the rows."""
    position, disk, known, last = chain
    symbols = data.draw(st.lists(st.none() | st.sampled_from(known), min_size=1, max_size=GROUP_ROWS))
    storage = disk.copy()
    with open_writer(storage, position, options=OPTIONS, allow_parquet_last=True) as writer:
        writer.write(pa.table({"ts": pa.array([last] * len(symbols)), "s": pa.array(symbols, pa.string())}))
        writer.commit()
    snapshot = snapshot_of(position, storage)
    metadata, _ = files_of(snapshot)
    position_of = [column.name for column in metadata.header.columns].index("s")
    chunk = metadata.blocks[-1].chunks[position_of]
    assert facts_of(chunk) == smallest_and_largest(symbols, str.encode, key=str.encode)


@pytest.fixture(scope="module")
def chain(questdb_data: Path) -> tuple[str, MemoryStorage, tuple[str, ...], int]:
    """Return a real table in memory, the symbols that it knows, and a time behind its rows in Parquet."""
    position, storage = in_memory(questdb_data / TABLE)
    snapshot = snapshot_of(position, storage)
    found = pa.Table.from_batches(snapshot.batches())
    known = tuple(sorted(set(found["s"].to_pylist()) - {None}))
    return position, storage, known, found["ts"].cast(pa.int64())[-1].as_py() + 1


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("double", [float("nan"), 1.0, None], (1.0, 1.0, 1)),
        ("double", [float("nan"), None], (None, None, 1)),
        ("double", [0.0], (-0.0, 0.0, 0)),
        ("double", [-0.0, None], (-0.0, 0.0, 1)),
        ("float", [float("inf"), float("-inf")], (float("-inf"), float("inf"), 0)),
    ],
)
def test_nan_is_no_bound_and_zero_has_both_signs(name: str, values: list[Any], expected: tuple[Any, Any, int]) -> None:
    of = TYPES[name][1]
    metadata, _ = files_of(written(pa.table({name: pa.array(values, of)})))
    low, high, null_count = facts_of(metadata.blocks[0].chunks[OWN_COLUMNS])
    form = "<d" if name == "double" else "<f"
    packed = [None if bound is None else struct.pack(form, bound) for bound in expected[:2]]
    assert ([low, high], null_count) == (packed, expected[2])


def test_other_statistics_than_pyarrows_would_be_noticed() -> None:
    """Twin of the comparisons above: rows that differ in one value have other statistics."""
    values = pa.table({"long": pa.array([1, 2, None])})
    metadata, _ = files_of(written(values))
    assert_equal_groups(values, metadata, by_pyarrow(values))
    for other in ([0, 2, None], [1, 3, None], [1, 2, 2]):
        with pytest.raises(AssertionError):
            assert_equal_groups(values, metadata, by_pyarrow(pa.table({"long": pa.array(other)})))
