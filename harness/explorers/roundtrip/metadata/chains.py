"""Whether `verify` counts the generations and dead bytes of a chain, and names what is wrong in any of them.

Chains are made byte by byte: generations that nobody refers to, older ones that break a rule, and tokens that grow.
"""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tornproof.harness.common.patch import Controls, not_noticed, replaced
from tornproof.harness.explorers.roundtrip.metadata.metadata_draft import (
    EXTERNAL_BLOOMS,
    FIRST_BYTE,
    GROUP_ROWS,
    INLINED_BLOOMS,
    SORTED_BY_TIMESTAMP,
    THRIFT_BYTES,
    WORD_BYTES,
    Draft,
    DraftChunk,
    DraftColumn,
    chunk_start,
)
from tornproof.harness.explorers.roundtrip.metadata.placed_partitions import (
    DIRECTORY,
    GENERATED,
    PARQUET,
    PATH,
    data_ending_at,
)
from tornproof.harness.explorers.roundtrip.metadata.usual_records import partition_of
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.table.partition import PartitionFiles
from tornproof.impl.verify.verify import Counts, verify_partition

PROPERTY = "a verification counts what a chain of generations has, and names what is wrong in any of them"
GROUPS, COLUMNS = range(3), range(2)
TIME, TEXT = COLUMNS
PREVIOUS_AT = 24
"""Where a footer has the end of the generation before."""
NOTE = 2
BEHIND = ((0, 100), (1, 8), (8, 1), (100, 0))
"""Bytes behind the last generation, and behind the committed end of data.parquet."""

Counted: TypeAlias = dict[str, int]
"""Numbers of a report by their names."""
Filters: TypeAlias = dict[int, tuple[int, int]]
"""Where filters of row groups are, as a draft has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A `_pm` and the committed token, with bytes behind it and behind the end of data.parquet.

    Either `counted` is what a report must count, or `field` what it must name.
    """

    name: str
    kind: str
    content: bytes
    token: int
    behind_bytes: int = 0
    data_behind_bytes: int = 0
    counted: Counted | None = None
    field: str = ""


@functools.cache
def chains() -> tuple[Chain, ...]:
    """Return all chains, always in the same order."""
    return (*_grown(), *_with_orphans(), *_broken(), *_overlapping(), *_replaced(), *_tokens(), *_restated())


