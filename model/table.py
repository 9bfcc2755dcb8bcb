"""A table, its operations, and what each may leave where processes die; rows and tokens are given, never derived."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, combinations, product
from typing import Any, NamedTuple, TypeAlias

DirectoryName: TypeAlias = tuple[int, int]
"""The partition and its name txn."""


class Generation(NamedTuple):
    """One footer; `prev` is the number of the next one down the chain, or 0."""

    token: int
    rows: tuple[int, ...]
    prev: int = 0


Generations: TypeAlias = tuple[Generation, ...]
"""Those of a directory in file order, numbered from 1; none in one that a stopped writer left."""


def resolve(generations: Generations, token: int) -> int:
    """Walk the chain from the newest generation; return the number of the first one with this token, or 0."""
    number = len(generations)
    while number and generations[number - 1].token != token:
        number = generations[number - 1].prev
    return number


class Entry(NamedTuple):
    """A partition's entry in a version."""

    directory: DirectoryName
    rows: tuple[int, ...]
    token: int


class Version(NamedTuple):
    """A commit number and the entries that it names, by partition."""

    number: int
    entries: tuple[Entry, ...] = ()


class State(NamedTuple):
    """Everything that can be observed of a table (docs/format.md#three-files-one-commit).

    The `other` slot of `_txn` may contain anything if it is None. Directories are ordered by name, pins by reader.
    `open`: there is a writer, and only it may change the table.
    """

    committed: Version
    other: Version | None = None
    directories: tuple[tuple[DirectoryName, Generations], ...] = ()
    pins: tuple[tuple[int, Version], ...] = ()
    open: bool = True

    @property
    def entries(self) -> dict[int, Entry]:
        """Return the committed entries by partition."""
        return {entry.directory[0]: entry for entry in self.committed.entries}

    @property
    def unnamed(self) -> tuple[DirectoryName, ...]:
        """Return the directories that neither the committed version nor a pinned one names."""
        entries = chain(self.committed.entries, *(version.entries for _, version in self.pins))
        return tuple(sorted(dict(self.directories).keys() - {entry.directory for entry in entries}))

    @property
    def orphaned(self) -> tuple[Entry, ...]:
        """Return the committed entries behind whose generation another one was published; a recovery restates them."""
        entries = self.committed.entries
        return tuple(each for each in entries if self.generations(each.directory)[-1].token != each.token)

    def generations(self, name: DirectoryName) -> Generations:
        """Return the generations of a directory, none if it does not exist."""
        return dict(self.directories).get(name, ())

    def with_directories(self, new: Mapping[DirectoryName, Generations], gone: Iterable[DirectoryName] = ()) -> State:
        """Return the state with directories added or replaced, and others removed."""
        left = {**dict(self.directories), **new}
        return self._replace(directories=tuple((name, left[name]) for name in sorted(left.keys() - set(gone))))


class Write(NamedTuple):
    """Rows of a partition after a commit: a larger token in place, or a new directory (first write, rewrite)."""

    partition: int
    rows: tuple[int, ...]
    token: int
    in_place: bool


class Drop(NamedTuple):
    """A partition leaves the table; its directory stays until a purge."""

    partition: int


class Stage(enum.IntEnum):
    """What a commit has completed, barriers included (docs/guarantees.md); the next step is in flight."""

    STARTED = 0  # in flight: data, `_pm` bodies, new directories
    WRITTEN = 1  # in flight: headers of `_pm`, the sync of directories
    PUBLISHED = 2  # in flight: the `_txn` record
    RECORDED = 3  # in flight: the version
    COMMITTED = 4  # in flight: the acknowledgement


class Commit(NamedTuple):
    """An acknowledged commit, or one that stops after a stage: by a crash, or by an error that stores no version."""

    changes: tuple[Write | Drop, ...]
    stopped_after: Stage | None = None
    crash: bool = False


class Recover(NamedTuple):
    """A writer opens the table, or crashes then."""

    crash: bool = False


class Pin(NamedTuple):
    """A reader without a pin pins the committed version."""

    reader: int


class Unpin(NamedTuple):
    """A reader releases its pin, or its process ends, which releases it too."""

    reader: int


class Purge(NamedTuple):
    """The writer removes directories that neither the committed nor a pinned version names, but those it has `kept`.

    While anything is pinned it may keep some, as it need not know which directories a pinned version names.
    """

    kept: tuple[DirectoryName, ...] = ()


Operation: TypeAlias = Commit | Recover | Pin | Unpin | Purge


