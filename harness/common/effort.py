"""How much work a check does: one number, from which the bound of every explorer follows, in cases and not in time."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from numbers import Integral

EFFORTS = {"small": 1, "medium": 4, "large": 40}
DEFAULT = "medium"
EFFORT_MAX = 10_000
SEED_MAX = (1 << 62) - 1
"""The largest seed of a check and of a campaign, from which others are derived."""
LARGE_CHUNKS = 128
"""A table with more column chunks is large: each case reads most of them, so there are fewer cases."""
NOT_DIVIDED = frozenset({"sequences", "questions", "damages", "states", "crash_points", "torn_disks", "case_weight"})
"""What does not depend on the size of a table: of these, cases are weighed, or single calls, or counted as disks."""
CHUNKS_OF_A_CASE = 32
"""The cases of a large table read together as many chunks as those of a table with so many."""


def effort_of(asked: int | str) -> int | None:
    """Return the effort of a word or a number, or None if there is no such effort."""
    if isinstance(asked, str):
        asked = EFFORTS.get(asked) or (int(asked) if asked.isascii() and asked.isdigit() else 0)
    return int(asked) if isinstance(asked, Integral) and 1 <= asked <= EFFORT_MAX else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The largest number of cases that an explorer tries; if there are fewer, it tries all.

    `sequences` of calls are made on real files, `questions` of every four that *roundtrip* has are asked, `damages`
    are flips and lengths of a table's files, weighed by what their metadata takes to decode, `pairs` of flips,
    `rules` of the state machine, `schedules` reduced ones of a test case, `states` those of a reader beside a crash
    under one model, `crash_points` those at which the power is cut under one model, `disks` of a large table that
    this leaves, `second_cuts` disks that are like others for a recovery and from which it is cut again,
    `torn_disks` those with sectors torn into words at one that leaves many, `test_cases` random ones, `cuts` lengths at
    which writes tear, `failing_calls` of commits, `kills` of writer processes, `rounds` with a live server. Bounds
    are divided by `case_weight`: so many times as long as with a small table a case takes.
    """

    sequences: int
    questions: int
    damages: int
    pairs: int
    rules: int
    schedules: int
    states: int
    crash_points: int
    disks: int
    second_cuts: int
    torn_disks: int
    test_cases: int
    cuts: int
    failing_calls: int
    kills: int
    rounds: int
    case_weight: int = 1

    @classmethod
    def of(cls, effort: int) -> Bounds:
        """Return the bounds of an effort, by which those of the smallest one are multiplied."""
        return cls(
            sequences=100 * effort,
            questions=effort,
            damages=40_000 * effort,
            pairs=30 * effort,
            rules=400 * effort,
            schedules=1_000 * effort,
            states=40_000 * effort,
            crash_points=250 * effort,
            disks=5_000 * effort,
            second_cuts=5 * effort,
            torn_disks=6 * effort,
            test_cases=10 * effort,
            cuts=20 * effort,
            failing_calls=150 * effort,
            kills=6 * effort,
            rounds=effort,
        )

    def of_table(self, chunk_count: int) -> Bounds:
        """Return the bounds for a table of so many column chunks."""
        weight = -(-chunk_count // CHUNKS_OF_A_CASE) if chunk_count > LARGE_CHUNKS else 1
        fewer = {name: -(-count // weight) for name, count in asdict(self).items() if name not in NOT_DIVIDED}
        return replace(self, **fewer, case_weight=weight)
