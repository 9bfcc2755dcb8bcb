"""The schedule × crash explorer: a Phase over one situation, model by model, with its controls and its bound."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.disk.kernel import Kernel
from harness.disk.legal_disks import legal_disks
from harness.disk.persistence import A, Model, model_named
from harness.explore.crash_world import Lives
from harness.explore.observer import Violation
from harness.explore.product_cuts import (
    IN_COMMIT,
    KEPT,
    LIVED_THROUGH,
    READER_AT_WORK,
    SEEN_EARLY,
    CutCounts,
    Moves,
    ProductCuts,
)
from harness.explore.situation import NotExplorableError, Readers, Situation
from harness.findings.make import finding_or_moves
from harness.findings.run import Signature
from harness.targets.toy import HeaderFirst, Toy
from harness.verdict import Clock, Finding, OnProgress, Phase, Verdict

PHASE = "product"
PRODUCT_MODELS = ("A", "D", "B", "C-512", "Cdir")
MUST_REACH = (IN_COMMIT, KEPT)
MUST_REACH_LIVING = (*MUST_REACH, SEEN_EARLY, READER_AT_WORK, LIVED_THROUGH)


@dataclass(slots=True)
class _Total:
    """What was gone through for all models."""

    counts: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    complete: list[str] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    found: dict[Signature, tuple[Violation, Moves]] = field(default_factory=dict)


def explore_product(
    situation: Situation,
    models: Sequence[str] = PRODUCT_MODELS,
    *,
    clock: Clock,
    seconds: float,
    on_progress: OnProgress = lambda done, total: None,
    scenario: str | None = None,
    known: set[Signature] | None = None,
) -> Phase:
    """Explore the crashes of a writer beside one reader that changes nothing, for about `seconds` of `clock`.

    What is of a kind that is `known` already is no finding of its own any more, and what is found is added there.
    Complete for a model when every crash point, every legal disk and every schedule of the reader was gone through.
    """
    begin = clock()
    failed = _failed_controls()
    total = _Total()
    try:
        for place, name in enumerate(models):
            share = (seconds - (clock() - begin)) / (len(models) - place)
            _explore(situation, name, clock, share, on_progress, total)
    except NotExplorableError as error:
        return dataclasses.replace(_phase(total, clock() - begin, failed, ()), verdict=Verdict.UNKNOWN, note=str(error))
    known = set() if known is None else known
    new = [found for signature, found in total.found.items() if signature not in known]
    known |= total.found.keys()
    findings = [finding_or_moves(situation, moves, each, phase=PHASE, scenario=scenario) for each, moves in new]
    return _phase(total, clock() - begin, failed, findings)


def _explore(
    situation: Situation, name: str, clock: Clock, seconds: float, on_progress: OnProgress, total: _Total
) -> None:
    begin = clock()

    def goes_on(states: int) -> bool:
        on_progress(total.counts["schedule x crash states"] + states, None)
        return clock() - begin < seconds

    counts, is_sampled = _search(situation, model_named(name), goes_on)
    total.counts["schedule x crash states"] += counts.states
    total.counts["crash points"] += counts.crash_points
    total.counts["distinct worlds after a crash"] += counts.courses
    total.reached.update(counts.reached)
    (total.complete if counts.is_complete and not is_sampled else total.cut).append(name)
    for violation, moves in counts.found:
        total.found.setdefault(Signature.of(violation), (violation, moves))


def _search(situation: Situation, model: Model, goes_on: Callable[[int], bool]) -> tuple[CutCounts, bool]:
    """Return what a search came to, and whether not every legal disk of a crash point was tried."""
    sampled = []

    def disks(kernel: Kernel) -> Iterator[tuple[Kernel, Any]]:
        legal = legal_disks(kernel, model)
        if not legal.is_complete:
            sampled.append(legal)
        for picked in legal:
            yield picked.disk.kernel(), legal.choice(picked)

    lives = Lives.of(situation, fails=model.fails_syncs)
    try:
        return ProductCuts(lives, model.name, disks, goes_on).run(), bool(sampled)
    finally:
        lives.close()


def _phase(total: _Total, seconds: float, failed: list[str], findings: Sequence[Finding]) -> Phase:
    living = [name for name in (*total.complete, *total.cut) if not model_named(name).everything_dies]
    wanted = MUST_REACH_LIVING if living else MUST_REACH
    missing = [name for name in wanted if not total.reached[name]] if total.complete and not total.cut else []
    notes = [
        *(["the time was over before one model was done"] if total.cut and not total.complete else []),
        *(["a positive control failed"] if failed else []),
        *([f"never reached: {', '.join(missing)}"] if missing and not total.found else []),
    ]
    complete = ", ".join(total.complete) or "no model"
    cut = f"; cut by the time or sampled under {', '.join(total.cut)}" if total.cut else ""
    return Phase(
        name=PHASE,
        explored=total.counts["schedule x crash states"],
        complete=bool(total.complete) and not total.cut,
        bound=f"every crash point x every schedule of 1 reader (a range within a page is one step), complete under "
        f"{complete}{cut}",
        verdict=Verdict.INVALID if total.found else Verdict.UNKNOWN if notes else Verdict.VALID,
        seconds=seconds,
        counts=dict(total.counts),
        reached=dict(total.reached),
        controls="; ".join(failed) or "passed",
        note="; ".join(notes),
        findings=tuple(findings),
    )


def _failed_controls() -> list[str]:
    """Explore toys under A, and return in words which broken one was not convicted, and if the sound one was."""
    failures = []
    for toy, is_broken in ((Toy(), False), (HeaderFirst(), True)):
        situation = control_situation(toy)
        counts, _ = _search(situation, A, lambda states: True)
        if bool(counts.found) is not is_broken:
            failures.append(f"the toy {toy.name!r} was {'not ' if is_broken else ''}convicted")
    return failures


def control_situation(toy: Toy) -> Situation:
    """Return two commits of a toy, a third after a crash, and a reader."""
    return Situation(
        target=toy,
        path="toy",
        operations=(b"one", b"t", b"three"),
        first_life=(0, 1),
        second_life=(2,),
        readers=(Readers(read_count=2),),
    )
