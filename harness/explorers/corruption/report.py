"""The result of a run of the damage explorer: counts by kind and by field, bound, doubts, findings."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tornproof.harness.common.verdict import CUT_SHORT, NOT_TRIED, Finding, Phase, Verdict
from tornproof.harness.explorers.corruption.judge import EXPECTED, FOUND, Outcome
from tornproof.harness.explorers.corruption.pairs import SEED, ChosenPairs
from tornproof.harness.explorers.corruption.plan import (
    GROWN,
    LISTED_KINDS,
    Crafted,
    Damage,
    Kind,
    Task,
    evidence_of,
)
from tornproof.harness.explorers.corruption.tally import Tally

PHASE = "damage"
PROPERTY = "damage is never read as a wrong answer"
RULES = "files are read by the rules of the format"
COVERAGE_GOALS = (
    "rejected by CHECKSUM of _pm",
    "a page rejected by its header",
    *(f"{kind.value}: {expected.value}" for kind, expected in EXPECTED.items()),
)
EXPOSED = (Outcome.EXPOSURE, Outcome.ROLLBACK)
_UNREMARKABLE = (Outcome.REJECTED, Outcome.HARMLESS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run tries, without pairs, and what it only samples.

    `sizes` and `weights` are by file; `older_count` is the number of versions before the table that stale damage is
    done to, and where there is no such table, `no_past` says why.
    """

    tasks: tuple[Task, ...] = ()
    sizes: dict[str, int] = field(default_factory=dict)
    weights: dict[str, int] = field(default_factory=dict)
    sampled: frozenset[tuple[Kind, str]] = frozenset()
    has_partitions: bool = True
    older_count: int | None = None
    no_past: str = ""


@dataclass(slots=True, kw_only=True)
class Run:
    """A run so far: what was planned, what was found, and what was left out for lack of time.

    There are no `failed_controls` where none was tried.
    """

    plan: Plan
    failed_controls: Sequence[str] | None = None
    pairs: ChosenPairs = field(default_factory=lambda: ChosenPairs((), 0))
    tally: Tally = field(default_factory=Tally)
    left: list[Task] = field(default_factory=list)

    def add(self, pieces: Sequence[Task], tallies: Sequence[Tally | None]) -> None:
        """Add what came of each piece; None where it was left out."""
        for piece, tally in zip(pieces, tallies, strict=True):
            if tally is None:
                self.left.append(piece)
            else:
                self.tally.add(tally)

    @property
    def is_complete(self) -> bool:
        """Whether every bit and every length was tried; for other kinds and for pairs see the bound."""
        sampled = any(kind in (Kind.FLIP, Kind.CUT) for kind, _ in self.plan.sampled)
        return bool(self.plan.tasks) and not self.left and not sampled


