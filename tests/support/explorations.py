"""Explorations as a whole in this process, which `check` splits into tasks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tornproof.harness.common.verdict import HasTime, OnProgress, Phase, always, nothing_explored
from tornproof.harness.counterexamples.make import finding_or_moves
from tornproof.harness.explorers.corruption.explorer import damage_exploration
from tornproof.harness.explorers.memory.exploration import Explored, MemoryExploration
from tornproof.harness.explorers.memory.explorer import MemoryTestCase, baseline_of
from tornproof.harness.explorers.memory.variants import CASES, MemoryCase, MemoryVariant
from tornproof.harness.explorers.model_based import explorer as model_based
from tornproof.harness.explorers.model_based.explorer import Stateful, stateful_phase
from tornproof.harness.explorers.model_based.fixed_programs import FIXED_PROGRAMS
from tornproof.harness.explorers.model_based.start import NothingToExploreError, StorageKind, scratch_directory
from tornproof.harness.explorers.random import random_cases
from tornproof.harness.explorers.random.random_cases import MakeTestCase, explore_batch, random_phase
from tornproof.harness.explorers.schedules import crash
from tornproof.harness.explorers.schedules.crash import PHASE, PRODUCT_MODELS, explore_under, product_phase
from tornproof.harness.parallel.tasks import TableQuestion, explore_here
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.systems.preset import Preset


def explore_product(
    case: TestCase,
    models: Sequence[str] = PRODUCT_MODELS,
    *,
    states_max: int | None = None,
    has_time: HasTime = always,
    on_progress: OnProgress = lambda done, total: None,
    scenario: str | None = None,
) -> Phase:
    """Explore the crashes of a writer concurrent with one reader that changes nothing.

    A model is complete when every crash point, every legal disk and every schedule of the reader was explored. At most
    `states_max` reader states are explored under each model; beyond that, the crashes are a sample. Raises
    NotExplorableError.
    """
    results = [explore_under(case, model, states_max, has_time, on_progress) for model in models]
    found = {signature: each for result in results for signature, each in result.found.items()}
    findings = [
        finding_or_moves(case, moves, violation, phase=PHASE, scenario=scenario) for violation, moves in found.values()
    ]
    return product_phase(results, crash.controls_of_run(tuple(models)), findings)


def explore_random(
    preset: Preset,
    make: MakeTestCase,
    *,
    examples: int,
    seed: int,
    has_time: HasTime = always,
    on_progress: OnProgress = lambda done, total: None,
) -> Phase:
    """Explore `examples` random test cases in batches; `make` builds a test case from a scenario."""
    results = [
        explore_batch(preset, make, count, number, has_time, on_progress)
        for number, count in random_cases.batches(examples, seed)
    ]
    return random_phase(results, _failed_controls_of_random_cases(make, seed), seed)


@cache
def _failed_controls_of_random_cases(make: MakeTestCase, seed: int) -> tuple[str, ...]:
    return random_cases.failed_controls(make, seed)


def explore_stateful(
    image: DiskImage | None,
    path: str,
    *,
    steps: int,
    seed: int,
    storage_kind: StorageKind = StorageKind.FILES,
    directory: str | None = None,
    with_controls: bool = False,
    fixed_on: Sequence[str | None] = (None, *FIXED_PROGRAMS),
    has_time: HasTime = always,
    on_progress: OnProgress = lambda done, total: None,
) -> Phase:
    """Execute `steps` rules in programs that follow from `seed`, each on a copy of the table at `path` of `image`.

    Without an image, on a small new table. Real files are in `directory`, by default in shared memory if there is some.
    A part of the programs ends early with a finding. The controls, which take longer than some explorations, are tried
    if asked for.
    """
    try:
        stateful = Stateful(image, path, storage_kind)
    except NothingToExploreError as error:
        return nothing_explored(model_based.PHASE, str(error))
    with scratch_directory(storage_kind, directory) as scratch:
        controls = model_based.CONTROLS if with_controls else ()
        undetected = [control for control in controls if not stateful.detects(control, seed, scratch)]
        fixed = [stateful.run_fixed(table, scratch) for table in fixed_on]
        random = [stateful.explore(part, scratch, has_time, on_progress) for part in model_based.parts(steps, seed)]
        findings = [stateful.finding(failed, scratch) for failed in model_based.first_failures([*fixed, *random])]
    return stateful_phase("the table", fixed, random, findings, seed, undetected)


def explore_damage(
    image: DiskImage,
    path: str,
    *,
    damages_max: int | None = None,
    pairs_max: int = 0,
    has_time: HasTime = always,
    on_progress: OnProgress = lambda done, total: None,
) -> Phase:
    """Damage the table at `path` of a sound `image` in every planned way, and classify what reading makes of it.

    At most `damages_max` flips and lengths, and `pairs_max` pairs of flips, are tried; the bound says what was not.
    Raises what reading the table raises.
    """
    question = TableQuestion(image=image, path=path)
    exploration = damage_exploration(damages_max, pairs_max)
    return explore_here(exploration, question, has_time=has_time, on_progress=on_progress)


def explore_variant(
    test_case: MemoryTestCase, variant: MemoryVariant, cases: Sequence[MemoryCase] = CASES, *, read_count: int = 1
) -> tuple[Explored, ...]:
    """Explore one variant in every case without a time limit; raises NotExplorableError, NotMappedError."""
    trace = test_case.trace(variant)
    with test_case.reader(variant, read_count) as reader:
        return tuple(MemoryExploration(baseline_of(trace, case), reader).run() for case in cases)
