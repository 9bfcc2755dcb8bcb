"""The damage that is tried: what one damage is, and the ranges of damages that workers are given.

What may happen to the bytes here: bits differ, a file ends early, or a range of bytes holds something else. All that
is not named stays as it is.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, replace

BITS_IN_BYTE = 8


class Kind(enum.StrEnum):
    """What is done to the bytes, in the order in which it is tried; the values name the counts of a phase."""

    FLIP = "bits flipped"
    CUT = "lengths cut to"
    FIELD = "fields set"
    ZEROED_WORD = "words zeroed"
    ZEROED_BLOCK = "blocks zeroed"
    STALE_WORD = "stale words"
    STALE_BLOCK = "stale blocks"
    MISDIRECTED_WORD = "misdirected words"
    MISDIRECTED_BLOCK = "misdirected blocks"
    LOST_WORD = "words written elsewhere"
    LOST_BLOCK = "blocks written elsewhere"
    FORGED = "fields forged"
    PAIR = "pairs of flips"


GROWN = frozenset({Kind.STALE_WORD, Kind.STALE_BLOCK, Kind.LOST_WORD, Kind.LOST_BLOCK})
"""What needs a past: it is done to the table after a few more commits."""


@dataclass(frozen=True, slots=True)
class Flip:
    """One bit of a file inverted; bit 0 is the lowest of the file's first byte."""

    file: str
    bit: int

    @property
    def kind(self) -> Kind:
        """What is done."""
        return Kind.FLIP

    @property
    def offset_bytes(self) -> int:
        """The byte that holds the bit."""
        return self.bit // BITS_IN_BYTE

    @property
    def ranges(self) -> tuple[tuple[str, int, int], ...]:
        """The damaged bytes: file, start, end."""
        return ((self.file, self.offset_bytes, self.offset_bytes + 1),)

    def apply(self, content: bytes, file: str | None = None, *, start_bytes: int = 0) -> bytes:
        """Return the damaged `content`, which starts at `start_bytes` of `file`, by default the one that is damaged."""
        damaged = bytearray(content)
        if 0 <= self.offset_bytes - start_bytes < len(content):
            damaged[self.offset_bytes - start_bytes] ^= 1 << self.bit % BITS_IN_BYTE
        return bytes(damaged)

    def __str__(self) -> str:
        return f"bit {self.bit % BITS_IN_BYTE} of byte {self.offset_bytes} of {self.file} flipped"


@dataclass(frozen=True, slots=True)
class Cut:
    """A file that ends after `size_bytes`."""

    file: str
    size_bytes: int

    @property
    def kind(self) -> Kind:
        """What is done."""
        return Kind.CUT

    @property
    def offset_bytes(self) -> int:
        """The first byte that is lost."""
        return self.size_bytes

    @property
    def ranges(self) -> tuple[tuple[str, int, int], ...]:
        """The first byte that is lost, as a range; all others behind it are lost too."""
        return ((self.file, self.size_bytes, self.size_bytes + 1),)

    def apply(self, content: bytes, file: str | None = None, *, start_bytes: int = 0) -> bytes:
        """Return the damaged `content`, which starts at `start_bytes` of `file`, by default the one that is damaged."""
        return content[: max(0, self.size_bytes - start_bytes)]

    def __str__(self) -> str:
        return f"{self.file} cut to {self.size_bytes} bytes"


@dataclass(frozen=True, slots=True)
class Edit:
    """Bytes that a file holds instead of its own; all of them lie inside the file."""

    file: str
    offset_bytes: int
    content: bytes

    @property
    def end_bytes(self) -> int:
        """The offset of the first byte after the damaged ones."""
        return self.offset_bytes + len(self.content)


