"""Every content that one file may have after a crash."""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from tornproof.harness.simulator.filesystem.file_state import FileState
from tornproof.harness.simulator.persistence.models import LATEST, STALE, STALE_BYTE, FileChoice, Model

Found = TypeVar("Found")
REMEMBERED_COUNT = 512
REMEMBERED_BYTES_MAX = 128 << 20
CONTENT_BYTES_MAX = 64 << 20
"""All contents of one file are held in memory at once, so fewer are tried of a large file."""
DEVIATIONS_MAX = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many contents of a file, sets of name changes, and disks of a crash point are tried before it is a sample.

    The contents tried of one file also have at most `CONTENT_BYTES_MAX` together. Where a crash point has no more disks
    than `few_count`, all are tried, whatever the other limits.
    """

    file_count: int = 256
    names_count: int = 256
    disk_count: int = 1024
    few_count: int = 0
    seed: int = 0

    def divided(self, weight: int) -> Limits:
        """Return limits for disks that take `weight` times as long to judge."""
        return replace(
            self,
            file_count=-(-self.file_count // weight),
            names_count=-(-self.names_count // weight),
            disk_count=-(-self.disk_count // weight),
        )


WIDE_LIMITS = Limits(file_count=1024, disk_count=4096)
"""Limits within which all disks of most crash points are, under all models but C-8."""


class LegalFile(NamedTuple):
    """Contents in the order in which they are tried, the latest first, out of `legal_count`."""

    choices: Sequence[FileChoice]
    contents: Sequence[bytes]
    legal_count: int

    @property
    def is_complete(self) -> bool:
        """Whether these are all."""
        return len(self.contents) == self.legal_count


class _Blocks(NamedTuple):
    """For each block the different contents that it had, with the first version that had them."""

    contents: tuple[dict[bytes, int], ...]
    varying: frozenset[int]


class _Memory(Generic[Found]):
    """A cache that drops its oldest entries beyond a count and a size."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[object, ...], tuple[Found, int]] = OrderedDict()
        self._size_bytes = 0

    def get(self, key: tuple[object, ...]) -> Found | None:
        found = self._known.get(key)
        return None if found is None else found[0]

    def put(self, key: tuple[object, ...], value: Found, size_bytes: int) -> None:
        self._known[key] = value, size_bytes
        self._size_bytes += size_bytes
        while len(self._known) > REMEMBERED_COUNT or self._size_bytes > REMEMBERED_BYTES_MAX:
            self._size_bytes -= self._known.popitem(last=False)[1][1]


_known_files: _Memory[LegalFile] = _Memory()
_known_blocks: _Memory[_Blocks] = _Memory()


def legal_file(state: FileState, model: Model, limits: Limits) -> LegalFile:
    """Return what a file may hold; all of it, or the sample that the limits allow.

    A sample has, for each size, all blocks old and all new, both with up to two that differ, then random blocks.
    """
    if model.keeps_cache:
        return LegalFile((FileChoice(LATEST, LATEST),), (state.content,), 1)
    if len(state.versions) == 1:
        return LegalFile((FileChoice(0, 0),), state.versions, 1)
    key = state.versions, model.block_bytes, model.stale_block_bytes, limits
    found = _known_files.get(key)
    if found is None:
        found = _prefixes(state.versions) if model.block_bytes is None else _in_blocks(state.versions, model, limits)
        _known_files.put(key, found, sum(map(len, found.contents)))
    return found


def file_content(state: FileState, model: Model, choice: FileChoice) -> bytes:
    """Return the content that a choice gives; raises IndexError for a version or block that the file does not have."""
    if choice.base == LATEST:
        return state.content
    size_bytes = len(state.versions[choice.size])
    content = bytearray(_sized(state.versions[choice.base], size_bytes))
    block_bytes = model.block_bytes or size_bytes
    end_bytes = max(map(len, state.versions))
    for block, version in choice.blocks:
        start = block * block_bytes
        if not 0 <= start < end_bytes:
            raise IndexError(f"no version has a block {block}")
        stop = min(start + block_bytes, size_bytes)
        content[start:stop] = version_bytes(state, version, start, stop)
    return bytes(content)


