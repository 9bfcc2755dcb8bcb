"""Every tree of names that a disk may have after a crash."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from tornproof.harness.simulator.filesystem.file_state import FileState
from tornproof.harness.simulator.filesystem.kernel import (
    ROOT,
    Directories,
    EntryChange,
    Kernel,
    apply_entry_change,
    entries_of,
    without_loops,
)
from tornproof.harness.simulator.persistence.legal_files import DEVIATIONS_MAX, Limits
from tornproof.harness.simulator.persistence.models import Model, Names

NamesByDirectory = dict[int, dict[str, int]]


class Tree:
    """Names that lead to files; equal trees are one object.

    `paths` has one path of each file, and `indexes` every path with the index of its file in `paths`: links and lost
    removals leave several.
    """

    __slots__ = ("__weakref__", "_directories", "_numbers", "indexes", "paths")

    def __init__(self, directories: Directories, numbers: tuple[int, ...], paths: tuple[str, ...]) -> None:
        """Call `tree_of` instead."""
        self._directories = directories
        self._numbers = numbers
        self.paths = paths
        index_of = self.path_indexes()
        self.indexes = {path: index_of[number] for path, number in entries_of(directories) if number in index_of}

    def kernel(self, contents: Sequence[bytes]) -> Kernel:
        """Return a machine after a restart: nothing is open, and everything is durable."""
        kernel = Kernel()
        kernel.files = {number: FileState(content) for number, content in zip(self._numbers, contents, strict=True)}
        kernel.directories = self._directories
        kernel.durable_directories = self._directories
        return kernel

    def names(self) -> tuple[tuple[int, tuple[tuple[str, int], ...]], ...]:
        """Return the names in each directory, equal for equal trees in every process."""
        return tuple((number, tuple(names.items())) for number, names in self._directories.items())

    def path_indexes(self) -> dict[int, int]:
        """Return the index in `paths` of each file, by its number in a kernel of this tree."""
        return {number: index for index, number in enumerate(self._numbers)}


class LegalNames(NamedTuple):
    """Trees, each with the numbers of its files in the original kernel, and the changes of names that reached it.

    The first has all changes. `tried_count` of `legal_count` sets of changes were tried.
    """

    trees: tuple[tuple[Tree, tuple[int, ...], tuple[int, ...] | None], ...]
    legal_count: int
    tried_count: int

    @property
    def is_complete(self) -> bool:
        """Whether all sets of changes were tried; several can give one tree."""
        return self.tried_count == self.legal_count


_trees: WeakValueDictionary[object, Tree] = WeakValueDictionary()


def tree_of(directories: NamesByDirectory) -> tuple[Tree, tuple[int, ...]]:
    """Return a tree, and the number of each of its files in these directories."""
    if not isinstance(directories, Directories):
        return _tree_of(without_loops(directories))
    if directories.tree is None:
        directories.tree = _tree_of(directories)
    found: tuple[Tree, tuple[int, ...]] = directories.tree
    return found


def _tree_of(directories: NamesByDirectory) -> tuple[Tree, tuple[int, ...]]:
    numbers: dict[int, int] = {ROOT: ROOT}
    renumbered: NamesByDirectory = {ROOT: {}}
    files: dict[int, str] = {}
    pending = [("", ROOT)]
    while pending:
        prefix, directory = pending.pop()
        for name in sorted(directories[directory]):
            number = directories[directory][name]
            is_new = number not in numbers
            new = numbers.setdefault(number, len(numbers))
            renumbered[numbers[directory]][name] = new
            if number in directories:
                renumbered[new] = {}
                pending.append((f"{prefix}{name}/", number))
            elif is_new:
                files[number] = f"{prefix}{name}"
    key = tuple((number, tuple(names.items())) for number, names in renumbered.items())
    tree = _trees.get(key)
    if tree is None:
        tree = Tree(Directories(renumbered), tuple(numbers[file] for file in files), tuple(files.values()))
        _trees[key] = tree
    return tree, tuple(files)


def legal_names(kernel: Kernel, model: Model, limits: Limits) -> LegalNames:
    """Return which names there may be after a crash; all sets of changes, or the sample that the limits allow.

    A sample has none and all of the changes, both with up to two that differ, then random sets.
    """
    count = change_count(kernel, model)
    if not count:
        return LegalNames(((*tree_of(kernel.directories), None),), 1, 1)
    if model.names is Names.JOURNALLED:
        sets: Iterator[tuple[int, ...]] = _prefixes(count, kernel.journalled_count)
        legal_count = count - kernel.journalled_count + 1
    else:
        legal_count = 1 << count
        sets = _all_sets(count) if legal_count <= limits.names_count else _some_sets(count, limits)
    # Equal trees can lead to different files: a name may be that of a file that was removed, or of the one after it.
    found: dict[tuple[Tree, tuple[int, ...]], tuple[Tree, tuple[int, ...], tuple[int, ...] | None]] = {}
    tried_count = 0
    for names in sets:
        tried_count += 1
        tree, files = tree_of(with_changes(kernel, names, model.names))
        found.setdefault((tree, files), (tree, files, names))
    return LegalNames(tuple(found.values()), legal_count, tried_count)


def tree_after(kernel: Kernel, model: Model, names: Sequence[int] | None) -> tuple[Tree, tuple[int, ...]]:
    """Return the tree after a crash that leaves the changes of these numbers, all if None, as `tree_of` returns it."""
    return tree_of(kernel.directories if names is None else with_changes(kernel, names, model.names))


def change_count(kernel: Kernel, model: Model) -> int:
    """Return how many changes of names, or single entries, a choice under a model counts."""
    if model.names is Names.ALL:
        return 0
    return sum(map(len, kernel.entry_changes)) if model.names is Names.EACH_ENTRY else len(kernel.entry_changes)


def is_legal(kernel: Kernel, model: Model, names: Sequence[int]) -> bool:
    """Return whether a crash under a model may leave the changes of these numbers."""
    if any(not 0 <= name < change_count(kernel, model) for name in names):
        return False
    return model.names is not Names.JOURNALLED or nearest_names(kernel, model, names) == tuple(names)


def nearest_names(kernel: Kernel, model: Model, names: Sequence[int]) -> tuple[int, ...]:
    """Return the legal choice that is nearest to one for another state of the files."""
    count = change_count(kernel, model)
    if model.names is Names.JOURNALLED:
        return tuple(range(min(count, max(kernel.journalled_count, len(names)))))
    return tuple(name for name in names if name < count)


def longer_names(kernel: Kernel, model: Model, names: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the legal choices that keep one change more, of several that are missing."""
    missing = [name for name in range(change_count(kernel, model)) if name not in names]
    for name in missing if len(missing) > 1 else ():
        longer = tuple(sorted({*names, name}))
        if is_legal(kernel, model, longer):
            yield longer


