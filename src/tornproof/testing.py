"""For tests of your own format: the storage that it writes to, and how its functions become a target."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

from tornproof.harness.common.system import OWN_PATH, TARGET_ERRORS, Field, Target, Writer
from tornproof.harness.common.verdict import Finding, Phase, Verdict
from tornproof.harness.explorers.own_system.rehearsal import Rehearsal
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.simulator.filesystem.step_bound import EndlessError
from tornproof.harness.simulator.process.simulated_process import NotDeterministicError
from tornproof.impl.errors import (
    BusyError,
    CorruptError,
    FileMissingError,
    StorageError,
    TornproofError,
    UnsupportedError,
)
from tornproof.impl.storage.interface import EntryKind, File, LockMode, Mapping, OpenMode, Storage, StorageReason
from tornproof.impl.storage.operating_system import OperatingSystemStorage

__all__ = [
    "BusyError",
    "CorruptError",
    "EntryKind",
    "File",
    "FileMissingError",
    "Finding",
    "LockMode",
    "Mapping",
    "MemoryStorage",
    "OpenMode",
    "OperatingSystemStorage",
    "Phase",
    "Storage",
    "StorageError",
    "StorageReason",
    "Target",
    "TargetError",
    "TornproofError",
    "UnsupportedError",
    "Verdict",
    "Writer",
    "target",
]

PATH = OWN_PATH
# The functions of a target, and the arguments that they are called with.
PARTS = {
    "create": ("storage", "path"),
    "read": ("storage", "path"),
    "commit": ("storage", "path", "operation"),
    "open_writer": ("storage", "path"),
    "recover": ("storage", "path"),
    "reader": ("storage", "path"),
    "fields": ("file", "content"),
}
LIVING = "living"
"""The style of a reader that stays open between its reads."""
Part = Callable[..., Any]


class TargetError(TypeError):
    """A target or its operations cannot be explored; never one of the target's rejections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionTarget(Target):
    """A target made of functions, which have the names in `PARTS`."""

    name: str
    rejections: tuple[type[Exception], ...]
    parts: dict[str, Part]
    only_reads_count: bool = True
    acknowledges_after_failed_sync: bool = False

    def create(self, storage: Storage, path: str) -> None:
        """Write the files of an empty state."""
        self.parts["create"](storage, path)

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[Writer]:
        """Open the user's writer, or recover and yield one that calls `commit`."""
        if "open_writer" not in self.parts:
            if "recover" in self.parts:
                self.parts["recover"](storage, path)
            yield _Commits(partial(self.parts["commit"], storage, path))
            return
        with self._context("open_writer", storage, path) as writer:
            if not hasattr(writer, "commit"):
                raise TargetError(f"{self.name}: open_writer gave {_a(writer)} without a method commit(operation)")
            yield _Commits(writer.commit)

    def read(self, storage: Storage, path: str) -> Hashable:
        """Return what the user's reader sees."""
        seen: Hashable = self.parts["read"](storage, path)
        return seen

    @property
    def reader_styles(self) -> tuple[str, ...]:
        """The styles that its readers have."""
        return ("fresh", LIVING) if "reader" in self.parts else ("fresh",)

    @contextmanager
    def open_reader(self, storage: Storage, path: str, style: str) -> Iterator[Callable[[], Hashable]]:
        """Open the user's reader that stays open, or yield a function that opens everything for each read."""
        if style != LIVING:
            yield lambda: self.read(storage, path)
            return
        with self._context("reader", storage, path) as read:
            yield read

    def fields(self, file: str, content: bytes) -> Iterable[Field]:
        """Return what the user calls the parts of a file."""
        return [Field(*each) for each in self.parts["fields"](file, content)] if "fields" in self.parts else ()

    def _context(self, part: str, storage: Storage, path: str) -> AbstractContextManager[Any]:
        """Return what a part opens; raises TargetError."""
        context: AbstractContextManager[Any] = self.parts[part](storage, path)
        if not hasattr(context, "__enter__"):
            raise TargetError(f"{self.name}: {part} returned {_a(context)}, which no `with` can open")
        return context


@dataclass(frozen=True, slots=True)
class _Commits:
    function: Part

    def commit(self, operation: Any) -> None:
        """Commit a copy, because a function may change what it gets, which other executions get too."""
        with suppress(Exception):
            # What cannot be copied, such as an open file, is given as it is.
            operation = deepcopy(operation)
        self.function(operation)


