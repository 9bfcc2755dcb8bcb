"""Positive and negative controls: toys that a model must detect or accept before its other verdicts count."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

from tornproof.harness.common import model_controls
from tornproof.harness.common.system import Target
from tornproof.harness.explorers.power_cuts.exploration import Settings
from tornproof.harness.explorers.power_cuts.judge import PowerJudge
from tornproof.harness.explorers.power_cuts.sessions import CUT_TWICE, explore_model
from tornproof.harness.explorers.power_cuts.trace import Traces
from tornproof.harness.simulator.persistence import litmus
from tornproof.harness.simulator.persistence.models import C_8, C_512, CDIR, N_512, POWER_MODELS, W_512, A, B, D, Model
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.simulator.process.trace_rules import TraceRules
from tornproof.harness.simulator.process.world import NO_RULES
from tornproof.harness.systems.toy import (
    HeaderFirst,
    NeverDone,
    NeverSyncs,
    NeverSyncsNames,
    RecoversInPlace,
    SwallowsErrors,
    Toy,
)
from tornproof.harness.systems.toy_control import EVERY, Control, unfollowed_reports
from tornproof.harness.systems.toy_locks import DropsUndo, Undo, UndoesEarly, UndoesUnchecked
from tornproof.harness.systems.toy_losses import (
    BREAKS_IN_RECOVERY,
    FORBIDS_COMMITS,
    KEEPS_REDO,
    LOSES_STATE,
    RECOVERS_LAZILY,
    REJECTS_RECOVERY,
    SYNCS_RENAMED,
    SYNCS_RENAMED_DATA,
    TRUSTS_BLOCKS,
    TRUSTS_SECTORS,
    WAITS_IN_RECOVERY,
    AdoptsUnsynced,
    AppendsOnce,
    CarelessAfterLoss,
    GivesIn,
    GoesOnBehindLoss,
    KeepsUndo,
    LeavesRecord,
    RecoversUnsynced,
    SyncsLate,
    TrustsFailedSync,
    TrustsOrder,
    TrustsRename,
    TrustsZeros,
    UndoesWhatWasSeen,
)
from tornproof.harness.systems.toy_readers import Counter, ToyRules
from tornproof.harness.systems.toy_specified import LosesALetter, Specified

OPERATIONS = (b"one", b"t", b"three")
PATH = "toy"
MIXING = frozenset(model for model in POWER_MODELS if model is not B)
TORN = frozenset({C_512, C_8, W_512, N_512})
STALE = frozenset({W_512, N_512})
UNORDERED_NAMES = frozenset({CDIR, N_512})


CONTROLS = (
    Control(target=Toy(), detected_by=frozenset()),
    # What is lost: what is not synced, names, unlinks, what a failed sync was about.
    Control(target=NeverSyncs(), violated=Property.LOST, detected_by=EVERY - {A}),
    Control(target=NeverSyncsNames(), violated=Property.LOST, detected_by=EVERY - {A}),
    Control(target=SyncsLate(), violated=Property.LOST, detected_by=EVERY - {A}),
    Control(target=KeepsUndo(), violated=Property.LOST, detected_by=EVERY - {A}),
    Control(target=SwallowsErrors(), violated=Property.LOST, detected_by=frozenset({D})),
    Control(target=TrustsFailedSync(), violated=Property.REJECTED, detected_by=frozenset({D})),
    # Which names are lost: the last ones of a journal, any, or half of a rename.
    Control(target=SYNCS_RENAMED_DATA, violated=Property.LOST, detected_by=EVERY - {A}),
    Control(target=SYNCS_RENAMED, violated=Property.LOST, detected_by=UNORDERED_NAMES),
    # Where the sync of its rename fails and it goes on, it overwrites the state that is valid on disk.
    Control(
        target=TrustsRename(),
        violated=Property.REJECTED,
        detected_by=frozenset({N_512}),
        accepted_by=EVERY - {N_512, D},
    ),
    # How a file is torn: never, by blocks, by sectors, by words; and what is in new blocks.
    Control(target=TrustsOrder(), violated=Property.REJECTED, detected_by=MIXING, accepted_by=frozenset({A, B})),
    Control(target=AppendsOnce(), violated=Property.WRONG_SNAPSHOT, detected_by=MIXING, accepted_by=frozenset({A, B})),
    Control(
        target=TRUSTS_BLOCKS,
        violated=Property.REJECTED,
        detected_by=TORN,
        accepted_by=EVERY - TORN - {D},
    ),
    Control(
        target=TRUSTS_SECTORS,
        violated=Property.REJECTED,
        detected_by=frozenset({C_8}),
        accepted_by=EVERY - {C_8, D},
    ),
    Control(target=TrustsZeros(), violated=Property.WRONG_SNAPSHOT, detected_by=STALE, accepted_by=EVERY - STALE - {D}),
    # When: at a kill, in a recovery, in the session after a power cut or a kill, after an eviction.
    Control(target=HeaderFirst(), violated=Property.REJECTED, accepted_by=frozenset()),
    Control(target=RecoversInPlace(), violated=Property.LOST, accepted_by=frozenset()),
    Control(
        target=RecoversUnsynced(),
        violated=Property.LOST,
        detected_by=frozenset(POWER_MODELS),
        accepted_by=frozenset({A}),
    ),
    Control(target=RECOVERS_LAZILY, violated=Property.REJECTED, detected_by=CUT_TWICE | {D}),
    Control(
        target=LeavesRecord(),
        violated=Property.WRONG_SNAPSHOT,
        detected_by=CUT_TWICE,
        accepted_by=EVERY - CUT_TWICE - {D},
    ),
    # A reader recovers, too.
    Control(target=Undo(), detected_by=frozenset()),
    Control(target=UndoesEarly(), violated=Property.LOST),
    Control(target=UndoesUnchecked(), violated=Property.LOST, detected_by=frozenset({D})),
    Control(target=KEEPS_REDO, detected_by=frozenset(), accepted_by=EVERY - {D}),
    Control(target=AdoptsUnsynced(), violated=Property.LOST, detected_by=frozenset({D})),
    Control(
        target=CarelessAfterLoss(),
        violated=Property.LOST,
        detected_by=frozenset({D}),
        accepted_by=EVERY - CUT_TWICE - {D},
    ),
    Control(target=DropsUndo(), violated=Property.LOST, accepted_by=frozenset()),
    # A writer goes on after a commit that it rejected.
    Control(target=GivesIn(), violated=Property.LOST, detected_by=frozenset({D})),
    Control(
        target=GoesOnBehindLoss(), violated=Property.LOST, detected_by=frozenset({D}), accepted_by=frozenset({A, B})
    ),
    # What is judged.
    Control(target=UndoesWhatWasSeen(), violated=Property.WENT_BACK, accepted_by=frozenset()),
    Control(target=LOSES_STATE, violated=Property.UNREADABLE),
    Control(target=NeverDone(), violated=Property.IDEMPOTENT),
    Control(target=FORBIDS_COMMITS, violated=Property.COMMIT),
    Control(target=REJECTS_RECOVERY, violated=Property.RECOVERY),
    Control(target=BREAKS_IN_RECOVERY, violated=Property.DISORDERLY),
    Control(target=WAITS_IN_RECOVERY, violated=Property.ENDS),
    Control(target=LosesALetter(), violated=Property.CONTENT),
    Control(target=LosesALetter(OPERATIONS[-1]), violated=Property.CONTENT),
    Control(target=Specified(), detected_by=frozenset()),
    Control(target=Counter(), rules=ToyRules(), violated=Property.IMMUTABLE, accepted_by=frozenset()),
    Control(target=NeverSyncs(), rules=ToyRules(), violated=Property.BARRIERS, accepted_by=frozenset()),
    Control(target=Toy(), rules=ToyRules(), detected_by=frozenset()),
)


@cache
def controls_of_run(models: tuple[Model, ...]) -> tuple[str, ...]:
    """Return the failed controls, which every exploration of this process asks for."""
    return tuple(failures(models))


def failed_controls(models: Sequence[Model]) -> list[str]:
    """Explore all toys under these models, and return a description of each wrong verdict."""
    return [*failures(models)]


def failures(models: Sequence[Model]) -> Iterator[str]:
    """Explore one toy after the other under these models, and describe each wrong verdict."""
    for control in CONTROLS:
        with _explored(control.target, control.rules) as explore:
            yield from filter(None, (control.failure(model, explore) for model in models))
    yield from litmus.failed_controls()
    yield from model_controls.failed_controls()
    yield from unfollowed_reports()


def violated(model: Model, target: Target) -> frozenset[str]:
    """Return the properties that a model finds violated in a toy."""
    with _explored(target) as explore:
        return explore(model, target)


@contextmanager
def _explored(target: Target, rules: TraceRules = NO_RULES) -> Iterator[Callable[[Model, Target], frozenset[str]]]:
    """Explore a toy under several models, which share what recoveries and readers have shown."""
    case = replace(toy_case(target), rules=rules)
    judge, traces = PowerJudge(case), Traces(case)

    def explore(model: Model, _: Target) -> frozenset[str]:
        found = explore_model(judge, traces, model, Settings()).found.values()
        return frozenset([each.verdict.violated for each in found] + [each[0] for each in traces.of(model).violations])

    try:
        yield explore
    finally:
        judge.close()


def toy_case(target: Target) -> TestCase:
    """Return the test case of a toy that commits twice, and once more after a crash."""
    return TestCase(
        target=target, path=PATH, operations=OPERATIONS, first_session=(0, 1), second_session=(2,), goes_on=True
    )
