"""Sizes and speed of ALP and PFOR beside other encodings, on columns of the bundled tables and of parquet-testing.

`python benchmarks/encodings.py [FOLDER]` writes benchmarks/results/encodings.md, from which docs/extensions.md repeats
the summary. FOLDER has more Parquet files, such as a copy of apache/parquet-testing.
"""

from __future__ import annotations

import io
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))
import golden_archive
import golden_data

from tornproof.impl.chunk.duplicate_pages import KINDS, PAGE_ROW_COUNT, decode_pages, encode_pages, is_encodable
from tornproof.impl.chunk.duplicate_values import read_chunk_values
from tornproof.impl.errors import TornproofError
from tornproof.impl.extension.footer import read_file_footer
from tornproof.impl.types.physical import PhysicalType

RESULTS = Path(__file__).parent / "results" / "encodings.md"
VALUE_COUNT_MIN = 200
SPEED_COUNT = 1_000_000
ROUNDS = 5
OURS = "ALP or PFOR"


class Column(NamedTuple):
    """A column of a file, as stored."""

    file: str
    name: str
    physical_type: PhysicalType
    values: pa.Array


class Way(NamedTuple):
    """How pyarrow writes a column; `of` are the physical types."""

    name: str
    of: frozenset[PhysicalType]
    options: dict[str, object]


FLOATS = frozenset({PhysicalType.DOUBLE, PhysicalType.FLOAT})
INTEGERS = frozenset({PhysicalType.INT64, PhysicalType.INT32})


def encoded(name: str, codec: str = "none") -> dict[str, object]:
    return {"use_dictionary": False, "column_encoding": name, "compression": codec}


WAYS = (
    Way("PLAIN", FLOATS | INTEGERS, encoded("PLAIN")),
    Way("dictionary", FLOATS | INTEGERS, {"use_dictionary": True, "compression": "none"}),
    Way("BYTE_STREAM_SPLIT", FLOATS | INTEGERS, encoded("BYTE_STREAM_SPLIT")),
    Way("DELTA_BINARY_PACKED", INTEGERS, encoded("DELTA_BINARY_PACKED")),
    Way("PLAIN, ZSTD", FLOATS | INTEGERS, encoded("PLAIN", "zstd")),
    Way("BYTE_STREAM_SPLIT, ZSTD", FLOATS | INTEGERS, encoded("BYTE_STREAM_SPLIT", "zstd")),
    Way("DELTA_BINARY_PACKED, ZSTD", INTEGERS, encoded("DELTA_BINARY_PACKED", "zstd")),
)


def columns_of(paths: list[Path]) -> Iterator[Column]:
    """Yield the columns of numbers of files that can be read, row groups together."""
    for path in paths:
        content = path.read_bytes()

        def read(size_bytes: int, offset_bytes: int, content: bytes = content) -> bytes:
            return content[offset_bytes : offset_bytes + size_bytes]

        try:
            footer = read_file_footer(read, len(content), file=path.name).decoded()
            for column, leaf in enumerate(footer.leaves):
                if is_encodable(leaf) and footer.num_rows >= VALUE_COUNT_MIN:
                    groups = range(len(footer.row_groups))
                    parts = [read_chunk_values(read, footer, group, column, file=path.name).values for group in groups]
                    values = pa.concat_arrays(parts).drop_null()
                    if len(values) >= VALUE_COUNT_MIN:
                        yield Column(path.name, leaf.dotted_path, leaf.physical_type, values)
        except TornproofError:
            continue


def size_of(values: pa.Array, way: Way) -> int:
    """Return the bytes of the pages that pyarrow writes."""
    chunk = pq.read_metadata(pa.BufferReader(file_of(values, way))).row_group(0).column(0)
    return int(chunk.total_compressed_size)


def file_of(values: pa.Array, way: Way) -> bytes:
    sink = io.BytesIO()
    table = pa.Table.from_arrays([values], schema=pa.schema([pa.field("v", values.type, nullable=False)]))
    options = {name: {"v": value} if name == "column_encoding" else value for name, value in way.options.items()}
    pq.write_table(table, sink, row_group_size=len(values), write_statistics=False, store_schema=False, **options)
    return sink.getvalue()


