"""Programs are made smaller until nothing can be left out alone; what is left still violates the same property."""

import itertools
import random
from collections.abc import Callable
from statistics import median

import pytest
from depth import drawn, nightly
from planted_faults import NOTICED, planted

from tornproof.harness.common.verdict import Verdict
from tornproof.harness.explorers.model_based.explorer import Stateful, parts, replay_stateful
from tornproof.harness.explorers.model_based.files import ViolationError
from tornproof.harness.explorers.model_based.fixed_programs import FIXED_PROGRAMS
from tornproof.harness.explorers.model_based.rules import Step
from tornproof.harness.explorers.model_based.smaller import Failure, Steps, smallest
from tornproof.harness.explorers.model_based.start import StorageKind
from tornproof.harness.mutation.fault_file import FaultFile

BROKEN = "one"
STEPS_GOAL = 6


def shrunk(steps: Steps, is_violation: Callable[[Steps], bool], steps_max: int = 100_000) -> Steps:
    def run(options: int, candidate: Steps) -> ViolationError | None:
        return ViolationError(BROKEN, "text") if is_violation(candidate) else None

    failure = Failure(steps=steps, options=0, violation=ViolationError(BROKEN, "text"))
    return smallest(failure, run, steps_max=steps_max).steps


def test_what_is_needed_stays_and_the_rest_goes_on_random_programs() -> None:
    chance = random.Random(1)
    for _ in range(200):
        steps: Steps = tuple(
            {"rule": f"r{number}", "at": chance.randrange(9)} for number in range(chance.randrange(1, 40))
        )
        needed = set(chance.sample(range(len(steps)), chance.randrange(1, min(4, len(steps) + 1))))

        def has_needed(candidate: Steps, needed: set[int] = needed) -> bool:
            return needed <= {int(step["rule"][1:]) for step in candidate}

        left = shrunk(steps, has_needed)
        assert left == tuple({"rule": f"r{number}", "at": 0} for number in sorted(needed))


def test_rows_become_fewer_and_smaller_and_numbers_smaller() -> None:
    step: Step = {"rule": "insert", "rows": [9, 5, 7, 71]}
    (left,) = shrunk((step,), lambda steps: bool(steps) and max(steps[0]["rows"]) >= 7)
    assert left == {"rule": "insert", "rows": [7]}


def test_another_violation_is_not_taken_for_the_same() -> None:
    violations = {2: ViolationError(BROKEN, "long"), 1: ViolationError("another", "short")}
    steps: Steps = ({"rule": "a"}, {"rule": "b"})
    failure = Failure(steps=steps, options=1, violation=violations[2])
    left = smallest(failure, lambda options, candidate: violations.get(len(candidate)), steps_max=100)
    assert (left.steps, left.options) == (steps, 0)


def test_a_budget_ends_it_with_what_was_found_so_far() -> None:
    runs = itertools.count()

    def counted(steps: Steps) -> bool:
        next(runs)
        return {"rule": "x"} in steps

    steps = (*({"rule": "y"},) * 30, {"rule": "x"})
    left = shrunk(steps, counted, steps_max=60)
    assert 1 < len(left) < 31 and next(runs) < 5


def found_steps(fault: FaultFile) -> int:
    """Return the length of the first finding; a finding must be seen again."""
    with planted(fault):
        stateful = Stateful(None, "/table", StorageKind.MEMORY)
        fixed_results = (stateful.run_fixed(table, "").failed for table in (None, *FIXED_PROGRAMS))
        random = (stateful.explore(part, "").failed for part in parts(1_600, 0))
        finding = stateful.finding(next(filter(None, itertools.chain(fixed_results, random))), "")
        assert finding.evidence.get("is_seen_again", True)
        assert replay_stateful(None, "/table", finding, storage_kind=StorageKind.MEMORY) is Verdict.INVALID
    assert replay_stateful(None, "/table", finding, storage_kind=StorageKind.MEMORY) is Verdict.VALID
    return len(finding.evidence["steps"])


@pytest.mark.parametrize("faults", [drawn(1, NOTICED, seed=2), nightly(NOTICED)], ids=["some", "all"])
def test_half_of_the_findings_have_at_most_six_steps(faults: list[FaultFile]) -> None:
    lengths = [found_steps(fault) for fault in faults]
    assert median(lengths) <= STEPS_GOAL, lengths
