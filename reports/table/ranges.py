"""The purpose of the bytes of a partition's two files, from the view of its committed generation."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from tornproof.reports.table.chain import Chain
from tornproof.reports.table.fields import TableFields
from tornproof.reports.table.states import (
    DEAD,
    IN_USE,
    MISSING,
    NEWER,
    ORPHAN,
    PADDING,
    UNEXPLAINED,
    UNUSED,
    FileRanges,
    Owned,
)

RANGES_READ_MAX = 4_000
NAMES_SHOWN = 4


def pm_ranges(pm: TableFields, chain: Chain) -> FileRanges:
    """Return the ranges of a `_pm` from its document."""
    live = {offset for group in chain.row_groups for offset in (group.block_start, group.region_start)}
    ranges = []
    for entry in pm.inners("byte_map", RANGES_READ_MAX):
        start, end, what = entry.number("start_bytes"), entry.number("end_bytes"), entry.text("what")
        generation = entry.optional("generation")
        if what in (DEAD, PADDING, UNEXPLAINED):
            # A committed generation that the chain does not reach is not dead: it must not be removed.
            state = UNEXPLAINED if what == DEAD and entry.optional("token") == chain.token else what
        elif generation is None:
            state = IN_USE
        elif chain.is_above(generation):
            state = chain.state_above(generation)
        elif what in ("footer", "trailer"):
            state = IN_USE if generation == chain.resolved else UNUSED
        elif not live:
            state = UNEXPLAINED
        else:
            state = IN_USE if start in live else UNUSED
        label, owner = _pm_words(entry, what, chain)
        ranges.append(Owned(start=start, end=end, state=state, label=label, owner=owner))
    return FileRanges(name="_pm", size_bytes=pm.number("size_bytes"), ranges=tuple(_owned_padding(ranges)))


def _owned_padding(ranges: Sequence[Owned]) -> Iterator[Owned]:
    """Yield the ranges; padding before a block of a newer generation belongs to that generation."""
    for each, following in itertools.pairwise([*ranges, None]):
        if each is not None and each.state == PADDING and following is not None and following.state in (ORPHAN, NEWER):
            yield replace(each, state=following.state, label=PADDING, owner=following.owner)
        elif each is not None:
            yield each


def _pm_words(entry: TableFields, what: str, chain: Chain) -> tuple[str, str]:
    """Return the label and the owner of a range."""
    row_group, generation, token = (entry.optional(name) for name in ("row_group", "generation", "token"))
    if token is not None:
        which = "the committed token" if token == chain.token else "token"
        label = f"a complete generation with {which} {token:,} that is not in the chain"
        return label, label
    label = what if row_group is None else f"{what} of row group {row_group}"
    if what in (DEAD, PADDING, UNEXPLAINED):
        return "", ""
    if generation is None:
        return label, "header"
    return f"{label}, generation {generation}", f"generation {generation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A range of data.parquet with its owner: adjacent ones of the same owner are merged."""

    start: int
    end: int
    state: str
    owner: str
    column: str = ""


def data_ranges(data: TableFields, chain: Chain) -> FileRanges:
    """Return the ranges of a data.parquet from its document.

    If the Thrift footer does not decode, the ranges are those that `_pm` refers to.
    """
    size_bytes = data.number("size_bytes")
    token = max(size_bytes, data.number("token"))
    entries, names = data.inners("byte_map", RANGES_READ_MAX), _names(data)
    parts = [part for entry in entries for part in _data_parts(entry, names, chain)] or _expected_parts(chain)
    clipped = (replace(part, end=min(part.end, size_bytes)) for part in parts)
    ranges = list(_by_owner(part for part in clipped if part.start < part.end))
    if not ranges and size_bytes:
        ranges = [Owned(start=0, end=size_bytes, state=UNEXPLAINED, label="", owner="")]
    if size_bytes < token:
        label = "up to the committed token"
        ranges.append(Owned(start=size_bytes, end=token, state=MISSING, label=label, owner=label))
    return FileRanges(name="data.parquet", size_bytes=token, ranges=tuple(ranges))


