"""The same seed gives the same calls and answers, whatever else a process has done and however it hashes."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from depth import nightly
from table_cases import ABANDON, GROW, PURGE, table_case
from toy_processes import world_of

from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.common.verdict import Finding
from tornproof.harness.explorers.storage.calls import drawn
from tornproof.harness.mutation.known import KNOWN, find_defect
from tornproof.harness.mutation.replay import replay_planted
from tornproof.harness.search.outcome import Outcomes
from tornproof.harness.search.random_schedules import Sampler, pct, uniform
from tornproof.harness.search.transitions import Schedule
from tornproof.harness.simulator.process.simulated_process import Body, NotDeterministicError, Process, Say
from tornproof.harness.simulator.process.world import World
from tornproof.impl.storage.interface import EntryKind, Storage

HASH_SEEDS = ("0", "4711")
# The process of the test itself hashes by yet another seed.
ONE_HASH_SEED = HASH_SEEDS[1:]
REPLAYED = ("reader decodes by the newest footer (questdb-9.4.2)", "data not durable (F1)")
HERE = Path(__file__).parent
ROOT = HERE.parents[2]


def trace_hash(world: World, schedule: Schedule) -> str:
    """Run a schedule from a world, and return a digest of every call and every answer in their order."""
    digest = hashlib.blake2b(digest_size=16)
    run = world.fork()
    for process_index, call_count in schedule:
        for _ in range(call_count):
            call = run.call(process_index)
            run.step(process_index)
            digest.update(
                repr((process_index, call, run.nodes[process_index].answer, run.nodes[process_index].marks)).encode()
            )
    return digest.hexdigest()


def traces(seed: int, run_count: int) -> list[str]:
    """Return the trace hashes of that many schedules, uniform and PCT, of all that a table is used for."""
    generator = np.random.default_rng(seed)
    hashes: list[str] = []
    for operations, style in (([GROW, PURGE], "pinned"), ([ABANDON, GROW], "follow")):
        case = table_case(operations, readers=2, style=style)
        with remembered_decoding():
            process_group = case.process_group()
            world = case.begin(process_group)
            sampler = Sampler(world)
            for number in range(run_count // 2):
                choose = uniform(generator) if number % 2 else pct(generator, 3, sampler.transition_count, 3)
                hashes.append(trace_hash(world, sampler.run(choose)[1]))
            process_group.close()
    return hashes


def drawn_calls(seed: int, run_count: int) -> list[str]:
    """Return that many sequences of calls on a storage."""
    generator = np.random.default_rng(seed)
    return [repr(drawn(generator)) for _ in range(run_count)]


def digest(hashes: list[str]) -> str:
    return hashlib.blake2b("".join(hashes).encode(), digest_size=16).hexdigest()


def in_processes(expression: str, hash_seeds: tuple[str, ...], given: str = "") -> list[str]:
    """Evaluate an expression of this module, `t`, in a process for each way to hash; `given` is its standard input."""
    code = f"import sys; import test_determinism as t; print({expression})"
    paths = os.pathsep.join(map(str, (HERE, ROOT / "tests" / "support", ROOT / "src")))
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": seed},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in hash_seeds
    ]
    return [process.communicate(given)[0].strip() for process in processes]


def replays(text: str) -> str:
    """Return the trace hashes of findings that are seen again with the same evidence."""
    hashes = []
    for document in json.loads(text):
        again = replay_planted(Finding(**document))
        assert again.is_same
        hashes.append(again.evidence["explanation"]["trace"])
    return " ".join(hashes)


@pytest.mark.parametrize(("run_count", "hash_seeds"), [(6, ONE_HASH_SEED), nightly(1_000, HASH_SEEDS)])
def test_many_runs_draw_the_same_calls_and_have_the_same_traces_whatever_a_process_hashes_by(
    run_count: int, hash_seeds: tuple[str, ...]
) -> None:
    expected = traces(7, run_count)
    assert len(expected) == run_count and len(set(expected)) > run_count // 10
    both = f"t.digest(t.traces(7, {run_count}) + t.drawn_calls(7, {run_count}))"
    assert in_processes(both, hash_seeds) == [digest(expected + drawn_calls(7, run_count))] * len(hash_seeds)


def test_the_same_process_gives_the_same_traces_again_and_another_seed_gives_others() -> None:
    first = traces(3, 16)
    assert traces(3, 16) == first
    assert traces(4, 16) != first


@pytest.mark.nightly
@pytest.mark.parametrize("hash_seeds", [ONE_HASH_SEED, nightly(HASH_SEEDS)])
def test_findings_of_a_schedule_and_of_a_power_cut_have_the_same_traces_again_however_a_process_hashes(
    hash_seeds: tuple[str, ...],
) -> None:
    findings = [find_defect(defect) for defect in KNOWN if defect.name in REPLAYED]
    expected = [finding.evidence["explanation"]["trace"] for finding in findings]
    assert len(set(expected)) == len(REPLAYED)
    fields = ("property", "phase", "sentence", "evidence")
    text = json.dumps([{name: getattr(finding, name) for name in fields} for finding in findings])

    answers = in_processes("t.replays(sys.stdin.read())", hash_seeds, text)
    assert answers == [" ".join(expected)] * len(hash_seeds)


def test_an_empty_directory_makes_another_outcome() -> None:
    def makes(name: str) -> Body:
        return lambda storage, say: storage.mkdir(name)

    worlds = [world_of([makes(name)]) for name in ("a", "b")]
    for world in worlds:
        while world.nodes[0].call is not None:
            world.step(0)
    first, second = (Outcomes().of(world) for world in worlds)
    assert first.files != second.files and first == Outcomes().of(worlds[0])


@pytest.mark.parametrize("other", range(3))
def test_a_body_that_does_something_else_in_the_middle_when_it_is_run_again_is_noticed(other: int) -> None:
    """A look at its last call alone would miss it."""
    runs: list[int] = []

    def body(storage: Storage, say: Say) -> None:
        runs.append(len(runs))
        for number in range(4):
            storage.kind("other" if runs[-1] and number == other else f"file {number}")

    process = Process("it", body)
    node = process.root
    for _ in range(3):
        node = process.advance(node, EntryKind.FILE)
    process.close()
    with pytest.raises(NotDeterministicError, match=f"after the same {other} answers, it did something else"):
        process.advance(node, EntryKind.FILE)
