"""Which barriers a commit needs: every subset of F1 to F6 explored under every model of persistence."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tornproof.harness.common.remembered_codecs import remembered_decoding, remembered_encoder
from tornproof.harness.common.verdict import Finding
from tornproof.harness.explorers.power_cuts.exploration import Settings, finding_of
from tornproof.harness.explorers.power_cuts.judge import PowerJudge
from tornproof.harness.explorers.power_cuts.sessions import explore_model
from tornproof.harness.explorers.power_cuts.trace import Traces
from tornproof.harness.simulator.persistence.legal_files import Limits
from tornproof.harness.simulator.persistence.models import C_8, MODELS, Model
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.systems.preset import leaving_out
from tornproof.harness.systems.table import TableTarget
from tornproof.harness.systems.workload import MADE_PATH, crash_operations, made_image
from tornproof.impl.write.commit import HARDENED, Action, Protocol

BARRIERS: dict[str, tuple[Action, ...]] = {
    "F1": (Action.SYNC_DATA, Action.SYNC_SYMBOLS, Action.SYNC_INDEX),
    "F2": (Action.SYNC_PM,),
    "F3": (Action.SYNC_HEADER,),
    "F4": (Action.SYNC_RECORD,),
    "F5": (Action.SYNC_VERSION,),
    "F6": (Action.SYNC_DIRECTORY, Action.SYNC_TABLE_DIRECTORY),
}
ALL = tuple(BARRIERS)
FILE_COUNT, TORN_FILE_COUNT = 1024, 64
"""How many contents of a file are tried, and how many in C-8, which has too many to try all."""
Names = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one set of barriers under one model: a finding, or disks on which all properties held."""

    barriers: Names
    model: Model
    finding: Finding | None
    is_complete: bool
    disk_count: int

    @property
    def is_safe(self) -> bool:
        """Whether nothing was found."""
        return self.finding is None


def settings_of(model: Model) -> Settings:
    """Return the limits of exploring one set of barriers under a model; one finding is enough."""
    file_count = TORN_FILE_COUNT if model is C_8 else FILE_COUNT
    limits = Limits(file_count=file_count, disk_count=4 * file_count)
    return Settings(
        limits=limits,
        nested_limits=Limits(file_count=64, names_count=32, disk_count=128),
        stops_at_first=True,
    )


def subsets() -> Iterator[Names]:
    """Yield all sets of barriers, the smallest first."""
    for count in range(len(ALL) + 1):
        yield from itertools.combinations(ALL, count)


def protocol_with(barriers: Iterable[str]) -> Protocol:
    """Return the hardened commit with these barriers alone."""
    kept = set(barriers)
    left_out = {action for name, actions in BARRIERS.items() if name not in kept for action in actions}
    return leaving_out(HARDENED, left_out)


def explore_barriers(
    *,
    models: Sequence[Model] = MODELS,
    sets: Sequence[Names] | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Outcome]:
    """Explore each set of barriers under each model, on a workload that grows, merges, makes and rewrites partitions.

    One of its records crosses a sector. Disks are judged by readers and writers of the hardened protocol.
    """
    chosen = list(subsets()) if sets is None else list(sets)
    outcomes: list[Outcome] = []
    with remembered_decoding():
        workload = Workload()
        for barriers in chosen:
            for outcome in workload.outcomes(barriers, models):
                outcomes.append(outcome)
                on_progress(len(outcomes), len(chosen) * len(models))
        workload.judge.close()
    return outcomes


class Workload:
    """The commits that are explored and the judge of their disks, shared by all sets of barriers."""

    def __init__(self) -> None:
        start = made_image()
        self._target = TableTarget(encode=remembered_encoder())
        self._hardened = TestCase(
            target=self._target,
            path=MADE_PATH,
            operations=crash_operations(start, MADE_PATH),
            first_session=(0, 1, 2),
            second_session=(3,),
            start=start,
        )
        self.judge = PowerJudge(self._hardened)

    def outcomes(self, barriers: Names, models: Sequence[Model]) -> Iterator[Outcome]:
        """Yield the outcome of a set of barriers under each model."""
        target = dataclasses.replace(self._target, protocol=protocol_with(barriers), name=" ".join(barriers))
        case = dataclasses.replace(self._hardened, target=target)
        traces = Traces(case)
        for model in models:
            exploration = explore_model(self.judge, traces, model, settings_of(model))
            found = min(exploration.found.values(), key=lambda each: len(each.cuts), default=None)
            yield Outcome(
                barriers=barriers,
                model=model,
                finding=None if found is None else finding_of(found, target.name),
                is_complete=exploration.tally.is_complete,
                disk_count=len(exploration.tally.distinct),
            )


def minimal_safe_sets(outcomes: Iterable[Outcome], model: Model) -> list[Names]:
    """Return the safe sets under a model that have no smaller safe subset."""
    safe = [set(outcome.barriers) for outcome in outcomes if outcome.model == model and outcome.is_safe]
    return [tuple(name for name in ALL if name in each) for each in safe if not any(other < each for other in safe)]
