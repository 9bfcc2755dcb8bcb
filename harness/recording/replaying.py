"""The steps of a trace on a kernel in memory, with the steps that each effect came from that may still be lost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from tornproof.harness.recording.steps import SYNCS, NotFollowedError, Start, Step, StepKind
from tornproof.harness.simulator.filesystem.file_state import FileState
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.harness.simulator.filesystem.kernel import (
    ROOT,
    CallRejectedError,
    EntryChange,
    Kernel,
    Rejected,
    entries_of,
)
from tornproof.harness.simulator.filesystem.kernel_calls import apply
from tornproof.impl.storage.interface import OpenMode

SESSION = 0
LINK_MARK = b"\0tornproof: symbolic link\0"
"""Begins the content of a file that stands for a symbolic link, which the kernel in memory does not have."""
SIZE_BYTES_MAX = 256 << 20
UNSYNCED_BYTES_MAX = 2 << 30
"""How much of one file is remembered: the whole file after each write that no sync has followed."""
_OWN = (StepKind.SYMLINK, StepKind.SYNC_ALL, StepKind.ACKNOWLEDGE)


class Machine:
    """A kernel, and where its effects that are not durable came from.

    `writes` has for each file the indexes of the steps that its versions after the durable one came from, and `changes`
    has each change of names that is not durable with its step's index.
    """

    def __init__(self, start: Start, *, keeps_versions: bool = True) -> None:
        """Begin with the directory of the start; without versions everything is durable at once."""
        self._keeps_versions = keeps_versions
        files = start.files | {path: LINK_MARK + os.fsencode(target) for path, target in start.links.items()}
        self.kernel = Kernel.of(DiskImage(files, frozenset(start.directories)).with_links(start.hard_links))
        self.writes: dict[int, tuple[int, ...]] = {}
        self.changes: tuple[tuple[EntryChange, int], ...] = ()
        self.acknowledged = 0

    def fork(self) -> Machine:
        """Return a copy that can go another way."""
        other = Machine.__new__(Machine)
        other.kernel, other.writes = self.kernel.fork(), self.writes.copy()
        other.changes, other.acknowledged = self.changes, self.acknowledged
        other._keeps_versions = self._keeps_versions
        return other

    def apply(self, step: Step, index: int, *, syncs_whole_files: bool = False) -> None:
        """Make a step; raises NotFollowedError where it cannot be made."""
        kernel = self.kernel
        files, entry_changes = kernel.files.copy() if self._keeps_versions else {}, kernel.entry_changes
        try:
            with self._without_later(step):
                self._make_step(step, syncs_whole_files=syncs_whole_files)
        except CallRejectedError as rejected:
            raise _impossible(step, rejected.reason) from rejected
        if self._keeps_versions:
            self._note(step, files, entry_changes, index)
        else:
            self._forget(step)

    def _make_step(self, step: Step, *, syncs_whole_files: bool) -> None:
        kernel = self.kernel
        match step.kind:
            case StepKind.ACKNOWLEDGE:
                self.acknowledged += 1
            case StepKind.SYMLINK:
                self._link_symbolically(step)
            case StepKind.SYNC_ALL:
                kernel.files = {number: state.synced() for number, state in kernel.files.items()}
                for directory in kernel.directories:
                    kernel.sync_entries(directory)
            case StepKind.MSYNC | StepKind.FSYNC | StepKind.FDATASYNC if step.size:
                # On Linux msync is an fdatasync of a range, and syncs the size too.
                number, end = self.file_of(step), step.offset + step.size
                state = kernel.files[number]
                kernel.files[number] = state.synced() if syncs_whole_files else state.with_size_synced()
                kernel.files[number] = kernel.files[number].synced_between(step.offset, end)
                if not syncs_whole_files:
                    self._keep_origins(number, state, step.offset, end)
                kernel.sync_names_of(number, is_data_only=step.kind is not StepKind.FSYNC)
            case _:
                self._call(step)

    def _keep_origins(self, number: int, state: FileState, start: int, end: int) -> None:
        """Keep the origins of versions that still differ from the one before after a sync of the size and a range."""
        size = len(state.versions[-1])
        padded = [version[:size].ljust(size, b"\0") for version in state.versions]
        others = [version[:start] + version[end:] for version in padded]
        origins = self.writes.get(number, ())
        kept = [origin for origin, (one, other) in zip(origins, pairwise(others), strict=False) if one != other]
        # A sync that began earlier leaves all that was written since.
        self.writes[number] = (*kept, *origins[len(others) - 1 :])

    @contextmanager
    def _without_later(self, step: Step) -> Iterator[None]:
        """Set aside, while a sync is made, the effects that are too late for it to cover."""
        if step.covers is None:
            yield
            return
        kernel = self.kernel
        later: dict[int, tuple[bytes, tuple[bytes, ...]]] = {}
        for number, origins in self.writes.items():
            state, count = kernel.files[number], 1 + sum(origin < step.covers for origin in origins)
            if count < len(state.versions):
                later[number] = state.content, state.versions[count:]
                kernel.files[number] = FileState(state.versions[count - 1], state.versions[:count])
        count = sum(origin < step.covers for _, origin in self.changes)
        changes, journalled_count = kernel.entry_changes, kernel.journalled_count
        kernel.entry_changes, kernel.journalled_count = changes[:count], min(count, journalled_count)
        yield
        for number, (content, versions) in later.items():
            kernel.files[number] = FileState(content, (*kernel.files[number].versions, *versions))
        kernel.entry_changes = (*kernel.entry_changes, *changes[count:])
        kernel.journalled_count += max(0, journalled_count - count)

    def file_of(self, step: Step) -> int:
        """Return the number of the file that a step is about."""
        handle = kernel_handle(self.kernel, step.handle)
        return self.kernel.entry(step.path) if handle is None else handle

    def is_of(self, step: Step, file: int) -> bool:
        """Return whether a step that was made is about a file, or may be where names have changed since."""
        handle = kernel_handle(self.kernel, step.handle)
        return handle is None or handle == file

    def links(self, path: str) -> str | None:
        """Return where a symbolic link leads, or None for anything else."""
        number = self.kernel.find(path)
        state = None if number is None else self.kernel.files.get(number)
        return None if state is None else link_target(state.content)

    def _call(self, step: Step) -> None:
        handle = step.handle
        if not handle and step.kind in (StepKind.FSYNC, StepKind.FDATASYNC, StepKind.TRUNCATE):
            # A file that is opened for that alone.
            self._make(Call(kind=CallKind.OPEN_FOR_WRITING, path=step.path), step)
        self._make(
            Call(
                kind=CallKind(step.kind),
                path=step.path,
                target_path=step.target,
                file=handle,
                offset_bytes=step.offset,
                size_bytes=step.size,
                content=step.content,
                mode=step.mode,
            ),
            step,
        )

    def _make(self, call: Call, step: Step) -> None:
        answer = apply(self.kernel, SESSION, call)
        if isinstance(answer, Rejected):
            raise _impossible(step, answer.reason)

    def _link_symbolically(self, step: Step) -> None:
        """Make a symbolic link, whose target reaches the disk together with its name."""
        self._make(Call(kind=CallKind.OPEN_FOR_WRITING, path=step.path, mode=OpenMode.NEW), step)
        self.kernel.files[self.kernel.entry(step.path)] = FileState(LINK_MARK + os.fsencode(step.target))

    def _forget(self, step: Step) -> None:
        kernel = self.kernel
        kernel.entry_changes, kernel.journalled_count = (), 0
        if step.kind in (StepKind.WRITE, StepKind.TRUNCATE):
            number = self.file_of(step)
            kernel.files[number] = FileState(kernel.files[number].content)

    def _note(
        self, step: Step, before: dict[int, FileState], entry_changes: tuple[EntryChange, ...], index: int
    ) -> None:
        kernel = self.kernel
        for number, state in kernel.files.items():
            old = before.get(number)
            if old is state:
                continue
            known = self.writes.get(number, ())
            added = len(state.versions) - 1 - len(known)
            if added == 1 and step.kind not in SYNCS:
                self.writes[number] = (*known, index)
                if len(state.versions) * len(state.content) > UNSYNCED_BYTES_MAX:
                    raise NotFollowedError(
                        f"{step}: {len(known) + 1} writes to a file of {len(state.content)} bytes are not synced, and "
                        f"the file after each of them is more than {UNSYNCED_BYTES_MAX >> 30} GB"
                    )
            else:
                # A sync of the whole file keeps the latest versions alone, and that of a range has kept its own.
                self.writes[number] = known[len(known) - (len(state.versions) - 1) :] if len(state.versions) > 1 else ()
        if kernel.entry_changes is not entry_changes:
            origins = {id(change): origin for change, origin in self.changes}
            self.changes = tuple((change, origins.get(id(change), index)) for change in kernel.entry_changes)


def _impossible(step: Step, reason: str) -> NotFollowedError:
    return NotFollowedError(f"{step}: it succeeded, but after what was recorded it could not: {reason}")


def kernel_handle(kernel: Kernel, handle: int) -> int | None:
    """Return the number of the file that a handle leads to, None without a handle."""
    return kernel.handles[SESSION, handle].file if handle else None


def link_target(content: bytes) -> str | None:
    """Return where a file leads that stands for a symbolic link, or None for any other file."""
    target = content[len(LINK_MARK) :] if content.startswith(LINK_MARK) else b""
    return os.fsdecode(target) if target and b"\0" not in target else None


def link_text(path: Path) -> str:
    """Return where a symbolic link leads, as it was made."""
    return os.readlink(path)  # noqa: PTH115 (Path.readlink leaves out "./" and slashes)


Tree: TypeAlias = dict[str, bytes | None]
"""What is at each path of a directory: the content of a file, None for a directory; links are marked."""


def tree_of(kernel: Kernel) -> Tree:
    """Return everything below the root of a kernel as readers see it."""
    return {
        path: None if number in kernel.directories else kernel.files[number].content
        for path, number in entries_of(kernel.directories)
        if path
    }


def captured(directory: Path) -> Tree:
    """Return everything below a directory but devices, FIFOs and sockets; raises NotFollowedError for too much."""
    found: Tree = {}
    size_bytes = 0
    for parent, names, files in os.walk(directory):
        for name in (*names, *files):
            path = Path(parent, name)
            inside = path.relative_to(directory).as_posix()
            if path.is_symlink():
                found[inside] = LINK_MARK + os.fsencode(link_text(path))
            elif path.is_dir():
                found[inside] = None
            elif path.is_file():
                size_bytes += path.stat().st_size
                if size_bytes > SIZE_BYTES_MAX:
                    raise NotFollowedError(f"{directory}: it has more than {SIZE_BYTES_MAX >> 20} MB of files")
                found[inside] = path.read_bytes()
    return found


def not_recorded(directory: Path) -> set[str]:
    """Return the paths of the devices, FIFOs and sockets below a directory."""
    entries = (Path(parent, name) for parent, _, files in os.walk(directory) for name in files)
    return {path.relative_to(directory).as_posix() for path in entries if not (path.is_symlink() or path.is_file())}


def hard_links(directory: Path, tree: Tree) -> tuple[tuple[str, ...], ...]:
    """Return the names of each file of a directory that has several."""
    names: dict[tuple[int, int], list[str]] = {}
    for path in sorted(path for path, content in tree.items() if content is not None):
        status = (directory / path).lstat()
        names.setdefault((status.st_dev, status.st_ino), []).append(path)
    return tuple(tuple(of_one) for of_one in names.values() if len(of_one) > 1)


def write_tree(kernel: Kernel, directory: Path) -> None:
    """Write everything of a kernel into an empty directory; names of one file stay links of one file."""
    paths: dict[int, Path] = {}
    for name, number in sorted(entries_of(kernel.directories)):
        path = directory / name
        if not name:
            continue
        if number in kernel.directories:
            path.mkdir()
        elif number in paths:
            path.hardlink_to(paths[number])
        else:
            content = kernel.files[number].content
            if (target := link_target(content)) is not None:
                path.symlink_to(target)
            else:
                path.write_bytes(content)
            paths[number] = path


def difference(followed: Tree, found: Tree) -> str:
    """Return in words where two trees differ first, "" where they do not."""
    for path in sorted({*followed, *found}):
        if path not in found:
            return f"{path} is not there"
        if path not in followed:
            return f"{path} is there, and no step made it"
        expected, actual = followed[path], found[path]
        if expected != actual:
            if expected is None or actual is None:
                return f"{path} is {'a directory' if actual is None else 'a file'}"
            at = next(
                (index for index, (one, other) in enumerate(zip(expected, actual, strict=False)) if one != other),
                min(len(expected), len(actual)),
            )
            return f"{path} differs at byte {at} of {len(actual)}, and {len(expected)} were recorded"
    return ""


assert ROOT == 0 and all(kind in _OWN or kind.value in set(CallKind) for kind in StepKind)
