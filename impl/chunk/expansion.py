"""What a chunk may cost in memory: a bound on the decoded size of its pages, computed before they are decoded."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tornproof.impl.chunk.metadata import Leaf, chunk_metadata
from tornproof.impl.chunk.shared_prefixes import shared_byte_count
from tornproof.impl.chunk.statistics import raise_corrupt, raise_unsupported
from tornproof.impl.parquet.arrow_reader import open_reader
from tornproof.impl.parquet.fields import BY_DICTIONARY, PageEncoding, PageType
from tornproof.impl.parquet.pages import PageInfo
from tornproof.impl.parquet.single_pages import Integers
from tornproof.impl.pm.block import Chunk
from tornproof.impl.pm.header import Column
from tornproof.impl.types.compute import compute
from tornproof.impl.types.physical import PHYSICAL_WIDTH_BYTES, PhysicalType

EXPANDED_MAX_BYTES = 64 << 20
EXPANSION_MAX = 64
PYARROW_ERRORS = (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError)


def bound_bytes(chunk: Chunk) -> int:
    """Return how many bytes a chunk may decode to, as a multiple of its bytes on disk."""
    return max(EXPANDED_MAX_BYTES, EXPANSION_MAX * chunk.total_compressed)


def expanded_page_bytes(leaf: Leaf, value_count: int, sizes_bytes: Integers, encodings: Integers) -> Integers:
    """Return how many bytes each of many chunks of one page, so large and so encoded, may decode to."""
    is_sharing = leaf.physical_type == PhysicalType.BYTE_ARRAY and encodings == PageEncoding.DELTA_BYTE_ARRAY
    return value_count * fixed_width_bytes(leaf.physical_type, leaf.fixed_byte_len) + np.where(
        is_sharing, (value_count + 1) * sizes_bytes, sizes_bytes
    )


def check_expansion(
    content: bytes, leaf: Leaf, pages: tuple[PageInfo, ...], column: Column, chunk: Chunk, file: str
) -> int | None:
    """Return how many bytes pages may decode to, besides offsets; None if only the dictionary's real lengths show it.

    Raises CorruptError for broken pages, UnsupportedError for pages that may decode to too much.
    """
    physical = column.physical_type
    width_bytes = fixed_width_bytes(physical, column.fixed_byte_len)
    dictionary = pages[0] if pages and pages[0].kind is PageType.DICTIONARY else None
    dictionary_bytes = dictionary.uncompressed_size_bytes if dictionary else 0
    if dictionary is not None and dictionary.value_count > dictionary_bytes:
        raise_corrupt(
            column, chunk, file, "dictionary page", f"values in {dictionary_bytes} bytes", dictionary.value_count
        )
    data_pages = pages[1:] if dictionary else pages
    of_any_width = data_pages if physical == PhysicalType.BYTE_ARRAY else ()
    sharing = [page for page in of_any_width if page.encoding == PageEncoding.DELTA_BYTE_ARRAY]
    plain_bytes = chunk.num_values * width_bytes + sum([page.uncompressed_size_bytes for page in pages])
    by_dictionary_bytes = dictionary_bytes and dictionary_bytes * sum(
        page.value_count for page in of_any_width if page.encoding in BY_DICTIONARY
    )
    # Each value can repeat everything before it in its page.
    shared_bytes = sum([page.value_count * page.uncompressed_size_bytes for page in sharing])
    bound = bound_bytes(chunk)
    if (expanded_bytes := plain_bytes + by_dictionary_bytes + shared_bytes) <= bound:
        return expanded_bytes
    if sharing:
        try:
            shared_bytes = shared_byte_count(content, sharing, chunk, is_optional=leaf.is_optional)
        except PYARROW_ERRORS as error:
            raise_corrupt(column, chunk, file, "page", "pages that decode", error)
        if (expanded_bytes := plain_bytes + by_dictionary_bytes + shared_bytes) <= bound:
            return expanded_bytes
    # pyarrow builds dictionaries from plain pages too, but not from the other encodings.
    has_other_pages = any(page.encoding not in {PageEncoding.PLAIN, *BY_DICTIONARY} for page in data_pages)
    # A writer that gives up its dictionary goes on in another encoding: pages that refer to it are the first ones.
    first = list(itertools.takewhile(lambda page: page.encoding in BY_DICTIONARY, data_pages))
    is_given_up = has_other_pages and not any(page.encoding in BY_DICTIONARY for page in data_pages[len(first) :])
    if plain_bytes <= bound and by_dictionary_bytes and is_given_up:
        try:
            by_dictionary_bytes = _by_dictionary_byte_count(content, leaf, first, chunk)
        except PYARROW_ERRORS as error:
            raise_corrupt(column, chunk, file, "page", "pages that decode", error)
        if (expanded_bytes := plain_bytes + by_dictionary_bytes + shared_bytes) <= bound:
            return expanded_bytes
    if plain_bytes > bound or has_other_pages:
        expected = f"pages that cannot decode to more than {bound} bytes"
        raise_unsupported(column, chunk, file, "pages", expected, expanded_bytes)
    return None


def _by_dictionary_byte_count(content: bytes, leaf: Leaf, pages: Sequence[PageInfo], chunk: Chunk) -> int:
    """Return how many bytes the values of pages have that refer to a dictionary; raises pyarrow's errors."""
    size_bytes = pages[-1].end_bytes - chunk.byte_range_start
    metadata = chunk_metadata(leaf, chunk.codec, sum(page.value_count for page in pages), size_bytes)
    found = open_reader(content[:size_bytes], metadata, dictionary_columns=(0,)).read_column(0)
    return sum(value_byte_count(part) for part in found.chunks)


def value_byte_count(values: pa.DictionaryArray) -> int:
    """Return how many bytes the values of a dictionary array have without the dictionary."""
    lengths = compute("binary_length", values.dictionary).cast(pa.int64())
    return compute("sum", lengths.take(values.indices)).as_py() or 0


def fixed_width_bytes(physical_type: int, fixed_byte_len: int) -> int:
    """Return the bytes of a value, 0 if they vary."""
    is_fixed = physical_type == PhysicalType.FIXED_LEN_BYTE_ARRAY
    return max(0, fixed_byte_len) if is_fixed else PHYSICAL_WIDTH_BYTES.get(physical_type, 0)
