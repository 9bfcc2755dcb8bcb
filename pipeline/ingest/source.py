"""Files of lines: finding them, digests of their content, and their text in blocks of whole lines."""

from __future__ import annotations

import functools
import hashlib
import importlib
import itertools
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tornproof.impl.errors import StorageError, TornproofError
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.pipeline.files import Location, each_once, location_of
from tornproof.pipeline.ingest.values import LINE_BYTES_MAX, LineRejectedError, Reason, parse_frame

SUFFIXES = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")
GZIP_MAGIC = b"\x1f\x8b"
GZIP_WINDOW_BITS = 31
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
READ_BYTES = 1 << 20
BLOCK_BYTES = 8 << 20
RAW_BYTES_KEPT = 4096
TASK_BYTES = 64 << 20
"""Small files are read together, up to about this many bytes per task."""
BLANKS = b" \t\r"
SAMPLE_FILES_MAX = 100
SAMPLE_BLOCK_BYTES = 1 << 20


class SourceUnreadableError(TornproofError):
    """A source is missing, cannot be read, or changed between two reads."""


class DamagedMemberError(SourceUnreadableError):
    """A gzip member's data or its check is wrong, so that none of its text is known to be right."""

    def __init__(self, number: int, message: str) -> None:
        """Members before this one are sound; the first one has the number 0."""
        super().__init__(message)
        self.number = number


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Whole lines; the first one has the number `first_line`, from 1 on. Only a file's last line may lack its end."""

    first_line: int
    text: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """A rejected line: its number from 1, the reason, and its first bytes."""

    line: int
    reason: Reason
    detail: str
    raw: bytes


