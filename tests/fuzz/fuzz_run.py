"""Fuzz decoders, each in processes of its own: `python tests/fuzz/fuzz_run.py [TARGET...] --seconds N [--jobs 2]`.

Corpora stay in the folder, so that the next run goes on where this one ended. `TARGET --input FILE` runs one input.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from fuzz_child import ATHERIS, MUTATION, ROOT, has_atheris, save, subject
from fuzz_planted import PLANTED
from fuzz_watch import EXIT_MEMORY, Board, Bug, Watch, crash, hang, limit_memory, raise_when_slow

from tornproof.cli.numbers import SECONDS_MAX, WORKERS_MAX

SHARES = {
    "thrift": 1,
    "footer": 2,
    "extension": 2,
    "flatbuffers": 2,
    "vectors": 2,
    "duplicates": 2,
    "pages": 1,
    "chunk": 3,
    "raw_arrays": 1,
    "pm": 3,
    "txn": 1,
    "cv": 1,
    "meta": 1,
    "symbols": 1,
    "index": 1,
    "questdb_json": 1,
    "scenario": 1,
    "finding": 2,
    "inspect": 4,
    "table": 6,
    "recovery": 4,
    "migration": 4,
    "convert": 3,
    "predicate": 2,
    "bloom": 1,
}
"""Of the time, by target: more where an input takes longer. Known here without importing what is fuzzed."""
Number = TypeVar("Number", int, float)
SEED_MAX = (1 << 32) - 1
FOLDER = ROOT / ".build" / "fuzz"
DEATHS_MAX = 10
"""Of the processes of one target in one run: what dies more often than that gets no further."""
GRACE_SECONDS = 120
SOFT_EXIT = 1
HEADER = f"{'target':20}{'inputs':>12}{'edges':>8}{'features':>10}{'corpus':>8}{'slowest':>11}{'memory':>9}{'bugs':>6}"
PROGRESS = re.compile(rb"cov: (\d+) ft: (\d+) corp: (\d+)")


@dataclass(slots=True, kw_only=True)
class Result:
    """What a run over one target came to; `memory_bytes` is what the peak added to a process that only imported."""

    target: str
    input_count: int = 0
    edges: int = 0
    features: int = 0
    corpus: int = 0
    slowest_seconds: float = 0.0
    memory_bytes: int = 0
    deaths: int = 0
    bugs: list[Path] = field(default_factory=list)

    def __str__(self) -> str:
        """Write one line of the table."""
        slowest, memory = f"{self.slowest_seconds * 1e3:,.0f} ms", f"{self.memory_bytes / 1e6:,.0f} MB"
        counts = f"{self.input_count:12,}{self.edges:8,}{self.features:10,}{self.corpus:8,}"
        return f"{self.target:20}{counts}{slowest:>11}{memory:>9}{len(self.bugs):6}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a target is fuzzed; `inputs` -1 means as many as time allows."""

    folder: Path
    engine: str
    seconds: float
    inputs: int = -1
    seed: int = 0
    deaths_max: int = DEATHS_MAX


def fuzz(target: str, plan: Plan) -> Result:
    """Fuzz one target until its time is up, in a new process whenever an input ended the last one."""
    folder = plan.folder / target
    bugs, corpus = folder / "bugs", folder / "corpus"
    for path in (bugs, corpus):
        path.mkdir(parents=True, exist_ok=True)
    for path in bugs.iterdir():
        # What was a bug once is an input from now on: it is a bug again, or the fix is watched.
        if path.suffix != ".txt":
            path.replace(corpus / path.name)
        else:
            path.unlink()
    result = Result(target=target)
    end_seconds = time.monotonic() + plan.seconds
    while (left_seconds := end_seconds - time.monotonic()) > 0 and result.deaths < plan.deaths_max:
        code = _live(target, plan, folder, left_seconds, result)
        if code == 0:
            break
        result.deaths += 1
        content = Board.read(folder / "board").content
        if code == -signal.SIGPROF:
            _confirm_hang(target, content, bugs, plan)
        elif code != EXIT_MEMORY:
            bug = crash(content, code)
            save(bugs, bug.name, bug.content, bug.report + "\n" + _end_of((folder / "log").read_bytes()))
    result.bugs = sorted(path for path in bugs.iterdir() if path.suffix != ".txt")
    return result


