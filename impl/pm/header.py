"""The header of `_pm`, which is valid for every generation of the file."""

from __future__ import annotations

import itertools
from dataclasses import field

import msgspec
from msgspec.structs import replace

from tornproof.impl.errors import CorruptError
from tornproof.impl.layout import pm as layout
from tornproof.impl.layout.record import Buffer
from tornproof.impl.types.physical import PhysicalType

COLUMN_COUNT_LIMIT = 100_000
U32_BYTES = layout.SortingColumn.layout.size_bytes
PHYSICAL_TYPE_COUNT = len(PhysicalType)
DESCRIPTOR_BYTES = layout.ColumnDescriptor.layout.size_bytes


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """One column of the partition, in the order of data.parquet's leaves (docs/format.md)."""

    name: str
    id: int
    type: int
    flags: int
    fixed_byte_len: int
    physical_type: int
    max_rep_level: int
    max_def_level: int


class FileHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The decoded header; `extra` has the sections of unknown optional bits up to the first block, unchanged.

    `sorting_columns` are the stored ones: empty if SORTING_IS_DTS_ASC is set.
    """

    feature_flags: int
    designated_timestamp: int
    columns: tuple[Column, ...]
    sorting_columns: tuple[int, ...]
    bloom_columns: tuple[int, ...]
    squash_tracker: int | None
    size_bytes: int = field(compare=False)
    extra: bytes = b""

    @property
    def is_in_time_order(self) -> bool:
        """Whether the file says that its rows ascend by the designated timestamp."""
        return bool(layout.SORTING_IS_DTS_ASC.get(self.feature_flags))

    @property
    def sorting(self) -> tuple[int, ...]:
        """The sorting order as column indices, however it is stored."""
        if self.is_in_time_order:
            return (self.designated_timestamp,)
        return self.sorting_columns

    @property
    def blooms_external(self) -> bool:
        """Whether bloom references point into data.parquet."""
        return bool(layout.BLOOM_FILTERS_EXTERNAL.get(self.feature_flags))

    @property
    def unknown_optional_flags(self) -> int:
        """The optional bits that the format does not define."""
        return self.feature_flags & layout.OPTIONAL_FEATURES.mask & ~layout.HEADER_FEATURES.known_mask


def decode_header(data: Buffer, *, file: str, first_block_offset: int | None = None) -> FileHeader:
    """Decode the header of `data`, the published bytes of `_pm`.

    `first_block_offset` bounds the sections of unknown optional bits, which have no length of their own.
    Raises CorruptError, and UnsupportedError for unknown required bits (docs/format.md).
    """
    fixed = decode_fixed(data, file=file)
    position = layout.Header.layout.size_bytes
    start, position = position, position + fixed.column_count * DESCRIPTOR_BYTES
    # All of them fit into `data`, as was checked with the fixed part.
    records = layout.ColumnDescriptor.layout.packer.iter_unpack(memoryview(data)[start:position])
    descriptors = list(itertools.starmap(layout.ColumnDescriptor, records))
    sorting_columns = _indices(data, position, fixed.sorting_column_count, fixed.column_count, "SORTING_COLUMNS", file)
    position += fixed.sorting_column_count * U32_BYTES
    columns, position = _columns(data, descriptors, position, file)
    bloom_columns, position = _bloom_columns(data, fixed, position, file)
    squash_tracker = None
    if layout.SQUASH_TRACKER.get(fixed.feature_flags):
        squash_tracker = layout.SquashTracker.unpack(data, position, file=file).squash_tracker
        position += layout.SquashTracker.layout.size_bytes
    header = FileHeader(
        feature_flags=fixed.feature_flags,
        designated_timestamp=fixed.designated_timestamp,
        columns=columns,
        sorting_columns=sorting_columns,
        bloom_columns=bloom_columns,
        squash_tracker=squash_tracker,
        size_bytes=position,
    )
    if header.unknown_optional_flags and first_block_offset is not None and first_block_offset > position:
        # Zeros that align the first block stay included: they cannot be told from a section.
        return replace(header, extra=bytes(data[position:first_block_offset]), size_bytes=first_block_offset)
    return header


def decode_fixed(data: Buffer, *, file: str) -> layout.Header:
    """Decode and check the fixed part of the header, including that all column descriptors fit into the file.

    Raises CorruptError, and UnsupportedError for unknown required bits and too many columns.
    """
    fixed = layout.Header.unpack(data, 0, file=file)
    _check_fixed(fixed, data, file)
    return fixed


def decode_column(data: Buffer, index: int, fixed: layout.Header, *, file: str) -> Column:
    """Decode one column's descriptor and name and no others; raises CorruptError."""
    assert 0 <= index < fixed.column_count, index
    descriptors_end = layout.Header.layout.size_bytes + fixed.column_count * DESCRIPTOR_BYTES
    descriptor = layout.ColumnDescriptor.unpack(data, descriptor_offset(index), file=file)
    return _column(data, descriptor, index, descriptors_end + fixed.sorting_column_count * U32_BYTES, file)


