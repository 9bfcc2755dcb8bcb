"""From the bytes of a Parquet file to the bytes of `_pm`, as QuestDB's converter makes them (docs/migration.md)."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from tornproof.impl import limits
from tornproof.impl.layout.parquet import MAGIC, ParquetTail
from tornproof.impl.migrate.backfill import with_bounds
from tornproof.impl.migrate.blooms import BloomFilters
from tornproof.impl.migrate.chunks import check_file_paths, check_row_groups, check_statistics, chunk_of, meta_of
from tornproof.impl.migrate.footer_reader import read_footer
from tornproof.impl.migrate.header import header_of, order_of
from tornproof.impl.migrate.json_rules import JsonError, QuestdbJson, json_text, parse_json
from tornproof.impl.migrate.rejections import Cause, RejectionError, error_of
from tornproof.impl.migrate.schema import read_leaves
from tornproof.impl.migrate.shapes import FileMetaData, RowGroup
from tornproof.impl.parquet.footer import PARQUET_SIZE_MIN_BYTES, TAIL_SIZE_BYTES
from tornproof.impl.pm.block import Chunk, OutOfLineOrder
from tornproof.impl.pm.encode import FooterFacts, NewRowGroup, encode_file
from tornproof.impl.pm.header import FileHeader
from tornproof.impl.types.questdb import TypeTag, tag_of

Read: TypeAlias = Callable[[int, int], bytes]
"""Takes (size, offset) in bytes and returns the bytes there; fewer only at the end of the file."""


class ConversionMode(enum.Enum):
    """Which of the converter's two callers in QuestDB is followed (docs/migration.md)."""

    TOOL = "the command-line tool: only the footer is read"
    SERVER = "the server: bloom filters are inlined, missing bounds of timestamps decoded, JSON must be right"


def convert(
    read: Read,
    *,
    size_bytes: int,
    file: str,
    mode: ConversionMode = ConversionMode.SERVER,
    physical_size_bytes: int | None = None,
    as_questdb: bool = False,
) -> bytes:
    """Return the whole `_pm` of the Parquet file that ends at `size_bytes` of `file`: one generation, published.

    `read(size, offset)` returns fewer bytes only at the end of the file, which is `physical_size_bytes` long: bloom
    filters may lie behind `size_bytes`. A file that QuestDB's converter rejects is read once more by a lenient reader
    (docs/migration.md), unless `as_questdb`. Raises RejectedCorruptError or RejectedUnsupportedError, whose `cause` is
    the converter's class of rejection.
    """
    physical_size_bytes = size_bytes if physical_size_bytes is None else physical_size_bytes
    source = _Source(read, size_bytes, physical_size_bytes, file)
    try:
        return _Conversion(source, mode, as_questdb=as_questdb, is_careful=False).content()
    except RejectionError as error:
        # Its traceback would keep everything that was read so far.
        rejection = error.with_traceback(None)
        rejection.__context__ = None
    if not as_questdb:
        with contextlib.suppress(RejectionError):
            return _Conversion(source, mode, as_questdb=False, is_careful=True).content()
    raise error_of(rejection, file=file)


class _Source(NamedTuple):
    read: Read
    size_bytes: int
    physical_size_bytes: int
    file: str


