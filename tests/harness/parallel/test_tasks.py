"""Explorations over processes: the same results for any number of them, nothing lost, and nothing left behind."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sample_tasks
from depth import nightly
from sample_tasks import exploring, finding_in_waves, in_waves

from tornproof.harness.common.verdict import Phase, Verdict, always, calls_at_most
from tornproof.harness.parallel.fork_server import ForkServer
from tornproof.harness.parallel.tasks import (
    TURN_GROWTH,
    Exploration,
    Outcome,
    Progress,
    explore,
    explore_here,
    interrupts_kept,
    shared_memory,
)
from tornproof.harness.parallel.workers import Failed, Message, Pool, Task, Worker

ROOT = Path(__file__).parents[3]
WAVES = "[1, 16, 81, 6561]"
HANGS_SECONDS = 10
"""Ends what would never end."""


@pytest.fixture(autouse=True)
def nothing_of_the_explorers_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The samples need none of what explorers do, which takes longer to import than a test."""
    monkeypatch.setattr("tornproof.harness.parallel.workers.ForkServer", lambda _: ForkServer(explore.__module__))


def phase_of(tasks: list[Task], **more: Any) -> Phase:
    (phase,) = explore({"sample": exploring(tasks)}, 0, workers=2, **more).phases
    return phase


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    """A pool of one process whose server is ready."""
    with Pool(0, tmp_path, 1) as one:
        assert one._server.is_ready(HANGS_SECONDS)
        yield one


def next_message(pool: Pool) -> Message:
    return next(pool.messages(HANGS_SECONDS))


def test_a_pipe_ends_with_its_process_and_no_other_process_has_it() -> None:
    """Where the server kept it, the end of a process was never noticed."""
    server = ForkServer(sample_tasks.__name__)
    try:
        assert server.is_ready(HANGS_SECONDS)
        ours = [server.start(sample_tasks.tell_descriptors)[1] for _ in range(3)]
        first, *others = [each.recv() for each in ours]
        assert others == [first, first]
        for each in ours:
            assert each.poll(HANGS_SECONDS / 2)
            with pytest.raises(EOFError):
                each.recv()
    finally:
        server.close()


@pytest.mark.parametrize("workers", [1, 2, nightly(7)])
def test_any_number_of_workers_returns_the_same_in_the_order_that_was_asked_for(workers: int) -> None:
    numbers = list(range(40))
    tasks = [Task(run=sample_tasks.square, arguments=(number,), cost=number % 7) for number in numbers]
    outcome = explore({"sample": exploring(tasks), "waves": in_waves([1, 2, 3, 9])}, 0, workers=workers)
    squares, waves = outcome.phases
    assert (squares.name, squares.bound) == ("sample", str([number * number for number in numbers]))
    assert (waves.name, waves.bound) == ("waves", WAVES)
    assert (outcome.interrupted_by, outcome.is_out_of_time) == (None, False)
    assert waves.bound == explore_here(in_waves([1, 2, 3, 9]), 0).bound


def test_as_many_processes_work_as_were_asked_for_and_none_is_left() -> None:
    reported: list[list[int]] = []
    tasks = [Task(run=sample_tasks.identity) for _ in range(30)]
    explore({"sample": exploring(tasks, reported.append)}, 0, workers=2)
    processes = set(reported[0])
    assert len(processes) <= 2 and os.getpid() not in processes
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_what_tasks_write_is_gone_afterwards() -> None:
    reported: list[list[str]] = []
    explore({"sample": exploring([Task(run=sample_tasks.leave_a_file)], reported.append)}, 0, workers=1)
    assert not Path(reported[0][0]).exists() and not Path(reported[0][0]).parent.exists()


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (sample_tasks.die, "a process died of -9 while it explored"),
        (sample_tasks.fail, "this is a defect of tornproof, not an answer: ZeroDivisionError: a defect"),
        (sample_tasks.reject, "not this table"),
    ],
    ids=["death", "defect", "error"],
)
def test_a_task_that_fails_leaves_the_verdict_open_and_costs_nothing_that_others_found(
    run: Callable[..., Any], reason: str
) -> None:
    others = [Task(run=sample_tasks.square, arguments=(number,)) for number in range(6)]
    phase = phase_of([*others[:3], Task(run=run), *others[3:]], seconds=HANGS_SECONDS)
    assert (phase.verdict, phase.complete, phase.bound) == (Verdict.UNKNOWN, False, "[0, 1, 4, 9, 16, 25]")
    assert reason in phase.note


