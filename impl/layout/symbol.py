"""The byte layouts of a symbol column's dictionary: `<column>.o` with offsets, `<column>.c` with characters."""

from typing import Annotated

from tornproof.impl.layout.record import I32, I64, U8, Record, gap, layout_of, meaning

SOURCE = "observed on tables of 9.3.4 to 2026-07"


@layout_of(title="Symbol offsets header", size_bytes=64, source=SOURCE)
class SymbolOffsetsHeader(Record):
    """Start of `.o`; one offset for each symbol follows, and one for the end of the last."""

    symbol_capacity: I32 = meaning("setting, as in `_meta`")
    is_cached: U8 = meaning("1 = symbols are cached, a setting")
    unused: Annotated[bytes, gap(3)] = meaning("unused here")
    has_null: U8 = meaning("1 = rows of the column hold nulls")
    unused_end: Annotated[bytes, gap(55)] = meaning("unused here")


@layout_of(title="Symbol offset", size_bytes=8, source=SOURCE)
class SymbolOffset(Record):
    """Where the symbol of one key begins and its predecessor ends; the first is 0."""

    offset: I64 = meaning("offset in `.c`")


@layout_of(title="Symbol length", size_bytes=4, source=SOURCE)
class SymbolLength(Record):
    """In `.c` before each symbol; UTF-16 code units follow."""

    code_unit_count: I32 = meaning("UTF-16 code units of the symbol")
