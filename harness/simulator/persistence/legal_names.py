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
    """Names that lead to files; equal trees are one object, and `paths` are those of its files in order.

    Names of one file share a place in `paths`.
    """

    __slots__ = ("__weakref__", "_directories", "_numbers", "paths")

    def __init__(self, directories: Directories, numbers: tuple[int, ...], paths: tuple[str, ...]) -> None:
        """Call `tree_of` instead."""
        self._directories = directories
        self._numbers = numbers
        self.paths = paths

    def kernel(self, contents: Sequence[bytes]) -> Kernel:
        """Return a machine that was just switched on: nothing is open, and all that is there is durable."""
        kernel = Kernel()
        kernel.files = {number: FileState(content) for number, content in zip(self._numbers, contents, strict=True)}
        kernel.directories = self._directories.copy()
        kernel.durable_directories = self._directories
        return kernel

    def positions(self) -> dict[int, int]:
        """Return each file's place in `paths` by its number in a kernel of this tree."""
        return {number: position for position, number in enumerate(self._numbers)}


class LegalNames(NamedTuple):
    """Trees, each with the numbers of its files in the kernel that they came from, and the changes that are on it.

    The first has all changes; `legal_count` sets of changes exist.
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

    A sample has none and all of the changes, both with up to two that deviate, then sets by chance.
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
    """Return the durable names with the changes of these numbers, in order, but those that cannot be made on them."""
    # A directory is there with its first name, whether or not anything in it is.
    directories: Directories = {number: {} for number in kernel.directories} | kernel.durable_directories
    for name in names:
        change = kernel.entry_changes[name]
        if _can_apply(directories, change):
            apply_entry_change(directories, change)
    return directories


def _can_apply(directories: Directories, change: EntryChange) -> bool:
    *left, (directory, name, number) = change
    for source, source_name, _ in left:
        # A rename moves what stood there then.
        if directories.get(source, {}).get(source_name) != number:
            return False
    there = directories.get(directory, {}).get(name)
    if number is None:
        return there is not None and not directories.get(there)
    return there is None or (bool(left) and not directories.get(there))


def _all_sets(count: int) -> Iterator[tuple[int, ...]]:
    for kept in range(count, -1, -1):
        yield from itertools.combinations(range(count), kept)


def _some_sets(count: int, limits: Limits) -> Iterator[tuple[int, ...]]:
    return itertools.islice(itertools.chain(_near_sets(count), _sets_by_chance(count, limits)), limits.names_count)


def _near_sets(count: int) -> Iterator[tuple[int, ...]]:
    everything = range(count)
    for deviation_count in range(DEVIATIONS_MAX + 1):
        for deviating in itertools.combinations(everything, deviation_count):
            yield tuple(number for number in everything if number not in deviating)
            yield deviating


def _sets_by_chance(count: int, limits: Limits) -> Iterator[tuple[int, ...]]:
    chance = np.random.default_rng([limits.seed, count])
    for row in chance.integers(2, size=(limits.names_count, count)):
        yield tuple(np.flatnonzero(row).tolist())