def _names(data: TableFields) -> list[str]:
    return [".".join(leaf.texts("path")) for leaf in data.inners("schema", RANGES_READ_MAX)]


def _data_parts(entry: TableFields, names: Sequence[str], chain: Chain) -> Iterator[_Part]:
    start, end, what = entry.number("start_bytes"), entry.number("end_bytes"), entry.text("what")
    row_group, column, generation = (entry.optional(name) for name in ("row_group", "column", "generation"))
    column_name = names[column] if column is not None and 0 <= column < len(names) and what == "column chunk" else ""
    if what == "after the token":
        yield from _after_token(start, end, chain)
    elif what == UNUSED:
        yield _Part(start=start, end=end, state=UNUSED, owner="of no generation that is known")
    elif what == UNEXPLAINED:
        yield _Part(start=start, end=end, state=UNEXPLAINED, owner="")
    elif generation is not None:
        state = chain.state_above(generation) if chain.is_above(generation) else UNUSED
        owner = f"{'footer' if what == 'footer' else 'chunks'} of generation {generation}"
        yield _Part(start=start, end=end, state=state, owner=owner, column=column_name)
    elif row_group is not None:
        kind = "" if what in ("column chunk", "column metadata copy") else f"{what} of "
        by = f", generation {chain.writers[row_group]}" if row_group in chain.writers else ""
        yield _Part(start=start, end=end, state=IN_USE, owner=f"{kind}row group {row_group}{by}", column=column_name)
    else:
        owner = "footer" if what.startswith("footer") else what
        yield _Part(start=start, end=end, state=IN_USE, owner=owner)


def _after_token(start: int, end: int, chain: Chain) -> Iterator[_Part]:
    """Yield the parts after the committed size: of newer generations, and the rest."""
    for each in reversed(chain.generations):
        if chain.is_above(each.index) and start < each.token <= end:
            state = chain.state_above(each.index)
            yield _Part(start=start, end=each.token, state=state, owner=f"all of generation {each.index}")
            start = each.token
    if start < chain.token and not chain.is_committed:
        until = min(end, chain.token)
        yield _Part(start=start, end=until, state=UNEXPLAINED, owner="up to the committed token")
        start = until
    if start < end:
        yield _Part(start=start, end=end, state=DEAD, owner="after the token")


def _expected_parts(chain: Chain) -> Iterator[_Part]:
    """Yield the parts of data.parquet that `_pm` refers to."""
    found = [
        _Part(
            start=chunk.start,
            end=chunk.end,
            state=IN_USE,
            owner=f"row group {group.index}, generation {group.writer}",
            column=chunk.name,
        )
        for group in chain.row_groups
        for chunk in group.chunks
    ]
    for each in chain.generations:
        if not chain.is_above(each.index):
            state = IN_USE if each.index == chain.resolved else UNUSED
            owner = f"footer of generation {each.index}"
            found.append(_Part(start=each.footer_start, end=each.token, state=state, owner=owner))
    reached, before = 0, ""
    for part in sorted(found, key=lambda each: (each.start, each.end)):
        if reached < part.start:
            # Between the chunks of a row group are copies of their metadata.
            is_inside = part.owner == before
            state, owner = (IN_USE, before) if is_inside else (UNEXPLAINED, "")
            yield _Part(start=reached, end=part.start, state=state, owner=owner)
        yield part
        reached, before = max(reached, part.end), part.owner


def _by_owner(parts: Iterable[_Part]) -> Iterator[Owned]:
    for (state, owner), run in groupby(parts, key=lambda part: (part.state, part.owner)):
        members = list(run)
        names = list(dict.fromkeys(part.column for part in members if part.column))
        label = owner + (f": {', '.join(names[:NAMES_SHOWN])}" if names else "")
        if len(names) > NAMES_SHOWN:
            label += f" and {len(names) - NAMES_SHOWN} more"
        short = owner.removeprefix("footer of ").removeprefix("chunks of ").removeprefix("all of ")
        end = max(part.end for part in members)
        yield Owned(start=members[0].start, end=end, state=state, label=label, owner=short)
