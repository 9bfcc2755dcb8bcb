"""A placed row group has the bytes that pyarrow itself writes there, and both footers describe its pages."""

import os
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from tornproof.impl.chunk.row_group_encoder import (
    Bounds,
    ColumnOptions,
    EncodedRowGroup,
    EncodeOptions,
    Encoding,
    encode_row_group,
)
from tornproof.impl.layout.parquet import MAGIC
from tornproof.impl.parquet.bloom import bitset_of_values
from tornproof.impl.parquet.fields import OFFSET_INDEX, ROW_GROUP, Codec, PageType
from tornproof.impl.parquet.footer import SortingColumn, split_footer
from tornproof.impl.parquet.pages import walk_pages
from tornproof.impl.parquet.records import read
from tornproof.impl.parquet.thrift import decode
from tornproof.impl.pm.block import Chunk, Statistic
from tornproof.impl.pm.footer_comparison import encodings_mask

# Every width that the varint of an offset can have up to 2^35, from both sides.
OFFSETS = [4, 63, 64, 127, 128, 8191, 8192, 1 << 20, (1 << 20) + 1, (1 << 27) - 9, 1 << 31, (1 << 32) + 5, 1 << 35]
CODECS = {
    Codec.UNCOMPRESSED: "none",
    Codec.SNAPPY: "snappy",
    Codec.GZIP: "gzip",
    Codec.BROTLI: "brotli",
    Codec.ZSTD: "zstd",
    Codec.LZ4_RAW: "lz4",
}


def symbols(keys: Sequence[int | None], values: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(keys, pa.int32()), pa.array(values, pa.string()))


def all_types(row_count: int) -> pa.Table:
    """A column of every physical type, each with and without nulls, and some logical types above them."""
    numbers = np.arange(row_count)
    plain = {
        "bool": pa.array(numbers % 3 == 0),
        "int8": pa.array(numbers % 100, pa.int8()),
        "uint16": pa.array(numbers, pa.uint16()),
        "int32": pa.array(-numbers, pa.int32()),
        "int64": pa.array(numbers * 10**12),
        "float": pa.array(numbers / 7, pa.float32()),
        "double": pa.array(np.where(numbers % 5 == 0, np.nan, numbers / 3)),
        "half": pa.array(numbers.astype(np.float16)),
        "text": pa.array([f"värde {number}" for number in numbers]),
        "binary": pa.array([bytes([number % 256]) * (number % 9) for number in numbers]),
        "fixed": pa.array([int(number).to_bytes(16, "big") for number in numbers], pa.binary(16)),
        "decimal": pa.array([Decimal(int(number)) for number in numbers], pa.decimal128(20, 2)),
        "micros": pa.array(numbers, pa.timestamp("us")),
        "nanos": pa.array(numbers, pa.timestamp("ns")),
        "date": pa.array(numbers, pa.int32()).cast(pa.date32()),
        "millis": pa.array(numbers, pa.int32()).cast(pa.time32("ms")),
    }
    optional = {
        f"optional {name}": pa.array(
            [None if location % 4 == 1 else value for location, value in enumerate(values)], values.type
        )
        for name, values in plain.items()
    }
    nothing = {f"null {name}": pa.nulls(row_count, plain[name].type) for name in ("int64", "text", "bool")}
    arrays = {**plain, **optional, **nothing}
    fields = [pa.field(name, array.type, nullable=name not in plain) for name, array in arrays.items()]
    return pa.table(list(arrays.values()), schema=pa.schema(fields))


def lists(row_count: int) -> pa.Table:
    values = [None if row % 7 == 3 else [row / 2, None] * (row % 4) for row in range(row_count)]
    return pa.table(
        {"ts": pa.array(range(row_count), pa.timestamp("us")), "points": pa.array(values, pa.list_(pa.float64()))}
    )


def with_symbols(row_count: int) -> pa.Table:
    keys = [None if row % 5 == 2 else row % 3 for row in range(row_count)]
    return pa.table(
        {
            "ts": pa.array(range(row_count), pa.timestamp("us")),
            "s": symbols(keys, ["zebra", "", "ärende"]),
            "all null": symbols([None] * row_count, []),
            "n": pa.array([f"n{row % 10}" for row in range(row_count)]),
        }
    )


