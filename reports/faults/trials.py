"""Trials of planted faults, read from the Parquet file that `tornproof faults` wrote, and their totals."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tornproof.reports.kit.json_fields import ResultError, shortened, visible

TRIALS_FILE = "faults.parquet"
WANTED = "trials_wanted"
"""The key of how many trials were wanted, in the metadata of the file."""
ROWS_MAX = 1_000_000
TEXT_CHARACTERS_MAX = 400
TOLD = "told"
JUDGES, BENIGN = "judges", "benign"
"""Families that are no mistakes in the implementation."""
SET_ASIDE, ALL = "set aside", "all"
TOTAL_TITLES = ("family", "trials", "reached", "triggered", "detected", "CPU s, median", "95 %")
"""The titles of the cells of a total."""
KEY = "faults"
"""The key of the page."""
TYPES: dict[str, Any] = {
    **dict.fromkeys(
        ("fault", "family", "argument", "phase", "verdict", "property", "sentence", "cause"),
        pa.string(),
    ),
    **dict.fromkeys(("seed", "case_count", "replayed_count", "replay_count"), pa.int64()),
    **dict.fromkeys(("is_set_aside", "reached", "triggered"), pa.bool_()),
    "cpu_seconds": pa.float64(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One explorer on one fault; `is_found`: it has a finding that replays each time."""

    phase: str
    verdict: str
    reached: bool
    triggered: bool
    is_found: bool
    property: str
    sentence: str
    cause: str
    case_count: int
    cpu_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A fault with one seed: the phases of a check that is told nothing, in the order in which they were tried."""

    fault: str
    family: str
    is_set_aside: bool
    argument: str
    seed: int
    attempts: tuple[Attempt, ...]

    @property
    def reached(self) -> bool:
        """Whether the changed code was executed."""
        return any(each.reached for each in self.attempts)

    @property
    def triggered(self) -> bool:
        """Whether anything was counted or found that is not so without the fault."""
        return any(each.triggered for each in self.attempts)

    @property
    def found(self) -> Attempt | None:
        """The first phase with a finding that replays."""
        return next((each for each in self.attempts if each.is_found), None)

    @property
    def noticed(self) -> Attempt | None:
        """The first phase that did not end with VALID: it has a finding, or does not trust itself."""
        return next((each for each in self.attempts if each.verdict != "VALID"), None)

    @property
    def is_detected(self) -> bool:
        """Whether it is found; a mistake of a judge only has to be noticed."""
        return (self.noticed if self.family == JUDGES else self.found) is not None

    @property
    def is_told(self) -> bool:
        """Whether it is the trial of an explorer that was told the scenario, and not of a check."""
        return self.attempts[0].phase == TOLD

    @property
    def asked(self) -> str:
        """What tells it from other trials of the fault, in words."""
        return "told" if self.is_told else f"seed {self.seed}"

    @property
    def is_fault(self) -> bool:
        """Whether it has to be found: it is not benign, and there is no argument that it harms nobody."""
        return self.family != BENIGN and not self.argument

    @property
    def is_as_wanted(self) -> bool:
        """Whether what had to be found is found, and what is right raises no alarm."""
        return self.noticed is None if self.family == BENIGN else self.is_detected or not self.is_fault

    @property
    def how_far(self) -> str:
        """How far a fault came that is not detected, in words."""
        return "triggered" if self.triggered else "reached" if self.reached else "not reached"

    @property
    def cpu_seconds(self) -> float:
        """The CPU time up to the first finding, or of all phases."""
        times = [each.cpu_seconds for each in self.attempts]
        return sum(times[: self.attempts.index(self.found) + 1] if self.found else times)


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """The counts of some trials, and the median and 95th percentile of the CPU seconds of those that were detected."""

    name: str
    trial_count: int
    reached_count: int
    triggered_count: int
    detected_count: int
    median_seconds: float | None
    percentile_seconds: float | None

    @property
    def cells(self) -> tuple[str, ...]:
        """The name and the numbers as texts of a table."""
        counts = (self.trial_count, self.reached_count, self.triggered_count, self.detected_count)
        times = (self.median_seconds, self.percentile_seconds)
        seconds = ("–" if time is None else f"{time:.1f}" for time in times)
        return (self.name, *(f"{count:,}" for count in counts), *seconds)

    @classmethod
    def of(cls, name: str, trials: Sequence[Trial]) -> Total:
        """Return the total of trials."""
        times = sorted(each.cpu_seconds for each in trials if each.is_detected)
        return cls(
            name=name,
            trial_count=len(trials),
            reached_count=sum(each.reached for each in trials),
            triggered_count=sum(each.triggered for each in trials),
            detected_count=len(times),
            median_seconds=statistics.median(times) if times else None,
            percentile_seconds=times[-(len(times) // 20) - 1] if times else None,
        )


def read_trials(path: Path) -> list[Trial]:
    """Return the trials of a file, in its order; raises ResultError if it is not such a file."""
    return trials_of(_rows(path))


def read_wanted_count(path: Path) -> int | None:
    """Return how many trials the run of a file was to try; None if the file, of an earlier release, does not say."""
    try:
        text = (pq.read_schema(path).metadata or {}).get(WANTED.encode())
        return None if text is None else int(text)
    except (OSError, ValueError) as error:
        raise _error(path, WANTED, "the number of trials", str(error).partition("\n")[0]) from error


def not_as_wanted(trials: Iterable[Trial]) -> list[Trial]:
    """Return the trials with a missed fault, a false alarm, or a mistake of a judge that nothing notices."""
    return [each for each in trials if not each.is_as_wanted]


def verdict_on(trials: Sequence[Trial], wanted_count: int | None) -> str:
    """Return INVALID if one is not as wanted, else UNKNOWN if there is none or fewer than were wanted, else VALID."""
    if not_as_wanted(trials):
        return "INVALID"
    return "VALID" if trials and len(trials) >= (wanted_count or 0) else "UNKNOWN"


def trials_of(rows: Iterable[dict[str, Any]]) -> list[Trial]:
    """Return the trials of rows, those of a fault and a seed one after the other."""
    keys = groupby(rows, key=lambda row: (row["family"], row["fault"], row["seed"], row["phase"] == TOLD))
    return [_trial(list(group)) for _, group in keys]


def untold_of(trials: Iterable[Trial]) -> list[Trial]:
    """Return the trials of checks that were told nothing."""
    return [each for each in trials if not each.is_told]


def told_of(trials: Iterable[Trial]) -> list[Trial]:
    """Return the trials of explorers that were told the scenario."""
    return [each for each in trials if each.is_told]


def faults_of(trials: Iterable[Trial]) -> list[Trial]:
    """Return the trials of mistakes in the implementation that have to be found."""
    return [each for each in trials if each.is_fault and each.family != JUDGES]


def totals(trials: Iterable[Trial]) -> list[Total]:
    """Return the totals of what has to be found: of each family, then, without judges, of what is set aside and all."""
    trials = list(trials)
    wanted, faults = [each for each in trials if each.is_fault], faults_of(trials)
    families = sorted({each.family for each in wanted})
    return [
        *(Total.of(family, [each for each in wanted if each.family == family]) for family in families),
        Total.of(SET_ASIDE, [each for each in faults if each.is_set_aside]),
        Total.of(ALL, faults),
    ]


def _trial(rows: Sequence[dict[str, Any]]) -> Trial:
    first = rows[0]
    return Trial(
        **{name: first[name] for name in ("fault", "family", "is_set_aside", "argument", "seed")},
        attempts=tuple(
            Attempt(
                is_found=row["verdict"] == "INVALID" and row["replayed_count"] == row["replay_count"],
                **{name: row[name] for name in Attempt.__dataclass_fields__ if name != "is_found"},
            )
            for row in rows
        ),
    )


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        with pq.ParquetFile(path) as file:
            if file.metadata.num_rows > ROWS_MAX:
                raise _error(path, "rows", f"at most {ROWS_MAX:,}", f"{file.metadata.num_rows:,}")
            for name, wanted in TYPES.items():
                index = file.schema_arrow.get_field_index(name)
                actual = None if index < 0 else file.schema_arrow.field(index).type
                if actual != wanted:
                    raise _error(path, name, f"one column of {wanted}", str(actual or "none"))
            table = file.read(columns=list(TYPES), use_threads=False)
        if nulls := [name for name in TYPES if table[name].null_count]:
            raise _error(path, nulls[0], "a value in each row", "nothing")
        rows: list[dict[str, Any]] = table.to_pylist()
    except (OSError, MemoryError, pa.ArrowException) as error:
        raise _error(path, "the file", "trials of faults", str(error).partition("\n")[0]) from error
    return [
        {
            name: shortened(visible(value), TEXT_CHARACTERS_MAX) if isinstance(value, str) else value
            for name, value in row.items()
        }
        for row in rows
    ]


def _error(path: Path, field: str, expected: str, actual: str) -> ResultError:
    return ResultError(file=str(path), field=field, expected=expected, actual=actual)
