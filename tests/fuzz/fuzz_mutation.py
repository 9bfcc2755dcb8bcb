"""Blind mutation: what fuzzes where no coverage-guided fuzzer installs, and what the tests run, the same every time."""

from collections.abc import Callable, Sequence

import numpy as np

WORD_SIZES_BYTES = (1, 2, 4, 8)
BOUNDARIES = (0, 1, 2, 7, 8, 127, 128, 255, 256, 32767, 32768, 65535, (1 << 31) - 1, 1 << 31, (1 << 63) - 1, -1, -2)
STEPS_MAX = 4
SLICE_MAX_BYTES = 64

Mutation = Callable[[bytearray, "Mutator"], None]


class Mutator:
    """Makes inputs out of seeds; equal seeds make equal inputs in equal order."""

    def __init__(self, inputs: Sequence[bytes], *, seed: int, size_max_bytes: int) -> None:
        """Start from `inputs`, at least one."""
        self._inputs = inputs
        self._draw = np.random.default_rng(seed)
        self._size_max_bytes = size_max_bytes

    def below(self, limit: int) -> int:
        """Return a number from 0 to `limit`, which is left out; 0 for a limit of 0."""
        return int(self._draw.integers(limit)) if limit > 0 else 0

    def input(self) -> bytes:
        """Return one of the inputs that all began with."""
        return self._inputs[self.below(len(self._inputs))]

    def mutated(self) -> bytes:
        """Return one of the inputs after a few mutations."""
        data = bytearray(self.input())
        for _ in range(1 + self.below(STEPS_MAX)):
            MUTATIONS[self.below(len(MUTATIONS))](data, self)
        return bytes(data[: self._size_max_bytes])


def _flip_bit(data: bytearray, mutator: Mutator) -> None:
    if data:
        data[mutator.below(len(data))] ^= 1 << mutator.below(8)


def _set_byte(data: bytearray, mutator: Mutator) -> None:
    if data:
        data[mutator.below(len(data))] = mutator.below(256)


def _set_word(data: bytearray, mutator: Mutator) -> None:
    """Write a number at which decoders fail to an aligned offset."""
    size_bytes = WORD_SIZES_BYTES[mutator.below(len(WORD_SIZES_BYTES))]
    number = BOUNDARIES[mutator.below(len(BOUNDARIES))] % (1 << 8 * size_bytes)
    position = mutator.below(len(data)) // size_bytes * size_bytes
    data[position : position + size_bytes] = number.to_bytes(size_bytes, "little")


def _add_to_byte(data: bytearray, mutator: Mutator) -> None:
    if data:
        position = mutator.below(len(data))
        data[position] = (data[position] + mutator.below(33) - 16) % 256


def _cut(data: bytearray, mutator: Mutator) -> None:
    del data[mutator.below(len(data)) :]


def _remove(data: bytearray, mutator: Mutator) -> None:
    position = mutator.below(len(data))
    del data[position : position + 1 + mutator.below(SLICE_MAX_BYTES)]


def _repeat(data: bytearray, mutator: Mutator) -> None:
    position = mutator.below(len(data))
    data[position:position] = data[position : position + 1 + mutator.below(SLICE_MAX_BYTES)]


def _splice(data: bytearray, mutator: Mutator) -> None:
    """Overwrite a part with one of another input, from the same or another offset."""
    other = mutator.input()
    start = mutator.below(len(other))
    content = other[start : start + 1 + mutator.below(SLICE_MAX_BYTES)]
    position = start if mutator.below(2) else mutator.below(len(data))
    data[position : position + len(content)] = content


MUTATIONS: tuple[Mutation, ...] = (
    _flip_bit,
    _set_byte,
    _set_word,
    _set_word,
    _add_to_byte,
    _cut,
    _remove,
    _repeat,
    _splice,
)