BY_DICTIONARY = {"n": ColumnOptions(encoding=Encoding.DICTIONARY)}
CASES: dict[str, tuple[Callable[[], pa.Table], EncodeOptions, dict[str, Any]]] = {
    "one row": (lambda: all_types(1), EncodeOptions(), {}),
    "all types": (lambda: all_types(100), EncodeOptions(), {}),
    "lists": (lambda: lists(50), EncodeOptions(), {}),
    "symbols": (lambda: with_symbols(50), EncodeOptions(), {}),
    "several pages": (
        lambda: all_types(3000),
        EncodeOptions(page_size_bytes=512),
        {"data_page_size": 512},
    ),
    "dictionaries by name": (
        lambda: with_symbols(50),
        EncodeOptions(columns=BY_DICTIONARY),
        {"use_dictionary": ["s", "all null", "n"]},
    ),
    "sorting": (
        lambda: lists(50),
        EncodeOptions(
            sorting=(
                SortingColumn(column_index=0, descending=False, nulls_first=False),
                SortingColumn(column_index=1, descending=True, nulls_first=True),
            )
        ),
        {"sorting_columns": [pq.SortingColumn(0), pq.SortingColumn(1, descending=True, nulls_first=True)]},
    ),
    "level": (
        lambda: all_types(500),
        EncodeOptions(codec=Codec.ZSTD, level=19),
        {"compression": "zstd", "compression_level": 19},
    ),
    **{
        name: (lambda: with_symbols(200), EncodeOptions(codec=codec), {"compression": name})
        for codec, name in CODECS.items()
    },
}


def filters(stored: pa.Table, *names: str) -> dict[int, bytes]:
    """Bloom filters of columns, sized as pyarrow sizes them for the number of different values."""
    return {
        stored.column_names.index(name): bitset_of_values(stored.column(name).combine_chunks(), 0.01) for name in names
    }


def written_by_pyarrow(stored: pa.Table, path: Path, offset_bytes: int, **changes: Any) -> tuple[bytes, bytes]:
    """What pyarrow writes for a row group when its file descriptor is moved to `offset_bytes`: body and Thrift."""
    dictionaries = [field.name for field in stored.schema if pa.types.is_dictionary(field.type)]
    settings: dict[str, Any] = {
        "compression": "lz4",
        "use_dictionary": dictionaries,
        "write_page_index": True,
        "write_page_checksum": True,
        "store_schema": False,
        **changes,
    }
    with pa.OSFile(str(path), "wb") as file:
        writer = pq.ParquetWriter(file, stored.schema, **settings)
        os.lseek(file.fileno(), offset_bytes, os.SEEK_SET)
        writer.write_table(stored, row_group_size=stored.num_rows)
        writer.close()
    with path.open("rb") as written:
        tail_at = path.stat().st_size - 8
        written.seek(tail_at)
        length = int.from_bytes(written.read(4), "little")
        written.seek(tail_at - length)
        footer = split_footer(written.read(length), file=path.name, offset_bytes=tail_at - length)
        written.seek(offset_bytes)
        body = written.read(tail_at - length - offset_bytes)
    (row_group,) = footer.row_groups
    return body, row_group


@pytest.mark.parametrize("case", CASES)
def test_placed_row_group_has_the_bytes_that_pyarrow_writes_at_that_offset(case: str, tmp_path: Path) -> None:
    make, options, settings = CASES[case]
    stored = make()
    encoded = encode_row_group(stored, options=options)
    for offset_bytes in OFFSETS:
        placed = encoded.place(offset_bytes)
        body, thrift = written_by_pyarrow(stored, tmp_path / "sparse", offset_bytes, **settings)
        assert (placed.offset_bytes, placed.row_count) == (offset_bytes, stored.num_rows)
        assert placed.content == body, offset_bytes
        assert placed.thrift == thrift, offset_bytes


def metas_of(thrift: bytes) -> list[dict[str, Any]]:
    return [column["meta_data"] for column in read(decode(thrift, file="row group")[0], ROW_GROUP)["columns"]]


def test_bloom_filters_are_those_that_pyarrow_writes(tmp_path: Path) -> None:
    stored = with_symbols(50)
    asked = {"ts": {"ndv": 50, "fpp": 0.01}, "n": {"ndv": 10, "fpp": 0.01}}
    placed = encode_row_group(stored, bitsets=filters(stored, *asked)).place(OFFSETS[0])
    body, thrift = written_by_pyarrow(stored, tmp_path / "file", OFFSETS[0], bloom_filter_options=asked)
    found, expected = (
        [
            content[start - OFFSETS[0] :][: meta["bloom_filter_length"]]
            for meta in metas_of(row_group)
            if (start := meta.get("bloom_filter_offset"))
        ]
        for content, row_group in ((placed.content, placed.thrift), (body, thrift))
    )
    assert found == expected
    assert len(found) == len(asked)


