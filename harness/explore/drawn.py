"""The drawn explorer: Hypothesis draws operations, schedules and crashes together, and each run is judged as any other.

It goes where no scenario has been written for. What it finds becomes a decision log, made small by our own shrinker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import hypothesis
from hypothesis import given

from harness.explore.crash_world import Lives
from harness.explore.drawn_runs import (
    COMMITS_MAX,
    READERS_MAX,
    TURNS_MAX,
    Course,
    Moves,
    drawn_courses,
    drawn_scenarios,
    run_course,
)
from harness.explore.observer import Violation
from harness.explore.quiet_hypothesis import quiet_hypothesis, quiet_settings
from harness.explore.situation import NotExplorableError, Situation
from harness.explore.stateful_memo import remembered_decoding
from harness.findings.make import finding_or_moves
from harness.findings.run import Signature
from harness.presets import PRESETS, Preset
from harness.scenario import Scenario
from harness.verdict import Clock, Finding, OnProgress, Phase, Verdict

PHASE = "drawn"
MakeSituation = Callable[[Scenario, Preset], Situation]
CONTROL, CONTROL_EXAMPLES = "questdb-9.4.2", 40
KILLED, CUT, FAILED, PEACE = "process killed", "power cut", "sync failed", "nothing befell the writer"
AFTER_CRASH, BESIDE = "a second life committed", "a reader read beside the writer"
MUST_REACH, SOON = (KILLED, CUT, FAILED, PEACE, AFTER_CRASH, BESIDE), 200
_KINDS = {"kill": KILLED, "power": CUT, "fail": FAILED}


@dataclass(slots=True, kw_only=True)
class Search:
    """What was drawn so far; `found` keeps the first run of each kind of violation."""

    preset: Preset
    make: MakeSituation
    has_time: Callable[[], bool]
    on_progress: OnProgress = lambda done, total: None
    situations: int = 0
    runs: int = 0
    refused: int = 0
    reached: Counter[str] = field(default_factory=Counter)
    found: dict[Signature, tuple[Situation, Moves, Violation]] = field(default_factory=dict)

    def run(self, examples: int, seed: int) -> None:
        """Draw so many situations, each with a few courses."""

        @hypothesis.seed(seed)
        @quiet_settings(examples, shrinks=False)
        @given(drawn_scenarios(), drawn_courses())
        def draw(scenario: Scenario, courses: list[Course]) -> None:
            if self.has_time():
                self._explore(scenario, courses)

        with quiet_hypothesis(), remembered_decoding():
            draw()

    def _explore(self, scenario: Scenario, courses: list[Course]) -> None:
        self.situations += 1
        try:
            situation = self.make(scenario, self.preset)
            for course in courses:
                self._run(situation, course)
        except NotExplorableError:
            # Another release may refuse what ours takes, without any disturbance.
            self.refused += 1

    def _run(self, situation: Situation, course: Course) -> None:
        lives = Lives.of(situation, fails=course.crash is not None and course.crash.kind == "fail")
        try:
            world, moves = run_course(lives, course)
        finally:
            lives.close()
        self.runs += 1
        self.on_progress(self.runs, None)
        self.reached[PEACE if course.crash is None else _KINDS[course.crash.kind]] += 1
        self.reached[AFTER_CRASH] += course.crash is not None and bool(situation.second_life)
        self.reached[BESIDE] += len([move for move in moves if move[0] == 0]) > 1
        for violation in world.progress.violations:
            self.found.setdefault(Signature.of(violation), (situation, moves, violation))


def explore_drawn(
    preset: Preset,
    make: MakeSituation,
    *,
    clock: Clock,
    seconds: float,
    examples: int,
    seed: int,
    on_progress: OnProgress = lambda done, total: None,
) -> Phase:
    """Draw `examples` situations from `seed`, or as many as `seconds` of `clock` allow; `make` builds each of them."""
    begin = clock()
    control = Search(preset=PRESETS[CONTROL], make=make, has_time=lambda: not control.found)
    control.run(CONTROL_EXAMPLES, seed)
    search = Search(preset=preset, make=make, has_time=lambda: clock() - begin < seconds, on_progress=on_progress)
    search.run(examples, seed)
    findings = [finding_or_moves(*found, phase=PHASE) for found in search.found.values()]
    return _phase(search, bool(control.found), findings, seed, clock() - begin)


def _phase(search: Search, is_control_convicted: bool, findings: list[Finding], seed: int, seconds: float) -> Phase:
    missing = [name for name in MUST_REACH if not search.reached[name]] if search.runs >= SOON else []
    notes = [] if is_control_convicted else ["a positive control failed"]
    notes += [f"never reached: {', '.join(missing)}"] if missing and not findings else []
    notes += [] if search.runs else ["the time was over before one run"]
    return Phase(
        name=PHASE,
        explored=search.runs,
        complete=False,
        bound=f"{search.runs} runs of {search.situations} situations, drawn from seed {seed}: up to {COMMITS_MAX} "
        f"commits, {READERS_MAX} readers, {TURNS_MAX} turns before a crash and as many after it",
        verdict=Verdict.INVALID if findings else Verdict.UNKNOWN if notes else Verdict.VALID,
        seconds=seconds,
        counts={"situations": search.situations, "runs": search.runs, "refused undisturbed": search.refused},
        reached={name: search.reached[name] for name in MUST_REACH},
        controls="passed" if is_control_convicted else f"{CONTROL} was not convicted in {CONTROL_EXAMPLES} situations",
        note="; ".join(notes),
        findings=tuple(findings),
    )
