"""A small table with columns of every type, whose pages have no checksums, as other writers leave them out.

What its pages decode to is not protected, so damage may be read as other values, but only an error of ours may end it.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable, Iterator

from tornproof.harness.common.new_tables import new_table_of_rows
from tornproof.harness.explorers.corruption.plan import BITS_IN_BYTE, Again, Edit, Flip, Kind, Overwrite
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.parquet.encode_options import EncodeOptions
from tornproof.impl.parquet.fields import Codec
from tornproof.impl.parquet.pages import PageInfo
from tornproof.impl.pm.header import Column
from tornproof.impl.types.arrow import is_double_array
from tornproof.impl.types.questdb import array_dimensions
from tornproof.impl.write.partition_change import WriterOptions

PATH = "every type"
TYPES = (
    *("TIMESTAMP", "BOOLEAN", "BYTE", "SHORT", "CHAR", "INT", "LONG", "DATE", "TIMESTAMP_NS", "FLOAT", "DOUBLE"),
    *("STRING", "VARCHAR", "SYMBOL", "BINARY", "UUID", "LONG256", "IPV4", "LONG128"),
    *("GEOHASH(7b)", "GEOHASH(3c)", "GEOHASH(6c)", "GEOHASH(12c)"),
    *("DECIMAL(2,1)", "DECIMAL(4,2)", "DECIMAL(9,2)", "DECIMAL(18,3)", "DECIMAL(38,10)", "DECIMAL(76,20)"),
    *("DOUBLE[]", "DOUBLE[][]"),
)
ROW_COUNT = 24
EVERY = 61
"""One of so many bits is flipped; odd, so that all bits of a byte are among them."""
SIZE = struct.Struct("<I")


@functools.cache
def image_of_every_type() -> DiskImage:
    """Return the table at PATH; its pages are not compressed."""
    storage = MemoryStorage()
    columns = {f"c{number}": of for number, of in enumerate(TYPES)}
    plain = EncodeOptions(codec=Codec.UNCOMPRESSED, page_checksums=False, page_index=False, statistics=False)
    times = range(FIRST_TIME, FIRST_TIME + ROW_COUNT)
    new_table_of_rows(storage, PATH, columns, times, seed=1, options=WriterOptions(encoding=plain))
    return storage.image()


def value_damages(file: str, content: bytes, pages: Iterable[tuple[Column, PageInfo]]) -> Iterator[Again]:
    """Yield the file with some bits of the `pages`, each with its column, flipped, and with wrong lengths of arrays."""
    for column, page in pages:
        start, end = page.body_offset_bytes, page.end_bytes
        bits = range(start * BITS_IN_BYTE, end * BITS_IN_BYTE, EVERY)
        yield from (Again(Kind.VALUE, Flip(file, bit)) for bit in bits)
        if is_double_array(column.type):
            yield from _wrong_shapes(file, content, start, end, array_dimensions(column.type))


def _wrong_shapes(file: str, content: bytes, start: int, end: int, dimensions: int) -> Iterator[Again]:
    """Yield the raw arrays of a plain page with a length that does not fit their bytes: one less, one more, none."""
    # First come the definition levels.
    at = start + SIZE.size + SIZE.unpack_from(content, start)[0]
    while at + SIZE.size < end:
        lengths = [SIZE.unpack_from(content, at + SIZE.size * (1 + number))[0] for number in range(dimensions)]
        for number, length in enumerate(lengths):
            offset = at + SIZE.size * (1 + number)
            for wrong in sorted({length - 1, length + 1, 0} - {length, -1}):
                if all(other for position, other in enumerate(lengths) if position != number):
                    edit = Edit(file, offset, SIZE.pack(wrong))
                    words = (
                        f"an array of {' x '.join(map(str, lengths))} at {at} has length {wrong} instead of {length}"
                    )
                    yield Again(Kind.VALUE, Overwrite(Kind.FIELD, (edit,), f"{words} in dimension {number}"))
        at += SIZE.size + SIZE.unpack_from(content, at)[0]