@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize("filtered", [("n",), ("a",), ("a", "n"), ("ts", "b")])
def test_the_bytes_that_a_server_copies_of_a_row_group_include_its_filters(
    filtered: tuple[str, ...], duplicates: bool
) -> None:
    """Servers copy from the first page to the end of the last chunk and of its filter; others must be in between.

    Filters behind all pages were left behind, and the footer of the copy named other bytes.
    """
    numbers = pa.array(range(50), pa.int64())
    texts = pa.array([f"{number}" for number in range(50)])
    stored = pa.table({"ts": numbers, "a": texts, "n": numbers, "b": texts})
    options = EncodeOptions(duplicates=duplicates)
    placed = encode_row_group(stored, options=options, bitsets=filters(stored, *filtered)).place(5000)
    metas = metas_of(placed.thrift)
    chunks = zip(placed.chunks, metas, strict=True)
    last, of_last = max(chunks, key=lambda each: each[0].byte_range_end)
    start = min(chunk.byte_range_start for chunk in placed.chunks)
    end = max(last.byte_range_end, of_last.get("bloom_filter_offset", 0) + of_last.get("bloom_filter_length", 0))
    copied = [
        start <= meta["bloom_filter_offset"] <= end - meta["bloom_filter_length"]
        for meta in metas
        if "bloom_filter_offset" in meta
    ]
    assert copied == [True] * len(filtered)


def test_offset_index_grows_where_its_varints_do() -> None:
    encoded = encode_row_group(all_types(20))
    lengths = [len(encoded.place(offset_bytes).content) for offset_bytes in OFFSETS]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1]


def test_pieces_of_a_column_become_one_row_group() -> None:
    pieces = pa.concat_tables([with_symbols(20), with_symbols(20)])
    assert pieces.column("s").num_chunks == 2
    assert encode_row_group(pieces).place(4).content == encode_row_group(pieces.combine_chunks()).place(4).content


def view_of(encoded: EncodedRowGroup, column: int = 0) -> dict[str, Any]:
    """The ColumnChunk of a column at offset 4, by the names of its members."""
    tree, _ = decode(encoded.place(4).thrift, file="row group")
    view: dict[str, Any] = read(tree, ROW_GROUP)["columns"][column]
    return view


def statistics_of(encoded: EncodedRowGroup, column: int = 0) -> dict[str, Any]:
    statistics = dict(view_of(encoded, column)["meta_data"].get("statistics", {}))
    statistics.pop("offset_bytes", None)
    return statistics


def chunk_of(encoded: EncodedRowGroup, column: int = 0) -> Chunk:
    return encoded.place(4).chunks[column]


@pytest.mark.parametrize("case", CASES)
def test_chunks_agree_with_the_thrift_struct(case: str) -> None:
    make, options, _ = CASES[case]
    placed = encode_row_group(make(), options=options).place(1000)
    tree, _ = decode(placed.thrift, file="row group")
    row_group = read(tree, ROW_GROUP)
    assert row_group["num_rows"] == placed.row_count
    position = 1000
    for column, chunk in zip(row_group["columns"], placed.chunks, strict=True):
        meta = column["meta_data"]
        statistics = meta["statistics"]
        low, high = (
            Statistic(value=v, exact=True) if v else None
            for v in (statistics.get("min_value"), statistics.get("max_value"))
        )
        assert chunk == Chunk(
            codec=options.codec,
            encodings=encodings_mask(tuple(meta["encodings"])) or 0,
            num_values=meta["num_values"],
            byte_range_start=position,
            total_compressed=meta["total_compressed_size"],
            null_count=statistics["null_count"],
            distinct_count=None,
            minimum=low,
            maximum=high,
        )
        assert min(meta.get("dictionary_page_offset", position), meta["data_page_offset"]) == position
        position = chunk.byte_range_end


