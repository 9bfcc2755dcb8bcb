"""The generations of one partition: the committed one, newer ones, and which wrote which row groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tornproof.reports.table.fields import TableFields
from tornproof.reports.table.states import NEWER, ORPHAN

ENTRIES_READ_MAX = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One generation of a `_pm`; index 0 is the newest."""

    index: int
    token: int
    footer_start: int
    end_bytes: int
    row_group_count: int
    rows: int | None
    unused_bytes: int
    checksum_ok: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """The bytes of data.parquet with a column of a row group."""

    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """A row group of the committed generation, and the one that wrote it."""

    index: int
    block_start: int
    region_start: int
    writer: int
    rows: int
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The chain of a `_pm`; everything is empty without a `_pm`.

    `writers` has the generation that wrote each row group. `token` is the verified one. `resolved` is the inspected
    generation: the one with that token if `is_committed`, else the newest. `since` is the generation that was committed
    when the files were inspected, if that was a later one.
    """

    generations: tuple[Generation, ...] = ()
    row_groups: tuple[RowGroup, ...] = ()
    writers: Mapping[int, int] = field(default_factory=dict)
    version: int | None = None
    resolved: int | None = None
    token: int = 0
    is_committed: bool = False
    since: int | None = None

    def is_above(self, generation: int) -> bool:
        """Return whether a generation is newer than the inspected one."""
        return self.resolved is not None and generation < self.resolved

    def state_above(self, generation: int) -> str:
        """Return the state of bytes that only a newer generation refers to."""
        return NEWER if self.since is not None and generation >= self.since else ORPHAN


def read_chain(pm: TableFields, token: int, version: int | None) -> Chain:
    """Return the chain in the document of a `_pm`, of which `version` of the table has committed `token`."""
    generations = tuple(map(_generation, pm.inners("generations", ENTRIES_READ_MAX)))
    resolved = since = seen = None
    if "resolved" in pm:
        resolved = pm.inner("resolved").number("generation")
    if "committed" in pm:
        committed = pm.inner("committed")
        seen, since = committed.number("version"), committed.optional("generation")
    is_committed = any(each.index == resolved and each.token == token for each in generations)
    row_groups = tuple(map(_row_group, pm.inners("row_groups", ENTRIES_READ_MAX)))
    return Chain(
        generations=generations,
        row_groups=row_groups,
        writers={group.index: group.writer for group in row_groups},
        version=seen,
        resolved=resolved,
        token=token,
        is_committed=is_committed,
        since=since if seen != version else None,
    )


def _generation(fields: TableFields) -> Generation:
    footer_start = fields.number("parquet_footer_offset")
    return fields.record(Generation, footer_start=footer_start, checksum_ok=fields.inner("checksum").flag("ok"))


def _row_group(fields: TableFields) -> RowGroup:
    return fields.record(
        RowGroup,
        block_start=fields.number("block_offset_bytes"),
        region_start=fields.number("out_of_line_offset_bytes"),
        writer=fields.number("written_by_generation"),
        chunks=tuple(
            chunk.record(Chunk, start=chunk.number("byte_range_start"), end=chunk.number("byte_range_end"))
            for chunk in fields.inners("chunks", ENTRIES_READ_MAX)
        ),
    )
