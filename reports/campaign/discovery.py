"""What a campaign that samples has not seen: how likely the next run is new, and how long faults stay unfound."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

CONFIDENCE = 0.95
BEHAVIOURS_MAX = 500_000
"""So many behaviours are told apart; where there are more, the rest of the runs is not counted."""
POINTS_MAX = 200
_HALVINGS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Yield:
    """What was known after so many runs: `new_share` is the estimate of the chance that one more is new.

    `new_share_max` is above that chance with a confidence of `CONFIDENCE`.
    """

    run_count: int
    behaviour_count: int
    once_count: int
    held_out_count: int
    held_out_new_count: int

    @property
    def new_share(self) -> float:
        """The estimate of Good and Turing: the share of the runs whose behaviour came once."""
        return unseen_share(self.once_count, self.run_count)

    @property
    def new_share_max(self) -> float:
        """An upper bound: the runs that were held out are trials of whether the others have seen everything."""
        return chance_max(self.held_out_new_count, self.held_out_count)


@dataclass(slots=True)
class Behaviours:
    """Counts behaviours as they come, half of the runs held out, and keeps the yield at some of the runs.

    A run of the one half that shows what no run of the other has shown is an independent trial of how much that other
    half has not seen. All runs together have seen no less, so a bound on its unseen share holds for them, too.
    """

    run_count: int = 0
    points: list[Yield] = field(default_factory=list)
    _counts: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    _once_count: int = 0
    _held_out_count: int = 0
    _held_out_new_count: int = 0
    _runs_a_point: int = 1

    @property
    def is_full(self) -> bool:
        """Whether there are so many behaviours that no further run is counted."""
        return len(self._counts) >= BEHAVIOURS_MAX

    def add(self, behaviour: bytes, *, is_held_out: bool) -> None:
        """Count one run, unless there are too many behaviours already."""
        if self.is_full:
            return
        learnt, held_out = self._counts.get(behaviour, (0, 0))
        self.run_count += 1
        self._once_count += {0: 1, 1: -1}.get(learnt + held_out, 0)
        if is_held_out:
            self._held_out_count += 1
            self._held_out_new_count += learnt == 0
            self._counts[behaviour] = learnt, held_out + 1
        else:
            self._held_out_new_count -= held_out if learnt == 0 else 0
            self._counts[behaviour] = learnt + 1, held_out
        if self.run_count % self._runs_a_point == 0:
            self._keep_point()

    def now(self) -> Yield:
        """Return what is known after all runs so far."""
        return Yield(
            run_count=self.run_count,
            behaviour_count=len(self._counts),
            once_count=self._once_count,
            held_out_count=self._held_out_count,
            held_out_new_count=self._held_out_new_count,
        )

    def trace(self) -> list[Yield]:
        """Return what was known at some of the runs, in their order, and after all of them."""
        return [*(point for point in self.points if point.run_count < self.run_count), self.now()]

    def _keep_point(self) -> None:
        self.points.append(self.now())
        if len(self.points) == POINTS_MAX:
            self._runs_a_point *= 2
            self.points = self.points[1::2]


def unseen_share(once_count: int, run_count: int) -> float:
    """Return the estimated chance that one more run shows something new; 1 before the first run.

    Good, "The population frequencies of species and the estimation of population parameters", Biometrika 40 (1953).
    """
    return once_count / run_count if run_count else 1.0


def chance_max(event_count: int, trial_count: int, confidence: float = CONFIDENCE) -> float:
    """Return what the mean chance of an event in independent trials is at most, with that confidence.

    Hoeffding, "Probability inequalities for sums of bounded random variables", JASA 58 (1963), theorem 1; the chances
    may differ from trial to trial. Without any event it is exact, and the rule of three: about 3 / `trial_count`.
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
    # What is left of a product such as 0.07 * 100 is no reason to round up.
    return f"{rounded(round(percent * 10**digits, 6)) / 10**digits:.{digits}f}%"


@dataclass(frozen=True, slots=True, kw_only=True)
class Survival:
    """From this time on, `share` are estimated not to have had their event; `at_risk_count` were watched until then."""

    time: int
    at_risk_count: int
    event_count: int
    censored_count: int
    share: float


def survival(times: Iterable[tuple[int, bool]]) -> tuple[Survival, ...]:
    """Return the product-limit estimate from times and whether the event came then, or else nobody watched longer.

    Kaplan and Meier, "Nonparametric estimation from incomplete observations", JASA 53 (1958). Who is watched until a
    time at which events come is at risk there.
    """
    ordered = sorted(times)
    at_risk_count, share, steps = len(ordered), 1.0, []
    for time, group in itertools.groupby(ordered, key=lambda each: each[0]):
        events = [came for _, came in group]
        share *= 1 - sum(events) / at_risk_count
        steps.append(
            Survival(
                time=time,
                at_risk_count=at_risk_count,
                event_count=sum(events),
                censored_count=len(events) - sum(events),
                share=share,
            )
        )
        at_risk_count -= len(events)
    return tuple(steps)
