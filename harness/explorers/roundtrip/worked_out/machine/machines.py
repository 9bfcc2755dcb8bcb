"""What machines have: fences by processors, syncs by systems, permissions of what is made, and names of no file."""

from __future__ import annotations

import errno
import functools
import itertools
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from tornproof.harness.common.patch import replaced
from tornproof.harness.common.whose_error import the_only
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask, outcome_of
from tornproof.impl.storage.fences import fence_of
from tornproof.impl.storage.interface import File, LockMode, OpenMode
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.storage.operating_system_file import sync_to_disk

ORDERED = ("x86_64", "AMD64", "i386", "i686")
"""Processors that keep the order of loads, and of stores, so that nothing is asked of the system."""
SYSTEM_CALLS = {"aarch64": 283, "riscv64": 283, "loongarch64": 283, "ppc64le": 365, "armv7l": None, "unknown": None}
"""The number of Linux's barrier on others, where it is known."""
COMMANDS = (-1, 0, 1, 2, 8, 9, 0x1FE, 0x1FF)
"""Which commands of the barrier a system has, of which the first bit is that of the one for all processors."""
UNUSABLE_NAMES = ("a\0b", "\ud800")
CALLS: dict[str, Callable[[OperatingSystemStorage, str], Any]] = {
    "a read of": lambda storage, path: storage.open_for_reading(path),
    "a write to": lambda storage, path: storage.open_for_writing(path, OpenMode.NEW),
    "a list of": lambda storage, path: storage.listdir(path),
    "a look at": lambda storage, path: storage.kind(path),
    "a new directory": lambda storage, path: storage.mkdir(path),
    "a removal of": lambda storage, path: storage.unlink(path),
    "a removal of the directory": lambda storage, path: storage.rmdir(path),
    "another name of": lambda storage, path: storage.rename(path, "other"),
    "a link to": lambda storage, path: storage.link(path, "other"),
    "a sync of": lambda storage, path: storage.sync_directory(path),
}
FAILING: dict[str, dict[str, Callable[[OperatingSystemStorage, str, File], Any]]] = {
    "open": {
        "a read of": lambda storage, path, _: storage.open_for_reading(f"{path}/file"),
        "a sync of a directory": lambda storage, path, _: storage.sync_directory(path),
    },
    "fsync": {
        "a sync of a directory": lambda storage, path, _: storage.sync_directory(path),
        "a sync of a file": lambda _, __, file: file.fsync(),
    },
    "fdatasync": {"a sync of what is in a file": lambda _, __, file: file.fdatasync()},
    "pread": {"a read of a file": lambda _, __, file: file.pread(1, 0)},
    "pwrite": {"a write to a file": lambda _, __, file: file.pwrite(b"x", 0)},
    "ftruncate": {"a truncation": lambda _, __, file: file.truncate(1)},
    "listdir": {"a list of names": lambda storage, path, _: storage.listdir(path)},
    "mkdir": {"a new directory": lambda storage, path, _: storage.mkdir(f"{path}/new")},
    "rmdir": {"the removal of a directory": lambda storage, path, _: storage.rmdir(f"{path}/empty")},
    "rename": {"a rename": lambda storage, path, _: storage.rename(f"{path}/file", f"{path}/other")},
    "link": {"a link": lambda storage, path, _: storage.link(f"{path}/file", f"{path}/other")},
    "unlink": {"the removal of a file": lambda storage, path, _: storage.unlink(f"{path}/file")},
}
SYSTEM_FILES = "tornproof.impl.storage.operating_system_file"
MASKS = (0o000, 0o002, 0o022, 0o077)


