"""Whether a commit that fits into what readers accept leaves room for its own recovery.

A commit that is killed before its version is stored leaves a generation behind, and the next writer restates the one
before it (docs/writing.md#recovery). Here readers accept little, and just a bit more from one case to the next.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from tornproof.harness.common.copies import open_writer_of_copy
from tornproof.harness.common.patch import Controls, not_noticed, original_of, replaced
from tornproof.harness.common.whose_error import the_only
from tornproof.harness.explorers.roundtrip.writing.kills import (
    WRITER,
    Rows,
    commit,
    execute_and_spoil,
    left_by_last_kill,
    reported,
    rows_in,
    spoil,
    table_of_rows,
)
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.table.partition import PM_FILE
from tornproof.impl.write.table_writer import TableWriter
from tornproof.impl.write.writer_options import WriterOptions

PROPERTY = "a commit that readers accept leaves room for its own recovery"
PATH = "rooms"
BYTES, GENERATIONS = "tornproof.impl.limits:PM_LIMIT_BYTES", "tornproof.impl.limits:GENERATION_COUNT_LIMIT"
EXCESS = "tornproof.impl.limits:excess"
FOOTER_BYTES = 48
"""One of a single row group has more."""
OPTIONS = WriterOptions(rewrite_unused_ratio=1_000.0)
"""No partition is rewritten because of what is no longer used."""
GROUP_ROWS, GROUP_COUNT = 2, 8
BEFORE_BYTES, AFTER_BYTES, STEP_BYTES = 16, 104, 12
"""Limits from less than a commit needs to more than it and its recovery do."""
NO_LIMIT = 1 << 40
GENERATION_COUNTS = range(2, 5)

FIRST: Rows = [(FIRST_TIME, number) for number in range(GROUP_ROWS * GROUP_COUNT)]
"""All of one time, so that a row of that time is merged with all of their row groups."""
LATER: Rows = [(FIRST_TIME + 9, 9)]
COMMITS: dict[str, Rows] = {
    "behind the others": [(FIRST_TIME + 5, 5)],
    "merged with all row groups into one": [(FIRST_TIME, 3)],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryRoom:
    """A commit after which readers accept just so many bytes or generations of metadata."""

    commit: str
    location: str
    limit: int
    of_readers_alone: bool = False
    """Whether the writer that is killed knows no limit."""

    @property
    def name(self) -> str:
        """It in words."""
        what = "bytes" if self.location == BYTES else "generations"
        unknown = ", of which the writer knows nothing" * self.of_readers_alone
        return f"rows {self.commit} where readers accept {self.limit} {what} of metadata{unknown}"

    @property
    def kind(self) -> str:
        """What it is a case of."""
        return f"{self.commit} {self.location} {self.of_readers_alone}"


@functools.cache
def recovery_rooms() -> tuple[RecoveryRoom, ...]:
    """Return all cases, always in the same order."""
    sizes = {name: _size_bytes(rows) for name, rows in COMMITS.items()}
    return (
        *(
            RecoveryRoom(commit=name, location=BYTES, limit=limit, of_readers_alone=alone)
            for alone, before_bytes in ((False, BEFORE_BYTES), (True, 0))
            for name, size in sizes.items()
            for limit in range(size - before_bytes, size + AFTER_BYTES, STEP_BYTES)
        ),
        *(
            RecoveryRoom(commit=name, location=GENERATIONS, limit=limit)
            for name in COMMITS
            for limit in GENERATION_COUNTS
        ),
    )


def problem_of(case: RecoveryRoom) -> str | None:
    """Say what is wrong after the commit was killed as late as possible, and the next one; None if nothing is."""
    with replaced(case.location, NO_LIMIT if case.of_readers_alone else case.limit):
        left = left_by_last_kill(_image(), PATH, COMMITS[case.commit])
    with replaced(case.location, case.limit):
        storage = MemoryStorage.of(left)
        open_writer_of_copy(storage, PATH).close()
        problem = _problem_of(storage, "the recovery", FIRST)
        # Rows for a partition with an orphan for which there is no room are refused.
        if problem is None and not case.of_readers_alone:
            commit(storage, PATH, LATER, options=OPTIONS)
            problem = _problem_of(storage, "the next commit", [*FIRST, *LATER])
        return problem


def _problem_of(storage: MemoryStorage, what: str, expected: Rows) -> str | None:
    """Say what is wrong after something: with the rows, or with the files."""
    if (rows := rows_in(storage, PATH)) != expected:
        return f"after {what} the rows are {rows} instead of {expected}"
    problem = reported(storage, PATH)
    return problem and f"after {what} {problem}"


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of writers that take all room, leave none for another footer, or lose rows."""
    excess, conform = original_of(EXCESS), original_of(f"{WRITER}:conform")
    open_writer = original_of(f"{__name__}:open_writer_of_copy")

    def open_and_spoil(storage: MemoryStorage, path: str) -> TableWriter:
        spoil(storage, path)
        return open_writer(storage, path)  # type: ignore[no-any-return]

    controls: Controls = (
        ("nothing is too large", EXCESS, lambda **_: None, "UnsupportedError"),
        (
            "a recovery needs no room",
            EXCESS,
            lambda *, pm_bytes, **others: excess(pm_bytes=pm_bytes - FOOTER_BYTES, **others),
            "could not put aside",
        ),
        ("a file is spoilt", f"{__name__}:open_writer_of_copy", open_and_spoil, "after the recovery verify reports"),
        ("rows are lost", f"{__name__}:rows_in", lambda *_: [], "after the recovery the rows are"),
        ("rows are left out", f"{WRITER}:conform", lambda *of: conform(*of)[:0], "after the next commit the rows are"),
        ("the name is lost", f"{WRITER}:execute", execute_and_spoil, "after the next commit verify reports"),
    )
    return not_noticed(controls, problem_of, recovery_rooms())


@functools.cache
def _image() -> DiskImage:
    return table_of_rows(PATH, FIRST, has_keys=True, options=replace(OPTIONS, row_group_row_count_max=GROUP_ROWS))


def _size_bytes(rows: Rows) -> int:
    """Return how large the metadata of a commit in place is."""
    storage = MemoryStorage.of(_image())
    commit(storage, PATH, rows, options=OPTIONS)
    return the_only(len(content) for path, content in storage.image().files.items() if path.endswith(PM_FILE))
