"""Tests whether a commit of QuestDB's partition format can tear: the names that programs import.

Tables are read and written by `open` and `create`; `verify`, `recover`, `migrate` and `check` are the commands of the
same names. A test of another format imports `tornproof.testing`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tornproof.api.operations import check, column, extend, footer, migrate, recover, verify
    from tornproof.api.tables import Scan, Snapshot, Table, create, open
    from tornproof.impl.errors import (
        BusyError,
        CorruptError,
        FileMissingError,
        IndexedColumnError,
        NotATableError,
        ParquetLastError,
        RowsRejectedError,
        StorageError,
        TornproofError,
        UnsupportedError,
        UsageError,
    )
    from tornproof.impl.write.table_writer import TableWriter
    from tornproof.impl.write.writer_options import WriterOptions

__version__ = "0.1.0"
_NAMES_OF = {
    "api.operations": ("check", "column", "extend", "footer", "migrate", "recover", "verify"),
    "api.tables": ("Scan", "Snapshot", "Table", "create", "open"),
    "impl.errors": (
        "BusyError",
        "CorruptError",
        "FileMissingError",
        "IndexedColumnError",
        "NotATableError",
        "ParquetLastError",
        "RowsRejectedError",
        "StorageError",
        "TornproofError",
        "UnsupportedError",
        "UsageError",
    ),
    "impl.write.table_writer": ("TableWriter",),
    "impl.write.writer_options": ("WriterOptions",),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}
__all__ = [
    "BusyError",
    "CorruptError",
    "FileMissingError",
    "IndexedColumnError",
    "NotATableError",
    "ParquetLastError",
    "RowsRejectedError",
    "Scan",
    "Snapshot",
    "StorageError",
    "Table",
    "TableWriter",
    "TornproofError",
    "UnsupportedError",
    "UsageError",
    "WriterOptions",
    "__version__",
    "check",
    "column",
    "create",
    "extend",
    "footer",
    "migrate",
    "open",
    "recover",
    "verify",
]


def __getattr__(name: str) -> object:
    """Import a name at its first use, so that a command or a test that needs little starts quickly."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
