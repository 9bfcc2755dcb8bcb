"""A storage over a kernel of its own, for whoever needs a disk in memory and explores no order of calls."""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tornproof.harness.simulator.filesystem import kernel_names
from tornproof.harness.simulator.filesystem.file_state import FileState
from tornproof.harness.simulator.filesystem.image import NAME_BYTES_MAX, DiskImage, is_usable
from tornproof.harness.simulator.filesystem.intercept import (
    BARRIERS,
    NOBODY,
    Answer,
    Call,
    CallKind,
    InterceptedStorage,
)
from tornproof.harness.simulator.filesystem.kernel import (
    BusFault,
    CallRejectedError,
    Kernel,
    Rejected,
    entries_of,
    given,
)
from tornproof.harness.simulator.filesystem.kernel_calls import apply
from tornproof.harness.simulator.filesystem.step_bound import CLOCK_TICK_SECONDS, CallCount, EndlessError
from tornproof.impl.errors import StorageError
from tornproof.impl.storage.interface import Counters, EntryKind, File, OpenMode, StorageReason
from tornproof.impl.storage.operating_system_file import Tally

_AT_PATHS = frozenset(kernel_names.EFFECTS)
_FOLLOWING = {CallKind.OPEN_FOR_READING, CallKind.LISTDIR, CallKind.KIND, CallKind.SYNC_DIRECTORY}
_OPENINGS = {CallKind.OPEN_FOR_READING, CallKind.OPEN_FOR_WRITING, CallKind.MAP}
_READS = {CallKind.PREAD, CallKind.LOAD, CallKind.READ_MAPPED, CallKind.VIEW}
_WRITES = {CallKind.PWRITE, CallKind.STORE}
_MAPPED = {CallKind.LOAD, CallKind.STORE, CallKind.READ_MAPPED, CallKind.VIEW}
_NOT_COUNTED = {CallKind.CLOCK, CallKind.SLEEP, CallKind.END_VIEW}
_NOT_THERE = (StorageReason.MISSING, StorageReason.NOT_A_DIRECTORY)
LINKS_MAX = 40
"""As many symbolic links as Linux follows for one path."""


class Killed(BaseException):
    """The session that made this call is dead; not an `Exception`, so that no implementation can catch it and go on."""


class _SymbolicLink(FileState):
    """A file whose content is the absolute path that it leads to."""

    __slots__ = ()


@dataclass(slots=True, eq=False)
class _Lease:
    """The buffer of a view, which sees later writes."""

    owner: tuple[int, int]
    file: int
    start_bytes: int
    buffer: bytearray


@dataclass(slots=True)
class _Disk:
    """What the sessions on one disk share."""

    kernel: Kernel
    now_seconds: float = 0.0
    session_count: int = 0
    leases: list[_Lease] = field(default_factory=list)
    mapped_by: dict[str, tuple[str, ...]] = field(default_factory=dict)


