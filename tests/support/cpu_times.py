"""CPU time of the tests: told before and after a run, recorded by module, and what the order of the modules follows.

The time of a test is that of its process and of all processes below it, such as a browser or a Java. What a fixture
takes counts for the test that is the first to need it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.remote import Producer

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "tests" / "cpu_seconds.json"
PROPERTY = "cpu_seconds"
SLOWEST_COUNT = 10
UNRECORDED_SECONDS = 1.0
POLL_SECONDS = 0.1
# One Java, one browser and one warm command line serve all modules of their folder, as long as one worker runs them.
TOGETHER = ("tests/cli", "tests/pipeline", "tests/reports")
ALONE = ("tests/cli/test_interrupting.py", "tests/cli/test_same_answer.py")
"""These are of such a folder and use none of it, and take long by night."""


def unit_of(nodeid: str) -> str:
    """Return what one worker runs in one piece: a module, or a folder whose modules share what is slow to start."""
    module = nodeid.partition("::")[0]
    folders = (folder for folder in TOGETHER if module.startswith(f"{folder}/") and module not in ALONE)
    return next(folders, module)


def recorded() -> dict[str, float]:
    """Return the seconds of CPU time that each module took when they were last recorded."""
    seconds: dict[str, float] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    return seconds


def unit_seconds() -> dict[str, float]:
    """Return the same for each unit."""
    seconds: dict[str, float] = {}
    for module, taken in recorded().items():
        seconds[unit_of(module)] = seconds.get(unit_of(module), 0.0) + taken
    return seconds


def running_seconds() -> float:
    """Return the CPU time so far of all that this process started and that runs still, where Linux tells it."""
    return sum(_ticks(process) for process in _running("self")) / os.sysconf("SC_CLK_TCK")


def _running(process: str) -> Iterator[str]:
    for children in Path(f"/proc/{process}/task").glob("*/children") if sys.platform == "linux" else ():
        try:
            found = children.read_text().split()
        except OSError:  # the thread has ended
            continue
        for child in found:
            yield child
            yield from _running(child)


def _ticks(process: str) -> int:
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return 0
    # utime, stime, and those of the children that it has waited for; the name before them may hold anything.
    return sum(map(int, stat.rpartition(")")[2].split()[11:15]))


class LongestFirst(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out units in the order in which they were collected."""

    def __init__(self, config: pytest.Config, log: Producer | None) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


class Meter:
    """Notes with each test how much CPU time it took.

    To look for all processes takes longer than most tests: what a short one leaves running counts for a later test.
    """

    def __init__(self) -> None:
        self._looked_at_seconds, self._ended_seconds, self._running_seconds = -POLL_SECONDS, 0.0, 0.0
        self._before_seconds = self._used_seconds()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        if call.when == "teardown":
            now_seconds = self._used_seconds()
            # A process that nobody waited for takes its time with it.
            item.user_properties.append((PROPERTY, max(0.0, now_seconds - self._before_seconds)))
            self._before_seconds = now_seconds
        return (yield)

    def _used_seconds(self) -> float:
        own = os.times()
        ended_seconds, now_seconds = own.children_user + own.children_system, time.monotonic()
        if ended_seconds != self._ended_seconds or now_seconds - self._looked_at_seconds >= POLL_SECONDS:
            self._looked_at_seconds, self._ended_seconds = now_seconds, ended_seconds
            self._running_seconds = running_seconds()
        return own.user + own.system + ended_seconds + self._running_seconds


class Teller:
    """Says before a run how long all tests take, and after it which took longest."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._seconds: dict[str, float] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self) -> None:
        terminal, cores = self._config.pluginmanager.getplugin("terminalreporter"), self._cores()
        minutes, unit = sum(recorded().values()) / 60, max(unit_seconds().values(), default=0.0) / 60
        if self._config.option.cpu_times and terminal is not None:
            terminal.write_line(
                f"cpu times: all tests take about {minutes:.0f} minutes of CPU time, so about"
                f" {max(minutes / cores, unit):.0f} minutes on {cores} idle cores"
            )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if report.when == "teardown" and name == PROPERTY and isinstance(value, float):
                self._seconds[report.nodeid] = value

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._config.option.cpu_times:
            return
        slowest = sorted(self._seconds.items(), key=lambda item: -item[1])[:SLOWEST_COUNT]
        terminalreporter.section(f"the {len(slowest)} slowest of {len(self._seconds)} tests, in seconds of CPU time")
        for nodeid, seconds in slowest:
            terminalreporter.write_line(f"{seconds:6.1f}  {nodeid}")
        terminalreporter.write_line(f"{sum(self._seconds.values()):6.1f}  all")

    def pytest_sessionfinish(self) -> None:
        if self._config.option.record_cpu_times:
            modules = dict.fromkeys((nodeid.partition("::")[0] for nodeid in self._seconds), 0.0)
            for nodeid, seconds in self._seconds.items():
                modules[nodeid.partition("::")[0]] += seconds
            # Modules that did not run keep what they have, for as long as there are such modules.
            known = {module: seconds for module, seconds in recorded().items() if (ROOT / module).exists()}
            rounded = {module: round(seconds, 1) for module, seconds in sorted((known | modules).items())}
            RECORD.write_text(json.dumps(rounded, indent=1) + "\n")

    def _cores(self) -> int:
        return min(getattr(self._config.option, "numprocesses", None) or 1, os.cpu_count() or 1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cpu-times", action="store_true", help="say how long all tests take, and which took longest")
    parser.addoption("--record-cpu-times", action="store_true", help=f"write the CPU time of each module to {RECORD}")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Meter())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Teller(config))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LongestFirst:
    return LongestFirst(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the units that take longest first, and keep the order in them."""
    seconds = unit_seconds()
    items.sort(key=lambda item: -seconds.get(unit_of(item.nodeid), UNRECORDED_SECONDS))
