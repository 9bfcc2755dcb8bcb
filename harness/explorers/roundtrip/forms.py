"""Whether a Parquet file in another form has the same footer and values, and is what it was when it is changed back.

Files of the table are changed, and files that pyarrow makes of numbers which are known.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias
from unittest.mock import patch

import flatbuffers.table
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tornproof.harness.common.patch import wrapped
from tornproof.harness.common.whose_error import errors_as_problems
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.impl.chunk.duplicate_pages import is_encodable
from tornproof.impl.chunk.duplicate_values import ChunkSource, read_column_values
from tornproof.impl.chunk.duplicates import ChunkForm
from tornproof.impl.extension.chunks import ChunkFacts
from tornproof.impl.extension.footer import FileFooter, footer_tail, read_file_footer
from tornproof.impl.extension.point import HeaderForm, with_extension
from tornproof.impl.layout.parquet import FooterForm
from tornproof.impl.migrate.footer_form import change_footer_form
from tornproof.impl.parquet.arrow_writer import FOOTER, GROUP, META, meta_of, with_meta
from tornproof.impl.parquet.fields import COLUMN_CHUNK, OFFSET_INDEX
from tornproof.impl.parquet.footer import ParquetFooter
from tornproof.impl.parquet.records import read
from tornproof.impl.parquet.thrift import Struct, decode, encode, struct_list, structs_in, value_of, with_fields
from tornproof.impl.table.table import Table
from tornproof.impl.types.physical import PhysicalType

PROPERTY = "a file in another form has the same rows, and is what it was when it is changed back"
FILE, CHANGED = "/data.parquet", "/changed.parquet"
ROW_COUNTS = (0, 1, 2_500)
"""Of the files that are made; vectors of the new encodings have 1,024 values."""
ROWS_IN_GROUP, FEW_ROWS = 1_100, 10
FILES_MAX, CHANGED_BYTES_MAX, COLUMN_COUNT_MAX = 3, 1 << 18, 60
"""Of the table's files: each is changed often."""
CHUNKS_COMPARED_MAX = 40
"""Of one file: from a Thrift footer each takes as long as all of it."""
SOURCES = {ChunkForm.OLD: ChunkSource.OLD, ChunkForm.ALP: ChunkSource.DUPLICATE, ChunkForm.ALP_ALONE: ChunkSource.ALONE}
UUID_BYTES = 16
OF_SOMEBODY_ELSE = b"of somebody else" + bytes(UUID_BYTES)
"""An extension, which ends with the UUID of whose it is."""
ALIKE = "texts that begin alike"
"""What they begin with takes an odd number of words of 4 bytes in FlatBuffers."""
LONG_END = "z" * 25
"""Bounds of texts that are so long are cut."""
SAME = ("num_values", "null_count", "bounds", "has_statistics")
"""What a footer says of a chunk wherever and however that is stored."""
Column: TypeAlias = tuple[pa.ChunkedArray, Sequence[ChunkSource], Sequence[str | None]]
"""Its numbers, where those of each row group come from, and the doubts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One form of a file; `header` is how the extension's field id is encoded."""

    footer: FooterForm
    chunks: ChunkForm
    header: HeaderForm

    @property
    def name(self) -> str:
        """It in words."""
        return f"{self.footer} footer, {self.chunks} chunks, {self.header.name.lower()} header"

    @property
    def is_for_others(self) -> bool:
        """Whether other programs can read it."""
        return self.footer is not FooterForm.FINAL and self.chunks is not ChunkForm.ALP_ALONE


FORMS = tuple(
    Form(footer=footer, chunks=chunks, header=header)
    for footer, chunks, header in product(FooterForm, ChunkForm, HeaderForm)
    if (header is HeaderForm.PLAIN or footer in (FooterForm.PRIVATE, FooterForm.MIGRATION))
    and (footer, chunks) != (FooterForm.THRIFT, ChunkForm.OLD)
)


