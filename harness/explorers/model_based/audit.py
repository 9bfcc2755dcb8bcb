"""What the files of a table say, read without the implementation's decoders, beside what the model says.

`_txn` and `_pm` are read by the offsets of the layout tables alone, and data.parquet by pyarrow. So at the end of a
program a mistake is seen that the writer and our readers share. Where a run breaks a property, this tells whether the
files are wrong, and where, or only what reads them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tornproof.harness.explorers.model_based.rows import WITHOUT_NULL, Rows
from tornproof.harness.systems.plain_rows import plain_rows
from tornproof.impl.layout import pm, txn
from tornproof.impl.layout.parquet import DATA_FILE, MAGIC, ParquetTail
from tornproof.impl.layout.record import Record
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.model.table import Version

CHECKSUM_START = pm.Header.layout.offset_of("feature_flags")
SIZE_WORD = struct.Struct("<i")
GENERATIONS_MAX = 10_000
VALUE_CHARACTERS_MAX = 60
INTEGER_BYTES = {"INT32": 4, "INT64": 8}
"""Bytes of the bounds of numbers, by the names of Parquet's types."""


MISSING = "missing"
UNREADABLE = f"{TXN_FILE} or {PM_FILE}"
"""The file of a difference if nothing can be read."""


class Difference(NamedTuple):
    """A field of a file, which has the bytes [start, end), and what it says beside what it should say.

    `of` says which of several such fields it is.
    """

    file: str
    field: str
    start: int
    end: int
    found: str
    expected: str
    of: str = ""

    @property
    def text(self) -> str:
        """Return it in words."""
        return f"{self.field}{self.of} in {self.file} is {self.found}, and should be {self.expected}"


class Expected(NamedTuple):
    """What must be committed: a version of the model, and of each directory the ends of the generations before it."""

    version: Version
    known_ends: Mapping[tuple[int, int], frozenset[int] | None]


