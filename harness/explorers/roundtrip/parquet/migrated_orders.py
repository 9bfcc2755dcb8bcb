"""Whether a migration states the order of rows that all row groups agree on, and rejects row groups that disagree.

What a metadata file says is read from its bytes, as docs/format.md lays them out.
"""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from tornproof.harness.common.patch import Controls, not_noticed
from tornproof.harness.explorers.model_based.other_footers import with_elements, with_footer
from tornproof.harness.explorers.roundtrip.forms import parquet_of, reader_of
from tornproof.harness.explorers.roundtrip.metadata.metadata_draft import (
    COLUMN_FIELDS,
    DESCENDING,
    SORTED_BY_TIMESTAMP,
    column_start,
)
from tornproof.impl.errors import ProblemError
from tornproof.impl.migrate.convert import convert
from tornproof.impl.parquet.thrift import Field, Items, Kind, Struct, with_fields

PROPERTY = "a migrated file is sorted as all of its row groups say"
FILE = "sorted.parquet"
ROW_GROUPS, SORTING = 4, 4
"""Field ids of parquet.thrift: of the footer, and of a row group."""
SCHEMA = pa.schema(
    [
        pa.field("time", pa.timestamp("us"), nullable=False),
        pa.field("maybe", pa.timestamp("us")),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("day", pa.date32(), nullable=False),
    ]
)
DESIGNATED = 0
"""The one column that may be the designated timestamp: a required one with that annotation."""
NONE = -1

Sorting: TypeAlias = tuple[tuple[int, bool], ...] | None
"""The columns that a row group is sorted by, each with whether it descends; None if it does not say."""
Stated: TypeAlias = tuple[int, tuple[int, ...], tuple[int, ...]]
"""The designated timestamp, the sorting columns, and those that descend."""

SORTINGS: tuple[Sorting, ...] = (
    None,
    *(((column, descends),) for column in range(4) for descends in (False, True)),
    ((0, False), (2, True)),
    ((0, False), (2, False)),
    ((2, True), (0, False)),
    ((0, False), (0, True)),
    ((3, True), (1, False), (2, True)),
)


@dataclass(frozen=True, slots=True)
class SortedFile:
    """A file whose row groups say these things."""

    groups: tuple[Sorting, ...]

    @property
    def kind(self) -> str:
        """What is right."""
        return "rejected" if self.stated is None else "taken"

    @property
    def name(self) -> str:
        """It in words."""
        return "; ".join(_words(sorting) for sorting in self.groups)

    @property
    def stated(self) -> Stated | None:
        """What the metadata must say; None if the row groups disagree."""
        said = list(dict.fromkeys(filter(None, self.groups)))
        if len(said) > 1:
            return None
        common = said[0] if said else ()
        first = dict(reversed(common))
        is_designated = common[:1] == ((DESIGNATED, False),)
        descending = tuple(column for column in range(len(SCHEMA)) if first.get(column))
        return DESIGNATED if is_designated else NONE, tuple(column for column, _ in common), descending


@functools.cache
def sorted_files() -> tuple[SortedFile, ...]:
    """Return files of two and of three row groups."""
    pairs = itertools.product(SORTINGS, repeat=2)
    threes = ((one, between, one) for one in SORTINGS for between in (None, SORTINGS[1]))
    return tuple(SortedFile(groups) for groups in dict.fromkeys((*pairs, *threes)))


def problem_of(each: SortedFile) -> str | None:
    """Say what is wrong with the metadata; None if nothing is."""
    content = with_footer(_file(len(each.groups)), lambda footer: _with_sorting(footer, each.groups))
    try:
        found = _stated_in(convert(reader_of(content), size_bytes=len(content), file=FILE))
    except ProblemError:
        found = None
    if found == each.stated:
        return None
    return f"it is {_told(found)}, and should be {_told(each.stated)}"


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of a migration that looks at no row group, and of one without timestamps."""
    controls: Controls = (
        ("row groups are not looked at", "tornproof.impl.migrate.header:_common_sorting", lambda _: ()),
        ("nothing is a timestamp", "tornproof.impl.migrate.header:_is_designated", lambda *_: False),
    )
    return not_noticed(controls, problem_of, sorted_files()[: len(SORTINGS)])


def _words(sorting: Sorting) -> str:
    parts = (f"{SCHEMA.names[column]}{' descending' * descends}" for column, descends in sorting or ())
    return f"sorted by {', '.join(parts)}" if sorting else "without an order"


def _told(stated: Stated | None) -> str:
    return "rejected" if stated is None else "sorted as {1}, of which {2} descend, with timestamp {0}".format(*stated)


def _stated_in(metadata: bytes) -> Stated:
    (flags,) = struct.unpack_from("<Q", metadata, 8)
    timestamp, count, column_count = struct.unpack_from("<iII", metadata, 16)
    starts = [column_start(index) + COLUMN_FIELDS["flags"] for index in range(column_count)]
    column_flags = [struct.unpack_from("<i", metadata, start)[0] for start in starts]
    sorting = struct.unpack_from(f"<{count}I", metadata, column_start(column_count))
    descending = tuple(index for index, each in enumerate(column_flags) if each & DESCENDING)
    return timestamp, (timestamp,) if flags & SORTED_BY_TIMESTAMP else sorting, descending


def _with_sorting(footer: Struct, groups: tuple[Sorting, ...]) -> Struct:
    def changed(before: tuple[Struct, ...]) -> tuple[Struct, ...]:
        return tuple(itertools.starmap(_sorted_by, zip(before, groups, strict=True)))

    return with_elements(footer, ROW_GROUPS, changed)


def _sorted_by(group: Struct, sorting: Sorting) -> Struct:
    entries = tuple(
        Struct((Field(1, Kind.I32, column), Field(2, Kind.BOOL, descends), Field(3, Kind.BOOL, False)))
        for column, descends in sorting or ()
    )
    return with_fields(group, Field(SORTING, Kind.LIST, Items(Kind.STRUCT, entries))) if entries else group


@functools.cache
def _file(group_count: int) -> bytes:
    days = pa.array([1] * group_count, pa.int32())
    rows = pa.table({name: days.cast(pa.int64()) for name in SCHEMA.names[:-1]} | {SCHEMA.names[-1]: days})
    return parquet_of(rows.cast(SCHEMA), row_group_size=1)