def allows_content(state: FileState, model: Model, content: bytes) -> bool:
    """Return whether a crash may leave this content of a file, also where a sample of contents does not have it."""
    versions = (state.content,) if model.keeps_cache else state.versions
    if model.block_bytes is None or len(versions) == 1:
        return content in versions
    if len(content) not in map(len, versions):
        return False
    blocks = _with_stale(_blocks(versions, model.block_bytes), versions, model)
    starts = range(0, len(content), model.block_bytes)
    pieces = (content[start : start + model.block_bytes] for start in starts)
    return all(
        any(option.startswith(piece) for option in options)
        for piece, options in zip(pieces, blocks.contents, strict=False)
    )


def version_bytes(state: FileState, version: int, start: int, stop: int) -> bytes:
    """Return bytes of a version, zeros beyond its end; raises IndexError if there is no such version."""
    if version == STALE:
        return STALE_BYTE * (stop - start)
    return state.versions[version][start:stop].ljust(stop - start, b"\0")


def _sized(content: bytes, size_bytes: int) -> bytes:
    return content if len(content) == size_bytes else content[:size_bytes].ljust(size_bytes, b"\0")


def _prefixes(versions: tuple[bytes, ...]) -> LegalFile:
    distinct: dict[bytes, FileChoice] = {}
    for number in range(len(versions) - 1, -1, -1):
        distinct.setdefault(versions[number], FileChoice(number, number))
    return LegalFile(tuple(distinct.values()), tuple(distinct), len(distinct))


