"""What a crash may leave on a disk: the persistence models, and the choices that identify one disk.

What a file may hold is in `legal_files`, which names there may be in `legal_names`, and whole disks in `legal_disks`
(docs/guarantees.md).
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from tornproof.harness.common.read_numbers import integer_of

LATEST = -1
"""Stands for the content of the page cache in place of the number of a version."""
STALE = -2
"""Stands for what a deleted file left in a block, in place of the number of a version."""
STALE_BYTE = b"\xa5"
"""Fills stale blocks."""


class Names(enum.StrEnum):
    """Which changes of names survive a crash, of those since the last sync of their directories."""

    ALL = "all changes"
    JOURNALLED = "those up to some time; a sync of a file or directory keeps all up to its own last one"
    EACH_CHANGE = "any set of changes; a sync of a directory keeps those in it"
    EACH_ENTRY = "any set of entries, of a rename none, one or both; a sync of a directory keeps those in it"


class Source(NamedTuple):
    """A published text that says what a file system does."""

    title: str
    address: str


KERNEL_EXT4 = Source("ext4: data modes", "https://docs.kernel.org/admin-guide/ext4.html")
KERNEL_JOURNAL = Source("ext4: journal", "https://docs.kernel.org/filesystems/ext4/journal.html")
KERNEL_XFS = Source("XFS: logging", "https://docs.kernel.org/filesystems/xfs/xfs-delayed-logging-design.html")
KERNEL_EXT2 = Source("ext2", "https://docs.kernel.org/filesystems/ext2.html")
KERNEL_DAX = Source("direct access", "https://docs.kernel.org/filesystems/dax.html")
KERNEL_F2FS = Source("F2FS", "https://docs.kernel.org/filesystems/f2fs.html")
ZFS_LOG = Source("ZFS: intent log", "https://github.com/openzfs/zfs/blob/master/module/zfs/zil.c")
POSIX_FSYNC = Source("POSIX: fsync", "https://pubs.opengroup.org/onlinepubs/9799919799/functions/fsync.html")
FERRITE = Source("Bornholt et al. 2016", "https://unsat.cs.washington.edu/projects/ferrite/")
ALICE = Source("Pillai et al. 2014", "https://www.usenix.org/conference/osdi14/technical-sessions/presentation/pillai")
FSYNC_FAILURES = Source("Rebello et al. 2020", "https://www.usenix.org/conference/atc20/presentation/rebello")


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What survives a crash; `stands_for` says on which file systems and devices, according to the `sources`.

    Without `block_bytes` a file has one of its versions as a whole; with it, each block is that of any version since
    the last sync, and the size that of any. With `everything_dies` readers die too. `fails_syncs` is for crashes after
    a failed sync.
    """

    name: str
    stands_for: str
    sources: tuple[Source, ...]
    everything_dies: bool = True
    keeps_cache: bool = False
    block_bytes: int | None = None
    stale_block_bytes: int | None = None
    """A new block of this size may hold what a deleted file left, not only zeros.

    That is one that the durable file has no data in, or that a truncation has freed since.
    """
    names: Names = Names.JOURNALLED
    fails_syncs: bool = False
    syncs_whole_files: bool = False
    """Whether a sync of a part of a file also syncs everything that was written to the file before."""
    contained_in: str = ""
    """The name of a model that allows every disk that this one does."""

    def __str__(self) -> str:
        """Return the name."""
        return self.name

    @property
    def content(self) -> str:
        """What a file may hold, in words."""
        if self.keeps_cache:
            after = "; on disk any of the blocks that the failed sync was to write" if self.fails_syncs else ""
            return "the page cache" + after
        if self.block_bytes is None:
            return "its writes up to some time"
        blocks = f"each {self.block_bytes} bytes old or new"
        return f"{blocks}; in new blocks zeros or stale bytes" if self.stale_block_bytes else blocks


