"""From the bytes of one column chunk to an Arrow array of the column's final type.

No footer is read: page headers are checked first, then pyarrow decodes with metadata made for this chunk alone, then
the values are compared with their statistics in `_pm`. Memory is bounded before anything is decoded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from tornproof.impl.chunk.earlier_bounds import check_bounds_of_pages
from tornproof.impl.chunk.expansion import (
    PYARROW_ERRORS,
    bound_bytes,
    check_expansion,
    fixed_width_bytes,
    value_byte_count,
)
from tornproof.impl.chunk.metadata import Leaf, chunk_metadata
from tornproof.impl.chunk.page_index import data_pages
from tornproof.impl.chunk.statistics import (
    check_counts,
    raise_corrupt,
    raise_unsupported,
    without_older_rows,
)
from tornproof.impl.parquet.arrow_reader import FileMetaData, open_reader
from tornproof.impl.parquet.fields import BY_DICTIONARY, OF_DICTIONARIES, Codec, PageEncoding, PageType
from tornproof.impl.parquet.pages import PageInfo, walk_pages
from tornproof.impl.pm.block import Chunk
from tornproof.impl.pm.footer_comparison import encodings_mask
from tornproof.impl.pm.header import Column
from tornproof.impl.pm.statistics import are_signed_addresses
from tornproof.impl.types.arrow import arrow_type, is_double_array, valid_decimal_shape
from tornproof.impl.types.physical import PhysicalType
from tornproof.impl.types.questdb import TypeTag, array_dimensions, tag_of
from tornproof.impl.types.raw_arrays import lists_of

VALUE_COUNT_MAX = 1 << 24
ASCII_END = 0x80
FEW_BYTES = 4096
"""So many are copied and compared by Python before NumPy has begun."""
USUAL_LEVELS = (PageEncoding.RLE, PageEncoding.RLE)

_INTEGER_TAGS = {
    TypeTag.BYTE,
    TypeTag.SHORT,
    TypeTag.CHAR,
    TypeTag.INT,
    TypeTag.IPV4,
    TypeTag.GEOBYTE,
    TypeTag.GEOSHORT,
    TypeTag.GEOINT,
}
_DECIMAL_PHYSICAL_TYPES = {
    PhysicalType.INT32,
    PhysicalType.INT64,
    PhysicalType.BYTE_ARRAY,
    PhysicalType.FIXED_LEN_BYTE_ARRAY,
}
_PHYSICAL_TYPES = {
    TypeTag.BOOLEAN: {PhysicalType.BOOLEAN},
    TypeTag.LONG: {PhysicalType.INT64},
    TypeTag.GEOLONG: {PhysicalType.INT64},
    TypeTag.DATE: {PhysicalType.INT32, PhysicalType.INT64},
    TypeTag.TIMESTAMP: {PhysicalType.INT64, PhysicalType.INT96},
    TypeTag.FLOAT: {PhysicalType.FLOAT},
    TypeTag.DOUBLE: {PhysicalType.DOUBLE},
    TypeTag.STRING: {PhysicalType.BYTE_ARRAY},
    TypeTag.SYMBOL: {PhysicalType.BYTE_ARRAY},
    TypeTag.VARCHAR: {PhysicalType.BYTE_ARRAY},
    TypeTag.BINARY: {PhysicalType.BYTE_ARRAY},
    TypeTag.UUID: {PhysicalType.FIXED_LEN_BYTE_ARRAY},
    TypeTag.LONG128: {PhysicalType.FIXED_LEN_BYTE_ARRAY},
    TypeTag.LONG256: {PhysicalType.FIXED_LEN_BYTE_ARRAY},
    TypeTag.ARRAY: {PhysicalType.BYTE_ARRAY, PhysicalType.DOUBLE},
    **{tag: {PhysicalType.INT32} for tag in _INTEGER_TAGS},
    **{tag: _DECIMAL_PHYSICAL_TYPES for tag in TypeTag if tag.name.startswith("DECIMAL")},
}
Rejection: TypeAlias = Callable[[Column, Chunk, str], NoReturn]
"""Raises the error about a column, with the position of a chunk."""

_FIXED_BYTE_LENS = {TypeTag.UUID: 16, TypeTag.LONG128: 16, TypeTag.LONG256: 32}


def decode_chunk(content: bytes, column: Column, chunk: Chunk, *, file: str) -> pa.Array:
    """Return the values of a chunk in the column's `arrow_type`.

    `content` is data.parquet from the chunk's `byte_range_start` to its `byte_range_end`; offsets in errors count from
    the start of that file. Levels are read by MAX_DEF and MAX_REP, not by FLAGS (docs/format.md). Raises CorruptError
    for bytes that do not decode or contradict `_pm`, UnsupportedError for unknown features and for what would take too
    much memory (2^24 values; 64 MiB, or 64 times the chunk's bytes). Nested lists have fewer rows than values, so the
    caller checks their count (`check_rows`).
    """
    return decode_checked(content, column, chunk, check_pages(content, column, chunk, file=file), file=file)


class CheckedPages(msgspec.Struct, frozen=True, kw_only=True):
    """Pages that may be decoded, to at most so many bytes; None if only the dictionary's real lengths show how many."""

    leaf: Leaf
    pages: tuple[PageInfo, ...]
    expanded_bytes: int | None


def check_pages(content: bytes, column: Column, chunk: Chunk, *, file: str) -> CheckedPages:
    """Check everything but the values: type, page headers, checksums, memory; raises as `decode_chunk`."""
    leaf = leaf_of(column)
    if not isinstance(leaf, Leaf):
        leaf(column, chunk, file)
    if len(content) != chunk.total_compressed:
        raise_corrupt(
            column, chunk, file, "TOTAL_COMPRESSED", f"{len(content)}, the bytes there", chunk.total_compressed
        )
    if chunk.num_values > VALUE_COUNT_MAX:
        raise_unsupported(column, chunk, file, "NUM_VALUES", f"at most {VALUE_COUNT_MAX}", chunk.num_values)
    if chunk.codec == Codec.LZO:
        raise_unsupported(column, chunk, file, "CODEC", "a codec that pyarrow knows", "LZO")
    pages = pages_of(content, chunk, file=file)
    return CheckedPages(
        leaf=leaf, pages=pages, expanded_bytes=check_expansion(content, leaf, pages, column, chunk, file)
    )


def decode_checked(content: bytes, column: Column, chunk: Chunk, checked: CheckedPages, *, file: str) -> pa.Array:
    """Decode pages that `check_pages` accepted; raises as `decode_chunk`."""
    stored, _ = judged_values(content, column, chunk, checked, file=file)
    return final_values(stored, column, chunk, file)


def judged_values(
    content: bytes, column: Column, chunk: Chunk, checked: CheckedPages, *, file: str
) -> tuple[pa.Array, bool]:
    """Return the values of pages that `check_pages` accepted as they are stored; raises as `decode_chunk`.

    Also return whether bounds leave some out as those that earlier servers made of pages do.
    """
    content = _without_empty_pages(content, chunk, checked.pages)
    stored = _read(content, checked.leaf, column, chunk, file, as_dictionary=checked.expanded_bytes is None)
    if checked.leaf.dimensions == 0:
        is_vouched = are_vouched(checked.pages, column, chunk)
        row_counts = [page.value_count for page in data_pages(checked.pages)]
        return stored, check_values(stored, column, chunk, row_counts, is_vouched=is_vouched, file=file)
    return stored, False


def _without_empty_pages(content: bytes, chunk: Chunk, pages: tuple[PageInfo, ...]) -> bytes:
    """Return a chunk's bytes without data pages of no values, at which pyarrow takes a column of lists for ended."""
    kept = [page for page in pages if page.value_count or page.kind is PageType.DICTIONARY]
    if len(kept) == len(pages) or not chunk.num_values:
        return content
    start = chunk.byte_range_start
    return b"".join(content[page.header_offset_bytes - start : page.end_bytes - start] for page in kept)


def check_values(
    stored: pa.Array, column: Column, chunk: Chunk, row_counts: Sequence[int], *, is_vouched: bool, file: str
) -> bool:
    """Compare values as stored, so many in each page, with `_pm`, and return as `judged_values`; raises CorruptError.

    Values whose pages have checksums are compared only if they are timestamps: every table has them, and they reveal
    metadata that describes other rows at the same offsets; or if their bounds are right for no one but earlier servers.
    """
    stored = without_older_rows(stored, column, chunk)
    check_counts(stored, column, chunk, file=file)
    if tag_of(column.type) is TypeTag.TIMESTAMP or not is_vouched or are_signed_addresses(column, chunk):
        return check_bounds_of_pages(stored, column, chunk, row_counts, file=file)
    return False


def pages_of(content: bytes, chunk: Chunk, *, file: str) -> tuple[PageInfo, ...]:
    """Return the checked pages of the chunk whose bytes are `content`; raises as `walk_pages` does."""
    return walk_pages(
        content,
        file=file,
        offset_bytes=chunk.byte_range_start,
        codec=chunk.codec,
        value_count=chunk.num_values,
    )


def are_vouched(pages: tuple[PageInfo, ...], column: Column, chunk: Chunk) -> bool:
    """Whether the checksums that `pages_of` verified prove that the pages are unchanged, to the byte.

    A checksum covers a page's body, not its header. `pages_of` compares the header's sizes and counts with the chunk's,
    and the encoding of values must be the only one that the chunk's ENCODINGS, under the CRC of `_pm`, allow. How a v2
    page's header divides its body is confirmed by nothing, and how many texts a dictionary has neither.
    """
    if None in [page.crc for page in pages]:
        return False
    has_dictionary = bool(pages) and pages[0].kind is PageType.DICTIONARY
    data_pages = pages[1:] if has_dictionary else pages
    encodings = {page.encoding for page in data_pages}
    masks = [encodings_mask((encoding,)) for encoding in encodings]
    return (
        all(page.kind is PageType.DATA_V1 and page.level_encodings == USUAL_LEVELS for page in data_pages)
        # Encodings used only for levels have no bit.
        and all(mask and mask & chunk.encodings for mask in masks)
        and (encodings <= BY_DICTIONARY and _is_filled(pages[0], column) if has_dictionary else len(encodings) <= 1)
    )


def _is_filled(dictionary: PageInfo, column: Column) -> bool:
    """Whether a dictionary is exactly as large as its number of values says."""
    size_bytes = dictionary.value_count * fixed_width_bytes(column.physical_type, column.fixed_byte_len)
    return dictionary.encoding in OF_DICTIONARIES and size_bytes == dictionary.uncompressed_size_bytes


@functools.lru_cache(maxsize=4096)
def leaf_of(column: Column) -> Leaf | Rejection:
    """Return how to read the column, after checking that type, physical type and levels are consistent."""
    tag, dimensions = tag_of(column.type), column.max_rep_level
    if tag is not None and column.physical_type not in _PHYSICAL_TYPES[tag]:
        expected = f"one that {tag.name} is stored as"
        return partial(raise_corrupt, field="PHYSICAL_TYPE", expected=expected, actual=column.physical_type)
    if tag in _FIXED_BYTE_LENS and column.fixed_byte_len != _FIXED_BYTE_LENS[tag]:
        expected = str(_FIXED_BYTE_LENS[tag])
        return partial(raise_corrupt, field="FIXED_BYTE_LEN", expected=expected, actual=column.fixed_byte_len)
    if dimensions == 0 and column.max_def_level <= 1 and not _is_nested_array(column):
        return Leaf(
            physical_type=column.physical_type,
            fixed_byte_len=column.fixed_byte_len,
            is_optional=column.max_def_level == 1,
            decimal=valid_decimal_shape(column.type),
        )
    all_optional, only_outer_optional = 2 * dimensions + 1, dimensions + 2
    if (
        not _is_nested_array(column)
        or dimensions != array_dimensions(column.type)
        or column.max_def_level not in (all_optional, only_outer_optional)
    ):
        levels = f"type {column.type}, repetition level {dimensions}, definition level {column.max_def_level}"
        expected = "a flat column or lists of doubles, one level a dimension"
        return partial(raise_unsupported, field="levels", expected=expected, actual=levels)
    return Leaf(
        physical_type=PhysicalType.DOUBLE, dimensions=dimensions, lists_optional=column.max_def_level == all_optional
    )


def _is_nested_array(column: Column) -> bool:
    return is_double_array(column.type) and column.physical_type == PhysicalType.DOUBLE


def _read(content: bytes, leaf: Leaf, column: Column, chunk: Chunk, file: str, *, as_dictionary: bool) -> pa.Array:
    """Return the chunk's values as they are stored."""
    try:
        metadata = chunk_metadata(leaf, chunk.codec, chunk.num_values, len(content))
    except PYARROW_ERRORS as error:
        raise_corrupt(column, chunk, file, "TYPE", "a type that its physical type can hold", f"{column.type} ({error})")
    try:
        reader = open_reader(content, metadata, dictionary_columns=(0,) if as_dictionary else ())
        values = validated(reader.read_column(0))
        is_out_of_range = leaf.physical_type == PhysicalType.INT96 and _wraps(values, content, metadata)
    except PYARROW_ERRORS as error:
        raise_corrupt(column, chunk, file, "page", "pages that decode", error)
    if is_out_of_range:
        raise_unsupported(column, chunk, file, "page", "times from 1677 to 2262", "others")
    return _expand(values, column, chunk, file) if pa.types.is_dictionary(values.type) else values


def _wraps(nanoseconds: pa.Array, content: bytes, metadata: FileMetaData) -> bool:
    """Whether pyarrow made nanoseconds of a time that they cannot hold: then microseconds are other ones."""
    microseconds = open_reader(content, metadata, int96_unit="us").read_column(0)
    # NumPy has no nulls in integers, and makes NaN of them, which is not equal to itself.
    floored = nanoseconds.view(pa.int64()).fill_null(0).to_numpy() // 1_000
    return not bool(np.array_equal(floored, microseconds.cast(pa.int64()).fill_null(0).to_numpy()))


def validated(column: pa.ChunkedArray) -> pa.Array:
    """Return a column that pyarrow read in one part; raises pyarrow's errors for values that it cannot hold."""
    # Combining a single part would copy it.
    values = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    # pyarrow made the offsets, but indices and numbers with too many digits come from the file.
    values.validate(full=not pa.types.is_binary(values.type))
    return values


def _expand(values: pa.DictionaryArray, column: Column, chunk: Chunk, file: str) -> pa.Array:
    """Return a dictionary array as plain values, after checking that their total length is within the bound."""
    expanded_bytes = value_byte_count(values)
    if expanded_bytes > bound_bytes(chunk):
        raise_unsupported(column, chunk, file, "pages", f"at most {bound_bytes(chunk)} bytes of values", expanded_bytes)
    return values.dictionary_decode()


def final_values(stored: pa.Array, column: Column, chunk: Chunk, file: str) -> pa.Array:
    """Return stored values in the column's type; raises only for values that the type cannot hold."""
    final = arrow_type(column.type, physical_type=column.physical_type, fixed_byte_len=column.fixed_byte_len)
    if stored.type == final:
        return stored
    if pa.types.is_list(stored.type):
        _check_inner_lists(stored, column, chunk, file)
    if is_double_array(column.type) and pa.types.is_binary(stored.type):
        field = f"values of column {column.name!r}"
        dimensions = array_dimensions(column.type)
        return lists_of(stored, dimensions, file=file, field=field, offset_bytes=chunk.byte_range_start)
    if isinstance(final, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(final, stored)
    try:
        if column.physical_type == PhysicalType.INT96:
            # These are nanoseconds, whatever the type of the column is.
            return stored.cast(final)
        if tag_of(column.type) is TypeTag.DATE and column.physical_type == PhysicalType.INT32:
            return stored.view(pa.date32()).cast(pa.timestamp("ms")).view(final)
        if pa.types.is_timestamp(final) or final == pa.uint32() or (final == pa.string() and _is_ascii(stored)):
            return stored.view(final)
        return stored.cast(final)
    except PYARROW_ERRORS as error:
        raise_corrupt(column, chunk, file, "values", f"values of type {final}", error)


def _is_ascii(stored: pa.Array) -> bool:
    """Whether all bytes of an array of texts are ASCII, and therefore valid UTF-8."""
    if not pa.types.is_binary(stored.type):
        return False
    content = stored.buffers()[2]
    if content is not None and content.size <= FEW_BYTES:
        return bool(content.to_pybytes().isascii())
    return content is None or bool(np.frombuffer(content, np.uint8).max(initial=0) < ASCII_END)


def _check_inner_lists(lists: pa.ListArray, column: Column, chunk: Chunk, file: str) -> None:
    """Reject null lists inside arrays, which the array type does not allow but a cast accepts."""
    while pa.types.is_list(lists.type.value_type):
        lists = lists.values
        if lists.null_count:
            raise_corrupt(column, chunk, file, "values", "no null inside an array except elements", "a null list")
