"""What processes share: files, names, open files, mappings and locks, as one value that is cheap to copy.

What calls do to it is in `kernel_names` and `kernel_files`, what they access in `accesses`, and what a power cut leaves
of it in `persistence`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from tornproof.harness.simulator.filesystem.file_state import FileState
from tornproof.harness.simulator.filesystem.image import PATHS_REMEMBERED, DiskImage
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.impl.errors import FileMissingError, StorageError
from tornproof.impl.storage.interface import EntryKind, LockMode, StorageReason

ROOT = 0
NUMBERS_OF_A_SESSION = 1 << 20
NO_NAMES = frozenset({"", ".", ".."})
"""What may stand between two slashes, and is the name of no entry."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """An answer: the call failed, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class BusFault:
    """An answer that kills a process: it accessed a mapping beyond the end of the file."""

    offset_bytes: int


Answer: TypeAlias = bytes | int | bool | tuple[str, ...] | EntryKind | Rejected | BusFault | None


class Handle(NamedTuple):
    """An open file."""

    file: int
    is_writable: bool


class Mapped(NamedTuple):
    """The first bytes of a file in memory."""

    file: int
    size_bytes: int


class Lock(NamedTuple):
    """An advisory lock of an open file of a session."""

    session: int
    handle: int
    mode: LockMode
    start: int
    stop: int


class Lease(NamedTuple):
    """A range of a file that a session reads in place, without a copy."""

    session: int
    mapping: int
    file: int
    start: int
    stop: int


Entry: TypeAlias = tuple[int, str, int | None]
"""What a name in a directory leads to: its directory, the name, and a number, or None if it is removed."""
EntryChange: TypeAlias = tuple[Entry, ...]
"""The entries of one call: of a rename two, of others one."""


class Directories(dict[int, dict[str, int]]):
    """What each name leads to, by the number of its directory: never changed once a kernel has it, so kernels share it.

    `entries` and `lookups` cache what paths lead to and through, and `tree` what is derived from all names.
    """

    __slots__ = ("entries", "lookups", "tree")

    def __init__(self, names: Mapping[int, dict[str, int]]) -> None:
        """Copy the names, and know no paths yet."""
        super().__init__(names)
        self.entries: dict[str, int] = {".": ROOT}
        self.lookups: dict[str, tuple[Any, ...]] = {}
        self.tree: Any = None


class BusError(BaseException):
    """A mapping was accessed beyond the end of its file, which kills a real process, so it is not an `Exception`.

    A real machine is less strict: the rest of the last page can be accessed.
    """


class CallRejectedError(Exception):
    """A call fails."""

    def __init__(self, reason: str) -> None:
        """Keep the reason."""
        self.reason = reason


