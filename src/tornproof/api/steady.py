"""Results on files that another process may be changing: a problem counts only when two attempts see it.

Where the table allows it, a pin keeps writers of this library from removing files meanwhile (docs/writing.md). A server
knows no pins, so a file can be truncated, moved or removed between two reads. Damage stays the same in the next
attempt; what a writer changed meanwhile does not.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TypeVar

from tornproof.impl.errors import BusyError, CorruptError, FileVanishedError, NotATableError, ProblemError, StorageError
from tornproof.impl.read.decoding import by_threads
from tornproof.impl.storage.interface import Storage
from tornproof.impl.table.table import open_table
from tornproof.impl.txn.pins import pin_committed
from tornproof.impl.verify.verify import Progress, TableReport, verify_table

ATTEMPTS = 12
PAUSE_SECONDS = 0.02

Result = TypeVar("Result")


def verify_until_stable(
    storage: Storage, path: str, *, quick: bool, progress: Progress = lambda _: None
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
    storage: Storage,
    path: str,
    attempt: Callable[[], Result],
    complaint_of: Callable[[Result], object],
    say: Callable[[str], None] = lambda _: None,
) -> Result:
    """Return the first result without a complaint, or the second of two in a row with the same complaint.

    An error counts as a complaint and is raised once it repeats. The version that is current now is pinned, and with it
    all later ones, as far as the table allows; `say` is told when files are gone all the same. Raises BusyError if
    complaints keep changing.
    """
    last: object = None
    with ExitStack() as pinned:
        with suppress(ProblemError, NotATableError, StorageError, BusyError):
            pinned.enter_context(pin_committed(storage, path))
        for _ in range(ATTEMPTS):
            try:
                result = attempt()
            except FileVanishedError as error:
                last = str(error)
                say(f"{path}: reading again, because {error.file} was removed meanwhile: the table cannot be pinned")
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
    raise BusyError(f"{path}: the files kept changing while they were read ({ATTEMPTS} attempts); try again")
