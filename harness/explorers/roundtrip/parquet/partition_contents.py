"""What a partition's files say of themselves, and of each other, against what their bytes are.

Which bytes are in use, where pages, filters and duplicates are, and how large row groups are follows from
[parquet.thrift](https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift) and
docs/format.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

from tornproof.harness.common.new_tables import TIME
from tornproof.impl.extension.footer import form_of_extension
from tornproof.impl.extension.point import extension_of
from tornproof.impl.layout.encodings import DuplicateTail
from tornproof.impl.layout.parquet import MAGIC, FooterForm, ParquetTail
from tornproof.impl.parquet.fields import FILE_META_DATA, OFFSET_INDEX
from tornproof.impl.parquet.records import read
from tornproof.impl.parquet.thrift import Struct, decode, structs_in, value_of
from tornproof.impl.pm.chain import Metadata
from tornproof.impl.pm.footer import BloomReference
from tornproof.impl.table.partition import PM_FILE, resolve_partition
from tornproof.impl.table.table import Table
from tornproof.impl.txn.transaction import Partition
from tornproof.impl.write.writer_options import BloomPosition

FILE = "data.parquet"
QUESTDB = "questdb"
TAIL_BYTES = ParquetTail.layout.size_bytes
ROW_GROUPS, COLUMNS, META_DATA = 4, 1, 3
"""The ids of these fields."""
LENGTH_BYTES = 4
"""Of the length before a bitset in `_pm`."""
BITSET_BLOCK_BYTES = 32


@dataclass(frozen=True)
class Chunk:
    """A column chunk: what the footer says of it, and where its duplicate is."""

    name: str
    facts: dict[str, Any]
    meta: dict[str, Any]
    duplicate: tuple[int, int] | None

    @property
    def start(self) -> int:
        """Where its pages begin."""
        return int(self.meta.get("dictionary_page_offset") or self.meta["data_page_offset"])

    @property
    def pages(self) -> tuple[int, int]:
        """Where its pages are, and how many bytes they are."""
        return self.start, int(self.meta["total_compressed_size"])

    @property
    def bloom_filter(self) -> tuple[int, int] | None:
        """Where its filter is, header included, and how many bytes it is."""
        found = self.meta.get("bloom_filter_offset"), self.meta.get("bloom_filter_length")
        return None if None in found else found  # type: ignore[return-value]

    def parts(self) -> Iterator[tuple[int, int]]:
        """Yield all that belongs to it."""
        yield self.pages
        yield from filter(None, (self.duplicate, self.bloom_filter))
        for name in ("column_index", "offset_index"):
            if f"{name}_offset" in self.facts:
                yield self.facts[f"{name}_offset"], self.facts[f"{name}_length"]


@dataclass(frozen=True)
class Contents:
    """The committed bytes of a partition's files, and the metadata in `_pm`, decoded."""

    data: bytes
    pm: bytes
    metadata: Metadata

    @classmethod
    def of(cls, table: Table, partition: Partition) -> Self:
        """Return the committed bytes of a partition."""
        files = table.files_of(partition)
        resolved = resolve_partition(files, partition)
        with files.open_data() as data, table.storage.open_for_reading(f"{files.path}/{PM_FILE}") as pm:
            return cls(data.pread(partition.token, 0), pm.pread(pm.size_bytes(), 0), resolved.metadata)

    @cached_property
    def footer_bytes(self) -> int:
        """The length of the Thrift footer."""
        return int.from_bytes(self.data[-TAIL_BYTES : -len(MAGIC)], "little")

    @cached_property
    def tree(self) -> Struct:
        """The Thrift footer."""
        return decode(self.data[-TAIL_BYTES - self.footer_bytes : -TAIL_BYTES], file=FILE)[0]

    @cached_property
    def footer(self) -> dict[str, Any]:
        """The Thrift footer by the names of its fields."""
        return dict(read(self.tree, FILE_META_DATA))

    @cached_property
    def form(self) -> FooterForm:
        """The form of the footer."""
        return form_of_extension(self.tree)

    @cached_property
    def row_groups(self) -> list[list[Chunk]]:
        """The chunks of each row group."""
        return [
            [
                _chunk(facts, value_of(tree, META_DATA))
                for facts, tree in zip(group["columns"], structs_in(group_tree, COLUMNS), strict=True)
            ]
            for group, group_tree in zip(self.footer["row_groups"], structs_in(self.tree, ROW_GROUPS), strict=True)
        ]

    def problems(self) -> Iterator[str]:
        """Yield where the footers contradict the bytes."""
        yield from self._problems_of_sizes()
        for number, chunks in enumerate(self.row_groups):
            group = self.footer["row_groups"][number]
            expected = {
                "file_offset": min(chunk.start for chunk in chunks),
                "total_byte_size": sum(chunk.meta["total_uncompressed_size"] for chunk in chunks),
                "total_compressed_size": sum(chunk.meta["total_compressed_size"] for chunk in chunks),
            }
            for field, value in expected.items():
                if group[field] != value:
                    yield f"{field} of row group {number} is {group[field]}, and should be {value}"
            sorting = [
                (each["column_index"], each["descending"], each["nulls_first"]) for each in group["sorting_columns"]
            ]
            by_time = [(index, False, False) for index, chunk in enumerate(chunks) if chunk.name == TIME]
            if sorting != by_time:
                yield f"row group {number} is sorted by {sorting}, and should be by {by_time}"
            for chunk in chunks:
                yield from self._problems_of_pages(number, chunk, group["num_rows"])

    def positions_of_filters(self, name: str) -> Iterator[BloomPosition | None]:
        """Yield where each row group has the filter of a column, None where it has none."""
        for in_pm, in_data in self._filters(name):
            is_inlined = in_pm is not None and in_pm.length_bytes is None
            found = {(True, False): BloomPosition.INLINED, (True, True): BloomPosition.BOTH}
            yield found.get((is_inlined, in_data is not None), BloomPosition.EXTERNAL if in_pm is not None else None)

    def filters_of(self, name: str) -> Iterator[bytes]:
        """Yield the filters of a column in each row group, wherever they are."""
        for in_pm, in_data in self._filters(name):
            if in_pm is not None:
                yield self._bitset(in_pm)
            if in_data is not None:
                end = sum(in_data)
                whole = self.data[in_data[0] : end]
                # A header has less bytes than a block of the bitset.
                yield whole[len(whole) % BITSET_BLOCK_BYTES :]

    def _filters(self, name: str) -> Iterator[tuple[BloomReference | None, tuple[int, int] | None]]:
        """Yield what `_pm` and data.parquet say of a column's filter in each row group."""
        header = self.metadata.header
        index = next(number for number, column in enumerate(header.columns) if column.name == name)
        for chunks, references in zip(self.row_groups, self.metadata.generation.blooms, strict=True):
            in_pm = dict(zip(header.bloom_columns, references, strict=True)).get(index)
            yield in_pm, chunks[index].bloom_filter

    def _bitset(self, reference: BloomReference) -> bytes:
        start = reference.offset_bytes
        if reference.length_bytes is not None:
            return self.data[start : start + reference.length_bytes]
        end = start + LENGTH_BYTES
        return self.pm[end : end + int.from_bytes(self.pm[start:end], "little")]

    def _problems_of_sizes(self) -> Iterator[str]:
        parts = [part for chunks in self.row_groups for chunk in chunks for part in chunk.parts()]
        end = len(self.data) - TAIL_BYTES - self.footer_bytes
        parts = sorted([(0, len(MAGIC)), *parts, (end, len(self.data) - end)])
        for (start, size), (following, _) in pairwise(parts):
            if start + size > following:
                yield f"what begins at byte {start} reaches to {start + size}, into what begins at {following}"
        unused_bytes = len(self.data) - sum(size for _, size in parts)
        said = json.loads(dict(_pairs(self.footer))[QUESTDB]).get("unused_bytes", 0)
        for where, found in (("_pm", self.metadata.generation.position.fixed.unused_bytes), ("the JSON", said)):
            if found != unused_bytes:
                yield f"{where} says that {found} bytes are unused, and {unused_bytes} are"

    def _problems_of_pages(self, number: int, chunk: Chunk, row_count: int) -> Iterator[str]:
        if "offset_index_offset" not in chunk.facts:
            return
        start, size = (chunk.facts[f"offset_index_{name}"] for name in ("offset", "length"))
        pages = read(decode(self.data[start : start + size], file=FILE)[0], OFFSET_INDEX)["page_locations"]
        starts = [page["offset"] for page in pages]
        ends = [page["offset"] + page["compressed_page_size"] for page in pages]
        first_rows = [page["first_row_index"] for page in pages]
        is_whole = (
            starts[0] == chunk.meta["data_page_offset"] and ends[-1] == sum(chunk.pages) and ends[:-1] == starts[1:]
        )
        is_ascending = first_rows == sorted({0, *first_rows}) and first_rows[-1] < row_count
        if not is_whole or not is_ascending:
            yield f"the page index of {chunk.name} in row group {number} leads to other bytes than its pages"


def _chunk(facts: dict[str, Any], meta_tree: Any) -> Chunk:
    extension = extension_of(meta_tree, file=FILE)
    record = DuplicateTail.unpack(extension.content, 0, file=FILE) if extension is not None else None
    meta = facts["meta_data"]
    duplicate = None if record is None else (record.chunk_offset, record.chunk_length)
    return Chunk(name=meta["path_in_schema"][0], facts=facts, meta=meta, duplicate=duplicate)


def _pairs(footer: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for each in footer["key_value_metadata"]:
        yield each["key"], each["value"]