class MemoryStorage(InterceptedStorage):
    """One session on a disk in memory; everything is durable at once, and the clock moves only when a caller sleeps."""

    def __init__(self, *, _disk: _Disk | None = None, _calls: CallCount | None = None) -> None:
        """Start with an empty disk."""
        super().__init__(NOBODY)
        self._disk = _disk or _Disk(Kernel.of(DiskImage()))
        self._kernel, self._number = self._disk.kernel, self._disk.session_count
        self._disk.session_count += 1
        self._calls = _calls
        self._tally = Tally()
        self._is_dead = False

    @classmethod
    def of(cls, image: DiskImage) -> MemoryStorage:
        """Start from the files and directories of an image, without copying their content.

        Raises `StorageError` for an image with files above its working directory.
        """
        above = [path for path in image.files if path.startswith("../")]
        if above:
            raise StorageError(
                file=min(above), operation="keep it in memory", reason="it is above the working directory"
            )
        return cls(_disk=_Disk(Kernel.of(image)))

    def _on(self, disk: _Disk) -> MemoryStorage:
        return MemoryStorage(_disk=disk, _calls=None if self._calls is None else CallCount())

    def image(self) -> DiskImage:
        """Return an immutable copy of the current content, without symbolic links."""
        image = self._kernel.image()
        for path, number in self._kernel.paths():
            if self._is_link(number):
                image = image.without_file(path)
        return image

    def copy(self) -> MemoryStorage:
        """Return another disk with the current content: no open files, no locks, a clock at zero.

        Content is shared until either disk writes.
        """
        kernel = Kernel()
        kernel.directories, kernel.numbers = self._kernel.directories, self._kernel.numbers.copy()
        kernel.files = {number: self._kernel.files[number] for _, number in self._kernel.paths()}
        return self._on(_Disk(kernel))

    def digest(self) -> bytes:
        """Return a digest of the disk: names, bytes, and which names are one file."""
        numbers: dict[int, int] = {}
        total = hashlib.blake2b(digest_size=16)
        for path, number in sorted(entries_of(self._kernel.directories)):
            total.update(path.encode("utf-8", "surrogateescape") + b"\0")
            state = self._kernel.files.get(number)
            if state is not None:
                kind = b"-> " if self._is_link(number) else b""
                total.update(b"%s%d " % (kind, numbers.setdefault(number, len(numbers))) + state.digest())
        return total.digest()

    @property
    def is_locked(self) -> bool:
        """Whether any process holds a lock."""
        return any(self._kernel.locks.values())

    def fork_process(self) -> MemoryStorage:
        """Return another process on the same disk, with counters of its own."""
        return self._on(self._disk)

    def bounded(self) -> MemoryStorage:
        """Return another process on the same disk; its calls, and those of all that is made from it, are bounded.

        One that makes too many ends with EndlessError. Looking at the clock takes time in it.
        """
        return MemoryStorage(_disk=self._disk, _calls=CallCount())

    def kill_process(self) -> None:
        """End this process without closing anything: its locks are gone, and every further call raises `Killed`."""
        self._is_dead = True
        self._kernel.kill(self._number)

    def intercept(self, call: Call, run: Callable[[], Answer]) -> Answer:
        """Make the call on the kernel."""
        opened, mapped = (self._number, call.file), (self._number, call.mapping)
        if call.kind is CallKind.END_VIEW or (call.kind is CallKind.CLOSE and not self._is_open(opened)):
            return None  # type: ignore[return-value]
        self._count(call)
        if call.kind in _MAPPED and mapped not in self._kernel.mappings:
            raise ValueError("the mapping is released")
        if call.kind is CallKind.UNMAP:
            assert all(lease.owner != mapped for lease in self._disk.leases)
        answer = self._made(call)
        if call.kind in _READS:
            self._tally.read_bytes += call.size_bytes if call.kind is CallKind.LOAD else len(answer)
        if call.kind in _WRITES:
            self._tally.written_bytes += len(call.content)
        if call.kind is CallKind.VIEW:
            answer = self._leased(call, answer)
        return NOBODY if call.kind in _OPENINGS else answer  # type: ignore[no-any-return]

    def _is_open(self, opened: tuple[int, int]) -> bool:
        return self._is_dead or opened in self._kernel.handles

    def intercept_write(self, file: File, call: Call, run: Callable[[], None]) -> None:
        """Write, if there is anything to write."""
        if call.content:
            self.intercept(call, run)
        else:
            self._count(call)

    def repeat(self, step: Call) -> None:
        """Make a step that was recorded on a disk that held the same."""
        if step.kind is CallKind.OPEN_FOR_WRITING:
            step = step._replace(mode=OpenMode.EXISTING_OR_NEW)
        if step.kind is CallKind.STORE:  # the steps have no mappings
            step = step._replace(kind=CallKind.PWRITE)
        if step.kind not in BARRIERS:
            self._made(step)

    def own_kind(self, path: str) -> EntryKind:
        """Return the kind of the entry itself."""
        call = Call(kind=CallKind.KIND, path=path)
        self._count(call)
        found: EntryKind = self._made(call, follows=False)
        is_link = found is EntryKind.FILE and self._is_link(self._kernel.find(self._walk(path, follows=False)))
        return EntryKind.LINK if is_link else found

    def link_symbolically(self, target_path: str, path: str) -> None:
        """Put a symbolic link at `path` to an absolute path; no process makes one, so the interface has no call."""
        assert target_path.startswith("/")
        self.open_for_writing(path, OpenMode.NEW).close()
        self._kernel.files[self._kernel.entry(path)] = _SymbolicLink(os.fsencode(target_path))

    def monotonic_seconds(self) -> float:
        """Return how long all processes on this disk have slept."""
        self._count(Call(kind=CallKind.CLOCK, path=""))
        if self._calls is not None:
            self._disk.now_seconds += self._calls.lasting_seconds(CLOCK_TICK_SECONDS)
        return self._disk.now_seconds

    def sleep_seconds(self, duration_seconds: float) -> None:
        """Move the clock without waiting."""
        assert duration_seconds >= 0
        self._count(Call(kind=CallKind.SLEEP, path=""))
        calls = self._calls
        self._disk.now_seconds += duration_seconds if calls is None else calls.lasting_seconds(duration_seconds)

    def wait_for_lock(self, path: str) -> None:
        """Give up: nobody can release it meanwhile, so waiting for it would have no end."""
        raise EndlessError(f"it waits for the lock of {path}")

    def mapped_by(self, path: str) -> tuple[str, ...]:
        """Return whoever `serve` was called for."""
        return self._disk.mapped_by.get(path, ())

    def serve(self, path: str, process: str) -> None:
        """Let a process that is not one of this disk's map a file."""
        self._disk.mapped_by[path] = (*self.mapped_by(path), process)

    def counters(self) -> Counters:
        """Return the counts of this session."""
        tally = self._tally
        return Counters(
            step_count=tally.step_count,
            read_bytes=tally.read_bytes,
            written_bytes=tally.written_bytes,
            sync_count=tally.sync_count,
        )

    def _count(self, call: Call) -> None:
        """Count a call; raises `Killed` if the session is dead, and EndlessError for a call too many."""
        if self._is_dead:
            raise Killed
        if self._calls is not None:
            self._calls.add(call)
        self._tally.step_count += call.kind not in _NOT_COUNTED
        self._tally.sync_count += call.kind in BARRIERS

    def _made(self, call: Call, *, follows: bool | None = None) -> Any:
        """Make a call, and make what it changes durable, so that nothing is kept of what was there before."""
        kernel, placed = self._kernel, call
        if call.kind in _AT_PATHS:
            try:
                placed = self._placed(call, call.kind in _FOLLOWING if follows is None else follows)
            except CallRejectedError as rejected:
                if call.kind is CallKind.KIND and rejected.reason in _NOT_THERE:
                    return EntryKind.MISSING
                return given(call, Rejected(rejected.reason))
        if call.kind is CallKind.VIEW:
            placed = call._replace(kind=CallKind.READ_MAPPED)
        answer = given(call, apply(kernel, self._number, placed))
        kernel.entry_changes = ()
        if call.content or call.kind is CallKind.TRUNCATE:
            number = kernel.file_of(self._number, call)
            assert number is not None
            kernel.files[number] = state = kernel.files[number].synced()
            for lease in self._disk.leases:
                if lease.file == number:
                    left = state.content[lease.start_bytes : lease.start_bytes + len(lease.buffer)]
                    lease.buffer[: len(left)] = left
        return answer

    @contextmanager
    def _leased(self, call: Call, content: bytes) -> Iterator[memoryview]:
        owner = self._number, call.mapping
        lease = _Lease(owner, self._kernel.mappings[owner].file, call.offset_bytes, bytearray(content))
        self._disk.leases.append(lease)
        view = memoryview(lease.buffer).toreadonly()
        try:
            yield view
            # Accesses through a view cannot be seen; if the file was truncated meanwhile, one is assumed.
            if call.offset_bytes + call.size_bytes > len(self._kernel.files[lease.file].content):
                given(call, BusFault(call.offset_bytes + call.size_bytes - 1))
        finally:
            self._disk.leases.remove(lease)
            with suppress(BufferError):  # another view of it keeps the bytes, which is harmless here
                view.release()

    def _is_link(self, number: int | None) -> bool:
        return number is not None and isinstance(self._kernel.files.get(number), _SymbolicLink)

    def _placed(self, call: Call, follows: bool) -> Call:
        """Return a call with its paths as the kernel has them; raises CallRejectedError."""
        if not (is_usable(call.path) and is_usable(call.target_path)):
            raise CallRejectedError(StorageReason.NAME_UNUSABLE)
        is_looking = follows or call.kind is CallKind.KIND
        path = self._walk(call.path, follows=follows) if is_looking else self._name_at(call.path)
        target_path = call.target_path
        if call.kind is CallKind.LINK:
            # A system looks for what it links before it looks where to, and for what it renames after that.
            self._kernel.entry(path)
        if call.kind in (CallKind.RENAME, CallKind.LINK):
            target_path = self._name_at(target_path)
        is_link = call.kind is CallKind.OPEN_FOR_WRITING and self._is_link(self._kernel.find(path))
        if is_link and call.mode is not OpenMode.NEW:
            raise CallRejectedError(StorageReason.LINK_NOT_FOLLOWED)
        is_same = (path, target_path) == (call.path, call.target_path)
        return call if is_same else call._replace(path=path, target_path=target_path)

    def _name_at(self, path: str) -> str:
        """Return a path that a call changes: the last name as it is, where its directory leads."""
        if not path:
            raise CallRejectedError(StorageReason.MISSING)
        named = path.rstrip("/")
        directory, slash, name = named.rpartition("/")
        if slash:
            at = self._walk(directory or "/", follows=True)
            if self._kernel.entry(at) not in self._kernel.directories:
                raise CallRejectedError(StorageReason.NOT_A_DIRECTORY)
            path = posixpath.join(at, name) + path[len(named) :]
        if len(os.fsencode(name)) > NAME_BYTES_MAX:
            raise CallRejectedError(StorageReason.NAME_TOO_LONG)
        return path

    def _walk(self, path: str, *, follows: bool, link_count: int = 0) -> str:
        """Return where a path leads, without dots, empty names and links; raises CallRejectedError."""
        number = self._kernel.find(path) if path else None
        if number is not None and not (follows and self._is_link(number)):
            return path
        if not path:
            raise CallRejectedError(StorageReason.MISSING)
        at = "/" if path.startswith("/") else "."
        for name in path.split("/"):
            at = self._followed(at, link_count)
            if self._kernel.entry(at) not in self._kernel.directories:
                raise CallRejectedError(StorageReason.NOT_A_DIRECTORY)
            if len(os.fsencode(name)) > NAME_BYTES_MAX:
                raise CallRejectedError(StorageReason.NAME_TOO_LONG)
            at = posixpath.normpath(posixpath.join(at, name))
        return self._followed(at, link_count) if follows else at

    def _followed(self, path: str, link_count: int) -> str:
        number = self._kernel.find(path)
        if number is None or not self._is_link(number):
            return path
        if link_count == LINKS_MAX:
            raise CallRejectedError(StorageReason.LINK_NOT_FOLLOWED)
        return self._walk(os.fsdecode(self._kernel.files[number].content), follows=True, link_count=link_count + 1)