def test_bounds_replace_those_of_pyarrow_in_both_footers_and_drop_its_column_index() -> None:
    stored = pa.table({"a": pa.array([3, None, 1]), "b": pa.array([1, 2, 3])})
    bounds: Bounds = {"a": (b"low", b"highest of all")}
    encoded = encode_row_group(stored, bounds=bounds)
    assert statistics_of(encoded) == {
        "null_count": 1,
        "min_value": b"low",
        "max_value": b"highest of all",
        "is_min_value_exact": True,
        "is_max_value_exact": True,
    }
    assert chunk_of(encoded).minimum == Statistic(value=b"low", exact=True)
    assert chunk_of(encoded).maximum == Statistic(value=b"highest of all", exact=True)
    assert "column_index_offset" not in view_of(encoded) and "column_index_length" not in view_of(encoded)
    assert "offset_index_offset" in view_of(encoded)
    assert "column_index_offset" in view_of(encoded, 1)


def test_what_stands_behind_a_dropped_column_index_moves_up() -> None:
    stored = all_types(20)
    whole, shorter = (encode_row_group(stored, bounds=bounds).place(500) for bounds in ({}, {"int32": None}))
    chunks = []
    for placed in (whole, shorter):
        tree, _ = decode(placed.thrift, file="row group")
        chunks.append(read(tree, ROW_GROUP)["columns"])
    dropped = [chunk["column_index_length"] for chunk in chunks[0]][stored.column_names.index("int32")]
    assert len(whole.content) - len(shorter.content) == dropped
    for name in ("column_index", "offset_index"):
        for old, new in zip(*chunks, strict=True):
            if f"{name}_offset" in new:
                assert index_bytes(whole.content, old, name) == index_bytes(shorter.content, new, name)


def index_bytes(content: bytes, chunk: dict[str, Any], name: str) -> bytes:
    start = chunk[f"{name}_offset"] - 500
    return content[start : start + chunk[f"{name}_length"]]


def test_bounds_that_are_those_of_pyarrow_change_nothing() -> None:
    stored = pa.table({"a": pa.array([3, None, 1])})
    bounds: Bounds = {"a": ((1).to_bytes(8, "little"), (3).to_bytes(8, "little"))}
    assert encode_row_group(stored, bounds=bounds).place(4) == encode_row_group(stored).place(4)


def test_no_bounds_leave_the_null_count() -> None:
    encoded = encode_row_group(pa.table({"a": pa.array([3, None, 1])}), bounds={"a": None})
    assert statistics_of(encoded) == {"null_count": 1}
    assert (chunk_of(encoded).minimum, chunk_of(encoded).maximum, chunk_of(encoded).null_count) == (None, None, 1)


def test_bounds_can_be_given_where_pyarrow_has_none() -> None:
    encoded = encode_row_group(pa.table({"a": pa.nulls(2, pa.int64())}), bounds={"a": (b"x", b"y")})
    assert statistics_of(encoded)["min_value"] == b"x"
    assert chunk_of(encoded).maximum == Statistic(value=b"y", exact=True)


@pytest.mark.parametrize(("length", "stays"), [(4096, True), (4097, False), (70_000, False)])
def test_bounds_longer_than_4096_bytes_are_left_out_of_both_footers(length: int, stays: bool) -> None:
    encoded = encode_row_group(pa.table({"a": ["a", "b" * length]}))
    statistics = statistics_of(encoded)
    assert statistics["min_value"] == b"a"
    assert ("max_value" in statistics, "is_max_value_exact" in statistics) == (stays, stays)
    assert chunk_of(encoded).minimum == Statistic(value=b"a", exact=True)
    assert (chunk_of(encoded).maximum is not None) is stays
    assert ("column_index_offset" in view_of(encoded)) is stays


def test_empty_bound_is_absent_from_pm_alone() -> None:
    encoded = encode_row_group(pa.table({"a": ["", "b"]}))
    assert statistics_of(encoded)["min_value"] == b""
    assert chunk_of(encoded).minimum is None
    assert chunk_of(encoded).maximum == Statistic(value=b"b", exact=True)


