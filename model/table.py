"""A table and its operations, as values. Rows, tokens and ends of generations are given, never derived."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain

DirectoryName = tuple[int, int]  # partition and name txn


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One footer; `prev` is the end of the next one down the chain, or 0; an orphan is published, not committed."""

    end: int
    prev: int = 0
    token: int
    rows: tuple[int, ...]
    orphan: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """Generations in file order; a directory without any is left over from a writer that stopped."""

    name: DirectoryName
    generations: tuple[Generation, ...] = ()

    def resolve(self, token: int) -> Generation | None:
        """Walk the chain from the newest generation; return the first one with this token, or None."""
        by_end = {generation.end: generation for generation in self.generations}
        generation = self.generations[-1] if self.generations else None
        while generation is not None and generation.token != token:
            generation = by_end.get(generation.prev)
        return generation


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A partition's entry in a version."""

    directory: DirectoryName
    rows: tuple[int, ...]
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A commit number and the entries that it names, by partition."""

    number: int
    entries: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Everything that can be observed of a table (docs/format.md#three-files-one-commit).

    The stored `version` selects slot 0 if even, slot 1 if odd; a slot of None may contain anything. Directories are
    ordered by name, pins (reader, version) by reader. `open`: there is a writer, and only it may change the table.
    """

    version: int
    slots: tuple[Version | None, Version | None]
    directories: tuple[Directory, ...] = ()
    pins: tuple[tuple[int, Version], ...] = ()
    open: bool = True

    @property
    def committed(self) -> Version:
        """Return what the stored version number selects."""
        version = self.slots[self.version % 2]
        assert version is not None, "no operation leaves the live slot undefined"
        return version

    @property
    def entries(self) -> dict[int, Entry]:
        """Return the committed entries by partition."""
        return {entry.directory[0]: entry for entry in self.committed.entries}

    @property
    def unnamed(self) -> tuple[DirectoryName, ...]:
        """Return the directories that neither the committed version nor a pinned one names."""
        entries = chain(self.committed.entries, *(version.entries for _, version in self.pins))
        return tuple(sorted({each.name for each in self.directories} - {entry.directory for entry in entries}))

    def directory(self, name: DirectoryName) -> Directory:
        """Return a directory, without generations if it does not exist."""
        return next((each for each in self.directories if each.name == name), Directory(name=name))

    def with_slot(self, number: int, version: Version | None) -> State:
        """Return the state with the slot of a version number stored."""
        return replace(self, slots=(self.slots[0], version) if number % 2 else (version, self.slots[1]))

    def with_directories(self, changed: Iterable[Directory] = (), gone: Iterable[DirectoryName] = ()) -> State:
        """Return the state with directories added or replaced by name, and others removed."""
        by_name = {each.name: each for each in (*self.directories, *changed)}
        return replace(self, directories=tuple(by_name[name] for name in sorted(by_name.keys() - set(gone))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Rows of a partition after a commit: a larger token in place, or a new directory (first write, rewrite)."""

    partition: int
    rows: tuple[int, ...]
    token: int
    generation_end: int
    in_place: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """A partition leaves the table; its directory stays until a purge."""

    partition: int


class Stage(enum.IntEnum):
    """What a commit has completed, barriers included (docs/guarantees.md); the next step is in flight."""

    STARTED = 0  # in flight: data, `_pm` bodies, new directories
    WRITTEN = 1  # in flight: headers of `_pm`, the sync of directories
    PUBLISHED = 2  # in flight: the `_txn` record
    RECORDED = 3  # in flight: the version
    COMMITTED = 4  # in flight: the acknowledgement


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """An acknowledged commit, or one that stops after a stage: by a crash, or by an error that stores no version."""

    changes: tuple[Write | Drop, ...]
    stopped_after: Stage | None = None
    crash: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Recover:
    """A writer opens the table, with (partition, end of the new generation) for each newest orphan, or crashes then."""

    restated: tuple[tuple[int, int], ...] = ()
    crash: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A reader without a pin pins the committed version."""

    reader: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpin:
    """A reader releases its pin, or its process ends, which releases it too."""

    reader: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Purge:
    """The writer removes directories that neither the committed nor a pinned version names, but those it has `kept`.

    While anything is pinned it may keep some, as it need not know which directories a pinned version names.
    """

    kept: tuple[DirectoryName, ...] = ()


Operation = Commit | Recover | Pin | Unpin | Purge