def problem_of(chain: Chain) -> str | None:
    """Say what is counted or named otherwise; None if nothing is."""
    files = {
        f"{PATH}/_pm": chain.content + b"\xee" * chain.behind_bytes,
        f"{PATH}/data.parquet": data_ending_at(chain.token) + b"\xee" * chain.data_behind_bytes,
    }
    partition = partition_of(GROUP_ROWS * len(GROUPS), token=chain.token, flags=PARQUET | GENERATED)
    where = PartitionFiles(storage=DiskImage.of_files(files), path=PATH, name=DIRECTORY)
    # What data.parquet says of itself is looked at elsewhere.
    with replaced("tornproof.impl.verify.verify:check_thrift_footer", lambda *_: (None, [])):
        report = verify_partition(where, partition, counts=Counts(), quick=True)
    fields = sorted({each.field.partition(" of ")[0] for each in report.problems})
    if fields != ([chain.field] if chain.field else []):
        return f"named is {', '.join(fields) or 'nothing'}, and should be {chain.field or 'nothing'}"
    found = {name: getattr(report, name) for name in chain.counted or {}}
    return None if found == (chain.counted or {}) else f"{found} is counted instead of {chain.counted}"


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of verifications that look at no older generation, and count no bytes."""
    controls: Controls = (
        ("older generations are not checked", "tornproof.impl.verify.verify:check_metadata", lambda *_, **__: iter(())),
        ("no byte is dead", "tornproof.impl.verify.verify:dead_byte_count", lambda *_, **__: 0),
    )
    return not_noticed(controls, problem_of, chains())


def generation(number: int, older: Draft | None = None, place: Sequence[int] = GROUPS, **values: Any) -> Draft:
    """Return a generation, whose data.parquet ends later than that of the one before."""
    groups = []
    for group in GROUPS:
        starts = (FIRST_BYTE + 100 * (group * len(COLUMNS) + column) for column in COLUMNS)
        chunks = [DraftChunk(start=start) for start in starts]
        chunks[TIME].low, chunks[TIME].high = (struct.pack("<q", group * 100 + more) for more in (0, 50))
        groups.append(chunks)
    draft = Draft(
        columns=[
            DraftColumn(name="time", id=0, type=8, physical=2, max_def=0, flags=0),
            DraftColumn(name="text", id=1, type=26, physical=6),
        ],
        groups=groups,
        footer_offset=FIRST_BYTE + 100 * len(GROUPS) * len(COLUMNS) + number * THRIFT_BYTES,
        older=older,
        place=[*place],
    )
    for name, value in values.items():
        setattr(draft, name, value)
    return draft


def _noted(length: int) -> dict[str, Any]:
    """Return what gives a footer a note of so many bytes, so that the next block must be aligned."""
    return {"footer_flags": NOTE, "sections": struct.pack("<III", 1, 9, length) + b"n" * length}


def _grown() -> Iterator[Chain]:
    """Yield chains of one to four generations, each of which may be the committed one, with bytes behind them."""
    for count, places, length in itertools.product(range(1, 5), ((), (1,), (0, 1, 2)), (None, 1, 4)):
        drafts = list[Draft]()
        for number in range(count):
            note: dict[str, Any] = {} if length is None else _noted(length + number)
            place = GROUPS if number == 0 else places
            drafts.append(generation(number, drafts[-1] if drafts else None, place, unused_bytes=number, **note))
        content = drafts[-1].encoded()
        for committed, (behind, data_behind) in itertools.product(range(count), BEHIND):
            newer_bytes = len(content) - len(drafts[committed].encoded())
            yield Chain(
                name=f"{count} generations, {committed} committed, blocks {places}, notes {length}, {behind} behind",
                kind="grown",
                content=content,
                token=drafts[committed].token,
                behind_bytes=behind,
                data_behind_bytes=data_behind,
                counted={
                    "generations": committed + 1,
                    "orphans": count - 1 - committed,
                    "unused_bytes": committed,
                    "dead_bytes": newer_bytes + behind + data_behind,
                },
            )


def _with_orphans() -> Iterator[Chain]:
    """Yield chains with generations between that nobody refers to, which end at any byte of a word."""
    for length, count, orphan_place in itertools.product(range(1, 9), (1, 2), ((), (2,), (0, 1, 2))):
        first = generation(0, **_noted(3))
        orphan = first
        for number in range(count):
            orphan = generation(1 + number, orphan, orphan_place, **_noted(length))
        before = len(first.encoded())
        newest = generation(1, orphan, patches=[("footer", PREVIOUS_AT, "<Q", before)])
        yield Chain(
            name=f"{count} orphans with blocks {orphan_place} and notes of {length}",
            kind="orphans",
            content=newest.encoded(),
            token=newest.token,
            counted={"generations": 2, "orphans": 0, "dead_bytes": len(orphan.encoded()) - before},
        )


def _broken() -> Iterator[Chain]:
    """Yield chains of which one generation breaks a rule, the newest or an older one."""
    rules: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("more values than rows", {"values": GROUP_ROWS + 1}, "NUM_VALUES"),
        ("more nulls than values", {"nulls": GROUP_ROWS + 1}, "NULL_COUNT"),
        ("a chunk in the magic", {"start": FIRST_BYTE - 1}, "BYTE_RANGE_START"),
        ("bounds out of order", {"low": b"b", "high": b"a"}, "MIN_STAT"),
        ("an encoding that is none", {"encodings": 1 | 64}, "ENCODINGS"),
    )
    for (words, values, field), count, broken in itertools.product(rules, (1, 2, 3), range(3)):
        if broken >= count:
            continue
        draft: Draft | None = None
        for number in range(count):
            draft = generation(number, draft)
            for name, value in values.items() if number == broken else ():
                setattr(draft.groups[0][TEXT], name, value)
        assert draft is not None
        name = f"{words} in generation {broken} of {count}"
        yield Chain(name=name, kind="broken", content=draft.encoded(), token=draft.token, field=field)


def _overlapping() -> Iterator[Chain]:
    """Yield chains in which an older footer has a block within the texts of another one."""
    region = chunk_start(0, len(COLUMNS))
    for more in (0, 8, 64):
        older = generation(0)
        older.groups[0][TEXT].low, older.groups[0][TEXT].high = bytes(region + 64 + more), b"\1" * 16
        older.encoded()
        inside = (older.at["block 0"] + region + more) // WORD_BYTES
        older.patches.append(("entry 1", 0, "<I", inside))
        newest = generation(1, older)
        name = f"a block {more} bytes into the texts of another one, in an older generation"
        yield Chain(name=name, kind="overlapping", content=newest.encoded(), token=newest.token, field="MIN_STAT")
        shared = generation(1, older, [1])
        name = f"{name}, whose first block is that of the newest one"
        yield Chain(name=name, kind="overlapping", content=shared.encoded(), token=shared.token, field="MIN_STAT")


def _replaced() -> Iterator[Chain]:
    """Yield chains of which an older generation has two chunks in one place, some of whose blocks were replaced."""
    for places in ((2,), (1, 2), GROUPS):
        older = generation(0)
        older.groups[2][TEXT].start = older.groups[0][TEXT].start
        newest = generation(1, older, places)
        name = f"two chunks in one place in an older generation, of which the blocks {places} were replaced"
        yield Chain(name=name, kind="replaced", content=newest.encoded(), token=newest.token, field="BYTE_RANGE_START")


def _tokens() -> Iterator[Chain]:
    """Yield chains of two generations, of which the older one has each token from less to more."""
    for step in (-THRIFT_BYTES, -1, 0, 1, THRIFT_BYTES):
        older = generation(4, unused_bytes=5)
        older.footer_offset += step
        newest = generation(4, older)
        yield Chain(
            name=f"a token {step} bytes larger in the older generation",
            kind="tokens",
            content=newest.encoded(),
            token=newest.token,
            counted={"generations": 2, "orphans": 0, "dead_bytes": 0} if step < 0 else None,
            field="" if step < 0 else "PARQUET_FOOTER_OFFSET",
        )


def _restated() -> Iterator[Chain]:
    """Yield chains of two generations of one token, of which each refers to some filters; both must refer to the same.

    Of filters in data.parquet there may be none, of those in the file the older generation has one for each row group.
    """
    of_data: tuple[Filters, ...] = ({}, {0: (FIRST_BYTE, 32)}, {0: (FIRST_BYTE, 64)}, {2: (FIRST_BYTE, 32)})
    of_file: tuple[Filters, ...] = (dict.fromkeys(GROUPS, (0, 0)), {}, {1: (0, 0)}, dict.fromkeys(GROUPS[:2], (0, 0)))
    for bits, bitsets, filters in ((EXTERNAL_BLOOMS, (), of_data), (INLINED_BLOOMS, tuple(GROUPS), of_file)):
        for before, after in itertools.product(filters, repeat=2):
            flags = SORTED_BY_TIMESTAMP | bits
            older = generation(4, flags=flags, bitsets=bitsets, blooms=before)
            newest = generation(4, older, (), flags=flags, blooms=after)
            yield Chain(
                name=f"a generation with the filters {after} that repeats the token of one with {before}",
                kind="restated",
                content=newest.encoded(),
                token=newest.token,
                field="" if before == after else "PARQUET_FOOTER_OFFSET",
            )
