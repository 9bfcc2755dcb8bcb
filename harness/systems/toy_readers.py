"""Toys that are each wrong in one way while a reader reads beside the writer: controls of what schedules are judged by.

`ToyRules` are rules for their single steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle

from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import Kernel
from tornproof.harness.simulator.process.trace_rules import Broken, TraceRules
from tornproof.harness.systems.toy import HEADER_BYTES, Toy, ToyWriter
from tornproof.impl.errors import BusyError
from tornproof.impl.storage.interface import EntryKind, File, LockMode, OpenMode, Storage

STATE, CLOSING = "state", ("late", "later", "last")


class Counter(Toy):
    """Sound: the number of letters, overwritten in place by one step."""

    name = "counter"

    def create(self, storage: Storage, path: str) -> None:
        """Start with no letters."""
        storage.mkdir(path)
        with storage.open_for_writing(f"{path}/{STATE}", OpenMode.NEW) as file:
            file.pwrite(bytes(HEADER_BYTES), 0)

    def read(self, storage: Storage, path: str) -> bytes:
        """Return as many letters as there are."""
        with storage.open_for_reading(f"{path}/{STATE}") as file:
            return b"x" * self.count_in(file)

    def count_in(self, file: File) -> int:
        """Return the number."""
        return int.from_bytes(file.pread(HEADER_BYTES, 0), "little")

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Overwrite the number."""
        with storage.open_for_writing(f"{path}/{STATE}") as file:
            count = int.from_bytes(file.pread(HEADER_BYTES, 0), "little") + len(operation)
            file.pwrite(count.to_bytes(HEADER_BYTES, "little"), 0)
            self.sync(file)


class GoesBack(Counter):
    """Broken: every second read returns what there was when the reader began."""

    name = "goes back"

    @contextmanager
    def open_reader(self, storage: Storage, path: str, style: str) -> Iterator[Callable[[], bytes]]:
        """Keep the first letters."""
        first = self.read(storage, path)
        reads: Iterator[Callable[[], bytes]] = cycle((partial(self.read, storage, path), lambda: first))
        yield lambda: next(reads)()


class FollowsBack(GoesBack):
    """Broken: goes back in the style "follow" alone."""

    name = "goes back when it follows"

    @contextmanager
    def open_reader(self, storage: Storage, path: str, style: str) -> Iterator[Callable[[], bytes]]:
        """Read rightly, or as the toy that goes back."""
        if style != "follow":
            yield partial(self.read, storage, path)
            return
        with super().open_reader(storage, path, style) as read:
            yield read


class ReadsEarly(Counter):
    """Broken: what a read returns was read before the read began, and it looks at nothing."""

    name = "reads early"

    @contextmanager
    def open_reader(self, storage: Storage, path: str, style: str) -> Iterator[Callable[[], bytes]]:
        """Read once, before anybody asks."""
        letters = self.read(storage, path)
        yield lambda: letters


class LocksAndReadsEarly(ReadsEarly):
    """Broken: reads early, and when it is asked it locks, fences and unlocks, which looks at nothing either."""

    name = "locks and reads early"

    @contextmanager
    def open_reader(self, storage: Storage, path: str, style: str) -> Iterator[Callable[[], bytes]]:
        """Open the file that is locked later."""
        with storage.open_for_reading(f"{path}/{STATE}") as file, super().open_reader(storage, path, style) as read:

            def locked() -> bytes:
                file.lock(LockMode.SHARED, offset_bytes=0, size_bytes=1)
                storage.load_fence()
                file.unlock(offset_bytes=0, size_bytes=1)
                return read()

            yield locked


class LeasesInPlace(Counter):
    """Broken: overwrites what readers have leased."""

    name = "leases in place"

    def count_in(self, file: File) -> int:
        """Lease the number."""
        with file.map(HEADER_BYTES) as mapping, mapping.view(HEADER_BYTES, 0) as view:
            return int.from_bytes(view, "little")


class KeptOut(Counter):
    """Broken: a reader's lock makes a commit fail, or where it `fails_at_once`, the writer when it is opened."""

    def __init__(self, *, fails_at_once: bool) -> None:
        """Lock in one place only."""
        self.name = "kept out at once" if fails_at_once else "kept out"
        self._fails_at_once = fails_at_once

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        """Try the lock."""
        if self._fails_at_once:
            self._try_lock(storage, path)
        yield ToyWriter(self, storage, path)

    def count_in(self, file: File) -> int:
        """Read under a lock."""
        file.try_lock(LockMode.SHARED, offset_bytes=0, size_bytes=1)
        return super().count_in(file)

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        """Try the lock first."""
        if not self._fails_at_once:
            self._try_lock(storage, path)
        super().commit(storage, path, operation)

    def _try_lock(self, storage: Storage, path: str) -> None:
        with storage.open_for_writing(f"{path}/{STATE}") as file:
            if not file.try_lock(LockMode.EXCLUSIVE, offset_bytes=0, size_bytes=1):
                raise BusyError("a reader is there")


class ShowsLate(Counter):
    """Broken: announces letters that readers see only when the writer is closed.

    A reduced search runs no order in which a read begins after an acknowledgement, as neither depends on the other.
    """

    name = "shows late"

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        """Write all letters at the end."""
        writer = _AnnouncingWriter(self, storage, path)
        yield writer
        for name in CLOSING:
            writer.announce(name)
        super().commit(storage, path, writer.letters)

    def read(self, storage: Storage, path: str) -> bytes:
        """Look at something else before what is announced."""
        storage.kind(f"{path}/nothing")
        storage.listdir(path)
        return super().read(storage, path)


class _AnnouncingWriter(ToyWriter):
    letters = b""

    def commit(self, operation: bytes) -> None:
        self.announce("begun")
        self.announce("done")
        self.letters += operation

    def announce(self, name: str) -> None:
        storage, path = self._at
        storage.open_for_writing(f"{path}/{name}", OpenMode.EXISTING_OR_NEW).close()


class Panics(Toy):
    """Broken: a reader does not expect the file that is to become the state."""

    name = "panics"

    def read(self, storage: Storage, path: str) -> bytes:
        """Return all letters."""
        if storage.kind(f"{path}/new") is EntryKind.FILE:
            raise LookupError("a mistake")
        return super().read(storage, path)


class ToyRules(TraceRules):
    """Nobody writes into the state of a toy, and all of it is on disk when a commit is acknowledged."""

    def before(self, kernel: Kernel, call: Call) -> Broken | None:
        """Judge a write."""
        if call.kind is CallKind.PWRITE and call.path.endswith(f"/{STATE}"):
            return Broken(True, f"{call.kind} {call.path}")
        return None

    def acknowledged(self, kernel: Kernel) -> Broken | None:
        """Compare the state with what may be left of it."""
        number = kernel.find(f"toy/{STATE}")
        if number is None or all(version == kernel.files[number].content for version in kernel.files[number].versions):
            return None
        return Broken(False, "a commit is acknowledged before it is on disk")
