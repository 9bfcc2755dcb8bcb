"""The schedule × crash explorer: a Phase over one situation, model by model, with its controls and its bound."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from harness.disk.kernel import Kernel
from harness.disk.legal_disks import legal_disks
from harness.disk.persistence import MODELS, Model
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
from harness.findings.make import finding_of
from harness.findings.run import Signature
from harness.findings.shrink import NotReproducedError
from harness.targets.toy import HeaderFirst, Toy
from harness.verdict import Clock, Finding, OnProgress, Phase, Verdict

PHASE = "product"
PRODUCT_MODELS = ("A", "D", "B", "C-512", "Cdir")
MUST_REACH = (IN_COMMIT, KEPT)
MUST_REACH_LIVING = (*MUST_REACH, SEEN_EARLY, READER_AT_WORK, LIVED_THROUGH)


_Found: TypeAlias = tuple[Violation, Moves, str]


@dataclass(slots=True)
class _Total:
    """What was gone through for all models."""

    counts: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    complete: list[str] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    found: dict[Signature, _Found] = field(default_factory=dict)


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
    return _phase(total, clock() - begin, failed, tuple(_findings(situation, new, scenario)))


def _explore(
    situation: Situation, name: str, clock: Clock, seconds: float, on_progress: OnProgress, total: _Total
) -> None:
    model = next(model for model in MODELS if model.name == name)
    begin = clock()

    def goes_on(states: int) -> bool:
        on_progress(total.counts["schedule x crash states"] + states, None)
        return clock() - begin < seconds

    counts, is_sampled = _search(situation, model, goes_on)
    total.counts["schedule x crash states"] += counts.states
    total.counts["crash points"] += counts.crash_points
    total.counts["distinct worlds after a crash"] += counts.courses
    total.reached.update(counts.reached)
    (total.complete if counts.is_complete and not is_sampled else total.cut).append(name)
    for violation, moves in counts.found:
        total.found.setdefault(Signature.of(violation), (violation, moves, name))


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


def _findings(situation: Situation, found: Sequence[_Found], scenario: str | None) -> Iterator[Finding]:
    for violation, moves, model in found:
        try:
            yield finding_of(situation, moves, violation, phase=PHASE, scenario=scenario)
        except NotReproducedError as error:
            # It was seen all the same, so that it is told as it was seen.
            evidence = {"moves": [list(map(str, move)) for move in moves], "model": model, "note": str(error)}
            sentence = f"{violation.client}: {violation.property}, but: {violation.sentence}"
            yield Finding(property=violation.property, phase=PHASE, sentence=sentence, evidence=evidence)


def _phase(total: _Total, seconds: float, failed: list[str], findings: tuple[Finding, ...]) -> Phase:
    living = [name for name in (*total.complete, *total.cut) if name in ("A", "D")]
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
        findings=findings,
    )


def _failed_controls() -> list[str]:
    """Explore toys under A, and return in words which broken one was not convicted, and if the sound one was."""
    failures = []
    for toy, is_broken in ((Toy(), False), (HeaderFirst(), True)):
        situation = control_situation(toy)
        counts, _ = _search(situation, MODELS[0], lambda states: True)
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
