"""What became of partitions, tables and files that were to be migrated, or would without `dry_run`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from tornproof.impl.errors import Problem, ProblemError, TornproofError


class Outcome(StrEnum):
    """What became of one parquet partition or file."""

    MIGRATED = "migrated"
    REPLACED = "replaced"
    ALREADY = "already"
    REJECTED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMigration:
    """One parquet partition or file: `token` is where it ends, `written_to` the path of its `_pm`, `pm_bytes` its size.

    `problems` and `reason` say why it was refused or, after `REPLACED`, what was wrong with the old `_pm`, which is
    kept at the path `kept_as` below the table.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """A table, or a plain file as its own one partition; `version` is None for that and where `_txn` is damaged.

    `problems` and `reason` say why none of it was looked at.
    """

    path: str
    version: int | None = None
    partitions: tuple[PartitionMigration, ...] = ()
    native_count: int = 0
    problems: tuple[Problem, ...] = ()
    reason: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether nothing was refused."""
        rejected = any(partition.outcome is Outcome.REJECTED for partition in self.partitions)
        return not (rejected or self.problems or self.reason)

    def counts(self) -> Counter[str]:
        """Return how many partitions came to each outcome, and how many are native."""
        counts = Counter({str(outcome): 0 for outcome in Outcome})
        counts.update(str(partition.outcome) for partition in self.partitions)
        counts["native"] = self.native_count
        return counts


def rejection(name: str, token: int, error: TornproofError) -> PartitionMigration:
    """Return the refusal that an error means."""
    if isinstance(error, ProblemError):
        return PartitionMigration(name=name, outcome=Outcome.REJECTED, token=token, problems=(error.problem,))
    return PartitionMigration(name=name, outcome=Outcome.REJECTED, token=token, reason=str(error))


def rejected_table(path: str, error: TornproofError) -> Migration:
    """Return a table, or what may be one, of which nothing was looked at because of an error."""
    if isinstance(error, ProblemError):
        return Migration(path=path, problems=(error.problem,))
    return Migration(path=path, reason=str(error))
