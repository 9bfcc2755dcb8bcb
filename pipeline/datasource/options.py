"""Parsing and checking of the data source's options."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from pyspark.sql.types import StructType

from tornproof.impl.errors import TornproofError
from tornproof.impl.query.predicate import Predicate
from tornproof.impl.query.time_search import TimeTextError
from tornproof.impl.read.reader import Snapshot
from tornproof.impl.table.columns import SnapshotColumn
from tornproof.pipeline.datasource.types import spark_schema


class OptionRejectedError(TornproofError):
    """An unknown option of the data source, or an invalid value."""


def path_of(path: str | None) -> str:
    """Return an absolute path of a local file system; raises OptionRejectedError for other addresses.

    Executors have another working directory.
    """
    if not path:
        raise OptionRejectedError("the table's directory is missing: load(TABLE) or save(TABLE)")
    local = path.removeprefix("file://") if path.startswith("file://") else path.removeprefix("file:")
    if "://" in local:
        raise OptionRejectedError(f"{path}: the table must be on a file system that is mounted on every machine")
    return str(Path(local).absolute())


def columns_of_schema(snapshot: Snapshot, schema: StructType) -> tuple[SnapshotColumn, ...]:
    """Return the columns that a schema names; raises UnknownColumnError, OptionRejectedError for other types."""
    columns = snapshot.selected(schema.names)
    for field, own in zip(schema.fields, spark_schema(snapshot.schema_of(columns)).fields, strict=True):
        if field.dataType != own.dataType:
            raise OptionRejectedError(
                f"column {field.name!r} is of type {own.dataType.simpleString()}, not "
                f"{field.dataType.simpleString()}; read it as such and cast it"
            )
    return columns


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


def boolean_of(option: str, text: str) -> bool:
    """Return an option that is true or false."""
    if text.lower() not in ("true", "false"):
        raise OptionRejectedError(f"option {option}: {text!r} is neither true nor false")
    return text.lower() == "true"


def reject_unknown(options: Iterable[str], known: frozenset[str], what: str) -> None:
    """Raise OptionRejectedError for an unknown option."""
    unknown = sorted(set(options) - known)
    if unknown:
        raise OptionRejectedError(f"there is no option {unknown[0]!r} for {what}; there are {', '.join(sorted(known))}")
