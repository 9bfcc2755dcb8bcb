"""Whether the hash index of a SYMBOL column's dictionary leads to each symbol, and to no other key.

A server that does not find a symbol adds it a second time; one that finds another returns wrong rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tornproof.impl.errors import CorruptError, Problem, UnsupportedError
from tornproof.impl.table.metadata_file import TableColumn
from tornproof.impl.table.symbol_hash import buckets_of, positions_of
from tornproof.impl.table.symbol_index import key_position, read_symbol_index
from tornproof.impl.table.symbols import SymbolTable, dictionary_paths, read_offsets_header
from tornproof.impl.table.table import Table
from tornproof.impl.txn.transaction import Transaction


def check_dictionary(
    table: Table, transaction: Transaction, column: TableColumn, symbols: SymbolTable
) -> Iterator[Problem | str]:
    """Yield what is wrong with a dictionary whose symbols could be read, or in words why it was not looked at.

    What a commit that was not completed has added is ignored, as servers do. Raises StorageError.
    """
    try:
        yield from _check(table, transaction, column, symbols)
    except CorruptError as error:
        yield error.problem
    except UnsupportedError as error:
        yield f"the hash index of column {column.name!r} was not looked at: {error}"


def _check(table: Table, transaction: Transaction, column: TableColumn, symbols: SymbolTable) -> Iterator[Problem]:
    paths = dictionary_paths(table, transaction, column)
    capacity = read_offsets_header(table.storage, paths["o"]).symbol_capacity
    index = read_symbol_index(table.storage, paths["k"], paths["v"], directory="")
    # The one behind the last is no symbol's.
    positions, buckets = positions_of(0, len(symbols.symbols) + 1), np.append(buckets_of(symbols.symbols, capacity), -1)
    is_found = np.zeros(len(positions) - 1, np.bool_)
    for piece in index.pieces():
        inside = piece.rows < positions[-1]
        rows, keys = piece.rows[inside], piece.keys[inside]
        places = np.searchsorted(positions, rows)
        is_right = (positions[places] == rows) & (buckets[places] == keys)
        is_right[1:] &= (rows[1:] > rows[:-1]) | (keys[1:] != keys[:-1])
        for nth in np.flatnonzero(~is_right)[:1]:
            field = f"position of key {keys[nth]}"
            expected = f"where {column.name}.o has a symbol with this hash, in ascending order"
            yield Problem(index.file, field, int(piece.offsets[inside][nth]), expected, str(rows[nth]))
            return
        is_found[places] = True
    for key in np.flatnonzero(~is_found)[:1].tolist():
        field, offset_bytes = f"VALUE_COUNT of key {buckets[key]}", key_position(int(buckets[key]), "value_count")
        expected = f"the position of symbol {symbols.symbols[key]!r} ({positions[key]}) among those of this key"
        yield Problem(index.keys_file, field, offset_bytes, expected, "it is missing")
