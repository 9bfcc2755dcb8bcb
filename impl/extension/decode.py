"""A FlatBuffers footer, whose checksums were right: one chunk at once, or the Thrift footer that it was made from.

Nothing verifies FlatBuffers in Python, and right checksums only say that nobody damaged the bytes. So every count is
checked against the bytes that it claims, all that is copied is counted, and offsets out of range raise CorruptError.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tornproof.impl.errors import CorruptError
from tornproof.impl.extension import parquet3_generated as schema
from tornproof.impl.extension.chunks import NUMBERED, ChunkFacts, facts_of_table
from tornproof.impl.extension.encode import (
    FILE,
    THRIFT_SIZE_MAX_BYTES,
    element_stated,
    file_stated,
    group_stated,
    leaf_path,
    pair_stated,
)
from tornproof.impl.extension.skeleton import Stated, struct_of_skeleton
from tornproof.impl.parquet.fields import SCHEMA_ELEMENT
from tornproof.impl.parquet.records import read
from tornproof.impl.parquet.schema import read_leaves
from tornproof.impl.parquet.thrift import BrokenError, decode
from tornproof.impl.storage.checksum import large_crc32

OFFSET_SIZE_BYTES = 4
# What the accessors raise for offsets that lead elsewhere.
BROKEN = (struct.error, IndexError, TypeError, ValueError, AttributeError, OverflowError, BrokenError)
ELEMENT_NAMES = ("type", "repetition_type", "type_length", "num_children", "field_id")
GROUP_NAMES = ("total_byte_size", "num_rows", "file_offset", "total_compressed_size", "ordinal")


class FlatFooter:
    """A FlatBuffers footer in `content`, of which nothing is read before it is asked for."""

    def __init__(self, content: bytes | memoryview, *, file: str) -> None:
        """Read the root table; raises CorruptError."""
        self._content, self._file = content, file
        with self._reading("root table"):
            self._root = schema.FileMetaData.GetRootAs(content, 0)
            self.row_count = self._root.NumRows()

    @property
    def extension(self) -> bytes | None:
        """The extension of this footer itself, or None."""
        with self._reading("extension"):
            return None if self._root.ExtensionIsNone() else self._bytes(self._root.ExtensionAsNumpy())

    @property
    def row_group_count(self) -> int:
        """The number of row groups."""
        with self._reading("row_groups"):
            return self._count(self._root.RowGroupsLength())

    def chunk(self, row_group: int, column: int) -> ChunkFacts:
        """Return what the footer says of one chunk, without reading others; raises IndexError, CorruptError."""
        with self._reading("row_groups"):
            group = self._root.RowGroups(row_group) if 0 <= row_group < self._root.RowGroupsLength() else None
            if group is not None and 0 <= column < group.ColumnsLength():
                return facts_of_table(group.Columns(column), group.NumRows())
        raise IndexError(f"there is no column {column} of row group {row_group}")

    def thrift_identity(self) -> tuple[int, int] | None:
        """Return size and checksum of the Thrift footer that this one was made from; None where it does not say."""
        with self._reading("rest"):
            rest = self._root.Rest()
            return None if rest is None else (rest.ThriftSize(), rest.ThriftCrc())

    def thrift(self) -> bytes:
        """Return the Thrift footer that this one was made from, byte for byte; raises CorruptError."""
        with self._reading("rest"):
            made = _Restoration(self._root, self._content).thrift()
        if (len(made), large_crc32(made)) != self.thrift_identity():
            raise CorruptError(self._file, "rest", None, "the Thrift footer that it was made from", "another one")
        return made

    def _count(self, count: int) -> int:
        return checked_count(count, len(self._content))

    def _bytes(self, vector: Any) -> bytes:
        return bytes(vector.tobytes())

    @contextmanager
    def _reading(self, field: str) -> Iterator[None]:
        try:
            yield
        except CorruptError as error:
            inner = error.problem
            raise CorruptError(self._file, f"{field}: {inner.field}", None, inner.expected, inner.actual) from None
        except BROKEN as error:
            raise CorruptError(self._file, field, None, "tables of a FlatBuffers footer", error) from None


def checked_count(count: int, size_bytes: int) -> int:
    """Return a count of elements, of which each takes an offset at least; raises ValueError."""
    if count * OFFSET_SIZE_BYTES > size_bytes:
        raise ValueError(f"{count} elements in {size_bytes} bytes")
    return count


class _Restoration:
    """The way back to Thrift. What it makes is never larger than the footer says that it was."""

    def __init__(self, root: schema.FileMetaData, content: bytes | memoryview) -> None:
        self._root, self._size_bytes = root, len(content)
        rest = root.Rest()
        if rest is None:
            raise ValueError("it does not keep what Thrift has in addition")
        self._rest: schema.Rest = rest
        self._left_bytes = min(rest.ThriftSize(), THRIFT_SIZE_MAX_BYTES)
        self._skeletons: dict[int, bytes] = {}
        self._numbers = iter([] if rest.NumbersIsNone() else map(int, rest.NumbersAsNumpy()))

    def thrift(self) -> bytes:
        elements = self._elements()
        pairs = self._pairs()
        groups = self._row_groups(elements)
        root = self._root
        lists = {FILE["schema"]: elements, FILE["row_groups"]: groups, FILE["key_value_metadata"]: pairs}
        stated = file_stated((root.Version(), root.NumRows(), root.CreatedBy()), lists)
        return struct_of_skeleton(self._skeleton(self._rest.File()), stated)

    def _elements(self) -> tuple[bytes, ...]:
        made = []
        root = self._root
        for index, element in self._each(root.SchemaLength(), root.Schema, self._rest.SchemaAsNumpy()):
            numbers = (
                element.Type(),
                element.RepetitionType(),
                element.TypeLength(),
                element.NumChildren(),
                element.FieldId(),
            )
            facts = dict(zip(ELEMENT_NAMES, numbers, strict=True))
            made.append(self._struct(index, element_stated(facts, element.Name())))
        return tuple(made)

    def _pairs(self) -> tuple[bytes, ...]:
        root = self._root
        found = self._each(root.KvLength(), root.Kv, self._rest.KeyValuesAsNumpy())
        return tuple(self._struct(index, pair_stated(pair.Key(), pair.Val())) for index, pair in found)

    def _row_groups(self, elements: Sequence[bytes]) -> tuple[bytes, ...]:
        trees = [decode(element, file="schema")[0] for element in elements]
        leaves = read_leaves([read(tree, SCHEMA_ELEMENT) for tree in trees])
        columns = [(leaf.physical_type, leaf_path(leaf)) for leaf in leaves]
        indexes = iter(_indexes(self._rest.ColumnsAsNumpy()))
        made = []
        root = self._root
        for index, group in self._each(root.RowGroupsLength(), root.RowGroups, self._rest.RowGroupsAsNumpy()):
            if checked_count(group.ColumnsLength(), self._size_bytes) != len(columns):
                raise ValueError(f"{group.ColumnsLength()} chunks of {len(columns)} columns")
            chunks = tuple(
                self._struct(
                    next(indexes, -1),
                    facts_of_table(group.Columns(position), group.NumRows()).stated(*column),
                    numbered=NUMBERED,
                    numbers=self._numbers,
                )
                for position, column in enumerate(columns)
            )
            numbers = (
                group.TotalByteSize(),
                group.NumRows(),
                group.FileOffset(),
                group.TotalCompressedSize(),
                group.Ordinal(),
            )
            facts = dict(zip(GROUP_NAMES, numbers, strict=True))
            made.append(self._struct(index, group_stated(facts, chunks), within=chunks))
        if next(indexes, None) is not None:
            raise ValueError("more skeletons than columns")
        return tuple(made)

    def _each(self, count: int, entry: Any, skeletons: Any) -> Iterator[tuple[int, Any]]:
        """Yield the entries of a vector with the indexes of their skeletons, of which there must be as many."""
        indexes = _indexes(skeletons)
        if checked_count(count, self._size_bytes) != len(indexes):
            raise ValueError(f"{len(indexes)} skeletons for {count} entries")
        for position, index in enumerate(indexes):
            yield index, entry(position)

    def _struct(self, index: int, stated: Stated, *, within: Sequence[bytes] = (), **numbered: Any) -> bytes:
        made = struct_of_skeleton(self._skeleton(index), stated, **numbered)
        self._left_bytes -= len(made) - sum(map(len, within))
        if self._left_bytes < 0:
            raise ValueError("more bytes than the Thrift footer had")
        return made

    def _skeleton(self, index: int) -> bytes:
        found = self._skeletons.get(index)
        if found is None:
            if not 0 <= index < checked_count(self._rest.SkeletonsLength(), self._size_bytes):
                raise ValueError(f"no skeleton {index}")
            content = self._rest.Skeletons(index).ContentAsNumpy()
            if len(content) > self._left_bytes + OFFSET_SIZE_BYTES:
                raise ValueError("a skeleton that is larger than the Thrift footer")
            found = self._skeletons[index] = content.tobytes()
        return found


def _indexes(vector: Any) -> list[int]:
    return [int(index) for index in vector] if isinstance(vector, np.ndarray) else []


__all__ = ["FlatFooter"]
