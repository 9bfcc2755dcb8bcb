"""What a run of the damage explorer says: its counts by kind and by field, its bound, its doubts, its findings."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.explore.damage_catalogue import is_sampled
from harness.explore.damage_judge import Judge, Outcome
from harness.explore.damage_pairs import SEED, ChosenPairs
from harness.explore.damage_plan import GROWN, Cut, Damage, Flip, Kind, Overwrite, Pair, Task
from harness.explore.damage_tally import Tally
from harness.verdict import Finding, Phase, Verdict

PROPERTY = "damage is never read as a wrong answer"
MUST_REACH = ("rejected by CHECKSUM of _pm", "a page rejected by its header")
EXPOSED = (Outcome.EXPOSURE, Outcome.ROLLBACK)
_UNREMARKABLE = (Outcome.REJECTED, Outcome.HARMLESS)


@dataclass(slots=True, kw_only=True)
class Run:
    """A run so far: what was planned, found, and left for lack of time, and why it may not count."""

    judge: Judge
    tasks: list[Task]
    controls: list[str]
    pairs: ChosenPairs = field(default_factory=lambda: ChosenPairs((), 0))
    tally: Tally = field(default_factory=Tally)
    left: list[Task] = field(default_factory=list)
    broken: str = ""
    has_time_for_more: bool = True

    @property
    def is_complete(self) -> bool:
        """Whether all single damages of the plan were tried, and none only sampled; of pairs the bound speaks."""
        sampled = any(
            task.step > 1 or (_is_listed(task.kind) and is_sampled(self.judge, task.kind, task.file))
            for task in self.tasks
        )
        return self.has_time_for_more and not (self.left or self.broken or sampled)


def phase_of(run: Run, seconds: float) -> Phase:
    """Return the result of a run that took so many seconds."""
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
    reached = {name: tally.reached[name] for name in sorted({*tally.reached, *MUST_REACH})}
    reached["a second look by the whole table"] = tally.second_looks
    for kind in Kind:
        for outcome in Outcome:
            if outcome not in _UNREMARKABLE and tally.outcomes_by_kind[kind, outcome]:
                reached[f"{kind.value}: {outcome.value}"] = tally.outcomes_by_kind[kind, outcome]
    notes = _doubts(run, reached)
    return Phase(
        name="damage",
        explored=tally.tried,
        complete=run.is_complete,
        bound=_bound(run),
        verdict=Verdict.INVALID if counts[Outcome.SILENT] else Verdict.UNKNOWN if notes else Verdict.VALID,
        seconds=seconds,
        counts={outcome.value: counts[outcome] for outcome in Outcome}
        | {kind.value: tally.tried_by_kind[kind] for kind in Kind},
        exposures=dict(sorted(exposures.items())),
        fields={file: {name: dict(found) for name, found in by_name.items()} for file, by_name in fields.items()},
        reached=reached,
        controls="; ".join(run.controls) or "passed",
        note="; ".join(notes),
        findings=tuple(_findings(tally.silent)),
    )


def _doubts(run: Run, reached: dict[str, int]) -> list[str]:
    """Return the reasons for which a run without silent damage is still no VALID one."""
    notes = [run.broken] if run.broken else []
    if not run.judge.partitions:
        notes.append("the table has no parquet partition, so there was nothing to explore")
    if run.controls:
        notes.append("a positive control failed")
    missing = [name for name in MUST_REACH if not reached[name]]
    if missing and not run.left:
        notes.append(f"never reached: {', '.join(missing)}")
    if any(task.required for task in run.left):
        notes.append("the time was over before all damage of _txn and _pm was tried")
    disagreements = run.tally.disagreements
    if disagreements:
        notes.append(f"{len(disagreements)} damages could not be judged, such as {min(disagreements)}")
    return notes


def _is_listed(kind: Kind) -> bool:
    return kind not in (Kind.FLIP, Kind.CUT, Kind.PAIR)


def _bound(run: Run) -> str:
    """Say what was tried: bits and lengths file by file of one name, then the other kinds."""
    parts = []
    ranges = [task for task in run.tasks if not _is_listed(task.kind)]
    for name in dict.fromkeys(task.file.rpartition("/")[2] for task in ranges):
        mine = [task for task in ranges if task.file.rpartition("/")[2] == name]
        steps = sorted({task.step for task in mine})
        size_bytes = sum(run.judge.size_bytes(task.file) for task in mine if not task.cuts)
        each = "every bit and length" if steps == [1] else f"one of {steps[-1]} bits and lengths in the largest"
        files = sum(not task.cuts for task in mine)
        left = [task for task in run.left if not _is_listed(task.kind) and task.kind is not Kind.PAIR]
        skipped = sum(task.size for task in left if task.file.rpartition("/")[2] == name)
        parts.append(f"{name}: {each} ({files} files, {size_bytes} bytes){_skipped(skipped)}")
    return "; ".join([*parts, *_kind_bounds(run)])


def _kind_bounds(run: Run) -> Iterator[str]:
    planned, left = (
        Counter({kind: sum(task.size for task in tasks if task.kind is kind) for kind in Kind})
        for tasks in (run.tasks, run.left)
    )
    for kind in filter(_is_listed, Kind):
        if planned[kind]:
            mine = [task.file for task in run.tasks if task.kind is kind]
            sampled = ", of large files a sample" if any(is_sampled(run.judge, kind, file) for file in mine) else ""
            past = f" (against the {len(run.judge.of(kind).older)} versions before)" if kind in GROWN else ""
            yield f"{planned[kind]} {kind.value}{past}{sampled}{_skipped(left[kind])}"
    if planned.total() > sum(planned[kind] for kind in (Kind.FLIP, Kind.CUT)) and run.judge.grown is None:
        yield f"nothing stale, because the table takes no commits: {run.judge.no_past}"
    if run.pairs.total:
        sample = f" (of {run.pairs.total}, drawn with seed {SEED})" if run.pairs.are_sampled else ""
        yield f"{len(run.pairs.pairs)} {Kind.PAIR.value} that alone were let pass{sample}{_skipped(left[Kind.PAIR])}"
    elif not run.has_time_for_more:
        yield "nothing else for lack of time"


def _skipped(count: int) -> str:
    return f", {count} left for lack of time" if count else ""


def _findings(silent: list[tuple[Damage, str]]) -> Iterator[Finding]:
    """Yield one finding a kind and field, the first damage of it, whichever worker was done first."""
    seen: set[tuple[Kind, str, str]] = set()
    order = list(Kind)
    for damage, name in sorted(
        silent, key=lambda each: (order.index(each[0].kind), each[0].file, each[0].offset_bytes, str(each[0]))
    ):
        if (damage.kind, damage.file, name) not in seen:
            seen.add((damage.kind, damage.file, name))
            yield _finding(damage, name)


def _finding(damage: Damage, field_name: str) -> Finding:
    evidence: dict[str, object] = {"file": damage.file, "field": field_name, "offset_bytes": damage.offset_bytes}
    sentence = f"With {damage} ({field_name}), the table is called sound and other rows are read."
    return Finding(property=PROPERTY, phase="damage", sentence=sentence, evidence=evidence | _evidence(damage))


def _evidence(damage: Damage) -> dict[str, object]:
    """Return as plain data all that replaying needs beside the table."""
    match damage:
        case Flip():
            return {"kind": "flip", "bit": damage.bit}
        case Cut():
            return {"kind": "cut", "size_bytes": damage.size_bytes}
        case Pair():
            bits = [{"file": flip.file, "bit": flip.bit} for flip in (damage.first, damage.second)]
            return {"kind": "pair", "bits": bits}
        case Overwrite():
            edits = [
                {"file": edit.file, "offset_bytes": edit.offset_bytes, "content": edit.content.hex()}
                for edit in damage.edits
            ]
            return {"kind": damage.kind.value, "edits": edits, "told": damage.told}
