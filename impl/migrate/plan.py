"""The results of a migration, or with `dry_run` of one that would be done."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

import msgspec

from tornproof.impl.errors import Problem, ProblemError, TornproofError


class Outcome(StrEnum):
    """The result for one parquet partition or file."""

    MIGRATED = "migrated"
    REPLACED = "replaced"
    ALREADY = "already"
    REJECTED = "rejected"


class PartitionMigration(msgspec.Struct, frozen=True, kw_only=True):
    """One parquet partition or file: `token` is its committed size, `written_to` the path of its `_pm`, of `pm_bytes`.

    `problems` and `reason` say why it was rejected or, after `REPLACED`, what was wrong with the old `_pm`, which is
    kept at `kept_as` below the table.
    """

    name: str
    outcome: Outcome
    token: int
    written_to: str | None = None
    pm_bytes: int = 0
    kept_as: str | None = None
    problems: tuple[Problem, ...] = ()
    reason: str = ""

    @property
    def sentence(self) -> str:
        """Return the reason and the problems in one line."""
        return "; ".join(filter(None, (self.reason, *map(str, self.problems))))


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """A table, or a plain file as a single partition; `version` is None for a file and if `_txn` is damaged.

    `problems` and `reason` say why none of it was examined.
    """

    path: str
    version: int | None = None
    partitions: tuple[PartitionMigration, ...] = ()
    native_count: int = 0
    problems: tuple[Problem, ...] = ()
    reason: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether nothing was rejected."""
        rejected = any(partition.outcome is Outcome.REJECTED for partition in self.partitions)
        return not (rejected or self.problems or self.reason)

    def counts(self) -> Counter[str]:
        """Return the number of partitions for each outcome, and of native ones."""
        counts = Counter({str(outcome): 0 for outcome in Outcome})
        counts.update(str(partition.outcome) for partition in self.partitions)
        counts["native"] = self.native_count
        return counts


def rejection(name: str, token: int, error: TornproofError) -> PartitionMigration:
    """Return the rejected partition or file for an error."""
    if isinstance(error, ProblemError):
        return PartitionMigration(name=name, outcome=Outcome.REJECTED, token=token, problems=(error.problem,))
    return PartitionMigration(name=name, outcome=Outcome.REJECTED, token=token, reason=str(error))


def rejected_table(path: str, error: TornproofError) -> Migration:
    """Return a table, or what may be one, that was not examined because of an error."""
    if isinstance(error, ProblemError):
        return Migration(path=path, problems=(error.problem,))
    return Migration(path=path, reason=str(error))