@functools.cache
def made_files() -> Mapping[str, bytes]:
    """Return files of numbers, by their names, with extensions of somebody else, in structs, indexed, and of texts."""
    found = {f"{count} rows of numbers": _written(_numbers(count)) for count in ROW_COUNTS}
    number = np.arange(FEW_ROWS) / 4
    structs = pa.StructArray.from_arrays([pa.array(number)], ["part"])
    return found | {
        "numbers in structs": _written(pa.table({"parts": number, "struct": structs})),
        "pages with indexes": _written(
            _numbers(FEW_ROWS), row_group_size=4, max_rows_per_page=2, write_page_index=True
        ),
        "numbers whose chunks somebody else extended": _extended_by_others(few_numbers()),
        ALIKE: _written(pa.table({"texts": [f"alike-{each}" for each in range(FEW_ROWS)], "wide": range(FEW_ROWS)})),
    }


@functools.cache
def few_numbers() -> bytes:
    """Return a file of few rows with numbers of all kinds."""
    return _written(_numbers(FEW_ROWS))


def files_to_change(table: Table) -> dict[str, bytes]:
    """Return the files that were made, and few and small committed ones of a table."""
    own: dict[str, bytes] = {}
    is_wide = table.metadata is not None and len(table.metadata.columns) > COLUMN_COUNT_MAX
    for partition in () if is_wide else table.transaction().partitions:
        files = table.files_of(partition)
        if partition.is_parquet and files.has_pm() and partition.token <= CHANGED_BYTES_MAX and len(own) < FILES_MAX:
            with files.open_data() as data:
                own[files.data_label] = data.pread(partition.token, 0)
    return {**made_files(), **own}


class Original:
    """A file, and what it has, which is read once for all of its other forms."""

    def __init__(self, content: bytes) -> None:
        """Read nothing yet."""
        self.content = content

    @functools.cached_property
    def footer(self) -> FileFooter:
        """Its footer."""
        return opened(self.content)

    @functools.cached_property
    def columns(self) -> dict[str, Column]:
        """Its columns of numbers."""
        return columns_of(self.content, self.footer)

    @functools.cached_property
    def text_bounds(self) -> dict[str, tuple[bytes, bytes]]:
        """The smallest and the largest text of each column of texts."""
        rows = pq.read_table(io.BytesIO(self.content))
        texts = {
            name: rows[name].to_pylist() for name in rows.schema.names if rows.schema.field(name).type == pa.string()
        }
        known = {name: [each.encode() for each in found if each is not None] for name, found in texts.items()}
        return {name: (min(found), max(found)) for name, found in known.items() if found}

    @functools.cached_property
    def read_by_others(self) -> str:
        """The rows that pyarrow reads."""
        return _read_by_others(self.content)


@errors_as_problems
def difference(original: Original, form: Form) -> str | None:
    """Say what is different in a file's other form; None if nothing is."""
    return next(_differences(original, form), None)


def failed_controls() -> Iterator[str]:
    """Yield each of some mistakes that is not noticed in a file that was made."""
    content = made_files()[f"{ROW_COUNTS[-1]} rows of numbers"]
    pages, whole = "tornproof.impl.migrate.chunk_form:encode_pages", f"{__name__}:in_form"
    back = "tornproof.impl.migrate.footer_form:former_file"
    tables = "tornproof.impl.extension.columnar:ALIGNMENT_BYTES"
    for name, location, broken, chunks, words in (
        ("values that are larger by one", pages, _larger, ChunkForm.ALP, "has other values"),
        ("pages that are cut", pages, _cut, ChunkForm.ALP, "comes from"),
        ("files of no other form", whole, _in_no_form, ChunkForm.OLD, "its footer is"),
        ("forms of other files", whole, _of_others, ChunkForm.OLD, "its Thrift footer is another one"),
        ("ways back that lead nowhere", back, _forgotten, ChunkForm.ALP, "it is not what it was"),
        ("tables at any offset", tables, lambda _: 4, ChunkForm.OLD, "a number of 8 bytes is at"),
        ("forms of which none is the same again", whole, _grown, ChunkForm.OLD, "another one when it is changed"),
    ):
        form = Form(footer=FooterForm.PRIVATE, chunks=chunks, header=HeaderForm.PLAIN)
        with wrapped(location, broken):
            if words not in (difference(Original(content), form) or ""):
                yield f"{name} were not noticed"


def _larger(encode: Callable[..., bytes]) -> Callable[..., bytes]:
    return lambda values, *more, **settings: encode(_shifted(values), *more, **settings)


def _shifted(values: pa.Array) -> pa.Array:
    return pa.compute.add(values, pa.scalar(1, values.type))


