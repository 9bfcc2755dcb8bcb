"""The stateful explorer: random programs run on a table and on the model side by side.

`rules.py` says what each rule does, `world.py` what is compared after it.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tornproof.harness.common.patch import wrapped
from tornproof.harness.common.quiet_hypothesis import quiet_hypothesis
from tornproof.harness.common.remembered_codecs import remembered_decoding, remembered_encoder
from tornproof.harness.common.verdict import Finding, HasTime, OnProgress, Phase, Verdict, always
from tornproof.harness.explorers.model_based.machine import STEPS_IN_PROGRAM, Failure, Search, replay
from tornproof.harness.explorers.model_based.rules import RULES, Step
from tornproof.harness.explorers.model_based.start import (
    NothingToExploreError,
    StorageKind,
    prepare,
    scratch_directory,
)
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.impl.errors import ProblemError

PHASE = "stateful"
CONTROL_STEPS = 800
# Points that a run must reach once it has executed so many rules.
SOON, LATE = 4_000, 10_000
COVERAGE_GOALS = {
    "area placed before": SOON,
    "area placed behind": SOON,
    "commit killed before a header was stored": SOON,
    "commit killed after a header was stored": SOON,
    "commit killed in the record": SOON,
    "commit killed before the version store": LATE,
    "commit killed after the version store": LATE,
    "commit failed after the version store": LATE,
    "directory of a stopped commit removed": SOON,
    "merge of several row groups": SOON,
    "orphan restated": SOON,
    "pinned reader of a directory left behind": SOON,
    "pinned reader two generations back": SOON,
    "purge refused by a pin": SOON,
    "purged": SOON,
    "recovery stopped": SOON,
    "rewrite by ratio": SOON,
    "several partitions in one commit": SOON,
}
UPSERT = "upsert of a committed row"

STEPS_IN_PART = 500
SEED_STRIDE = 1009
"""Keeps the seeds of parts apart from those of other seeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A broken function that the machine must detect before its verdict counts."""

    name: str
    location: str
    broken: Callable[[Callable[..., Any]], Callable[..., Any]]

    def planted(self) -> AbstractContextManager[None]:
        """Replace the function at `location` (module:function) by the broken one."""
        return wrapped(self.location, self.broken)


def _forgets_last(grow: Callable[..., Any]) -> Callable[..., Any]:
    return lambda state, row_groups: grow(state, row_groups[:-1] or row_groups)


def _takes_newest(_: Callable[..., Any]) -> Callable[..., Any]:
    chain = importlib.import_module("tornproof.impl.pm.chain")
    return lambda data, token, *, file: chain.Resolved(position=next(chain.walk(data, file=file)), orphan_count=0)


def _restates_nothing(_: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *_, **__: ()


def _keeps_times(next_version: Callable[..., Any]) -> Callable[..., Any]:
    def following(current: Any, **settings: Any) -> Any:
        known = current.record
        settings |= {"min_timestamp": known.min_timestamp, "max_timestamp": known.max_timestamp}
        return next_version(current, **settings)

    return following


CONTROLS = (
    Control(
        name="a writer that forgets a row group",
        location="tornproof.impl.write.partition_change:next_in_place",
        broken=_forgets_last,
    ),
    Control(
        name="a reader of the newest footer", location="tornproof.impl.table.partition:resolve", broken=_takes_newest
    ),
    Control(
        name="a recovery that restates no orphan",
        location="tornproof.impl.write.recovery:_republish",
        broken=_restates_nothing,
    ),
    Control(
        name="a record that keeps its times",
        location="tornproof.impl.write.table_writer:next_version",
        broken=_keeps_times,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartResult:
    """The result of one part of the programs: counts of rules, points reached, and the smallest program that failed.

    `origin` says in words what each program starts from, `can_repeat_keys` whether a row there can replace another.
    """

    origin: str
    can_repeat_keys: bool
    programs: int
    counts: Counter[str]
    reached: Counter[str]
    finding: Finding | None


def parts(steps: int, seed: int) -> list[tuple[int, int]]:
    """Return the seed of each part of the programs, and the number of rules it executes."""
    starts = range(0, steps, STEPS_IN_PART)
    return [(seed * SEED_STRIDE + index, min(STEPS_IN_PART, steps - start)) for index, start in enumerate(starts)]


class Stateful:
    """Runs programs on copies of one table."""

    def __init__(self, image: DiskImage | None, path: str, storage_kind: StorageKind = StorageKind.FILES) -> None:
        """Read the table, or make a small new one; raises NothingToExploreError if no rows can be written to it."""
        try:
            self.start = prepare(image, path)
        except ProblemError as error:
            raise NothingToExploreError(str(error)) from error
        if not self.start.intervals:
            raise NothingToExploreError("no partition of the table can be written to")
        self._kind = storage_kind
        self._encode = remembered_encoder()
        where = "on files" if storage_kind is StorageKind.FILES else "in memory"
        self._origin = f"{'a copy' if image else 'a new table'} {where}"

    def explore(
        self,
        steps: int,
        number: int,
        scratch: str,
        has_time: HasTime = always,
        on_progress: OnProgress = lambda done, total: None,
    ) -> PartResult:
        """Execute `steps` rules in programs that follow from a number."""
        search = self._search(scratch, steps=steps, has_time=has_time, on_progress=on_progress)
        with quiet_hypothesis(), remembered_decoding():
            search.run(number)
            finding = _finding(search, number) if search.failure is not None else None
        return PartResult(
            origin=self._origin,
            can_repeat_keys=self.start.rows.can_repeat_keys,
            programs=search.program_count,
            counts=search.counts,
            reached=search.reached,
            finding=finding,
        )

    def detects(self, control: Control, seed: int, scratch: str) -> bool:
        """Return whether the machine detects the broken function."""
        trial = self._search(scratch, steps=CONTROL_STEPS)
        with quiet_hypothesis(), remembered_decoding(), control.planted():
            trial.run(seed, shrinks=False)
        return trial.failure is not None

    def _search(self, scratch: str, *, steps: int, **more: Any) -> Search:
        return Search(start=self.start, kind=self._kind, scratch=scratch, encode=self._encode, steps=steps, **more)


def stateful_phase(results: Sequence[PartResult], seed: int, undetected: Sequence[Control] | None) -> Phase:
    """Join the results of the parts; `undetected` are the controls not detected, None where none was tried."""
    counts = sum((each.counts for each in results), Counter[str]())
    reached = sum((each.reached for each in results), Counter[str]())
    explored = counts.total()
    findings = {each.finding.property: each.finding for each in reversed(results) if each.finding is not None}
    goals = [name for name, least in COVERAGE_GOALS.items() if explored >= least]
    if results[0].can_repeat_keys and explored >= SOON:
        goals.append(UPSERT)
    phase = Phase(
        name=PHASE,
        explored=explored,
        complete=False,
        bound=f"{explored} rules in {sum(each.programs for each in results)} programs of up to {STEPS_IN_PROGRAM}, "
        f"random from seed {seed}, each from {results[0].origin}",
        verdict=Verdict.INVALID if findings else Verdict.VALID,
        counts={name: counts[name] for name in RULES},
        reached={name: reached[name] for name in sorted(reached)},
        findings=tuple(findings.values()),
    )
    failed = None if undetected is None else [f"{control.name} was not detected" for control in undetected]
    return phase.with_controls(failed).with_coverage_goals(goals).doubted("" if explored else "no rule was executed")


def replay_stateful(
    image: DiskImage | None,
    path: str,
    finding: Finding,
    *,
    storage_kind: StorageKind = StorageKind.FILES,
    directory: str | None = None,
) -> Verdict:
    """Return INVALID when the finding's program violates the same property again, VALID when it violates none.

    UNKNOWN when it cannot be run, or violates another one.
    """
    try:
        steps = tuple(dict(each) for each in finding.evidence["steps"])
        options = int(finding.evidence["options"])
        start = prepare(image, path)
        with scratch_directory(storage_kind, directory) as scratch, remembered_decoding():
            search = Search(start=start, kind=storage_kind, scratch=scratch, encode=remembered_encoder(), steps=0)
            violation = replay(search, options, steps)
    except (KeyError, IndexError, TypeError, ValueError, NothingToExploreError):
        return Verdict.UNKNOWN
    if violation is None:
        return Verdict.VALID
    return Verdict.INVALID if violation.broken == finding.property else Verdict.UNKNOWN


def _finding(search: Search, seed: int) -> Finding:
    failure = search.failure
    assert failure is not None
    again = replay(search, failure.options, failure.steps)
    program = ", then ".join(_step_in_words(each) for each in failure.steps) or "no step at all"
    return Finding(
        property=failure.violation.broken,
        phase=PHASE,
        sentence=f"After {program}: {failure.violation.text}.",
        evidence={
            "seed": seed,
            "storage": search.kind.value,
            "options": failure.options,
            "steps": [dict(each) for each in failure.steps],
            "text": failure.violation.text,
            "is_seen_again": _is_same(again, failure),
        },
    )


def _is_same(again: Exception | None, failure: Failure) -> bool:
    return again is not None and str(again) == str(failure.violation)


def _step_in_words(step: Step) -> str:
    arguments = ", ".join(f"{key} {value}" for key, value in step.items() if key != "rule")
    return f"{step['rule']} ({arguments})" if arguments else str(step["rule"])
