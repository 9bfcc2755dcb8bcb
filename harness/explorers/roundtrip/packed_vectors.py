"""Whether pages of packed vectors are read as other writers could make them: vectors of all sizes, any bits.

They are made here by docs/format.md, bit by bit, and share nothing with the code that reads them; our own writer makes
vectors of one size alone.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tornproof.harness.common.patch import original_of, replaced
from tornproof.harness.common.whose_error import errors_as_problems
from tornproof.impl.extension.alp import decode_alp
from tornproof.impl.extension.pfor import decode_pfor

PROPERTY = "pages of packed vectors have the values that were packed"
BLOCK_VALUES = "tornproof.impl.extension.vectors:BLOCK_VALUE_COUNT"
LOG_SIZES = range(3, 16)
TYPES = ("<i8", "<i4", "<f8", "<f4")
SPREAD = 0x9E37_79B9_7F4A_7C15
EXCEPTION_EVERY = 7
FULL_VALUES_MIN = 128
SMALL_BLOCK_VALUES = 32
"""So many values are decoded at a time where otherwise only large pages are decoded in several steps."""
EXPONENTS = {"<f8": ((14, 14), (18, 0), (2, 0), (0, 0)), "<f4": ((10, 0), (7, 5), (1, 1), (0, 0))}
"""Exponents and factors of vectors."""
FRAMES = {"8": (-(1 << 40), 0, 5, 1 << 50), "4": (-(1 << 20), 0, 3, 1 << 22)}
EXCEPTIONS: dict[str, Sequence[Any]] = {
    "<i8": (-(1 << 63), (1 << 63) - 1, -1),
    "<i4": (-(1 << 31), (1 << 31) - 1, -1),
    "<f8": (float("nan"), -0.0, float("inf"), 1 / 3),
    "<f4": (float("nan"), -0.0, float("-inf"), 0.1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of vectors of 2^`log_size` values of a NumPy type; the last one is not whole."""

    type: str
    log_size: int

    @property
    def name(self) -> str:
        """It in words."""
        return f"vectors of {1 << self.log_size} values of the type {self.type[1:]}"

    def parts(self) -> list[tuple[int, int]]:
        """Return how many values each vector has, and of how many bits."""
        size, bits = 1 << self.log_size, 8 * int(self.type[2])
        counts = [size] * max(1, FULL_VALUES_MIN // size) + [size // 2 + 1]
        # Integers of more bits have no exact float.
        limit = bits + 1 if self.type[1] == "i" else bits // 2
        return [(count, (number * 5 + self.log_size * 11) % limit) for number, count in enumerate(counts)]

    def made(self) -> tuple[bytes, list[Any]]:
        """Return the page and its values."""
        vectors = [self._vector(number, *part) for number, part in enumerate(self.parts())]
        offsets, at = [], len(vectors) * 4
        for content, _ in vectors:
            offsets.append(at)
            at += len(content)
        values = [value for _, found in vectors for value in found]
        if self.type[1] == "f":
            head = struct.pack("<BBBi", 0, 0, self.log_size, len(values))
        else:
            head = struct.pack("<BBBI", 0, self.log_size, int(self.type[2]), len(values))
        return head + struct.pack(f"<{len(offsets)}I", *offsets) + b"".join(each for each, _ in vectors), values

    def _vector(self, number: int, count: int, width: int) -> tuple[bytes, list[Any]]:
        """Return a vector of numbers of `width` bits, and its values."""
        bits = 8 * int(self.type[2])
        frame = FRAMES[self.type[2]][number % 4]
        numbers = [(row + 1) * SPREAD % (1 << 64) >> (64 - width) if width else 0 for row in range(count)]
        packed = sum(each << row * width for row, each in enumerate(numbers)).to_bytes(-(-count * width // 8), "little")
        # Numbers are added to the frame as the integers of a machine are.
        whole = [(frame + each + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1) for each in numbers]
        positions = range(number % EXCEPTION_EVERY, count, EXCEPTION_EVERY)
        exceptions = [EXCEPTIONS[self.type][row % len(EXCEPTIONS[self.type])] for row in positions]
        frame_code = "q" if bits == 64 else "i"
        if self.type[1] == "f":
            exponent, factor = EXPONENTS[self.type][number % 4]
            values = _decimals(whole, exponent, factor, self.type)
            head = struct.pack(f"<BBH{frame_code}B", exponent, factor, len(positions), frame, width)
        else:
            values = whole
            head = struct.pack(f"<{frame_code}BH", frame, width, len(positions))
        for row, value in zip(positions, exceptions, strict=True):
            values[row] = value
        stored = np.array(exceptions, self.type).tobytes()
        return head + packed + struct.pack(f"<{len(positions)}H", *positions) + stored, values


def _decimals(integers: Sequence[int], exponent: int, factor: int, of: str) -> list[Any]:
    """Return integers times 10^factor, and that times 10^-exponent, each rounded."""
    scaled = np.array(integers, np.int64).astype(of) * np.array(float(f"1e{factor}"), of)
    return list(scaled * np.array(float(f"1e-{exponent}"), of))


@functools.cache
def pages() -> tuple[Page, ...]:
    """Return a page of each size of vectors and each type."""
    return tuple(Page(type=of, log_size=log_size) for log_size in LOG_SIZES for of in TYPES)


@errors_as_problems
def problem_of(page: Page) -> str | None:
    """Say what is wrong with how a page is read, also in small steps; None if nothing is."""
    content, values = page.made()
    expected = np.array(values, page.type).tobytes()
    decode = decode_alp if page.type[1] == "f" else decode_pfor
    for when, block_values in (("", original_of(BLOCK_VALUES)), ("read step by step ", SMALL_BLOCK_VALUES)):
        with replaced(BLOCK_VALUES, block_values):
            found = decode(memoryview(content), len(values), page.type, file="page", at=0)
        if found.tobytes() != expected:
            return f"{when}it has other values"
    return None


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of a reader without exceptions."""
    with replaced("tornproof.impl.extension.pfor:values_of", lambda rows, vectors: rows.reshape(-1)):
        if problem_of(pages()[0]) is None:
            yield f"{pages()[0].name}: values without exceptions were not noticed"