class _Conversion:
    """One conversion; its steps reject in the order of the converter."""

    def __init__(self, source: _Source, mode: ConversionMode, *, as_questdb: bool, is_careful: bool) -> None:
        self.source = source
        self.as_questdb = as_questdb
        self.is_careful = is_careful
        self.is_server = mode is ConversionMode.SERVER
        self.blooms = BloomFilters(source.read, source.physical_size_bytes)

    def content(self) -> bytes:
        offset_bytes, length_bytes = self.footer_range()
        content = self.source.read(length_bytes + TAIL_SIZE_BYTES, offset_bytes)
        footer = read_footer(content, offset_bytes=offset_bytes, as_questdb=not self.is_careful)
        del content
        leaves = read_leaves(footer.schema)
        check_row_groups(footer, len(leaves))
        questdb = self.questdb_json(footer, len(leaves))
        check_file_paths(footer.row_groups)
        order = order_of(leaves, footer.row_groups, questdb)
        header = header_of(leaves, order, questdb)
        row_groups, bitsets = [], []
        for index, row_group in enumerate(footer.row_groups):
            try:
                chunks, found = self.block(row_group, header)
            except RejectionError as rejection:
                raise rejection.at(f"row_groups[{index}]") from None
            row_groups.append((row_group.num_rows, chunks))
            bitsets.append(found)
        bloom_columns = tuple(sorted(set().union(*bitsets)))
        facts = FooterFacts(parquet_footer_offset=offset_bytes, parquet_footer_length=length_bytes)
        blocks = [
            NewRowGroup(
                num_rows=row_count,
                chunks=chunks,
                blooms=tuple(found.get(column) for column in bloom_columns),
                order=OutOfLineOrder.BY_COLUMN,
            )
            for (row_count, chunks), found in zip(row_groups, bitsets, strict=True)
        ]
        made = encode_file(header_of(leaves, order, questdb, bloom_columns), blocks, facts)
        if len(made) > limits.PM_LIMIT_BYTES:
            expected = f"at most {limits.PM_LIMIT_BYTES} bytes of `_pm`, which readers take"
            raise RejectionError(Cause.BUDGET, expected, len(made), step="size")
        return made

    def footer_range(self) -> tuple[int, int]:
        """Return offset and length of the footer."""
        size_bytes = self.source.size_bytes
        if size_bytes < PARQUET_SIZE_MIN_BYTES:
            raise RejectionError(Cause.TAIL, f"at least {PARQUET_SIZE_MIN_BYTES} bytes", size_bytes, step="size")
        at = size_bytes - TAIL_SIZE_BYTES
        raw = self.source.read(TAIL_SIZE_BYTES, at)
        if len(raw) < TAIL_SIZE_BYTES:
            raise RejectionError(Cause.TAIL, f"a file of {size_bytes} bytes", "a shorter one", step="size")
        tail = ParquetTail.unpack(raw, 0, file=self.source.file)
        if tail.magic != MAGIC:
            raise RejectionError(Cause.TAIL, MAGIC, tail.magic, size_bytes - len(MAGIC), step="magic")
        if tail.footer_length >> 31:
            raise RejectionError(Cause.NEGATIVE, "0 or more", tail.footer_length - (1 << 32), at, step="footer_length")
        if tail.footer_length > at:
            raise RejectionError(
                Cause.TAIL, f"at most the {at} bytes before it", tail.footer_length, at, step="footer_length"
            )
        return at - tail.footer_length, tail.footer_length

    def questdb_json(self, footer: FileMetaData, column_count: int) -> QuestdbJson | None:
        """Return the content of the JSON; the tool treats an unreadable one as absent."""
        text = json_text(footer.key_value_metadata or ())
        if text is None:
            return None
        try:
            questdb = parse_json(text)
        except JsonError as error:
            if not self.is_server:
                return None
            raise RejectionError(Cause.JSON, "the JSON of a table", error, step="questdb") from None
        if len(questdb.columns) != column_count:
            raise RejectionError(Cause.JSON, f"{column_count} columns", len(questdb.columns), step="questdb schema")
        return questdb

    def block(self, row_group: RowGroup, header: FileHeader) -> tuple[tuple[Chunk, ...], dict[int, bytes]]:
        """Return the chunks of a row group, and its bitsets by column."""
        chunks: list[Chunk] = []
        bitsets: dict[int, bytes] = {}
        for index, column in enumerate(row_group.columns):
            meta = meta_of(column)
            try:
                chunk = chunk_of(meta, as_questdb=self.as_questdb)
                if self.is_server and self.is_timestamp(index, header):
                    chunk = with_bounds(chunk, header.columns[index], self.source.read, file=self.source.file)
                check_statistics(chunk)
                bitset = self.blooms.bitset_of(meta) if self.is_server else None
            except RejectionError as rejection:
                raise rejection.at(f"columns[{index}]") from None
            chunks.append(chunk)
            if bitset is not None:
                bitsets[index] = bitset
        return tuple(chunks), bitsets

    @staticmethod
    def is_timestamp(index: int, header: FileHeader) -> bool:
        """Whether the column is the designated timestamp and not a date."""
        is_designated = index == header.designated_timestamp
        return is_designated and tag_of(header.columns[index].type) is TypeTag.TIMESTAMP
