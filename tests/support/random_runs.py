"""Random runs of test cases: schedules, and crashes of every kind, as moves from which a decision log is made."""

import dataclasses
import functools
import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
from msgspec import structs

from tornproof.harness.common.remembered_codecs import remembered_decoding, remembered_encoder
from tornproof.harness.common.system import Target
from tornproof.harness.common.verdict import Finding
from tornproof.harness.counterexamples.make import finding_of
from tornproof.harness.search.crash_world import Sessions
from tornproof.harness.simulator.filesystem.intercept import BARRIERS
from tornproof.harness.simulator.persistence.legal_disks import legal_disks
from tornproof.harness.simulator.persistence.models import C_8, Model
from tornproof.harness.simulator.process.case import Readers, TestCase
from tornproof.harness.simulator.process.observer import Violation
from tornproof.harness.simulator.process.world import World
from tornproof.harness.systems.releases import PRESETS
from tornproof.harness.systems.table import TableTarget
from tornproof.harness.systems.toy import HeaderFirst
from tornproof.harness.systems.workload import MADE_PATH, crash_operations, made_image
from tornproof.impl.write.commit import HARDENED

Moves = list[Sequence[Any]]
HEADER_BEFORE_BODY = structs.replace(
    HARDENED, update=(*HARDENED.update[:2], HARDENED.update[4], *HARDENED.update[2:4], HARDENED.update[5])
)
VERSION_BEFORE_RECORD = structs.replace(HARDENED, publish=(*HARDENED.publish[3:5], *HARDENED.publish[0:2]))


def toy_case(target: Target, **settings: Any) -> TestCase:
    return TestCase(
        **{
            "target": target,
            "path": "toy",
            "operations": (b"a", b"bb", b"ccc", b"d"),
            "first_session": (0, 1, 2),
            "second_session": (3,),
            **settings,
        }
    )


def table_case(preset: str = "hardened", *, readers: int = 2, reads: int = 1, **overrides: Any) -> TestCase:
    image = made_image()
    # A writer that is broken on purpose is not ours, which a replay takes as it is now.
    name = {"name": f"{preset}, broken"} if "protocol" in overrides else {}
    return TestCase(
        target=TableTarget.of(PRESETS[preset], **{"encode": remembered_encoder(), **name, **overrides}),
        path=MADE_PATH,
        operations=crash_operations(image, MADE_PATH),
        first_session=(0, 1, 2),
        second_session=(3,),
        readers=(Readers(count=readers, read_count=reads),),
        start=image,
    )


@dataclasses.dataclass(slots=True)
class Trace:
    """A random run; a crash is "kill", "fail" (a sync) or a persistence model."""

    sessions: Sessions
    chance: np.random.Generator
    crashes: list[str | Model]
    switch_probability: float
    step_count_max: int
    moves: Moves = dataclasses.field(default_factory=list)

    def run(self) -> World:
        world = self.sessions.case.begin(self.sessions.first)
        index, crash_at = -1, self._later()
        while not world.progress.violations:
            enabled = world.enabled
            if self.crashes and (not enabled or len(self.moves) >= crash_at):
                crashed = self._crash(world)
                if crashed is not None:
                    world, index, crash_at = crashed, -1, self._later()
                    continue
            if not enabled:
                break
            if index not in enabled or self.chance.random() < self.switch_probability:
                index = enabled[int(self.chance.integers(len(enabled)))]
            world.step(index)
            self.moves.append((index, 1))
        return world

    def _later(self) -> int:
        return len(self.moves) + int(self.chance.integers(self.step_count_max))

    def _crash(self, world: World) -> World | None:
        match crash := self.crashes[0]:
            case "kill":
                self.moves.append(("kill",))
                world = self.sessions.after_kill(world)
            case "fail":
                if world.nodes[0].call is None or world.call(0).kind not in BARRIERS:
                    return None
                self.moves.append(("fail",))
                world = self.sessions.after_failed_sync(world)
            case Model():
                disks = legal_disks(world.kernel, crash)
                picked = list(disks)[int(self.chance.integers(disks.tried_count))]
                self.moves.append(("power", crash, disks.choice(picked)))
                world = self.sessions.after_power_cut(world, picked.disk.kernel())
        self.crashes.pop(0)
        return world


def traces(
    case: TestCase,
    *crashes: str | Model,
    seed: int = 0,
    switch_probability: float = 0.15,
    step_count_max: int = 60,
) -> Iterator[tuple[World, Moves]]:
    """Yield the worlds at the end of random runs, for ever."""
    chance = np.random.default_rng(seed)
    with remembered_decoding(), closing(Sessions.of(case, fails="fail" in crashes)) as sessions:
        while True:
            trace = Trace(sessions, chance, list(crashes), switch_probability, step_count_max)
            world = trace.run()
            yield world, trace.moves


def broken_run(case: TestCase, *crashes: str | Model, tries: int = 3000, **settings: Any) -> tuple[Moves, Violation]:
    """Return the first run that breaks a property after all of the crashes."""
    for _, (world, moves) in zip(range(tries), traces(case, *crashes, **settings), strict=False):
        faulty = sum(isinstance(move[0], str) for move in moves)
        if world.progress.violations and faulty == len(crashes):
            return moves, world.progress.violations[0]
    raise AssertionError(f"nothing broken in {tries} runs")


def found(case: TestCase, *crashes: str | Model, **settings: Any) -> Finding:
    """Return the finding of the first run that breaks a property."""
    moves, violation = broken_run(case, *crashes, **settings)
    return finding_of(case, moves, violation, phase="schedules")


@functools.cache
def switched_finding() -> Finding:
    """Return the finding of a reader that runs between the header of `_pm` and its body."""
    return found(table_case(protocol=HEADER_BEFORE_BODY))


@functools.cache
def cut_finding(model: Model = C_8) -> Finding:
    """Return the finding of a power cut that a commit by the specification does not survive."""
    return found(table_case("specification"), model)


def reread(finding: Finding) -> Finding:
    """Return a finding as it comes back from its file."""
    return replace(finding, evidence=json.loads(json.dumps(finding.evidence)))


@functools.cache
def killed_finding() -> Finding:
    """Return the finding of a kill that the next session of a released server does not survive."""
    return found(table_case("questdb-9.4.3"), "kill")


@functools.cache
def toy_finding() -> Finding:
    """Return the finding of a reader beside a toy that stores its header first."""
    return found(toy_case(HeaderFirst(), readers=(Readers(),)))
