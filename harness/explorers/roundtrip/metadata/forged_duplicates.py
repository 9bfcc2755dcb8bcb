"""Whether duplicates with right checksums are believed where they can be, and verified against the chunks they are of.

Records are forged that lead to something else than the values of their chunk (docs/extensions.md#chunks).
"""

from __future__ import annotations

import enum
import functools
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from tornproof.harness.common.patch import Controls, not_noticed
from tornproof.harness.explorers.roundtrip.forms import (
    FILE,
    Column,
    columns_of,
    duplicated_file,
    is_same,
    opened,
    reader_of,
)
from tornproof.impl.chunk.duplicate_values import ChunkSource, duplicate_problems
from tornproof.impl.chunk.duplicates import DUPLICATE_UUID
from tornproof.impl.errors import CorruptError
from tornproof.impl.layout.encodings import DuplicateTail

PROPERTY = "a duplicate is believed if it is one, and verified against its chunk"
ROW_COUNT, GROUP_ROWS = 25, 10
"""So many rows, of which the last row group has less."""
SIZE_BYTES = DuplicateTail.layout.size_bytes
CHECKED_BYTES = SIZE_BYTES - len(DUPLICATE_UUID) - 4
"""What the checksum of a record is of."""
FAR_BYTES = 1 << 40


class Outcome(enum.Enum):
    """What a reader makes of a record."""

    BELIEVED = "believed"
    DOUBTED = "doubted"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgedDuplicate:
    """A record, by its number in the file, some fields that are others, and what a reader makes of it."""

    record: int
    kind: str
    changes: tuple[tuple[str, int], ...]
    outcome: Outcome

    @property
    def name(self) -> str:
        """It in words."""
        return f"a file whose record {self.record} is of {self.kind}"


@functools.cache
def forged_duplicates() -> tuple[ForgedDuplicate, ...]:
    """Return all forgeries, always in the same order."""
    return tuple(
        ForgedDuplicate(record=number, kind=kind, changes=tuple(changes.items()), outcome=outcome)
        for number in range(len(_records()))
        for kind, outcome, changes in _changes(number)
    )


def problem_of(case: ForgedDuplicate) -> str | None:
    """Say what a reader, or the verification, makes of the record instead; None if nothing."""
    content = _with_record(case.record, **dict(case.changes))
    footer = opened(content).decoded()
    problems = list(duplicate_problems(reader_of(content), footer, file=FILE))
    if len(problems) != 1:
        return f"verify reports {len(problems)} problems of it instead of one"
    try:
        found = columns_of(content, opened(content))
    except CorruptError:
        return None if case.outcome is Outcome.REJECTED else "it is rejected"
    doubts = [doubt for _, _, doubts in found.values() for doubt in doubts if doubt is not None]
    sources = [source for _, sources, _ in found.values() for source in sources]
    is_doubted = (len(doubts), sources.count(ChunkSource.OLD)) == (1, 1)
    if case.outcome is Outcome.BELIEVED:
        return None if not doubts and ChunkSource.OLD not in sources else "it is doubted"
    if case.outcome is Outcome.REJECTED or not is_doubted:
        return f"there are {len(doubts)} doubts, and {sources.count(ChunkSource.OLD)} chunks are read from the old ones"
    different = [name for name, column in found.items() if not is_same(column[0], _columns()[name][0])]
    return f"column {different[0]} has other values" if different else None


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of readers that believe everything, and of verifications that compare no values."""
    values, whole = "tornproof.impl.chunk.duplicate_values", _columns()
    doubted = next(each for each in forged_duplicates() if each.outcome is Outcome.DOUBTED)
    content = _with_record(doubted.record, **dict(doubted.changes))
    found = columns_of(content, opened(content))
    others = {name: (whole[name][0].slice(1), *more) for name, (_, *more) in found.items()}
    controls: Controls = (
        ("nothing is compared", f"{values}:is_same", lambda *_: True, "verify reports 0 problems"),
        ("nothing is reported", f"{__name__}:duplicate_problems", lambda *_, **__: (), "verify reports 0 problems"),
        ("nothing is doubted", f"{__name__}:columns_of", lambda *_: whole, "there are 0 doubts, and 0 chunks"),
        ("all is doubted", f"{__name__}:columns_of", lambda *_: found, "it is doubted"),
        ("all is rejected", f"{__name__}:columns_of", _reject, "it is rejected"),
        ("other values are read", f"{__name__}:columns_of", lambda *_: others, "has other values"),
    )
    return not_noticed(controls, problem_of, forged_duplicates())


def _reject(*_: object) -> NoReturn:
    raise CorruptError(FILE, "duplicate", 0, "another one", "this one")


def _changes(number: int) -> Iterator[tuple[str, Outcome, dict[str, int]]]:
    record = _records()[number]
    for other, each in enumerate(_records()):
        place = {"chunk_offset": each.chunk_offset, "chunk_length": each.chunk_length, "chunk_crc": each.chunk_crc}
        is_as_long = _is_last(number) == _is_last(other)
        if each.encoding != record.encoding:
            yield "another column", Outcome.DOUBTED, place | {"encoding": each.encoding}
            yield "another column and its own encoding", Outcome.DOUBTED, place
        elif other != number:
            outcome = Outcome.BELIEVED if is_as_long else Outcome.DOUBTED
            yield f"{'other' if is_as_long else 'more or less'} values", outcome, place
    length_bytes = record.chunk_length
    for kind, start, end in (
        ("pages that are cut", record.chunk_offset, record.chunk_offset + length_bytes - 1),
        ("pages and a byte", record.chunk_offset, record.chunk_offset + length_bytes + 1),
        ("nothing", record.chunk_offset, record.chunk_offset),
        ("the first bytes of the file", 0, length_bytes),
    ):
        crc = zlib.crc32(_file()[start:end])
        changes = {"chunk_offset": start, "chunk_length": end - start, "chunk_crc": crc}
        yield kind, Outcome.DOUBTED, changes
    for far in (FAR_BYTES, len(_file()) - length_bytes):
        yield "what is behind the pages", Outcome.DOUBTED, {"chunk_offset": far}
    yield "other pages, by their checksum", Outcome.DOUBTED, {"chunk_crc": record.chunk_crc ^ 1}
    yield "other metadata", Outcome.REJECTED, {"meta_crc": record.meta_crc ^ 1}


def _is_last(number: int) -> bool:
    """Whether a record is in the last row group."""
    return number >= len(_records()) - len(_columns())


def _with_record(number: int, **changes: int) -> bytes:
    """Return the file with some fields of a record changed, and its checksum."""
    content, end = _file(), _ends()[number]
    record = _records()[number].changed(**changes).pack()[:CHECKED_BYTES]
    made = record + zlib.crc32(record).to_bytes(4, "little") + DUPLICATE_UUID
    return content[: end - SIZE_BYTES] + made + content[end:]


@functools.cache
def _ends() -> tuple[int, ...]:
    """Return where each record ends, in the order of the file."""
    content, ends = _file(), list[int]()
    while (at := content.find(DUPLICATE_UUID, ends[-1] if ends else 0)) >= 0:
        ends.append(at + len(DUPLICATE_UUID))
    return tuple(ends)


@functools.cache
def _records() -> tuple[DuplicateTail, ...]:
    return tuple(DuplicateTail.unpack(_file(), end - SIZE_BYTES, file=FILE) for end in _ends())


@functools.cache
def _columns() -> dict[str, Column]:
    return columns_of(_file(), opened(_file()))


@functools.cache
def _file() -> bytes:
    return duplicated_file(ROW_COUNT, GROUP_ROWS)
