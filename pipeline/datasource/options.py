"""Parsing and checking of the data source's options."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow.fs
from pyspark.sql.types import StructType

from tornproof.impl.errors import RowsRejectedError, TornproofError
from tornproof.impl.query.predicate import Predicate
from tornproof.impl.query.time_search import TimeTextError
from tornproof.impl.read.reader import Snapshot
from tornproof.impl.table.columns import SnapshotColumn
from tornproof.pipeline.datasource.ledger import Batch
from tornproof.pipeline.datasource.types import spark_schema

UNIT_SHIFTS = {"k": 10, "m": 20, "g": 30, "t": 40}
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


class OptionRejectedError(TornproofError):
    """An unknown option of the data source, or an invalid value."""


def path_of(path: str | None) -> str:
    """Return the absolute path of a table; raises OptionRejectedError for addresses of other file systems."""
    if not path:
        raise OptionRejectedError(
            "the table's directory is missing: load(TABLE), save(TABLE), or in SQL INSERT INTO … WITH (path = 'TABLE')"
        )
    return _mounted(path, "the table")


def folder_of(options: Mapping[str, str], option: str) -> str | None:
    """Return the absolute path of an option that is a folder, or None if it is not given; raises as `path_of` does."""
    path = options.get(option)
    if path == "":
        raise OptionRejectedError(f"option {option}: names no folder")
    return None if path is None else _mounted(path, f"the folder of the option {option}")


def _mounted(path: str, what: str) -> str:
    """Return an absolute path, because executors have another working directory."""
    local = path.removeprefix("file://") if path.startswith("file://") else path.removeprefix("file:")
    if _ADDRESS.match(local):
        raise OptionRejectedError(f"{path}: {what} must be on a file system that is mounted on every machine")
    return str(Path(local).absolute())


def columns_of_schema(snapshot: Snapshot, schema: StructType, option: str | None) -> tuple[SnapshotColumn, ...]:
    """Return the columns that a schema names.

    Raises UnknownColumnError, and OptionRejectedError for other types, or if the option `columns` names other columns.
    """
    columns, names = snapshot.selected(schema.names), names_of(option)
    if names is not None and names != schema.names:
        raise OptionRejectedError(
            f"option columns: {', '.join(names)} are not the columns of the schema, {', '.join(schema.names)}; "
            "give one of the two"
        )
    for field, own in zip(schema.fields, spark_schema(snapshot.schema_of(columns)).fields, strict=True):
        if field.dataType != own.dataType:
            raise OptionRejectedError(
                f"column {field.name!r} is of type {own.dataType.simpleString()}, not "
                f"{field.dataType.simpleString()}; read it as such and cast it"
            )
    return columns


def reject_columns(given: Sequence[str], known: Sequence[str], timestamp: str) -> None:
    """Raise RowsRejectedError for columns that a table lacks, for two of one name, and without its timestamp."""
    unknown = [name for name in given if name not in known]
    if unknown:
        raise RowsRejectedError(f"there is no column {unknown[0]!r}; the table has {', '.join(known)}")
    if len({*given}) < len(given):
        raise RowsRejectedError("the rows have two columns of one name")
    if timestamp not in given:
        raise RowsRejectedError(f"the rows lack {timestamp!r}, the designated timestamp")


def times_predicate(snapshot: Snapshot, start: str | None, end: str | None) -> Predicate | None:
    """Return the predicate of the options `from`, inclusive, and `to`, exclusive; times without zone are UTC."""
    try:
        return snapshot.predicate_of(snapshot.time_range(start, end))
    except TimeTextError as error:
        raise OptionRejectedError(f"options from and to: {error}") from error


def condition_predicate(snapshot: Snapshot, text: str | None) -> Predicate | None:
    """Return the predicate of the option `where`, a condition as in `tornproof read`; raises PredicateError."""
    if text is None:
        return None
    # Importing the parser takes longer than planning.
    from tornproof.impl.query.predicate_text import parse_predicate

    return parse_predicate(text, snapshot.columns)


def names_of(option: str | None) -> list[str] | None:
    """Return the names of the option `columns`: a list in JSON, or names with commas between them."""
    if option is None:
        return None
    names = [name.strip() for name in option.split(",")]
    if option.lstrip().startswith("["):
        try:
            names = json.loads(option)
        except ValueError as error:
            raise OptionRejectedError(f"option columns: {option!r} is not a JSON list: {error}") from error
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise OptionRejectedError(f"option columns: {option!r} does not name columns, each once")
    return names


def integer_of(option: str, text: str) -> int:
    """Return an option that is a whole number."""
    try:
        return int(text)
    except ValueError:
        raise OptionRejectedError(f"option {option}: {text!r} is not a whole number") from None


def whole_number_of(options: Mapping[str, str], option: str) -> int | None:
    """Return an option that is a whole number from 1 on, or None if it is not given; the keys are in lower case."""
    text = options.get(option.lower())
    number = None if text is None else integer_of(option, text)
    if number is not None and number < 1:
        raise OptionRejectedError(f"option {option}: {number} is not 1 or more")
    return number


def size_of(options: Mapping[str, str], option: str) -> int | None:
    """Return an option that is a size in bytes, such as 1048576 or 1m, or None if it is not given."""
    text = options.get(option.lower(), "").strip().lower().removesuffix("b")
    shift = UNIT_SHIFTS.get(text[-1:])
    number = whole_number_of(options if shift is None else {option.lower(): text[:-1]}, option)
    return None if number is None else number << (shift or 0)


def batch_of(options: Mapping[str, str]) -> Batch | None:
    """Return the batch that a job writes, if the options `query` and `batch` say which."""
    if ("query" in options) != ("batch" in options):
        raise OptionRejectedError("the options query and batch go together: a name, and a number that grows")
    return Batch(query=options["query"], number=integer_of("batch", options["batch"])) if "query" in options else None


def query_of(options: Mapping[str, str]) -> str:
    """Return what names a streaming query for ever: the option `query`, or the id in its checkpoint."""
    if "query" in options:
        return options["query"]
    checkpoint = options.get("checkpointLocation")
    if checkpoint is None:
        raise OptionRejectedError("writing a stream needs the option checkpointLocation, or query, a name for ever")
    return _id_in(checkpoint)


def checkpoint_of(options: Mapping[str, str]) -> str | None:
    """Return the id in the checkpoint of a streaming query, or None if it cannot be read."""
    with suppress(OptionRejectedError, KeyError):
        return _id_in(options["checkpointLocation"])
    return None


def _id_in(checkpoint: str) -> str:
    """Return the id of the query that a checkpoint belongs to."""
    try:
        files, path = pyarrow.fs.LocalFileSystem(), checkpoint.removeprefix("file:")
        if "://" in checkpoint:
            files, path = pyarrow.fs.FileSystem.from_uri(checkpoint)
        with files.open_input_stream(f"{path}/metadata") as file:
            return str(json.loads(file.read())["id"])
    except (OSError, ValueError, KeyError, TypeError, pyarrow.ArrowException) as error:
        raise OptionRejectedError(
            f"the id of the query cannot be read from its checkpoint {checkpoint}; give the option query, a name for "
            f"ever ({error})"
        ) from error


def boolean_of(option: str, text: str) -> bool:
    """Return an option that is true or false."""
    if text.lower() not in ("true", "false"):
        raise OptionRejectedError(f"option {option}: {text!r} is neither true nor false")
    return text.lower() == "true"


def reject_unknown(options: Iterable[str], known: frozenset[str], what: str) -> None:
    """Raise OptionRejectedError for an unknown option."""
    spelled = {name.lower() for name in known}
    unknown = sorted(name for name in options if name.lower() not in spelled)
    if unknown:
        raise OptionRejectedError(f"there is no option {unknown[0]!r} for {what}; there are {', '.join(sorted(known))}")
