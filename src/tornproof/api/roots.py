"""Verification of all tables below a directory, such as a server's data directory, in several processes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tornproof.api.steady import verify_until_stable
from tornproof.harness.common.verdict import Phase, Verdict
from tornproof.harness.parallel.tasks import Exploration, explore, explore_here
from tornproof.harness.parallel.workers import Task, Worker
from tornproof.impl.errors import BusyError, Problem, TornproofError, UsageError, counted
from tornproof.impl.storage.operating_system import OperatingSystemStorage
from tornproof.impl.table.table import open_table
from tornproof.impl.table.tables_below import tables_below
from tornproof.impl.txn.sequencer import pending_transaction_count
from tornproof.impl.txn.transaction import TXN_FILE
from tornproof.impl.verify.verify import TableReport

TABLES_OF_TASK = 16
PROBLEMS_KEPT = 20
"""Of a table, so that ten thousand damaged ones fit into memory."""
_NAME = "tables"


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

    `note` says why tables are missing otherwise.
    """

    root: str
    table_count: int
    tables: list[TableSummary] = field(default_factory=list)
    interrupted_by: signal.Signals | None = None
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        """INVALID if a table is damaged, else UNKNOWN if one could not be verified or is missing, else VALID."""
        verdicts = {table.verdict for table in self.tables}
        if Verdict.INVALID in verdicts:
            return Verdict.INVALID
        is_whole = len(self.tables) == self.table_count
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
        return f"of {counted(self.table_count, 'table')}: {said}"


def verify_root(
    root: str, *, quick: bool, workers: int, on_progress: Callable[[int, int], None] = lambda done, total: None
) -> RootReport:
    """Verify every table below a directory; raises UsageError if there is none, or one cannot be entered."""
    try:
        names = [str(path.relative_to(root)) for path in tables_below(Path(root))]
    except OSError as error:
        raise UsageError(f"{error.filename or root}: cannot read: {error.strerror or error}") from error
    if not names:
        raise UsageError(f"{root}: holds no table: there is no {TXN_FILE} in it or below it")
    report = RootReport(root=root, table_count=len(names))
    groups = [tuple(names[first : first + TABLES_OF_TASK]) for first in range(0, len(names), TABLES_OF_TASK)]
    verification = _verification(report, groups, root, quick)
    if len(groups) == 1:
        # To start processes would take longer.
        explore_here(verification, None, on_progress=lambda done, total: on_progress(done, len(names)))
    else:
        outcome = explore(
            {_NAME: verification},
            None,
            workers=workers,
            on_progress=lambda progress: on_progress(progress.cases, len(names)),
        )
        report.interrupted_by = outcome.interrupted_by
        report.note = "; ".join(phase.note for phase in outcome.phases)
    report.tables.sort(key=lambda table: (-table.verdict, table.table))
    return report


def _verification(report: RootReport, groups: Sequence[tuple[str, ...]], root: str, quick: bool) -> Exploration:
    tasks = [Task(run=_verify_group, arguments=(root, group, quick), cost=len(group)) for group in groups]
    for found in (yield tasks):
        report.tables += found or []
    return Phase(
        name=_NAME,
        explored=len(report.tables),
        complete=len(report.tables) == report.table_count,
        bound=f"{counted(report.table_count, 'table')}",
        verdict=report.verdict,
    )


def _verify_group(worker: Worker, root: str, names: Sequence[str], quick: bool) -> list[TableSummary]:
    summaries = []
    for name in names:
        if not worker.has_time():
            break
        summaries.append(_summary(root, name, quick))
        worker.report_progress(len(summaries), len(names))
    return summaries


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