def _in_blocks(versions: tuple[bytes, ...], model: Model, limits: Limits) -> LegalFile:
    assert model.block_bytes is not None
    blocks = _with_stale(_blocks(versions, model.block_bytes), versions, model)
    sizes: dict[int, int] = {}
    for number in range(len(versions) - 1, -1, -1):
        sizes.setdefault(len(versions[number]), number)
    shapes = [_Shape(versions, number, blocks, model.block_bytes) for number in sizes.values()]
    legal_count = sum(shape.legal_count for shape in shapes)
    file_count = min(limits.file_count, CONTENT_BYTES_MAX // max(1, *map(len, versions)))
    share = file_count // len(shapes) or 1
    found: dict[bytes, FileChoice] = {}
    for shape in shapes:
        picks = shape.all_picks() if legal_count <= file_count else shape.some_picks(share, limits.seed)
        for picked in picks:
            found.setdefault(shape.content(picked), shape.choice(picked))
    return LegalFile(tuple(found.values()), tuple(found), legal_count)


def _blocks(versions: tuple[bytes, ...], block_bytes: int) -> _Blocks:
    """Return what each block held; extends the cached result for all versions but the last, if there is one."""
    key = versions, block_bytes
    found = _known_blocks.get(key)
    if found is not None:
        return found
    start = 1
    earlier = _known_blocks.get((versions[:-1], block_bytes))
    if earlier is not None:
        contents, varying, start = list(earlier.contents), set(earlier.varying), len(versions) - 1
    else:
        contents, varying = [{block: 0} for block in _split(versions[0], block_bytes)], set()
    zeros = bytes(block_bytes)
    for number in range(start, len(versions)):
        before, now = _split(versions[number - 1], block_bytes), _split(versions[number], block_bytes)
        # In a version that ends before a block, the block is zeros.
        contents += [{zeros: 0} for _ in range(len(now) - len(contents))]
        for block, (old, new) in enumerate(itertools.zip_longest(before, now, fillvalue=zeros)):
            if old != new and new not in contents[block]:
                contents[block] = {**contents[block], new: number}
                varying.add(block)
    found = _Blocks(tuple(contents), frozenset(varying))
    _known_blocks.put(key, found, len(versions[-1]))
    return found


def _with_stale(blocks: _Blocks, versions: tuple[bytes, ...], model: Model) -> _Blocks:
    """Return the blocks with one more content where a deleted file may have left its own.

    That is where data was written to a block of the file system in which the durable file has none, or which a
    truncation had freed: it was allocated for the data. Stale bytes are older than that, and newer than durable data.
    """
    if model.stale_block_bytes is None or model.block_bytes is None:
        return blocks
    contents, varying = list(blocks.contents), set(blocks.varying)
    stale, count = STALE_BYTE * model.block_bytes, max(1, model.stale_block_bytes // model.block_bytes)
    for first in range(0, len(contents), count):
        together = range(first, min(first + count, len(contents)))
        if varying.isdisjoint(together):
            continue
        is_new = not any(next(iter(contents[block])).strip(b"\0") for block in together)
        if is_new or _is_freed(versions, together.start * model.block_bytes, together.stop * model.block_bytes):
            for block in together:
                durable, *later = contents[block].items()
                oldest = [(stale, STALE), durable] if is_new else [durable, (stale, STALE)]
                contents[block] = dict([*oldest, *later])
            varying.update(together)
    return _Blocks(tuple(contents), frozenset(varying))


def _is_freed(versions: tuple[bytes, ...], start: int, stop: int) -> bool:
    """Return whether data was written to these bytes after a version that ends before them."""
    cut = next((number for number, version in enumerate(versions) if len(version) <= start), len(versions))
    return any(version[start:stop].strip(b"\0") for version in versions[cut:])


def _split(content: bytes, block_bytes: int) -> list[bytes]:
    blocks = [content[start : start + block_bytes] for start in range(0, len(content), block_bytes)]
    if blocks:
        blocks[-1] = blocks[-1].ljust(block_bytes, b"\0")
    return blocks


class _Shape:
    """A file at one of its sizes: its varying blocks and the options of each. A pick has an index into each options."""

    def __init__(self, versions: tuple[bytes, ...], size: int, blocks: _Blocks, block_bytes: int) -> None:
        self._size = size
        self._last = len(versions) - 1
        size_bytes = len(versions[size])
        old = _sized(versions[0], size_bytes)
        self._varying: list[int] = []
        self._options: list[list[bytes]] = []
        self._versions: list[list[int]] = []
        self._pieces: list[bytes] = []
        end = 0
        for block in sorted(blocks.varying):
            start = block * block_bytes
            options: dict[bytes, int] = {}
            for content, version in blocks.contents[block].items():
                options.setdefault(content[: max(size_bytes - start, 0)], version)
            if len(options) == 1:
                continue
            self._varying.append(block)
            self._options.append(list(options))
            self._versions.append(list(options.values()))
            self._pieces += [old[end:start], b""]
            end = start + block_bytes
        self._pieces.append(old[end:])
        self.legal_count = math.prod(map(len, self._options))

    def content(self, picked: Sequence[int]) -> bytes:
        self._pieces[1::2] = [options[index] for options, index in zip(self._options, picked, strict=True)]
        return b"".join(self._pieces)

    def choice(self, picked: Sequence[int]) -> FileChoice:
        versions = [of[index] for of, index in zip(self._versions, picked, strict=True)]
        blocks = tuple((block, version) for block, version in zip(self._varying, versions, strict=True) if version)
        return FileChoice(self._size, 0, blocks)

    def all_picks(self) -> Iterator[tuple[int, ...]]:
        """Yield all picks, the newest contents first."""
        return itertools.product(*(range(len(options) - 1, -1, -1) for options in self._options))

    def some_picks(self, count: int, seed: int) -> Iterator[tuple[int, ...]]:
        """Yield `count` picks: all blocks new, all old, both with one and two that differ, then random ones."""
        if self.legal_count <= count:
            return self.all_picks()
        return itertools.islice(itertools.chain(self._deviating(), self._random(count, seed)), count)

    def _deviating(self) -> Iterator[tuple[int, ...]]:
        new, old = tuple(len(options) - 1 for options in self._options), (0,) * len(self._options)
        for deviation_count in range(DEVIATIONS_MAX + 1):
            for base in (new, old):
                for indexes in itertools.combinations(range(len(base)), deviation_count):
                    others = [[pick for pick in range(new[index] + 1) if pick != base[index]] for index in indexes]
                    for picks in itertools.product(*others):
                        deviating = list(base)
                        for index, pick in zip(indexes, picks, strict=True):
                            deviating[index] = pick
                        yield tuple(deviating)

    def _random(self, count: int, seed: int) -> Iterator[tuple[int, ...]]:
        random = np.random.default_rng([seed, self._size, len(self._options)])
        counts = np.array([len(options) for options in self._options])
        for row in random.integers(counts, size=(count, len(counts))):
            yield tuple(row.tolist())
