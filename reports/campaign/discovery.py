"""What a campaign has not seen: how likely the next run shows something new, and how long faults stay undetected."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

CONFIDENCE = 0.95
_HALVINGS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Yield:
    """The state after `run_count` runs: `new_share` estimates the probability that one more run is new.

    `new_share_max` is an upper bound with confidence `CONFIDENCE`.
    """

    run_count: int
    behaviour_count: int
    once_count: int
    held_out_count: int
    held_out_new_count: int

    @property
    def new_share(self) -> float:
        """The estimate of Good and Turing: the share of runs whose behaviour occurred once."""
        return unseen_share(self.once_count, self.run_count)

    @property
    def new_share_max(self) -> float:
        """An upper bound: held-out runs are independent trials of whether the others have seen everything."""
        return chance_max(self.held_out_new_count, self.held_out_count)


def unseen_share(once_count: int, run_count: int) -> float:
    """Return the estimated probability that one more run shows something new; 1 before the first run.

    Good, "The population frequencies of species and the estimation of population parameters", Biometrika 40 (1953).
    """
    return once_count / run_count if run_count else 1.0


def chance_max(event_count: int, trial_count: int, confidence: float = CONFIDENCE) -> float:
    """Return an upper bound, with that confidence, of the mean probability of an event in independent trials.

    Hoeffding, "Probability inequalities for sums of bounded random variables", JASA 58 (1963), theorem 1; the
    probabilities may differ from trial to trial. Without any event it is exact, and the rule of three: about
    3 / `trial_count`.
    """
    assert 0 <= event_count <= trial_count and 0 < confidence < 1
    if event_count == trial_count:
        return 1.0
    share, evidence = event_count / trial_count, -math.log1p(-confidence) / trial_count
    low, high = share, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle < 1 and _divergence(share, middle) < evidence:
            low = middle
        else:
            high = middle
    return high


def _divergence(share: float, chance: float) -> float:
    """Return the relative entropy of two coins, where 0 < `chance` < 1."""
    rest = (1 - share) * math.log((1 - share) / (1 - chance))
    return rest + (share * math.log(share / chance) if share else 0.0)


def about(share: float) -> str:
    """Return a share in per cent, rounded to two digits or to a whole number."""
    return _percent(share, round)


def at_most(share: float) -> str:
    """Return a share in per cent, rounded up, as an upper bound has to be."""
    return _percent(share, math.ceil)


def _percent(share: float, rounded: Callable[[float], int]) -> str:
    percent = 100 * share
    if percent <= 0:
        return "0%"
    digits = max(0, 1 - math.floor(math.log10(percent)))
    # Rounding errors of a product such as 0.07 * 100 must not round up.
    return f"{rounded(round(percent * 10**digits, 6)) / 10**digits:.{digits}f}%"