class Kernel:
    """Files and directories by number; open files and mappings by (session, number).

    A session is one lifetime of a process, which ends with `kill`. Of the changes of names since the syncs of their
    directories, a journal that is written in order has the first `journalled_count` on disk.
    """

    __slots__ = (
        "broken_leases",
        "directories",
        "durable_directories",
        "entry_changes",
        "files",
        "handles",
        "journalled_count",
        "leases",
        "locks",
        "mappings",
        "numbers",
    )

    def __init__(self) -> None:
        """Start with an empty root."""
        self.files: dict[int, FileState] = {}
        self.directories = Directories({ROOT: {}})
        self.durable_directories: dict[int, dict[str, int]] = {ROOT: {}}
        self.entry_changes: tuple[EntryChange, ...] = ()
        self.journalled_count = 0
        self.handles: dict[tuple[int, int], Handle] = {}
        self.mappings: dict[tuple[int, int], Mapped] = {}
        self.locks: dict[int, tuple[Lock, ...]] = {}
        self.leases: tuple[Lease, ...] = ()
        self.numbers: dict[int, int] = {}
        self.broken_leases: tuple[str, ...] = ()

    @classmethod
    def of(cls, image: DiskImage) -> Kernel:
        """Put the files and directories of an image on disk, all of them durable.

        Absolute paths are below a directory whose name is empty.
        """
        kernel = cls()
        entries: dict[str, bytes | None] = {path: None for path in image.directories if path not in ("/", ".")}
        entries |= image.files
        entries[""] = None
        first_names = {name: names[0] for names in image.links for name in names}
        numbers: dict[str, int] = {}
        for path in sorted(entries):
            number = numbers.setdefault(first_names.get(path, path), len(numbers) + 1)
            directory, name = kernel.way(path) if path else (ROOT, "")
            kernel.directories[directory][name] = number
            content = entries[path]
            if content is None:
                kernel.directories[number] = {}
            else:
                kernel.files[number] = FileState(content)
        kernel.durable_directories = {number: names.copy() for number, names in kernel.directories.items()}
        return kernel

    def fork(self) -> Kernel:
        """Return a copy that can go another way."""
        other = Kernel.__new__(Kernel)
        other.files = self.files.copy()
        other.directories = self.directories
        other.durable_directories = self.durable_directories
        other.entry_changes = self.entry_changes
        other.journalled_count = self.journalled_count
        other.handles = self.handles.copy()
        other.mappings = self.mappings.copy()
        other.locks = self.locks.copy()
        other.leases = self.leases
        other.numbers = self.numbers.copy()
        other.broken_leases = self.broken_leases
        return other

    def kill(self, session: int) -> None:
        """End a session: what it had open is gone, what it wrote stays."""
        self.handles = {key: handle for key, handle in self.handles.items() if key[0] != session}
        self.mappings = {key: mapped for key, mapped in self.mappings.items() if key[0] != session}
        self.leases = tuple(lease for lease in self.leases if lease.session != session)
        self.locks = {
            file: tuple(lock for lock in locks if lock.session != session) for file, locks in self.locks.items()
        }

    def way(self, path: str) -> tuple[int, str]:
        """Return the directory of a path's last name, and that name; raises CallRejectedError.

        A slash behind the name changes nothing.
        """
        if not is_plain(path):
            named = path.rstrip("/")
            path = self.plain(named or path)
            if named.rpartition("/")[2] in NO_NAMES:
                raise CallRejectedError(StorageReason.IS_A_DIRECTORY)
        *parents, name = path.split("/")
        directory = ROOT
        for parent in parents:
            found = self.directories[directory].get(parent)
            if found is None:
                raise CallRejectedError(StorageReason.MISSING)
            if found not in self.directories:
                raise CallRejectedError(StorageReason.NOT_A_DIRECTORY)
            directory = found
        return directory, name

    def entry(self, path: str) -> int:
        """Return the number of the entry at a path; raises CallRejectedError."""
        found = self.directories.entries.get(path)
        if found is None:
            if is_plain(path):
                directory, name = self.way(path)
                found = self.directories[directory].get(name)
            else:
                plain = self.plain(path)
                found = self.directories[ROOT].get("") if plain == "/" else self.entry(plain)
            if found is None:
                raise CallRejectedError(StorageReason.MISSING)
            self.directories.entries[path] = found
        return found

    def find(self, path: str) -> int | None:
        """Return the number of the entry at a path, or None."""
        found = self.directories.entries.get(path)
        if found is not None:
            return found
        try:
            return self.entry(path)
        except CallRejectedError:
            return None

    def plain(self, path: str) -> str:
        """Return where a path leads as a plain one, whose last name need not be there; raises CallRejectedError.

        As on Linux, all that comes before a slash must be a directory, also where two dots leave it again.
        """
        start = "/" if path.startswith("/") else ""
        names: list[str] = []
        for name in path.split("/"):
            if names and self.entry(start + "/".join(names)) not in self.directories:
                raise CallRejectedError(StorageReason.NOT_A_DIRECTORY)
            if not path or (name == ".." and not (names or start)):
                raise CallRejectedError(StorageReason.MISSING)
            if name == "..":
                del names[-1:]
            elif name not in NO_NAMES:
                names.append(name)
        return start + "/".join(names) or "."

    def file_of(self, session: int, call: Call) -> int | None:
        """Return the file of a call's mapping or, without one, of its handle; None if neither is open."""
        if call.mapping:
            mapped = self.mappings.get((session, call.mapping))
            if mapped is not None:
                return mapped.file
        handle = self.handles.get((session, call.file))
        return None if handle is None else handle.file

    def new_number(self, session: int) -> int:
        """Return a number for a new entry; sessions have separate ranges, so numbers do not depend on the schedule."""
        count = self.numbers.get(session, 0) + 1
        self.numbers[session] = count
        return (session + 1) * NUMBERS_OF_A_SESSION + count

    def change_entries(self, *entries: Entry) -> None:
        """Change names now; the change reaches the disk at any time, at the latest with the next sync."""
        directories = Directories(self.directories)
        apply_entry_change(directories, entries)
        self.directories = directories
        self.entry_changes = (*self.entry_changes, entries)

    def sync_entries(self, directory: int) -> None:
        """Make the names in a directory durable; a rename becomes durable in both its directories.

        So do earlier changes of the same names, which could not come after it.
        """
        if not self.entry_changes:
            return
        self._journal_until(lambda entry: directory in (entry[0], entry[2]))
        synced: list[EntryChange] = []
        kept: list[tuple[int, EntryChange]] = []
        names: set[tuple[int, str]] = set()
        for index, change in reversed(list(enumerate(self.entry_changes))):
            changed = {entry[:2] for entry in change}
            if any(of == directory for of, _ in changed) or changed & names:
                names |= changed
                synced.append(change)
            else:
                kept.append((index, change))
        durable = self.durable_directories.copy()
        for change in reversed(synced):
            apply_entry_change(durable, change)
        self.journalled_count = sum(index < self.journalled_count for index, _ in kept)
        self.durable_directories, self.entry_changes = durable, tuple(change for _, change in reversed(kept))

    def sync_names_of(self, file: int, *, is_data_only: bool = False) -> None:
        """Note that a journal is on disk up to the last change that names a file; of its data alone, to its creation.

        A change of names without one of the size or the blocks does not make a sync of the data write the journal.
        """
        if not self.entry_changes:
            return
        if is_data_only and any(file in names.values() for names in self.durable_directories.values()):
            return
        self._journal_until(lambda entry: entry[2] == file, is_first=is_data_only)

    def _journal_until(self, matches: Callable[[Entry], bool], *, is_first: bool = False) -> None:
        """Note that the first or last change with a matching entry, and all before it, are in the journal on disk."""
        found = [index for index, change in enumerate(self.entry_changes) if any(map(matches, change))]
        if found:
            self.journalled_count = max(self.journalled_count, (found[0] if is_first else found[-1]) + 1)

    def write_back(self) -> None:
        """Bring all that is written and all names to the disk, but not what a failed sync has lost."""
        self.files = {number: state.synced() for number, state in self.files.items()}
        self.durable_directories = {number: names.copy() for number, names in self.directories.items()}
        self.entry_changes, self.journalled_count = (), 0

    def paths(self) -> Iterator[tuple[str, int]]:
        """Yield the path and number of each file that names lead to."""
        return ((path, number) for path, number in entries_of(self.directories) if number not in self.directories)

    def image(self) -> DiskImage:
        """Return the tree as readers see it now."""
        return image_of(self.directories, {number: state.content for number, state in self.files.items()})

    def identity(self) -> object:
        """Return a value that is equal for equal kernels: everything that a later call can depend on."""
        return (
            frozenset(self.files.items()),
            _frozen(self.directories),
            _frozen(self.durable_directories),
            self.entry_changes,
            self.journalled_count,
            frozenset(self.handles.items()),
            frozenset(self.mappings.items()),
            frozenset((file, frozenset(locks)) for file, locks in self.locks.items() if locks),
            frozenset(self.leases),
            frozenset(self.numbers.items()),
        )


