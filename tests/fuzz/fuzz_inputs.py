"""How one input of a fuzzer encodes several things: parts in one string of bytes, chunks, damage to a table.

Any bytes can be split, whatever a mutation did to them, so that no input is wasted on the framing.
"""

import struct
from dataclasses import dataclass

from tornproof.impl.parquet.fields import Codec
from tornproof.impl.pm.block import Chunk, Statistic
from tornproof.impl.pm.header import Column
from tornproof.impl.types.physical import PhysicalType

LENGTH = struct.Struct("<I")
FACTS = struct.Struct("<iBiBBBIIB")
EDIT = struct.Struct("<BBIB")
CHUNK_START = 4


def joined(*parts: bytes) -> bytes:
    """Return the parts as one string of bytes; the last one needs no length."""
    return b"".join(LENGTH.pack(len(part)) + part for part in parts[:-1]) + parts[-1]


def parts_of(data: bytes, count: int) -> list[bytes]:
    """Return `count` parts; lengths that are too large end where the bytes do."""
    parts = []
    for _ in range(count - 1):
        length = LENGTH.unpack(data[: LENGTH.size].ljust(LENGTH.size, b"\0"))[0]
        data = data[LENGTH.size :]
        parts.append(data[:length])
        data = data[length:]
    return [*parts, data]


def chunk_input(column: Column, chunk: Chunk, content: bytes) -> bytes:
    """Return a chunk with its description in `_pm`."""
    bounds = (chunk.minimum, chunk.maximum)
    flags = (chunk.null_count is not None) | sum(
        (bound is not None) << 2 * location + 1 | (bound is not None and bound.exact) << 2 * location + 2
        for location, bound in enumerate(bounds)
    )
    facts = FACTS.pack(
        column.type,
        column.physical_type,
        column.fixed_byte_len,
        column.max_rep_level,
        column.max_def_level,
        chunk.codec,
        chunk.num_values,
        chunk.null_count or 0,
        flags,
    )
    return joined(facts, *(bound.value if bound else b"" for bound in bounds), content)


def chunk_of(data: bytes) -> tuple[Column, Chunk, bytes]:
    """Return a chunk with its description in `_pm`, of which the decoder has checked codec and physical type."""
    facts, low, high, content = parts_of(data, 4)
    type_, physical, fixed_byte_len, rep, def_, codec, value_count, null_count, flags = FACTS.unpack(
        facts[: FACTS.size].ljust(FACTS.size, b"\0")
    )
    bounds = [
        Statistic(value=value, exact=bool(flags >> 2 * location + 2 & 1))
        if value and flags >> 2 * location + 1 & 1
        else None
        for location, value in enumerate((low, high))
    ]
    column = Column(
        name="x",
        id=0,
        type=type_,
        flags=0,
        fixed_byte_len=fixed_byte_len,
        physical_type=physical % len(PhysicalType),
        max_rep_level=rep,
        max_def_level=def_,
    )
    chunk = Chunk(
        codec=codec % len(Codec),
        encodings=0,
        num_values=value_count,
        byte_range_start=CHUNK_START,
        total_compressed=len(content),
        null_count=null_count if flags & 1 else None,
        distinct_count=None,
        minimum=bounds[0],
        maximum=bounds[1],
    )
    return column, chunk, content


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of one file of a table: what to do with which file, where, with which bytes."""

    file: int
    operation: int
    offset: int
    content: bytes

    def pack(self) -> bytes:
        """Return the edit as bytes of an input."""
        return EDIT.pack(self.file, self.operation, self.offset, len(self.content)) + self.content


def edits_of(data: bytes) -> list[Edit]:
    """Return all complete edits; an incomplete one at the end is ignored."""
    edits = []
    position = 0
    while position + EDIT.size <= len(data):
        file, operation, offset, length = EDIT.unpack_from(data, position)
        position += EDIT.size
        edits.append(Edit(file, operation, offset, data[position : position + length]))
        position += length
    return edits
