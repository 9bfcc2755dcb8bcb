"""The allowed outcomes of every operation on a table: `step(state, operation) -> outcomes`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, combinations, product
from typing import Any

from tornproof.model import table
from tornproof.model.table import Directory, DirectoryName, Drop, Entry, Generation, Stage, State, Version, Write


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A possible next state, and what the call returns: a version number, a pinned version, purged directories."""

    state: State
    answer: int | Version | tuple[DirectoryName, ...] | None = None


def step(state: State, operation: table.Operation) -> tuple[Outcome, ...]:
    """Return every allowed outcome once, in a fixed order; none if the state does not allow the operation."""
    return tuple(sorted(set(_outcomes(state, operation)), key=repr))


def newest_orphans(state: State) -> dict[int, int]:
    """Return the partitions whose newest generation is an orphan, with its end; a recovery restates them."""
    newest = {key: state.directory(entry.directory).generations[-1] for key, entry in state.entries.items()}
    return {partition: generation.end for partition, generation in newest.items() if generation.orphan}


def _outcomes(state: State, operation: table.Operation) -> Iterator[Outcome]:
    match operation:
        case table.Commit(changes=changes, stopped_after=None, crash=False) if _is_possible(state, changes):
            yield Outcome(state=_committed(state, changes), answer=state.version + 1)
        case table.Commit(changes=changes, stopped_after=Stage() as stage, crash=crash) if _is_possible(state, changes):
            left = list(_unfinished(state, stage, changes)) if stage < Stage.COMMITTED else []
            left += [_committed(state, changes)] if crash and stage >= Stage.RECORDED else []
            yield from (Outcome(state=replace(each, open=not crash)) for each in left)
        case table.Recover(restated=restated, crash=crash) if _is_restatement(state, dict(restated)):
            unnamed = tuple(name for name in state.unnamed if name[1] >= state.version)
            for some, gone in product(_subsets(restated), _subsets(unnamed)) if crash else [(restated, unnamed)]:
                after = state.with_directories(_restated(state, some), gone)
                yield Outcome(state=replace(after, open=not crash), answer=None if crash else state.version)
        case table.Pin(reader=reader) if reader not in dict(state.pins):
            pins = sorted((*state.pins, (reader, state.committed)), key=lambda pin: pin[0])
            yield Outcome(state=replace(state, pins=tuple(pins)), answer=state.committed)
        case table.Unpin(reader=reader):
            yield Outcome(state=replace(state, pins=tuple(pin for pin in state.pins if pin[0] != reader)))
        case table.Purge(kept=kept) if state.open and set(kept) <= set(state.unnamed if state.pins else ()):
            gone = tuple(name for name in state.unnamed if name not in kept)
            yield Outcome(state=state.with_directories(gone=gone), answer=gone)


def _is_possible(state: State, changes: tuple[Write | Drop, ...]) -> bool:
    once = len({change.partition for change in changes}) == len(changes) > 0
    return state.open and once and all(_is_allowed(state, change) for change in changes)


def _is_allowed(state: State, change: Write | Drop) -> bool:
    entry = state.entries.get(change.partition)
    if isinstance(change, Write) and not change.in_place:
        return change.token > 0 and change.generation_end > 0
    if isinstance(change, Drop) or entry is None:
        return entry is not None
    return change.token > entry.token and change.generation_end > state.directory(entry.directory).generations[-1].end


def _is_restatement(state: State, ends: dict[int, int]) -> bool:
    orphans = newest_orphans(state)
    return ends.keys() == orphans.keys() and all(ends[partition] > end for partition, end in orphans.items())


def _committed(state: State, changes: tuple[Write | Drop, ...]) -> State:
    entries = state.entries
    for change in changes:
        old = entries.pop(change.partition, None)
        if isinstance(change, Write):
            name = old.directory if old and change.in_place else (change.partition, state.version)
            entries[change.partition] = Entry(directory=name, rows=change.rows, token=change.token)
    version = Version(number=state.version + 1, entries=tuple(entries[key] for key in sorted(entries)))
    return replace(_written(state, changes), version=version.number).with_slot(version.number, version)


def _written(state: State, changes: Iterable[Write | Drop], *, orphan: bool = False) -> State:
    """Return the state with the changes published; contents of a directory that no version names are replaced."""
    directories = []
    for change in (change for change in changes if isinstance(change, Write)):
        fresh = Generation(end=change.generation_end, token=change.token, rows=change.rows, orphan=orphan)
        if change.in_place:
            directories.append(_appended(state, state.entries[change.partition], fresh))
        else:
            name = change.partition, state.version
            directories.append(Directory(name=name, generations=() if orphan else (fresh,)))
    return state.with_directories(directories)


def _appended(state: State, entry: Entry, fresh: Generation) -> Directory:
    """Return the entry's directory with one more generation, whose predecessor is the committed one."""
    directory = state.directory(entry.directory)
    head = directory.resolve(entry.token)
    assert head is not None, "a committed token is always found"
    return replace(directory, generations=(*directory.generations, replace(fresh, prev=head.end)))


def _unfinished(state: State, stage: Stage, changes: tuple[Write | Drop, ...]) -> Iterator[State]:
    """Yield the states that a commit may leave before its version is stored."""
    if stage >= Stage.PUBLISHED:
        recorded = _committed(state, changes).committed if stage is Stage.RECORDED else None
        yield _written(state, changes, orphan=True).with_slot(state.version + 1, recorded)
    else:
        # Headers are patched after the bodies are synced; a new directory may exist earlier.
        seen = (each for each in changes if isinstance(each, Write) and stage >= Stage.WRITTEN - (not each.in_place))
        yield from (_written(state, some, orphan=True) for some in _subsets(tuple(seen)))


def _restated(state: State, ends: tuple[tuple[int, int], ...]) -> Iterator[Directory]:
    for partition, end in ends:
        entry = state.entries[partition]
        yield _appended(state, entry, Generation(end=end, token=entry.token, rows=entry.rows))


def _subsets(items: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    return chain.from_iterable(combinations(items, count) for count in range(len(items) + 1))