class Outcome(NamedTuple):
    """A possible next state, and what the call returns: a version number, a pinned version, purged directories."""

    state: State
    answer: int | Version | tuple[DirectoryName, ...] | None = None


def step(state: State, operation: Operation) -> tuple[Outcome, ...]:
    """Return every allowed outcome once, in a fixed order; none if the state does not allow the operation."""
    return tuple(sorted(set(_outcomes(state, operation)), key=repr))


def _outcomes(state: State, operation: Operation) -> Iterator[Outcome]:
    number = state.committed.number
    match operation:
        case Commit(changes=changes, stopped_after=None, crash=False) if _is_possible(state, changes):
            yield Outcome(_committed(state, changes), number + 1)
        case Commit(changes=changes, stopped_after=Stage() as stage, crash=crash) if _is_possible(state, changes):
            left = list(_unfinished(state, changes, stage)) if stage < Stage.COMMITTED else []
            left += [_committed(state, changes)] if crash and stage >= Stage.RECORDED else []
            yield from (Outcome(each._replace(open=not crash)) for each in left)
        case Recover(crash=crash):
            names = tuple(name for name in state.unnamed if name[1] >= number)
            for some, gone in (
                product(_subsets(state.orphaned), _subsets(names)) if crash else [(state.orphaned, names)]
            ):
                restated = {each.directory: _appended(state, each, each.token, each.rows) for each in some}
                after = state.with_directories(restated, gone)._replace(open=not crash)
                yield Outcome(after, None if crash else number)
        case Pin(reader=reader) if reader not in dict(state.pins):
            pins = tuple(sorted((*state.pins, (reader, state.committed))))
            yield Outcome(state._replace(pins=pins), state.committed)
        case Unpin(reader=reader):
            yield Outcome(state._replace(pins=tuple(pin for pin in state.pins if pin[0] != reader)))
        case Purge(kept=kept) if state.open and set(kept) <= set(state.unnamed if state.pins else ()):
            gone = tuple(name for name in state.unnamed if name not in kept)
            yield Outcome(state.with_directories({}, gone), gone)


def _is_possible(state: State, changes: tuple[Write | Drop, ...]) -> bool:
    once = len({change.partition for change in changes}) == len(changes) > 0
    return state.open and once and all(_is_allowed(state.entries.get(each.partition), each) for each in changes)


def _is_allowed(entry: Entry | None, change: Write | Drop) -> bool:
    if isinstance(change, Write) and not change.in_place:
        return change.token > 0
    return entry is not None and (isinstance(change, Drop) or change.token > entry.token)


def _committed(state: State, changes: tuple[Write | Drop, ...]) -> State:
    entries = {key: each for key, each in state.entries.items() if key not in {change.partition for change in changes}}
    written = [_written(state, change) for change in changes if isinstance(change, Write)]
    for name, generations in written:
        entries[name[0]] = Entry(name, generations[-1].rows, generations[-1].token)
    version = Version(state.committed.number + 1, tuple(entries[key] for key in sorted(entries)))
    return state.with_directories(dict(written))._replace(committed=version, other=state.committed)


def _unfinished(state: State, changes: tuple[Write | Drop, ...], stage: Stage) -> Iterator[State]:
    """Yield the states that a commit may leave before its version is stored; a new directory may have any content."""
    # Headers are patched after the bodies are synced; a new directory may exist earlier.
    seen = (each for each in changes if isinstance(each, Write) and stage >= Stage.WRITTEN - (not each.in_place))
    written = [(each.in_place, *_written(state, each)) for each in seen]
    left = tuple((name, generations if in_place else ()) for in_place, name, generations in written)
    if stage < Stage.PUBLISHED:
        yield from (state.with_directories(dict(some)) for some in _subsets(left))
    else:
        recorded = _committed(state, changes).committed if stage is Stage.RECORDED else None
        yield state.with_directories(dict(left))._replace(other=recorded)


def _written(state: State, write: Write) -> tuple[DirectoryName, Generations]:
    """Return the directory of a write, and the generations in it then."""
    if not write.in_place:
        return (write.partition, state.committed.number), (Generation(write.token, write.rows),)
    entry = state.entries[write.partition]
    return entry.directory, _appended(state, entry, write.token, write.rows)


def _appended(state: State, entry: Entry, token: int, rows: tuple[int, ...]) -> Generations:
    """Return the generations of an entry's directory with one more, whose predecessor is the committed one."""
    generations = state.generations(entry.directory)
    return (*generations, Generation(token, rows, resolve(generations, entry.token)))


def _subsets(items: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    return chain.from_iterable(combinations(items, count) for count in range(len(items) + 1))
