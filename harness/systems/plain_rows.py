"""Rows of a table as plain values: equal, with equal hashes, only where all bits are equal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.types as pat

from tornproof.impl.read.reader import Snapshot
from tornproof.impl.types.questdb import TypeTag, tag_of

Values: TypeAlias = tuple[Any, ...]
_LEAST_BYTES = (1 << 63).to_bytes(8, "little")
_IN_PLACE_OF_NULL: dict[TypeTag | None, Any] = {
    **dict.fromkeys((TypeTag.GEOBYTE, TypeTag.GEOSHORT, TypeTag.GEOINT, TypeTag.GEOLONG), -1),
    **dict.fromkeys((TypeTag.LONG, TypeTag.DATE, TypeTag.TIMESTAMP), -(1 << 63)),
    **dict.fromkeys((TypeTag.FLOAT, TypeTag.DOUBLE), "nan"),
    **{TypeTag.INT: -(1 << 31), TypeTag.IPV4: 0},
    **{TypeTag.LONG128: _LEAST_BYTES * 2, TypeTag.LONG256: _LEAST_BYTES * 4, TypeTag.UUID: _LEAST_BYTES[::-1] * 2},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowShape:
    """The columns of a table; `keys` are the indexes of the deduplication keys, without that of the timestamp."""

    schema: pa.Schema
    types: tuple[int, ...]
    timestamp: int
    keys: tuple[int, ...]
    has_keys: bool

    @classmethod
    def of(cls, snapshot: Snapshot) -> RowShape:
        """Return the shape of a table that has `_meta`."""
        metadata = snapshot.table.metadata
        assert metadata is not None
        by_id = {column.id: column for column in metadata.columns}
        columns = [by_id[column.id] for column in snapshot.columns]
        timestamp = [column.id for column in snapshot.columns].index(snapshot.timestamp_id)
        keys = tuple(index for index, column in enumerate(columns) if column.is_dedup_key and index != timestamp)
        return cls(
            schema=snapshot.schema,
            types=tuple(column.type for column in columns),
            timestamp=timestamp,
            keys=keys,
            has_keys=columns[timestamp].is_dedup_key,
        )

    def tag_of(self, index: int) -> TypeTag | None:
        """Return the type of a column without its sizes, None for an unknown one."""
        return tag_of(self.types[index])

    def time_of(self, values: Values) -> int:
        """Return the designated timestamp of a row."""
        return int(values[self.timestamp])

    def keys_of(self, values: Values) -> Values | None:
        """Return the deduplication keys of a row beside its time, None in a table without deduplication.

        The value that a server keeps in place of null is null.
        """
        if not self.has_keys:
            return None
        keys = ((values[index], _IN_PLACE_OF_NULL.get(self.tag_of(index))) for index in self.keys)
        return tuple(None if key == null else key for key, null in keys)


def plain_rows(rows: pa.Table | pa.RecordBatch) -> Iterator[Values]:
    """Yield the values of each row."""
    return zip(*map(_plain, rows.columns), strict=True)


def _plain(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pat.is_temporal(array.type):
        array = array.cast(pa.int64())
    values: list[Any] = array.to_pylist()
    if pat.is_floating(array.type) or pat.is_nested(array.type):
        # A null inside of an array is read as NaN.
        return [value if value is None else repr(value).replace("None", "nan") for value in values]
    return values
