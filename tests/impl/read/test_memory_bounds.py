"""What a table of few bytes may cost: measured in processes of their own, each beside a table that is just read."""

from pathlib import Path

import numpy as np
import pm_builder as pm
import pyarrow as pa
import pytest
import table_builder as tb
from depth import nightly
from memory_child import cost_of
from msgspec.structs import replace
from parquet_files import written

from tornproof.impl.layout.parquet import ParquetTail
from tornproof.impl.parquet.thrift import NODE_COUNT_MAX
from tornproof.impl.pm.encode import NewRowGroup
from tornproof.impl.types.questdb import DESIGNATED, TypeTag

MEMORY_MIB_MAX = 300
TIMESTAMP = DESIGNATED.put(TypeTag.TIMESTAMP, 1)
LONG_BYTES = 8


def of_nulls(column_count: int, row_count: int, folder: Path) -> Path:
    """A table whose statistics claim nothing but nulls; its data.parquet has no page."""
    header = pm.header(
        *(pm.column(f"c{position}", id=position) for position in range(column_count)), designated_timestamp=-1
    )
    chunks = tuple(
        replace(pm.chunk(4 + position * pm.CHUNK_BYTES, rows=row_count), null_count=row_count)
        for position in range(column_count)
    )
    content = pm.file(header, NewRowGroup(num_rows=row_count, chunks=chunks))
    tail = ParquetTail(footer_length=pm.THRIFT_BYTES, magic=b"PAR1").pack()
    files = {
        "_txn": tb.txn(rows=row_count, token=pm.TOKEN),
        tb.PM: content,
        tb.DATA: bytes(pm.TOKEN - len(tail)) + tail,
    }
    return tb.BuiltTable(files=files).write_to(folder)


def of_repeats(column_count: int, value: pa.Scalar, type_: int, rows: int, folder: Path, *, dictionary: bool) -> Path:
    """A sound table whose columns hold one value over and over."""
    arrays = [pa.repeat(pa.scalar(tb.DAY_MICROSECONDS, pa.timestamp("us")), rows)]
    arrays += [pa.repeat(value, rows)] * column_count
    fields = [pa.field("ts", pa.timestamp("us"), nullable=False)]
    fields += [pa.field(f"c{position}", value.type) for position in range(column_count)]
    data = written(
        pa.table(arrays, schema=pa.schema(fields)),
        store_schema=False,
        row_group_size=1 << 24,
        compression="zstd",
        use_dictionary=dictionary,
    )
    files = {
        "_txn": tb.txn(rows=rows, token=len(data), last_time=tb.DAY_MICROSECONDS),
        tb.PM: tb.metadata_of(data, [TIMESTAMP, *[type_] * column_count]),
        tb.DATA: data,
    }
    return tb.BuiltTable(files=files).write_to(folder)


def zeros(column_count: int, rows: int, folder: Path) -> Path:
    return of_repeats(column_count, pa.scalar(np.int64(0)), TypeTag.LONG, rows, folder, dictionary=False)


def test_columns_of_nulls_come_in_slices_however_many_rows_there_are(tmp_path: Path) -> None:
    _, read, peak_mib = cost_of(of_nulls(20, 1 << 24, tmp_path))
    rows, largest_bytes = read
    assert rows == 1 << 24
    # A slice holds 8 MiB of values, and their validity bits.
    assert 7 << 20 < largest_bytes < 9 << 20
    assert peak_mib < MEMORY_MIB_MAX


def test_more_rows_than_a_row_group_may_have_are_rejected(tmp_path: Path) -> None:
    _, read, peak_mib = cost_of(of_nulls(1, (1 << 24) + 1, tmp_path))
    assert read == ["UnsupportedError", tb.PM, "NUM_ROWS"]
    assert peak_mib < MEMORY_MIB_MAX


def test_few_nulls_come_in_one_slice(tmp_path: Path) -> None:
    _, read, _ = cost_of(of_nulls(20, 1000, tmp_path))
    assert read == [1000, 20 * (1000 * LONG_BYTES + 125)]


