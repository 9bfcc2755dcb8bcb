"""What explorers need of a system under test: the files of a start state, a writer that commits, and readers."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, Protocol

from tornproof.impl.errors import TornproofError
from tornproof.impl.storage.interface import ReadableStorage, Storage
from tornproof.model.rows import Content

OWN_PATH = "target"
"""Where the files of a user's target are in the simulator."""
TARGET_ERRORS = (Exception, SystemExit, GeneratorExit, CancelledError)
"""What of a target is a finding, unless it declares it as a rejection.

KeyboardInterrupt is not, nor any other exception that is no `Exception`: a test runner ends a test by one.
"""


class Writer(Protocol):
    """The writer of a session."""

    def commit(self, operation: Any) -> None:
        """Commit one operation; returning acknowledges that it survives every later kill."""


class Field(NamedTuple):
    """A field of a file: where it starts, its size, and what it is called."""

    offset_bytes: int
    size_bytes: int
    name: str


def label_of(fields: Iterable[Field], offset_bytes: int) -> str:
    """Return the name of the first field that has the byte, "" where none has it."""
    return next((each.name for each in fields if 0 <= offset_bytes - each.offset_bytes < each.size_bytes), "")


class Specification(Protocol):
    """What the model says of a target: the content of a committed state, and what an operation must make of it."""

    def content(self, files: ReadableStorage, path: str) -> Content:
        """Return the content of the committed state."""

    def after(self, before: Content, operation: Any) -> Content | None:
        """Return what must be there after an operation; None where that is not specified."""


class Target(Protocol):
    """A system under test, which accesses files only through the storage that it is given.

    Only the target interprets operations. It must be deterministic, so that findings can be replayed: the same calls on
    the same files take the same steps.
    """

    name: str
    # Errors that a writer or reader may raise; any other of `TARGET_ERRORS` is a finding.
    rejections: tuple[type[Exception], ...] = (TornproofError,)
    # Whether only what is read counts; if not, a second recovery that changes a file is a finding also where no reader
    # can tell.
    only_reads_count: bool = False
    # Whether a commit may be acknowledged though one of its syncs failed, where nothing of it is lost by that; if not,
    # each such commit is a finding.
    acknowledges_after_failed_sync: bool = False

    def create(self, storage: Storage, path: str) -> None:
        """Write the files of an empty state; not called if a start state is given."""

    def open_writer(self, storage: Storage, path: str) -> AbstractContextManager[Writer]:
        """Start a session of the writer, recovery included; leaving the `with` block closes it."""

    def read(self, storage: Storage, path: str) -> Hashable:
        """Return one committed snapshot as a value that equals only equal snapshots."""

    def specification(self, files: ReadableStorage, path: str) -> Specification | None:
        """Return the model of the target with these files as its start; None for a target without a model."""
        return None

    def fields(self, file: str, content: bytes) -> Iterable[Field]:
        """Return the fields of a file, by its path below the target's own; they only label bytes in findings."""
        return ()

    def repaired(self) -> Iterable[tuple[str, Target]]:
        """Return targets that do one thing better each, with the words that follow "It does not happen when"."""
        return ()

    @contextmanager
    def open_reader(self, storage: Storage, path: str, style: str) -> Iterator[Callable[[], Hashable]]:
        """Start a session of a reader, and yield a function that reads; "fresh" opens everything for each read."""
        assert style == "fresh", style
        yield lambda: self.read(storage, path)
