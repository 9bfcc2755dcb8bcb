"""Our reader reads everything that our writer writes, however well it compresses: such rows become more row groups."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from depth import always_if, sampled
from real_tables import resolved_partitions, verified
from type_values import NEVER_NULL, SHOWN, TYPES, arrow
from written_tables import PATH, new_table, rows, table_on, write

from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl import limits
from tornproof.impl.chunk import expansion as chunk_expansion
from tornproof.impl.errors import RowsRejectedError
from tornproof.impl.parquet import pages
from tornproof.impl.parquet.encode_options import ENCODABLE, ColumnOptions, EncodeOptions, Encoding
from tornproof.impl.read import row_group
from tornproof.impl.table.create import NewColumn
from tornproof.impl.table.partition_schema import physical_form
from tornproof.impl.types import raw_arrays
from tornproof.impl.types.names import type_code
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.write import readable_row_groups
from tornproof.impl.write.writer_options import WriterOptions

KIB = 1 << 10


def block_sizes(storage: MemoryStorage) -> list[int]:
    return [block.num_rows for each in resolved_partitions(PATH, storage) for block in each.metadata.blocks]


@pytest.fixture
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds of which a thousandth is enough to try."""
    monkeypatch.setattr(chunk_expansion, "EXPANDED_MAX_BYTES", 64 * KIB)
    monkeypatch.setattr(row_group, "BATCH_FLOOR_BYTES", 128 * KIB)


@pytest.mark.parametrize("encoding", [None, *always_if(lambda each: each is Encoding.DELTA_BYTE_ARRAY, Encoding)])
@pytest.mark.parametrize("name", sampled(3, sorted(SHOWN)))
def test_equal_values_of_every_type_and_encoding_can_be_read_whole(
    small_bounds: None, name: str, encoding: Encoding | None
) -> None:
    tag, of, _ = TYPES[name]
    form = physical_form(tag)
    assert form is not None
    if encoding is not None and form[0] not in ENCODABLE[encoding]:
        return
    storage, _ = new_table(NewColumn(name="x", type=tag))
    columns = {} if encoding is None else {"x": ColumnOptions(encoding=encoding)}
    options = WriterOptions(encoding=EncodeOptions(columns=columns), allow_unreadable_by_servers=True)
    row_count = 300 if name == "varchar" else 8_000
    for value in (SHOWN[name][1], None):
        if value is None and name in NEVER_NULL:
            continue
        batch = rows(range(row_count), x=arrow([value] * row_count, of))
        write(storage, batch, options=options)
    found = table_on(storage)
    assert len(found) == sum(block_sizes(storage)) > 0


def test_only_row_groups_that_no_reader_would_take_are_divided(small_bounds: None) -> None:
    def written(texts: list[str], row_count_max: int = 100_000) -> list[int]:
        storage, _ = new_table(NewColumn(name="x", type=TypeTag.VARCHAR))
        write(storage, rows(range(1_000), x=texts), options=WriterOptions(row_group_row_count_max=row_count_max))
        assert table_on(storage)["x"].to_pylist() == texts
        return block_sizes(storage)

    random = np.random.default_rng(1).integers(0, 256, 250_000, np.uint8).tobytes().hex()
    assert written([random[position : position + 500] for position in range(0, 500_000, 500)]) == [1_000]
    assert written(["y" * 20] * 1_000) == [1_000]
    # 500 bytes a value: what 64 KiB leave of each row group, a power of two of which makes a thousand.
    assert written(["y" * 500] * 1_000) == [62, 63] * 8
    assert written(["y" * 500] * 1_000, 10) == [10] * 100


def test_columns_that_are_too_much_together_are_divided_and_merged_into(small_bounds: None) -> None:
    names = [f"c{number}" for number in range(40)]
    storage, _ = new_table(*(NewColumn(name=name, type=TypeTag.LONG) for name in names))
    row_count = 10_000
    zeros: dict[str, Any] = dict.fromkeys(names, pa.array(np.zeros(row_count, np.int64)))
    write(storage, rows(range(0, 2 * row_count, 2), **zeros), options=WriterOptions())
    assert len(block_sizes(storage)) > 1
    ones = {name: column.slice(0, 1) for name, column in zeros.items()}
    write(storage, rows([501], **ones), options=WriterOptions())
    assert sum(block_sizes(storage)) == row_count + 1
    assert table_on(storage)["c39"].to_pylist() == [0] * (row_count + 1)


