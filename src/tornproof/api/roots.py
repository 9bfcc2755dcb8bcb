"""All tables below a directory, such as a server's data directory, looked at in several processes, and verified."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

from tornproof.api.steady import verify_until_stable
from tornproof.harness.common.verdict import Phase, Verdict
from tornproof.harness.parallel.tasks import Exploration, explore, explore_here
from tornproof.harness.parallel.workers import Task, Worker
from tornproof.impl.errors import BusyError, Problem, TornproofError, counted
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.table import open_table
from tornproof.impl.table.tables_below import names_below
from tornproof.impl.txn.sequencer import pending_transaction_count
from tornproof.impl.verify.verify import TableReport

TABLES_OF_TASK = 16
PROBLEMS_KEPT = 20
"""Of a table, so that ten thousand damaged ones fit into memory."""
NOT_ALL_READ = "; not all directories could be read"
_NAME = "tables"
T = TypeVar("T")
Found = TypeVar("Found")
OnTables: TypeAlias = Callable[[int, int], None]
"""Takes the number of tables that are done, and of all."""


def _ignored(done: int, total: int) -> None:
    pass


@dataclass(slots=True, kw_only=True)
class Below(Generic[Found]):
    """What was found in the tables below a root; `interrupted_by` a signal, so that some are missing.

    `note` says why tables are missing otherwise.
    """

    found: list[Found] = field(default_factory=list)
    interrupted_by: signal.Signals | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSummary:
    """What verification found in one table, named relative to the root; `sentence` also says why it was not verified.

    `pending_transactions` are those of its write-ahead log that no version contains, None if it has no log.
    """

    table: str
    verdict: Verdict
    sentence: str
    version: int | None = None
    partition_count: int = 0
    row_count: int = 0
    pending_transactions: int | None = None
    problem_count: int = 0
    problems: tuple[Problem, ...] = ()


@dataclass(slots=True, kw_only=True)
class RootReport:
    """The tables below a root, the worst first; `interrupted_by` a signal, so that some are missing.

    `note` says why tables are missing otherwise, and what was left out; `closed` which directories could not be read.
    """

    root: str
    table_count: int
    tables: list[TableSummary] = field(default_factory=list)
    interrupted_by: signal.Signals | None = None
    note: str = ""
    closed: str = ""

    @property
    def verdict(self) -> Verdict:
        """INVALID if a table is damaged, else UNKNOWN if one is, or may be, missing or not verified, else VALID."""
        verdicts = {table.verdict for table in self.tables}
        if Verdict.INVALID in verdicts:
            return Verdict.INVALID
        is_whole = len(self.tables) == self.table_count and not self.closed
        return Verdict.VALID if is_whole and verdicts <= {Verdict.VALID} else Verdict.UNKNOWN

    @property
    def sentence(self) -> str:
        """The verdict in words, with its denominator."""
        counts = {verdict: sum(table.verdict is verdict for table in self.tables) for verdict in Verdict}
        left = self.table_count - len(self.tables)
        parts = (
            (counts[Verdict.INVALID], "damaged"),
            (counts[Verdict.UNKNOWN], "not verified"),
            (left, "not looked at"),
            (counts[Verdict.VALID], "sound"),
        )
        said = ", ".join(f"{count:,} {word}" for count, word in parts if count)
        return f"of {counted(self.table_count, 'table')}: {said}{NOT_ALL_READ if self.closed else ''}"


def verify_root(root: str, *, quick: bool, workers: int, on_progress: OnTables = _ignored) -> RootReport:
    """Verify every table below a directory; raises UsageError if there is none."""
    names, closed, left_out = names_below(root)
    below = look_below(names, _summaries, (root, quick), workers=workers, on_progress=on_progress)
    return RootReport(
        root=root,
        table_count=len(names),
        tables=sorted(below.found, key=lambda table: (-table.verdict, table.table)),
        interrupted_by=below.interrupted_by,
        note="; ".join(filter(None, (below.note, left_out))),
        closed=closed,
    )


def look_below(
    tables: Sequence[T],
    look: Callable[..., Iterator[Found]],
    arguments: tuple[Any, ...],
    *,
    workers: int,
    on_progress: OnTables = _ignored,
) -> Below[Found]:
    """Return what `look`, called with some of the tables and the arguments, yields for each, in their order.

    It is called in several processes, so it must be a function of a module.
    """
    groups = [tuple(tables[first : first + TABLES_OF_TASK]) for first in range(0, len(tables), TABLES_OF_TASK)]
    below: Below[Found] = Below()
    looking = _looking(below, groups, look, arguments)
    if len(groups) == 1:
        # To start processes would take longer.
        explore_here(looking, None, on_progress=lambda done, total: on_progress(done, len(tables)))
        return below
    outcome = explore(
        {_NAME: looking},
        None,
        workers=workers,
        on_progress=lambda progress: on_progress(progress.cases, len(tables)),
    )
    below.interrupted_by = outcome.interrupted_by
    below.note = "; ".join(phase.note for phase in outcome.phases)
    return below


def _looking(
    below: Below[Found],
    groups: Sequence[tuple[T, ...]],
    look: Callable[..., Iterator[Found]],
    arguments: tuple[Any, ...],
) -> Exploration:
    tasks = [Task(run=_look_at, arguments=(look, group, arguments), cost=len(group)) for group in groups]
    for found in (yield tasks):
        below.found += found or []
    # The caller has a verdict of its own.
    return Phase(name=_NAME, explored=len(below.found), complete=False, bound="", verdict=Verdict.VALID)


def _look_at(
    worker: Worker, look: Callable[..., Iterator[Found]], tables: Sequence[T], arguments: tuple[Any, ...]
) -> list[Found]:
    found: list[Found] = []
    looked = look(tables, *arguments)
    while worker.has_time() and len(found) < len(tables):
        found.append(next(looked))
        worker.report_progress(len(found), len(tables))
    return found


def _summaries(names: Sequence[str], root: str, quick: bool) -> Iterator[TableSummary]:
    for name in names:
        yield _summary(root, name, quick)


def _summary(root: str, name: str, quick: bool) -> TableSummary:
    storage, path = OperatingSystemStorage(), str(Path(root, name))
    try:
        report = verify_until_stable(storage, path, quick=quick)
        pending = _pending(storage, path, report)
    except TornproofError as error:
        return TableSummary(table=name, verdict=Verdict.UNKNOWN, sentence=str(error))
    problems = report.all_problems
    return TableSummary(
        table=name,
        verdict=Verdict.VALID if report.sound else Verdict.INVALID,
        sentence=report.verdict,
        version=report.version,
        partition_count=len(report.partitions),
        row_count=sum(partition.rows for partition in report.partitions),
        pending_transactions=pending,
        problem_count=len(problems),
        problems=problems[:PROBLEMS_KEPT],
    )


def _pending(storage: OperatingSystemStorage, path: str, report: TableReport) -> int | None:
    if report.version is None:
        return None
    with suppress(BusyError):
        return pending_transaction_count(storage, path, open_table(storage, path).transaction())
    return None
