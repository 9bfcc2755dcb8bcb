"""System calls below the storage, answered as a system may: with short transfers; and what each sync made durable.

Nothing is lost here: what was synced is kept beside the files, and compared with what is committed.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from tornproof.harness.common.patch import replaced

READ_BYTES_MAX, WRITTEN_BYTES_MAX = 1_500, 150
"""What one call transfers at most: POSIX allows any number."""
REMEMBERED_BYTES_MAX = 1 << 28
"""Only files with a hole are larger; what is durable of them is not compared."""
SEAM, SEAM_OF_NAMES = "tornproof.impl.storage.operating_system_file", "tornproof.impl.storage.operating_system"


@dataclass(frozen=True, slots=True)
class Durable:
    """What was synced of each file and directory, by inode; of a directory its names and what they lead to.

    A file that was `named_early` took the place of another one before it was synced: a power cut may leave nothing.
    """

    contents: dict[int, bytearray] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    names: dict[int, dict[str, int]] = field(default_factory=dict)
    named_early: list[str] = field(default_factory=list)

    def sync(self, descriptor: int) -> None:
        """Note that all of a file or a directory is durable."""
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            with os.scandir(descriptor) as entries:
                self.names[found.st_ino] = {entry.name: entry.inode() for entry in entries}
        elif found.st_size <= REMEMBERED_BYTES_MAX:
            self.contents[found.st_ino] = bytearray(os.pread(descriptor, found.st_size, 0))
            self.sizes[found.st_ino] = found.st_size

    def sync_range(self, inode: int, content: bytes, offset_bytes: int) -> None:
        """Note that a part of a mapped file is durable, which its size need not be."""
        known = self.contents.setdefault(inode, bytearray())
        end_bytes = offset_bytes + len(content)
        known.extend(bytes(max(0, end_bytes - len(known))))
        known[offset_bytes:end_bytes] = content

    def rename(self, source: str, target: str) -> None:
        """Rename, and note a file that is not durable and takes the place of another one."""
        found = Path(source).lstat()
        if stat.S_ISREG(found.st_mode) and Path(target).exists() and self._unsynced(Path(source), found.st_size):
            self.named_early.append(Path(target).name)
        Path(source).rename(target)

    def missing(self, path: Path, size_bytes: int) -> str | None:
        """Say what of a name or of the first bytes of its file is not durable; None if all of it is."""
        if self.names.get(path.parent.stat().st_ino, {}).get(path.name) != path.stat().st_ino:
            return f"the name of {path.name} in its directory"
        if path.is_dir():
            return None
        return self._unsynced(path, size_bytes)

    def _unsynced(self, path: Path, size_bytes: int) -> str | None:
        inode = path.stat().st_ino
        content = path.read_bytes()[:size_bytes]
        known = self.contents.get(inode, b"")[: min(size_bytes, self.sizes.get(inode, 0))]
        if known == content:
            return None
        first = next(at for at, byte in enumerate(content) if at >= len(known) or known[at] != byte)
        return f"byte {first} of {path.name}"


@contextmanager
def intercepted(root: Path) -> Iterator[Durable]:
    """Answer the calls of the storage while the block runs; what is below `root` is durable at its beginning."""
    durable = Durable()
    for path in (root, *root.rglob("*")):
        descriptor = os.open(path, os.O_RDONLY)
        durable.sync(descriptor)
        os.close(descriptor)

    class Mapped(mmap.mmap):
        inode: int

        def __new__(cls, descriptor: int, size_bytes: int, **settings: Any) -> Mapped:
            mapped = super().__new__(cls, descriptor, size_bytes, **settings)
            mapped.inode = os.fstat(descriptor).st_ino
            return mapped

        def flush(self, offset_bytes: int = 0, size_bytes: int | None = None) -> None:
            end_bytes = len(self) if size_bytes is None else offset_bytes + size_bytes
            durable.sync_range(self.inode, self[offset_bytes:end_bytes], offset_bytes)

    calls = {
        "pread": lambda descriptor, size, offset: os.pread(descriptor, min(size, READ_BYTES_MAX), offset),
        "pwrite": lambda descriptor, content, offset: os.pwrite(descriptor, content[:WRITTEN_BYTES_MAX], offset),
        "fsync": durable.sync,
        "fdatasync": durable.sync,
    }
    with ExitStack() as stack:
        stack.enter_context(replaced(f"{SEAM}:os", _Others(os, calls)))
        stack.enter_context(replaced(f"{SEAM_OF_NAMES}:os", _Others(os, {"rename": durable.rename})))
        stack.enter_context(replaced(f"{SEAM}:mmap", _Others(mmap, {"mmap": Mapped})))
        yield durable


class _Others:
    """A module of which some names are others."""

    def __init__(self, module: ModuleType, others: dict[str, Any]) -> None:
        self._module = module
        self.__dict__.update(others)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)
