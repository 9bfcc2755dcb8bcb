"""Every disk that a crash of a kernel may leave, each with the choice that identifies it."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.persistence.legal_files import (
    LegalFile,
    Limits,
    allows_content,
    file_content,
    legal_file,
)
from tornproof.harness.simulator.persistence.legal_names import (
    LegalNames,
    Tree,
    is_legal,
    legal_names,
    tree_after,
)
from tornproof.harness.simulator.persistence.models import Choice, Model

DEFAULT_LIMITS = Limits()
LARGE_BYTES = 1 << 16


class Disk(NamedTuple):
    """A disk without open files: names, and the content of each file in the order of the tree's paths."""

    tree: Tree
    contents: tuple[bytes, ...]

    def kernel(self) -> Kernel:
        """Return the machine after a restart."""
        return self.tree.kernel(self.contents)

    def identity(self) -> tuple[Tree, tuple[bytes, ...]]:
        """Return a key for the disk that takes little memory: large contents are replaced by digests."""
        return self.tree, tuple(
            [hashlib.blake2b(content).digest() if len(content) > LARGE_BYTES else content for content in self.contents]
        )

    def by_number(self) -> dict[int, bytes]:
        """Return all contents by the numbers of the files in `kernel`."""
        return dict(zip(self.tree.path_indexes(), self.contents, strict=True))

    def files(self) -> dict[str, bytes]:
        """Return all contents by path; that of a file with several names is there under each."""
        return {path: self.contents[index] for path, index in self.tree.indexes.items()}


class Picked(NamedTuple):
    """A disk, and the indexes by which it was picked: of its tree, and of the content of each file that varies."""

    disk: Disk
    tree: int
    indexes: tuple[int, ...]


class _Shape(NamedTuple):
    """A tree, the latest content of its files, and by the index of each file that varies what it may hold."""

    tree: Tree
    names: tuple[int, ...] | None
    contents: list[bytes]
    varying: dict[int, LegalFile]
    legal_count: int
    sampled_count: int


@dataclass(frozen=True, slots=True)
class LegalDisks:
    """All disks of one crash point, or a sample of them: `tried_count` of `legal_count`."""

    model: Model
    legal_count: int
    tried_count: int
    seed: int
    _shapes: tuple[_Shape, ...]

    @property
    def is_complete(self) -> bool:
        """Whether these are all."""
        return self.tried_count == self.legal_count

    def __iter__(self) -> Iterator[Picked]:
        """Yield the disks, the latest first."""
        for number, shape in enumerate(self._shapes):
            contents = shape.contents.copy()
            for indexes in _indexes(shape, self.seed):
                for (file, of), index in zip(shape.varying.items(), indexes, strict=True):
                    contents[file] = of.contents[index]
                yield Picked(Disk(shape.tree, tuple(contents)), number, indexes)

    def choice(self, picked: Picked) -> Choice:
        """Return the choice that gives a disk of these."""
        shape = self._shapes[picked.tree]
        chosen = zip(shape.varying.items(), picked.indexes, strict=True)
        files = tuple((shape.tree.paths[file], of.choices[index]) for (file, of), index in chosen)
        return Choice(self.model.name, shape.names, files)


def legal_disks(
    kernel: Kernel, model: Model, limits: Limits = DEFAULT_LIMITS, names: LegalNames | None = None
) -> LegalDisks:
    """Return what a crash may leave; `names` may be passed by a caller that has the kernel's names under this model.

    Above the limit of a crash point, the disks are: every file at its latest content, every file at its earliest, both
    with one file at each of its other contents, then random combinations.
    """
    names = legal_names(kernel, model, limits) if names is None else names
    disks = _disks(kernel, model, limits, names)
    if disks.is_complete or disks.legal_count > limits.few_count:
        return disks
    few = limits.few_count
    # Any of the trees may have most of the disks.
    return _disks(kernel, model, replace(limits, file_count=few, disk_count=few * len(names.trees)), names)


def _disks(kernel: Kernel, model: Model, limits: Limits, names: LegalNames) -> LegalDisks:
    share = limits.disk_count // len(names.trees) or 1
    shapes = []
    legal = tried = 0
    for tree, numbers, chosen in names.trees:
        states = [kernel.files[number] for number in numbers]
        varying: dict[int, LegalFile] = {}
        if not model.keeps_cache:
            for file, state in enumerate(states):
                if len(state.versions) > 1 and (found := legal_file(state, model, limits)).legal_count > 1:
                    varying[file] = found
        contents = [state.content if model.keeps_cache else state.versions[-1] for state in states]
        legal_count = math.prod(of.legal_count for of in varying.values())
        tried_count = math.prod(len(of.contents) for of in varying.values())
        shapes.append(_Shape(tree, chosen, contents, varying, legal_count, share if tried_count > share else 0))
        legal += legal_count
        tried += min(share, tried_count)
    # Each set of changes that was not tried gives at least one more disk.
    legal += names.legal_count - names.tried_count
    return LegalDisks(model, legal, tried, limits.seed, tuple(shapes))


def allows_disk(kernel: Kernel, model: Model, disk: Disk, limits: Limits = DEFAULT_LIMITS) -> bool:
    """Return whether a crash may leave this disk; above the limit of sets of names, whether one of a sample has it."""
    return any(
        tree is disk.tree
        and all(
            allows_content(kernel.files[number], model, content)
            for number, content in zip(numbers, disk.contents, strict=True)
        )
        for tree, numbers, _ in legal_names(kernel, model, limits).trees
    )


def chosen_disk(kernel: Kernel, model: Model, choice: Choice) -> Disk:
    """Return the disk that a choice gives; raises IndexError if the model does not leave it of this kernel."""
    names = choice.names
    if names is not None and not is_legal(kernel, model, names):
        raise IndexError(f"{model} does not leave the changes of names {list(names)} alone")
    tree, numbers = tree_after(kernel, model, names)
    chosen = dict(choice.files)
    contents = []
    for path, number in zip(tree.paths, numbers, strict=True):
        state = kernel.files[number]
        latest = state.content if model.keeps_cache else state.versions[-1]
        contents.append(file_content(state, model, chosen[path]) if path in chosen else latest)
        if path in chosen and not allows_content(state, model, contents[-1]):
            raise IndexError(f"{model} does not leave this content of {path}")
    return Disk(tree, tuple(contents))


def _indexes(shape: _Shape, seed: int) -> Iterator[tuple[int, ...]]:
    if not shape.sampled_count:
        return itertools.product(*(range(len(of.contents)) for of in shape.varying.values()))
    counts = [len(shape.varying[file].contents) if file in shape.varying else 1 for file in range(len(shape.contents))]
    of_all = itertools.islice(_some_indexes(counts, shape.sampled_count, seed), shape.sampled_count)
    return (tuple([indexes[file] for file in shape.varying]) for indexes in of_all)


def _some_indexes(counts: Sequence[int], count: int, seed: int) -> Iterator[tuple[int, ...]]:
    latest, earliest = (0,) * len(counts), tuple(count - 1 for count in counts)
    yield latest
    yield earliest
    longest = max(counts)
    for index in range(min(longest, count // (4 * len(counts)))):
        for file, of in enumerate(counts):
            if index < of:
                for base in (latest, earliest):
                    yield (*base[:file], index, *base[file + 1 :])
    random = np.random.default_rng([seed, len(counts), count])
    while True:
        for row in random.integers(counts, size=(count, len(counts))):
            yield tuple(row.tolist())
