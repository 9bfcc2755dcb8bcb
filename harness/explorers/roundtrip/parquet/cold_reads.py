"""Whether one chunk that is read alone, by what `_pm` says of it, has the values that pyarrow wrote there.

Such a read looks at no other column and no footer, and need not read chunks of nulls at all; of lists it must.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from tornproof.harness.common.patch import Controls, not_noticed
from tornproof.harness.explorers.roundtrip.forms import parquet_of, reader_of
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.errors import CorruptError, UnsupportedError
from tornproof.impl.migrate.convert import convert
from tornproof.impl.pm.chain import Metadata, decode_metadata, resolve
from tornproof.impl.read.cold_read import read_cold


def _lists(dimensions: int, *, has_all: bool = False) -> pa.DataType:
    """Return lists of doubles, in which no other list may be missing if it `has_all`."""
    if not dimensions:
        return pa.float64()
    is_nullable = dimensions == 1 or not has_all
    return pa.list_(pa.field("element", _lists(dimensions - 1, has_all=has_all), nullable=is_nullable))


PROPERTY = "a chunk that is read alone has the values that were written"
FILE = "data.parquet"
BOUND_BYTES = 128 << 20
"""Few bytes must not become more values than these."""
LISTS: tuple[Any, ...] = (None, [], [None], [None, None], [1.5], [1.5, None], [None, 2.5, 3.5])
DEEP: tuple[Any, ...] = (None, [], [[]], [[], []], [[1.5]], [[None, 2.5], [3.5, 4.5]])
DEEPER: tuple[Any, ...] = (None, [[[1.5], [2.5]], [[None], [4.5]]])
NO_ARRAYS: tuple[Any, ...] = ([None], [[1.5], None], [[[1.5], None]], [None, [[1.5]]])
"""Lists in which another list is missing, of two and of three dimensions."""
WITHOUT_NULL = {"nulls of truths": pa.bool_(), "nulls of bytes": pa.int8(), "nulls of short numbers": pa.int16()}
"""Types of which a server has no null."""
COLUMNS: dict[str, tuple[pa.DataType, tuple[Any, ...]]] = {
    "numbers": (pa.int64(), (1, None, -(1 << 63))),
    "small numbers": (pa.int32(), (None, 7, None)),
    "truths": (pa.bool_(), (True, False, None)),
    "reals": (pa.float64(), (0.5, None, -0.0)),
    "texts": (pa.string(), ("", "größe", None)),
    "bytes": (pa.binary(4), (b"abcd", None, b"\0\0\0\0")),
    "nulls": (pa.int64(), (None, None, None)),
    "nulls of texts": (pa.string(), (None, None, None)),
    **{name: (of, (None, None, None)) for name, of in WITHOUT_NULL.items()},
    **{f"lists {rows}": (pa.list_(pa.float64()), rows) for rows in itertools.combinations_with_replacement(LISTS, 2)},
    **{f"deep {rows}": (_lists(2), rows) for rows in itertools.combinations_with_replacement(DEEP, 2)},
    f"deep {DEEPER}": (_lists(3), DEEPER),
    f"complete {DEEP}": (_lists(2, has_all=True), DEEP),
    f"complete {DEEPER}": (_lists(3, has_all=True), DEEPER),
    **{f"incomplete {row}": (_lists(2 + (number >= 2)), (None, row)) for number, row in enumerate(NO_ARRAYS)},
}


@dataclass(frozen=True, slots=True)
class ColdRead:
    """A column of two row groups, the second of which is reversed; with a count, its chunk is said to be all nulls."""

    of: str
    group: int
    null_count: int | None = None
    more_rows: int = 0

    @property
    def name(self) -> str:
        """It in words."""
        said = {"nulls": self.null_count, "rows more than values": self.more_rows}
        return f"{self.of} in row group {self.group}" + "".join(f", {each} {of}" for of, each in said.items() if each)

    @property
    def kind(self) -> str:
        """What kind of values it has, or that there are too many."""
        return "too many" if self.null_count else self.of.partition(" ")[0]


@functools.cache
def cold_reads() -> tuple[ColdRead, ...]:
    """Return all reads, always in the same order."""
    plain = (ColdRead(of, group) for of, group in itertools.product(COLUMNS, range(2)))
    many = {"numbers": 8, "small numbers": 4, "truths": 1, "texts": 8, "bytes": 4}
    lists = (each for each in COLUMNS if each.startswith("lists"))
    others = (ColdRead(of, group, more_rows=more) for of in lists for group, more in ((0, 1), (1, -1)))
    return (*plain, *others, *(ColdRead(of, 0, BOUND_BYTES // width + 1) for of, width in many.items()))


def problem_of(read: ColdRead) -> str | None:
    """Say what is read otherwise; None if nothing is."""
    content, metadata = _file(read.of)
    block, column = metadata.blocks[read.group], metadata.header.columns[0]
    chunk, row_count = block.chunks[0], block.num_rows + read.more_rows
    if read.null_count is not None:
        chunk = replace(chunk, num_values=read.null_count, null_count=read.null_count)
    with DiskImage.of_files({FILE: content}).open_for_reading(FILE) as handle:
        try:
            found = read_cold(handle, column, chunk, row_count=row_count, file=FILE)
        except UnsupportedError as error:
            return None if read.null_count is not None else f"it is rejected: {error}"
        except CorruptError as error:
            return None if read.kind == "incomplete" or read.more_rows else f"it is rejected: {error}"
    if read.more_rows:
        return "lists that are not as many as the rows are taken"
    if read.kind == "incomplete":
        return "lists that are missing in others are taken"
    if read.null_count is not None:
        return f"{len(found)} values are made of nothing"
    null = 0 if read.of == "truths" or read.of in WITHOUT_NULL else None
    expected = [null if each is None else each for each in _rows(read.of)[read.group]]
    values = found.to_pylist()
    return None if values == expected else f"{values} is read instead of {expected}"


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of readers that take every chunk for one of nulls, and of values of any size."""
    module = "tornproof.impl.read.cold_read"
    controls: Controls = (
        ("all chunks have nulls alone", f"{module}:is_all_null", lambda *_: True, "is read instead of"),
        ("all bytes are none", f"{module}:read_chunk", lambda *_, **__: b"", "it is rejected: "),
        ("lists may miss in others", "tornproof.impl.chunk.chunk:_check_inner_lists", lambda *_: None),
        ("lists may be of any number", f"{module}:check_rows", lambda *_, **__: None, "are taken"),
        ("values may take any room", f"{module}:batch_bound_bytes", lambda _: BOUND_BYTES << 4, "are made of nothing"),
        ("nothing takes room", f"{module}:batch_bound_bytes", lambda _: 0, "it is rejected: data.parquet: NUM_VALUES"),
    )
    few = [each for each in cold_reads() if each.null_count is None or each.of == "bytes"]
    return not_noticed(controls, problem_of, few)


def _rows(of: str) -> tuple[list[Any], list[Any]]:
    rows = [*COLUMNS[of][1]]
    return rows, rows[::-1]


@functools.cache
def _file(of: str) -> tuple[bytes, Metadata]:
    """Return a file with one column, and the metadata that a migration makes of it."""
    table = pa.table({"a": pa.array([*itertools.chain(*_rows(of))], COLUMNS[of][0])})
    content = parquet_of(table, row_group_size=len(COLUMNS[of][1]))
    return content, migrated(content)


def migrated(content: bytes) -> Metadata:
    """Return the metadata that a migration makes of a file."""
    metadata = convert(reader_of(content), size_bytes=len(content), file=FILE)
    return decode_metadata(metadata, resolve(metadata, len(content), file="_pm").position, file="_pm")
