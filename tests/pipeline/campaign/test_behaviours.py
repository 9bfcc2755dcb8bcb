"""Behaviours counted in parts, as tasks of Spark do, and run by run."""

import itertools

import numpy as np
import pytest
from brute_behaviours import counts_after

from tornproof.pipeline.campaign import behaviours
from tornproof.pipeline.campaign.behaviours import POINTS_MAX, Behaviours


@pytest.mark.parametrize("seed", range(40))
def test_parts_come_to_the_same_as_runs_one_by_one(seed: int) -> None:
    chance = np.random.default_rng(seed)
    count, kinds = int(chance.integers(1, 500)), int(chance.integers(1, 90))
    digests, is_held_out = chance.integers(0, kinds, count).astype(np.uint64), chance.random(count) < 0.5
    edges = [0, *sorted(chance.integers(0, count + 1, 4).tolist()), count]
    whole = Behaviours.none()
    for first, stop in itertools.pairwise(edges):
        whole.add(Behaviours.of(digests[first:stop], is_held_out[first:stop]))
    trend = whole.trend()
    assert len(trend) <= POINTS_MAX and trend[-1].run_count == count
    for point in trend[:: max(1, len(trend) // 10)] + trend[-1:]:
        assert tuple(point) == counts_after(digests.tolist(), is_held_out.tolist(), point.run_count)


def test_more_behaviours_than_can_be_told_apart_end_the_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(behaviours, "BEHAVIOURS_MAX", 5)
    digests = np.array([1, 1, 2, 3, 4, 5, 6, 7, 1], np.uint64)
    for edge in (0, 3, 9):
        counts = Behaviours.of(digests[:edge], digests[:edge] < 0)
        counts.add(Behaviours.of(digests[edge:], digests[edge:] < 0))
        assert counts.is_full and tuple(counts.trend()[-1]) == (6, 5, 4, 0, 0)
