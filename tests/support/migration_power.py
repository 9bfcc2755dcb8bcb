"""Migration of a table under power cuts: a crash after every step, in every model of persistence, and later runs.

After each crash a reader must find every `_pm` absent or as it was, or whole and as an undisturbed run makes it, and
the next run must end with the same bytes.
"""

import dataclasses
from collections.abc import Sequence

from tornproof.harness.common.verdict import HasTime, OnProgress, Phase, always
from tornproof.harness.explorers.power_cuts import points as power_points
from tornproof.harness.explorers.power_cuts.exploration import Settings
from tornproof.harness.explorers.power_cuts.explorer import IN_ORDER, explore_power
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.persistence.models import CDIR, Model
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.systems.migration import MigrationTarget, parquet_partitions

PHASE = "migration"


def migration_case(image: DiskImage, path: str) -> TestCase:
    """Return a run over each parquet partition of a table, and the same after a crash; raises as reading it does."""
    names = tuple(parquet_partitions(image, path))
    numbers = tuple(range(len(names)))
    return TestCase(
        target=MigrationTarget(),
        path=path,
        operations=names,
        first_session=numbers,
        second_session=numbers,
        start=image,
    )


def coverage_goals(models: Sequence[Model]) -> tuple[str, ...]:
    """Return the points that a migration reaches under models: it writes, syncs and names, and overwrites nothing."""
    points: list[str] = []
    for model in models:
        if model.fails_syncs:
            points += (power_points.SYNC_FAILED, power_points.CUT_AFTER_FAILURE, power_points.EVICTED)
            points += (power_points.CUT_AFTER_KILL,)
        else:
            points += (power_points.OLD_STATE, power_points.NEW_STATE)
            points += (power_points.WRITE_LOST, power_points.WRITE_KEPT) if model.everything_dies else ()
            points += (power_points.NAME_LOST,) if model is CDIR else ()
    return tuple(dict.fromkeys(points))


def explore_migration(
    case: TestCase,
    *,
    models: Sequence[Model] = IN_ORDER,
    settings: Settings | None = None,
    has_time: HasTime = always,
    on_progress: OnProgress = lambda done, total: None,
) -> Phase:
    """Cut the power of a migration at every step; raises NotExplorableError where it fails by itself."""
    phase = explore_power(
        case,
        models=models,
        settings=settings,
        has_time=has_time,
        on_progress=on_progress,
        points=coverage_goals(models),
    )
    return dataclasses.replace(phase, name=PHASE)
