"""Every tree of names that a disk may have after a crash."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from tornproof.harness.simulator.filesystem.file_state import FileState
from tornproof.harness.simulator.filesystem.kernel import ROOT, EntryChange, Kernel, apply_entry_change
from tornproof.harness.simulator.persistence.legal_files import DEVIATIONS_MAX, Limits
from tornproof.harness.simulator.persistence.models import Model

Directories = dict[int, dict[str, int]]


class Tree:
    """Names that lead to files; equal trees are one object. `paths` has one path of each file."""

    __slots__ = ("__weakref__", "_directories", "_numbers", "paths")

    def __init__(self, directories: Directories, numbers: tuple[int, ...], paths: tuple[str, ...]) -> None:
        """Call `tree_of` instead."""
        self._directories = directories
        self._numbers = numbers
        self.paths = paths

    def kernel(self, contents: Sequence[bytes]) -> Kernel:
        """Return a machine after a restart: nothing is open, and everything is durable."""
        kernel = Kernel()
        kernel.files = {number: FileState(content) for number, content in zip(self._numbers, contents, strict=True)}
        kernel.directories = self._directories.copy()
        kernel.durable_directories = self._directories
        return kernel

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


def tree_of(directories: Directories) -> tuple[Tree, tuple[int, ...]]:
    """Return a tree, and the number of each of its files in these directories."""
    numbers: dict[int, int] = {ROOT: ROOT}
    renumbered: Directories = {ROOT: {}}
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
        tree = Tree(renumbered, tuple(numbers[file] for file in files), tuple(files.values()))
        _trees[key] = tree
    return tree, tuple(files)


def legal_names(kernel: Kernel, model: Model, limits: Limits) -> LegalNames:
    """Return which names there may be after a crash; all sets of changes, or the sample that the limits allow.

    A sample has none and all of the changes, both with up to two that differ, then random sets.
    """
    if not model.loses_names or not kernel.entry_changes:
        return LegalNames(((*tree_of(kernel.directories), None),), 1, 1)
    change_count = len(kernel.entry_changes)
    legal_count = 1 << change_count
    found: dict[Tree, tuple[Tree, tuple[int, ...], tuple[int, ...] | None]] = {}
    tried_count = 0
    for names in _all_sets(change_count) if legal_count <= limits.names_count else _some_sets(change_count, limits):
        tried_count += 1
        tree, files = tree_of(with_changes(kernel, names))
        found.setdefault(tree, (tree, files, names))
    return LegalNames(tuple(found.values()), legal_count, tried_count)


def with_changes(kernel: Kernel, names: Sequence[int]) -> Directories:
    """Return the durable names after the changes of these numbers, in order; one that cannot be applied is skipped."""
    # A directory exists as soon as its first name does, whether or not any of its entries do.
    directories: Directories = {number: {} for number in kernel.directories} | kernel.durable_directories
    for name in names:
        change = kernel.entry_changes[name]
        if _can_apply(directories, change):
            apply_entry_change(directories, change)
    return directories


def _can_apply(directories: Directories, change: EntryChange) -> bool:
    *removed, (directory, name, number) = change
    for source, source_name, _ in removed:
        # A rename moves only what it moved when it was called.
        if directories.get(source, {}).get(source_name) != number:
            return False
    replaced = directories.get(directory, {}).get(name)
    if number is None:
        return replaced is not None and not directories.get(replaced)
    return replaced is None or (bool(removed) and not directories.get(replaced))


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