def test_a_task_that_fails_leaves_the_verdict_open_although_later_ones_succeed() -> None:
    def exploration() -> Exploration:
        yield [Task(run=sample_tasks.fail)]
        return (yield from exploring([Task(run=sample_tasks.square, arguments=(3,))]))

    (phase,) = explore({"sample": exploration()}, 0, workers=1).phases
    assert (phase.verdict, phase.bound) == (Verdict.UNKNOWN, "[9]") and phase.note


def test_the_task_of_a_process_that_died_before_it_fails_and_another_process_goes_on(pool: Pool) -> None:
    """It was never heard of, and neither was any later task that the process got."""
    (idle,) = pool.idle()
    idle.begin("sample", 0, Task(run=sample_tasks.identity))
    first = next_message(pool).result
    os.kill(first, signal.SIGKILL)
    assert idle.connection.poll(HANGS_SECONDS)
    assert [each.begin("sample", 1, Task(run=sample_tasks.identity)).index for each in pool.idle()] == [1]
    failed = next_message(pool)
    assert (failed.index, failed.is_over, type(failed.result)) == (1, True, Failed)
    (new,) = pool.idle()
    new.begin("sample", 2, Task(run=sample_tasks.identity))
    assert next_message(pool).result not in (first, failed.result)


def test_the_task_that_a_process_had_not_read_when_it_died_fails(pool: Pool) -> None:
    """What is left in its pipe resets the connection, which does not just end."""
    (idle,) = pool.idle()
    idle.begin("sample", 0, Task(run=sample_tasks.identity))
    process = next_message(pool).result
    os.kill(process, signal.SIGSTOP)
    (idle,) = pool.idle()
    idle.begin("sample", 1, Task(run=sample_tasks.identity))
    os.kill(process, signal.SIGKILL)
    failed = next_message(pool)
    assert (failed.index, failed.is_over, type(failed.result)) == (1, True, Failed)