class Audit:
    """Compares the files that `read` returns, by path below the table, with what must be committed."""

    def __init__(
        self, read: Callable[[str], bytes | None], rows: Rows, directory_of: Callable[[tuple[int, int]], str]
    ) -> None:
        """Compare nothing yet."""
        self._read, self._rows, self._directory_of = read, rows, directory_of

    def committed_number(self) -> int:
        """Return the number of the committed version, -1 where there is none."""
        with suppress(struct.error, MissingError):
            return int(_values(txn.BaseHeader, self._content(TXN_FILE), 0)["version"])
        return -1

    def differences(self, expected: Expected) -> Iterator[Difference]:
        """Yield what differs, first in `_txn`, then in `_pm` and data.parquet of each partition."""
        try:
            version = expected.version
            yield from self._entries(version)
            for number, entry in enumerate(version.entries):
                if entry.token >= 0:
                    known_ends = expected.known_ends.get(entry.directory, frozenset())
                    yield from self._partition(version, number, known_ends)
            yield from self._counts(version)
        except MissingError as error:
            yield error.difference
        except (struct.error, LookupError, ValueError, OverflowError, OSError, pa.ArrowException) as error:
            yield Difference(UNREADABLE, "an offset", 0, 0, f"none ({error})", "inside the file")

    def _content(self, file: str) -> bytes:
        content = self._read(file)
        if content is None:
            raise MissingError(Difference(file, "the file", 0, 0, MISSING, "there"))
        return content

    def _table(self, content: bytes, number: int) -> _PartitionTable:
        """Return where a version has its record and its partitions in `_txn`."""
        base = _values(txn.BaseHeader, content, 0)
        area = "ab"[number % 2]
        start, symbols, size = (base[f"{area}_{name}"] for name in ("record_offset", "symbols_size", "partitions_size"))
        return _PartitionTable(start, start + txn.TransactionRecord.layout.size_bytes + symbols, size, area)

    def _entries(self, version: Version) -> Iterator[Difference]:
        """Compare the version and which partitions it has."""
        content = self._content(TXN_FILE)
        base = _values(txn.BaseHeader, content, 0)
        yield from _compared(TXN_FILE, txn.BaseHeader, 0, base, {"version": version.number})
        table = self._table(content, version.number)
        size_bytes = len(version.entries) * txn.PartitionEntry.layout.size_bytes
        (stored,) = SIZE_WORD.unpack_from(content, table.start)
        in_base = txn.BaseHeader.layout.offset_of(f"{table.area}_partitions_size")
        for found, at in ((table.size_bytes, in_base), (stored, table.start)):
            if found != size_bytes:
                yield _difference(TXN_FILE, "size of the partition table", at, SIZE_WORD.size, found, size_bytes)
        for number, entry in enumerate(version.entries):
            timestamp, name_txn = entry.directory
            known = _values(txn.PartitionEntry, content, table.entry(number))
            wanted = {"timestamp": timestamp, "name_txn": name_txn}
            of = f" of {self._directory_of(entry.directory)}"
            yield from _compared(TXN_FILE, txn.PartitionEntry, table.entry(number), known, wanted, of)

    def _counts(self, version: Version) -> Iterator[Difference]:
        """Compare the numbers and times of the record, which follow from the rows."""
        content = self._content(TXN_FILE)
        table = self._table(content, version.number)
        counts = [len(entry.rows) for entry in version.entries]
        expected: dict[str, int] = {"txn": version.number}
        if all(entry.token >= 0 for entry in version.entries):
            expected |= {"transient_row_count": counts[-1] if counts else 0, "fixed_row_count": sum(counts[:-1])}
            times = [self._rows.timestamp(row) for entry in version.entries for row in entry.rows]
            expected |= {"min_timestamp": min(times), "max_timestamp": max(times)} if times else {}
        record = _values(txn.TransactionRecord, content, table.record)
        yield from _compared(TXN_FILE, txn.TransactionRecord, table.record, record, expected)
        for number, entry in enumerate(version.entries[:-1]):
            at = table.entry(number)
            found = txn.ROW_COUNT.get(_values(txn.PartitionEntry, content, at)["row_count_and_flags"])
            if entry.token >= 0 and found != len(entry.rows):
                at += txn.PartitionEntry.layout.offset_of("row_count_and_flags")
                of = f" of {self._directory_of(entry.directory)}"
                yield _difference(TXN_FILE, "row count", at, 8, found, len(entry.rows), of)

    def _partition(self, version: Version, number: int, known_ends: frozenset[int] | None) -> Iterator[Difference]:
        """Compare the token of a partition, its rows, and what `_pm` says of them, in this order."""
        entry, content = version.entries[number], self._content(TXN_FILE)
        name = self._directory_of(entry.directory)
        at = self._table(content, version.number).entry(number)
        token = int(_values(txn.PartitionEntry, content, at)["token"])
        at += txn.PartitionEntry.layout.offset_of("token")
        data_file, pm_file = f"{name}/{DATA_FILE}", f"{name}/{PM_FILE}"
        data = self._content(data_file)
        footers = list(self._footers(pm_file, known_ends))
        by_token = {each.token: each for each in footers if isinstance(each, _Footer)}
        found = list(self._rows_of(data_file, data, token, entry.rows))
        others = [other for other in by_token if other != token and _ends_at(data, other)]
        if found or token not in by_token:
            # Where another generation has these rows, the file is right and its length is wrong.
            right = [other for other in others if not list(self._rows_of(data_file, data, other, entry.rows))]
            if right:
                yield _difference(TXN_FILE, "token", at, 8, token, right[0], f" of {name}")
            elif token > len(data):
                yield Difference(data_file, "size", 0, token, str(len(data)), f"at least {token}, the token")
        yield from found
        yield from (each for each in footers if isinstance(each, Difference))
        parquet = _parquet(data[: max(token, 0)])
        if token in by_token and parquet is not None:
            yield from self._generation(pm_file, by_token[token], parquet)
        elif by_token:
            newest = next(iter(by_token.values()))
            start = newest.start + pm.Footer.layout.offset_of("parquet_footer_offset")
            yield _difference(pm_file, "token of the newest footer", start, 12, newest.token, token)

    def _footers(self, file: str, known_ends: frozenset[int] | None) -> Iterator[_Footer | Difference]:
        """Yield the chain, newest first, and what is wrong with it."""
        content = self._content(file)
        end = int(_values(pm.Header, content, 0)["parquet_meta_file_size"])
        if not 0 < end <= len(content):
            yield _difference(file, "_pm size", 0, 8, end, f"at most {len(content)}")
            return
        for _ in range(GENERATIONS_MAX):
            at = end - pm.Trailer.layout.size_bytes
            trailer = _values(pm.Trailer, content, at)
            checksum = zlib.crc32(content[CHECKSUM_START:at])
            yield from _compared(file, pm.Trailer, at, trailer, {"checksum": checksum})
            start = at + pm.Trailer.layout.offset_of("footer_length") - trailer["footer_length"]
            fields = _values(pm.Footer, content, start)
            yield _Footer(start, end, fields, content)
            previous = fields["prev_parquet_meta_file_size"]
            older = {known for known in known_ends or () if known < end}
            is_new = known_ends is not None and end not in known_ends
            if is_new and previous not in older and (older or previous):
                wanted = " or ".join(map(str, sorted(older))) or 0
                at = start + pm.Footer.layout.offset_of("prev_parquet_meta_file_size")
                yield _difference(file, "PREV_PARQUET_META_FILE_SIZE", at, 8, previous, wanted)
                return
            if not 0 < previous < end:
                return
            end = previous

    def _generation(self, file: str, footer: _Footer, parquet: pq.ParquetFile) -> Iterator[Difference]:
        """Compare blocks with the row groups and chunks that pyarrow finds."""
        metadata, content = parquet.metadata, footer.content
        count = footer.fields["row_group_count"]
        if count != metadata.num_row_groups:
            at = footer.start + pm.Footer.layout.offset_of("row_group_count")
            yield _difference(file, "ROW_GROUP_COUNT", at, 4, count, metadata.num_row_groups)
            return
        entries = footer.start + pm.Footer.layout.size_bytes
        for number in range(count):
            (entry,) = struct.unpack_from("<I", content, entries + 4 * number)
            block, group = entry << pm.BLOCK_OFFSET_SHIFT, metadata.row_group(number)
            of = f" of row group {number}"
            known = _values(pm.RowGroupHeader, content, block)
            yield from _compared(file, pm.RowGroupHeader, block, known, {"num_rows": group.num_rows}, of)
            for column in range(group.num_columns):
                at = block + pm.RowGroupHeader.layout.size_bytes + column * pm.ColumnChunk.layout.size_bytes
                yield from self._chunk(file, at, content, group.column(column), f"{of}, column {column}")

    def _chunk(
        self, file: str, at: int, content: bytes, chunk: pq.ColumnChunkMetaData, of: str
    ) -> Iterator[Difference]:
        known = _values(pm.ColumnChunk, content, at)
        start = chunk.data_page_offset
        if chunk.has_dictionary_page and chunk.dictionary_page_offset:
            start = min(start, chunk.dictionary_page_offset)
        expected = {
            "num_values": chunk.num_values,
            "byte_range_start": start,
            "total_compressed": chunk.total_compressed_size,
        }
        if chunk.statistics is not None and chunk.statistics.has_null_count:
            expected["null_count"] = chunk.statistics.null_count
        size_bytes = INTEGER_BYTES.get(chunk.physical_type)
        if size_bytes and chunk.statistics is not None and chunk.statistics.has_min_max:
            for name, flag, bound in (
                ("min_stat", pm.MIN_STAT_INLINED, chunk.statistics.min_raw),
                ("max_stat", pm.MAX_STAT_INLINED, chunk.statistics.max_raw),
            ):
                if flag.get(known["stat_flags"]):
                    expected[name] = bound % (1 << 8 * size_bytes)
        yield from _compared(file, pm.ColumnChunk, at, known, expected, of)

    def _rows_of(self, file: str, data: bytes, token: int, rows: Sequence[int]) -> Iterator[Difference]:
        """Compare the rows that pyarrow reads with those of the model, in the columns that it can represent."""
        parquet = _parquet(data[: max(token, 0)])
        if parquet is None:
            start = max(0, token - ParquetTail.layout.size_bytes)
            yield Difference(file, "the footer", start, token, "not readable by pyarrow", "a Thrift footer")
            return
        metadata = parquet.metadata
        stored = sum(metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
        if metadata.num_rows != stored:
            yield _difference(file, "number of rows in the footer", token - 8, 8, metadata.num_rows, stored)
        try:
            table = parquet.read()
        except (pa.ArrowException, OSError) as error:
            yield Difference(file, "a page", 0, token, f"not readable ({str(error)[:80]})", "readable")
            return
        if table.num_rows != len(rows):
            yield Difference(file, "number of rows", 0, token, str(table.num_rows), str(len(rows)))
            return
        contents = [self._rows.contents[row] for row in rows]
        for index, column in enumerate(self._rows.shape.schema):
            found, tag = _column(table, column), self._rows.shape.tag_of(index)
            if found is None:
                continue
            for number, (value, values) in enumerate(zip(found, contents, strict=True)):
                is_stored_null = value is None and tag in WITHOUT_NULL and not values[index]
                if value != values[index] and not is_stored_null:
                    of = f" of {column.name} in row {number}"
                    shown, wanted = (repr(each)[:VALUE_CHARACTERS_MAX] for each in (value, values[index]))
                    yield Difference(file, "value", 0, token, shown, wanted, of)
                    return
            yield from _bounds(file, parquet, table, column.name, token)


class MissingError(Exception):
    """A file that is not there."""

    def __init__(self, difference: Difference) -> None:
        self.difference = difference


class _PartitionTable(NamedTuple):
    record: int
    start: int
    size_bytes: int
    area: str

    def entry(self, number: int) -> int:
        """Return where the entry of a partition begins."""
        return self.start + SIZE_WORD.size + number * txn.PartitionEntry.layout.size_bytes


class _Footer(NamedTuple):
    start: int
    end: int
    fields: dict[str, Any]
    content: bytes

    @property
    def token(self) -> int:
        """The length of data.parquet that it describes."""
        fields = self.fields
        return int(fields["parquet_footer_offset"] + fields["parquet_footer_length"] + ParquetTail.layout.size_bytes)


def _values(record: type[Record], content: bytes, at: int) -> dict[str, Any]:
    layout = record.layout
    if at < 0:
        raise struct.error(f"{layout.title} at {at}")
    return dict(zip(layout.names, layout.packer.unpack_from(content, at), strict=True))


def _difference(
    file: str, field: str, at: int, size_bytes: int, found: object, expected: object, of: str = ""
) -> Difference:
    return Difference(file, field, at, at + size_bytes, str(found), str(expected), of)


def _compared(
    file: str, record: type[Record], at: int, found: Mapping[str, Any], expected: Mapping[str, int], of: str = ""
) -> Iterator[Difference]:
    for name, value in expected.items():
        if found[name] != value:
            field = record.layout.field(name)
            start = at + field.offset_bytes
            yield _difference(file, field.format_name, start, field.wire.size_bytes, found[name], value, of)


def _parquet(content: bytes) -> pq.ParquetFile | None:
    with suppress(pa.ArrowException, OSError):
        return pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
    return None


def _ends_at(data: bytes, token: int) -> bool:
    return len(MAGIC) < token <= len(data) and data[token - len(MAGIC) : token] == MAGIC


def _column(table: pa.Table, column: pa.Field) -> list[Any] | None:
    """Return a column's plain values, None where pyarrow's type for it is another one."""
    with suppress(pa.ArrowException, KeyError, NotImplementedError):
        (found,) = zip(*plain_rows(pa.table([table.column(column.name).cast(column.type)], names=["_"])), strict=True)
        return list(found)
    return None


def _bounds(file: str, parquet: pq.ParquetFile, table: pa.Table, name: str, token: int) -> Iterator[Difference]:
    """Compare the bounds in the Thrift footer with the values of their row group."""
    index = parquet.schema_arrow.get_field_index(name)
    column, start = table.column(name), 0
    # A time in nanoseconds is no `datetime`.
    is_time = pa.types.is_timestamp(column.type)
    column = column.cast(pa.int64()) if is_time else column
    for number in range(parquet.metadata.num_row_groups):
        group = parquet.metadata.row_group(number)
        statistics = group.column(index).statistics
        stored = column.slice(start, group.num_rows).to_pylist()
        start += group.num_rows
        # Nulls and NaN, which does not equal itself, have no part in the bounds.
        values = [each for each in stored if each is not None and each == each]
        with suppress(TypeError, ValueError, pa.ArrowException):
            if statistics is not None and statistics.has_min_max and values:
                bounds = (statistics.min_raw, statistics.max_raw) if is_time else (statistics.min, statistics.max)
                if type(bounds[0]) is type(values[0]) and not (bounds[0] <= min(values) and max(values) <= bounds[1]):
                    found, wanted = f"{bounds[0]} to {bounds[1]}", f"around {min(values)} to {max(values)}"
                    yield Difference(file, "bounds", 0, token, found, wanted, f" of {name} in row group {number}")
