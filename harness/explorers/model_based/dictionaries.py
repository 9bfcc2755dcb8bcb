"""The dictionaries of symbols after a commit: its symbols can be looked up, its nulls are noted, and both are on disk.

Only what the commit has added is asked for: a start may come from others, and a killed commit leaves bytes that nobody
needs.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from tornproof.harness.explorers.model_based.files import ViolationError
from tornproof.harness.explorers.model_based.world import ALLOWED, World, orderly
from tornproof.impl.errors import Problem
from tornproof.impl.layout.txn import SymbolCount
from tornproof.impl.table.symbols import (
    HEADER_BYTES,
    dictionary_paths,
    read_offsets_header,
    read_table_symbols,
    symbol_columns,
)
from tornproof.impl.verify.dictionaries import check_dictionary


def check_dictionaries(world: World, counts: tuple[SymbolCount, ...], *, is_acknowledged: bool) -> None:
    """Check the committed version, whose predecessor has `counts`; what is acknowledged has to be durable, too.

    To be called while the rows of the commit are still staged.
    """
    if not counts:
        return
    table, transaction = world.files.table(), world.transaction
    pairs = zip(symbol_columns(table), counts, transaction.symbol_counts, strict=True)
    grown = [column for column, before, after in pairs if before.count != after.count]
    nulls = _columns_with_new_nulls(world)
    with orderly("reading the dictionaries after a commit"):
        dictionaries = read_table_symbols(table, transaction) if grown else {}
    for column in symbol_columns(table):
        with orderly("reading a dictionary after a commit"):
            paths = dictionary_paths(table, transaction, column)
            has_null = column.name in nulls and not read_offsets_header(table.storage, paths["o"]).has_null
        if has_null:
            raise ViolationError(ALLOWED, f"after a commit of a null, {column.name}.o says that no row has one")
        if column in grown:
            for problem in check_dictionary(table, transaction, column, dictionaries[column.name]):
                if isinstance(problem, Problem):
                    raise ViolationError(ALLOWED, f"after a commit of new symbols, {problem}")
        if is_acknowledged:
            needed = paths.values() if column in grown else [paths["o"]] if column.name in nulls else []
            world.check_synced({Path(path): None if column in grown else HEADER_BYTES for path in needed})


def _columns_with_new_nulls(world: World) -> Collection[str]:
    """Return the names of columns in which a committed row of the commit has null."""
    committed = {identity for entry in world.state.committed.entries for identity in entry.rows}
    written = [world.rows.contents[identity] for identity in world.staged.rows if identity in committed]
    names = world.rows.shape.schema.names
    return {names[index] for row in written for index, value in enumerate(row) if value is None}
