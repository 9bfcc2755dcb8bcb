"""Results on files that another process may be changing: a problem counts only when two attempts see it.

Tables of a running server are read without pins (docs/writing.md), so a file can be truncated, moved or removed between
two reads. Damage stays the same in the next attempt; what a writer changed meanwhile does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tornproof.impl.errors import BusyError, CorruptError, NotATableError, ProblemError, StorageError
from tornproof.impl.read.decoding import by_threads
from tornproof.impl.storage.interface import ReadableStorage
from tornproof.impl.table.table import open_table
from tornproof.impl.verify.verify import Progress, TableReport, verify_table

ATTEMPTS = 12
PAUSE_SECONDS = 0.02

Result = TypeVar("Result")


def verify_until_stable(
    storage: ReadableStorage, path: str, *, quick: bool, progress: Progress = lambda _: None
) -> TableReport:
    """Verify the table at `path`; problems count once two attempts in a row agree on them.

    A damaged `_meta` becomes a problem of the report. Raises BusyError when no two attempts agree, NotATableError,
    StorageError.
    """

    def attempt() -> TableReport:
        try:
            table = open_table(storage, path)
        except CorruptError as error:
            return TableReport(table=path, version=None, problems=(error.problem,))
        with by_threads() as decoding:
            return verify_table(table, quick=quick, progress=progress, decoding=decoding)

    return until_stable(storage, path, attempt, lambda report: None if report.sound else report.all_problems)


def until_stable(
    storage: ReadableStorage, path: str, attempt: Callable[[], Result], complaint_of: Callable[[Result], object]
) -> Result:
    """Return the first result without a complaint, or the second of two in a row with the same complaint.

    An error counts as a complaint and is raised once it repeats. Raises BusyError if complaints keep changing.
    """
    last: object = None
    for _ in range(ATTEMPTS):
        try:
            result = attempt()
        except (ProblemError, NotATableError, StorageError) as error:
            if str(error) == last:
                raise
            last = str(error)
        else:
            complaint = complaint_of(result)
            if complaint is None or complaint == last:
                return result
            last = complaint
        storage.sleep_seconds(PAUSE_SECONDS)
    raise BusyError(f"{path}: the files kept changing while they were read ({ATTEMPTS} attempts); try again: {last}")
