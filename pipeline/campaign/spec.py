"""The spec of a campaign: groups of scenarios, presets and planted faults, and their seeds.

A spec is a TOML file. Defaults are filled in here, so that the plan depends on the spec alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from tornproof.harness.mutation.catalogue import FAULTS, fault_named
from tornproof.harness.mutation.seeded import NO_FAULT, Cell
from tornproof.harness.systems.releases import PRESETS
from tornproof.harness.systems.scenario import (
    Explorer,
    Scenario,
    ScenarioError,
    decode_toml,
    load_scenario,
    scenario_names,
)
from tornproof.harness.systems.simulation import HARDENED
from tornproof.impl.errors import TornproofError

FORMAT = 1
SIZE_LIMIT_BYTES = 64 << 10
SEED_LIMIT = 1 << 62
TASKS_MAX = 100_000
"""The most tasks of a plan, because of Spark and the directory of results."""
SUITABLE = {Explorer.SCHEDULES, Explorer.POWER, Explorer.PRODUCT}
"""A group without scenarios runs all that are for one of these explorers."""
CONTROLS = "controls"
CONTROL_SEED_COUNT = 64
Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,62}\Z")]


class CampaignError(TornproofError):
    """A campaign that cannot be run: what is wrong with its spec, its directory, or with Spark."""


class Seeds(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Numbers of runs: `count` of them from `first` on."""

    first: Annotated[int, msgspec.Meta(ge=0, lt=SEED_LIMIT)] = 0
    count: Annotated[int, msgspec.Meta(ge=1, le=1 << 40)]


class Group(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Every scenario under every preset and every fault, with the same seeds.

    Without scenarios: the scenario of the fault, or all that are for schedules or crashes. Without faults: none is
    planted. In a `control` group each preset and fault must be detected. With `watches_steps` the order of a writer's
    steps is checked, too, so that a missing barrier is found before it does harm. A task has `seeds_a_task` runs.
    """

    name: Name
    scenarios: tuple[str, ...] = ()
    presets: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] = (HARDENED,)
    faults: tuple[str, ...] = ()
    seeds: Seeds
    seeds_a_task: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 200
    watches_steps: bool = True
    control: bool = False


class Spec(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A whole campaign; `seed` seeds all its random choices."""

    format: Annotated[int, msgspec.Meta(ge=FORMAT, le=FORMAT)]
    name: Name
    seed: Annotated[int, msgspec.Meta(ge=0, lt=SEED_LIMIT)] = 0
    groups: Annotated[tuple[Group, ...], msgspec.Meta(min_length=1)]


CONTROL_GROUPS = (
    # A release whose readers are known to fail beside a writer, and faults that only certain injected faults show.
    Group(
        name=f"{CONTROLS}-release",
        scenarios=("append-and-power-cut",),
        presets=("questdb-9.4.2",),
        control=True,
        seeds=Seeds(count=CONTROL_SEED_COUNT),
    ),
    Group(
        name=f"{CONTROLS}-faults",
        control=True,
        watches_steps=False,
        seeds=Seeds(count=CONTROL_SEED_COUNT),
        faults=("decoded by the newest footer", "uncommitted directories stay", "body of _pm not synced (F2)"),
    ),
)
"""Positive controls, with which every campaign begins: a harness that misses them gives no verdict."""


def load_spec(path: Path) -> Spec:
    """Return the spec of a file; CampaignError says which field is wrong and what was expected."""
    try:
        with path.open("rb") as file:
            content = file.read(SIZE_LIMIT_BYTES + 1)
    except OSError as error:
        raise CampaignError(f"{path}: cannot read: {error.strerror}") from error
    return parse_spec(content, str(path))


def parse_spec(content: bytes, file: str) -> Spec:
    """Return the spec of a file's content; CampaignError says which field is wrong and what was expected."""
    spec = decode_toml(content, Spec, file, SIZE_LIMIT_BYTES, CampaignError)
    for problem in _problems(spec):
        raise CampaignError(f"{file}: {problem}")
    return spec


def cells_of(group: Group) -> tuple[Cell, ...]:
    """Return the cells that a group's seeds are run on, in the order of the plan; raises ScenarioError."""
    return tuple(
        Cell(scenario=scenario, preset=preset, fault=fault, watches_steps=group.watches_steps)
        for fault in group.faults or (NO_FAULT,)
        for preset in group.presets
        for scenario in _scenarios(group, fault)
    )


def digest_of(spec: Spec) -> str:
    """Return a hash of all that a campaign runs: its spec, and the current content of its scenarios."""
    cells = [[cell.key, cell.watches_steps, cell.scenario] for group in all_groups(spec) for cell in cells_of(group)]
    return hashlib.blake2b(msgspec.json.encode([spec, CONTROL_GROUPS, cells]), digest_size=16).hexdigest()


def all_groups(spec: Spec) -> tuple[Group, ...]:
    """Return the groups of a campaign, the controls first."""
    return (*CONTROL_GROUPS, *spec.groups)


def _scenarios(group: Group, fault: str) -> tuple[Scenario, ...]:
    if group.scenarios:
        return tuple(map(load_scenario, group.scenarios))
    if fault:
        return (load_scenario(fault_named(fault).scenario),)
    return tuple(each for each in map(load_scenario, scenario_names()) if SUITABLE & set(each.explorers))


def _problems(spec: Spec) -> Iterator[str]:
    """Yield the errors that the schema cannot express, each with its field."""
    faults = {fault.name for fault in FAULTS}
    known = {"scenarios": set(scenario_names()), "presets": set(PRESETS), "faults": faults}
    names = [group.name for group in all_groups(spec)]
    task_count = 0
    for index, group in enumerate(spec.groups):
        where = f"$.groups[{index}]"
        if names.count(group.name) > 1:
            yield f"`{group.name}` names two groups, or one of tornproof's own - at `{where}.name`"
        for field, there_are in known.items():
            named = getattr(group, field)
            for each in named:
                if each not in there_are:
                    yield f"there is no {field.removesuffix('s')} {each!r} - at `{where}.{field}`"
            if len(set(named)) < len(named):
                yield f"something is named twice - at `{where}.{field}`"
        if group.faults and group.presets != (HARDENED,):
            yield f"a fault is planted in {HARDENED!r} and in no other preset - at `{where}.presets`"
        if group.seeds.first + group.seeds.count > SEED_LIMIT:
            yield f"seeds go up to {SEED_LIMIT} - at `{where}.seeds`"
        try:
            task_count += len(cells_of(group)) * -(-group.seeds.count // group.seeds_a_task)
        except ScenarioError as error:
            yield str(error)
    if task_count > TASKS_MAX:
        yield f"{task_count:,} tasks of `seeds_a_task` runs each, but at most {TASKS_MAX:,} are allowed - at `$.groups`"
