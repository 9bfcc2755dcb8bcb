"""Tasks and explorations that worker processes can import: well-behaved ones, and some that are not."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from multiprocess.connection import Connection  # type: ignore[import-untyped]

from tornproof.harness.common.verdict import Finding, Phase, Verdict
from tornproof.harness.parallel.tasks import Exploration
from tornproof.harness.parallel.workers import Task, Worker
from tornproof.impl.errors import TornproofError

NOTHING_FOUND = Phase(name="sample", explored=0, complete=True, bound="", verdict=Verdict.VALID)
BUSY_SECONDS = 0.05
PAUSE_SECONDS = 0.005
"""Between the steps of tasks that a test ends, which leave the time to other tests."""


def square(worker: Worker, number: int) -> int:
    """Return a square, plus what the question says."""
    worker.report_progress(1, 1)
    return number * number + int(worker.question)


def identity(worker: Worker) -> int:
    """Return who does the task."""
    return os.getpid()


def count_until_stopped(worker: Worker) -> int:
    """Go on as long as there is time, and return how far that was."""
    count = 0
    while worker.has_time():
        count += 1
        worker.report_progress(count, None)
        time.sleep(PAUSE_SECONDS)
    return count


def never_return(worker: Worker) -> None:
    """Do not look whether there is time."""
    while True:
        worker.report_progress(1, None)
        time.sleep(PAUSE_SECONDS)


def say_so_and_never_return(worker: Worker) -> None:
    """Write who does the task to standard output, and do not look whether there is time."""
    # One call: an unbuffered `print` writes the end of the line on its own, perhaps after the line of another process.
    os.write(sys.stdout.fileno(), f"{os.getpid()}\n".encode())
    never_return(worker)


def die(worker: Worker) -> None:
    """End as a bus error would have it."""
    os.kill(os.getpid(), signal.SIGKILL)


def start_a_process(worker: Worker, pipe: str, *, dies: bool) -> None:
    """Start a process that holds the end of a named pipe, and die or go on without it."""
    with Path(pipe).open("w") as file:
        subprocess.Popen(["sleep", "30"], stdout=file)
    if dies:
        die(worker)


def tell_descriptors(connection: Connection) -> None:
    """Send what descriptors a process begins with."""
    connection.send(sorted(each.name for each in Path("/proc/self/fd").iterdir()))


def fail(worker: Worker) -> None:
    """Raise what is a defect."""
    raise ZeroDivisionError("a defect")


def reject(worker: Worker) -> None:
    """Raise what is no defect."""
    raise TornproofError("not this table")


def take_position(worker: Worker) -> int:
    """Be busy for a moment, and return the how-manieth task of the process this is."""
    begun = worker.once(_begun)
    begun.append(worker)
    begin = time.process_time()
    while time.process_time() - begin < BUSY_SECONDS:
        pass
    return len(begun)


def _begun(worker: Worker) -> list[Worker]:
    return []


def find(worker: Worker, number: int) -> Phase:
    """Return what has a finding if the number is odd."""
    finding = Finding(property="even", phase="sample", sentence=f"{number} is odd", evidence={})
    return replace(NOTHING_FOUND, explored=number, findings=(finding,) * (number % 2))


def leave_a_file(worker: Worker) -> str:
    """Write to the worker's folder, and return where that is."""
    (worker.scratch / "file").write_bytes(b"x")
    return str(worker.scratch)


def exploring(tasks: Sequence[Task], into: Callable[[list[Any]], None] = lambda results: None) -> Exploration:
    """Do tasks in one wave; what they returned goes `into` a function, and how many did into the phase."""
    results = yield tasks
    into(results)
    done = [result for result in results if result is not None]
    return Phase(
        name="sample", explored=len(done), complete=len(done) == len(tasks), bound=str(done), verdict=Verdict.VALID
    )


def finding_in_waves(numbers: Sequence[int], into: Callable[[list[Any]], None] = lambda results: None) -> Exploration:
    """Look for odd numbers, and once more after a task for each that is found."""
    control = Task(run=find, arguments=(2,), cost=0.1, begins_first=True)
    found = yield [control, *(Task(run=find, arguments=(number,), cost=number) for number in numbers)]
    into(found)
    odd = [phase.explored for phase in found if phase is not None and phase.has_finding]
    into((yield [Task(run=identity, for_finding=True) for _ in odd]))
    into((yield [Task(run=find, arguments=(number,)) for number in numbers]))
    return replace(NOTHING_FOUND, explored=len(odd), bound=str(odd))


def in_waves(numbers: Sequence[int]) -> Exploration:
    """Square numbers, and then their squares."""
    for _ in range(2):
        numbers = yield [Task(run=square, arguments=(number,), cost=number) for number in numbers]
    return Phase(name="waves", explored=len(numbers), complete=True, bound=str(numbers), verdict=Verdict.VALID)