@dataclass(frozen=True, slots=True)
class Overwrite:
    """One or more ranges that hold other bytes, in one file or in several; `told` says in words how that came."""

    kind: Kind
    edits: tuple[Edit, ...]
    reported: str

    @property
    def file(self) -> str:
        """The file that is damaged first."""
        return self.edits[0].file

    @property
    def offset_bytes(self) -> int:
        """The first byte that differs."""
        return self.edits[0].offset_bytes

    @property
    def ranges(self) -> tuple[tuple[str, int, int], ...]:
        """The damaged bytes: file, start, end."""
        return tuple((edit.file, edit.offset_bytes, edit.end_bytes) for edit in self.edits)

    def apply(self, content: bytes, file: str | None = None, *, start_bytes: int = 0) -> bytes:
        """Return the damaged `content`, which starts at `start_bytes` of `file`, by default the first damaged one."""
        damaged = bytearray(content)
        for edit in self.edits:
            start = max(edit.offset_bytes, start_bytes)
            end = min(edit.end_bytes, start_bytes + len(content))
            if edit.file == (file or self.file) and start < end:
                stands = edit.content[start - edit.offset_bytes : end - edit.offset_bytes]
                damaged[start - start_bytes : end - start_bytes] = stands
        return bytes(damaged)

    def __str__(self) -> str:
        return self.reported


@dataclass(frozen=True, slots=True)
class Pair:
    """Two bits inverted, in one file or in two."""

    first: Flip
    second: Flip

    @property
    def kind(self) -> Kind:
        """What is done."""
        return Kind.PAIR

    @property
    def file(self) -> str:
        """The file of the first bit."""
        return self.first.file

    @property
    def offset_bytes(self) -> int:
        """The byte that holds the first bit."""
        return self.first.offset_bytes

    @property
    def ranges(self) -> tuple[tuple[str, int, int], ...]:
        """The damaged bytes: file, start, end."""
        return self.first.ranges + self.second.ranges

    def apply(self, content: bytes, file: str | None = None, *, start_bytes: int = 0) -> bytes:
        """Return the damaged `content`, which starts at `start_bytes` of `file`, by default of the first bit's one."""
        for flip in (self.first, self.second):
            if flip.file == (file or self.file):
                content = flip.apply(content, start_bytes=start_bytes)
        return content

    def __str__(self) -> str:
        return f"{self.first}, and {self.second}"


Damage = Flip | Cut | Overwrite | Pair


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A range of one kind of damage of one file: what one worker does in one go.

    `start` to `stop`, each `step`-th, count bits (of the whole file), lengths, or places in the list of the file's
    damages of that kind; `pairs` are the ones to try of that kind. `second_look`: one of the damages is judged a second
    time by the whole table.
    """

    file: str
    kind: Kind
    start: int
    stop: int
    step: int = 1
    second_look: bool = False
    pairs: tuple[Pair, ...] = ()

    @property
    def cuts(self) -> bool:
        """Whether the task cuts its file."""
        return self.kind is Kind.CUT

    @property
    def numbers(self) -> range:
        """The numbers of the damages."""
        return range(self.start, self.stop, self.step)

    @property
    def size(self) -> int:
        """How many damages the task tries."""
        return len(self.numbers)


def split(task: Task, size: int) -> Iterator[Task]:
    """Cut a task into pieces of at most `size` damages, each spread over the whole file.

    So whatever pieces there is time for are an even sample. Their number is odd: a flip task whose step is odd then
    meets all eight bits of a byte in every piece.
    """
    piece_count = -(-task.size // size) | 1
    for first in range(min(piece_count, task.size)):
        yield replace(task, start=task.start + first * task.step, step=task.step * piece_count)


def difference(file: str, content: bytes, offset_bytes: int, stands: bytes) -> Edit | None:
    """Return what of `stands`, written at `offset_bytes` of a file, differs from its content; None where nothing does.

    What would lie behind the file's end is left out, so that no damage makes a file longer.
    """
    stands = stands[: max(0, len(content) - offset_bytes)]
    own = content[offset_bytes : offset_bytes + len(stands)]
    if stands == own:
        return None
    changed = [position for position, (left, right) in enumerate(zip(own, stands, strict=True)) if left != right]
    first, last = changed[0], changed[-1]
    return Edit(file, offset_bytes + first, stands[first : last + 1])
