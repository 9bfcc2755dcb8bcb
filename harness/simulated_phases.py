"""The four phases of the simulator: schedules, memory, power cuts, and schedule × crash, each over its situations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from harness.disk.persistence import MODELS, Model
from harness.explore import power_points, schedule_points
from harness.explore.memory import explore_memory
from harness.explore.power import explore_power
from harness.explore.schedule_crash import PRODUCT_MODELS, explore_product
from harness.explore.schedules import explore_schedules
from harness.explore.situation import NotExplorableError
from harness.explore.stateful_memo import remembered_decoding
from harness.scenario import Explorer
from harness.simulation import Setting, explore_each, must_have_reached
from harness.verdict import Phase, nothing_explored

Clock = Callable[[], float]
OnProgress = Callable[[int, int | None], None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How long a phase may take by which clock, where chance starts, and whom to tell how far it is."""

    clock: Clock
    seconds: float
    seed: int = 0
    on_progress: OnProgress = lambda done, total: None


def simulate(explorer: Explorer, settings: Sequence[Setting], budget: Budget) -> Phase:
    """Run one explorer over all situations that name it."""
    chosen = [setting for setting in settings if explorer in setting.explorers]
    if not chosen:
        return nothing_explored(explorer, "none of the situations is one for this explorer")
    run = _RUNS[explorer]

    def one(setting: Setting, seconds: float) -> Phase:
        try:
            return run(setting, dataclasses.replace(budget, seconds=seconds))
        except NotExplorableError as error:
            return nothing_explored(explorer, str(error))

    with remembered_decoding():
        phase = explore_each(explorer, chosen, one, clock=budget.clock, seconds=budget.seconds)
    # A few situations by themselves need not come to every point.
    return must_have_reached(phase, _POINTS[explorer]) if len(chosen) > FEW_SITUATIONS else phase


FEW_SITUATIONS = 3


def _schedules(setting: Setting, budget: Budget) -> Phase:
    return explore_schedules(
        setting.situation,
        clock=budget.clock,
        seconds=budget.seconds,
        seed=budget.seed,
        on_progress=budget.on_progress,
    )


def _memory(setting: Setting, budget: Budget) -> Phase:
    situation = setting.situation
    target = setting.table_target
    return explore_memory(
        target,
        situation.operations,
        start=situation.start,
        path=situation.path,
        clock=budget.clock,
        seconds=budget.seconds,
        on_progress=budget.on_progress,
    )


def _power(setting: Setting, budget: Budget) -> Phase:
    return explore_power(
        setting.situation,
        clock=budget.clock,
        seconds=budget.seconds,
        models=_models(setting.models) or MODELS,
        on_progress=budget.on_progress,
        points=(),
    )


def _product(setting: Setting, budget: Budget) -> Phase:
    return explore_product(
        setting.situation,
        setting.models or PRODUCT_MODELS,
        clock=budget.clock,
        seconds=budget.seconds,
        on_progress=budget.on_progress,
        scenario=setting.name,
    )


def _models(names: Sequence[str]) -> tuple[Model, ...]:
    return tuple(model for model in MODELS if model.name in names)


_RUNS: dict[Explorer, Callable[[Setting, Budget], Phase]] = {
    Explorer.SCHEDULES: _schedules,
    Explorer.MEMORY: _memory,
    Explorer.POWER: _power,
    Explorer.PRODUCT: _product,
}
_POINTS: dict[Explorer, tuple[str, ...]] = {
    Explorer.SCHEDULES: schedule_points.POINTS,
    Explorer.MEMORY: (),
    Explorer.POWER: power_points.must_reach_all(MODELS),
    Explorer.PRODUCT: (),
}