def descriptor_offset(index: int) -> int:
    """Return the offset of a column's descriptor."""
    return layout.Header.layout.size_bytes + index * DESCRIPTOR_BYTES


def encode_header(header: FileHeader, *, parquet_meta_file_size: int) -> bytes:
    """Encode the header with the given published size; names follow each other in column order."""
    names = [column.name.encode() for column in header.columns]
    descriptors_end = layout.Header.layout.size_bytes + len(names) * DESCRIPTOR_BYTES
    name_offset = descriptors_end + U32_BYTES * len(header.sorting_columns)
    parts = [
        layout.Header(
            parquet_meta_file_size=parquet_meta_file_size,
            feature_flags=header.feature_flags,
            designated_timestamp=header.designated_timestamp,
            sorting_column_count=len(header.sorting_columns),
            column_count=len(header.columns),
            reserved=0,
        ).pack()
    ]
    for column, name in zip(header.columns, names, strict=True):
        parts.append(
            layout.ColumnDescriptor(
                name_offset=name_offset,
                id=column.id,
                type=column.type,
                flags=column.flags,
                fixed_byte_len=column.fixed_byte_len,
                name_length=len(name),
                physical_type=column.physical_type,
                max_rep_level=column.max_rep_level,
                max_def_level=column.max_def_level,
                reserved=0,
            ).pack()
        )
        name_offset += len(name)
    parts += [layout.SortingColumn(index=index).pack() for index in header.sorting_columns]
    parts += names
    if layout.BLOOM_FILTERS.get(header.feature_flags):
        parts.append(layout.BloomColumns(bloom_col_count=len(header.bloom_columns)).pack())
        parts += [layout.SortingColumn(index=index).pack() for index in header.bloom_columns]
    if header.squash_tracker is not None:
        parts.append(layout.SquashTracker(squash_tracker=header.squash_tracker).pack())
    return b"".join([*parts, header.extra])


def _check_fixed(fixed: layout.Header, data: Buffer, file: str) -> None:
    at = layout.Header.at(file, 0)
    unknown = fixed.feature_flags & layout.REQUIRED_FEATURES.mask & ~layout.HEADER_FEATURES.known_mask
    if unknown:
        expected = "no required feature bit that this reader does not know"
        raise at.unsupported("feature_flags", expected, f"bits {_bit_numbers(unknown)}")
    flags = fixed.feature_flags
    if layout.BLOOM_FILTERS_EXTERNAL.get(flags) and not layout.BLOOM_FILTERS.get(flags):
        raise at.corrupt("feature_flags", "BLOOM_FILTERS_EXTERNAL only together with BLOOM_FILTERS", hex(flags))
    if layout.SORTING_IS_DTS_ASC.get(flags) and fixed.designated_timestamp < 0:
        raise at.corrupt(
            "designated_timestamp", "a column index, because SORTING_IS_DTS_ASC is set", fixed.designated_timestamp
        )
    if layout.SORTING_IS_DTS_ASC.get(flags) and fixed.sorting_column_count:
        raise at.corrupt("sorting_column_count", "0, because SORTING_IS_DTS_ASC is set", fixed.sorting_column_count)
    if fixed.reserved:
        raise at.corrupt("reserved", "0", fixed.reserved)
    room = (len(data) - layout.Header.layout.size_bytes) // DESCRIPTOR_BYTES
    if fixed.column_count > room:
        raise at.corrupt("column_count", f"at most {room}, the descriptors that fit into the file", fixed.column_count)
    if fixed.column_count > COLUMN_COUNT_LIMIT:
        raise at.unsupported("column_count", f"at most {COLUMN_COUNT_LIMIT} columns", fixed.column_count)
    if not -1 <= fixed.designated_timestamp < fixed.column_count:
        raise at.corrupt("designated_timestamp", f"-1 to {fixed.column_count - 1}", fixed.designated_timestamp)
    if fixed.sorting_column_count > fixed.column_count:
        raise at.corrupt(
            "sorting_column_count", f"at most {fixed.column_count}, the columns", fixed.sorting_column_count
        )