@functools.lru_cache(maxsize=PATHS_REMEMBERED)
def is_plain(path: str) -> bool:
    """Say whether a path has names alone, so that it can be looked up as it is."""
    return NO_NAMES.isdisjoint(path.removeprefix("/").split("/"))


def _frozen(directories: dict[int, dict[str, int]]) -> frozenset[object]:
    return frozenset((number, frozenset(names.items())) for number, names in directories.items())


def entries_of(directories: dict[int, dict[str, int]]) -> Iterator[tuple[str, int]]:
    """Yield the path and number of everything that names lead to; the path of the absolute root is empty."""
    pending = [("", ROOT)]
    while pending:
        prefix, directory = pending.pop()
        for name, number in directories[directory].items():
            yield f"{prefix}{name}", number
            if number in directories:
                pending.append((f"{prefix}{name}/", number))


def without_loops(directories: dict[int, dict[str, int]]) -> dict[int, dict[str, int]]:
    """Return directories without the names that lead back to a directory above, which fsck removes too.

    From the root on, each directory is entered once, by the first of its names.
    """
    named = [number for names in directories.values() for number in names.values() if number in directories]
    if len(named) == len(set(named)):
        # A way from the root into a loop ends at a directory with two names.
        return directories
    closing: list[Entry] = []
    entered: set[int] = set()
    above = {ROOT: iter(sorted(directories[ROOT].items()))}
    while above:
        directory, names = next(reversed(above.items()))
        for name, number in names:
            if number in above:
                closing.append((directory, name, None))
            elif number in directories and number not in entered:
                above[number] = iter(sorted(directories[number].items()))
                break
        else:
            entered.add(directory)
            del above[directory]
    if not closing:
        return directories
    found = directories.copy()
    apply_entry_change(found, tuple(closing))
    return found


def image_of(directories: dict[int, dict[str, int]], contents: dict[int, bytes]) -> DiskImage:
    """Return the tree of these names, with the contents of their files."""
    files, paths = {}, {"/", "."}
    names: dict[int, list[str]] = {}
    for path, number in entries_of(directories):
        if number not in directories:
            files[path] = contents[number]
            names.setdefault(number, []).append(path)
        elif path:
            paths.add(path)
    links = tuple(tuple(sorted(of_one)) for of_one in names.values() if len(of_one) > 1)
    return DiskImage(files, frozenset(paths), links)


def apply_entry_change(directories: dict[int, dict[str, int]], change: EntryChange) -> None:
    """Apply a change of names in place."""
    for directory, name, number in change:
        names = directories.get(directory, {}).copy()
        if number is None:
            names.pop(name, None)
        else:
            names[name] = number
        directories[directory] = names


Effect: TypeAlias = Callable[[Kernel, int, Call], Answer]
"""What a call of a session does to a kernel; raises CallRejectedError."""


_OPERATIONS = {CallKind.RENAME: "rename to", CallKind.LINK: "link as"}


def given(call: Call, answer: Answer) -> Any:
    """Return an answer as the process that made the call gets it; raises what a storage raises."""
    if isinstance(answer, Rejected):
        error = FileMissingError if answer.reason is StorageReason.MISSING else StorageError
        operation = f"{_OPERATIONS.get(call.kind, call.kind)} {call.target_path}".rstrip()
        raise error(file=call.path, operation=operation, reason=answer.reason)
    if isinstance(answer, BusFault):
        raise BusError(f"byte {answer.offset_bytes} of the mapped {call.path}")
    return answer