def machines() -> Iterator[Question]:
    """Yield fences of processors, permissions under masks, and what there is in place of a file."""
    for machine, commands in itertools.product((*ORDERED, *SYSTEM_CALLS), COMMANDS):
        number = SYSTEM_CALLS.get(machine)
        is_there = number is not None and commands > 0 and commands % 2 == 1
        barrier = [(number, 0, 0, 0), (number, 1, 0, 0)] if is_there else None
        for answer, passed in ((0, barrier), (-1, barrier and "OSError")):
            words = f"what a fence of {machine} asks of a system with the commands {commands}, which answers {answer}"
            yield ask("fences", words, [] if machine in ORDERED else passed, _fence, machine, commands, answer)
    words = "what a fence of aarch64 asks of another system than Linux"
    yield ask("fences", words, None, _fence, "aarch64", 1, 0, system="darwin")
    fences: dict[str, Callable[[OperatingSystemStorage], None]] = {
        "loads": OperatingSystemStorage.load_fence,
        "stores": OperatingSystemStorage.store_fence,
    }
    for (ordered, order), error in itertools.product(fences.items(), (None, errno.EPERM)):
        words = f"what comes of a fence of {ordered} that the system answers with {error}"
        yield ask("fences", words, "StorageError" if error else 1, _ordered, order, error)
    # Other systems have no such locks.
    for unlocked in ((), (0,), (1,), (0, 1), (1, 0)) if sys.platform == "linux" else ():
        words = (
            f"which of two ranges are locked, of which {[*unlocked]} were unlocked, before and after the file is closed"
        )
        found = functools.partial(_locked_ranges, unlocked)
        yield Question("locks", words, found, [[each not in unlocked for each in range(2)], [False, False]])
    for mask in MASKS:
        expected = {"directory": 0o777 & ~mask, "file": 0o666 & ~mask}
        words = f"the permissions of what is made where the mask is {mask:03o}"
        yield ask("permissions", words, expected, _permissions, mask)
    for system, error, calls in (
        ("linux", None, ["fsync"]),
        ("darwin", None, ["F_FULLFSYNC"]),
        ("darwin", errno.ENOTSUP, ["F_FULLFSYNC", "fsync"]),
        ("darwin", errno.EIO, ["F_FULLFSYNC", "fsync"]),
    ):
        words = f"how a file is synced on {system}, where a sync of the whole disk ends in error {error}"
        yield ask("syncs", words, calls, _synced, system, error)
    opened: dict[str, Callable[[OperatingSystemStorage, str], Any]] = {
        "read": lambda storage, path: storage.open_for_reading(path),
        "written": lambda storage, path: storage.open_for_writing(path),
        "written, or made": lambda storage, path: storage.open_for_writing(path, OpenMode.EXISTING_OR_NEW),
    }
    for words, call in opened.items():
        name = f"whether a pipe that is {words} is refused and waited for"
        yield ask("pipes", name, ("StorageError", []), _opened_pipe, call)

    for name, (words, call) in itertools.product(UNUSABLE_NAMES, CALLS.items()):
        yield ask("unusable names", f"what comes of {words} {name!r}", "StorageError", _called, call, name)


def failing_calls() -> Iterator[Question]:
    """Yield calls of the system that fail, and whether the call that makes them says so."""
    for (of_system, calls), error in itertools.product(FAILING.items(), (errno.EIO, errno.ENOSPC, errno.EDQUOT)):
        for words, call in calls.items():
            name = f"what comes of {words} where {of_system} ends in error {errno.errorcode[error]}"
            yield ask("failing calls", name, "StorageError", _failing, of_system, call, error)


def _failing(of_system: str, call: Callable[[OperatingSystemStorage, str, File], Any], error: int) -> Any:
    def fail(*_: Any, **__: Any) -> NoReturn:
        raise OSError(error, "it fails")

    with tempfile.TemporaryDirectory() as name:
        storage = OperatingSystemStorage()
        storage.mkdir(f"{name}/empty")
        with storage.open_for_writing(f"{name}/file", OpenMode.NEW) as file:
            file.pwrite(b"content", 0)
            with replaced(f"os:{of_system}", fail):
                return outcome_of(lambda: call(storage, name, file))


def _called(call: Callable[[OperatingSystemStorage, str], Any], name: str) -> Any:
    return outcome_of(lambda: call(OperatingSystemStorage(), name))