def _cut(encode: Callable[..., bytes]) -> Callable[..., bytes]:
    return lambda *given, **settings: encode(*given, **settings)[:-1]


def _in_no_form(change: Callable[..., bytes]) -> Callable[..., bytes]:
    return lambda content, _, *more: change(content, FooterForm.THRIFT, *more)


def _of_others(change: Callable[..., bytes]) -> Callable[..., bytes]:
    return lambda _, *more: change(few_numbers(), *more)


def _grown(change: Callable[..., bytes]) -> Callable[..., bytes]:
    return lambda content, footer, *more: change(content, footer, *more) + b"?" * (opened(content).form is footer)


def _forgotten(former: Callable[..., Any]) -> Callable[..., Any]:
    return lambda plain: plain


def _differences(original: Original, form: Form) -> Iterator[str]:
    before = original.footer
    changed = in_form(original.content, form.footer, form.chunks, form.header)
    after = opened(changed)
    if (after.form, after.doubt) != (form.footer, None):
        yield f"its footer is {after.form}, with the doubt {after.doubt}"
    if form.chunks is ChunkForm.OLD and after.thrift() != before.thrift():
        yield "its Thrift footer is another one"
    for column, (values, sources, doubts) in columns_of(changed, after).items():
        known = original.columns[column][2] if form.chunks is ChunkForm.OLD else ()
        if (doubts != known and any(doubts)) or set(sources) - {SOURCES[form.chunks]}:
            yield f"column {column} comes from {sources}, with the doubts {doubts}"
        if not is_same(values, original.columns[column][0]):
            yield f"column {column} has other values"
    yield from unaligned(changed)
    if form.chunks is ChunkForm.ALP_ALONE:
        yield from _other_totals(after.decoded())
    yield from _differences_of_chunks(original, changed, after, form)
    yield from _differences_of_indexes(original, changed, after)
    yield from _differences_of_bounds(original, after)
    if form.is_for_others and _read_by_others(changed) != original.read_by_others:
        yield "pyarrow reads other rows"
    if in_form(changed, form.footer, form.chunks, form.header) != changed:
        yield "it is another one when it is changed into the same form again"
    if form.chunks is not ChunkForm.ALP_ALONE:
        back = in_form(changed, FooterForm.THRIFT, ChunkForm.OLD)
        if back != original.content:
            yield "it is not what it was when it is changed back"


def _other_totals(footer: ParquetFooter) -> Iterator[str]:
    """Yield row groups whose sizes are not those of all of their chunks, where each chunk is there once."""
    for number, group in enumerate(structs_in(footer.tree, FOOTER["row_groups"])):
        facts = [meta_of(chunk) for chunk in structs_in(group, GROUP["columns"])]
        for of, name in (("total_byte_size", "total_uncompressed_size"), ("total_compressed_size",) * 2):
            total, sizes = value_of(group, GROUP[of]), [value_of(each, META[name]) for each in facts]
            expected = sum(size for size in sizes if isinstance(size, int))
            if total is not None and total != expected:
                yield f"row group {number} is said to have {total!r} bytes, and its chunks have {expected}"


def unaligned(content: bytes) -> list[str]:
    """Return each number of a footer in FlatBuffers that is not at a multiple of its size.

    Programs in C++ and Rust reject such a footer: https://flatbuffers.dev/internals/.
    """
    found = list[str]()
    get = flatbuffers.table.Table.Get

    def noting(table: Any, kind: Any, offset_bytes: int) -> Any:
        if offset_bytes % kind.bytewidth:
            found.append(f"a number of {kind.bytewidth} bytes is at byte {offset_bytes} of its FlatBuffers")
        return get(table, kind, offset_bytes)

    with patch.object(flatbuffers.table.Table, "Get", noting):
        footer = opened(content)
        for place in _places(footer.decoded()):
            footer.chunk(*place)
    return found


def _differences_of_chunks(original: Original, changed: bytes, after: FileFooter, form: Form) -> Iterator[str]:
    """Compare what the footers say of chunks, of which new ones are elsewhere, and their bloom filters."""
    before = original.footer
    footer = before.decoded()
    for row_group, column in _places(footer):
        old, new = before.chunk(row_group, column), after.chunk(row_group, column)
        fields = old._fields if form.chunks is ChunkForm.OLD else SAME
        different = [name for name in fields if getattr(old, name) != getattr(new, name)]
        if different:
            yield f"chunk {column} of row group {row_group} has another {different[0]}"
        if _filter_of(original.content, old) != _filter_of(changed, new):
            yield f"chunk {column} of row group {row_group} has another bloom filter"


