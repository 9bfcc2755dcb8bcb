"""The damage explorer: what may happen to the bytes of a table's files, each damage read and classed."""

from __future__ import annotations

import itertools
import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace

from harness.disk.image import DiskImage
from harness.explore.damage_catalogue import damages_of, listed
from harness.explore.damage_controls import failed_controls, failed_controls_of_kinds
from harness.explore.damage_judge import Judge
from harness.explore.damage_pairs import PAIRS_MAX, choose_pairs, pair_tasks
from harness.explore.damage_plan import BITS_IN_BYTE, Kind, Task, split
from harness.explore.damage_report import MUST_REACH as MUST_REACH
from harness.explore.damage_report import Run, phase_of
from harness.explore.damage_tally import Tally as Tally
from harness.verdict import Phase
from impl.partition import DATA_FILE

COMPLETE_BYTES = 64 * 1024
TASK_SIZE = 128
SECOND_LOOKS = 200
PAIRS_PER_SECOND = 100
"""So many pairs are chosen for each second of the budget, a fraction of what an idle machine can judge."""
LISTED_KINDS = tuple(kind for kind in Kind if kind not in (Kind.FLIP, Kind.CUT, Kind.PAIR))

Clock = Callable[[], float]
OnProgress = Callable[[int, int], None]


def plan(judge: Judge, complete_bytes: int = COMPLETE_BYTES) -> list[Task]:
    """Return all damage to try but the pairs, in order."""
    return [*plan_bits_and_lengths(judge, complete_bytes), *plan_kinds(judge)]


def plan_bits_and_lengths(judge: Judge, complete_bytes: int = COMPLETE_BYTES) -> list[Task]:
    """Return all flips and cuts to try, what a verdict needs first.

    Those of `_txn` and `_pm` are tried whole; those of a data.parquet above `complete_bytes` at every n-th bit and
    length, n odd.
    """
    tasks = []
    for file in judge.regions:
        size_bytes = judge.size_bytes(file)
        is_data = file.endswith(DATA_FILE)
        # An odd step visits all eight bits of a byte in turn.
        step = -(-size_bytes // complete_bytes) | 1 if is_data and size_bytes > complete_bytes else 1
        stops = {Kind.FLIP: size_bytes * BITS_IN_BYTE, Kind.CUT: size_bytes}
        tasks += [
            Task(file=file, kind=kind, start=0, stop=stop, step=step, required=not is_data)
            for kind, stop in stops.items()
        ]
    return sorted(tasks, key=lambda task: not task.required)


def plan_kinds(judge: Judge) -> list[Task]:
    """Return all other damage to try but the pairs, kind by kind."""
    tasks = []
    for kind in LISTED_KINDS:
        for file in judge.files(kind):
            count = len(listed(judge, kind, file))
            if count:
                tasks.append(Task(file=file, kind=kind, start=0, stop=count, required=False))
    return tasks


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
    where it was a bit or a length of `_txn` or `_pm`.
    """
    start = clock()
    judge = Judge(image, path)
    run = Run(judge=judge, tasks=plan_bits_and_lengths(judge, complete_bytes), controls=failed_controls(judge))

    def has_time() -> bool:
        return clock() - start < seconds

    def kinds() -> list[Task]:
        run.has_time_for_more = has_time() and not run.left
        if not run.has_time_for_more:
            return []
        run.controls += failed_controls_of_kinds(judge)
        tasks = plan_kinds(judge)
        run.tasks += tasks
        return _pieces(tasks)

    def pairs() -> list[Task]:
        run.has_time_for_more = has_time() and not run.left
        if run.has_time_for_more:
            pairs_max = min(PAIRS_MAX, int(seconds * PAIRS_PER_SECOND))
            run.pairs = choose_pairs(run.tally.different, run.tally.harmless, pairs_max)
        return list(pair_tasks(run.pairs.pairs, TASK_SIZE))

    pieces = _pieces(run.tasks)
    try:
        for result in _run(pieces, image, path, workers, has_time, (kinds, pairs)):
            if isinstance(result, Task):
                run.left.append(result)
            else:
                run.tally.add(result)
                on_progress(run.tally.tried, sum(task.size for task in run.tasks) + len(run.pairs.pairs))
    except BrokenProcessPool:
        run.broken = "a worker process died while it judged a damage, which no damage may do to a reader"
    return phase_of(run, clock() - start)


def _pieces(tasks: list[Task]) -> list[Task]:
    """Cut tasks into pieces, some of which are looked at twice."""
    pieces = [piece for task in tasks for piece in split(task, TASK_SIZE)]
    every = -(-len(pieces) // SECOND_LOOKS)
    return [replace(piece, second_look=number % every == 0) for number, piece in enumerate(pieces)]


def judge_task(judge: Judge, task: Task) -> Tally:
    """Judge all damages of a task, and where it says so the middle one a second time by the whole table."""
    tally = Tally()
    looked_at_twice = task.size // 2 if task.second_look else None
    damages = damages_of(judge, task)
    judge = judge.of(task.kind)
    judge.reached.clear()
    for number, damage in enumerate(damages):
        tally.tried_by_kind[task.kind] += 1
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
        tally.count(damage, field_name, outcome)
    tally.reached.update(judge.reached)
    return tally


def _run(
    pieces: Iterable[Task],
    image: DiskImage,
    path: str,
    workers: int,
    has_time: Callable[[], bool],
    waves: Sequence[Callable[[], Iterable[Task]]],
) -> Iterator[Tally | Task]:
    """Yield a tally for each piece that was judged, and the pieces for which there was no time.

    Then come those that each of `waves` returns: it is called when all before are done, and their tallies are out.
    """
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn, initializer=_start, initargs=(image, path)) as pool:
        for queue in (iter(pieces), *map(_deferred, waves)):
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


def _deferred(wave: Callable[[], Iterable[Task]]) -> Iterator[Task]:
    """Yield what a call returns, and make that call when the first of it is wanted."""
    yield from wave()


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