def _fence(machine: str, commands: int, answer: int, *, system: str = "linux") -> Any:
    """Return what is asked of the system by a fence and before it, None if there is no fence."""
    asked = list[tuple[int, ...]]()

    def system_call(*given: int) -> int:
        asked.append(given)
        return answer if given[1] else commands

    library = SimpleNamespace(syscall=system_call)
    with replaced("ctypes:CDLL", lambda *_, **__: library), replaced("sys:platform", system):
        fence = fence_of(machine)
        if fence is None:
            return None
        try:
            fence()
        except OSError as error:
            return type(error).__name__
    return asked


def _locked_ranges(unlocked: Sequence[int]) -> list[list[bool]]:
    """Return which ranges of a file another one finds locked, while it is open elsewhere, too, as after a fork."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/file"
        file = OperatingSystemStorage().open_for_writing(path, OpenMode.NEW)
        descriptors = Path("/proc/self/fd").iterdir()
        copy = os.dup(
            the_only(int(each.name) for each in descriptors if each.is_symlink() and str(each.readlink()) == path)
        )
        other = OperatingSystemStorage().open_for_writing(path)
        for each in range(2):
            file.try_lock(LockMode.EXCLUSIVE, offset_bytes=each, size_bytes=1)
        for each in unlocked:
            file.unlock(offset_bytes=each, size_bytes=1)

        def locked() -> list[bool]:
            return [not other.try_lock(LockMode.EXCLUSIVE, offset_bytes=each, size_bytes=1) for each in range(2)]

        found = [locked()]
        for each in range(2):
            other.unlock(offset_bytes=each, size_bytes=1)
        file.close()
        found.append(locked())
        os.close(copy)
        other.close()
    return found


def _ordered(order: Callable[[OperatingSystemStorage], None], error: int | None) -> Any:
    """Return how often the fence of this machine is called, or the error that comes of it."""
    calls = list[None]()

    def fence() -> None:
        calls.append(None)
        if error is not None:
            raise OSError(error, "not here")

    def ordered() -> int:
        order(OperatingSystemStorage())
        return len(calls)

    with replaced("tornproof.impl.storage.operating_system:fence_of_this_machine", lambda: fence):
        return outcome_of(ordered)


def _synced(system: str, error: int | None) -> list[str]:
    """Return the calls by which a file is synced."""
    calls = list[str]()

    def control(_: int, command: str) -> int:
        calls.append(command)
        if error is not None:
            raise OSError(error, "not here")
        return 0

    library = SimpleNamespace(fcntl=control, F_FULLFSYNC="F_FULLFSYNC")
    with (
        replaced("sys:platform", system),
        replaced(f"{SYSTEM_FILES}:fcntl", library),
        replaced("os:fsync", lambda _: calls.append("fsync")),
    ):
        sync_to_disk(0)
    return calls


def _permissions(mask: int) -> dict[str, int]:
    before = os.umask(mask)
    try:
        # The folder itself is made for its owner alone.
        with tempfile.TemporaryDirectory() as name:
            storage, directory, file = OperatingSystemStorage(), Path(name, "directory"), Path(name, "file")
            storage.mkdir(str(directory))
            storage.open_for_writing(str(file), OpenMode.NEW).close()
            return {each.name: each.stat().st_mode & 0o777 for each in (directory, file)}
    finally:
        os.umask(before)


def _opened_pipe(call: Callable[[OperatingSystemStorage, str], Any]) -> tuple[Any, list[str]]:
    """Return what comes of opening a pipe, and the names that were opened so that one waits for the other end."""
    waited, open_file = list[str](), os.open

    def opening(path: Any, flags: int, *more: Any, **settings: Any) -> int:
        if not flags & os.O_NONBLOCK:
            waited.append(Path(path).name)
        return open_file(path, flags | os.O_NONBLOCK, *more, **settings)

    with tempfile.TemporaryDirectory() as name:
        path = f"{name}/pipe"
        os.mkfifo(path)
        with replaced("os:open", opening):
            answer = outcome_of(lambda: call(OperatingSystemStorage(), path))
    return answer, waited
