"""Whether a commit with the first nulls and new symbols of a table may be killed anywhere.

Afterwards the table has all of it or nothing, is sound as servers see it, and takes the next symbols.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from tornproof.harness.common.patch import Controls, all_replaced, not_noticed
from tornproof.harness.common.whose_error import the_only
from tornproof.harness.explorers.roundtrip.writing.kills import Rows, commit, is_killed, left_by_last_kill, rows_in
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.memory import MemoryStorage
from tornproof.harness.systems.workload import FIRST_TIME
from tornproof.impl.table.create import NewColumn, create_table
from tornproof.impl.table.metadata_file import PartitionBy
from tornproof.impl.table.symbols import dictionary_paths, read_offsets_header, symbol_columns
from tornproof.impl.table.table import open_table
from tornproof.impl.types.questdb import TypeTag
from tornproof.impl.verify.verify import verify_table

PROPERTY = "a commit that is killed leaves all of its symbols, nulls and rows, or none"
PATH = "killed"
STREAMED_BYTES = "tornproof.impl.write.partition_change:STREAMED_BYTES"
DAY = 86_400_000_000
COLUMNS = (NewColumn(name="ts", type=TypeTag.TIMESTAMP), NewColumn(name="tag", type=TypeTag.SYMBOL, symbol_capacity=2))
"""With so few hashes that symbols are in the chains of others."""

BEFORE: Rows = ((FIRST_TIME, "a"), (FIRST_TIME + 10, "b"))
LATER: Rows = ((FIRST_TIME + 20, "f"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class KilledCommits:
    """The rows of a commit that is killed at each of its calls; a new partition of it may be written piece by piece.

    One with the rows `before` it was killed right before it would have been committed.
    """

    name: str
    rows: Rows
    before: Rows = ()
    is_streamed: bool = False
    kind: str = "killed commits"


@functools.cache
def killed_commits() -> tuple[KilledCommits, ...]:
    """Return commits that write in place, and into a new partition."""
    in_place: Rows = ((FIRST_TIME + 11, "c"), (FIRST_TIME + 12, None), (FIRST_TIME + 13, "d"))
    new: Rows = ((FIRST_TIME + DAY, None), (FIRST_TIME + DAY + 1, "e"))
    killed, kept = (tuple((FIRST_TIME + 11 + at, f"{name} {at}") for at in range(8)) for name in ("killed", "kept"))
    return (
        KilledCommits(name="rows of a partition", rows=in_place),
        KilledCommits(name="rows of a partition where a killed commit has left symbols", rows=kept, before=killed),
        KilledCommits(name="rows of a new partition, row group by row group", rows=new, is_streamed=True),
    )


def problem_of(case: KilledCommits) -> str | None:
    """Say what is wrong after the commit was killed, and at which of its calls; None if nothing ever is."""
    image = _image(case.before)
    with all_replaced({STREAMED_BYTES: 1} if case.is_streamed else {}):
        for at in itertools.count():
            storage = MemoryStorage.of(image)
            was_killed = is_killed(storage, PATH, case.rows, at)
            problem = _problem(storage, case.rows, is_committed=not was_killed)
            if problem is not None:
                return f"killed at call {at}: {problem}"
            if not was_killed:
                return None
    return None


def failed_controls() -> Iterator[str]:
    """Yield what is not noticed of commits that do something else."""
    for case in killed_commits():
        # Made before all mistakes, because it is kept.
        _image(case.before)
    module = "tornproof.impl.write.table_writer"
    controls: Controls = (
        ("nulls are not noted", f"{module}:mark_null", lambda *_: None, ": no null is noted in the dictionary"),
        ("symbols are not written", f"{module}:extend_dictionaries", lambda *_: None, "after the next commit tag.o: "),
        ("rows are lost", f"{__name__}:rows_in", lambda *_: [], ": the rows are"),
        ("nothing is committed", f"{__name__}:is_killed", lambda *_: False, "killed at call 0: the rows are"),
        ("the next rows are lost", f"{__name__}:commit", lambda *_: None, "after the next commit the rows are"),
    )
    return not_noticed(controls, problem_of, killed_commits())


@functools.cache
def _image(killed: Rows) -> DiskImage:
    """Return a table, with what the last kill leaves of a commit of these rows that is not there afterwards."""
    storage = MemoryStorage()
    create_table(storage, PATH, COLUMNS, timestamp=COLUMNS[0].name, partition_by=PartitionBy.DAY)
    commit(storage, PATH, BEFORE)
    image = storage.image()
    return left_by_last_kill(image, PATH, killed) if killed else image


def _problem(storage: MemoryStorage, rows: Rows, *, is_committed: bool) -> str | None:
    """Say what is wrong with what a killed commit has left, then with the next commit."""
    found = rows_in(storage, PATH)
    if found not in ([*BEFORE], [*BEFORE, *rows]) or (is_committed and found == [*BEFORE]):
        return f"the rows are {found}"
    problem = _unsound(storage, found)
    if problem is not None:
        return problem
    commit(storage, PATH, LATER)
    expected = sorted([*found, *LATER], key=lambda row: row[0])
    if rows_in(storage, PATH) != expected:
        return f"after the next commit the rows are {rows_in(storage, PATH)}"
    problem = _unsound(storage, expected)
    return problem and f"after the next commit {problem}"


def _unsound(storage: MemoryStorage, rows: Rows) -> str | None:
    table = open_table(storage, PATH)
    problems = verify_table(table).all_problems
    if problems:
        return str(problems[0])
    column = the_only(symbol_columns(table))
    path = dictionary_paths(table, table.transaction(), column)["o"]
    has_null = any(tag is None for _, tag in rows)
    is_noted = read_offsets_header(storage, path).has_null
    return "no null is noted in the dictionary" if has_null and not is_noted else None