def _places(footer: ParquetFooter) -> list[tuple[int, int]]:
    """Return which chunks are looked at, as row groups and columns."""
    chunks = [*product(range(len(footer.row_groups)), range(len(footer.leaves)))]
    return chunks[:: len(chunks) // CHUNKS_COMPARED_MAX + 1]


def _differences_of_indexes(original: Original, changed: bytes, after: FileFooter) -> Iterator[str]:
    """Compare the indexes of pages that are still there, and the pages that they lead to."""
    before, footer = original.footer.decoded(), after.decoded()
    for row_group, column in _places(before):
        old = _indexes_of(original.content, before, row_group, column)
        if _indexes_of(changed, footer, row_group, column) not in (old, {}):
            yield f"chunk {column} of row group {row_group} has other indexes of pages"


def _indexes_of(content: bytes, footer: ParquetFooter, row_group: int, column: int) -> dict[str, Any]:
    """Return the bytes of a chunk's column index, and those of the pages that its offset index names."""
    group = structs_in(footer.tree, FOOTER["row_groups"])[row_group]
    facts, found = read(structs_in(group, GROUP["columns"])[column], COLUMN_CHUNK), dict[str, Any]()
    for name in ("column_index", "offset_index"):
        if (start := facts.get(f"{name}_offset")) is not None:
            found[name] = content[start : start + facts[f"{name}_length"]]
    if "offset_index" in found:
        pages = read(decode(found["offset_index"], file=FILE)[0], OFFSET_INDEX)["page_locations"]
        found["offset_index"] = [content[page["offset"] :][: page["compressed_page_size"]] for page in pages]
    return found


def _filter_of(content: bytes, chunk: ChunkFacts) -> bytes:
    start = chunk.bloom_filter_offset or 0
    return content[start : start + (chunk.bloom_filter_length or 0)]


def _differences_of_bounds(original: Original, after: FileFooter) -> Iterator[str]:
    """Compare the bounds of texts, which may be cut, with the texts."""
    footer = after.decoded()
    for column, leaf in enumerate(footer.leaves):
        found = original.text_bounds.get(leaf.dotted_path)
        if found is not None:
            bounds = [
                after.chunk(row_group, column).bound_values(PhysicalType.BYTE_ARRAY)
                for row_group in range(len(footer.row_groups))
            ]
            low, high = min(each[0] or b"" for each in bounds), max(each[1] or b"\xff" for each in bounds)
            if not low <= found[0] <= found[1] <= high:
                yield f"column {leaf.dotted_path} has bounds that its texts are not between"


def in_form(content: bytes, footer: FooterForm, chunks: ChunkForm, header: HeaderForm = HeaderForm.PLAIN) -> bytes:
    """Return a file in another form."""
    storage = MemoryStorage.of(DiskImage.of_files({FILE: content}))
    change_footer_form(storage, FILE, footer, chunks=chunks, out=CHANGED, header=header)
    with storage.open_for_reading(CHANGED) as file:
        return file.pread(file.size_bytes(), 0)


def duplicated_file(row_count: int, group_rows: int, *, added: int = 0) -> bytes:
    """Return a small file of two columns whose chunks are all there twice."""
    number = np.arange(row_count) + added
    rows = pa.table({"whole": number * 1_001, "parts": number / 4})
    return in_form(parquet_of(rows, row_group_size=group_rows), FooterForm.THRIFT, ChunkForm.ALP)


def opened(content: bytes) -> FileFooter:
    """Return the footer of a file."""
    return read_file_footer(reader_of(content), len(content), file=FILE)


def reader_of(content: bytes) -> Callable[[int, int], bytes]:
    """Return a function that reads so many bytes of a file from an offset on."""
    return lambda size_bytes, offset_bytes: content[offset_bytes : offset_bytes + size_bytes]


def columns_of(content: bytes, footer: FileFooter) -> dict[str, Column]:
    """Return the columns of numbers, by their names."""
    decoded = footer.decoded()
    found: dict[str, Column] = {}
    for leaf in decoded.leaves:
        if is_encodable(leaf):
            column = read_column_values(reader_of(content), decoded, leaf.dotted_path, file=FILE)
            found[leaf.dotted_path] = (column.values, column.sources, column.doubts)
    return found


def _read_by_others(content: bytes) -> str:
    """Return the rows that pyarrow reads, as a text because NaN is not equal to itself."""
    rows = pq.read_table(io.BytesIO(content))
    return repr({name: _as_numbers(rows[name]).to_pylist() for name in rows.column_names})


def _as_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times and days as their numbers, because Python's have no nanoseconds, and none beyond the year 9999."""
    if not pa.types.is_temporal(column.type):
        return column
    return column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())


