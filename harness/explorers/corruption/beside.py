"""Damage of the other files of a table: columns, versions, dictionaries and indexes, which no checksum covers."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence

from tornproof.harness.explorers.corruption.blocks import WORD_BYTES
from tornproof.harness.explorers.corruption.plan import (
    BITS_IN_BYTE,
    Again,
    Cut,
    Edit,
    Flip,
    Kind,
    Overwrite,
    difference,
)
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.layout.parquet import DATA_FILE
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.txn.transaction import TXN_FILE

OTHERS = frozenset({TXN_FILE, PM_FILE, DATA_FILE})
"""Files that are damaged in other ways."""
FILES_MAX = 24
DAMAGES_MAX = 240
"""At most so many damages of all of these files together."""


def beside_files(image: DiskImage, path: str) -> dict[str, bytes]:
    """Return the files of a table that are not damaged otherwise and not empty; of many, some of each kind."""
    kinds: defaultdict[tuple[bool, str], list[str]] = defaultdict(list)
    for name, content in sorted(image.files.items()):
        file = name.removeprefix(f"{path}/")
        directory, _, last = file.rpartition("/")
        if content and name != file and last not in OTHERS:
            kinds[bool(directory), _kind_of(last)].append(file)
    chosen = itertools.chain.from_iterable(itertools.zip_longest(*kinds.values()))
    files = itertools.islice((file for file in chosen if file is not None), FILES_MAX)
    return {file: image.files[f"{path}/{file}"] for file in files}


def _kind_of(name: str) -> str:
    """Return what a file is: `k`, also where a number follows it."""
    return ".".join(part for part in name.split(".")[1:] if not part.isdigit()) or name


def beside_damages(file: str, content: bytes, file_count: int) -> Iterator[Again]:
    """Yield damages of a file: numbers at its start that are one less, bits flipped, words zeroed, lengths cut to."""
    count = max(BITS_IN_BYTE, DAMAGES_MAX // file_count)
    # What follows, and how much, is said at a file's start; most of the rest is zero.
    stored = [offset for offset, value in enumerate(content) if value]
    for offset in stored[: count // 2]:
        edit = Edit(file, offset, bytes([content[offset] - 1]))
        yield _of(Overwrite(Kind.FIELD, (edit,), f"byte {offset} of {file} is one less"))
    for number, offset in enumerate(_some(stored, count // 4)):
        yield _of(Flip(file, offset * BITS_IN_BYTE + number % BITS_IN_BYTE))
    for start in _some(sorted({offset // WORD_BYTES * WORD_BYTES for offset in stored}), count // 8):
        zeroed = difference(file, content, start, bytes(WORD_BYTES))
        if zeroed is not None:
            yield _of(Overwrite(Kind.ZEROED_WORD, (zeroed,), f"{WORD_BYTES} bytes at {start} of {file} zeroed"))
    yield from (_of(Cut(file, size_bytes)) for size_bytes in _some(range(len(content)), count // 8))


def _of(damage: Flip | Cut | Overwrite) -> Again:
    return Again(Kind.BESIDE, damage)


def _some(offsets: Sequence[int], count: int) -> Sequence[int]:
    return offsets[:: max(1, -(-len(offsets) // count))]
