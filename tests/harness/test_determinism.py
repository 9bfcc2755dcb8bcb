"""The same seed gives the same calls and answers, whatever else a process has done and however it hashes."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from table_situations import ABANDON, GROW, PURGE, table_situation

from harness.explore.outcome import trace_hash
from harness.explore.random_schedules import Sampler, pct, uniform
from harness.explore.stateful_memo import remembered_decoding

RUNS = 1_000
HASH_SEEDS = ("0", "4711")
HERE = Path(__file__).parent


def traces(seed: int, run_count: int) -> list[str]:
    """Return the trace hashes of that many schedules, uniform and PCT, of all that a table is used for."""
    generator = np.random.default_rng(seed)
    hashes: list[str] = []
    for operations, style in (([GROW, PURGE], "pinned"), ([ABANDON, GROW], "follow")):
        situation = table_situation(operations, readers=2, style=style)
        with remembered_decoding():
            cast = situation.cast()
            world = situation.begin(cast)
            sampler = Sampler(world)
            for number in range(run_count // 2):
                choose = uniform(generator) if number % 2 else pct(generator, 3, sampler.turn_count, 3)
                hashes.append(trace_hash(world, sampler.run(choose)[1]))
            cast.close()
    return hashes


def digest(hashes: list[str]) -> str:
    return hashlib.blake2b("".join(hashes).encode(), digest_size=16).hexdigest()


def test_a_thousand_runs_have_the_same_traces_whatever_a_process_hashes_by() -> None:
    expected = traces(7, RUNS)
    assert len(expected) == RUNS and len(set(expected)) > 100
    code = f"import test_determinism as t; print(t.digest(t.traces(7, {RUNS})))"
    paths = os.pathsep.join([str(HERE), str(HERE.parent / "golden"), str(HERE.parent.parent)])

    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in HASH_SEEDS
    ]
    answers = [process.communicate()[0].strip() for process in processes]
    assert answers == [digest(expected)] * len(HASH_SEEDS)


def test_the_same_process_gives_the_same_traces_again_and_another_seed_gives_others() -> None:
    first = traces(3, 100)

    assert traces(3, 100) == first
    assert traces(4, 100) != first
