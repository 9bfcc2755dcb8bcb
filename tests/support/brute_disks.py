"""Every disk that a crash may leave, by brute force from a program's calls: shares no code with the simulator's kernel.

A program is a list of calls on a tiny disk. Its history is kept as a whole; after each call, what must have reached the
disk follows from the calls alone, and everything else is tried in all combinations.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tornproof.harness.simulator.persistence.models import STALE_BYTE, Model, Names

Call = tuple[object, ...]
Parts = tuple[str, ...]
Names_ = dict[tuple[int, str], int]
Disk = tuple[frozenset[tuple[str, bytes]], frozenset[str]]
ROOT, TOP = 0, 1
DURABLE_NAMES: Names_ = {(ROOT, "r"): TOP}
"""A disk has a directory `r` at first, in which everything happens."""


@dataclass(frozen=True)
class Change:
    """Names that one call changed: of a rename what it removes and what it adds, else one of them."""

    removed: tuple[int, str] | None
    added: tuple[int, str] | None
    number: int

    @property
    def parts(self) -> Parts:
        return tuple(part for part in ("removed", "added") if getattr(self, part) is not None)

    @property
    def slots(self) -> set[tuple[int, str]]:
        return {slot for slot in (self.removed, self.added) if slot is not None}


@dataclass
class History:
    """All that a program did: whole contents of each file since its last sync, and all changes of names."""

    contents: dict[int, list[bytes]] = field(default_factory=dict)
    directories: set[int] = field(default_factory=lambda: {ROOT, TOP})
    names: Names_ = field(default_factory=lambda: {**DURABLE_NAMES})
    changes: list[Change] = field(default_factory=list)
    created: dict[int, int] = field(default_factory=dict)
    synced: set[int] = field(default_factory=set)
    """The changes that a sync of a directory has made durable."""
    journalled: int = 0

    def number(self, path: str) -> int:
        number = ROOT
        for name in path.split("/") if path else ():
            number = self.names[number, name]
        return number

    def slot(self, path: str) -> tuple[int, str]:
        parent, _, name = path.rpartition("/")
        return self.number(parent), name

    def change(self, removed: tuple[int, str] | None, added: tuple[int, str] | None, number: int) -> None:
        self.changes.append(Change(removed, added, number))
        if removed is not None:
            del self.names[removed]
        if added is not None:
            self.names[added] = number

    def call(self, call: Call) -> None:
        """Make one call, which must be possible."""
        match call:
            case ("create" | "mkdir" as kind, str(path)):
                number = len(self.contents) + len(self.directories)
                self.created[number] = len(self.changes)
                if kind == "mkdir":
                    self.directories.add(number)
                else:
                    self.contents[number] = [b""]
                self.change(None, self.slot(path), number)
            case ("write", str(path), int(offset), bytes(data)):
                history = self.contents[self.number(path)]
                old = history[-1].ljust(offset, b"\0")
                history.append(old[:offset] + data + old[offset + len(data) :])
            case ("truncate", str(path), int(size)):
                history = self.contents[self.number(path)]
                history.append(history[-1][:size].ljust(size, b"\0"))
            case ("fsync" | "fdatasync" as kind, str(path)):
                number = self.number(path)
                self.contents[number] = self.contents[number][-1:]
                named = [index for index, change in enumerate(self.changes) if change.added and change.number == number]
                last = self.created[number] if kind == "fdatasync" else named[-1]
                self.journalled = max(self.journalled, last + 1)
            case ("msync", str(path), int(size)):
                # The mapped bytes are durable whatever the size is, and names as after fdatasync.
                number = self.number(path)
                latest = self.contents[number][-1]
                size = min(size, len(latest))
                self.contents[number] = [latest[: min(size, len(of))] + of[size:] for of in self.contents[number]]
                self.journalled = max(self.journalled, self.created[number] + 1)
            case ("syncdir", str(path)):
                self.sync_directory(self.number(path))
            case ("rename", str(path), str(target)) if self.number(path) == self.names.get(self.slot(target)):
                # Two names of one file stay.
                pass
            case ("rename", str(path), str(target)):
                self.change(self.slot(path), self.slot(target), self.number(path))
            case ("link", str(path), str(target)):
                self.change(None, self.slot(target), self.number(path))
            case ("unlink" | "rmdir", str(path)):
                self.change(self.slot(path), None, self.number(path))
            case _:
                raise ValueError(call)

    def sync_directory(self, directory: int) -> None:
        touched = [
            index
            for index, change in enumerate(self.changes)
            if any(of == directory for of, _ in change.slots) or (change.added and change.number == directory)
        ]
        self.journalled = max([self.journalled, *(index + 1 for index in touched)])
        slots: set[tuple[int, str]] = set()
        for index in range(len(self.changes) - 1, -1, -1):
            change = self.changes[index]
            if any(of == directory for of, _ in change.slots) or (change.slots & slots and index not in self.synced):
                slots |= change.slots if index not in self.synced else set()
                self.synced.add(index)


def disks(history: History, model: Model) -> set[Disk]:
    """Return every disk, as its files and its directories."""
    if model.keeps_cache:
        return {disk_of(history, history.names, {number: of[-1] for number, of in history.contents.items()})}
    contents = {number: contents_of(of, model) for number, of in history.contents.items()}
    found = set()
    for names in names_of(history, model.names):
        numbers = sorted(reachable(history, names))
        for chosen in itertools.product(*(sorted(contents[number]) for number in numbers)):
            found.add(disk_of(history, names, dict(zip(numbers, chosen, strict=True))))
    return found


def contents_of(versions: Sequence[bytes], model: Model) -> set[bytes]:
    """Return what a file may hold, of which the first version is durable."""
    if model.block_bytes is None:
        return set(versions)
    block_bytes, found = model.block_bytes, set()
    for size in {len(version) for version in versions}:
        padded = [version[:size].ljust(size, b"\0") for version in versions]
        starts = range(0, size, block_bytes)
        options = [{version[start : start + block_bytes] for version in padded} for start in starts]
        for start, of in zip(starts, options, strict=True):
            if is_allocated_for_data(versions, start, model.stale_block_bytes):
                of.add(STALE_BYTE * min(block_bytes, size - start))
        found |= {b"".join(blocks) for blocks in itertools.product(*options)}
    return found


def is_allocated_for_data(versions: Sequence[bytes], start: int, unit_bytes: int | None) -> bool:
    """Return whether data was written to a file-system block where the durable file has none or a later one ended."""
    if unit_bytes is None:
        return False
    first = start // unit_bytes * unit_bytes
    has_data = [any(version[first : first + unit_bytes]) for version in versions]
    has_none = [not has_data[0], *(len(version) <= first for version in versions[1:])]
    return any(is_without and any(has_data[number:]) for number, is_without in enumerate(has_none))


def names_of(history: History, persistence: Names) -> Iterator[Names_]:
    """Yield the names that there may be, by the parts of changes that reached the disk."""
    changes = history.changes
    if persistence is Names.ALL:
        yield history.names
    elif persistence is Names.JOURNALLED:
        for kept in range(history.journalled, len(changes) + 1):
            yield after([(change, change.parts) for change in changes[:kept]], [])
    else:
        forced = [(changes[index], changes[index].parts) for index in sorted(history.synced)]
        rest = [change for index, change in enumerate(changes) if index not in history.synced]
        units = [(change, parts) for change in rest for parts in unsplit_or_split(change, persistence)]
        for is_kept in itertools.product((False, True), repeat=len(units)):
            yield after(forced, list(itertools.compress(units, is_kept)))


def unsplit_or_split(change: Change, persistence: Names) -> list[Parts]:
    return [(part,) for part in change.parts] if persistence is Names.EACH_ENTRY else [change.parts]


def after(forced: list[tuple[Change, Parts]], chosen: list[tuple[Change, Parts]]) -> Names_:
    """Return the names after durable changes, and after others as far as they are possible."""
    names = {**DURABLE_NAMES}
    for change, parts in (*forced, *chosen):
        if (change, parts) in forced or all(is_possible(names, change, part) for part in parts):
            for part in parts:
                if part == "removed" and change.removed is not None:
                    names.pop(change.removed, None)
                elif change.added is not None:
                    names[change.added] = change.number
    return as_repaired(names)


def as_repaired(names: Names_) -> Names_:
    """Return the names without those that lead back to a directory above, depth first and in alphabetical order."""
    kept, entered = {**names}, set[int]()

    def enter(directory: int, above: tuple[int, ...]) -> None:
        entered.add(directory)
        for slot in sorted(slot for slot in names if slot[0] == directory):
            number = names[slot]
            if number in (*above, directory):
                del kept[slot]
            elif number not in entered:
                enter(number, (*above, directory))

    enter(ROOT, ())
    return kept


def is_possible(names: Names_, change: Change, part: str) -> bool:
    """Return whether a part of a change can reach a disk with these names.

    A rename removes the name only of what it moved. Nothing but a rename replaces, and that no full directory.
    """
    is_rename = change.removed is not None and change.added is not None
    there = names.get(change.removed if part == "removed" else change.added)  # type: ignore[arg-type]
    is_full = any(of == there for of, _ in names)
    if part == "removed":
        return there == change.number if is_rename else there is not None and not is_full
    return there is None or (is_rename and not is_full)


def reachable(history: History, names: Names_) -> set[int]:
    return {number for _, number in paths(history, names) if number not in history.directories}


def paths(history: History, names: Names_) -> list[tuple[str, int]]:
    found, pending = [], [("", ROOT)]
    while pending:
        prefix, directory = pending.pop()
        for (of, name), number in names.items():
            if of == directory:
                found.append((f"{prefix}{name}", number))
                if number in history.directories:
                    pending.append((f"{prefix}{name}/", number))
    return found


def disk_of(history: History, names: Names_, contents: dict[int, bytes]) -> Disk:
    """Return the files by path, and the paths of directories."""
    every = paths(history, names)
    files = frozenset((path, contents[number]) for path, number in every if number in contents)
    return files, frozenset(path for path, number in every if number in history.directories)
