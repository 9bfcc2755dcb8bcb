"""Broken targets for the tests of several explorers."""

from asyncio import CancelledError
from collections.abc import Iterator
from contextlib import contextmanager

from tornproof.harness.systems.toy import HeaderFirst, Toy, ToyWriter
from tornproof.impl.errors import CorruptError
from tornproof.impl.storage.interface import EntryKind, Storage

FOUND = (SystemExit, GeneratorExit, CancelledError)
"""What is no `Exception`, and a finding all the same."""


class Ends(HeaderFirst):
    """Stores the count of letters before them; where there are fewer, its reader ends in a way of its own."""

    name = "ends"

    def __init__(self, end: type[BaseException]) -> None:
        self._end = end

    def read(self, storage: Storage, path: str) -> bytes:
        try:
            return super().read(storage, path)
        except CorruptError:
            raise self._end("the count is wrong") from None


class RollsBack(Toy):
    """Undoes a commit that readers may have seen, if it was not acknowledged."""

    name = "rolls back"

    @contextmanager
    def open_writer(self, storage: Storage, path: str) -> Iterator[ToyWriter]:
        if storage.kind(f"{path}/old") is EntryKind.FILE:
            storage.rename(f"{path}/old", f"{path}/state")
            if storage.kind(f"{path}/old") is EntryKind.FILE:  # two names of one file: nothing was moved
                storage.unlink(f"{path}/old")
        with super().open_writer(storage, path) as writer:
            yield writer

    def commit(self, storage: Storage, path: str, operation: bytes) -> None:
        storage.link(f"{path}/state", f"{path}/old")
        super().commit(storage, path, operation)
        storage.unlink(f"{path}/old")