def size_lines(columns: list[Column]) -> Iterator[str]:
    """Yield a table of bytes for each value, by physical type, all columns of it together, and how often ours wins."""
    by_type: dict[PhysicalType, list[Column]] = defaultdict(list)
    for column in columns:
        by_type[column.physical_type].append(column)
    names = [OURS, *(way.name for way in WAYS)]
    yield f"| columns | values | {' | '.join(names)} | ours the smallest | without ZSTD |"
    yield f"| --- | ---: |{' ---: |' * len(names)} ---: | ---: |"
    for physical_type, found in sorted(by_type.items()):
        totals: dict[str, int] = defaultdict(int)
        wins = wins_without = 0
        for column in found:
            sizes = {OURS: len(encode_pages(column.values, physical_type, is_optional=False))}
            sizes |= {way.name: size_of(column.values, way) for way in WAYS if physical_type in way.of}
            for name, size in sizes.items():
                totals[name] += size
            wins += sizes[OURS] <= min(sizes.values())
            wins_without += sizes[OURS] <= min(size for name, size in sizes.items() if "ZSTD" not in name)
        count = sum(len(column.values) for column in found)
        cells = [f"{totals[name] / count:.2f}" if name in totals else "" for name in names]
        cells += [f"{wins} of {len(found)}", f"{wins_without}"]
        yield f"| {len(found)} {physical_type.name} | {count:,} | {' | '.join(cells)} |"


def speed_columns() -> Iterator[tuple[str, PhysicalType, pa.Array]]:
    """Yield columns of a million values, made like those of a market."""
    generator = np.random.default_rng(0)
    prices = np.round(100 + np.cumsum(generator.normal(0, 0.01, SPEED_COUNT)), 2)
    yield "prices of two decimals, DOUBLE", PhysicalType.DOUBLE, pa.array(prices)
    yield "the same, FLOAT", PhysicalType.FLOAT, pa.array(prices.astype("<f4"))
    yield "random doubles", PhysicalType.DOUBLE, pa.array(generator.normal(0, 1, SPEED_COUNT))
    times = 1_700_000_000_000_000 + np.cumsum(generator.integers(0, 5_000, SPEED_COUNT))
    yield "times in microseconds, INT64", PhysicalType.INT64, pa.array(times)
    amounts = generator.integers(1, 500, SPEED_COUNT, np.int32)
    amounts[::1000] = 1_000_000
    yield "amounts with outliers, INT32", PhysicalType.INT32, pa.array(amounts)


def speed_lines() -> Iterator[str]:
    """Yield a table of sizes, and of nanoseconds to encode and to decode a value, ours and pyarrow's in turns."""
    yield "| column | encoding | bytes a value | ns to encode | ns to decode |"
    yield "| --- | --- | ---: | ---: | ---: |"
    for what, physical_type, values in speed_columns():
        works = [ours(values, physical_type), *(theirs(values, way) for way in WAYS if physical_type in way.of)]
        times: dict[str, list[list[float]]] = {work.name: [[], []] for work in works}
        for _ in range(ROUNDS):
            for work in works:
                for step, found in zip((work.encode, work.decode), times[work.name], strict=True):
                    start = time.perf_counter()
                    step()
                    found.append((time.perf_counter() - start) / SPEED_COUNT * 1e9)
        for work in works:
            cells = " | ".join(f"{statistics.median(found):.1f}" for found in times[work.name])
            yield f"| {what} | {work.name} | {work.size_bytes / SPEED_COUNT:.2f} | {cells} |"


class Work(NamedTuple):
    """How a column is encoded and decoded."""

    name: str
    size_bytes: int
    encode: Callable[[], object]
    decode: Callable[[], object]


def ours(values: pa.Array, physical_type: PhysicalType) -> Work:
    kind = KINDS[physical_type]
    array, content = values.to_numpy().astype(kind.value), encode_pages(values, physical_type, is_optional=False)

    def encode() -> object:
        parts = range(0, len(array), PAGE_ROW_COUNT)
        return [kind.encode(array[start : start + PAGE_ROW_COUNT]) for start in parts]

    def decode() -> object:
        return decode_pages(content, physical_type, len(values), is_optional=False, file="made", offset_bytes=0)

    return Work(kind.encoding.name, len(content), encode, decode)


def theirs(values: pa.Array, way: Way) -> Work:
    file = file_of(values, way)
    return Work(
        f"{way.name} (pyarrow)",
        size_of(values, way),
        lambda: file_of(values, way),
        lambda: pq.read_table(pa.BufferReader(file), use_threads=False),
    )


def main(folder: str | None = None) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        golden_archive.unpack(Path(temporary))
        bundled = [Path(temporary, name) for name in golden_data.files_named("data.parquet")]
        columns = list(columns_of(bundled))
    lines = ["Columns of the bundled tables, in bytes a value:", "", *size_lines(columns)]
    if folder is not None:
        others = list(columns_of(sorted(Path(folder).glob("**/*.parquet"))))
        lines += ["", "Columns of apache/parquet-testing:", "", *size_lines(others)]
    lines += ["", f"Columns of {SPEED_COUNT:,} values, on one core, medians of {ROUNDS} rounds:", "", *speed_lines()]
    RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
