"""The pytest plugin: with the fixture `tornproof`, tests of a file format explore it and replay findings.

pytest imports this module at every start, so what exploring needs is imported when a test explores. PYTEST_DONT_REWRITE
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from tornproof.cli.replay_file import Replay
    from tornproof.harness.common.system import Target
    from tornproof.harness.common.verdict import Finding, Phase, Verdict

SECTION = "tornproof"
FINDINGS_SHOWN_MAX = 5
REPLAY = pytest.StashKey["Replay | None"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for findings."""
    group = parser.getgroup(SECTION, "kills and failing calls of file formats")
    group.addoption(
        "--tornproof-replay", metavar="FILE", help="run only the test that FILE is from, and of it only what FILE found"
    )
    group.addoption(
        "--tornproof-findings",
        metavar="DIR",
        default=".tornproof",
        help="where findings are written, below the root directory (default: %(default)s)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Read the finding that is to be replayed."""
    file = config.getoption("tornproof_replay")
    config.stash[REPLAY] = _read_replay(config, file) if file else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """When a finding is replayed, deselect all tests but its own."""
    replay = config.stash[REPLAY]
    if replay is None:
        return
    others = [item for item in items if item.nodeid != replay.test]
    items[:] = [item for item in items if item.nodeid == replay.test]
    config.hook.pytest_deselected(items=others)


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

        if not isinstance(operations, Sequence) or not operations:
            pytest.fail("tornproof.crashes needs a list of at least one operation", pytrace=False)
        explored = _rehearsed(target, operations)
        return self._run(
            _Exploration(
                phase=CRASH,
                target=explored.name,
                explore=lambda: explore_crashes(
                    explored, operations, path=PATH, cuts_max=cuts, has_time=_time_limit(seconds)
                ),
                replay=lambda finding: replay_crash(explored, operations, finding, path=PATH),
                execution=lambda finding: crash_execution(explored, operations, finding, path=PATH),
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
        from hypothesis.strategies import SearchStrategy

        from tornproof.harness.explorers.own_system.machine import PHASE as MACHINE
        from tornproof.harness.explorers.own_system.machine import explore_executions, replay_execution
        from tornproof.testing import PATH

        if not isinstance(operations, SearchStrategy) and not (isinstance(operations, Sequence) and operations):
            pytest.fail("tornproof.machine needs a strategy or a list of at least one operation", pytrace=False)
        explored = _rehearsed(target, ())
        return self._run(
            _Exploration(
                phase=MACHINE,
                target=explored.name,
                explore=lambda: explore_executions(
                    explored, operations, path=PATH, steps=steps, examples=examples, seed=seed
                ),
                replay=lambda finding: replay_execution(explored, operations, finding, path=PATH),
                execution=lambda finding: list(finding.evidence.get("narrative", ())),
                advice="give it more examples or steps",
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
        phase = exploration.explore()
        self._report(f"{phase.name} of {exploration.target!r}: {phase.verdict.name}, {_denominators(phase)}")
        self._report(f"bound: {phase.bound}")
        if phase.findings:
            self._fail_for(exploration, phase)
        is_incomplete = phase.name == "crash" and not phase.complete
        if phase.verdict.name == "UNKNOWN" or is_incomplete:
            reason = "; ".join(filter(None, (phase.note, f"it was cut short: {phase.bound}" if is_incomplete else "")))
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
        # First the finding with the fewest injected faults, and of these with the fewest commits.
        findings = sorted(
            phase.findings,
            key=lambda each: (
                len(each.evidence.get("kills", ())) + ("failure" in each.evidence),
                each.evidence.get("started", 0),
            ),
        )
        lines = [*_shown(exploration, findings[0]), "", f"explored: {_denominators(phase)}"]
        lines.append(f"see it again: {self._replay_line(findings[0], phase)}")
        for finding in findings[1:FINDINGS_SHOWN_MAX]:
            lines += ["", f"also broken: {finding.property}", f"  {finding.sentence}"]
            lines.append(f"  see it again: {self._replay_line(finding, phase)}")
        if len(findings) > FINDINGS_SHOWN_MAX:
            lines.append(f"and {len(findings) - FINDINGS_SHOWN_MAX} more findings")
        _fail(*lines)

    def _replay_finding(self, exploration: _Exploration, replay: Replay) -> Phase:
        """Replay the finding in the exploration that it is from; skip other explorations of the same test."""
        __tracebackhide__ = True
        from tornproof.harness.common.verdict import Phase, Verdict

        finding, is_its_own = replay.finding, replay.number == self._number
        is_same = (finding.phase, finding.evidence.get("target")) == (exploration.phase, exploration.target)
        verdict = exploration.replay(finding) if is_its_own and is_same else Verdict.UNKNOWN
        if is_its_own and verdict is Verdict.INVALID:
            _fail(f"{replay.file}: it happens again.", *_shown(exploration, finding))
        if is_its_own and verdict is Verdict.UNKNOWN:
            _fail(f"{replay.file}: cannot be replayed: the target or its operations have changed.")
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
        """Write the finding to a file, and return the command that replays it."""
        from tornproof.cli.replay_file import write_replay

        config = self._item.config
        here = config.invocation_params.dir
        path, _, name = self._item.nodeid.partition("::")
        test = f"{os.path.relpath(config.rootpath / path, here)}::{name}"
        unwritable = [step for step in finding.evidence.get("steps", ()) if "unwritable" in _operation(step)]
        if unwritable:
            return f"pytest {shlex.quote(test)} (no file can hold it: {_operation(unwritable[0])['unwritable']})"
        directory = config.rootpath / config.getoption("tornproof_findings")
        file = write_replay(finding, self._item.nodeid, self._number, directory)
        return f"pytest --tornproof-replay {shlex.quote(os.path.relpath(file, here))} {shlex.quote(test)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Exploration:
    phase: str
    target: str
    explore: Callable[[], Phase]
    replay: Callable[[Finding], Verdict]
    execution: Callable[[Finding], list[str]]
    advice: str
    allow_unfinished: bool


def _time_limit(seconds: float | None) -> Callable[[], bool]:
    """Return a function that says whether there is time left, counted from now."""
    end = float("inf") if seconds is None else time.monotonic() + seconds
    return lambda: time.monotonic() < end


def _rehearsed(target: object, operations: Sequence[Any]) -> Target:
    __tracebackhide__ = True
    from tornproof.testing import TargetError, rehearse

    try:
        return rehearse(target, operations)
    except TargetError as error:
        _fail(f"tornproof cannot explore this target. {error}")


def _fail(*lines: str) -> NoReturn:
    __tracebackhide__ = True
    pytest.fail("\n".join(lines), pytrace=False)


def _shown(exploration: _Exploration, finding: Finding) -> list[str]:
    """Return the sentence, the property and the lines of the execution."""
    return [
        f"tornproof broke {exploration.target!r}. {finding.sentence}",
        f"broken: {finding.property}",
        "",
        *(f"  {line}" for line in exploration.execution(finding)),
    ]


def _denominators(phase: Phase) -> str:
    counts = ", ".join(f"{count:,} {name}" for name, count in phase.counts.items())
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
