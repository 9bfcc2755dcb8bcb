"""One model of persistence over one course: the crash points of the life, and in model D the lives after it."""

from __future__ import annotations

from collections.abc import Callable

from tornproof.harness.common.verdict import HasTime, always
from tornproof.harness.explorers.power_cuts.course import Courses
from tornproof.harness.explorers.power_cuts.exploration import ModelExploration, Settings
from tornproof.harness.explorers.power_cuts.judge import PowerJudge
from tornproof.harness.explorers.power_cuts.lives import LaterLives
from tornproof.harness.simulator.persistence.models import C_4096, Model


def explore_model(
    judge: PowerJudge,
    courses: Courses,
    model: Model,
    settings: Settings,
    *,
    has_time: HasTime = always,
    on_point: Callable[[int], None] = lambda done: None,
) -> ModelExploration:
    """Explore a life under a model; after a failed sync or a kill, what a power cut leaves is as in C-4096.

    The judge may be one of another situation, if that has the same table and commits.
    """
    points = courses.of(model).points
    points = points[:: settings.every(len(points))]
    if not model.fails_syncs:
        exploration = ModelExploration(judge, model, settings, has_time)
        for done, point in enumerate(points, start=1):
            exploration.visit(point)
            on_point(done)
        return exploration
    exploration = ModelExploration(judge, C_4096, settings, has_time)
    lives = LaterLives(courses.situation, exploration)
    lives.explore_failed_syncs()
    for done, point in enumerate(points, start=1):
        lives.explore_kills((point,))
        on_point(done)
    lives.close()
    return exploration
