"""The chunks in the blocks of a converted `_pm` (docs/migration.md)."""

from __future__ import annotations

from collections.abc import Sequence

from tornproof.impl import limits
from tornproof.impl.migrate.rejections import Cause, RejectionError
from tornproof.impl.migrate.shapes import ColumnChunk, ColumnMetaData, FileMetaData, RowGroup, Statistics
from tornproof.impl.parquet.fields import Codec
from tornproof.impl.pm.block import STATISTIC_LIMIT_BYTES, Chunk, Statistic
from tornproof.impl.pm.footer_comparison import ENCODING_MASKS
from tornproof.impl.pm.header import COLUMN_COUNT_LIMIT

_NO_STATISTICS = Statistics(null_count=None, distinct_count=None, max_value=None, min_value=None)


def check_row_groups(footer: FileMetaData, column_count: int) -> None:
    """Reject row groups that the converter rejects, or more than readers accept; raises RejectionError."""
    for name, count, count_max in (
        ("schema", column_count, COLUMN_COUNT_LIMIT),
        ("row_groups", len(footer.row_groups), limits.ROW_GROUP_COUNT_LIMIT),
        ("column chunks", len(footer.row_groups) * max(1, column_count), limits.CHUNK_COUNT_LIMIT),
    ):
        if count > count_max:
            raise RejectionError(Cause.BUDGET, f"at most {count_max}, which readers of `_pm` take", count, step=name)
    for index, row_group in enumerate(footer.row_groups):
        try:
            _check_row_group(row_group, column_count)
        except RejectionError as rejection:
            raise rejection.at(f"[{index}]", "row_groups") from None
    _not_negative(footer.num_rows, "num_rows")


def check_file_paths(row_groups: Sequence[RowGroup]) -> None:
    """Reject chunks in other files, even if their path is empty; raises RejectionError."""
    for index, row_group in enumerate(row_groups):
        for column_index, column in enumerate(row_group.columns):
            if column.file_path is not None:
                rejection = RejectionError(
                    Cause.FILE_PATH, "chunks in this file", repr(column.file_path), step="file_path"
                )
                raise rejection.at(f"columns[{column_index}]", f"row_groups[{index}]")


def chunk_of(meta: ColumnMetaData, *, as_questdb: bool) -> Chunk:
    """Return the chunk as `_pm` describes it; statistics may be longer than it can hold.

    Many writers mean "none" by a dictionary page at offset 0; the converter writes the 0 (docs/migration.md).
    """
    statistics = meta.statistics or _NO_STATISTICS
    start = meta.dictionary_page_offset
    if start is None or (start == 0 and not as_questdb):
        start = meta.data_page_offset
    return Chunk(
        codec=meta.codec,
        encodings=_encodings(meta.encodings),
        num_values=max(meta.num_values, 0),
        byte_range_start=start,
        total_compressed=meta.total_compressed_size,
        null_count=_count(statistics.null_count),
        distinct_count=_count(statistics.distinct_count),
        minimum=_statistic(statistics.min_value),
        maximum=_statistic(statistics.max_value),
    )


def check_statistics(chunk: Chunk) -> None:
    """Reject statistics that are too long for `_pm`; raises RejectionError."""
    for name, statistic in (("min_value", chunk.minimum), ("max_value", chunk.maximum)):
        if statistic is not None and len(statistic.value) > STATISTIC_LIMIT_BYTES:
            expected = f"at most {STATISTIC_LIMIT_BYTES} bytes"
            raise RejectionError(Cause.LONG_STATISTIC, expected, len(statistic.value), step=name)


def meta_of(column: ColumnChunk) -> ColumnMetaData:
    """Return the metadata of a chunk that `check_row_groups` accepted."""
    assert column.meta_data is not None, "checked before"
    return column.meta_data


def _check_row_group(row_group: RowGroup, column_count: int) -> None:
    if len(row_group.columns) != column_count:
        expected = f"{column_count} chunks, one for each leaf"
        raise RejectionError(Cause.ROW_GROUP, expected, len(row_group.columns), step="columns")
    _not_negative(row_group.total_byte_size, "total_byte_size")
    _not_negative(row_group.num_rows, "num_rows")
    for index, column in enumerate(row_group.columns):
        meta = column.meta_data
        if meta is None:
            raise RejectionError(Cause.ROW_GROUP, "metadata", "none", step="meta_data").at(f"columns[{index}]")
        try:
            _not_negative(meta.total_compressed_size, "total_compressed_size")
            _not_negative(meta.dictionary_page_offset or 0, "dictionary_page_offset")
            _not_negative(meta.data_page_offset, "data_page_offset")
            if not 0 <= meta.codec < len(Codec):
                raise RejectionError(
                    Cause.OUT_OF_RANGE, f"a codec from 0 to {len(Codec) - 1}", meta.codec, step="codec"
                )
        except RejectionError as rejection:
            raise rejection.at("meta_data", f"columns[{index}]") from None


def _not_negative(number: int, name: str) -> None:
    if number < 0:
        raise RejectionError(Cause.NEGATIVE, "0 or more", number, step=name)


def _encodings(encodings: tuple[int, ...]) -> int:
    mask = 0
    for encoding in encodings:
        # Unknown encodings have no bit.
        mask |= ENCODING_MASKS.get(encoding, 0)
    return mask


def _count(number: int | None) -> int | None:
    return None if number is None else max(number, 0)


def _statistic(value: bytes | None) -> Statistic | None:
    return Statistic(value=value, exact=True) if value else None