def dictionary_page_of(encoded: EncodedRowGroup, column: int) -> tuple[list[str], bytes]:
    """The values on a column's dictionary page and the page itself; pages are checked on the way."""
    placed = encoded.place(4)
    chunk = placed.chunks[column]
    raw = placed.content[chunk.byte_range_start - 4 : chunk.byte_range_end - 4]
    codec = Codec(chunk.codec)
    pages = walk_pages(
        raw, file="row group", offset_bytes=chunk.byte_range_start, codec=codec, value_count=chunk.num_values
    )
    page = pages[0]
    assert page.kind is PageType.DICTIONARY
    assert page.crc is not None
    assert {data.encoding for data in pages[1:]} == {8}
    start = page.body_offset_bytes - chunk.byte_range_start
    plain = raw[start : start + page.compressed_size_bytes]
    if codec is not Codec.UNCOMPRESSED:
        plain = pa.Codec(codec.name.lower()).decompress(plain, page.uncompressed_size_bytes, asbytes=True)
    values = []
    while plain:
        length = int.from_bytes(plain[:4], "little")
        values.append(plain[4 : 4 + length].decode())
        plain = plain[4 + length :]
    assert len(values) == page.value_count
    return values, raw[: start + page.compressed_size_bytes]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "values",
    [["b", "a", "not used", "c"], ["not used", "3", "0"]],
)
def test_dictionary_is_stored_as_it_is_given(codec: Codec, values: list[str]) -> None:
    keys = [location for location, value in enumerate(values) if value != "not used"] * 9
    column = symbols([*keys, None], values)
    stored = pa.table({"ts": pa.array(range(len(column))), "s": column, "after": pa.array(range(len(column)))})
    encoded = encode_row_group(stored, options=EncodeOptions(codec=codec), bitsets=filters(stored, "after"))
    found, _ = dictionary_page_of(encoded, 1)
    assert found == values
    used = sorted(values[key].encode() for key in keys)
    assert chunk_of(encoded, 1).minimum == Statistic(value=used[0], exact=True)
    assert chunk_of(encoded, 1).maximum == Statistic(value=used[-1], exact=True)


@pytest.mark.parametrize("codec", CODECS)
def test_everything_is_where_the_row_group_says(codec: Codec) -> None:
    stored = with_symbols(300)
    options = EncodeOptions(codec=codec, page_size_bytes=200)
    placed = encode_row_group(stored, options=options, bitsets=filters(stored, "ts", "n")).place(5000)
    tree, _ = decode(placed.thrift, file="row group")
    row_group = read(tree, ROW_GROUP)
    metas = [column["meta_data"] for column in row_group["columns"]]
    assert row_group["total_byte_size"] == sum(meta["total_uncompressed_size"] for meta in metas)
    assert row_group["total_compressed_size"] == sum(meta["total_compressed_size"] for meta in metas)
    bloom_count = 0
    for column, meta, chunk in zip(row_group["columns"], metas, placed.chunks, strict=True):
        raw = placed.content[chunk.byte_range_start - 5000 : chunk.byte_range_end - 5000]
        pages = walk_pages(
            raw, file="row group", offset_bytes=chunk.byte_range_start, codec=codec, value_count=chunk.num_values
        )
        data_pages = [page for page in pages if page.kind is PageType.DATA_V1]
        sizes = [(page.header_length_bytes, page.compressed_size_bytes, page.uncompressed_size_bytes) for page in pages]
        assert sum(header + compressed for header, compressed, _ in sizes) == meta["total_compressed_size"]
        assert sum(header + uncompressed for header, _, uncompressed in sizes) == meta["total_uncompressed_size"]
        assert meta["data_page_offset"] == data_pages[0].header_offset_bytes
        index, end = decode(placed.content, file="row group", start=column["offset_index_offset"] - 5000)
        assert end == column["offset_index_offset"] + column["offset_index_length"] - 5000
        locations = read(index, OFFSET_INDEX)["page_locations"]
        assert [(location["offset"], location["compressed_page_size"]) for location in locations] == [
            (page.header_offset_bytes, page.header_length_bytes + page.compressed_size_bytes) for page in data_pages
        ]
        if "bloom_filter_offset" in meta:
            start = meta["bloom_filter_offset"] - 5000
            header, bits_at = decode(placed.content, file="row group", start=start)
            assert header.fields[0].value == start + meta["bloom_filter_length"] - bits_at
            assert placed.bitset_offsets[row_group["columns"].index(column)] == bits_at + 5000
            bloom_count += 1
    assert bloom_count == 2


def test_bounds_of_a_dictionary_are_of_used_values_even_where_pyarrow_counts_the_null() -> None:
    encoded = encode_row_group(pa.table({"s": symbols([2, 1, None, 2], ["a", "zz", "d"])}))
    assert statistics_of(encoded)["min_value"] == b"d"
    assert "column_index_offset" not in view_of(encoded)


