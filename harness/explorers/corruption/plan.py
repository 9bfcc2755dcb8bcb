"""Damages, and the ranges of them that workers are given.

A damage flips bits, cuts a file, or replaces ranges of bytes; all other bytes are unchanged.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tornproof.harness.common.read_numbers import integer_of

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
    PAGE_BIT = "bits of new pages flipped"
    FILTER_BIT = "bits of new filters cleared"
    HEADER_BIT = "bits of new page headers flipped"
    PART = "tables read in parts"
    RECOVERED = "damaged tables recovered"
    BESIDE = "other files damaged"
    VALUE = "values of every type damaged"
    SERVED = "files of servers changed"
    FORGED = "fields forged"
    BROKEN = "rules broken"
    REQUIRED = "required features"
    ALLOWED = "differences allowed"
    PAIR = "pairs of flips"


CRAFTED = frozenset({Kind.BROKEN, Kind.REQUIRED, Kind.ALLOWED})
"""Kinds that a writer would have to make: what breaks a rule, what no reader knows yet, and what is left free."""
AGAIN = frozenset({Kind.HEADER_BIT, Kind.PART, Kind.RECOVERED, Kind.BESIDE, Kind.VALUE, Kind.SERVED})
"""Kinds whose damages are those of others, and are also judged in another way."""
LISTED_KINDS = tuple(kind for kind in Kind if kind not in (Kind.FLIP, Kind.CUT, Kind.PAIR))
"""Kinds whose damages are listed, because they follow from the files' contents."""
GROWN = frozenset(
    {
        *(Kind.STALE_WORD, Kind.STALE_BLOCK, Kind.LOST_WORD, Kind.LOST_BLOCK),
        *(Kind.PAGE_BIT, Kind.FILTER_BIT, Kind.HEADER_BIT),
    }
)
"""Kinds that need older content, or pages of our own writer: they are done to the table after a few more commits."""


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
        """The first byte that is lost, as a range; all bytes after it are lost too."""
        return ((self.file, self.size_bytes, self.size_bytes + 1),)

    def apply(self, content: bytes, file: str | None = None, *, start_bytes: int = 0) -> bytes:
        """Return the damaged `content`, which starts at `start_bytes` of `file`, by default the one that is damaged."""
        return content[: max(0, self.size_bytes - start_bytes)]

    def __str__(self) -> str:
        return f"{self.file} cut to {self.size_bytes} bytes"


@dataclass(frozen=True, slots=True)
class Edit:
    """Bytes that replace those of a file; all of them are inside the file."""

    file: str
    offset_bytes: int
    content: bytes

    @property
    def end_bytes(self) -> int:
        """The offset of the first byte after the damaged ones."""
        return self.offset_bytes + len(self.content)


@dataclass(frozen=True, slots=True)
class Overwrite:
    """One or more replaced ranges, in one file or in several; `description` says in words what happened."""

    kind: Kind
    edits: tuple[Edit, ...]
    description: str

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
                replacement = edit.content[start - edit.offset_bytes : end - edit.offset_bytes]
                damaged[start - start_bytes : end - start_bytes] = replacement
        return bytes(damaged)

    def __str__(self) -> str:
        return self.description


@dataclass(frozen=True, slots=True)
class Crafted:
    """A file as another writer could have made it: `content` stands for some bytes from `offset_bytes`."""

    kind: Kind
    file: str
    offset_bytes: int
    removed_bytes: int
    content: bytes
    description: str

    @property
    def ranges(self) -> tuple[tuple[str, int, int], ...]:
        """The bytes that are replaced or, where some are only added, the last one before them."""
        start = self.offset_bytes if self.removed_bytes else self.offset_bytes - 1
        return ((self.file, start, start + max(1, self.removed_bytes)),)

    def apply(self, content: bytes, file: str | None = None, *, start_bytes: int = 0) -> bytes:
        """Return the file's content as it was made."""
        assert not start_bytes, "a file that is made anew has no parts"
        return content[: self.offset_bytes] + self.content + content[self.offset_bytes + self.removed_bytes :]

    def __str__(self) -> str:
        return self.description


@dataclass(frozen=True, slots=True)
class Again:
    """A damage that is judged in the way of a kind that has none of its own."""

    kind: Kind
    damage: Flip | Cut | Overwrite | Crafted

    @property
    def file(self) -> str:
        """The file that is damaged."""
        return self.damage.file

    @property
    def offset_bytes(self) -> int:
        """The first byte that differs, or is lost."""
        return self.damage.offset_bytes

    @property
    def ranges(self) -> tuple[tuple[str, int, int], ...]:
        """The damaged bytes: file, start, end."""
        return self.damage.ranges

    def apply(self, content: bytes, file: str | None = None, *, start_bytes: int = 0) -> bytes:
        """Return the damaged `content`, which starts at `start_bytes` of `file`, by default the one that is damaged."""
        return self.damage.apply(content, file, start_bytes=start_bytes)

    def __str__(self) -> str:
        return str(self.damage)


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


