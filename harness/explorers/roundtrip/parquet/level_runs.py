"""Whether the nulls of a page in a new encoding are read from all runs in which another writer could say them.

The runs are those of [Encodings.md](https://github.com/apache/parquet-format/blob/master/Encodings.md), made here bit
by bit; our own writer makes one run a page.
"""

from __future__ import annotations

import functools
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tornproof.harness.common.patch import Controls, not_noticed, original_of
from tornproof.harness.explorers.roundtrip.parquet.page_headers import DATA, Page
from tornproof.harness.explorers.roundtrip.parquet.thrift_forms import varint
from tornproof.impl.chunk.duplicate_pages import KINDS, decode_pages
from tornproof.impl.errors import CorruptError
from tornproof.impl.types.physical import PhysicalType

PROPERTY = "the nulls of a page are those that its runs of levels say"
FILE = "chunk.parquet"
RLE_LEVELS = 3
LENGTH_BYTES, BYTE_BITS = 4, 8
PEAK_BYTES_MAX = 1 << 20
"""Each page has some hundred values at most."""
MANY = 1 << 24
SPREAD = 0x9E37_79B9


class Run(NamedTuple):
    """A run of one level so many times, or of packed levels, of which so many times eight are said to be there."""

    times: int
    level: int = 0
    packed: Sequence[int] = ()
    number_bytes: int = 1
    """The bytes of its head at least."""

    def encoded(self) -> bytes:
        """Return the run as a page has it."""
        head = varint(self.times << 1 | bool(self.packed), self.number_bytes)
        if not self.packed:
            return head + bytes([self.level])
        bits = sum(level << bit for bit, level in enumerate(self.packed))
        return head + bits.to_bytes(-(-len(self.packed) // BYTE_BITS), "little")


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRuns:
    """Runs, the levels that they say, or None if the page must be rejected, and what its head says of their length."""

    name: str
    runs: Sequence[Run]
    levels: Sequence[int] | None
    broken_count: int = 8
    less_bytes: int = 0
    length_bytes: int | None = None

    @property
    def value_count(self) -> int:
        """How many values the page says that it has."""
        return self.broken_count if self.levels is None else len(self.levels)

    def content(self, physical_type: PhysicalType) -> bytes:
        """Return a chunk of one page."""
        runs = b"".join(run.encoded() for run in self.runs)
        runs = runs[: len(runs) - self.less_bytes]
        length_bytes = len(runs) if self.length_bytes is None else self.length_bytes
        kind = KINDS[physical_type]
        values = kind.encode(_values(sum(self.levels or ()), kind.value))
        body = length_bytes.to_bytes(LENGTH_BYTES, "little") + runs + values
        numbers = {
            "value_count": self.value_count,
            "encoding": kind.encoding,
            "definition_encoding": RLE_LEVELS,
            "repetition_encoding": RLE_LEVELS,
        }
        size_bytes = len(body)
        page = Page(kind=DATA, compressed_bytes=size_bytes, uncompressed_bytes=size_bytes, numbers=numbers)
        return page.header() + body


@functools.cache
def level_runs() -> tuple[LevelRuns, ...]:
    """Return all runs, always in the same order."""
    return (*_sound(), *_broken())


def problem_of(case: LevelRuns) -> str | None:
    """Say what is read instead, or of how much memory, for numbers of each type; None if what is said is read."""
    return next(filter(None, (_problem_of(case, each) for each in KINDS)), None)


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of readers that look at no levels, turn them round, or make runs as long as is said."""
    pages = "tornproof.impl.chunk.duplicate_pages"
    levels_of = original_of(f"{pages}:_decode_levels")

    def reversed_levels(body: memoryview, *of: Any) -> tuple[Any, int]:
        levels, length_bytes = levels_of(body, *of)
        return levels[::-1], length_bytes

    controls: Controls = (
        ("nothing is null", f"{pages}:_runs", lambda _, count, *of: [np.ones(count, np.bool_)], "it is rejected: "),
        ("all is null", f"{pages}:_runs", lambda _, count, *of: [np.zeros(count, np.bool_)], "it is read as"),
        ("levels are turned round", f"{pages}:_decode_levels", reversed_levels, "is read instead of"),
        ("long runs are made", f"{pages}:_runs", lambda _, count, *of: [np.ones(MANY, np.bool_)], "bytes of memory"),
    )
    return not_noticed(controls, problem_of, level_runs())


def _problem_of(case: LevelRuns, physical_type: PhysicalType) -> str | None:
    content, kind = case.content(physical_type), KINDS[physical_type]
    settings: dict[str, Any] = {"is_optional": True, "file": FILE, "offset_bytes": 0}
    decode = functools.partial(decode_pages, content, physical_type, case.value_count, **settings)
    with suppress(CorruptError):  # what is imported for the first page is not counted for it
        decode()
    tracemalloc.start()
    try:
        found = decode()
    except CorruptError as error:
        found, rejected = None, str(error)
    finally:
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    if peak_bytes > PEAK_BYTES_MAX:
        return f"it takes {peak_bytes} bytes of memory"
    if found is None:
        return None if case.levels is None else f"it is rejected: {rejected}"
    if case.levels is None:
        return f"it is read as {found.null_count} nulls of {len(found)} values"
    values = iter(_values(sum(case.levels), kind.value).tolist())
    expected = [next(values) if level else None for level in case.levels]
    return None if found.to_pylist() == expected else f"{found.to_pylist()} is read instead of {expected}"


def _values(count: int, of: str) -> np.ndarray:
    return (np.arange(count) * SPREAD % 1000).astype(of)


def _sound() -> Iterator[LevelRuns]:
    """Yield runs that say the levels of a page."""
    for count in (1, 8, 9, 300):
        for level in (0, 1):
            yield LevelRuns(name=f"a run of {count} times {level}", runs=[Run(count, level)], levels=[level] * count)
    alternating = [(length, number % 2) for number, length in enumerate((1, 2, 3, 100, 1, 64, 7))]
    yield LevelRuns(
        name="runs of zeros and ones",
        runs=[Run(length, level) for length, level in alternating],
        levels=[level for length, level in alternating for _ in range(length)],
    )
    bits = [SPREAD >> bit & 1 for bit in range(32)]
    for count in (1, 7, 8, 9, 32):
        packed = Run(-(-count // BYTE_BITS), packed=bits[:count])
        yield LevelRuns(name=f"{count} packed levels", runs=[packed], levels=bits[:count])
    yield LevelRuns(
        name="packed levels between two runs",
        runs=[Run(5, 1), Run(2, packed=bits[:16]), Run(9, 0), Run(1, packed=bits[3:6])],
        levels=[1] * 5 + bits[:16] + [0] * 9 + bits[3:6],
    )
    yield LevelRuns(
        name="a run of no levels before others",
        runs=[Run(0, 1), Run(3, 0), Run(0, 0), Run(5, 1)],
        levels=[0] * 3 + [1] * 5,
    )
    for count in (9, MANY):
        yield LevelRuns(name=f"a run of {count} levels, of a page of 8", runs=[Run(count, 1)], levels=[1] * 8)
        packed = Run(count, packed=bits[:16])
        yield LevelRuns(name=f"packed levels of {count} bytes, of a page of 8", runs=[packed], levels=bits[:8])
    padded = Run(8, 1, number_bytes=5)
    yield LevelRuns(name="a run with a head of five bytes", runs=[padded], levels=[1] * 8)


def _broken() -> Iterator[LevelRuns]:
    """Yield pages of 8 values whose runs do not say which are null."""
    yield LevelRuns(name="no runs", runs=[], levels=None)
    yield LevelRuns(name="a level of 2", runs=[Run(8, 2)], levels=None)
    yield LevelRuns(name="a level of 255", runs=[Run(1, 1), Run(7, 255)], levels=None)
    yield LevelRuns(name="a level less", runs=[Run(7, 1)], levels=None)
    yield LevelRuns(name="a run without its level", runs=[Run(8, 1)], levels=None, less_bytes=1)
    yield LevelRuns(name="packed levels without their bytes", runs=[Run(1, packed=[1] * 8)], levels=None, less_bytes=1)
    many = Run(MANY, packed=[1] * 8)
    yield LevelRuns(name="one byte of many packed levels", runs=[many], levels=None, broken_count=1000)
    for length_bytes in (1 << 10, (1 << 32) - 1):
        yield LevelRuns(
            name=f"levels of {length_bytes} bytes", runs=[Run(8, 1)], levels=None, length_bytes=length_bytes
        )