def with_changes(kernel: Kernel, names: Sequence[int], persistence: Names) -> NamesByDirectory:
    """Return the durable names after the changes of these numbers, in order; one that cannot be applied is skipped."""
    # A directory exists as soon as its first name does, whether or not any of its entries do.
    directories: NamesByDirectory = {number: {} for number in kernel.directories} | kernel.durable_directories
    if persistence is Names.EACH_ENTRY:
        parts: list[tuple[EntryChange, EntryChange]] = [
            (change, (entry,)) for change in kernel.entry_changes for entry in change
        ]
    else:
        parts = [(change, change) for change in kernel.entry_changes]
    for change, part in (parts[name] for name in names):
        if _can_apply(directories, change, part):
            apply_entry_change(directories, part)
    return directories


def _can_apply(directories: NamesByDirectory, change: EntryChange, part: EntryChange) -> bool:
    """Return whether a part of a change, or all of it, can reach a disk with these names."""
    *removed, added = change
    number = added[2]
    for entry in part:
        there = directories.get(entry[0], {}).get(entry[1])
        if entry is not added:
            # A rename moves only what it moved when it was called.
            is_possible = there == number
        elif number is None:
            is_possible = there is not None and not directories.get(there)
        else:
            is_possible = there is None or (bool(removed) and not directories.get(there))
        if not is_possible:
            return False
    return True


def _prefixes(count: int, kept_min: int) -> Iterator[tuple[int, ...]]:
    return (tuple(range(kept)) for kept in range(count, kept_min - 1, -1))


def _all_sets(count: int) -> Iterator[tuple[int, ...]]:
    for kept in range(count, -1, -1):
        yield from itertools.combinations(range(count), kept)


def _some_sets(count: int, limits: Limits) -> Iterator[tuple[int, ...]]:
    return itertools.islice(itertools.chain(_near_sets(count), _random_sets(count, limits)), limits.names_count)


def _near_sets(count: int) -> Iterator[tuple[int, ...]]:
    everything = range(count)
    for deviation_count in range(DEVIATIONS_MAX + 1):
        for deviating in itertools.combinations(everything, deviation_count):
            yield tuple(number for number in everything if number not in deviating)
            yield deviating


def _random_sets(count: int, limits: Limits) -> Iterator[tuple[int, ...]]:
    random = np.random.default_rng([limits.seed, count])
    for row in random.integers(2, size=(limits.names_count, count)):
        yield tuple(np.flatnonzero(row).tolist())