def is_same(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    """Whether arrays are equal to the bit; a null has no bits."""
    return [_bits(chunk) for chunk in one.chunks] == [_bits(chunk) for chunk in other.chunks]


def _bits(array: pa.Array) -> tuple[list[bool], bytes]:
    return array.is_valid().to_pylist(), array.drop_null().to_numpy(zero_copy_only=False).tobytes()


def parquet_of(rows: pa.Table, **settings: Any) -> bytes:
    """Return a file of rows as pyarrow writes it, without the schema of Arrow."""
    target = io.BytesIO()
    pq.write_table(rows, target, **{"store_schema": False, **settings})
    return target.getvalue()


def _written(rows: pa.Table, **settings: Any) -> bytes:
    filters = {name: {"ndv": ROWS_IN_GROUP, "fpp": 0.01} for name in ("wide", "texts") if name in rows.schema.names}
    options = {"data_page_size": 2_000, "row_group_size": ROWS_IN_GROUP, "bloom_filter_options": filters}
    return parquet_of(rows, **{**options, **settings})


def _extended_by_others(content: bytes) -> bytes:
    """Return a file with an extension of an unknown UUID in the metadata of each chunk."""
    footer = opened(content).decoded()
    groups = [
        with_fields(group, struct_list(GROUP["columns"], map(_extended, structs_in(group, GROUP["columns"]))))
        for group in structs_in(footer.tree, FOOTER["row_groups"])
    ]
    thrift = encode(with_fields(footer.tree, struct_list(FOOTER["row_groups"], groups)))
    return content[: footer.offset_bytes] + footer_tail(thrift, FooterForm.THRIFT, file=FILE)


def _extended(chunk: Struct) -> Struct:
    return with_meta(chunk, with_extension(meta_of(chunk), OF_SOMEBODY_ELSE))


def _numbers(count: int) -> pa.Table:
    """Return numbers of all kinds that the encodings tell apart: narrow and wide ones, outliers, decimals, nulls."""
    number = np.arange(count)
    mixed = (number * 2_654_435_761) % (1 << 32)
    rare, never = number % 97 == 3, np.zeros(count, bool)
    decimals = mixed % 100_000 / 100
    wild = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e308, 5e-324, 1 / 3])[number % 8]
    columns = {
        "narrow": (np.int32(1_000) + (mixed % 200).astype(np.int32), never),
        "outliers": (np.where(rare, mixed.astype(np.int64) << 30, mixed % 50), number % 7 == 0),
        "wide": ((mixed.astype(np.int64) << 31) - (1 << 62), never),
        "all the same": (np.full(count, -5, np.int32), number % 2 == 0),
        "times": (np.datetime64("2026-01-01", "us") + number * 1_000 + mixed % 7, never),
        "far times": (np.datetime64(1 << 60, "us") + number, never),
        "fine times": (np.datetime64("2026-01-01", "ns") + number * 1_001, never),
        "decimals": (np.where(rare, wild, decimals), number % 11 == 0),
        "wild": (wild, never),
        "floats": ((mixed % 4_096 / 8).astype(np.float32), number % 5 == 0),
        "texts": (np.array([f"{each:03d}{LONG_END}" for each in number % 1_000], object), number % 13 == 0),
        "nulls": (number.astype(np.float64), ~never),
    }
    arrays = {name: pa.array(values, mask=nulls) for name, (values, nulls) in columns.items()}
    # A chunk of lists has another number of values than rows.
    lists = pa.array([[float(each)] * (each % 4) for each in number], pa.list_(pa.float64()))
    return pa.table({**arrays, "lists": lists})