def target(
    subject: object = None,
    /,
    *,
    name: str | None = None,
    create: Part | None = None,
    read: Part | None = None,
    commit: Part | None = None,
    recover: Part | None = None,
    open_writer: Part | None = None,
    reader: Part | None = None,
    fields: Part | None = None,
    rejections: Sequence[type[Exception]] = (),
    acknowledges_after_failed_sync: bool | None = None,
) -> FunctionTarget:
    """Make a target of functions, or of an object that has attributes of these names; arguments take precedence.

    A writer is either `commit(storage, path, operation)`, with `recover(storage, path)` before the first one of a
    session, or `open_writer(storage, path)`, a context manager whose `commit(operation)` acknowledges by returning.
    `reader(storage, path)` is a context manager that gives a function without arguments, by which one reader reads
    several times. `fields(file, content)` returns offset and size in bytes and a name of parts of a file, which label
    its bytes in findings. `rejections` are the exceptions, besides those of the storage, by which it rejects an
    operation.

    A commit that is acknowledged though one of its syncs failed is a finding. With `acknowledges_after_failed_sync`,
    `crashes` and `machine` accept it if all of it is there when what that sync was to make durable never gets to the
    disk. They do not see then what is lost only by a later commit of the session, which takes it for durable, nor what
    is lost only when two syncs fail. Raises TargetError.
    """
    given = {
        "create": create,
        "read": read,
        "commit": commit,
        "recover": recover,
        "open_writer": open_writer,
        "reader": reader,
        "fields": fields,
    }
    found = {part: given[part] or getattr(subject, part, None) for part in PARTS}
    parts = {part: function for part, function in found.items() if function is not None}
    called = name or getattr(subject, "name", None) or (type(subject).__name__ if subject is not None else "target")
    if "open_writer" in parts:
        parts = {part: function for part, function in parts.items() if part not in ("commit", "recover")}
    elif "commit" not in parts:
        raise TargetError(f"{called} has no {_signature('commit')} and no {_signature('open_writer')}: one is needed")
    for part in ("create", "read"):
        if part not in parts:
            raise TargetError(f"{called} has no {_signature(part)}: a target needs it")
    for part, function in parts.items():
        _check_call(called, part, function)
    own = _exceptions(called, rejections) or _exceptions(called, getattr(subject, "rejections", ()))
    acknowledges = acknowledges_after_failed_sync
    if acknowledges is None:
        acknowledges = bool(getattr(subject, "acknowledges_after_failed_sync", False))
    return FunctionTarget(
        name=called,
        rejections=(*own, TornproofError),
        parts=parts,
        acknowledges_after_failed_sync=acknowledges,
    )


def rehearse(subject: object, operations: Sequence[Any], path: str = PATH) -> Rehearsal[FunctionTarget]:
    """Run the operations twice without faults, so that a target's own mistakes are not reported as findings.

    Raises TargetError for a target that cannot be explored, and whatever else the target's functions raise.
    """
    rehearsed = subject if isinstance(subject, FunctionTarget) else target(subject)
    storage = MemoryStorage().bounded()
    try:
        rehearsed.create(storage, path)
        _check_reading(rehearsed, storage, path)
    except EndlessError as error:
        raise TargetError(f"{rehearsed.name} does not end without any commit: {error}") from error
    rehearsal = Rehearsal.of(rehearsed, operations, path=path)
    if isinstance(rehearsal.ended, TARGET_ERRORS) and not isinstance(rehearsal.ended, rehearsed.rejections):
        raise rehearsal.ended
    if operations and rehearsal.ended is None and not rehearsal.steps:
        raise TargetError(f"{rehearsed.name} committed without a call to the storage: use it instead of open() and os")
    try:
        rehearsal.repeat()
    except NotDeterministicError as error:
        raise TargetError(f"the target is not deterministic: {error}") from error
    return rehearsal


def _check_reading(rehearsed: FunctionTarget, storage: MemoryStorage, path: str) -> None:
    """Raise TargetError for what cannot be compared, in each style of reading."""
    for style in rehearsed.reader_styles:
        with rehearsed.open_reader(storage, path, style) as read:
            if not callable(read):
                raise TargetError(f"{rehearsed.name}: reader gave {_a(read)}, which cannot be called")
            what = "a reader's read" if style == LIVING else "read"
            _check_comparable(f"{rehearsed.name}: {what}", read(), read())


def _check_comparable(reading: str, seen: Hashable, again: Hashable) -> None:
    advice = "return bytes, a string, or a tuple of such"
    try:
        hash(seen)
    except TypeError as error:
        raise TargetError(f"{reading} returned {_a(seen)}, which cannot be hashed: {advice}") from error
    if seen != again:
        raise TargetError(f"{reading} returned two unequal values ({_a(seen)}) of one state: {advice}")


def _exceptions(called: str, rejections: object) -> tuple[type[Exception], ...]:
    """Return the exceptions of a sequence; raises TargetError."""
    if isinstance(rejections, Iterable):
        found: tuple[Any, ...] = tuple(rejections)
        if all(isinstance(each, type) and issubclass(each, TARGET_ERRORS) for each in found):
            return found
    raise TargetError(f"{called}: rejections: expected a tuple of exception classes, found {rejections!r}")


def _check_call(called: str, part: str, function: Part) -> None:
    if not callable(function):
        raise TargetError(f"{called}: {part} is {_a(function)} and cannot be called")
    try:
        inspect.signature(function).bind(*PARTS[part])
    except TypeError as error:
        raise TargetError(f"{called}: {part} cannot be called as {_signature(part)}: {error}") from error
    except ValueError:
        # A built-in function may have no signature.
        return


def _signature(part: str) -> str:
    return f"{part}({', '.join(PARTS[part])})"


def _a(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