@pytest.mark.parametrize(("row_count", "sizes"), [(7, [7]), (8, [4, 4])])
def test_a_dictionary_is_one_of_the_pages_that_readers_take(
    monkeypatch: pytest.MonkeyPatch, row_count: int, sizes: list[int]
) -> None:
    monkeypatch.setattr(limits, "PAGE_COUNT_LIMIT", 8)
    storage, _ = new_table(NewColumn(name="x", type=TypeTag.LONG))
    encoding = EncodeOptions(page_row_count_max=1, columns={"x": ColumnOptions(encoding=Encoding.DICTIONARY)})
    write(storage, rows(range(row_count), x=[5] * row_count), options=WriterOptions(encoding=encoding))
    assert block_sizes(storage) == sizes
    assert table_on(storage)["x"].to_pylist() == [5] * row_count


def test_lists_inside_of_arrays_are_as_many_as_readers_take(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (raw_arrays, readable_row_groups):
        monkeypatch.setattr(module, "LIST_COUNT_MAX", 12)
    storage, _ = new_table(NewColumn(name="x", type=type_code("DOUBLE[][]") or 0))
    arrays = [[[0.5]] * 3] * 10
    write(storage, rows(range(10), x=arrays), options=WriterOptions())
    assert block_sizes(storage) == [2, 3, 2, 3]
    assert table_on(storage)["x"].to_pylist() == arrays
    with pytest.raises(RowsRejectedError, match="12 lists inside of an array"):
        write(storage, rows([10], x=[[[0.5]] * 13]), options=WriterOptions())


def test_a_number_in_its_new_encoding_takes_no_more_than_readers_take_of_a_chunk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "CHUNK_LIMIT_BYTES", 6_000)
    storage, _ = new_table(NewColumn(name="x", type=TypeTag.DOUBLE))
    encoding = EncodeOptions(duplicates=True, columns={"x": ColumnOptions(encoding=Encoding.DICTIONARY)})
    values = np.random.default_rng(1).integers(1 << 62, size=16).view(np.float64).repeat(100)
    options = WriterOptions(encoding=encoding, allow_unreadable_by_servers=True)
    write(storage, rows(range(1_600), x=values), options=options)
    assert block_sizes(storage) == [400] * 4
    assert verified(PATH, storage).sound


def test_all_symbols_before_that_of_a_row_are_in_the_page_that_readers_take(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (pages, readable_row_groups):
        monkeypatch.setattr(module, "PAGE_SIZE_MAX_BYTES", 1_000)
    storage, _ = new_table(NewColumn(name="x", type=TypeTag.SYMBOL))
    symbols = [f"{number}" * 100 for number in range(8)]
    write(storage, rows(range(8), x=symbols), options=WriterOptions())
    assert table_on(storage)["x"].to_pylist() == symbols
    with pytest.raises(RowsRejectedError, match=r"'x': expected at most 1000 bytes a value \(a symbol with all"):
        write(storage, rows([8, 9], x=["8" * 100, "9" * 100]), options=WriterOptions())
    assert table_on(storage)["x"].to_pylist() == symbols


@pytest.mark.nightly
def test_a_table_of_many_equal_columns_is_read_at_full_size() -> None:
    names = [f"c{number}" for number in range(200)]
    storage, _ = new_table(*(NewColumn(name=name, type=TypeTag.LONG) for name in names))
    row_count = 100_000
    zeros: dict[str, Any] = dict.fromkeys(names, np.zeros(row_count, np.int64))
    write(storage, rows(range(row_count), **zeros), options=WriterOptions())
    assert block_sizes(storage) == [row_count // 2] * 2
    assert len(table_on(storage)) == row_count


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("row_count", "size_bytes"), [pytest.param(2, 60 << 20, id="few"), pytest.param(1_000, 100_000, id="many")]
)
def test_values_that_do_not_compress_are_divided_by_what_readers_take_of_a_chunk_and_a_page(
    row_count: int, size_bytes: int
) -> None:
    storage, _ = new_table(NewColumn(name="x", type=TypeTag.BINARY))
    random = np.random.default_rng(1).integers(0, 256, size_bytes + row_count, np.uint8).tobytes()
    values = [random[position : position + size_bytes] for position in range(row_count)]
    write(storage, rows(range(row_count), x=values), options=WriterOptions())
    assert len(block_sizes(storage)) > 1
    assert table_on(storage)["x"].to_pylist() == values


def test_a_value_that_no_reader_takes_is_rejected_and_the_largest_that_one_takes_is_not() -> None:
    for size_bytes, is_taken in ((64 << 20) - 100, True), (64 << 20, False):
        storage, _ = new_table(NewColumn(name="x", type=TypeTag.VARCHAR))
        batch = rows([0], x=["x" * size_bytes])
        if is_taken:
            write(storage, batch, options=WriterOptions())
            assert len(table_on(storage)["x"][0].as_py()) == size_bytes
            continue
        with pytest.raises(RowsRejectedError, match=r"column 'x': expected at most 67108864 bytes a value"):
            write(storage, batch, options=WriterOptions())
        assert block_sizes(storage) == []