def phase_of(run: Run) -> Phase:
    """Return the result of a run."""
    tally = run.tally
    counts = Counter(dict.fromkeys(Outcome, 0))
    exposures: Counter[str] = Counter()
    fields: defaultdict[str, defaultdict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for (file, name, outcome), count in sorted(tally.outcomes.items(), key=lambda item: (item[0][0], item[0][1])):
        counts[outcome] += count
        fields[file][name][outcome.value] += count
        if outcome in EXPOSED:
            rolled_back = " (rollback)" if outcome is Outcome.ROLLBACK else ""
            exposures[f"{file.rpartition('/')[2]} {name}{rolled_back}"] += count
    reached = {name: tally.reached[name] for name in sorted(tally.reached)}
    reached["a second look by the whole table"] = tally.rechecked_count
    for kind in Kind:
        for outcome in Outcome:
            if outcome not in _UNREMARKABLE and tally.outcomes_by_kind[kind, outcome]:
                reached[f"{kind.value}: {outcome.value}"] = tally.outcomes_by_kind[kind, outcome]
    for kind, expected in EXPECTED.items():
        reached[f"{kind.value}: {expected.value}"] = tally.outcomes_by_kind[kind, expected]
    phase = Phase(
        name=PHASE,
        explored=tally.tried,
        complete=run.is_complete,
        bound=_bound(run),
        verdict=Verdict.INVALID if any(counts[outcome] for outcome in FOUND) else Verdict.VALID,
        counts={outcome.value: counts[outcome] for outcome in Outcome}
        | {kind.value: tally.tried_by_kind[kind] for kind in Kind},
        exposures=dict(sorted(exposures.items())),
        fields={file: {name: dict(found) for name, found in by_name.items()} for file, by_name in fields.items()},
        reached=reached,
        findings=tuple(_findings(tally.found)),
    )
    doubted = phase.doubted(*_doubts(run))
    if not run.plan.has_partitions:
        return replace(doubted, controls=NOT_TRIED)
    return doubted.with_coverage_goals(COVERAGE_GOALS).with_controls(run.failed_controls)


def _doubts(run: Run) -> Iterator[str]:
    """Yield the reasons why a run without silent damage is still not VALID."""
    if not run.tally.tried:
        yield CUT_SHORT if run.left else "there was nothing to try"
        return
    if not run.plan.has_partitions:
        yield "the table has no parquet partition, and a positive control needs one"
    disagreements = run.tally.disagreements
    if disagreements:
        yield f"{len(disagreements)} damages could not be judged, such as {min(disagreements)}"


def _is_listed(kind: Kind) -> bool:
    return kind in LISTED_KINDS


def _bound(run: Run) -> str:
    """Return what was tried: bits and lengths for all files of one name, then the other kinds."""
    parts = []
    ranges = [task for task in run.plan.tasks if not _is_listed(task.kind)]
    left = [task for task in run.left if not _is_listed(task.kind) and task.kind is not Kind.PAIR]
    for name in dict.fromkeys(task.file.rpartition("/")[2] for task in ranges):
        mine = [task for task in ranges if task.file.rpartition("/")[2] == name]
        files = {task.file: run.plan.sizes[task.file] for task in mine}
        step = max(task.step for task in mine)
        each = "every bit and length" if step == 1 else f"one of {step} bits and lengths"
        skipped = sum(task.size for task in left if task.file in files)
        parts.append(f"{name}: {each} ({len(files)} files, {sum(files.values())} bytes){_skipped(skipped)}")
    return "; ".join([*parts, *_kind_bounds(run)]) or "nothing was explored"


def _kind_bounds(run: Run) -> Iterator[str]:
    plan = run.plan
    planned, left = (
        Counter({kind: sum(task.size for task in tasks if task.kind is kind) for kind in Kind})
        for tasks in (plan.tasks, run.left)
    )
    for kind in filter(_is_listed, Kind):
        if planned[kind]:
            sampled = ", a sample" if any(each is kind for each, _ in plan.sampled) else ""
            past = f" (against the {plan.older_count} versions before)" if kind in GROWN else ""
            yield f"{planned[kind]} {kind.value}{past}{sampled}{_skipped(left[kind])}"
    if any(planned[kind] for kind in filter(_is_listed, Kind)) and plan.older_count is None:
        yield f"nothing stale, because the table takes no commits: {plan.no_past}"
    if run.pairs.total:
        sample = f" (of {run.pairs.total}, random with seed {SEED})" if run.pairs.are_sampled else ""
        pairs = f"{len(run.pairs.pairs)} {Kind.PAIR.value} that alone were not rejected"
        yield f"{pairs}{sample}{_skipped(left[Kind.PAIR])}"


def _skipped(count: int) -> str:
    return f", {count} of them not tried" if count else ""


def _findings(found: list[tuple[Damage, str, str]]) -> Iterator[Finding]:
    """Yield one finding for each kind and field, for its first damage, in the same order for any number of workers."""
    seen: set[tuple[Kind, str, str]] = set()
    order = list(Kind)
    for damage, name, reason in sorted(
        found, key=lambda each: (order.index(each[0].kind), each[0].file, each[0].offset_bytes, str(each[0]))
    ):
        if (damage.kind, damage.file, name) not in seen:
            seen.add((damage.kind, damage.file, name))
            yield _finding(damage, name, reason)


def _finding(damage: Damage, field_name: str, reason: str) -> Finding:
    if isinstance(damage, Crafted):
        rule = {Kind.BROKEN: "the format forbids this", Kind.REQUIRED: "no reader may read this without knowing it"}
        sentence = f"{damage} ({field_name}): {rule.get(damage.kind, 'the format allows this')}, and {reason}."
        return Finding(property=RULES, phase=PHASE, sentence=sentence, evidence=evidence_of(damage, field_name))
    sentence = f"With {damage} ({field_name}), {reason or 'the table is verified as sound, and other rows are read'}."
    return Finding(property=PROPERTY, phase=PHASE, sentence=sentence, evidence=evidence_of(damage, field_name))
