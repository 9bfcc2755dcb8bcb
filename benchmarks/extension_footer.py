"""A FlatBuffers footer beside Thrift's: one chunk found, the footer built, and its size.

`python benchmarks/extension_footer.py` writes benchmarks/results/extension_footer.md; it takes a few minutes.
"""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import flatbuffers
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from measure import Row, compare
from wide_metadata import GROUP_ROW_COUNT, write_wide

import tornproof
from tornproof.impl.extension import parquet3_generated as schema
from tornproof.impl.extension.chunks import SPARSE_NAMES, ChunkArrays, chunk_tables
from tornproof.impl.extension.columnar import Sparse
from tornproof.impl.extension.decode import FlatFooter
from tornproof.impl.extension.encode import flatbuffer_of, row_group_vector
from tornproof.impl.extension.footer import checksums
from tornproof.impl.layout.parquet import FINAL_MAGIC, MAGIC, FinalTail
from tornproof.impl.parquet.footer import TAIL_SIZE_BYTES

RESULTS = Path(__file__).parent / "results" / "extension_footer.md"
SIZES = ((1_000, 10), (10_000, 100))
LOCATED_GOAL, BUILT_GOAL = 1_000.0, 2.0
ROUNDS, ROUND_SECONDS = 3, 0.05
NAMES = ("data_page_offset", "total_compressed_size", "total_uncompressed_size", "codec")
Numbers = npt.NDArray[np.int64]


class Wide(NamedTuple):
    """What a writer knows of a wide file when it has written the last page."""

    names: list[str]
    row_counts: list[int]
    chunks: ChunkArrays
    total_sizes: Numbers


def wide_of(path: Path) -> tuple[Wide, pq.FileMetaData]:
    """Return what pyarrow's footer says of a file, as arrays; bounds are those of the doubles that all groups have."""
    metadata = pq.read_metadata(path)
    group_count, column_count = metadata.num_row_groups, metadata.num_columns
    chunks = [
        metadata.row_group(group).column(column) for group in range(group_count) for column in range(column_count)
    ]
    plain = {name: np.array([getattr(chunk, name) for chunk in chunks], np.int64) for name in NAMES[:3]}
    count = len(chunks)
    plain["codec"] = np.full(count, schema.CompressionCodec.LZ4_RAW)
    plain["is_fully_dict_encoded"] = np.zeros(count, bool)
    nothing = Sparse(np.zeros(count, np.int64), np.zeros(count, bool))
    sparse = dict.fromkeys((*SPARSE_NAMES, "bloom_filter_offset", "bloom_filter_length", "num_values"), nothing)
    sparse["null_count"] = Sparse(np.zeros(count, np.int64), np.ones(count, bool))
    zeros, is_present = np.zeros(count, np.uint64), np.ones(count, bool)
    length = Sparse(np.full(count, 8), is_present)
    high = np.full(count, np.float64(GROUP_ROW_COUNT - 1).view(np.uint64))
    arrays = ChunkArrays(
        row_count=count,
        plain=plain,
        sparse=sparse,
        low=(zeros, zeros, zeros, length),
        high=(zeros, high, zeros, length),
        prefixes={},
        has_statistics=is_present,
    )
    names = [metadata.schema.column(column).name for column in range(column_count)]
    sizes = plain["total_compressed_size"].reshape(group_count, column_count).sum(axis=1)
    return Wide(names, [GROUP_ROW_COUNT] * group_count, arrays, sizes), metadata


def built(wide: Wide) -> bytes:
    """Return the FlatBuffers footer, as a writer makes it that has no Thrift footer."""
    builder = flatbuffers.Builder(1 << 16)
    positions = chunk_tables(builder, wide.chunks).reshape(len(wide.row_counts), len(wide.names))
    starts = wide.chunks.plain["data_page_offset"].reshape(positions.shape)[:, 0]
    parts = []
    for of_group, row_count, size, start in zip(positions, wide.row_counts, wide.total_sizes, starts, strict=True):
        numbers = {
            "total_byte_size": int(size),
            "num_rows": row_count,
            "file_offset": int(start),
            "total_compressed_size": int(size),
        }
        parts.append((of_group, numbers, ()))
    groups = row_group_vector(builder, parts)
    elements = [element(builder, name) for name in wide.names]
    schema.FileMetaDataStartSchemaVector(builder, len(elements))
    for offset in reversed(elements):
        builder.PrependUOffsetTRelative(offset)
    vector = builder.EndVector()
    schema.FileMetaDataStart(builder)
    schema.FileMetaDataAddVersion(builder, 2)
    schema.FileMetaDataAddSchema(builder, vector)
    schema.FileMetaDataAddNumRows(builder, sum(wide.row_counts))
    schema.FileMetaDataAddRowGroups(builder, groups)
    builder.Finish(schema.FileMetaDataEnd(builder))
    return bytes(builder.Output())


