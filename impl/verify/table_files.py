"""What a table has beside its partitions: `_cv`, `_name` and the dictionaries of its SYMBOL columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Self

import msgspec

from tornproof.impl.errors import CorruptError, FileMissingError, Problem, UnsupportedError
from tornproof.impl.layout.meta import NameLength
from tornproof.impl.table.column_versions import (
    CV_FILE,
    ColumnVersions,
    read_column_versions,
    suffixed,
)
from tornproof.impl.table.metadata_file import CODE_UNIT_BYTES, META_FILE, NAME_FILE, TableColumn, TableMetadata
from tornproof.impl.table.symbols import DICTIONARY_FILES, SymbolTable, read_table_symbols, symbol_columns
from tornproof.impl.table.table import Table
from tornproof.impl.txn.transaction import TXN_FILE, Transaction
from tornproof.impl.types.questdb import TypeTag, tag_of
from tornproof.impl.verify.dictionaries import check_dictionary


class TableFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What was found; `versions` and `symbols` are None where they cannot be read, `notes` say what was left out."""

    columns: tuple[TableColumn, ...]
    versions: ColumnVersions | None = None
    symbols: Mapping[str, SymbolTable] | None = None
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: Table, transaction: Transaction) -> Self:
        """Read the files of a table; raises StorageError."""
        names = table.storage.listdir(table.path)
        if table.metadata is None:
            return cls._without_metadata(names)
        columns = table.metadata.columns
        problems, notes = list(_name_problems(table, names)), list(_unknown_types(columns))
        notes += _other_version(table.metadata, transaction)
        try:
            path, version = f"{table.path}/{CV_FILE}", transaction.record.column_version
            versions = read_column_versions(table.storage, path, version=version)
            dictionaries: list[Problem | str] = list(_missing_dictionaries(columns, versions, names))
            symbols = None if dictionaries else read_table_symbols(table, transaction)
            for column in symbol_columns(table):
                if symbols is not None:
                    dictionaries += check_dictionary(table, transaction, column, symbols[column.name])
            problems += [each for each in dictionaries if isinstance(each, Problem)]
            notes += [each for each in dictionaries if isinstance(each, str)]
        except FileMissingError:
            problems.append(missing_versions())
        except CorruptError as error:
            problems.append(error.problem)
        except UnsupportedError as error:
            notes.append(f"not looked at: {error}")
        else:
            return cls(
                columns=columns, versions=versions, symbols=symbols, problems=tuple(problems), notes=tuple(notes)
            )
        return cls(columns=columns, problems=tuple(problems), notes=tuple(notes))

    @classmethod
    def _without_metadata(cls, names: tuple[str, ...]) -> Self:
        """A table with a server's other files has lost its `_meta`; a mere copy of commits has none."""
        others = [name for name in (CV_FILE, NAME_FILE) if name in names]
        if others:
            return cls(
                columns=(), problems=(_missing(META_FILE, f"the table's columns, because there is {others[0]}"),)
            )
        return cls(columns=(), notes=(f"there is no {META_FILE}, so columns and dictionaries were not looked at",))


def _name_problems(table: Table, names: tuple[str, ...]) -> Iterator[Problem]:
    """Yield what is wrong with the file of the table's name; raises StorageError."""
    if NAME_FILE not in names:
        yield _missing(NAME_FILE, "the table's name")
        return
    with table.storage.open_for_reading(f"{table.path}/{NAME_FILE}") as file:
        size_bytes = file.size_bytes()
        head = file.pread(NameLength.layout.size_bytes, 0)
    try:
        code_unit_count = NameLength.unpack(head, 0, file=NAME_FILE).code_unit_count
    except CorruptError as error:
        yield error.problem
        return
    room = (size_bytes - NameLength.layout.size_bytes) // CODE_UNIT_BYTES
    if not 0 < code_unit_count <= room:
        yield NameLength.at(NAME_FILE, 0).problem("code_unit_count", f"1 to {room}", code_unit_count)


def _unknown_types(columns: tuple[TableColumn, ...]) -> Iterator[str]:
    """Yield which columns have a type that is unknown here, as one of a newer release is, or one with a flipped bit."""
    for column in columns:
        if tag_of(column.type) is None:
            yield f"column {column.name!r} has type {column.type}, which is unknown here"


def _other_version(metadata: TableMetadata, transaction: Transaction) -> Iterator[str]:
    """Yield that `_meta` is not the one of the committed version, as after a server was killed while it changed it."""
    if metadata.version != transaction.metadata_version:
        yield (
            f"METADATA_VERSION of {META_FILE} is {metadata.version}, and {transaction.metadata_version} in "
            f"STRUCTURE_VERSION of {TXN_FILE}: servers wait until they agree"
        )


def _missing_dictionaries(
    columns: tuple[TableColumn, ...], versions: ColumnVersions, names: tuple[str, ...]
) -> Iterator[Problem]:
    """Yield which files of dictionaries are missing, and which of other versions there are, that no server reads."""
    present = frozenset(names)
    for column in columns:
        if tag_of(column.type) is not TypeTag.SYMBOL:
            continue
        for kind in DICTIONARY_FILES:
            file = suffixed(f"{column.name}.{kind}", versions.dictionary_name_txn(column.id))
            if file in present:
                continue
            similar = re.compile(rf"{re.escape(f'{column.name}.{kind}')}(\.\d+)?")
            others = [name for name in names if similar.fullmatch(name)]
            expected = f"the file that the dictionary of column {column.name!r} has by {CV_FILE}"
            yield _missing(file, expected, ", ".join(others) or "none")


def missing_versions() -> Problem:
    """Return the problem of a table with columns and without `_cv`."""
    return _missing(CV_FILE, "the versions of the columns")


def _missing(file: str, expected: str, actual: str = "none") -> Problem:
    return Problem(file, "file", None, expected, actual)
