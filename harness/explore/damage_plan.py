"""The damage that is tried: every flipped bit and every length of `_txn`, `_pm`, and data.parquet up to its token.

What may happen to the bytes here: one bit of one file differs, or one file ends early. Nothing else changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

BITS_IN_BYTE = 8


@dataclass(frozen=True, slots=True)
class Flip:
    """One bit of a file inverted; bit 0 is the lowest of the file's first byte."""

    file: str
    bit: int

    @property
    def offset_bytes(self) -> int:
        """The byte that holds the bit."""
        return self.bit // BITS_IN_BYTE

    def apply(self, content: bytes) -> bytes:
        """Return the damaged content."""
        damaged = bytearray(content)
        damaged[self.offset_bytes] ^= 1 << self.bit % BITS_IN_BYTE
        return bytes(damaged)

    def __str__(self) -> str:
        return f"bit {self.bit % BITS_IN_BYTE} of byte {self.offset_bytes} of {self.file} flipped"


@dataclass(frozen=True, slots=True)
class Cut:
    """A file that ends after `size_bytes`."""

    file: str
    size_bytes: int

    @property
    def offset_bytes(self) -> int:
        """The first byte that is lost."""
        return self.size_bytes

    def apply(self, content: bytes) -> bytes:
        """Return the damaged content."""
        return content[: self.size_bytes]

    def __str__(self) -> str:
        return f"{self.file} cut to {self.size_bytes} bytes"


Damage = Flip | Cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A range of one kind of damage of one file: what one worker does in one go.

    Flips: bits `start` to `stop` (of the whole file), each `step`-th; cuts: lengths `start` to `stop`.
    `required` tasks must be done for a VALID verdict; the others are a stated sample. `second_look`: one of the
    damages is judged a second time by the whole table.
    """

    file: str
    cuts: bool
    start: int
    stop: int
    step: int = 1
    required: bool = True
    second_look: bool = False

    @property
    def size(self) -> int:
        """How many damages the task tries."""
        return len(range(self.start, self.stop, self.step))

    def damages(self) -> Iterator[Damage]:
        """Yield the damages in order."""
        for number in range(self.start, self.stop, self.step):
            yield Cut(self.file, number) if self.cuts else Flip(self.file, number)


def split(task: Task, size: int) -> Iterator[Task]:
    """Cut a task into pieces of at most `size` damages, each spread over the whole file.

    So whatever pieces there is time for are an even sample. Their number is odd: a flip task whose step is odd then
    meets all eight bits of a byte in every piece.
    """
    piece_count = -(-task.size // size) | 1
    for first in range(min(piece_count, task.size)):
        yield replace(task, start=task.start + first * task.step, step=task.step * piece_count)
