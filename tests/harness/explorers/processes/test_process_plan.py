"""A kill is planned for every position, in an order that follows from the seed alone."""

from itertools import islice, pairwise

import pytest

from tornproof.harness.explorers.processes.expected import Change
from tornproof.harness.explorers.processes.plan import Act, Plan, plan_kills, plan_last
from tornproof.harness.explorers.processes.stop import COMMIT_POSITIONS, POSITIONS, Stop

SEEDS = range(20)


def stop_of(plan: Plan) -> Stop:
    stops = [*([plan.stop_in_recovery] if plan.stop_in_recovery else []), *(step.stop for step in plan.steps)]
    (stop,) = [stop for stop in stops if stop is not None]
    return stop


def one_round(seed: int, skipped: int = 0) -> list[Plan]:
    return list(islice(plan_kills(seed), skipped, skipped + len(POSITIONS)))


@pytest.mark.parametrize("seed", SEEDS)
def test_each_round_has_every_position_once_and_one_of_a_commit_first(seed: int) -> None:
    for skipped in (0, len(POSITIONS)):
        positions = [stop_of(plan).position for plan in one_round(seed, skipped)]
        assert sorted(positions) == sorted(POSITIONS)
        assert positions[0] in COMMIT_POSITIONS


@pytest.mark.parametrize("seed", SEEDS)
def test_a_recovery_that_needs_a_reason_follows_a_commit_that_leaves_one(seed: int) -> None:
    for commit, recovery in pairwise(one_round(seed)):
        step = stop_of(recovery).position
        end = stop_of(commit).position
        if step in ("recovery: append pm", "recovery: sync pm"):
            changes = {each.change for each in commit.steps if each.stop}
            assert changes == {Change.GROW}
            assert end in {
                f"commit: {name}" for name in ("sync header", "store record", "sync record", "store version")
            }
        if step in ("recovery: remove file", "recovery: remove directory"):
            changes = {each.change for each in commit.steps if each.stop}
            assert changes == {Change.REWRITE}
            assert end in {*COMMIT_POSITIONS} and "header" not in end and "record" not in end and "version" not in end


@pytest.mark.parametrize("seed", SEEDS)
def test_what_leads_to_a_position_is_planned_often_enough_to_reach_it(seed: int) -> None:
    for plan in one_round(seed):
        stop = stop_of(plan)
        if plan.stop_in_recovery:
            assert stop.occurrence == 1
            continue
        acts = [step.act for step in plan.steps]
        index = next(number for number, step in enumerate(plan.steps) if step.stop)
        if stop.position.startswith("purge"):
            assert acts[index - 2 :] == [Act.COMMIT, Act.PAUSE, Act.PURGE]
            assert plan.steps[index - 2].change is Change.REWRITE
        else:
            assert acts[index:].count(Act.COMMIT) == len(acts) - index > stop.occurrence
            assert len({step.change for step in plan.steps[index:]}) == 1
        # A partition is there to grow or to be rewritten.
        assert acts[0] is Act.COMMIT and index > 0


def test_plans_follow_from_the_seed() -> None:
    assert one_round(1) == one_round(1) != one_round(2)
    assert len({plan_last(seed) for seed in SEEDS}) > 1


@pytest.mark.parametrize("seed", SEEDS)
def test_the_last_writer_stops_inside_a_commit_and_continues_long_enough(seed: int) -> None:
    steps = plan_last(seed).steps
    assert stop_of(plan_last(seed)).position in COMMIT_POSITIONS
    stopped = next(number for number, step in enumerate(steps) if step.stop)
    paused = next(number for number, step in enumerate(steps) if step.act is Act.PAUSE)
    assert [step.act for step in steps[stopped:paused]].count(Act.COMMIT) >= 2
    assert steps[-1].change is Change.GROW
