"""Whether damage of what is optional leaves a file readable: of second chunks, and of the records that lead to them."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tornproof.harness.common.patch import replaced
from tornproof.harness.common.whose_error import errors_as_problems
from tornproof.harness.explorers.corruption.plan import BITS_IN_BYTE, Flip
from tornproof.harness.explorers.roundtrip.forms import FILE, Column, columns_of, duplicated_file, is_same, opened
from tornproof.impl.chunk.duplicate_values import ChunkSource
from tornproof.impl.chunk.duplicates import DUPLICATE_UUID
from tornproof.impl.layout.encodings import DuplicateTail

PROPERTY = "damage of what is optional leaves a file readable"
ROW_COUNT = 40
RECORD_BIT_STEP, CHUNK_BIT_STEP = 3, 11
"""One bit of so many is flipped: some of each byte, or of each other one."""


@dataclass(frozen=True, slots=True)
class FlippedBit:
    """A bit of a file with chunks that are there twice, and where it is."""

    bit: int
    kind: str

    @property
    def name(self) -> str:
        """It in words."""
        return f"bit {self.bit} of the file, in {self.kind}"


@functools.cache
def flipped_bits() -> tuple[FlippedBit, ...]:
    """Return bits of each record, and some of the chunk that it leads to."""
    content, size_bytes = _file(), DuplicateTail.layout.size_bytes
    found: list[FlippedBit] = []
    end = 0
    while (at := content.find(DUPLICATE_UUID, end)) >= 0:
        end = at + len(DUPLICATE_UUID)
        record = DuplicateTail.unpack(content, end - size_bytes, file=FILE)
        start = record.chunk_offset * BITS_IN_BYTE
        chunk = range(start, start + record.chunk_length * BITS_IN_BYTE, CHUNK_BIT_STEP)
        bits = range((end - size_bytes) * BITS_IN_BYTE, end * BITS_IN_BYTE, RECORD_BIT_STEP)
        found += (FlippedBit(bit, "a record") for bit in bits)
        found += (FlippedBit(bit, "a second chunk") for bit in chunk)
    return tuple(found)


@errors_as_problems
def problem_of(each: FlippedBit) -> str | None:
    """Say what is wrong: all values must be read, those of the column from its old chunk; None if nothing is."""
    return _problem_in(Flip(FILE, each.bit).apply(_file()))


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of a file that has no damage, and of one that has other values."""
    for name, content, words in (
        ("no damage", _file(), "the damage was not noticed"),
        ("other values", _file(added=1), "has other values"),
    ):
        if words not in (_problem_in(content) or ""):
            yield f"{name}: not noticed"
    every, whole = columns_of, _columns()

    def with_fewer_old_values(*of: Any) -> Any:
        return {
            name: (column[0].slice(1) if ChunkSource.OLD in column[1] else column[0], *column[1:])
            for name, column in every(*of).items()
        }

    with replaced(f"{__name__}:columns_of", with_fewer_old_values), replaced(f"{__name__}:_columns", lambda: whole):
        if "has other values" not in (problem_of(flipped_bits()[0]) or ""):
            yield "other values of the old chunk: not noticed"


def _problem_in(content: bytes) -> str | None:
    expected, found = _columns(), columns_of(content, opened(content))
    different = [name for name, column in found.items() if not is_same(column[0], expected[name][0])]
    if different:
        return f"column {different[0]} has other values"
    sources = [source for _, sources, _ in found.values() for source in sources]
    return None if sources.count(ChunkSource.OLD) == 1 else "the damage was not noticed"


@functools.cache
def _columns() -> dict[str, Column]:
    return columns_of(_file(), opened(_file()))


@functools.cache
def _file(added: int = 0) -> bytes:
    return duplicated_file(ROW_COUNT, ROW_COUNT // 2, added=added)
