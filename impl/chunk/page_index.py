"""The two indexes of a chunk's pages, by which other readers skip pages, compared with the pages and their values.

Readers of tables here do without them. Source: parquet.thrift of Apache Parquet format, OffsetIndex and ColumnIndex.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any, NoReturn

import msgspec
import pyarrow as pa

from tornproof.impl.chunk.earlier_bounds import signed_extremes_of
from tornproof.impl.chunk.statistics import FEW_VALUES, extremes_of, has_known_order, is_nan
from tornproof.impl.errors import CorruptError
from tornproof.impl.parquet.fields import COLUMN_INDEX, OFFSET_INDEX, BoundaryOrder, PageType
from tornproof.impl.parquet.pages import PageInfo
from tornproof.impl.parquet.records import Table, read
from tornproof.impl.parquet.thrift import TRUE, BrokenError, Step, decode
from tornproof.impl.pm.block import Chunk
from tornproof.impl.pm.header import Column
from tornproof.impl.pm.statistics import are_signed, are_unsigned, has_known_maximum, value_of
from tornproof.impl.types.compute import compute
from tornproof.impl.types.questdb import TypeTag, tag_of

NODES_OF_PAGE_MAX, NODES_MAX = 128, 1_000
"""What an index may have for each page, with counts of all levels of lists, and besides."""


class StoredIndex(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of one index, its position, and of which column and row group it is."""

    content: bytes
    offset_bytes: int
    file: str
    owner: str

    def decoded(self, table: Table, page_count: int) -> dict[str, Any]:
        """Return the members of the index of so many pages; raises CorruptError, UnsupportedError."""

        def path_of(steps: Sequence[Step]) -> str:
            return f"{table.name}.{table.path_text(steps)} of {self.owner}"

        tree, _ = decode(
            self.content,
            file=self.file,
            offset_bytes=self.offset_bytes,
            node_count_max=NODES_OF_PAGE_MAX * page_count + NODES_MAX,
            path_of=path_of,
        )
        try:
            return read(tree, table)
        except BrokenError as error:
            error.report(self.file, path_of)

    def reject(self, what: str, expected: object, actual: object) -> NoReturn:
        """Raise CorruptError about a part of the index."""
        raise CorruptError(self.file, f"{what} of {self.owner}", self.offset_bytes, expected, actual)


def check_offset_index(index: StoredIndex, pages: Sequence[PageInfo], *, is_flat: bool) -> None:
    """Raise CorruptError unless the index has the position, size and first row of each data page.

    In which row a page of lists begins is only known if its header counts rows.
    """
    pages = data_pages(pages)
    locations = index.decoded(OFFSET_INDEX, len(pages))["page_locations"]
    if len(locations) != len(pages):
        index.reject("pages in offset index", len(pages), len(locations))
    first_row: int | None = 0
    for number, (page, location) in enumerate(zip(pages, locations, strict=True)):
        size_bytes = page.header_length_bytes + page.compressed_size_bytes
        for name, expected in (
            ("offset", page.header_offset_bytes),
            ("compressed_page_size", size_bytes),
            ("first_row_index", first_row),
        ):
            if expected is not None and location[name] != expected:
                index.reject(f"{name} of page {number} in offset index", expected, location[name])
        row_count = page.value_count if is_flat else page.row_count
        first_row = None if first_row is None or row_count is None else first_row + row_count


class ColumnIndex(msgspec.Struct, frozen=True, kw_only=True):
    """What a column index says of each data page; None for bounds of pages without values, and for unknown ones."""

    stored: StoredIndex
    column: Column
    row_counts: tuple[int, ...]
    null_pages: tuple[bool, ...]
    raw_bounds: tuple[tuple[bytes, bytes], ...]
    bounds: tuple[tuple[Any, Any] | None, ...]
    null_counts: tuple[int, ...] | None

    def is_confirmed_by(self, chunk: Chunk) -> bool:
        """Whether the index says of a single page what `_pm` says of the chunk, so that no value is needed."""
        if len(self.row_counts) != 1 or chunk.null_count is None:
            return False
        if self.null_counts is not None and self.null_counts[0] != chunk.null_count:
            return False
        if self.null_pages[0]:
            return chunk.null_count == chunk.num_values
        said = tuple(None if each is None else each.value for each in (chunk.minimum, chunk.maximum))
        return self.raw_bounds[0] == said

    def check_values(self, stored: pa.Array, uncounted_count: int = 0) -> bool:
        """Raise CorruptError unless the index says of each page what its values are, given as they are stored.

        It may leave out the nulls at the start that its chunk leaves out. Return whether bounds of a page are those
        that earlier servers made of addresses.
        """
        has_earlier_bounds = False
        has_null_pages = not self._has_no_bounds()
        if sum(self.null_counts or ()) == stored.null_count:
            # It may also count what the chunk does not.
            uncounted_count = 0
        starts = itertools.accumulate(self.row_counts, initial=0)
        for number, (start, row_count) in enumerate(zip(starts, self.row_counts, strict=False)):
            values = stored.slice(start, row_count)
            null_count = values.null_count - min(max(uncounted_count - start, 0), row_count)
            if self.null_counts is not None and self.null_counts[number] != null_count:
                self._reject("null_counts", number, null_count, self.null_counts[number])
            if self.null_pages[number] and has_null_pages and values.null_count < row_count:
                self._reject("null_pages", number, f"a page with {row_count - values.null_count} values", "nulls only")
            bounds = self.bounds[number]
            if bounds is not None and values.null_count < row_count and not _are_texts_within(values, bounds):
                if are_signed(self.column, *bounds) and bounds == signed_extremes_of(values, self.column):
                    has_earlier_bounds = True
                else:
                    self._check_bounds(number, bounds, extremes_of(values, self.column))
        return has_earlier_bounds

    def _has_no_bounds(self) -> bool:
        """Whether servers call all pages null because such values get no bounds: arrays, and UUID up to 9.3.0."""
        tag = tag_of(self.column.type)
        if tag is not TypeTag.UUID:
            return tag is TypeTag.ARRAY
        return all(self.null_pages) and all(value_of(self.column, low) is None for low, _ in self.raw_bounds)

    def _check_bounds(self, number: int, bounds: tuple[Any, Any], extremes: tuple[Any, Any]) -> None:
        names, comparisons = ("min_values", "max_values"), (operator.le, operator.ge)
        for name, bound, value, holds in zip(names, bounds, extremes, comparisons, strict=True):
            is_known = bound is not None and not is_nan(bound)
            if is_known and value is not None and not is_nan(value) and not holds(bound, value):
                self._reject(name, number, f"a bound of {value!r}, which is in the page", repr(bound))

    def _reject(self, name: str, number: int, expected: object, actual: object) -> NoReturn:
        self.stored.reject(f"{name}[{number}] in column index", expected, actual)