A = Model(
    name="A",
    stands_for="a killed process on every file system, because the page cache outlives it",
    sources=(POSIX_FSYNC,),
    everything_dies=False,
    keeps_cache=True,
    names=Names.ALL,
)
B = Model(
    name="B",
    stands_for="ext4 with data=journal; ZFS",
    sources=(KERNEL_EXT4, ZFS_LOG),
    syncs_whole_files=True,
    contained_in="C-4096",
)
C_8 = Model(
    name="C-8",
    stands_for="ext4 and XFS on persistent memory that is mapped directly (DAX), or on devices that promise nothing "
    "about a sector that they were writing",
    sources=(KERNEL_DAX, KERNEL_JOURNAL),
    block_bytes=8,
)
C_512 = Model(
    name="C-512",
    stands_for="ext4 with data=ordered and XFS on devices that write sectors of 512 bytes at once",
    sources=(KERNEL_EXT4, KERNEL_XFS, FERRITE, ALICE),
    block_bytes=512,
    contained_in="W-512",
)
C_4096 = Model(
    name="C-4096",
    stands_for="ext4 with data=ordered and XFS on devices that write 4096 bytes at once",
    sources=(KERNEL_EXT4, KERNEL_XFS, FERRITE, ALICE),
    block_bytes=4096,
    contained_in="C-512",
)
W_512 = Model(
    name="W-512",
    stands_for="ext4 with data=writeback on devices that write sectors of 512 bytes at once",
    sources=(KERNEL_EXT4, ALICE),
    block_bytes=512,
    stale_block_bytes=4096,
    contained_in="N-512",
)
CDIR = Model(
    name="Cdir",
    stands_for="Btrfs and F2FS, where a sync of one file does not keep the names of others, on devices that write 4096 "
    "bytes at once",
    sources=(KERNEL_F2FS, ALICE, POSIX_FSYNC),
    block_bytes=4096,
    names=Names.EACH_CHANGE,
    contained_in="N-512",
)
N_512 = Model(
    name="N-512",
    stands_for="ext2 and ext4 without a journal, on devices that write sectors of 512 bytes at once",
    sources=(KERNEL_EXT2, ALICE, POSIX_FSYNC),
    block_bytes=512,
    stale_block_bytes=4096,
    names=Names.EACH_ENTRY,
)
D = Model(
    name="D",
    stands_for="a sync that fails once on ext4, XFS and Btrfs, after which pages that were not written count as clean; "
    "the process dies or goes on, pages may be dropped, and a power cut as in C-4096 may come later",
    sources=(FSYNC_FAILURES,),
    everything_dies=False,
    keeps_cache=True,
    names=Names.ALL,
    fails_syncs=True,
)
POWER_MODELS = (B, C_4096, C_512, C_8, W_512, CDIR, N_512)
MODELS = (A, *POWER_MODELS, D)


def model_named(name: str) -> Model:
    """Return a model by its name; raises KeyError."""
    return {model.name: model for model in MODELS}[name]


def is_contained(model: Model, other: Model) -> bool:
    """Return whether a model allows only disks that another one allows."""
    return model.contained_in == other.name or (
        bool(model.contained_in) and is_contained(model_named(model.contained_in), other)
    )


class FileChoice(NamedTuple):
    """What a file holds: versions are numbered from 0, the durable one; LATEST is the page cache.

    The size is that of version `size`; each block is that of version `base`, unless `blocks` gives another version. A
    block beyond the end of its version is zeros, and one of version STALE is what a deleted file left.
    """

    size: int
    base: int
    blocks: tuple[tuple[int, int], ...] = ()

    def numbers(self) -> list[Any]:
        """Return the choice as JSON, which `file_choice_of` reads."""
        return [self.size, self.base, [list(block) for block in self.blocks]]

    def __str__(self) -> str:
        """Describe it."""
        base = "the page cache" if self.base == LATEST else f"version {self.base}"
        size = "" if self.size == self.base else f", cut or extended to the size of version {self.size}"
        origins = ((block, "stale" if version == STALE else f"of version {version}") for block, version in self.blocks)
        blocks = ", ".join(f"block {block} {origin}" for block, origin in origins)
        return f"{base}{size}" + (f", but {blocks}" if blocks else "")


class Choice(NamedTuple):
    """One disk that a crash may leave: which changes of names reached it, by number, and what each file holds, by path.

    `names` is None if all did; under a model that loses single entries, they are numbers of entries. Other files hold
    the last version that they can have.
    """

    model: str
    names: tuple[int, ...] | None = None
    files: tuple[tuple[str, FileChoice], ...] = ()

    def text(self) -> str:
        """Return the choice as one line of JSON, which `choice_of` reads."""
        files = {path: choice.numbers() for path, choice in self.files}
        return json.dumps([self.model, None if self.names is None else list(self.names), files], separators=(",", ":"))

    def __str__(self) -> str:
        """Describe it."""
        names = [] if self.names is None else [f"changes of names {list(self.names)} alone"]
        return f"{self.model}: " + "; ".join([*names, *(f"{path}: {choice}" for path, choice in self.files)])


def choice_of(text: str) -> Choice:
    """Return the choice of a text from `Choice.text`; raises ValueError or TypeError for other text."""
    model, names, files = json.loads(text)
    return Choice(
        str(model),
        None if names is None else tuple(integer_of(name) for name in names),
        tuple((str(path), file_choice_of(content)) for path, content in files.items()),
    )


def file_choice_of(content: list[Any]) -> FileChoice:
    """Return the choice of JSON from `FileChoice.numbers`; raises ValueError or TypeError for other JSON."""
    size, base, blocks = content
    return FileChoice(
        integer_of(size), integer_of(base), tuple((integer_of(block), integer_of(version)) for block, version in blocks)
    )
