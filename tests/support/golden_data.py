"""Names of the bundled files that real QuestDB releases wrote, known at collection time.

Every name is a POSIX path inside the archive, such as `tables/9.4.2/chain`; README.md explains the folders.
"""

import functools
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

from golden_archive import member_names

CHAIN = "tables/9.4.2/chain/table"
TYPES = "tables/9.4.2/types/table"
MANY = "tables/9.4.2/many/table"
BLOOM = "tables/9.4.2/bloom/table"
LEGACY = "legacy/9.3.4/chain/table"
CUT_DATA = "power-loss/9.4.2/data-tail-lost-length/table"
ORPHANED = "power-loss/9.4.2/orphan-header-tail-new-data-new-txn-old-kill-9/table"

CopyOf = Callable[[str], Path]
"""The fixture `copy_of`: a function that copies a golden folder or file, to be changed."""


def files(pattern: str) -> tuple[str, ...]:
    """Names of the files that match `pattern` component by component; `*` never crosses a slash."""
    return _matching(_files(), pattern)


def folders(pattern: str) -> tuple[str, ...]:
    """Names of the folders that match `pattern` component by component; `*` never crosses a slash."""
    return _matching(_folders(), pattern)


def files_named(name: str) -> tuple[str, ...]:
    """Names of all files that are called `name`, in whatever folder: `_pm`, `_txn`, `data.parquet`."""
    return tuple(str(file) for file in _files() if file.name == name)


@functools.cache
def _files() -> tuple[PurePosixPath, ...]:
    return tuple(map(PurePosixPath, member_names()))


@functools.cache
def _folders() -> frozenset[PurePosixPath]:
    return frozenset(parent for file in _files() for parent in file.parents)


def _matching(paths: Iterable[PurePosixPath], pattern: str) -> tuple[str, ...]:
    depth = len(PurePosixPath(pattern).parts)
    return tuple(sorted(str(path) for path in paths if len(path.parts) == depth and path.match(pattern)))


TABLES = folders("tables/*/*")
HISTORIES = folders("tables/*/*/history")
HISTORY_STEPS = folders("tables/*/*/history/*")
INDEXED_TABLES = folders("indexed/*/*")
LEGACY_TABLES = folders("legacy/*/*")
CRASHES = folders("crashes/*/*")
AFTER_RESTARTS = folders("after-restart/*/*")
POWER_LOSSES = folders("power-loss/*/*")


def content_of(folder: Path) -> dict[str, bytes]:
    """Return the content of all files below a folder, by their names there."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
