"""Which calls of two processes have to do with each other, so that it may matter which comes first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeAlias

from tornproof.harness.simulator.filesystem.intercept import Call, CallKind
from tornproof.impl.storage.interface import OpenMode
from tornproof.impl.txn.pins import PINS_FILE, WRITER_LOCK_OFFSET_BYTES

WRITING = frozenset({CallKind.PWRITE, CallKind.TRUNCATE, CallKind.STORE})
NAMING = frozenset({CallKind.MKDIR, CallKind.RMDIR, CallKind.RENAME, CallKind.LINK, CallKind.UNLINK})
LOCKING = frozenset({CallKind.LOCK, CallKind.UNLOCK, CallKind.CLOSE})
Concern: TypeAlias = tuple[str, str]
"""What a call has to do with: a content, opening it, a name, names in a directory, locks; and a path."""


class Meeting:
    """Whether it may matter if a call comes before those of another process or after them."""

    def __init__(self, others: Collection[Call], *, asks: bool) -> None:
        """Note what these calls are about; who opens a file must see what is written without asking for a lock."""
        self._changed = _all(_changed, others)
        if not asks:
            self._changed |= {("opened", path) for what, path in self._changed if what == "content"}
        self._concerned = self._changed | _all(_seen, others)

    def __call__(self, call: Call) -> bool:
        """Return whether it may matter for a call; what is locked may be what a caller looks at then."""
        sees_it = not self._changed.isdisjoint(_seen(call))
        return sees_it or call.kind is CallKind.LOCK or not self._concerned.isdisjoint(_changed(call))


def can_notice(calls: Collection[Call], before: Mapping[str, bytes], after: Mapping[str, bytes]) -> bool:
    """Return whether calls could show that somebody has changed files before them without asking for a lock.

    They can if one takes the table's lock, opens such a file, or gets another answer about one.
    """
    return any(
        (call.kind is CallKind.LOCK and call.offset_bytes == WRITER_LOCK_OFFSET_BYTES)
        or _answer(call, before) != _answer(call, after)
        for call in calls
    )


def _answer(call: Call, files: Mapping[str, bytes]) -> object:
    content = files.get(call.path)
    match call.kind:
        case CallKind.OPEN_FOR_READING:
            return content
        case CallKind.PREAD if content is not None:
            return content[call.offset_bytes : call.offset_bytes + call.size_bytes]
        case CallKind.SIZE if content is not None:
            return len(content)
        case CallKind.KIND:
            return content is None
    return None


def _all(concerned: Callable[[Call], Iterator[Concern]], calls: Collection[Call]) -> set[Concern]:
    return {each for call in calls for each in concerned(call)}


def _changed(call: Call) -> Iterator[Concern]:
    """Yield what a call changes, as what it is of a path; who has a file open does not need its name."""
    if call.kind in WRITING:
        yield "content", call.path
    if call.kind in NAMING or (call.kind is CallKind.OPEN_FOR_WRITING and call.mode is not OpenMode.EXISTING):
        for path in {call.path, call.target_path} - {""}:
            yield from (("name", path), ("names", path.rpartition("/")[0]))
    if call.kind in LOCKING and call.path.endswith(PINS_FILE):
        yield "locks", call.path


def _seen(call: Call) -> Iterator[Concern]:
    """Yield what its answer depends on."""
    if call.kind in (CallKind.PREAD, CallKind.SIZE, CallKind.LOAD):
        yield "content", call.path
    if call.kind in (CallKind.KIND, CallKind.OPEN_FOR_READING, CallKind.OPEN_FOR_WRITING):
        yield from (("name", call.path), ("name", call.path.rpartition("/")[0]))
    if call.kind is CallKind.OPEN_FOR_READING:
        yield "opened", call.path
    if call.kind is CallKind.LISTDIR:
        yield "names", call.path