def element(builder: flatbuffers.Builder, name: str) -> int:
    text = builder.CreateString(name)
    schema.SchemaElementStart(builder)
    schema.SchemaElementAddName(builder, text)
    schema.SchemaElementAddType(builder, schema.Type.DOUBLE)
    schema.SchemaElementAddRepetitionType(builder, schema.FieldRepetitionType.OPTIONAL)
    return int(schema.SchemaElementEnd(builder))


def final_file(flat: bytes, path: Path) -> None:
    """Write a file of a footer alone, which is all that these readers look at."""
    path.write_bytes(MAGIC + flat + FinalTail(**checksums(flat), magic=FINAL_MAGIC).pack())


def metadata_bytes(metadata: pq.FileMetaData) -> bytes:
    sink = pa.BufferOutputStream()
    metadata.write_metadata_file(sink)
    return bytes(sink.getvalue())


def located(path: Path, group: int, column: int, *, mapped: bool) -> int:
    """Return where a chunk starts, from a file that is opened anew, after both checksums were compared."""
    return tornproof.footer(path, mapped=mapped).chunk(group, column).start_bytes


def rows_of(folder: Path, column_count: int, group_count: int, sizes: list[str]) -> Iterator[Row]:
    path, final = folder / "wide.parquet", folder / "final.parquet"
    write_wide(path, column_count, group_count)
    wide, metadata = wide_of(path)
    shape = f"{column_count:,} columns x {group_count} row groups"
    flat, thrift = built(wide), metadata_bytes(metadata)
    final_file(flat, final)
    group, column = group_count // 2, column_count // 3
    expected = metadata.row_group(group).column(column).data_page_offset
    opened = FlatFooter(flat, file="wide")
    assert {located(final, group, column, mapped=mapped) for mapped in (True, False)} == {expected}
    assert opened.chunk(group, column).start_bytes == expected
    peer = "pyarrow read_metadata"
    compared = functools.partial(compare, rounds=ROUNDS, round_seconds=ROUND_SECONDS)
    is_large = (column_count, group_count) == SIZES[-1]

    def read() -> object:
        return pq.read_metadata(path)

    goal = LOCATED_GOAL if is_large else None
    what = f"find a chunk in an open footer: {shape}"
    yield compared(what, lambda: opened.chunk(group, column), peer, read, goal=goal)
    for mapped in (True, False):
        way = "mapped" if mapped else "read"
        yield compared(
            f"open a file, compare all checksums and find a chunk, {way}: {shape}",
            functools.partial(located, final, group, column, mapped=mapped),
            peer,
            read,
        )
    goal = 1 / BUILT_GOAL if is_large else None
    peer = "pyarrow write_metadata_file"
    yield compared(
        f"build the footer from arrays: {shape}", lambda: built(wide), peer, lambda: metadata_bytes(metadata), goal=goal
    )
    lz4 = [len(pa.compress(each, codec="lz4_raw", asbytes=True)) for each in (thrift, flat)]
    sizes.append(f"| {shape} | {len(thrift):,} | {len(flat):,} | {lz4[0]:,} | {lz4[1]:,} |")
    path.unlink()
    final.unlink()


def main() -> None:
    sizes = [
        "| footer | Thrift | FlatBuffers | Thrift, LZ4 | FlatBuffers, LZ4 |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    lines = ["| what | ms | peer | peer ms | times as fast | goal |", "| --- | ---: | --- | ---: | ---: | --- |"]
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            for row in rows_of(Path(folder), *size, sizes):
                goal = "" if row.goal is None else f"{row.goal:,.4g}" + ("" if row.is_met else ", missed")
                lines.append(
                    f"| {row.what} | {row.ours_ms:,.3f} | {row.peer} | {row.peer_ms:,.3f} "
                    f"| {row.times_as_fast:,.2f} | {goal} |"
                )
                print(lines[-1], flush=True)
        lines.append(lossless(Path(folder)))
    RESULTS.write_text("\n".join([*lines, "", *sizes]) + "\n")


def lossless(folder: Path) -> str:
    """Return a line on the way from Thrift and back, which a file takes whose footer changes."""
    path = folder / "wide.parquet"
    write_wide(path, *SIZES[0])
    content = path.read_bytes()
    length = int.from_bytes(content[-TAIL_SIZE_BYTES:][:4], "little")
    thrift = content[-TAIL_SIZE_BYTES - length : -TAIL_SIZE_BYTES]
    start = time.perf_counter()
    flat = flatbuffer_of(thrift, file="wide")
    middle = time.perf_counter()
    assert FlatFooter(flat, file="wide").thrift() == thrift
    end = time.perf_counter()
    ours, back = (middle - start) * 1e3, (end - middle) * 1e3
    columns, groups = SIZES[0]
    what = f"from Thrift, {columns:,} columns x {groups} row groups, {len(flat):,} bytes; back to the same bytes"
    return f"| {what} | {ours:,.0f} | back | {back:,.0f} | | |"


if __name__ == "__main__":
    main()
