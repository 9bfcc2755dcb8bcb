"""What a crash may leave on a disk: the persistence models, and the choices that identify one disk.

What a file may hold is in `legal_files`, which names there may be in `legal_names`, and whole disks in `legal_disks`
(docs/guarantees.md).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

LATEST = -1
"""Stands for the content of the page cache in place of the number of a version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What survives a crash; `describes` says on which file systems and devices.

    Without `block_bytes` a file has one of its versions as a whole. With `loses_names` each change of names since the
    sync of its directory may be missing. With `everything_dies` readers die too. `fails_syncs` is for crashes after a
    failed sync.
    """

    name: str
    describes: str
    everything_dies: bool = True
    keeps_cache: bool = False
    block_bytes: int | None = None
    loses_names: bool = False
    fails_syncs: bool = False
    syncs_whole_files: bool = False
    """Whether a sync of a part of a file also syncs everything that was written to the file before."""

    def __str__(self) -> str:
        """Return the name."""
        return self.name


A = Model(
    name="A",
    describes="A process is killed, and the machine goes on: every file system, because the page cache outlives it.",
    everything_dies=False,
    keeps_cache=True,
)
B = Model(
    name="B",
    describes="A power cut where what is written to one file gets to the disk in that order: ext4 with data=journal, "
    "ZFS, and file systems that append to a log. A sync of a part of a file syncs all of it.",
    syncs_whole_files=True,
)
C_8 = Model(
    name="C-8",
    describes="A power cut where any aligned 8 bytes may be old or new: persistent memory that is mapped directly "
    "(DAX), and devices that promise nothing about a sector that they were writing.",
    block_bytes=8,
)
C_512 = Model(
    name="C-512",
    describes="A power cut where any sector of 512 bytes may be old or new: ext4 with data=ordered or data=writeback, "
    "XFS and F2FS on disks and SSDs that write sectors of 512 bytes at once.",
    block_bytes=512,
)
C_4096 = Model(
    name="C-4096",
    describes="A power cut where any block of 4096 bytes may be old or new: ext4 with data=ordered or data=writeback, "
    "XFS and Btrfs on devices that write 4096 bytes at once.",
    block_bytes=4096,
)
CDIR = Model(
    name="Cdir",
    describes="C-4096, and each change of names may be missing until its directory is synced, as POSIX allows: ext2, "
    "ext4 without a journal, and file systems of other makers.",
    block_bytes=4096,
    loses_names=True,
)
D = Model(
    name="D",
    describes="A sync that fails once, after which the page cache calls unwritten pages clean: Linux with ext4, XFS "
    "and Btrfs. The process dies or goes on, and a power cut as in C-4096 may come later.",
    everything_dies=False,
    keeps_cache=True,
    fails_syncs=True,
)
POWER_MODELS = (B, C_4096, C_512, C_8, CDIR)
MODELS = (A, *POWER_MODELS, D)


def model_named(name: str) -> Model:
    """Return a model by its name; raises KeyError."""
    return {model.name: model for model in MODELS}[name]


class FileChoice(NamedTuple):
    """What a file holds: versions are numbered from 0, the durable one; LATEST is the page cache.

    The size is that of version `size`; each block is that of version `base`, unless `blocks` gives another version. A
    block beyond the end of its version is zeros.
    """

    size: int
    base: int
    blocks: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        """Describe it."""
        base = "the page cache" if self.base == LATEST else f"version {self.base}"
        size = "" if self.size == self.base else f", cut or extended to the size of version {self.size}"
        blocks = ", ".join(f"block {block} of version {version}" for block, version in self.blocks)
        return f"{base}{size}" + (f", but {blocks}" if blocks else "")


class Choice(NamedTuple):
    """One disk that a crash may leave: which changes of names reached it, by number, and what each file holds, by path.

    `names` is None if all did. Other files hold the last version that they can have.
    """

    model: str
    names: tuple[int, ...] | None = None
    files: tuple[tuple[str, FileChoice], ...] = ()

    def text(self) -> str:
        """Return the choice as one line of JSON, which `choice_of` reads."""
        files = {
            path: [choice.size, choice.base, [list(block) for block in choice.blocks]] for path, choice in self.files
        }
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
        None if names is None else tuple(int(name) for name in names),
        tuple((str(path), _file_choice_of(content)) for path, content in files.items()),
    )


def _file_choice_of(content: list[Any]) -> FileChoice:
    size, base, blocks = content
    return FileChoice(int(size), int(base), tuple((int(block), int(version)) for block, version in blocks))
