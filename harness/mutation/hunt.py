"""Hunting a fault: the cheapest explorer must find it, and those that it is hidden from must not."""

from __future__ import annotations

from dataclasses import dataclass

from tornproof.harness.mutation.fault import Explorer, PlantedFault, Planting
from tornproof.harness.mutation.ground import Ground, ground_of
from tornproof.harness.mutation.hunters import HUNTERS
from tornproof.harness.search.crash_world import READER_PLACE
from tornproof.harness.systems.table import TableTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunt:
    """What came of one hunt.

    `reached`: the place was come to. `triggered`: somebody did or saw something else than without the fault.
    `detected`: `property` was broken, after `explored_count` states, runs or damages.
    """

    reached: bool
    triggered: bool
    detected: bool
    explored_count: int
    property: str


def hunt(fault: PlantedFault, explorer: Explorer | None = None) -> Hunt:
    """Let an explorer, by default the cheapest that finds it, look for a fault on its scenario."""
    ground, planting = ground_of(fault.scenario), Planting(fault)
    caught = HUNTERS[explorer or fault.explorer](ground, planting)
    return Hunt(
        reached=planting.reached_count > 0,
        triggered=bool(caught.property) or _course(ground, planting) != _course(ground, None),
        detected=bool(caught.property),
        explored_count=caught.explored_count,
        property=caught.property,
    )


def _course(ground: Ground, planting: Planting | None) -> list[object]:
    """Return what writer and reader call and say, one after the other, with a fault or without any."""
    if planting is None:
        return _run(ground, TableTarget())
    with planting.planted():
        return _run(ground, planting.target)


def _run(ground: Ground, target: TableTarget) -> list[object]:
    situation = ground.situation(target)
    cast = situation.cast()
    world = situation.begin(cast)
    done: list[object] = []
    for place in range(min(len(cast.clients), READER_PLACE + 1)):
        while world.nodes[place].call is not None:
            done.append(world.call(place))
            world.step(place)
            done.append(world.nodes[place].marks)
    cast.close()
    return done
