"""A toy whose reader checks everything, and toys that leave out one check, each of which only one damage can show."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from tornproof.harness.systems.toy import Toy, ToyWriter
from tornproof.impl.errors import CorruptError
from tornproof.impl.storage.checksum import crc32
from tornproof.impl.storage.interface import OpenMode, Storage

BLOCK_BYTES, BLOCK_COUNT = 32, 2
_BLOCK = struct.Struct("<HH24sI")
CHECKSUM, LENGTH, ZEROS, VERSION, POSITION = "checksum", "length", "zeros", "version", "position"
CHECKS = frozenset({CHECKSUM, LENGTH, ZEROS, VERSION, POSITION})


class Blocks(Toy):
    """Letters in two blocks, every other one in each, with version, position and checksum; replaced as a whole."""

    def __init__(self, name: str = "checks everything", without: str = "") -> None:
        """Read with all checks, or without one of them."""
        self.name = name
        self._checks = CHECKS - {without}

    def create(self, storage: Storage, path: str) -> None:
        """Make the directory and blocks without letters."""
        storage.mkdir(path)
        with storage.open_for_writing(f"{path}/state", OpenMode.NEW) as file:
            file.pwrite(_encoded(b"", 0), 0)

    def read(self, storage: Storage, path: str) -> bytes:
        """Return all letters; raises CorruptError."""
        with storage.open_for_reading(f"{path}/state") as file:
            content = file.pread(BLOCK_COUNT * BLOCK_BYTES, 0)
        return self.decoded(content)[0]

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Add letters, with the next version."""
        with storage.open_for_reading(f"{path}/state") as file:
            letters, version = self.decoded(file.pread(BLOCK_COUNT * BLOCK_BYTES, 0))
        self.write_anew(storage, f"{path}/new", _encoded(letters + operation, version + 1))
        storage.rename(f"{path}/new", f"{path}/state")
        self.sync_names(storage, path)

    def decoded(self, content: bytes) -> tuple[bytes, int]:
        """Return letters and version; raises CorruptError."""
        parts, versions = [], []
        for position in range(BLOCK_COUNT):
            block = content[position * BLOCK_BYTES : (position + 1) * BLOCK_BYTES]
            missing = LENGTH if len(block) < BLOCK_BYTES else ZEROS if not any(block) else ""
            if missing:
                self.check(missing, is_right=False)
                parts.append(b"")
                continue
            version, stored_position, letters, checksum = _BLOCK.unpack(block)
            self.check(CHECKSUM, is_right=checksum == crc32(block[:-4]))
            self.check(POSITION, is_right=stored_position == position)
            parts.append(letters.rstrip(b"\0"))
            versions.append(version)
        self.check(VERSION, is_right=len(set(versions)) <= 1)
        longest = max(map(len, parts))
        return b"".join(part[index : index + 1] for index in range(longest) for part in parts), max(versions, default=0)

    def check(self, name: str, *, is_right: bool) -> None:
        """Raise CorruptError where a check that this toy makes fails."""
        if name in self._checks and not is_right:
            self.failed(name)

    def failed(self, name: str) -> None:
        """Raise CorruptError."""
        raise CorruptError(file="state", field=name, offset_bytes=0, expected="what was written", actual="other bytes")


class Panics(Blocks):
    """Broken: an error that no caller expects."""

    def failed(self, name: str) -> None:
        """Raise an error of the language."""
        raise ZeroDivisionError(name)


class Spins(Blocks):
    """Broken: waits for damage to go away."""

    def read(self, storage: Storage, path: str) -> bytes:
        """Read until it can be read."""
        while True:
            try:
                return super().read(storage, path)
            except CorruptError:
                storage.sleep_seconds(1.0)


class RepairsBlindly(Blocks):
    """Broken: its recovery makes what cannot be read an empty state."""

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        """Begin anew with what is damaged."""
        try:
            self.read(storage, path)
        except CorruptError:
            with storage.open_for_writing(f"{path}/state") as file:
                file.truncate(0)
                file.pwrite(_encoded(b"?", 0), 0)
        with super().open_writer(storage, path) as writer:
            yield writer


def _encoded(letters: bytes, version: int) -> bytes:
    content = b""
    for position in range(BLOCK_COUNT):
        body = _BLOCK.pack(version, position, letters[position::BLOCK_COUNT], 0)[:-4]
        content += body + crc32(body).to_bytes(4, "little")
    return content
