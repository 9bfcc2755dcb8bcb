"""A finding of several writers as an execution, line by line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from tornproof.harness.common.verdict import Finding, shown
from tornproof.harness.counterexamples.actions import LOOKS, NOTABLE, Action, ActionNames, content_of, in_order
from tornproof.harness.counterexamples.words import cause_lines
from tornproof.harness.explorers.own_system.execution import counted
from tornproof.harness.explorers.schedules.writers import Group
from tornproof.harness.explorers.schedules.writers_cause import to_the_end
from tornproof.harness.simulator.filesystem.intercept import CallKind
from tornproof.harness.simulator.process.world import World

TOLD = NOTABLE | LOOKS | {CallKind.LOCK, CallKind.UNLOCK}
TURNS_SHOWN_MAX = 24


def writers_execution(group: Group, finding: Finding) -> list[str]:
    """Return what each writer commits, who then does what in turn, and the cause with what prevents it."""
    operations = group.case.operations
    commits = [
        f"writer {number} commits {', '.join(shown(operations[each]) for each in session)}"
        for number, session in enumerate(group.sessions, start=1)
    ]
    turns = _turns(group, finding.evidence["clients"], finding.evidence["schedule"])
    left_out = len(turns) - TURNS_SHOWN_MAX
    if left_out > 0:
        turns = [f"({counted(left_out, 'turn')} before)", *turns[left_out:]]
    return [*commits, *(f"  {turn}" for turn in turns), *cause_lines(finding.evidence)]


def _turns(group: Group, names: Sequence[str], schedule: Sequence[Sequence[int]]) -> list[str]:
    """Return a line for each time that a process takes steps without another one between."""
    processes, world = group.begin()
    try:
        order = [index for index, count in schedule for _ in range(count)]
        turns = groupby(_steps(group, world, order), key=lambda step: step[0])
        return [f"{names[index]}: {'; '.join(in_order(action for _, action in steps))}" for index, steps in turns]
    finally:
        processes.close()


def _steps(group: Group, world: World, order: Sequence[int]) -> Iterator[tuple[int, Action]]:
    case = group.case
    actions = ActionNames(case.target, case.path, case.kernel().image().files)
    for index in to_the_end(world, order):
        call = world.call(index)
        old = content_of(world.kernel, call.path)
        world.step(index)
        if call.kind in TOLD:
            yield index, actions.action(call, old, content_of(world.kernel, call.path, old))
