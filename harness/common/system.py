"""What explorers know of a system under test: files of a start state, a writer that commits, a reader's answer."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from tornproof.impl.errors import TornproofError
from tornproof.impl.storage.interface import Storage


class Writer(Protocol):
    """The one writer of a life."""

    def commit(self, operation: Any) -> None:
        """Do one operation; returning acknowledges that it survives every later kill."""


class Target(Protocol):
    """A system under test. Everything that it does to the world goes through the storage that it is handed.

    Operations mean something to the target alone. The same calls on the same files must do the same steps, for findings
    to be seen again.
    """

    name: str
    # With these a writer or reader says no in an orderly way; any other exception is a finding.
    rejections: tuple[type[Exception], ...] = (TornproofError,)

    def create(self, storage: Storage, path: str) -> None:
        """Write the files of an empty state; not asked for where a start state is given."""

    def open_writer(self, storage: Storage, path: str) -> AbstractContextManager[Writer]:
        """Start a writer's life, recovery included; leaving the `with` block closes it."""

    def read(self, storage: Storage, path: str) -> Hashable:
        """Return one committed snapshot as a value that equals only equal snapshots."""

    @contextmanager
    def open_reader(self, storage: Storage, path: str, style: str) -> Iterator[Callable[[], Hashable]]:
        """Start a reader's life, and hand out what looks at the state of now; "fresh" opens everything each time."""
        assert style == "fresh", style
        yield lambda: self.read(storage, path)
