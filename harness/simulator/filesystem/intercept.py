"""A storage that passes every call to one method before it happens: the base of recorders and injected faults."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias, TypeVar

from tornproof.impl.storage.interface import Counters, EntryKind, File, LockMode, Mapping, OpenMode, Storage

Answer = TypeVar("Answer")
Run: TypeAlias = Callable[[], Answer]


class CallKind(enum.StrEnum):
    """What a call does, in words that complete the sentence "cannot ..."."""

    OPEN_FOR_READING = "open for reading"
    OPEN_FOR_WRITING = "open for writing"
    LISTDIR = "list"
    KIND = "look at"
    MKDIR = "make directory"
    RMDIR = "remove directory"
    RENAME = "rename"
    LINK = "link"
    UNLINK = "unlink"
    SYNC_DIRECTORY = "sync directory"
    LOAD_FENCE = "fence loads"
    STORE_FENCE = "fence stores"
    CLOCK = "ask for the time"
    SLEEP = "sleep"
    PREAD = "read"
    SIZE = "ask for the size"
    PWRITE = "write"
    TRUNCATE = "truncate"
    MAP = "map"
    FSYNC = "sync"
    FDATASYNC = "sync the data"
    LOCK = "lock"
    UNLOCK = "unlock"
    CLOSE = "close"
    LOAD = "load a word"
    STORE = "store a word"
    READ_MAPPED = "read a mapping"
    VIEW = "lease a view"
    MSYNC = "sync the mapping"
    UNMAP = "unmap"
    END_VIEW = "end a view"


BARRIERS = frozenset({CallKind.FSYNC, CallKind.FDATASYNC, CallKind.MSYNC, CallKind.SYNC_DIRECTORY})
CHANGES = frozenset(
    {
        CallKind.OPEN_FOR_WRITING,
        CallKind.PWRITE,
        CallKind.TRUNCATE,
        CallKind.STORE,
        CallKind.MKDIR,
        CallKind.RMDIR,
        CallKind.RENAME,
        CallKind.LINK,
        CallKind.UNLINK,
    }
)
# Calls around which a crash can leave different disks. Opening is one because it may create the file.
STEPS = BARRIERS | CHANGES
REPEATED = STEPS | {CallKind.OPEN_FOR_READING, CallKind.MAP, CallKind.CLOSE, CallKind.UNMAP}
"""What has to be done again to change the same: the steps, and opening and closing what they need."""
LOCK_PAUSE_SECONDS = 0.001
"""How long a process that waits for a lock sleeps before it tries again."""
OFFSET_BYTES_END = 1 << 63
"""Offsets of files are less, as in a signed 64-bit integer."""
# Calls that change nothing but what the caller itself has open. Closing is none: it may release a lock.
READ_ONLY_CALLS = (
    frozenset(CallKind) - STEPS - {CallKind.LOCK, CallKind.UNLOCK, CallKind.CLOSE, CallKind.VIEW, CallKind.END_VIEW}
)


class Call(NamedTuple):
    """One call; `content` is what it writes, in file order.

    `file` and `mapping` are the numbers of an open file and a mapping of the storage, counted together from 1. `lock`
    is the requested mode.
    """

    kind: CallKind
    path: str
    file: int = 0
    offset_bytes: int = 0
    size_bytes: int = 0
    content: bytes = b""
    target_path: str = ""
    mode: OpenMode = OpenMode.EXISTING
    mapping: int = 0
    lock: LockMode = LockMode.SHARED


without_numbers = attrgetter(*(name for name in Call._fields if name not in ("file", "mapping")))
"""Returns all of a call but the numbers of open files."""


class InterceptedStorage(Storage):
    """A storage over another one; a subclass decides in `intercept` what happens to a call.

    What is a bug of the caller fails an assert, as it does on a real storage.
    """

    def __init__(self, inner: Storage) -> None:
        """Pass calls on to `inner`."""
        self._inner = inner
        self._opened_count = 0

    def next_number(self) -> int:
        """Return the number for the next open file or mapping."""
        self._opened_count += 1
        return self._opened_count

    def intercept(self, call: Call, run: Run[Answer]) -> Answer:
        """Make the call."""
        return run()

    def intercept_write(self, file: File, call: Call, run: Callable[[], None]) -> None:
        """Intercept a write; `file` is the inner one, for a subclass that writes only a part."""
        self.intercept(call, run)

    def open_for_reading(self, path: str) -> File:
        """Open a file whose calls are intercepted."""
        call = Call(kind=CallKind.OPEN_FOR_READING, path=path, file=self.next_number())
        return _InterceptedFile(self, self.intercept(call, lambda: self._inner.open_for_reading(path)), call)

    def open_for_writing(self, path: str, mode: OpenMode = OpenMode.EXISTING) -> File:
        """Open a file whose calls are intercepted."""
        call = Call(kind=CallKind.OPEN_FOR_WRITING, path=path, mode=mode, file=self.next_number())
        return _InterceptedFile(self, self.intercept(call, lambda: self._inner.open_for_writing(path, mode)), call)

    def listdir(self, path: str) -> tuple[str, ...]:
        """Return the names in a directory."""
        return self.intercept(Call(kind=CallKind.LISTDIR, path=path), lambda: self._inner.listdir(path))

    def kind(self, path: str) -> EntryKind:
        """Return the kind of the entry at a path."""
        return self.intercept(Call(kind=CallKind.KIND, path=path), lambda: self._inner.kind(path))

    def own_kind(self, path: str) -> EntryKind:
        """Return the kind of the entry itself; the simulated disk has no links, so it is the same call there."""
        return self.intercept(Call(kind=CallKind.KIND, path=path), lambda: self._inner.own_kind(path))

    def take_permissions(self, source_path: str, target_path: str) -> None:
        """Do nothing: no simulated file has permissions, and no reader sees those of a real one."""

    def mkdir(self, path: str) -> None:
        """Make a directory."""
        self.intercept(Call(kind=CallKind.MKDIR, path=path), lambda: self._inner.mkdir(path))

    def rmdir(self, path: str) -> None:
        """Remove a directory."""
        self.intercept(Call(kind=CallKind.RMDIR, path=path), lambda: self._inner.rmdir(path))

    def rename(self, source_path: str, target_path: str) -> None:
        """Move an entry."""
        call = Call(kind=CallKind.RENAME, path=source_path, target_path=target_path)
        self.intercept(call, lambda: self._inner.rename(source_path, target_path))

    def link(self, source_path: str, target_path: str) -> None:
        """Give a file a second name."""
        call = Call(kind=CallKind.LINK, path=source_path, target_path=target_path)
        self.intercept(call, lambda: self._inner.link(source_path, target_path))

    def unlink(self, path: str) -> None:
        """Remove a name."""
        self.intercept(Call(kind=CallKind.UNLINK, path=path), lambda: self._inner.unlink(path))

    def sync_directory(self, path: str) -> None:
        """Make names durable."""
        self.intercept(Call(kind=CallKind.SYNC_DIRECTORY, path=path), lambda: self._inner.sync_directory(path))

    def load_fence(self) -> None:
        """Order loads."""
        self.intercept(Call(kind=CallKind.LOAD_FENCE, path=""), self._inner.load_fence)

    def store_fence(self) -> None:
        """Order stores."""
        self.intercept(Call(kind=CallKind.STORE_FENCE, path=""), self._inner.store_fence)

    def monotonic_seconds(self) -> float:
        """Return the inner storage's time."""
        return self.intercept(Call(kind=CallKind.CLOCK, path=""), self._inner.monotonic_seconds)

    def sleep_seconds(self, duration_seconds: float) -> None:
        """Let the inner storage's time pass."""
        self.intercept(Call(kind=CallKind.SLEEP, path=""), lambda: self._inner.sleep_seconds(duration_seconds))

    def wait_for_lock(self, path: str) -> None:
        """Let others go on before a lock of a file is tried again."""
        self.sleep_seconds(LOCK_PAUSE_SECONDS)

    def mapped_by(self, path: str) -> tuple[str, ...]:
        """Return what the inner storage sees."""
        return self._inner.mapped_by(path)

    def counters(self) -> Counters:
        """Return the inner storage's counts."""
        return self._inner.counters()


