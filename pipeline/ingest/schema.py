"""The columns of an archive, and the keys of their values: from a schema file, a sample of frames, or a table."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from tornproof.impl.errors import TornproofError
from tornproof.impl.table.create import NAME_CHARACTERS_REJECTED, NAME_LENGTH_MAX
from tornproof.impl.table.metadata_file import TableMetadata
from tornproof.impl.table.partition_schema import physical_form
from tornproof.impl.types.arrow import arrow_type, is_nullable
from tornproof.impl.types.names import type_name
from tornproof.impl.types.questdb import DESIGNATED, ELEMENT_TAG, TypeTag
from tornproof.pipeline.files import is_utf8

TIMESTAMP_NAMES = ("timestamp", "ts", "time")
DOUBLES = ELEMENT_TAG.put(TypeTag.ARRAY, TypeTag.DOUBLE)
_NUMBERS = (TypeTag.BYTE, TypeTag.SHORT, TypeTag.INT, TypeTag.LONG, TypeTag.FLOAT, TypeTag.DOUBLE)
_CODES = (TypeTag.BOOLEAN, *_NUMBERS, TypeTag.TIMESTAMP, TypeTag.STRING, TypeTag.VARCHAR, DOUBLES)
TYPES = {type_name(code): int(code) for code in _CODES}
"""The column types that frames can be read into."""
LONGS = range(-(1 << 63), 1 << 63)
SEPARATOR = "_"

Keys: TypeAlias = tuple[str, ...]
"""The path to a value in a frame: the keys of its enclosing objects, and its own."""


class SchemaRejectedError(TornproofError):
    """The given or inferred columns cannot be those of this archive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveColumn:
    """A column of the table, its QuestDB type code without flags, and the keys of its value in a frame.

    The keys are `assumed` to be the column's name as long as no schema, frame or earlier run has told them.
    """

    name: str
    keys: Keys
    type: int
    assumed: bool = False

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type that the table's writer takes."""
        form = physical_form(self.type)
        assert form is not None, self
        return arrow_type(self.type, physical_type=form[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSchema:
    """The columns in the table's order; `timestamp` names the designated one."""

    columns: tuple[ArchiveColumn, ...]
    timestamp: str

    def __post_init__(self) -> None:
        """Raise SchemaRejectedError for duplicate columns, or without a designated timestamp."""
        for what, seen in (("name", [c.name.lower() for c in self.columns]), ("path", [c.keys for c in self.columns])):
            if len(set(seen)) < len(seen):
                first, second = _duplicates(self.columns, seen)
                raise SchemaRejectedError(
                    f"{_path(first)} and {_path(second)} get columns of one {what}, {second.name}"
                )
        paths = {column.keys for column in self.columns}
        for column in self.columns:
            if any(column.keys[:end] in paths for end in range(1, len(column.keys))):
                raise SchemaRejectedError(f"{_path(column)}: is inside of a value that is a column itself")
        if all(column.name != self.timestamp or column.type != TypeTag.TIMESTAMP for column in self.columns):
            raise SchemaRejectedError(f"there is no column {self.timestamp!r} of type TIMESTAMP")

    @property
    def arrow(self) -> pa.Schema:
        """The table's columns as its writer takes them."""
        return pa.schema(
            [pa.field(column.name, column.arrow, nullable=self.has_null(column)) for column in self.columns]
        )

    def has_null(self, column: ArchiveColumn) -> bool:
        """Return whether the column is nullable; else a missing value is false or 0, and a missing time an error."""
        return is_nullable(DESIGNATED.put(column.type, 1) if column.name == self.timestamp else column.type)


def read_schema_file(path: Path, timestamp: str | None) -> ArchiveSchema:
    """Read columns from a TOML or JSON file: names and types, in tables or with dots where objects are nested.

    Raises SchemaRejectedError.
    """
    try:
        text = path.read_text(encoding="utf-8")
        document = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SchemaRejectedError(f"{path}: cannot be read as a schema: {reason}") from error
    if not isinstance(document, dict):
        raise SchemaRejectedError(f"{path}: a schema is an object of names and types")
    try:
        columns = tuple(_given(document, ()))
        return ArchiveSchema(columns=columns, timestamp=timestamp_name(columns, timestamp))
    except SchemaRejectedError as error:
        raise SchemaRejectedError(f"{path}: {error}") from error


def infer_schema(frames: Iterable[Mapping[str, Any]], timestamp: str | None) -> ArchiveSchema:
    """Return the columns of a sample of frames; SchemaRejectedError if no designated timestamp is found."""
    columns = infer_columns(frames)
    name = timestamp_name(columns, timestamp)
    return ArchiveSchema(
        columns=tuple(
            ArchiveColumn(name=each.name, keys=each.keys, type=TypeTag.TIMESTAMP) if each.name == name else each
            for each in columns
        ),
        timestamp=name,
    )


def infer_columns(frames: Iterable[Mapping[str, Any]]) -> list[ArchiveColumn]:
    """Return the columns that a sample of frames has, in the order in which their keys first appear."""
    found: dict[Keys, int | None] = {}
    for frame in frames:
        for keys, value in _leaves(frame, ()):
            found[keys] = _wider(found.get(keys), _type_of(value))
    # If a value is an object in one frame and something else in another, the latter is the column.
    claimed = {keys for keys, kind in found.items() if kind is not None}
    above = {keys[:end] for keys in found for end in range(1, len(keys))}
    kept = {
        keys: kind
        for keys, kind in found.items()
        if not any(keys[:end] in claimed for end in range(1, len(keys))) and (kind is not None or keys not in above)
    }
    return [
        ArchiveColumn(name=column_name(keys), keys=keys, type=TypeTag.VARCHAR if kind is None else kind)
        for keys, kind in kept.items()
    ]


def schema_of_table(metadata: TableMetadata, keys_of: Mapping[str, Keys], asked: str | None = None) -> ArchiveSchema:
    """Return the columns of a table that exists; `keys_of` has the known keys by column.

    Raises SchemaRejectedError for tables that an archive cannot add to, and if another designated timestamp than the
    table's is asked for.
    """
    for column in metadata.columns:
        if column.type not in TYPES.values():
            raise SchemaRejectedError(f"column {column.name!r} of the table has a type that frames are not read into")
        if column.is_dedup_key:
            raise SchemaRejectedError("the table has deduplication keys, by which rows of an archive would be lost")
    timestamp = next((column.name for column in metadata.columns if column.id == metadata.timestamp_id), None)
    if timestamp is None:
        raise SchemaRejectedError("the table has no designated timestamp")
    columns = [
        ArchiveColumn(
            name=column.name,
            keys=keys_of.get(column.name, (column.name,)),
            type=column.type,
            assumed=column.name not in keys_of,
        )
        for column in metadata.columns
    ]
    if asked is not None and timestamp_name(columns, asked) != timestamp:
        raise SchemaRejectedError(f"the designated timestamp of the table is {timestamp!r}, not {asked!r}")
    return ArchiveSchema(columns=tuple(columns), timestamp=timestamp)


def column_name(keys: Keys) -> str:
    """Return the column name of a value: its keys joined by `_`, which also replaces invalid characters."""
    joined = SEPARATOR.join(keys)
    name = "".join(SEPARATOR if char in NAME_CHARACTERS_REJECTED else char for char in joined)
    return name[:NAME_LENGTH_MAX] or SEPARATOR


def timestamp_name(columns: Sequence[ArchiveColumn], asked: str | None) -> str:
    """Return the name of the designated timestamp: the given one, else the first of TIMESTAMP_NAMES that exists."""
    names = [column.name for column in columns]
    if asked is not None:
        wanted = column_name(tuple(asked.split(".")))
        if wanted not in names:
            raise SchemaRejectedError(f"there is no {asked!r} to be the designated timestamp; found are {_some(names)}")
        return wanted
    for name in TIMESTAMP_NAMES:
        if name in names:
            return name
    raise SchemaRejectedError(
        f"none of {', '.join(TIMESTAMP_NAMES)} is there to be the designated timestamp; found are {_some(names)}"
    )


def _given(document: Mapping[str, Any], above: Keys) -> Iterator[ArchiveColumn]:
    for name, value in document.items():
        keys = (*above, *name.split("."))
        if not is_utf8(name):
            raise SchemaRejectedError(f"{name!r}: a name is text in UTF-8")
        if isinstance(value, Mapping):
            yield from _given(value, keys)
        elif not isinstance(value, str) or value.upper() not in TYPES:
            raise SchemaRejectedError(f"{'.'.join(keys)}: {value!r} is not one of the types {', '.join(TYPES)}")
        else:
            yield ArchiveColumn(name=column_name(keys), keys=keys, type=TYPES[value.upper()])


def _leaves(frame: Mapping[str, Any], above: Keys) -> Iterator[tuple[Keys, Any]]:
    """Yield the values of a frame that may be in columns: with half of a surrogate pair, a key can be no name."""
    for key, value in frame.items():
        if not is_utf8(key):
            continue
        if isinstance(value, Mapping):
            yield from _leaves(value, (*above, key))
        else:
            yield (*above, key), value


def _type_of(value: Any) -> int | None:
    match value:
        case None:
            return None
        case bool():
            return TypeTag.BOOLEAN
        case int():
            return TypeTag.LONG if value in LONGS else TypeTag.DOUBLE
        case float():
            return TypeTag.DOUBLE
        case list() if all(type(element) in (int, float, type(None)) for element in value):
            return DOUBLES
        case _:
            return TypeTag.VARCHAR


def _wider(known: int | None, found: int | None) -> int | None:
    """Return the common type; for incompatible ones the first, so that later values are rejected."""
    if {known, found} == {TypeTag.LONG, TypeTag.DOUBLE}:
        return TypeTag.DOUBLE
    return found if known is None else known


def _duplicates(columns: Sequence[ArchiveColumn], seen: Sequence[object]) -> tuple[ArchiveColumn, ArchiveColumn]:
    second = next(index for index, value in enumerate(seen) if value in seen[:index])
    return columns[seen.index(seen[second])], columns[second]


def _path(column: ArchiveColumn) -> str:
    return repr(".".join(column.keys))


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "") if names else "no columns"