def find_sources(paths: Sequence[str], *, outside: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the files to read, each once: each path or address, or what lies below it with a known suffix, by name.

    Paths are absolute. What lies below a directory is no source in the directories `outside`, nor in a table on this
    machine: rejects have such a suffix, too. Raises SourceUnreadableError if there is none.
    """
    is_left_out = _left_out(outside)
    found: list[Location] = []
    for given in paths:
        place = location_of(given).absolute()
        with _unreadable():
            size_bytes = place.size_bytes()
            if place.is_local and size_bytes is not None and not (place.local.is_file() or place.local.is_dir()):
                raise SourceUnreadableError(f"{given}: is no regular file")
            # Of a bucket that is not there, listing it says so.
            below = place.files_below() if size_bytes == -1 or (size_bytes is None and not place.is_local) else []
        if size_bytes is not None and size_bytes >= 0:
            found.append(place)
            continue
        if size_bytes is None:
            raise SourceUnreadableError(f"{given}: is not there")
        files = [file for file, _ in below if file.name.endswith(SUFFIXES)]
        with _unreadable():
            kept = [file for file in files if not is_left_out(file)]
        if not kept:
            but = " but those of tables and rejects" if files else ""
            raise SourceUnreadableError(f"{given}: holds no file called *{', *'.join(SUFFIXES)}{but}")
        found += kept
    return tuple(map(str, each_once(found)))


def _left_out(outside: Sequence[str]) -> Callable[[Location], bool]:
    """Return whether a file is in one of some directories, or in any table, whatever links lead to it."""
    directories = [location_of(directory).real() for directory in outside]

    @functools.cache
    def holds_table(directory: Location) -> bool:
        return (directory / TXN_FILE).is_file()

    def is_left_out(file: Location) -> bool:
        real = file.real()
        above = map(location_of, real.local.parents) if real.is_local else ()
        return any(map(real.is_below, directories)) or any(map(holds_table, above))

    return is_left_out


@contextmanager
def _unreadable() -> Iterator[None]:
    """Raise SourceUnreadableError for what a file system rejects."""
    try:
        yield
    except StorageError as error:
        raise SourceUnreadableError(str(error)) from error


def sample_frames(paths: Sequence[str], line_count: int) -> Iterator[dict[str, Any]]:
    """Yield the objects among the first lines of files spread evenly over all; raises SourceUnreadableError."""
    step = -(-len(paths) // SAMPLE_FILES_MAX)
    for path in paths[::step]:
        try:
            yield from _first_frames(Lines(path, block_bytes=SAMPLE_BLOCK_BYTES), line_count)
        except DamagedMemberError as damage:
            yield from _first_frames(Lines(path, block_bytes=SAMPLE_BLOCK_BYTES, damage=damage), line_count)


def _first_frames(lines: Lines, line_count: int) -> Iterator[dict[str, Any]]:
    for block in lines:
        if isinstance(block, Block):
            # What follows the end of the last line is no line.
            texts = block.text.removesuffix(b"\n").split(b"\n")
            yield from _frames(texts[: line_count + 1 - block.first_line])
        if lines.line_count >= line_count:
            break


def _frames(lines: Sequence[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line.strip(BLANKS):
            with suppress(LineRejectedError):
                yield parse_frame(line)


def digest_of(path: str | Location) -> str:
    """Return the digest of a file's content; raises SourceUnreadableError."""
    digest = hashlib.blake2b(digest_size=32)
    with opened(path) as file:
        for chunk in iter(lambda: _read(file, path, READ_BYTES), b""):
            digest.update(chunk)
    return digest.hexdigest()


def task_groups(paths: Sequence[str]) -> list[list[int]]:
    """Return groups of indices of the files that one task reads."""
    groups: list[list[int]] = []
    size_bytes = TASK_BYTES
    for index, path in enumerate(paths):
        if size_bytes >= TASK_BYTES:
            groups.append([])
            size_bytes = 0
        groups[-1].append(index)
        with suppress(StorageError):
            size_bytes += location_of(path).size_bytes() or 0
    return groups


def opened(path: str | Location) -> Any:
    """Open a file; raises SourceUnreadableError."""
    place = location_of(path)
    if not place.is_local:
        with _unreadable():
            return place.open_for_reading()
    try:
        return place.local.open("rb")
    except OSError as error:
        raise SourceUnreadableError(f"{path}: cannot be read: {error.strerror or error}") from error


def _read(file: Any, path: str | Location, size_bytes: int) -> bytes:
    """Return the next bytes of a file; raises SourceUnreadableError."""
    try:
        raw: bytes = file.read(size_bytes)
    except OSError as error:
        raise SourceUnreadableError(f"{path}: cannot be read: {error.strerror or error}") from error
    return raw


class Lines:
    """The blocks of a file; `digest` is that of its bytes once all are read, `line_count` the lines read so far."""

    def __init__(
        self, path: str | Location, *, block_bytes: int = BLOCK_BYTES, damage: DamagedMemberError | None = None
    ) -> None:
        """Begin to read a file, of which an earlier reading may have found the `damage`."""
        self._path = path
        self._block_bytes = block_bytes
        self._damage = damage
        self._digest = hashlib.blake2b(digest_size=32)
        self.line_count = 0

    @property
    def digest(self) -> str:
        """The same as `digest_of` the same bytes."""
        return self._digest.hexdigest()

    def __iter__(self) -> Iterator[Block | Reject]:
        """Yield blocks, and rejects for lines that are too long and for the rest of a damaged gzip file.

        Memory is bounded by a block and the longest line allowed; raises SourceUnreadableError, and DamagedMemberError
        where blocks may hold text of a damaged member: with this `damage`, other Lines end before that member.
        """
        rest, dropped, damage = b"", 0, ""
        with opened(self._path) as file:
            chunks = self._chunks(file)
            while True:
                try:
                    chunk = next(chunks)
                except StopIteration:
                    break
                except _DamagedError as error:
                    damage = str(error)
                    break
                end = chunk.rfind(b"\n") + 1
                if dropped and (start := chunk.find(b"\n") + 1):
                    yield self._too_long(rest, dropped + start - 1)
                    chunk, rest, dropped, end = chunk[start:], b"", 0, end - start
                if dropped:
                    dropped += len(chunk)
                elif end > 0:
                    yield self._block(rest + chunk[:end])
                    rest = chunk[end:]
                else:
                    rest += chunk
                if len(rest) > LINE_BYTES_MAX and not dropped:
                    rest, dropped = rest[:RAW_BYTES_KEPT], len(rest)
        if damage:
            # The rest of the interrupted line belongs to the lost part.
            self.line_count += 1
            yield Reject(line=self.line_count, reason=Reason.BAD_GZIP, detail=damage, raw=rest[:RAW_BYTES_KEPT])
        elif dropped:
            yield self._too_long(rest, dropped)
        elif rest:
            yield self._block(rest)

    def _block(self, text: bytes) -> Block:
        if self.line_count == 0:
            text = text.removeprefix(BYTE_ORDER_MARK)
        block = Block(first_line=self.line_count + 1, text=text)
        self.line_count += text.count(b"\n") + (not text.endswith(b"\n"))
        return block

    def _too_long(self, head: bytes, size_bytes: int) -> Reject:
        self.line_count += 1
        detail = f"{size_bytes} bytes, more than {LINE_BYTES_MAX}"
        return Reject(line=self.line_count, reason=Reason.TOO_LONG, detail=detail, raw=head)

    def _chunks(self, file: Any) -> Iterator[bytes]:
        """Yield the text of a file that is plain or gzipped, whatever its name says."""
        raw = self._read(file, READ_BYTES)
        if not raw.startswith(GZIP_MAGIC):
            while raw:
                yield raw
                raw = self._read(file, self._block_bytes)
            return
        parts: list[bytes] = []
        size_bytes = 0
        try:
            for part in self._inflated(file, raw):
                parts.append(part)
                size_bytes += len(part)
                if size_bytes >= self._block_bytes:
                    yield b"".join(parts)
                    parts, size_bytes = [], 0
        except _DamagedError:
            # Everything before the damage counts.
            yield b"".join(parts)
            while self._read(file, READ_BYTES):
                pass
            raise
        yield b"".join(parts)

    def _inflated(self, file: Any, raw: bytes) -> Iterator[bytes]:
        library = _inflater()
        for number in itertools.count():
            if not raw:
                return
            if self._damage and number == self._damage.number:
                raise _DamagedError(str(self._damage))
            if not raw.startswith(GZIP_MAGIC[: len(raw)]):
                raise _DamagedError("followed by bytes that are not gzip")
            member = library.decompressobj(GZIP_WINDOW_BITS)
            while True:
                try:
                    part = member.decompress(raw, self._block_bytes)
                except library.error as error:
                    raise DamagedMemberError(number, f"nothing of gzip member {number + 1} counts: {error}") from error
                yield part
                if member.eof:
                    break
                raw = member.unconsumed_tail
                # After a full part, the library may have more.
                if not raw and len(part) < self._block_bytes and not (raw := self._read(file, READ_BYTES)):
                    raise _DamagedError("the file ends before its gzip data does")
            raw = (member.unused_data or self._read(file, READ_BYTES)).lstrip(b"\0")
            while not raw and (more := self._read(file, READ_BYTES)):
                raw = more.lstrip(b"\0")

    def _read(self, file: Any, size_bytes: int) -> bytes:
        raw = _read(file, self._path, size_bytes)
        self._digest.update(raw)
        return raw


class _DamagedError(Exception):
    """The gzip data ends where it must not, goes on as something else, or is known to be damaged from here on."""


def _inflater() -> Any:
    """Return the fastest installed module with the interface of `zlib`."""
    with suppress(ImportError):
        return importlib.import_module("isal.isal_zlib")
    return zlib