class _Opened:
    """What files and mappings have in common: every call has the numbers of the call that opened them."""

    def __init__(self, storage: InterceptedStorage, opening: Call) -> None:
        self._storage = storage
        self._opening = opening

    def _call(self, kind: CallKind, offset_bytes: int = 0, size_bytes: int = 0, content: bytes = b"") -> Call:
        path, file, mapping = self._opening.path, self._opening.file, self._opening.mapping
        # By position, because most calls are made here.
        return Call(kind, path, file, offset_bytes, size_bytes, content, "", OpenMode.EXISTING, mapping)

    def _let(
        self, run: Run[Answer], kind: CallKind, offset_bytes: int = 0, size_bytes: int = 0, content: bytes = b""
    ) -> Answer:
        return self._storage.intercept(self._call(kind, offset_bytes, size_bytes, content), run)


class _InterceptedFile(_Opened, File):
    def __init__(self, storage: InterceptedStorage, inner: File, opening: Call) -> None:
        super().__init__(storage, opening)
        self._inner = inner

    def pread(self, size_bytes: int, offset_bytes: int) -> bytes:
        assert size_bytes >= 0 and offset_bytes >= 0
        return self._let(lambda: self._inner.pread(size_bytes, offset_bytes), CallKind.PREAD, offset_bytes, size_bytes)

    def size_bytes(self) -> int:
        return self._let(self._inner.size_bytes, CallKind.SIZE)

    def pwrite(self, content: bytes | bytearray | memoryview, offset_bytes: int) -> None:
        written = bytes(content)
        assert 0 <= offset_bytes < OFFSET_BYTES_END - len(written)
        call = self._call(CallKind.PWRITE, offset_bytes, len(written), written)
        self._storage.intercept_write(self._inner, call, lambda: self._inner.pwrite(written, offset_bytes))

    def truncate(self, size_bytes: int) -> None:
        assert 0 <= size_bytes < OFFSET_BYTES_END
        self._let(lambda: self._inner.truncate(size_bytes), CallKind.TRUNCATE, 0, size_bytes)

    def map(self, size_bytes: int) -> Mapping:
        assert size_bytes > 0
        call = self._call(CallKind.MAP, 0, size_bytes)._replace(mapping=self._storage.next_number())
        inner = self._storage.intercept(call, lambda: self._inner.map(size_bytes))
        is_writable = self._opening.kind is CallKind.OPEN_FOR_WRITING
        return _InterceptedMapping(self._storage, inner, call, is_writable=is_writable)

    def fsync(self) -> None:
        self._let(self._inner.fsync, CallKind.FSYNC)

    def fdatasync(self) -> None:
        self._let(self._inner.fdatasync, CallKind.FDATASYNC)

    def try_lock(self, mode: LockMode, *, offset_bytes: int, size_bytes: int) -> bool:
        call = self._call_on_range(CallKind.LOCK, offset_bytes, size_bytes)._replace(lock=mode)
        return self._storage.intercept(
            call, lambda: self._inner.try_lock(mode, offset_bytes=offset_bytes, size_bytes=size_bytes)
        )

    def lock(self, mode: LockMode, *, offset_bytes: int, size_bytes: int) -> None:
        while not self.try_lock(mode, offset_bytes=offset_bytes, size_bytes=size_bytes):
            self._storage.wait_for_lock(self._opening.path)

    def unlock(self, *, offset_bytes: int, size_bytes: int) -> None:
        call = self._call_on_range(CallKind.UNLOCK, offset_bytes, size_bytes)
        self._storage.intercept(call, lambda: self._inner.unlock(offset_bytes=offset_bytes, size_bytes=size_bytes))

    def _call_on_range(self, kind: CallKind, offset_bytes: int, size_bytes: int) -> Call:
        assert size_bytes > 0 and offset_bytes >= 0 and offset_bytes + size_bytes <= OFFSET_BYTES_END
        return self._call(kind, offset_bytes, size_bytes)

    def close(self) -> None:
        self._let(self._inner.close, CallKind.CLOSE)


