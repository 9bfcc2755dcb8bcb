"""The damages of each kind to a table's files, as lists that a task's numbers index; the same in every process."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import islice
from typing import TypeAlias

from tornproof.harness.explorers.corruption.beside import beside_damages
from tornproof.harness.explorers.corruption.blocks import (
    BLOCK_BYTES,
    BLOCKS_MAX,
    PAGE_BITS_MAX,
    WORD_BYTES,
    cleared,
    flipped,
    header_flips,
    lost,
    misdirected,
    stale,
    zeroed,
)
from tornproof.harness.explorers.corruption.crafted import crafted, data_cases, page_offset_cases, pm_cases, txn_cases
from tornproof.harness.explorers.corruption.every_type import value_damages
from tornproof.harness.explorers.corruption.fields import (
    Spot,
    field_damages,
    forged_damages,
    pm_spots,
    txn_spots,
)
from tornproof.harness.explorers.corruption.judge import Judge
from tornproof.harness.explorers.corruption.parts import part_damages
from tornproof.harness.explorers.corruption.plan import (
    AGAIN,
    CRAFTED,
    Again,
    Crafted,
    Cut,
    Damage,
    Flip,
    Kind,
    Overwrite,
    Task,
    difference,
)
from tornproof.harness.explorers.corruption.recovered import recovered_damages
from tornproof.harness.explorers.corruption.served_changes import served_damages
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.table.partition import ResolvedPartition
from tornproof.impl.txn.transaction import TXN_FILE

SPOTS_MAX = 16_384
"""At most so many fields of a file are given wrong values; of more, every n-th."""
DATA_WORDS_MAX = 8_192
LISTS_KEPT = 4
WORD_KINDS = frozenset({Kind.ZEROED_WORD, Kind.STALE_WORD, Kind.MISDIRECTED_WORD, Kind.LOST_WORD})


Listed: TypeAlias = Overwrite | Crafted | Again


@functools.lru_cache(maxsize=LISTS_KEPT)
def listed(judge: Judge, kind: Kind, file: str) -> tuple[Listed, ...]:
    """Return all damages of a kind that are tried on a file of the table, or of the table grown from it."""
    return tuple(_damages(judge.of(kind), kind, file))


def first_of(judge: Judge, kind: Kind) -> Listed | None:
    """Return the first damage of a kind to any file, without listing the others; None where there is none."""
    return next((damage for file in judge.files(kind) for damage in _damages(judge.of(kind), kind, file)), None)


def damages_of(judge: Judge, task: Task) -> Iterator[Damage]:
    """Yield the damages of a task in order."""
    match task.kind:
        case Kind.FLIP:
            yield from (Flip(task.file, bit) for bit in task.numbers)
        case Kind.CUT:
            yield from (Cut(task.file, size_bytes) for size_bytes in task.numbers)
        case Kind.PAIR:
            yield from task.pairs
        case _:
            damages = listed(judge, task.kind, task.file)
            yield from (damages[number] for number in task.numbers)


def is_sampled(judge: Judge, kind: Kind, file: str) -> bool:
    """Whether only some of the fields, words or blocks of the file are damaged."""
    if kind in CRAFTED or kind is Kind.SERVED:
        return False
    if kind in AGAIN:
        return True
    if kind is Kind.PAGE_BIT:
        return any(end - start > PAGE_BITS_MAX for start, end in judge.of(kind).protected_bodies(file))
    if kind is Kind.FILTER_BIT:
        return any(True for _ in judge.of(kind).protected_filters(file))
    if kind in (Kind.FIELD, Kind.FORGED):
        return len(_spots(judge, file)) > SPOTS_MAX
    unit = WORD_BYTES if kind in WORD_KINDS else min(BLOCK_BYTES)
    return judge.of(kind).size_bytes(file) > unit * _blocks_max(kind, file)


def _blocks_max(kind: Kind, file: str) -> int:
    return DATA_WORDS_MAX if file.endswith(DATA_FILE) and kind in WORD_KINDS else BLOCKS_MAX


def _crafted(judge: Judge, kind: Kind, file: str) -> Iterator[Crafted]:
    directory, _, name = file.rpartition("/")
    content = judge.contents[file]
    if file == TXN_FILE:
        cases = txn_cases(content)
    elif name == DATA_FILE:
        cases = data_cases(content, judge.partitions[directory])
    else:
        cases = pm_cases(judge.partitions[directory])
    return crafted(file, content, (each for each in cases if each[0] is kind))


def _damages(judge: Judge, kind: Kind, file: str) -> Iterator[Listed]:
    contents, sizes, limit = judge.contents, _sizes(kind), _blocks_max(kind, file)
    older = [judge.contents_of(version.image) for version in judge.older]
    match kind:
        case Kind.FIELD | Kind.FORGED if file.endswith(DATA_FILE):
            return
        case Kind.FIELD:
            yield from field_damages(_some(_spots(judge, file)), file, contents[file])
        case Kind.FORGED if file == TXN_FILE:
            # `_txn` has no checksum.
            return
        case Kind.FORGED:
            resolved = judge.partitions[file.partition("/")[0]]
            yield from forged_damages(_some(_spots(judge, file)), file, resolved)
        case Kind.ZEROED_WORD | Kind.ZEROED_BLOCK:
            yield from zeroed(contents, file, sizes, limit)
        case Kind.FILTER_BIT:
            yield from cleared(contents, file, judge.protected_filters(file))
        case Kind.HEADER_BIT:
            yield from header_flips(file, judge.protected_headers(file))
        case Kind.PART:
            yield from part_damages(file, len(contents[file]))
        case Kind.RECOVERED:
            yield from recovered_damages(file, contents[file])
        case Kind.BESIDE:
            yield from beside_damages(file, judge.beside[file], len(judge.beside))
        case Kind.VALUE:
            yield from value_damages(file, contents[file], judge.pages(file))
            yield from _wrong_offsets(file, contents[file], judge.partitions[file.rpartition("/")[0]])
        case Kind.SERVED:
            yield from served_damages(file)
        case Kind.PAGE_BIT:
            yield from flipped(contents, file, judge.protected_bodies(file))
        case Kind.STALE_WORD | Kind.STALE_BLOCK:
            yield from stale(contents, file, sizes, limit, older)
        case Kind.MISDIRECTED_WORD | Kind.LOST_WORD if file.endswith(DATA_FILE):
            # Words are stored into mappings, and data.parquet is never mapped for writing.
            return
        case Kind.MISDIRECTED_WORD | Kind.MISDIRECTED_BLOCK:
            yield from misdirected(contents, file, sizes, limit)
        case _ if kind in CRAFTED:
            yield from _crafted(judge, kind, file)
        case Kind.LOST_WORD | Kind.LOST_BLOCK:
            yield from lost(contents, file, sizes, limit, older)
        case _:
            raise AssertionError(f"{kind.value} are not listed")


def _wrong_offsets(file: str, content: bytes, resolved: ResolvedPartition) -> Iterator[Again]:
    """Yield footers with pages outside of their chunk: the given table may have no chunk with a dictionary."""
    for _, description, made in page_offset_cases(content, resolved):
        edit = difference(file, content, 0, made)
        if edit is not None:
            yield Again(Kind.VALUE, Overwrite(Kind.FIELD, (edit,), f"{file}: {description}"))


def _sizes(kind: Kind) -> tuple[int, ...]:
    return (WORD_BYTES,) if kind in WORD_KINDS else BLOCK_BYTES


def _spots(judge: Judge, file: str) -> tuple[Spot, ...]:
    if file.endswith(DATA_FILE):
        return ()
    spots = txn_spots(judge.contents[file]) if file == TXN_FILE else pm_spots(judge.partitions[file.partition("/")[0]])
    return tuple(spots)


def _some(spots: tuple[Spot, ...]) -> tuple[Spot, ...]:
    return tuple(islice(spots, 0, None, max(1, -(-len(spots) // SPOTS_MAX))))
