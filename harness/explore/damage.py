"""The damage explorer: every single flipped bit and every truncation of a table's files, each read and classed."""

from __future__ import annotations

import itertools
import multiprocessing
import signal
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace

from harness.disk.image import DiskImage
from harness.explore.damage_controls import failed_controls
from harness.explore.damage_judge import Judge, Outcome
from harness.explore.damage_plan import BITS_IN_BYTE, Cut, Damage, Flip, Task, split
from harness.verdict import Finding, Phase, Verdict
from impl.partition import DATA_FILE

PROPERTY = "damage is never read as a wrong answer"
COMPLETE_BYTES = 64 * 1024
TASK_SIZE = 128
SECOND_LOOKS = 200
MUST_REACH = ("rejected by CHECKSUM of _pm", "a page rejected by its header")

Clock = Callable[[], float]
OnProgress = Callable[[int, int], None]


@dataclass(slots=True)
class Tally:
    """What one task found, or all of them together; `outcomes` by file and field, `disagreements` are our own bugs."""

    tried: int = 0
    second_looks: int = 0
    outcomes: Counter[tuple[str, str, Outcome]] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    silent: list[tuple[Damage, str]] = field(default_factory=list)
    disagreements: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Take another tally in."""
        self.tried += other.tried
        self.second_looks += other.second_looks
        self.outcomes += other.outcomes
        self.reached += other.reached
        self.silent += other.silent
        self.disagreements += other.disagreements


def plan(judge: Judge, complete_bytes: int = COMPLETE_BYTES) -> list[Task]:
    """Return all damage to try, what a verdict needs first.

    `_txn` and `_pm` are tried whole; a data.parquet above `complete_bytes` at every n-th bit and length, n odd.
    """
    tasks = []
    for file in judge.regions:
        size_bytes = judge.size_bytes(file)
        is_data = file.endswith(DATA_FILE)
        # An odd step visits all eight bits of a byte in turn.
        step = -(-size_bytes // complete_bytes) | 1 if is_data and size_bytes > complete_bytes else 1
        tasks += [
            Task(file=file, cuts=False, start=0, stop=size_bytes * BITS_IN_BYTE, step=step, required=not is_data),
            Task(file=file, cuts=True, start=0, stop=size_bytes, step=step, required=not is_data),
        ]
    return sorted(tasks, key=lambda task: not task.required)


def explore_damage(
    image: DiskImage,
    path: str,
    *,
    clock: Clock,
    seconds: float,
    workers: int,
    complete_bytes: int = COMPLETE_BYTES,
    on_progress: OnProgress = lambda done, total: None,
) -> Phase:
    """Damage the table at `path` of a sound `image` in every way of the plan and class what reading makes of it.

    Runs for at most about `seconds` of `clock`; what was not tried is said in the bound, and makes the verdict UNKNOWN
    unless it was part of a sample.
    """
    start = clock()
    judge = Judge(image, path)
    controls = failed_controls(judge)
    tasks = plan(judge, complete_bytes)
    total = sum(task.size for task in tasks)
    tally, left, broken = Tally(), [], ""
    pieces = _with_second_looks([piece for task in tasks for piece in split(task, TASK_SIZE)])
    try:
        for result in _run(pieces, image, path, workers, lambda: clock() - start < seconds):
            if isinstance(result, Task):
                left.append(result)
            else:
                tally.add(result)
                on_progress(tally.tried, total)
    except BrokenProcessPool:
        broken = "a worker process died while it judged a damage, which no damage may do to a reader"
    return _phase(judge, tally, tasks, left, broken, controls, clock() - start)


def _with_second_looks(pieces: list[Task]) -> list[Task]:
    every = -(-len(pieces) // SECOND_LOOKS)
    return [replace(piece, second_look=number % every == 0) for number, piece in enumerate(pieces)]


def judge_task(judge: Judge, task: Task) -> Tally:
    """Judge all damages of a task, and where it says so the middle one a second time by the whole table."""
    tally = Tally()
    looked_at_twice = task.size // 2 if task.second_look else None
    judge.reached.clear()
    for number, damage in enumerate(task.damages()):
        tally.tried += 1
        try:
            outcome, field_name = judge.judge(damage)
            if number == looked_at_twice:
                tally.second_looks += 1
                again = judge.judge_whole(damage)
                if again is not outcome:
                    tally.disagreements.append(f"{damage}: {outcome.value} by its part, {again.value} by the whole")
        except Exception as error:
            # A checker's own exception is no answer; the phase becomes UNKNOWN and says which damage it was.
            tally.disagreements.append(f"{damage}: {type(error).__name__}: {error}")
            continue
        tally.outcomes[task.file, field_name, outcome] += 1
        if outcome is Outcome.SILENT and all(name != field_name for _, name in tally.silent):
            tally.silent.append((damage, field_name))
    tally.reached.update(judge.reached)
    return tally


def _run(
    pieces: list[Task], image: DiskImage, path: str, workers: int, has_time: Callable[[], bool]
) -> Iterator[Tally | Task]:
    """Yield a tally for each piece that was judged, and the pieces for which there was no time."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn, initializer=_start, initargs=(image, path)) as pool:
        queue = iter(pieces)
        running: set[Future[Tally]] = set()
        while True:
            if has_time():
                room = 2 * workers - len(running)
                running |= {pool.submit(_judge_in_worker, piece) for piece in itertools.islice(queue, room)}
            if not running:
                break
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
        yield from queue


