"""Bit fields of words, declared once as tables."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec


@dataclass(frozen=True, slots=True)
class Bits:
    """`size_bits` bits of a word from `offset_bits` on; bit 0 is the lowest."""

    name: str
    offset_bits: int
    size_bits: int
    meaning: str
    mask: int = field(init=False, repr=False)
    """All bits of the field set."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "mask", ((1 << self.size_bits) - 1) << self.offset_bits)

    def get(self, word: int) -> int:
        """Return the value of the bits."""
        return (word & self.mask) >> self.offset_bits

    def put(self, word: int, value: int) -> int:
        """Return `word` with the bits set to `value`, which must fit."""
        assert 0 <= value <= self.mask >> self.offset_bits, (self.name, value)
        return (word & ~self.mask) | (value << self.offset_bits)


class BitTable(msgspec.Struct, frozen=True):
    """The bits of one word, and the source that defines them."""

    title: str
    source: str
    word_bits: int
    bits: tuple[Bits, ...]

    def __post_init__(self) -> None:
        end_bits = 0
        for bits in self.bits:
            assert bits.offset_bits >= end_bits, f"{self.title}: {bits.name} overlaps"
            end_bits = bits.offset_bits + bits.size_bits
        assert end_bits <= self.word_bits, f"{self.title}: {end_bits} bits in a word of {self.word_bits}"

    @property
    def known_mask(self) -> int:
        """All bits that the table names."""
        return sum(bits.mask for bits in self.bits)