def _live(target: str, plan: Plan, folder: Path, seconds: float, result: Result) -> int:
    """Run one process to its end, add what it did to the result, and return its exit code."""
    board, log = folder / "board", folder / "log"
    board.unlink(missing_ok=True)
    command = [sys.executable, str(Path(__file__).with_name("fuzz_child.py")), target, str(folder)]
    # The number of deaths is part of the seed, so that the next process does not walk the same way.
    seed = (plan.seed or int.from_bytes(os.urandom(3), "little")) + result.deaths
    numbers = {"seconds": max(1, round(seconds)), "inputs": plan.inputs, "seed": seed}
    options = [word for name, value in numbers.items() for word in (f"--{name}", str(value))]
    with log.open("wb") as output:
        process = subprocess.Popen([*command, "--engine", plan.engine, *options], stdout=output, stderr=output)
        try:
            code = process.wait(seconds + GRACE_SECONDS)
        except BaseException:
            process.kill()
            process.wait()
            raise
    if not board.exists():
        raise RuntimeError(f"{target} cannot be fuzzed:\n{_end_of(log.read_bytes())}")
    state = Board.read(board)
    result.input_count += state.input_count
    result.slowest_seconds = max(result.slowest_seconds, state.slowest_seconds)
    result.memory_bytes = max(result.memory_bytes, state.peak_growth_bytes)
    if seen := PROGRESS.findall(log.read_bytes()):
        result.edges, result.features, result.corpus = map(int, seen[-1])
    return code


def _confirm_hang(target: str, content: bytes, bugs: Path, plan: Plan) -> None:
    """Keep an input that took too long in an instrumented process only if it takes too long in a plain one."""
    bug = hang(content)
    save(bugs, bug.name, content, bug.report)
    again = subprocess.run(
        [sys.executable, __file__, target, "--input", str(bugs / bug.name)], capture_output=True, check=False
    )
    if again.returncode == 0:
        for name in (bug.name, f"{bug.name}.txt"):
            (bugs / name).unlink()
    else:
        (bugs / f"{bug.name}.txt").write_bytes(again.stdout + again.stderr)


def _end_of(log: bytes) -> str:
    return log[-4000:].decode(errors="backslashreplace")


def run_one(target: str, content: bytes) -> list[Bug]:
    """Run one input in this process; a hang in code that never comes back to Python ends it by SIGVTALRM."""
    found: list[Bug] = []
    run, _, _ = subject(target)
    raise_when_slow()
    limit_memory()
    signal.setitimer(signal.ITIMER_VIRTUAL, GRACE_SECONDS)
    Watch(run, found.append)(content)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return found


def within(kind: type[Number], low: int, high: int) -> Callable[[str], Number]:
    """Return the type of an argument that is a number from `low` to `high`."""

    def parse(text: str) -> Number:
        number = kind(text)
        # What is no number is not within anything.
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"{text} is not from {low:,} to {high:,}")
        return number

    parse.__name__ = "number"
    return parse


def main() -> int:
    """Fuzz what the command line selects; exit code 1 if there are bugs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"some of {', '.join(SHARES)}; default: all")
    seconds, jobs, seed = within(float, 1, SECONDS_MAX), within(int, 1, WORKERS_MAX), within(int, 0, SEED_MAX)
    parser.add_argument("--seconds", type=seconds, default=300, help="for all targets together, on each job's core")
    parser.add_argument("--jobs", type=jobs, default=1, help="processes at the same time")
    parser.add_argument("--engine", choices=(ATHERIS, MUTATION), default=ATHERIS if has_atheris() else MUTATION)
    parser.add_argument("--seed", type=seed, default=0, help="0: another one in every run")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="for corpora and the inputs that show bugs")
    parser.add_argument("--input", type=Path, help="run this input of one target, and nothing else")
    given = parser.parse_args()
    targets = given.targets or list(SHARES)
    if unknown := set(targets) - {*SHARES, *PLANTED}:
        parser.error(f"no target {', '.join(sorted(unknown))}")
    if given.input is not None:
        found = [bug for target in targets for bug in run_one(target, given.input.read_bytes())]
        for bug in found:
            print(bug.name, bug.report, sep="\n")
        return SOFT_EXIT if found else 0
    share_seconds = given.seconds * given.jobs / sum(SHARES.get(target, 1) for target in targets)

    def fuzzed(target: str) -> Result:
        seconds = share_seconds * SHARES.get(target, 1)
        result = fuzz(target, Plan(folder=given.folder, engine=given.engine, seconds=seconds, seed=given.seed))
        return _reported(result)

    print(f"{len(targets)} targets by {given.engine}, {share_seconds:.0f} s and more each\n{HEADER}", flush=True)
    with ThreadPoolExecutor(given.jobs) as pool:
        results = list(pool.map(fuzzed, targets))
    total = sum(result.input_count for result in results)
    bug_count = sum(len(result.bugs) for result in results)
    print(f"{'all':20}{total:12,}{bug_count:52}")
    return SOFT_EXIT if bug_count else 0


def _reported(result: Result) -> Result:
    """Print a line as soon as it is known, and how to see each bug again."""
    again = [f"python {Path(__file__).relative_to(ROOT)} {result.target} --input {path}" for path in result.bugs]
    print("\n    ".join([str(result), *again]), flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main())
