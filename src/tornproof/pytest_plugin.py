"""The pytest plugin: with the fixture `tornproof`, tests of a file format explore it and replay findings.

pytest imports this module at every start, so what exploring needs is imported when a test explores. PYTEST_DONT_REWRITE
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from tornproof.cli.replay_file import Replay
    from tornproof.harness.common.effort import Bounds
    from tornproof.harness.common.verdict import Finding, Phase, Verdict
    from tornproof.harness.explorers.own_system.rehearsal import Rehearsal
    from tornproof.harness.simulator.process.case import Readers
    from tornproof.testing import FunctionTarget

SECTION = "tornproof"
FINDINGS_SHOWN_MAX = 5
CHANGED = "the target or its operations have changed, or the release"
NOT_DETERMINISTIC = "the target is not deterministic"
MAY_ACKNOWLEDGE = "judged only by what is lost by that with target(..., acknowledges_after_failed_sync=True)"
REPLAY = pytest.StashKey["Replay | None"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for findings."""
    group = parser.getgroup(SECTION, "kills and failing calls of file formats")
    group.addoption(
        "--tornproof-replay", metavar="FILE", help="run only the test that FILE is from, and of it only what FILE found"
    )
    # What `tornproof replay` takes for the answer; a report of pytest depends on marks and options of the test.
    group.addoption("--tornproof-verdicts", metavar="FILE", help=argparse.SUPPRESS)
    group.addoption(
        "--tornproof-findings",
        metavar="DIR",
        default=".tornproof",
        help="where findings are written, below the root directory (default: %(default)s)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Read the finding that is to be replayed."""
    for name in ("replay", "findings"):
        if config.getoption(f"tornproof_{name}") == "":
            from tornproof.impl.errors import EMPTY_PATH

            raise pytest.UsageError(f"--tornproof-{name}: {EMPTY_PATH}")
    file = config.getoption("tornproof_replay")
    config.stash[REPLAY] = _read_replay(config, file) if file else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """When a finding is replayed, deselect all tests but its own."""
    replay = config.stash[REPLAY]
    if replay is None:
        return
    others = [item for item in items if not _is_of(replay, item)]
    items[:] = [item for item in items if _is_of(replay, item)]
    config.hook.pytest_deselected(items=others)


def _is_of(replay: Replay, item: pytest.Item) -> bool:
    """Whether a finding is of a test; its name alone depends on what pytest takes for its root directory."""
    path, _, name = replay.test.partition("::")
    return item.nodeid.partition("::")[2] == name and item.path.resolve() == (replay.root / path).resolve()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report what every test explored, also where it passed."""
    lines: dict[str, list[str]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            said = [text for name, text in getattr(report, "user_properties", ()) if name == SECTION]
            if said:
                lines[report.nodeid] = max(lines.get(report.nodeid, []), said, key=len)
    if lines:
        terminalreporter.section(SECTION)
    for test in sorted(lines):
        terminalreporter.line(test)
        for line in lines[test]:
            terminalreporter.line(f"  {line}")


@pytest.fixture
def tornproof(request: pytest.FixtureRequest) -> Iterator[Explorers]:
    """Provide explorers that fail the test when they find something."""
    explorers = Explorers(request)
    yield explorers
    explorers.end()


class Explorers:
    """The explorers of one test; each exploration returns its phase, or fails the test."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        """Take the test of a request for the fixture."""
        self._item: pytest.Item = request.node
        self._replay = request.config.stash[REPLAY]
        self._number = -1

    def crashes(
        self,
        target: object,
        operations: Sequence[Any],
        *,
        cuts: int = 2_000,
        seconds: float | None = None,
        allow_unfinished: bool = False,
    ) -> Phase:
        """Kill a writer of `operations` after every step and inside every write, and let every call fail.

        Of more than `cuts` lengths at which writes can tear, about that many are tried. `seconds` is a time limit; when
        it is reached, the test fails unless `allow_unfinished` is true.
        """
        __tracebackhide__ = True
        from tornproof.harness.explorers.kills.exploration import PHASE as CRASH
        from tornproof.harness.explorers.kills.explorer import explore_crashes, replay_crash
        from tornproof.harness.explorers.own_system.crash_execution import crash_execution
        from tornproof.testing import PATH

        (cuts,) = _at_least("crashes", 0, cuts=cuts)
        rehearsal, limit = _given("crashes", target, operations), _time_limit("crashes", seconds)
        explored = rehearsal.target
        return self._run(
            _Exploration(
                phase=CRASH,
                rehearsal=rehearsal,
                explore=lambda: explore_crashes(explored, operations, path=PATH, cuts_max=cuts, has_time=limit),
                replay=lambda finding: replay_crash(explored, operations, finding, path=PATH),
                execution=lambda finding: crash_execution(explored, operations, finding, path=PATH),
                limit=limit,
                advice="give it more seconds or fewer cuts",
                allow_unfinished=allow_unfinished,
            )
        )

    def machine(
        self,
        target: object,
        operations: Sequence[Any] | SearchStrategy[Any],
        *,
        steps: int = 20,
        examples: int = 100,
        seed: int = 0,
        allow_unfinished: bool = False,
    ) -> Phase:
        """Run `examples` random executions of up to `steps` commits, kills, failing calls and openings.

        Operations come from the list or strategy `operations`. The same seed gives the same executions. One that
        violates a property is shrunk.
        """
        __tracebackhide__ = True
        steps, examples = _at_least("machine", 1, steps=steps, examples=examples)
        (seed,) = _at_least("machine", 0, seed=seed)
        from hypothesis.strategies import SearchStrategy

        from tornproof.harness.explorers.own_system.machine import PHASE as MACHINE
        from tornproof.harness.explorers.own_system.machine import explore_executions, replay_execution
        from tornproof.testing import PATH

        if not isinstance(operations, SearchStrategy) and not (isinstance(operations, Sequence) and operations):
            pytest.fail("tornproof.machine needs a strategy or a list of at least one operation", pytrace=False)
        rehearsal = _rehearsed(target, ())
        explored = rehearsal.target
        return self._run(
            _Exploration(
                phase=MACHINE,
                rehearsal=rehearsal,
                explore=lambda: explore_executions(
                    explored, operations, path=PATH, steps=steps, examples=examples, seed=seed
                ),
                replay=lambda finding: replay_execution(explored, operations, finding, path=PATH),
                execution=lambda finding: list(finding.evidence.get("narrative", ())),
                advice="give it more examples or steps",
                allow_unfinished=allow_unfinished,
            )
        )

    def power(
        self,
        target: object,
        operations: Sequence[Any],
        *,
        models: Iterable[str] = (),
        effort: int | str = "small",
        seed: int = 0,
        seconds: float | None = None,
        allow_unfinished: bool = False,
    ) -> Phase:
        """Cut the power at every step of a writer of `operations`, and in recovery, under each model of persistence.

        `models` are names of docs/guarantees.md, by default all. `effort` is `small`, `medium`, `large` or a factor;
        where there are more disks than it allows, a sample is tried, random from `seed`, and the bound says so.
        """
        __tracebackhide__ = True
        (seed,) = _at_least("power", 0, seed=seed)
        question = _Question(models=_names_of("power", models), effort=effort, seed=seed)
        limit = _time_limit("power", seconds)
        return self._simulated("power", target, operations, question, limit, allow_unfinished)

    def schedules(
        self,
        target: object,
        operations: Sequence[Any],
        *,
        readers: int = 1,
        reads: int = 2,
        writers: int = 1,
        effort: int | str = "small",
        seed: int = 0,
        seconds: float | None = None,
        allow_unfinished: bool = False,
    ) -> Phase:
        """Run a writer of `operations` beside `readers` readers of each style, in every order that can matter.

        Several `writers` get the operations in turn, and what is seen must be what some order of their commits leaves.
        Of more orders than `effort` allows, the first ones (and of one writer random ones) are run; the bound says so.
        """
        __tracebackhide__ = True
        readers, reads = _at_least("schedules", 1, readers=readers, reads=reads)
        (seed,) = _at_least("schedules", 0, seed=seed)
        question = _Question(reader_count=readers, read_count=reads, effort=effort, seed=seed)
        limit = _time_limit("schedules", seconds)
        if writers != 1:
            return self._several_writers(target, operations, writers, question, limit, allow_unfinished)
        return self._simulated("schedules", target, operations, question, limit, allow_unfinished)

    def product(
        self,
        target: object,
        operations: Sequence[Any],
        *,
        reads: int = 2,
        models: Iterable[str] = (),
        effort: int | str = "small",
        seconds: float | None = None,
        allow_unfinished: bool = False,
    ) -> Phase:
        """Crash a writer of `operations` at every step of every schedule with one reader, which may live through it.

        `models` are names of docs/guarantees.md, by default A, D and N-512.
        """
        __tracebackhide__ = True
        (reads,) = _at_least("product", 1, reads=reads)
        question = _Question(read_count=reads, models=_names_of("product", models), effort=effort)
        limit = _time_limit("product", seconds)
        return self._simulated("product", target, operations, question, limit, allow_unfinished)

    def damage(
        self,
        target: object,
        operations: Sequence[Any],
        *,
        cases: int = 20_000,
        allow_older: bool = True,
        seconds: float | None = None,
        allow_unfinished: bool = False,
    ) -> Phase:
        """Flip, cut, zero and overwrite the bytes that a writer of `operations` left, and read them.

        A wrong answer is a finding; an older state is one only with `allow_older=False`. Of more than `cases` damages
        about that many are tried.
        """
        __tracebackhide__ = True
        (cases,) = _at_least("damage", 1, cases=cases)
        from tornproof.harness.explorers.own_system.damage import PHASE as DAMAGE
        from tornproof.harness.explorers.own_system.damage import Run, explore_damage, replay_damage
        from tornproof.harness.simulator.process.case import NotExplorableError
        from tornproof.testing import PATH

        rehearsal, limit = _given("damage", target, operations), _time_limit("damage", seconds)
        explored = rehearsal.target
        try:
            run = Run.of(explored, operations, path=PATH, allows_older=allow_older)
        except NotExplorableError as error:
            _fail(f"tornproof cannot explore {explored.name!r}: {error}")
        return self._run(
            _Exploration(
                phase=DAMAGE,
                rehearsal=rehearsal,
                explore=lambda: explore_damage(run, cases=cases, has_time=limit),
                replay=lambda finding: replay_damage(run, finding),
                limit=limit,
                allow_unfinished=allow_unfinished,
            )
        )

    def _several_writers(
        self,
        target: object,
        operations: Sequence[Any],
        writer_count: int,
        question: _Question,
        limit: _TimeLimit,
        allow_unfinished: bool,
    ) -> Phase:
        __tracebackhide__ = True
        from tornproof.harness.explorers.own_system.simulated import cases_of
        from tornproof.harness.explorers.own_system.writers_execution import writers_execution
        from tornproof.harness.explorers.schedules.writers import Group, explore_writers, replay_writers
        from tornproof.harness.systems.scenario import Explorer

        rehearsal = _given("schedules", target, operations)
        explored = rehearsal.target
        if not isinstance(writer_count, Integral) or not 1 < writer_count <= len(operations):
            _reject("schedules", "writers", f"1 to {len(operations)}, the operations", writer_count)
        schedules_max = question.bounds("schedules").schedules
        (case,) = cases_of(Explorer.SCHEDULES, explored, operations, question.readers(explored)).values()
        group = Group(case=case, writer_count=int(writer_count))
        return self._run(
            _Exploration(
                phase="schedules",
                rehearsal=rehearsal,
                explore=lambda: explore_writers(group, schedules_max=schedules_max, has_time=limit),
                replay=lambda finding: replay_writers(group, finding),
                execution=lambda finding: writers_execution(group, finding),
                limit=limit,
                allow_unfinished=allow_unfinished,
            )
        )

    def _simulated(
        self,
        name: str,
        target: object,
        operations: Sequence[Any],
        question: _Question,
        limit: _TimeLimit,
        allow_unfinished: bool,
    ) -> Phase:
        __tracebackhide__ = True
        from tornproof.harness.explorers.own_system.simulated import (
            cases_of,
            explore_simulated,
            replay_simulated,
            simulated_execution,
        )
        from tornproof.harness.systems.scenario import Explorer

        rehearsal, explorer, bounds = _given(name, target, operations), Explorer(name), question.bounds(name)
        explored = rehearsal.target
        cases = cases_of(explorer, explored, operations, question.readers(explored))
        return self._run(
            _Exploration(
                phase=name,
                rehearsal=rehearsal,
                explore=lambda: explore_simulated(
                    explorer, cases, models=question.models, bounds=bounds, seed=question.seed, has_time=limit
                ),
                replay=lambda finding: replay_simulated(explored, operations, finding),
                execution=simulated_execution,
                limit=limit,
                allow_unfinished=allow_unfinished,
            )
        )

    def end(self) -> None:
        """Fail a replay whose exploration the test no longer runs."""
        if self._replay is not None and self._replay.number > self._number:
            pytest.fail(f"{self._replay.file}: cannot be replayed: the test has fewer explorations now", pytrace=False)

    def _run(self, exploration: _Exploration) -> Phase:
        __tracebackhide__ = True
        self._number += 1
        if self._replay is not None:
            return self._replay_finding(exploration, self._replay)
        phase = _explored(exploration)
        self._report(f"{phase.name} of {exploration.target!r}: {phase.verdict.name}, {_denominators(phase)}")
        self._report(f"bound: {phase.bound}")
        if phase.findings:
            self._fail_for(exploration, phase)
        is_incomplete = exploration.limit is not None and exploration.limit.was_reached
        if phase.verdict.name == "UNKNOWN" or is_incomplete:
            reason = "; ".join(filter(None, (f"its time was over: {phase.bound}" if is_incomplete else "", phase.note)))
            if not exploration.allow_unfinished:
                _fail(
                    f"tornproof has no verdict on {exploration.target!r} ({phase.name}): {reason}.",
                    f"explored: {_denominators(phase)}",
                    f"To go on, {exploration.advice}, or pass allow_unfinished=True.",
                )
            self._report(f"unfinished: {reason}")
        return phase

    def _fail_for(self, exploration: _Exploration, phase: Phase) -> NoReturn:
        __tracebackhide__ = True
        # First what was shrunk, then the finding with the fewest injected faults, and of these with the fewest commits.
        findings = sorted(
            phase.findings,
            key=lambda each: (
                "note" in each.evidence,
                len(each.evidence.get("kills", ())) + ("failure" in each.evidence) + ("opening" in each.evidence),
                each.evidence.get("started", 0),
            ),
        )
        lines = [*_shown(exploration, findings[0]), "", f"explored: {_denominators(phase)}"]
        lines.append(f"see it again: {self._replay_line(findings[0], phase)}")
        for finding in findings[1:FINDINGS_SHOWN_MAX]:
            lines += ["", f"also broken: {finding.property}", f"  {finding.sentence}"]
            lines.append(f"  see it again: {self._replay_line(finding, phase)}")
        more_count = len(phase.findings) - len(findings[:FINDINGS_SHOWN_MAX])
        if more_count:
            lines.append(f"and {more_count} more findings")
        _fail(*lines)

    def _replay_finding(self, exploration: _Exploration, replay: Replay) -> Phase:
        """Replay the finding in the exploration that it is from; skip other explorations of the same test."""
        __tracebackhide__ = True
        from tornproof.harness.common.verdict import Phase, Verdict

        finding, is_its_own = replay.finding, replay.number == self._number
        is_same = (finding.phase, finding.evidence.get("target")) == (exploration.phase, exploration.target)
        verdict, reason = _replayed(exploration, finding) if is_its_own and is_same else (Verdict.UNKNOWN, CHANGED)
        verdicts = self._item.config.getoption("tornproof_verdicts")
        if is_its_own and verdicts:
            from tornproof.cli.replay_file import note_verdict

            note_verdict(Path(verdicts), verdict)
        if is_its_own and verdict is Verdict.INVALID:
            from tornproof.cli.findings import HAPPENS_AGAIN

            _fail(f"{replay.file}: {HAPPENS_AGAIN}.", *_shown(exploration, finding))
        if is_its_own and verdict is Verdict.UNKNOWN:
            _fail(f"{replay.file}: cannot be replayed: {reason}.")
        self._report(f"{replay.file}: {'it does not happen any more' if is_its_own else 'is of another exploration'}")
        return Phase(
            name=finding.phase,
            explored=int(is_its_own),
            complete=False,
            bound="one finding",
            verdict=verdict,
        )

    def _report(self, line: str) -> None:
        self._item.user_properties.append((SECTION, line))

    def _replay_line(self, finding: Finding, phase: Phase) -> str:
        """Write the finding to a file, and return the command that replays it, or why there is no file."""
        from tornproof.cli.replay_file import write_replay
        from tornproof.harness.common.shell_word import shell_word
        from tornproof.impl.errors import TornproofError

        config = self._item.config
        here = config.invocation_params.dir
        path, _, name = self._item.nodeid.partition("::")
        test = f"{os.path.relpath(config.rootpath / path, here)}::{name}"
        unwritable = [step for step in finding.evidence.get("world_steps", ()) if "unwritable" in _operation(step)]
        if unwritable:
            return f"pytest {shell_word(test)} (no file can hold it: {_operation(unwritable[0])['unwritable']})"
        directory = config.rootpath / config.getoption("tornproof_findings")
        try:
            file = write_replay(finding, self._item.nodeid, self._number, directory, config.rootpath)
        except TornproofError as error:
            return f"pytest {shell_word(test)} (its file cannot be written: {error})"
        return f"pytest --tornproof-replay {shell_word(os.path.relpath(file, here))} {shell_word(test)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Exploration:
    phase: str
    rehearsal: Rehearsal[FunctionTarget]
    explore: Callable[[], Phase]
    replay: Callable[[Finding], Verdict]
    allow_unfinished: bool
    execution: Callable[[Finding], list[str]] = lambda finding: []
    limit: _TimeLimit | None = None
    advice: str = "give it more seconds or a smaller bound"

    @property
    def target(self) -> str:
        """The target's name."""
        return self.rehearsal.target.name


def _explored(exploration: _Exploration) -> Phase:
    """Explore; a target that does not do the same again has no verdict, like one whose operations a commit changes."""
    from tornproof.harness.common.verdict import nothing_explored
    from tornproof.harness.simulator.process.simulated_process import NotDeterministicError

    try:
        phase = exploration.explore()
        if phase.findings:
            # It may have differed by chance, or as time went by.
            exploration.rehearsal.repeat()
    except NotDeterministicError as error:
        return nothing_explored(exploration.phase, f"{NOT_DETERMINISTIC}: {error}")
    return phase


def _replayed(exploration: _Exploration, finding: Finding) -> tuple[Verdict, str]:
    """Return the verdict on a finding that is replayed, and why there is none, as for an exploration."""
    from tornproof.harness.common.verdict import Verdict
    from tornproof.harness.simulator.process.simulated_process import NotDeterministicError

    try:
        verdict = exploration.replay(finding)
        if verdict is Verdict.INVALID:
            exploration.rehearsal.repeat()
    except NotDeterministicError as error:
        return Verdict.UNKNOWN, f"{NOT_DETERMINISTIC}: {error}"
    return verdict, CHANGED


class _TimeLimit:
    """Says whether there is time left, and remembers if there was none.

    Time is counted from the first time that this is asked, because positive controls come before.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = float("inf") if seconds is None else seconds
        self._begin: float | None = None
        self.was_reached = False

    def __call__(self) -> bool:
        now = time.monotonic()
        self._begin = now if self._begin is None else self._begin
        self.was_reached = self.was_reached or now - self._begin >= self._seconds
        return not self.was_reached


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """What an explorer of the simulator is asked."""

    reader_count: int = 1
    read_count: int = 1
    models: tuple[str, ...] = ()
    effort: int | str
    seed: int = 0

    def readers(self, target: FunctionTarget) -> list[Readers]:
        """Return the readers of each style that a target has."""
        from tornproof.harness.simulator.process.case import Readers

        return [
            Readers(count=self.reader_count, read_count=self.read_count, style=style) for style in target.reader_styles
        ]

    def bounds(self, name: str) -> Bounds:
        """Return the bounds of the effort; fails the test for an unknown one."""
        __tracebackhide__ = True
        from tornproof.harness.common.effort import EFFORT_MAX, EFFORTS, Bounds, effort_of

        factor = effort_of(self.effort)
        if factor is None:
            _reject(name, "effort", f"{', '.join(EFFORTS)} or 1 to {EFFORT_MAX:,}", self.effort)
        return Bounds.of(factor)


def _at_least(name: str, least: int, **numbers: int) -> Iterator[int]:
    """Return numbers of an explorer, also of NumPy; fails the test for one that is smaller, or no whole number."""
    __tracebackhide__ = True
    for what, number in numbers.items():
        if not isinstance(number, Integral) or number < least:
            _reject(name, what, f"{least} or more", number)
    return map(int, numbers.values())


def _names_of(name: str, models: Iterable[str]) -> tuple[str, ...]:
    """Return the names of models, of which there may be one alone; fails the test for an unknown one."""
    __tracebackhide__ = True
    from tornproof.harness.simulator.persistence.models import MODELS

    known = [model.name for model in MODELS]
    # What yields them may do so only once.
    names = tuple(models) if isinstance(models, Iterable) and not isinstance(models, str) else (models,)
    for each in names:
        if each not in known:
            _reject(name, "models", f"some of {', '.join(known)}", each)
    return names


def _time_limit(name: str, seconds: float | None) -> _TimeLimit:
    """Return the limit of an explorer; fails the test for one that is no number."""
    __tracebackhide__ = True
    if seconds is not None and (not isinstance(seconds, Real) or math.isnan(seconds)):
        _reject(name, "seconds", "a number", seconds)
    return _TimeLimit(seconds)


def _reject(name: str, what: str, expected: str, found: object) -> NoReturn:
    __tracebackhide__ = True
    _fail(f"tornproof.{name}: {what}: expected {expected}, found {found!r}")


def _given(name: str, target: object, operations: Sequence[Any]) -> Rehearsal[FunctionTarget]:
    """Return the rehearsal for an explorer that needs a list of operations."""
    __tracebackhide__ = True
    if not isinstance(operations, Sequence) or not operations:
        _fail(f"tornproof.{name} needs a list of at least one operation")
    return _rehearsed(target, operations)


def _rehearsed(target: object, operations: Sequence[Any]) -> Rehearsal[FunctionTarget]:
    __tracebackhide__ = True
    from tornproof.testing import TargetError, rehearse

    try:
        return rehearse(target, operations)
    except TargetError as error:
        _fail(f"tornproof cannot explore this target. {error}")


def _fail(*lines: str) -> NoReturn:
    __tracebackhide__ = True
    # Without what is being handled, which the lines have in words.
    raise pytest.fail.Exception("\n".join(lines), pytrace=False) from None


def _shown(exploration: _Exploration, finding: Finding) -> list[str]:
    """Return the sentence, the property, the option that judges it otherwise, and the lines of the execution."""
    from tornproof.harness.simulator.process.observer import Property

    is_strict = not exploration.rehearsal.target.acknowledges_after_failed_sync
    return [
        f"tornproof broke {exploration.target!r}: {finding.sentence}",
        f"broken: {finding.property}",
        *([MAY_ACKNOWLEDGE] if finding.property == Property.SYNCED and is_strict else []),
        "",
        *(f"  {line}" for line in exploration.execution(finding)),
    ]


def _denominators(phase: Phase) -> str:
    # Those of each model of persistence are in the bound.
    counts = ", ".join(f"{count:,} {name}" for name, count in phase.counts.items() if ": " not in name)
    return counts or "nothing"


def _operation(step: dict[str, Any]) -> dict[str, Any]:
    operation = step.get("operation")
    return operation if isinstance(operation, dict) else {}


def _read_replay(config: pytest.Config, file: str) -> Replay:
    from tornproof.cli.replay_file import read_replay
    from tornproof.impl.errors import TornproofError

    try:
        return read_replay(config.invocation_params.dir / file, file)
    except TornproofError as error:
        raise pytest.UsageError(str(error)) from error
