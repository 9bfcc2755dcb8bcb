"""The stateful explorer: drawn programs of a table's whole life, the model beside the implementation.

What one rule does is in `stateful_rules` and `stateful_commit`, what is compared after it in `stateful_world`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from harness.disk.image import DiskImage
from harness.explore.quiet_hypothesis import quiet_hypothesis
from harness.explore.stateful_machine import STEPS_IN_PROGRAM, Failure, Search, replay
from harness.explore.stateful_memo import remembered_decoding, remembered_encoder
from harness.explore.stateful_rules import RULES, Step
from harness.explore.stateful_start import NothingToExploreError, Start, StorageKind, prepare, scratch_directory
from harness.faults.patch import replaced
from harness.verdict import Finding, Phase, Verdict, nothing_explored
from impl.errors import ProblemError

PHASE = "stateful"
CONTROL_STEPS = 800
# Points that a run must reach, and from how many rule executions on it has no excuse.
SOON, LATE = 4_000, 10_000
MUST_REACH = {
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

Clock = Callable[[], float]
OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A broken function that the same machine must convict before its other verdicts count."""

    name: str
    place: str
    broken: Callable[[Callable[..., Any]], Callable[..., Any]]

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Put the broken function in the place of the right one."""
        module, _, name = self.place.partition(":")
        with replaced(self.place, self.broken(getattr(importlib.import_module(module), name))):
            yield


def _forgets_last(grow: Callable[..., Any]) -> Callable[..., Any]:
    return lambda state, row_groups: grow(state, row_groups[:-1] or row_groups)


def _takes_newest(_: Callable[..., Any]) -> Callable[..., Any]:
    chain = importlib.import_module("impl.pm.chain")
    return lambda data, token, *, file: chain.Resolved(place=next(chain.walk(data, file=file)), orphan_count=0)


CONTROLS = (
    Control(
        name="a writer that forgets a row group", place="impl.partition_change:next_in_place", broken=_forgets_last
    ),
    Control(name="a reader of the newest footer", place="impl.partition:resolve", broken=_takes_newest),
)


def explore_stateful(
    image: DiskImage | None,
    path: str,
    *,
    clock: Clock,
    seconds: float,
    steps: int,
    seed: int,
    storage_kind: StorageKind = StorageKind.FILES,
    directory: str | None = None,
    on_progress: OnProgress = lambda done, total: None,
) -> Phase:
    """Take `steps` rules in programs that follow from `seed`, each from a copy of the table at `path` of `image`.

    Without an image from a small new table. Real files lie in `directory`, by default in shared memory where there is
    some. Ends early after about `seconds` of `clock`, which makes the verdict UNKNOWN, or with a finding.
    """
    begin = clock()
    try:
        start = prepare(image, path)
        if not start.places:
            raise NothingToExploreError("no partition of the table can be written to")
    except (ProblemError, NothingToExploreError) as error:
        return nothing_explored(PHASE, str(error), clock() - begin)
    with scratch_directory(storage_kind, directory) as scratch, quiet_hypothesis(), remembered_decoding():
        search = Search(
            start=start,
            kind=storage_kind,
            scratch=scratch,
            encode=remembered_encoder(),
            steps=steps,
            has_time=lambda: clock() - begin < seconds,
            on_progress=on_progress,
        )
        failed = [control.name for control in CONTROLS if not _convicts(search, control, seed)]
        search.run(seed)
        findings = [_finding(search, seed)] if search.failure is not None else []
    return _phase(search, seed, failed, findings, "a copy" if image else "a new table", clock() - begin)


def replay_stateful(
    image: DiskImage | None,
    path: str,
    finding: Finding,
    *,
    storage_kind: StorageKind = StorageKind.FILES,
    directory: str | None = None,
) -> Verdict:
    """Return INVALID when the finding's program breaks the same property again, VALID when it breaks none.

    UNKNOWN when it cannot be tried, or breaks another one.
    """
    try:
        steps = tuple(dict(each) for each in finding.evidence["steps"])
        options = int(finding.evidence["options"])
        start = prepare(image, path)
        with scratch_directory(storage_kind, directory) as scratch, remembered_decoding():
            violation = replay(_search(start, storage_kind, scratch), options, steps)
    except (KeyError, IndexError, TypeError, ValueError, NothingToExploreError):
        return Verdict.UNKNOWN
    if violation is None:
        return Verdict.VALID
    return Verdict.INVALID if violation.broken == finding.property else Verdict.UNKNOWN


def _search(start: Start, kind: StorageKind, scratch: str) -> Search:
    return Search(
        start=start,
        kind=kind,
        scratch=scratch,
        encode=remembered_encoder(),
        steps=0,
        has_time=lambda: True,
        on_progress=lambda done, total: None,
    )


def _convicts(search: Search, control: Control, seed: int) -> bool:
    trial = replace(_search(search.start, search.kind, search.scratch), steps=CONTROL_STEPS, encode=search.encode)
    with control.planted():
        trial.run(seed, shrinks=False)
    return trial.failure is not None


def _finding(search: Search, seed: int) -> Finding:
    failure = search.failure
    assert failure is not None
    again = replay(search, failure.options, failure.steps)
    story = ", then ".join(_told(each) for each in failure.steps) or "nothing at all"
    return Finding(
        property=failure.violation.broken,
        phase=PHASE,
        sentence=f"After {story}: {failure.violation.text}.",
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


def _told(step: Step) -> str:
    arguments = ", ".join(f"{key} {value}" for key, value in step.items() if key != "rule")
    return f"{step['rule']} ({arguments})" if arguments else str(step["rule"])


def _phase(
    search: Search, seed: int, failed: Sequence[str], findings: Sequence[Finding], origin: str, seconds: float
) -> Phase:
    declared = [name for name, least in MUST_REACH.items() if search.steps >= least]
    if search.start.rows.shape.can_repeat_keys and search.steps >= SOON:
        declared.append(UPSERT)
    reached = {name: search.reached[name] for name in sorted({*search.reached, *declared})}
    notes = [f"not convicted: {name}" for name in failed]
    if search.is_out_of_time:
        notes.append(f"the time was over after {search.explored} of {search.steps} rules")
    missing = [name for name in declared if not reached[name]]
    if missing and not findings and not search.is_out_of_time:
        notes.append(f"never reached: {', '.join(missing)}")
    return Phase(
        name=PHASE,
        explored=search.explored,
        complete=False,
        bound=f"{search.program_count} programs of up to {STEPS_IN_PROGRAM} rules, drawn from seed {seed}, each from "
        f"{origin} {'on files' if search.kind is StorageKind.FILES else 'in memory'}",
        verdict=Verdict.INVALID if findings else Verdict.UNKNOWN if notes else Verdict.VALID,
        seconds=seconds,
        counts={name: search.counts[name] for name in RULES},
        reached=reached,
        controls="; ".join(f"not convicted: {name}" for name in failed) or "passed",
        note="; ".join(notes),
        findings=tuple(findings),
    )