MANY_NULLS = [None] * 3000 + ["a", "b", None, "a"] + [None] * 5000 + ["b"]
FEW_ROWS = EncodeOptions(page_row_count_max=100, columns=BY_DICTIONARY)
PAGES: dict[str, EncodeOptions] = {
    # The checksum takes a byte less in the header of such a page, so that those behind it move.
    "of few rows": EncodeOptions(codec=Codec.UNCOMPRESSED, page_row_count_max=7, columns=BY_DICTIONARY),
    "of few bytes": EncodeOptions(page_size_bytes=1, columns=BY_DICTIONARY),
    "without index": replace(FEW_ROWS, page_index=False),
    "without checksums": replace(FEW_ROWS, page_checksums=False),
    **{codec.name: replace(FEW_ROWS, codec=codec) for codec in CODECS},
}


@pytest.mark.parametrize("pages", PAGES)
def test_keys_have_no_bits_in_a_page_of_nulls_alone(pages: str) -> None:
    """pyarrow writes keys of one bit, and none of them, which server 9.3.4 refused in rows that were acknowledged."""
    stored = pa.table({"s": pa.array(MANY_NULLS).dictionary_encode(), "n": MANY_NULLS})
    encoded = encode_row_group(stored, options=PAGES[pages])
    for column in range(2):
        found = [(keys == b"\0", {*values} == {None}) for values, keys in pages_of_keys(encoded, column)]
        assert {*found} == {(True, True), (False, False)}


def pages_of_keys(encoded: EncodedRowGroup, column: int) -> list[tuple[list[str | None], bytes]]:
    """The values of each data page, which the offset index leads to, and what is behind its definition levels."""
    placed, view, found, first = encoded.place(4), view_of(encoded, column), [], 0
    chunk, codec = placed.chunks[column], Codec(placed.chunks[column].codec)
    content = MAGIC + placed.content
    _, *pages = walk_pages(
        content[chunk.byte_range_start : chunk.byte_range_end],
        file="row group",
        offset_bytes=chunk.byte_range_start,
        codec=codec,
        value_count=chunk.num_values,
    )
    if "offset_index_offset" in view:
        tree, _ = decode(content, file="row group", start=view["offset_index_offset"])
        places = [(each["offset"], each["compressed_page_size"]) for each in read(tree, OFFSET_INDEX)["page_locations"]]
        assert places == [(page.header_offset_bytes, page.end_bytes - page.header_offset_bytes) for page in pages]
    for page in pages:
        body = content[page.body_offset_bytes : page.end_bytes]
        if codec is not Codec.UNCOMPRESSED:
            body = pa.Codec(codec.name.lower()).decompress(body, page.uncompressed_size_bytes, asbytes=True)
        levels_length = int.from_bytes(body[:4], "little")
        found.append((MANY_NULLS[first : first + page.value_count], body[4 + levels_length :]))
        first += page.value_count
    return found


def test_large_dictionaries_stay_dictionaries() -> None:
    values = [f"{number:05}" * 200 for number in range(3000)]
    stored = pa.table({"s": symbols(range(3000), values), "by name": pa.array(values)})
    encoded = encode_row_group(stored, options=EncodeOptions(columns={"by name": BY_DICTIONARY["n"]}))
    assert dictionary_page_of(encoded, 0)[0] == dictionary_page_of(encoded, 1)[0] == values


ONE = pa.table({"a": [1]})
OTHER_DICTIONARIES = pa.chunked_array([symbols([0], ["a"]), symbols([0], ["b"])])
BUGS: dict[str, tuple[Callable[[], object], str | None]] = {
    "two used keys of one symbol": (
        lambda: encode_row_group(pa.table({"s": symbols([0, 1], ["a", "a"])})),
        "dictionary-encoded",
    ),
    "pieces with other dictionaries": (
        lambda: encode_row_group(pa.table({"s": OTHER_DICTIONARIES})),
        "dictionary-encoded",
    ),
    "no rows": (lambda: encode_row_group(ONE.slice(0, 0)), None),
    "bounds of no column": (lambda: encode_row_group(ONE, bounds={"b": None}), None),
    "an offset before the magic bytes end": (lambda: encode_row_group(ONE).place(3), None),
}


@pytest.mark.parametrize("name", BUGS)
def test_what_cannot_be_a_row_group_is_our_bug(name: str) -> None:
    call, message = BUGS[name]
    with pytest.raises(AssertionError, match=message):
        call()
