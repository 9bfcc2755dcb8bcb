"""Random operations, schedules and crashes: they can be executed, and what is broken is found."""

import pytest
from depth import nightly, sampled
from hypothesis import given, settings

from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.common.verdict import HasTime, Phase, Verdict, always, calls_at_most
from tornproof.harness.counterexamples.run import Replayer, from_schedule
from tornproof.harness.explorers.random.random_cases import COVERAGE_GOALS, explore_random
from tornproof.harness.explorers.random.random_runs import Trace, random_scenarios, random_traces, run_trace
from tornproof.harness.mutation.replay import replay_planted
from tornproof.harness.search.crash_world import Sessions
from tornproof.harness.systems.releases import PRESETS
from tornproof.harness.systems.scenario import Scenario
from tornproof.harness.systems.simulation import case_under


def explored(preset: str, *, examples: int = 60, seed: int = 0, has_time: HasTime = always) -> Phase:
    return explore_random(PRESETS[preset], case_under, examples=examples, seed=seed, has_time=has_time)


@settings(max_examples=25, deadline=None, database=None, derandomize=True)
@given(random_scenarios())
def test_random_scenarios_can_be_executed(scenario: Scenario) -> None:
    with remembered_decoding():
        case = case_under(scenario, PRESETS["hardened"])
        is_changed = case.oracle((*case.first_session, *case.second_session)) != case.oracle(())
    assert is_changed is any(not commit.abandon for commit in (*scenario.first, *scenario.second))


@settings(max_examples=15, deadline=None, database=None, derandomize=True)
@given(random_scenarios(), random_traces())
def test_the_moves_of_a_trace_lead_to_its_end_again(scenario: Scenario, traces: list[Trace]) -> None:
    trace = traces[0]
    fails = trace.crash is not None and trace.crash.kind == "fail"
    with remembered_decoding():
        case = case_under(scenario, PRESETS["questdb-2026-07"])
        sessions = Sessions.of(case, fails=fails)
        world, moves = run_trace(sessions, trace)
        sessions.close()
        with Replayer(case) as replayer:
            again = replayer.play(from_schedule(case, moves))
    first = [violation.property for violation in world.progress.violations][:1]
    assert [violation.property for violation in again.violations][:1] == first


@pytest.mark.parametrize("examples", [30, nightly(60)])
def test_our_implementation_is_valid_and_the_bound_says_what_was_generated(examples: int) -> None:
    phase = explored("hardened", examples=examples)
    assert (phase.verdict, phase.controls, phase.complete) == (Verdict.VALID, "passed", False), phase.note
    assert phase.explored > examples and phase.counts["refused undisturbed"] == 0
    assert all(phase.reached[name] for name in COVERAGE_GOALS)
    assert f"{phase.explored} runs of {examples} test cases, random from seed 0" in phase.bound


@pytest.mark.parametrize(
    ("preset", "examples"),
    [
        *sampled(1, [("questdb-2026-07", 15), ("specification", 15)]),
        nightly("questdb-2026-07", 40),
        nightly("specification", 40),
    ],
)
def test_other_releases_are_detected_by_small_logs_that_replay(preset: str, examples: int) -> None:
    phase = explored(preset, examples=examples)
    assert phase.verdict is Verdict.INVALID
    for finding in phase.findings:
        assert finding.evidence["shrunk"]["operations"][1] <= 4
        replayed = replay_planted(finding)
        assert (replayed.verdict, replayed.is_same) == (Verdict.INVALID, True)


def test_the_same_seed_gives_the_same_runs_and_another_one_others() -> None:
    first, again, other = (explored("hardened", examples=6, seed=seed) for seed in (3, 3, 4))
    assert (first.counts, first.reached) == (again.counts, again.reached)
    assert first.counts != other.counts


def test_without_time_for_one_run_there_is_no_verdict() -> None:
    phase = explored("hardened", has_time=calls_at_most(0))
    assert (phase.verdict, phase.note) == (Verdict.UNKNOWN, "nothing was run")
