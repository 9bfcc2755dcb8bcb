"""Prefixes of files as files: with them Spark's own reader can read a file that grows.

Spark expects the Parquet footer at the end of a file, and no other offset can be set. But a Hadoop archive is a
directory whose index maps byte ranges of files to files of its own. Nothing is copied: parts are links.
Source: Apache Hadoop 3, "Hadoop Archives Guide", and the index that its `HarFileSystem` reads (version 3).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

SUFFIX = ".har"
INDEX_FILE, MASTER_INDEX_FILE = "_index", "_masterindex"
VERSION = 3
HASH_MAX = (1 << 31) - 1
# Time of modification in milliseconds, permissions, owner and group, which are not used here.
_OF_DIRECTORY, _OF_FILE = f"0+{0o755}+tornproof+tornproof", f"0+{0o644}+tornproof+tornproof"


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """The first bytes of the file at `path`, as the file `name` in the folder `folder` of an archive."""

    folder: str
    name: str
    path: Path
    size_bytes: int


def write_archive(directory: Path, beginnings: Sequence[Beginning]) -> None:
    """Write an archive into an empty directory whose name ends with SUFFIX."""
    names: dict[str, list[str]] = defaultdict(list)
    lines = []
    for number, part in enumerate(beginnings):
        link = directory / f"part-{number}"
        link.symlink_to(part.path)
        names[part.folder].append(part.name)
        lines.append(f"{_escaped(f'/{part.folder}/{part.name}')} file {link.name} 0 {part.size_bytes} {_OF_FILE} \n")
    folders = [("/", list(names)), *((f"/{folder}", inside) for folder, inside in names.items())]
    for path, inside in folders:
        lines.append(f"{_escaped(path)} dir {_OF_DIRECTORY} 0 0 {' '.join(map(_escaped, inside))} \n")
    index = "".join(lines).encode()
    (directory / INDEX_FILE).write_bytes(index)
    # One range of the index for all hashes of paths.
    (directory / MASTER_INDEX_FILE).write_text(f"{VERSION} \n0 {HASH_MAX} 0 {len(index)} \n")


def _escaped(name: str) -> str:
    return quote(name, safe="")