Damage = Flip | Cut | Overwrite | Crafted | Again | Pair


def evidence_of(damage: Damage, field: str) -> dict[str, object]:
    """Return a damage as plain data, with the name of the field that it hits."""
    hit: dict[str, object] = {"file": damage.file, "field": field, "offset_bytes": damage.offset_bytes}
    match damage:
        case Flip():
            return hit | {"kind": "flip", "bit": damage.bit}
        case Cut():
            return hit | {"kind": "cut", "size_bytes": damage.size_bytes}
        case Pair():
            bits = [{"file": flip.file, "bit": flip.bit} for flip in (damage.first, damage.second)]
            return hit | {"kind": "pair", "bits": bits}
        case Again():
            return hit | {"kind": damage.kind.value, "damage": evidence_of(damage.damage, field)}
        case Crafted():
            part = {"removed_bytes": damage.removed_bytes, "content": damage.content.hex()}
            return hit | {"kind": damage.kind.value, **part, "description": damage.description}
        case Overwrite():
            edits = [
                {"file": edit.file, "offset_bytes": edit.offset_bytes, "content": edit.content.hex()}
                for edit in damage.edits
            ]
            return hit | {"kind": damage.kind.value, "edits": edits, "description": damage.description}


def damage_of(evidence: Mapping[str, Any]) -> Damage:
    """Return the damage of such data; raises KeyError, TypeError, ValueError for any other."""
    match evidence["kind"]:
        case "flip":
            return _flip_of(evidence)
        case "cut":
            return Cut(str(evidence["file"]), integer_of(evidence["size_bytes"]))
        case "pair":
            first, second = evidence["bits"]
            return Pair(_flip_of(first), _flip_of(second))
        case name:
            # An unknown name raises ValueError, and so does a kind that is handled above.
            kind = Kind(name)
            if kind in CRAFTED:
                sizes = integer_of(evidence["offset_bytes"]), integer_of(evidence["removed_bytes"])
                content = bytes.fromhex(evidence["content"])
                return Crafted(kind, str(evidence["file"]), *sizes, content, str(evidence["description"]))
            if kind in AGAIN:
                return _again_of(kind, evidence["damage"])
            edits = tuple(
                Edit(str(edit["file"]), integer_of(edit["offset_bytes"]), bytes.fromhex(edit["content"]))
                for edit in evidence["edits"]
            )
            if kind in (Kind.FLIP, Kind.CUT, Kind.PAIR) or not edits:
                raise ValueError(f"damage of kind {name!r} has another form")
            return Overwrite(kind, edits, str(evidence["description"]))


def _again_of(kind: Kind, evidence: Mapping[str, Any]) -> Again:
    damage = damage_of(evidence)
    if isinstance(damage, Crafted if kind is Kind.SERVED else (Flip, Cut, Overwrite)):
        return Again(kind, damage)
    raise ValueError(f"damage of kind {damage.kind.value!r} is not judged as {kind.value!r}")


def is_inside(damage: Damage, sizes: Mapping[str, int]) -> bool:
    """Whether a damage is inside of files of these sizes: past their ends nothing can be damaged."""
    if isinstance(damage, Crafted):
        end = damage.offset_bytes + damage.removed_bytes
        return 0 <= damage.offset_bytes <= end <= sizes.get(damage.file, -1)
    return all(0 <= start < end <= sizes.get(file, 0) for file, start, end in damage.ranges)


def _flip_of(evidence: Mapping[str, Any]) -> Flip:
    return Flip(str(evidence["file"]), integer_of(evidence["bit"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Damages of one kind to one file, for one worker.

    From `start` to before `stop`, every `step`-th: bits of the file, lengths, or indexes into the list of the file's
    damages of that kind; for the kind PAIR, `pairs`. If `is_rechecked`, one of the damages is judged a second time by
    the whole table.
    """

    file: str
    kind: Kind
    start: int
    stop: int
    step: int = 1
    is_rechecked: bool = False
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

    So the pieces that there is time for are an even sample. Their number is odd, so that every piece of a flip task
    with an odd step has all eight bits of a byte.
    """
    piece_count = -(-task.size // size) | 1
    for first in range(min(piece_count, task.size)):
        yield replace(task, start=task.start + first * task.step, step=task.step * piece_count)


def difference(file: str, content: bytes, offset_bytes: int, replacement: bytes) -> Edit | None:
    """Return the part of `replacement`, written at `offset_bytes` of a file, that differs from its content, if any.

    What would be past the file's end is left out, so that no damage makes a file longer.
    """
    replacement = replacement[: max(0, len(content) - offset_bytes)]
    own = content[offset_bytes : offset_bytes + len(replacement)]
    if replacement == own:
        return None
    changed = [index for index, (left, right) in enumerate(zip(own, replacement, strict=True)) if left != right]
    first, last = changed[0], changed[-1]
    return Edit(file, offset_bytes + first, replacement[first : last + 1])