def test_chunks_that_unpack_to_more_than_their_bytes_can_justify_are_unsupported(tmp_path: Path) -> None:
    verified, read, peak_mib = cost_of(zeros(6, 15_000_000, tmp_path))
    assert verified == ["UnsupportedError", tb.DATA, "pages of column 'ts'"]
    assert read[0] == "UnsupportedError"
    assert peak_mib < MEMORY_MIB_MAX


@pytest.mark.nightly
def test_chunks_that_are_fine_one_by_one_are_rejected_together(tmp_path: Path) -> None:
    table = zeros(6, 3_500_000, tmp_path)
    verified, together, peak_mib = cost_of(table)
    assert verified == [True, [], 1]
    assert together == ["UnsupportedError", tb.PM, "NUM_ROWS"]
    assert peak_mib < MEMORY_MIB_MAX
    _, alone, peak_mib = cost_of(table, "c0", "c5")
    assert alone == [3_500_000, 2 * (3_500_000 * LONG_BYTES + 437_500)]  # values, and a bit each for nulls
    assert peak_mib < MEMORY_MIB_MAX


def test_few_zeros_are_read(tmp_path: Path) -> None:
    verified, read, _ = cost_of(zeros(6, 1_000_000, tmp_path))
    assert verified == [True, [], 1]
    assert read == [1_000_000, 7 * 1_000_000 * LONG_BYTES + 6 * 125_000]  # the timestamp has no bits for nulls


@pytest.mark.nightly
@pytest.mark.parametrize("dictionary", [False, True])
def test_text_that_unpacks_to_much_more_than_its_bytes_is_unsupported(dictionary: bool, tmp_path: Path) -> None:
    text = pa.scalar("x" * 120)
    bomb = of_repeats(1, text, TypeTag.VARCHAR, 1_900_000, tmp_path / "bomb", dictionary=dictionary)
    assert (bomb / tb.DATA).stat().st_size < 100_000
    verified, read, peak_mib = cost_of(bomb)
    assert verified == ["UnsupportedError", tb.DATA, "pages of column 'c0'"]
    assert read == ["UnsupportedError", tb.DATA, "pages of column 'c0'"]
    assert peak_mib < MEMORY_MIB_MAX
    fine = of_repeats(1, text, TypeTag.VARCHAR, 400_000, tmp_path / "fine", dictionary=dictionary)
    verified, read, peak_mib = cost_of(fine)
    assert (verified, read[0]) == ([True, [], 1], 400_000)
    assert peak_mib < MEMORY_MIB_MAX


def with_footer_list(count: int, folder: Path) -> Path:
    """A sound table whose Thrift footer ends with a list that no reader knows, of `count` bytes of value zero."""
    table = tb.build({"v": (TypeTag.LONG, pa.array([1, 2, 3]))}, has_meta=False)
    data, metadata = table.files[tb.DATA], table.files[tb.PM]
    fixed = pm.newest(metadata).fixed
    footer = data[fixed.parquet_footer_offset : -tb.TAIL_BYTES]
    # Field 99 in its long form, a list of bytes in its long form, the count as a varint, the struct's end.
    digits = [count >> shift & 0x7F for shift in range(0, count.bit_length(), 7)]
    varint = bytes([*(digit | 0x80 for digit in digits[:-1]), digits[-1]])
    footer = footer[:-1] + b"\x09\xc6\x01\xf3" + varint + bytes(count) + b"\0"
    data = data[: fixed.parquet_footer_offset] + footer + ParquetTail(footer_length=len(footer), magic=b"PAR1").pack()
    files = {
        "_txn": tb.txn(rows=3, token=len(data)),
        tb.PM: pm.set_footer(metadata, "parquet_footer_length", len(footer)),
        tb.DATA: data,
    }
    return tb.BuiltTable(files=files).write_to(folder)


@pytest.mark.parametrize(("count", "compared"), [nightly(1000, 1), (NODE_COUNT_MAX - 1000, 1), (NODE_COUNT_MAX, 0)])
def test_thrift_footer_of_many_nodes_is_compared_up_to_a_limit(count: int, compared: int, tmp_path: Path) -> None:
    verified, read, peak_mib = cost_of(with_footer_list(count, tmp_path))
    assert verified == [True, [], compared]
    assert read[0] == 3
    assert peak_mib < MEMORY_MIB_MAX