_worker_judge: Judge | None = None


def _start(image: DiskImage, path: str) -> None:
    # Ctrl-C reaches all processes of a terminal; the parent alone ends the run, and says so once.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # One judge a process: making it reads the whole table once.
    global _worker_judge
    _worker_judge = Judge(image, path)


def _judge_in_worker(task: Task) -> Tally:
    assert _worker_judge is not None
    return judge_task(_worker_judge, task)


def _phase(
    judge: Judge, tally: Tally, tasks: list[Task], left: list[Task], broken: str, controls: list[str], seconds: float
) -> Phase:
    counts = Counter(dict.fromkeys(Outcome, 0))
    exposures: Counter[str] = Counter()
    fields: defaultdict[str, defaultdict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for (file, name, outcome), count in sorted(tally.outcomes.items(), key=lambda item: (item[0][0], item[0][1])):
        counts[outcome] += count
        fields[file][name][outcome.value] += count
        if outcome is Outcome.EXPOSURE:
            exposures[f"{file.rpartition('/')[2]} {name}"] += count
    reached = {name: tally.reached[name] for name in sorted({*tally.reached, *MUST_REACH})}
    reached["a second look by the whole table"] = tally.second_looks
    notes = _doubts(judge, tally, left, broken, controls, reached)
    verdict = Verdict.INVALID if counts[Outcome.SILENT] else Verdict.UNKNOWN if notes else Verdict.VALID
    return Phase(
        name="damage",
        explored=tally.tried,
        complete=not left and not broken and all(task.step == 1 for task in tasks),
        bound=_bound(judge, tasks, left),
        verdict=verdict,
        seconds=seconds,
        counts={outcome.value: counts[outcome] for outcome in Outcome},
        exposures=dict(sorted(exposures.items())),
        fields={file: {name: dict(found) for name, found in by_name.items()} for file, by_name in fields.items()},
        reached=reached,
        controls="; ".join(controls) or "passed",
        note="; ".join(notes),
        findings=tuple(_findings(tally.silent)),
    )


def _doubts(
    judge: Judge, tally: Tally, left: list[Task], broken: str, controls: list[str], reached: dict[str, int]
) -> list[str]:
    """Return the reasons for which a run without silent damage is still no VALID one."""
    notes = [broken] if broken else []
    if not judge.partitions:
        notes.append("the table has no parquet partition, so there was nothing to explore")
    if controls:
        notes.append("a positive control failed")
    missing = [name for name in MUST_REACH if not reached[name]]
    if missing and not left:
        notes.append(f"never reached: {', '.join(missing)}")
    if any(task.required for task in left):
        notes.append("the time was over before all damage of _txn and _pm was tried")
    if tally.disagreements:
        notes.append(f"{len(tally.disagreements)} damages could not be judged, such as {min(tally.disagreements)}")
    return notes


def _bound(judge: Judge, tasks: list[Task], left: list[Task]) -> str:
    """Say what was tried, file by file of one name."""
    parts = []
    for name in dict.fromkeys(task.file.rpartition("/")[2] for task in tasks):
        mine = [task for task in tasks if task.file.rpartition("/")[2] == name]
        steps = sorted({task.step for task in mine})
        size_bytes = sum(judge.size_bytes(task.file) for task in mine if not task.cuts)
        each = "every bit and length" if steps == [1] else f"one of {steps[-1]} bits and lengths in the largest"
        files = sum(not task.cuts for task in mine)
        skipped = sum(task.size for task in left if task.file.rpartition("/")[2] == name)
        parts.append(
            f"{name}: {each} ({files} files, {size_bytes} bytes)"
            + (f", {skipped} left for lack of time" if skipped else "")
        )
    return "; ".join(parts)


def _findings(silent: list[tuple[Damage, str]]) -> Iterator[Finding]:
    """Yield one finding a field, the first damage of it, whichever worker was done first."""
    seen: set[tuple[str, str]] = set()
    for damage, name in sorted(silent, key=lambda each: (each[0].file, each[0].offset_bytes, str(each[0]))):
        if (damage.file, name) not in seen:
            seen.add((damage.file, name))
            yield _finding(damage, name)


def _finding(damage: Damage, field_name: str) -> Finding:
    evidence: dict[str, object] = {"file": damage.file, "field": field_name, "offset_bytes": damage.offset_bytes}
    match damage:
        case Flip():
            evidence |= {"kind": "flip", "bit": damage.bit}
        case Cut():
            evidence |= {"kind": "cut", "size_bytes": damage.size_bytes}
    sentence = f"With {damage} ({field_name}), the table is called sound and other rows are read."
    return Finding(property=PROPERTY, phase="damage", sentence=sentence, evidence=evidence)
