"""Which version a reader opens while a server changes columns: it stores `_meta` first, and `_txn` after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from tornproof.harness.explorers.roundtrip.worked_out.changed_files import (
    PATH,
    storage_of,
    two_days,
    with_metadata_version,
    with_number,
)
from tornproof.harness.explorers.roundtrip.worked_out.question import Question, ask
from tornproof.harness.simulator.filesystem.intercept import Call, CallKind, InterceptedStorage
from tornproof.impl.read.reader import open_snapshot
from tornproof.impl.table.metadata_file import META_FILE
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.transaction import TXN_FILE

STRUCTURE_VERSION = 40
"""Where it is in a record of `_txn`; its low half is METADATA_VERSION of `_meta`, the high one counts other changes."""
STRUCTURES = 9

Stored: TypeAlias = tuple[int, int]
"""The version of the columns in `_meta`, and in `_txn`."""


def changed_columns() -> Iterator[Question]:
    """Yield what is stored before each look of a reader, and what it takes in the end, after how many pauses."""
    for words, stored, expected in (
        ("in both", [(3, 3)], ((3, 3), 0)),
        ("between its looks at both", [(3, 3), (4, 4)], ((4, 4), 1)),
        ("in one of them, and in the other while it waits", [(4, 3), (4, 3), (4, 4)], ((4, 4), 1)),
        ("twice while it waits", [(4, 3), (4, 3), (5, 4), (5, 5)], ((5, 5), 2)),
        ("in one of them, by a server that was killed", [(4, 3)], ((4, 3), 1)),
    ):
        yield ask("changed columns", f"what is opened if columns change {words}", expected, _opened, stored)


class _Changing(InterceptedStorage):
    """A table whose next state is there after each pause."""

    def __init__(self, stored: Sequence[Stored]) -> None:
        self._files = two_days()
        super().__init__(storage_of(self._files))
        self._structure_version_at = open_table(self._inner, PATH).transaction().record_offset + STRUCTURE_VERSION
        self._left = list(stored)
        self.pause_count = 0

    def change(self) -> None:
        """Store the next state, if one is left."""
        if not self._left:
            return
        files = self._files
        version, structure_version = self._left.pop(0)
        files = with_metadata_version(files, version)
        files = with_number(files, TXN_FILE, self._structure_version_at, structure_version)
        files = with_number(files, TXN_FILE, self._structure_version_at + 4, STRUCTURES)
        for file in (META_FILE, TXN_FILE):
            with self._inner.open_for_writing(f"{PATH}/{file}") as opened:
                opened.pwrite(files[file], 0)

    def intercept(self, call: Call, run: Callable[[], Any]) -> Any:
        if call.kind is CallKind.SLEEP:
            self.pause_count += 1
            self.change()
        return run()


def _opened(stored: Sequence[Stored]) -> tuple[Stored, int]:
    """Return the versions in a snapshot, and how often the reader paused."""
    storage = _Changing(stored)
    storage.change()
    table = open_table(storage, PATH)
    storage.change()
    snapshot = open_snapshot(table)
    metadata = snapshot.table.metadata
    version = snapshot.transaction.record.structure_version
    return (-1 if metadata is None else metadata.version, version - (STRUCTURES << 32)), storage.pause_count