def column_index_of(stored: StoredIndex, column: Column, pages: Sequence[PageInfo]) -> ColumnIndex:
    """Return the column index of pages, after checking that it has something of each, and in the order that it says.

    Raises CorruptError, UnsupportedError.
    """
    row_counts = tuple(page.value_count for page in data_pages(pages))
    values = stored.decoded(COLUMN_INDEX, len(row_counts))
    for name in ("null_pages", "min_values", "max_values", "null_counts"):
        count = len(values["null_pages"].elements if name == "null_pages" else values.get(name, row_counts))
        if count != len(row_counts):
            stored.reject(f"{name} in column index", f"those of {len(row_counts)} pages", count)
    null_pages = tuple(each == TRUE for each in values["null_pages"].elements)
    raw_bounds = tuple(zip(values["min_values"], values["max_values"], strict=True))
    pairs = zip(null_pages, raw_bounds, strict=True)
    bounds = tuple(None if is_null else _bounds(stored, column, raw) for is_null, raw in pairs)
    ordered = [each for each in bounds if each is not None and not are_signed(column, *each)]
    _check_order(stored, column, BoundaryOrder(values["boundary_order"]), ordered)
    null_counts = values.get("null_counts")
    return ColumnIndex(
        stored=stored,
        column=column,
        row_counts=row_counts,
        null_pages=null_pages,
        raw_bounds=raw_bounds,
        bounds=bounds,
        null_counts=None if null_counts is None else tuple(null_counts),
    )


def data_pages(pages: Sequence[PageInfo]) -> Sequence[PageInfo]:
    """Return the pages without the dictionary."""
    return [page for page in pages if page.kind is not PageType.DICTIONARY]


def _bounds(stored: StoredIndex, column: Column, raw: tuple[bytes, bytes]) -> tuple[Any, Any] | None:
    """Return the bounds of a page with values as values to compare, None if these have no known order.

    A maximum alone is None where none is known; bounds of addresses with a sign are confirmed by values alone.
    """
    if not has_known_order(column):
        return None
    low: Any = value_of(column, raw[0])
    high: Any = value_of(column, raw[1])
    if low is None or high is None:
        stored.reject("bounds in column index", "bytes of the physical type's width", " and ".join(map(bytes.hex, raw)))
    if not has_known_maximum(column):
        return low, None
    if low > high and not are_signed(column, low, high):
        if are_unsigned(column, low, high):
            return None
        stored.reject("min_values in column index", f"at most the maximum, {high!r}", repr(low))
    return low, high


def _check_order(stored: StoredIndex, column: Column, order: BoundaryOrder, bounds: Sequence[tuple[Any, Any]]) -> None:
    """Raise CorruptError unless minima and maxima of pages with values are in the order that the index says."""
    if order is BoundaryOrder.UNORDERED:
        return
    follows = operator.lt if order is BoundaryOrder.ASCENDING else operator.gt
    for of_all in zip(*bounds, strict=True):
        for before, after in itertools.pairwise(each for each in of_all if each is not None):
            # Never true of a NaN.
            if follows(after, before) and not are_unsigned(column, max(before, after), min(before, after)):
                expected = f"bounds of pages in {order.name} order"
                stored.reject("boundary_order in column index", expected, f"{before!r} before {after!r}")


def _are_texts_within(values: pa.Array, bounds: tuple[Any, Any]) -> bool:
    """Whether values are texts or bytes, and within the bounds, which takes half as long as to find the outermost."""
    if not pa.types.is_binary(values.type) or len(values) <= FEW_VALUES:
        return False
    low, high = (pa.scalar(bound, values.type) for bound in bounds)
    outside = compute("less", values, low), compute("greater", values, high)
    return not any(compute("any", each).as_py() for each in outside)