@pytest.mark.parametrize("end", ["it dies", "it is killed", "the server ends"])
def test_what_a_worker_has_started_ends_with_it(pool: Pool, tmp_path: Path, end: str) -> None:
    """Where the command was killed, the server ended the workers alone, and what they had started went on."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        (worker,) = pool.idle()
        dies = end == "it dies"
        worker.begin("sample", 0, Task(run=partial(sample_tasks.start_a_process, dies=dies), arguments=(str(pipe),)))
        assert isinstance(next_message(pool).result, Failed) is dies
        if end == "the server ends":
            pool._server.close()
        elif end == "it is killed":
            worker.kill()
        # It ends when the last process that can write to it has ended.
        ends = select.poll()
        ends.register(reading, 0)
        assert ends.poll(HANGS_SECONDS / 2 * 1000)
    finally:
        os.close(reading)


def test_a_ceiling_takes_what_tasks_have_and_ends_those_that_do_not_check_the_time() -> None:
    phase = phase_of([Task(run=sample_tasks.count_until_stopped), Task(run=sample_tasks.never_return)], seconds=0.5)
    assert (phase.verdict, phase.explored, phase.complete) == (Verdict.VALID, 1, False)
    assert int(phase.bound.strip("[]")) > 0


def test_under_a_ceiling_every_exploration_begins() -> None:
    tasks = [Task(run=sample_tasks.count_until_stopped) for _ in range(5)]
    explorations = {name: exploring(tasks) for name in ("first", "second")}
    outcome = explore(explorations, 0, workers=2, seconds=0.5)
    assert outcome.is_out_of_time and [phase.explored for phase in outcome.phases] == [1, 1]


def test_the_only_task_of_one_does_not_wait_for_all_of_another() -> None:
    positions: dict[str, list[int]] = {}
    counts = {"many": 6, "one": 1}
    explorations = {
        name: exploring([Task(run=sample_tasks.take_position)] * count, partial(positions.__setitem__, name))
        for name, count in counts.items()
    }
    explore(explorations, 0, workers=1)
    assert positions == {"many": [1, 3, 4, 5, 6, 7], "one": [2]}


def test_up_to_the_first_finding_explorations_are_side_by_side_by_their_lengths() -> None:
    positions: dict[str, list[int]] = {}
    costs = {"long": [4, 1, 3], "short": [5, 5], "one": [7]}
    explorations = {
        name: exploring(
            [Task(run=sample_tasks.take_position, cost=cost) for cost in each], partial(positions.__setitem__, name)
        )
        for name, each in costs.items()
    }
    explore(explorations, 0, workers=1, first_finding_lengths={"long": 16, "short": 4, "one": 5})
    # They end at 16, 2 and 8; at 2 and 4; and at 5.
    assert positions == {"long": [6, 1, 5], "short": [2, 3], "one": [4]}


def test_those_of_a_later_turn_begin_as_if_they_cost_more_where_the_first_finding_ends_the_run() -> None:
    positions: list[list[int]] = []
    tasks = [Task(run=sample_tasks.take_position, cost=cost, turn=turn) for turn in (1, 0) for cost in (2, 9)]
    explore({"sample": exploring(tasks, positions.append)}, 0, workers=1, first_finding_lengths={"sample": 1})
    explore({"sample": exploring(tasks, positions.append)}, 0, workers=1)
    assert TURN_GROWTH == 3 and positions[0] == [2, 4, 1, 3] and positions[1][1::2] == [1, 2]


def test_a_positive_control_begins_before_the_longest_task() -> None:
    positions: list[list[int]] = []
    costs = [Task(run=sample_tasks.take_position, cost=cost) for cost in (1, 9)]
    control = Task(run=sample_tasks.take_position, cost=0.1, begins_first=True)
    explore({"sample": exploring([*costs, control], positions.append)}, 0, workers=1)
    assert positions == [[3, 2, 1]]


def test_a_run_that_fails_fast_ends_with_the_first_finding_made_smaller_and_nothing_else() -> None:
    waves: list[list[Any]] = []
    never = exploring([Task(run=sample_tasks.never_return)])
    explorations = {"sample": finding_in_waves([9, 7, 8, 3, 6], waves.append), "never": never}
    outcome = explore(explorations, 0, workers=1, first_finding_lengths={"sample": 1, "never": 2})
    assert [phase.bound for phase in outcome.phases] == ["[3]", "[]"]
    (control, nine, seven, eight, three, six), (smaller,), again = waves
    assert [control, nine, seven, eight, six] == [None] * 5 and three.has_finding
    assert isinstance(smaller, int) and again == [None] * 5
    assert outcome.cut_by == "finding" and outcome.first_finding_cpu_seconds is not None
    assert outcome.first_finding_cpu_seconds <= sum(phase.cpu_seconds for phase in outcome.phases)


@pytest.mark.parametrize("fails_fast", [False, True])
def test_a_run_goes_on_where_it_is_not_to_fail_fast_or_finds_nothing(fails_fast: bool) -> None:
    numbers = [8, 6] if fails_fast else [9, 8, 7]
    lengths = {"sample": 1} if fails_fast else None
    outcome = explore({"sample": finding_in_waves(numbers)}, 0, workers=1, first_finding_lengths=lengths)
    (phase,) = outcome.phases
    assert phase.bound == ("[]" if fails_fast else "[9, 7]")
    assert outcome.cut_by is None and (outcome.first_finding_cpu_seconds is None) is fails_fast


@pytest.mark.parametrize(
    "among", [lambda each: each, lambda each: [None, each], lambda each: (None, each)], ids=["alone", "list", "tuple"]
)
def test_a_finding_is_seen_alone_and_among_several_results(tmp_path: Path, among: Callable[[Any], Any]) -> None:
    worker = Worker(question=0, scratch=tmp_path, has_time=always)
    for number in (1, 2):
        result = among(sample_tasks.find(worker, number))
        assert Message(name="sample", index=0, result=result).has_finding is (number == 1)


def test_an_interrupt_ends_with_what_there_is() -> None:
    def interrupt(progress: Progress) -> None:
        if progress.cases:
            signal.raise_signal(signal.SIGTERM)

    tasks = [Task(run=sample_tasks.square, arguments=(3,)), *(Task(run=sample_tasks.count_until_stopped),) * 9]
    outcome: Outcome = explore({"sample": exploring(tasks)}, 0, workers=2, on_progress=interrupt)
    (phase,) = outcome.phases
    assert outcome.interrupted_by is signal.SIGTERM and 0 < phase.explored < len(tasks)


def test_an_interrupt_before_any_task_leaves_a_phase_for_each_exploration() -> None:
    def at_once(tasks: list[Task]) -> Exploration:
        signal.raise_signal(signal.SIGINT)
        return (yield from exploring(tasks))

    tasks = [Task(run=sample_tasks.square, arguments=(3,))]
    # Tests in the background of a shell have it ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        outcome = explore({"sample": at_once(tasks), "more": exploring(tasks)}, 0, workers=1)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert outcome.interrupted_by is signal.SIGINT and [phase.explored for phase in outcome.phases] == [0, 0]


def test_progress_ends_with_all_of_the_work() -> None:
    seen: list[Progress] = []
    explore({"waves": in_waves([1, 2, 3])}, 0, workers=2, on_progress=seen.append)
    assert (seen[-1].name, seen[-1].done_part, seen[-1].cases) == ("waves", 1.0, 3)
    assert all(0.0 <= each.done_part <= 1.0 for each in seen)


def test_checks_of_the_time_are_counted_without_processes() -> None:
    phase = explore_here(exploring([Task(run=sample_tasks.count_until_stopped)]), 0, has_time=calls_at_most(4))
    assert phase.bound == "[4]"


def test_processes_end_with_one_that_is_killed(tmp_path: Path) -> None:
    """A killed run once left its worker processes running until their tasks ended."""
    script = (
        "import sample_tasks\n"
        "from tornproof.harness.parallel.tasks import explore\n"
        "from tornproof.harness.parallel.workers import Task\n"
        "tasks = [Task(run=sample_tasks.say_so_and_never_return)] * 2\n"
        "if __name__ == '__main__':\n"
        "    explore({'sample': sample_tasks.exploring(tasks)}, 0, workers=2)\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(ROOT / "tests" / "support"), str(ROOT / "src"))),
        # Nobody removes its files.
        "TORNPROOF_SHARED_MEMORY": str(tmp_path),
    }
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdout is not None
        try:
            children = [int(process.stdout.readline()) for _ in range(2)]
        finally:
            process.kill()
        # The pipe ends when the last process that holds it has ended.
        assert process.stdout.read() == ""
    assert len(set(children)) == 2


@pytest.mark.parametrize(("denied", "is_used"), [(0, True), (os.W_OK, False), (os.X_OK, False)])
def test_shared_memory_is_used_where_files_can_be_made(
    denied: int, is_used: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read-only, or of another user, stopped every check, although there was another place."""
    monkeypatch.setattr("tornproof.harness.parallel.tasks.SHARED_MEMORY", tmp_path)
    monkeypatch.setattr("tornproof.harness.parallel.tasks.ROOM_BYTES", 0)
    monkeypatch.setattr(os, "access", lambda path, mode: path == tmp_path and not mode & denied)
    assert shared_memory() == (tmp_path if is_used else None)


@pytest.mark.parametrize("is_ignored", [False, True])
def test_a_signal_that_is_ignored_interrupts_nothing(is_ignored: bool) -> None:
    """A run under nohup goes on when its terminal is closed."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if is_ignored else signal.SIG_DFL)
    outcome = Outcome()
    try:
        with interrupts_kept(outcome):
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert outcome.interrupted_by == (None if is_ignored else signal.SIGHUP)
