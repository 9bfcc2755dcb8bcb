"""The statistics of what was not seen, against published numbers, exact sums and what they promise."""

import math

import numpy as np
import pytest

from tornproof.pipeline.campaign.behaviours import POINTS_MAX, Behaviours
from tornproof.reports.campaign.discovery import (
    Yield,
    about,
    at_most,
    chance_max,
    unseen_share,
)


def trend_of(behaviours: list[int]) -> list[Yield]:
    """Every second run is held out."""
    is_held_out = np.arange(len(behaviours)) % 2 == 1
    counts = Behaviours.of(np.array(behaviours, np.uint64), is_held_out)
    return [Yield(**point._asdict()) for point in counts.trend()]


def zipf_draws(seed: int, count: int) -> tuple[list[int], np.ndarray]:
    chances = 1 / np.arange(1, 2001)
    chances /= chances.sum()
    return np.random.default_rng(seed).choice(2000, count, p=chances).tolist(), chances


@pytest.mark.parametrize("count", [10, 300, 100_000])
def test_without_any_event_the_bound_is_the_rule_of_three(count: int) -> None:
    assert math.isclose(chance_max(0, count), 1 - 0.05 ** (1 / count), rel_tol=1e-9)
    assert math.isclose(chance_max(0, count), 3 / count, rel_tol=0.15)


@pytest.mark.parametrize(("events", "trials"), [(1, 20), (7, 50), (30, 400), (199, 400), (399, 400)])
def test_a_chance_above_the_bound_hardly_ever_shows_so_few_events_and_one_well_below_it_does(
    events: int, trials: int
) -> None:
    def tail(chance: float) -> float:
        return sum(math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(events + 1))

    bound = chance_max(events, trials)
    assert tail(bound) <= 0.05
    assert tail(events / trials + 0.5 * (bound - events / trials)) > 0.05


def test_trials_that_all_show_the_event_bound_nothing_and_no_trials_do_not_either() -> None:
    assert chance_max(4, 4) == 1 and chance_max(0, 0) == 1 and unseen_share(0, 0) == 1


def test_counts_of_a_stream_are_those_of_the_whole() -> None:
    draws, _ = zipf_draws(1, 997)
    now = trend_of(draws)[-1]
    learnt = set(draws[::2])
    assert now.run_count == 997 and now.held_out_count == 498
    assert now.behaviour_count == len(set(draws))
    assert now.once_count == sum(draws.count(each) == 1 for each in set(draws))
    assert now.held_out_new_count == sum(each not in learnt for each in draws[1::2])


def test_course_has_few_points_in_order_and_ends_with_all_runs() -> None:
    for count in (1, 150, 200, 4321):
        points = trend_of(zipf_draws(2, count)[0])
        runs = [point.run_count for point in points]
        assert runs == sorted(set(runs)) and runs[-1] == count and len(runs) <= POINTS_MAX
        assert len(runs) >= min(count, POINTS_MAX // 2)


def test_the_bound_holds_nearly_always_where_the_estimate_alone_does_not() -> None:
    bound_count = estimate_count = 0
    for seed in range(100):
        draws, chances = zipf_draws(seed, 400)
        unseen = 1 - chances[sorted(set(draws))].sum()
        now = trend_of(draws)[-1]
        bound_count += now.new_share_max >= unseen
        estimate_count += now.new_share >= unseen
        assert abs(now.new_share - unseen) < 0.15
    assert bound_count >= 95 and 20 <= estimate_count <= 80


@pytest.mark.parametrize(
    ("share", "rounded", "bound"),
    [
        (0.0023017, "0.23%", "0.24%"),
        (0.4696, "47%", "47%"),
        (0.07, "7.0%", "7.0%"),
        (0, "0%", "0%"),
        (1, "100%", "100%"),
    ],
)
def test_bounds_are_rounded_up(share: float, rounded: str, bound: str) -> None:
    assert (about(share), at_most(share)) == (rounded, bound)
