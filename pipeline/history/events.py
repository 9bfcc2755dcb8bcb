"""Parquet files of events: finding, validating, and reading them in slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from tornproof.harness.checkers.recorded import NAMES, TEXTS
from tornproof.impl.errors import TornproofError

RowGroup: TypeAlias = tuple[str, int]
Slice: TypeAlias = tuple[RowGroup, ...]


class UnreadableEventsError(TornproofError):
    """A path without readable events."""


def event_files(paths: Sequence[Path]) -> list[Path]:
    """Return the Parquet files among the paths, and those below the directories among them.

    Files whose names begin with a dot or an underscore are unfinished, as in every dataset. Raises
    UnreadableEventsError if there is none.
    """
    files: list[Path] = []
    for path in paths:
        if not path.exists():
            raise UnreadableEventsError(f"{path}: does not exist")
        below = [path] if path.is_file() else sorted(path.rglob("*.parquet"))
        own = [file for file in below if file == path or not _is_hidden(file.relative_to(path))]
        if not own:
            raise UnreadableEventsError(f"{path}: contains no Parquet file")
        files += [file for file in own if file not in files]
    return files


def key_columns(files: Mapping[Path, pq.FileMetaData], paths: Sequence[Path]) -> list[str]:
    """Return the columns that events do not have, and those in names of directories (`fault=none`)."""
    keys: dict[str, None] = {}
    for file, metadata in files.items():
        names = metadata.schema.to_arrow_schema().names
        keys.update(dict.fromkeys(name for name in names if name not in NAMES))
        for path in paths:
            if file.is_relative_to(path):
                parts = file.relative_to(path).parent.parts
                keys.update(dict.fromkeys(part.split("=")[0] for part in parts if "=" in part))
    return list(keys)


def plan_slices(files: Sequence[Path], slice_events: int) -> tuple[list[Slice], int]:
    """Return row groups combined into slices, and the number of all events; raises UnreadableEventsError."""
    slices: list[Slice] = []
    current: list[RowGroup] = []
    current_count = event_count = 0
    for file in files:
        metadata = events_metadata(file)
        for index in range(metadata.num_row_groups):
            row_count = metadata.row_group(index).num_rows
            if current and current_count + row_count > slice_events:
                slices.append(tuple(current))
                current, current_count = [], 0
            current.append((str(file), index))
            current_count += row_count
            event_count += row_count
    return [*slices, tuple(current)] if current else slices, event_count


def events_metadata(file: Path) -> pq.FileMetaData:
    """Return the metadata of a Parquet file of events; raises UnreadableEventsError."""
    try:
        with pq.ParquetFile(file) as parquet:
            metadata, schema = parquet.metadata, parquet.schema_arrow
    except (pa.ArrowException, OSError) as error:
        raise UnreadableEventsError(f"{file}: is not a readable Parquet file: {error}") from error
    for name in NAMES:
        index = schema.get_field_index(name)
        if index < 0:
            raise UnreadableEventsError(f"{file}: has no column {name}, so it contains no events")
        type_ = schema.field(index).type
        is_right = _is_text(type_) if name in TEXTS else type_ == pa.int64()
        if not is_right:
            raise UnreadableEventsError(f"{file}: column {name} is {type_}, not {'text' if name in TEXTS else 'int64'}")
    return metadata


def read_slice(row_groups: Slice) -> pa.Table:
    """Return the events of a slice, with texts dictionary-encoded."""
    tables = []
    for path, index in row_groups:
        with pq.ParquetFile(path, read_dictionary=list(TEXTS), memory_map=True) as file:
            tables.append(file.read_row_group(index, columns=list(NAMES), use_threads=False))
    return pa.concat_tables(tables).select(NAMES)


def _is_text(type_: pa.DataType) -> bool:
    inner = type_.value_type if pa.types.is_dictionary(type_) else type_
    return bool(pa.types.is_string(inner) or pa.types.is_large_string(inner))


def _is_hidden(below: Path) -> bool:
    return any(part.startswith((".", "_")) for part in below.parts)
