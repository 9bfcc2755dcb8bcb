"""Whether the dictionaries in data.parquet are the table's: servers look the key of a row up in the table's files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from tornproof.impl.chunk.expansion import PYARROW_ERRORS
from tornproof.impl.errors import Problem
from tornproof.impl.layout.pm import LOCAL_KEY_IS_GLOBAL
from tornproof.impl.parquet.fields import Codec, PageType
from tornproof.impl.parquet.pages import PageInfo
from tornproof.impl.pm.block import Chunk
from tornproof.impl.pm.header import Column, FileHeader
from tornproof.impl.table.metadata_file import TableMetadata
from tornproof.impl.table.symbols import SymbolTable

LENGTH_BYTES = 4
CODECS = {Codec.UNCOMPRESSED, Codec.SNAPPY, Codec.GZIP, Codec.BROTLI, Codec.ZSTD, Codec.LZ4_RAW}
"""Those that servers and this writer use; `pyarrow.Codec` calls them by their names in lower case."""


def dictionaries_by_position(
    header: FileHeader, metadata: TableMetadata | None, symbols: Mapping[str, SymbolTable] | None
) -> Mapping[int, SymbolTable]:
    """Return the table's dictionaries by the position of those columns of a partition that have the same keys."""
    names = metadata.names_by_id if metadata and symbols else {}
    return {
        position: symbols[names[column.id]]
        for position, column in enumerate(header.columns)
        if symbols and names.get(column.id) in symbols and LOCAL_KEY_IS_GLOBAL.get(column.flags)
    }


def dictionary_problem(
    content: bytes, pages: Sequence[PageInfo], column: Column, chunk: Chunk, symbols: SymbolTable, *, file: str
) -> Problem | None:
    """Return the first key of a chunk whose symbol is not the table's; servers leave those of unused keys empty.

    Whether a key is in use is not looked at. Pages are those of `check_pages`, which bounds their sizes.
    """
    if not pages or pages[0].kind is not PageType.DICTIONARY or chunk.codec not in CODECS:
        return None
    page, field = pages[0], f"dictionary page of column {column.name!r}"
    start = page.body_offset_bytes - chunk.byte_range_start
    body = content[start : start + page.compressed_size_bytes]
    try:
        if chunk.codec != Codec.UNCOMPRESSED:
            body = pa.Codec(Codec(chunk.codec).name.lower()).decompress(
                body, page.uncompressed_size_bytes, asbytes=True
            )
    except PYARROW_ERRORS as error:
        return Problem(file, field, page.header_offset_bytes, "a page that decodes", str(error))
    known = symbols.symbols
    for key, text in enumerate(_plain_texts(body)):
        if text and (key >= len(known) or text != known[key].encode()):
            expected = f"{known[key]!r}, as in the table" if key < len(known) else f"only the table's {len(known)}"
            actual = repr(text.decode(errors="replace"))
            return Problem(file, f"key {key} in {field}", page.header_offset_bytes, expected, actual)
    return None


def _plain_texts(body: bytes) -> Iterator[bytes]:
    """Yield texts with their lengths before them; those that the page's end cuts are another check's affair."""
    position = 0
    while position < len(body):
        start = position + LENGTH_BYTES
        position = start + int.from_bytes(body[position:start], "little")
        yield body[start:position]
