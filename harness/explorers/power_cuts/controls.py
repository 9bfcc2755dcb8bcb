"""Positive and negative controls: toys that a model must detect or accept before its other verdicts count."""

from __future__ import annotations

from collections.abc import Sequence

from tornproof.harness.common.system import Target
from tornproof.harness.explorers.power_cuts.exploration import Settings
from tornproof.harness.explorers.power_cuts.judge import PowerJudge
from tornproof.harness.explorers.power_cuts.sessions import explore_model
from tornproof.harness.explorers.power_cuts.trace import Traces
from tornproof.harness.simulator.persistence.models import CDIR, Model
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.systems.toy import HeaderFirst, NeverSyncs, NeverSyncsNames, RecoversInPlace, SwallowsErrors, Toy

OPERATIONS = (b"one", b"t", b"three")
PATH = "toy"


def failed_controls(models: Sequence[Model]) -> list[str]:
    """Explore toys, and describe each wrong verdict of a model.

    Each model must keep what is synced and lose what is not; one that kills only the process must lose nothing.
    """
    failures = []
    for model in models:
        for target in (Toy(), NeverSyncs(), NeverSyncsNames(), SwallowsErrors(), HeaderFirst(), RecoversInPlace()):
            is_detected, must_be = detects(model, target), _must_detect(model, target)
            if is_detected is not must_be and must_be is not None:
                failures.append(
                    f"the toy {target.name!r} was {'rejected' if is_detected else 'not detected'} in {model}"
                )
    return failures


def detects(model: Model, target: Target) -> bool:
    """Return whether anything is found in a toy."""
    case = toy_case(target)
    judge = PowerJudge(case)
    traces = Traces(case)
    found = explore_model(judge, traces, model, Settings(stops_at_first=True)).found
    judge.close()
    return bool(found) or bool(traces.of(model).violations)


def toy_case(target: Target) -> TestCase:
    """Return the test case of a toy that commits twice, and once more after a crash."""
    return TestCase(target=target, path=PATH, operations=OPERATIONS, first_session=(0, 1), second_session=(2,))


def _must_detect(model: Model, target: Target) -> bool | None:
    """Return whether a model must detect a toy; None where the toy is meant for other models."""
    match target:
        case NeverSyncs():
            return model.everything_dies or model.fails_syncs
        case NeverSyncsNames():
            return model is CDIR
        case SwallowsErrors():
            return model.fails_syncs
        case HeaderFirst() | RecoversInPlace():
            return None if model.everything_dies or model.fails_syncs else True
    return False