def _bit_numbers(word: int) -> str:
    return ", ".join(str(bit) for bit in range(word.bit_length()) if word >> bit & 1)


def _indices(data: Buffer, position: int, count: int, limit: int, name: str, file: str) -> tuple[int, ...]:
    indices = []
    for offset_bytes in range(position, position + count * U32_BYTES, U32_BYTES):
        index = layout.SortingColumn.unpack(data, offset_bytes, file=file).index
        if index >= limit:
            raise CorruptError(file, name, offset_bytes, f"a column index below {limit}", index)
        indices.append(index)
    return tuple(indices)


def _columns(
    data: Buffer, descriptors: list[layout.ColumnDescriptor], names_start: int, file: str
) -> tuple[tuple[Column, ...], int]:
    """Decode the columns; return them with the end of the names, where the feature sections start."""
    columns, names_end = [], names_start
    for index, descriptor in enumerate(descriptors):
        # Names that share bytes could take any amount of memory.
        columns.append(_column(data, descriptor, index, names_end, file))
        names_end = descriptor.name_offset + descriptor.name_length
    return tuple(columns), names_end


def _column(data: Buffer, descriptor: layout.ColumnDescriptor, index: int, names_start: int, file: str) -> Column:
    _check_descriptor(descriptor, descriptor_offset(index), names_start, len(data), file)
    try:
        name = bytes(data[descriptor.name_offset : descriptor.name_offset + descriptor.name_length]).decode()
    except UnicodeDecodeError as error:
        actual = f"byte 0x{error.object[error.start]:02x}"
        field = f"NAME_STRINGS of column {index}"
        raise CorruptError(file, field, descriptor.name_offset + error.start, "UTF-8", actual) from error
    return Column(
        name=name,
        id=descriptor.id,
        type=descriptor.type,
        flags=descriptor.flags,
        fixed_byte_len=descriptor.fixed_byte_len,
        physical_type=descriptor.physical_type,
        max_rep_level=descriptor.max_rep_level,
        max_def_level=descriptor.max_def_level,
    )


def _check_descriptor(
    descriptor: layout.ColumnDescriptor, base: int, names_start: int, size_bytes: int, file: str
) -> None:
    at = layout.ColumnDescriptor.at
    if not names_start <= descriptor.name_offset <= size_bytes:
        raise at(file, base).corrupt("name_offset", f"{names_start} to {size_bytes}", descriptor.name_offset)
    if descriptor.name_offset + descriptor.name_length > size_bytes:
        raise at(file, base).corrupt(
            "name_length", f"at most {size_bytes - descriptor.name_offset}", descriptor.name_length
        )
    if descriptor.physical_type >= PHYSICAL_TYPE_COUNT:
        raise at(file, base).corrupt("physical_type", f"0 to {PHYSICAL_TYPE_COUNT - 1}", descriptor.physical_type)
    if descriptor.fixed_byte_len < 0:
        raise at(file, base).corrupt("fixed_byte_len", "0 or more", descriptor.fixed_byte_len)
    if descriptor.reserved:
        raise at(file, base).corrupt("reserved", "0", descriptor.reserved)


def _bloom_columns(data: Buffer, fixed: layout.Header, position: int, file: str) -> tuple[tuple[int, ...], int]:
    if not layout.BLOOM_FILTERS.get(fixed.feature_flags):
        return (), position
    count = layout.BloomColumns.unpack(data, position, file=file).bloom_col_count
    if not 0 < count <= fixed.column_count:
        raise CorruptError(file, "BLOOM_COL_COUNT", position, f"1 to {fixed.column_count}", count)
    position += layout.BloomColumns.layout.size_bytes
    columns = _indices(data, position, count, fixed.column_count, "BLOOM_FILTER_COLUMNS", file)
    if any(left >= right for left, right in itertools.pairwise(columns)):
        raise CorruptError(file, "BLOOM_FILTER_COLUMNS", position, "ascending and unique column indices", columns)
    return columns, position + count * U32_BYTES