class _InterceptedMapping(_Opened, Mapping):
    def __init__(self, storage: InterceptedStorage, inner: Mapping, mapping: Call, *, is_writable: bool) -> None:
        super().__init__(storage, mapping)
        self._inner = inner
        self._is_writable = is_writable

    def load_u32(self, offset_bytes: int) -> int:
        return self._let_word(lambda: self._inner.load_u32(offset_bytes), CallKind.LOAD, offset_bytes, 4)

    def load_u64(self, offset_bytes: int) -> int:
        return self._let_word(lambda: self._inner.load_u64(offset_bytes), CallKind.LOAD, offset_bytes, 8)

    def store_u32(self, offset_bytes: int, value: int) -> None:
        self._store(lambda: self._inner.store_u32(offset_bytes, value), offset_bytes, 4, value)

    def store_u64(self, offset_bytes: int, value: int) -> None:
        self._store(lambda: self._inner.store_u64(offset_bytes, value), offset_bytes, 8, value)

    def _store(self, run: Run[None], offset_bytes: int, size_bytes: int, value: int) -> None:
        assert self._is_writable and 0 <= value < 1 << size_bytes * 8
        self._let_word(run, CallKind.STORE, offset_bytes, size_bytes, value.to_bytes(size_bytes, "little"))

    def _let_word(
        self, run: Run[Answer], kind: CallKind, offset_bytes: int, size_bytes: int, content: bytes = b""
    ) -> Answer:
        assert offset_bytes % size_bytes == 0
        return self._let_range(run, kind, offset_bytes, size_bytes, content)

    def _let_range(
        self, run: Run[Answer], kind: CallKind, offset_bytes: int, size_bytes: int, content: bytes = b""
    ) -> Answer:
        assert size_bytes >= 0 and 0 <= offset_bytes <= self._opening.size_bytes - size_bytes
        return self._let(run, kind, offset_bytes, size_bytes, content)

    def read(self, size_bytes: int, offset_bytes: int) -> bytes:
        return self._let_range(
            lambda: self._inner.read(size_bytes, offset_bytes), CallKind.READ_MAPPED, offset_bytes, size_bytes
        )

    @contextmanager
    def view(self, size_bytes: int, offset_bytes: int) -> Iterator[memoryview]:
        lease: AbstractContextManager[memoryview] = self._let_range(
            lambda: self._inner.view(size_bytes, offset_bytes), CallKind.VIEW, offset_bytes, size_bytes
        )
        with lease as leased:
            yield leased
        self._let(lambda: None, CallKind.END_VIEW, offset_bytes, size_bytes)

    def msync(self) -> None:
        self._let(self._inner.msync, CallKind.MSYNC)

    def unmap(self) -> None:
        self._let(self._inner.unmap, CallKind.UNMAP)


class _Nobody:
    """In place of a storage, a file or a mapping; nothing of it is ever called."""

    def __getattr__(self, name: str) -> _Nobody:
        return self


NOBODY: Any = _Nobody()
"""Stands below a storage that answers every call itself."""
