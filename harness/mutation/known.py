"""Known defects of this format and its releases, each shown by a small finding that can be replayed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from tornproof.harness.common.remembered_codecs import remembered_decoding
from tornproof.harness.common.verdict import Finding, Phase, Verdict, calls_at_most
from tornproof.harness.counterexamples.case_document import case_of
from tornproof.harness.counterexamples.log import DecisionLog
from tornproof.harness.counterexamples.make import with_case
from tornproof.harness.counterexamples.replay import Replayed, is_simulated
from tornproof.harness.counterexamples.run import Replayer
from tornproof.harness.explorers.memory.explorer import WEAK, seen_again
from tornproof.harness.explorers.simulated_phases import explore_words, simulate
from tornproof.harness.mutation.baseline import baseline_of
from tornproof.harness.mutation.catalogue import fault_named
from tornproof.harness.mutation.fault import Mutant
from tornproof.harness.mutation.replay import replay_planted
from tornproof.harness.simulator.process.observer import Property
from tornproof.harness.systems.releases import PRESETS
from tornproof.harness.systems.scenario import Explorer, load_scenario
from tornproof.harness.systems.simulation import HARDENED, Setting, setting_of
from tornproof.harness.systems.table import TableTarget

TIME_CHECKS_MAX = 4_000
TIME_CHECKS_OF_PRODUCT_MAX = 200_000
"""It looks at the time before each state of a reader."""
"""So often an exploration asks whether it has time before it ends; it finds these defects early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDefect:
    """A planted fault or a released server, and the explorer and scenario that show how it breaks a property.

    The property is about an answer that a reader, a recovery or a commit gets, not about a step.
    """

    name: str
    explorer: Explorer
    scenario: str
    fault: str = ""
    preset: str = HARDENED
    models: tuple[str, ...] = ()
    breaks: str = Property.REJECTED

    @property
    def source(self) -> str:
        """Where the defect comes from, as Markdown."""
        return f"fault “{self.fault}”" if self.fault else f"preset `{self.preset}`"

    def setting(self) -> Setting:
        """Return what `check` would explore with the defect; a planted one does not change the expected answers."""
        setting = setting_of(load_scenario(self.scenario), PRESETS[self.preset])
        if self.fault:
            target = self.target
            case = baseline_of(self.scenario).case(target, setting.case.rules)
            setting = replace(setting, case=case)
        return replace(setting, explorers=frozenset({self.explorer}), models=self.models)

    @property
    def target(self) -> TableTarget:
        """The tables with the defect, as far as it is in the order of a commit; the rest is planted."""
        if not self.fault:
            return TableTarget.of(PRESETS[self.preset])
        with self.planted():
            return TableTarget()

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Plant the fault while the block runs, if there is one."""
        if not self.fault:
            yield
            return
        with Mutant(fault_named(self.fault)).planted():
            yield


class Size(NamedTuple):
    """The size of a finding."""

    operations: int
    crashes: int
    switches: int


SCHEDULES, POWER, PRODUCT, MEMORY = Explorer.SCHEDULES, Explorer.POWER, Explorer.PRODUCT, Explorer.MEMORY
APPEND, RETRY = "append-and-power-cut", "equal-retry-and-a-reader-that-looks-twice"


def _lost(name: str, fault: str, model: str, scenario: str = APPEND, breaks: str = Property.REJECTED) -> KnownDefect:
    """Return a defect that one persistence model shows."""
    return KnownDefect(name=name, fault=fault, explorer=POWER, models=(model,), scenario=scenario, breaks=breaks)


KNOWN: tuple[KnownDefect, ...] = (
    KnownDefect(
        name="header before body (F2)",
        fault="header before the body",
        explorer=SCHEDULES,
        scenario="one-commit-one-reader",
    ),
    _lost("body not durable before the header (F2)", "body of _pm not synced (F2)", "C-512"),
    _lost("token without footer (F3)", "header of _pm not synced (F3)", "B"),
    _lost("data not durable (F1)", "data not synced (F1)", "B"),
    _lost("torn record (F4)", "record not synced (F4)", "C-512", "record-across-sectors"),
    _lost("lost acknowledged commit (F5)", "version not synced (F5)", "B", breaks=Property.LOST),
    _lost("missing directory (F6)", "new directory not synced (F6)", "Cdir", "new-partition-and-power-cut"),
    _lost(
        "missing name of a directory (F6)", "table's directory not synced (F6)", "Cdir", "new-partition-and-power-cut"
    ),
    KnownDefect(name="stale mapping, ABA on the token", fault="mapping kept", explorer=SCHEDULES, scenario=RETRY),
    KnownDefect(
        name="orphan overwritten under a reader",
        fault="orphan overwritten",
        explorer=PRODUCT,
        models=("A",),
        scenario="two-orphans",
    ),
    KnownDefect(name="orphan truncated under a reader", fault="orphan cut off", explorer=SCHEDULES, scenario=RETRY),
    *(
        KnownDefect(
            name=f"reader decodes by the newest footer ({preset})",
            preset=preset,
            explorer=SCHEDULES,
            scenario="one-commit-one-reader",
        )
        for preset in ("questdb-9.4.2", "questdb-9.4.3")
    ),
    *(
        KnownDefect(
            name=f"orphan as the base of the next update ({preset})",
            preset=preset,
            explorer=PRODUCT,
            models=("A",),
            scenario="reader-lives-through-a-kill",
            breaks=Property.RECOVERY,
        )
        for preset in ("questdb-9.4.2", "questdb-9.4.3")
    ),
    _lost(
        "orphan as the base, and its rows committed",
        "orphan taken for the base",
        "A",
        breaks=Property.WRONG_SNAPSHOT,
    ),
    KnownDefect(
        name="token from the file's size after a crash tail (H1)",
        preset="questdb-2026-07",
        explorer=POWER,
        models=("A",),
        scenario="orphan-and-smaller-commit",
    ),
    _lost(
        "old directory removed before the new one is durable",
        "old directory removed early",
        "B",
        "rewrite-and-power-cut",
    ),
    KnownDefect(
        name="no fence after the version",
        fault="no fence after the version",
        explorer=MEMORY,
        scenario="settled-words-of-two-commits",
        breaks=Property.WRONG_SNAPSHOT,
    ),
)


def find_defect(defect: KnownDefect) -> Finding:
    """Run the explorer of a defect, and return the first finding of its property; raises LookupError."""
    setting = defect.setting()
    with defect.planted():
        if defect.explorer is MEMORY:
            phase = _read_weakly(setting)
        else:
            is_product = defect.explorer is Explorer.PRODUCT
            checks_max = TIME_CHECKS_OF_PRODUCT_MAX if is_product else TIME_CHECKS_MAX
            phase = simulate(defect.explorer, [setting], has_time=calls_at_most(checks_max))
    for finding in phase.findings:
        if finding.property == defect.breaks:
            return finding
    raise LookupError(f"{defect.name}: {defect.explorer} no longer finds it on {defect.scenario}")


def _read_weakly(setting: Setting) -> Phase:
    """Explore only the weakest memory model: only there is the fence needed, and each of the others takes as long."""
    case = setting.case
    phase = explore_words(case, has_time=calls_at_most(TIME_CHECKS_MAX), cases=(WEAK,))
    findings = (with_case(case, finding, scenario=setting.name) for finding in phase.findings)
    return replace(phase, findings=tuple(findings))


def size_of(finding: Finding) -> Size:
    """Return the size of a finding; in the memory explorer a switch is where the reader meets a later commit."""
    case, evidence = finding.evidence["test_case"], finding.evidence
    operations = len(case["first_session"]) + len(case["second_session"])
    if not is_simulated(evidence):
        newest = itertools.accumulate((max(load["commits"]) for load in evidence["loads"]), max)
        return Size(operations, 0, sum(after > before for before, after in itertools.pairwise(newest)))
    log = DecisionLog.of_document(evidence["log"])
    return Size(operations, log.crash_count, log.switch_count)


def replay_with(defect: KnownDefect, finding: Finding) -> Replayed:
    """Replay a finding with its defect."""
    with defect.planted():
        if is_simulated(finding.evidence):
            # A file cannot name a function that only a fault has.
            is_named = finding.evidence["test_case"]["target"]["kind"] != "other"
            return replay_planted(finding, None if is_named else defect.target)
        again = _loaded_again(finding, None)
    if again is None:
        return Replayed(verdict=Verdict.VALID)
    is_same = again.property == finding.property and {**finding.evidence, **again.evidence} == finding.evidence
    return Replayed(verdict=Verdict.INVALID, is_same=is_same, evidence=again.evidence)


def replay_without(finding: Finding) -> Verdict:
    """Replay a finding on our tables as they are, as far as its decisions apply there."""
    if not is_simulated(finding.evidence):
        return Verdict.VALID if _loaded_again(finding, TableTarget()) is None else Verdict.INVALID
    case = case_of(finding.evidence["test_case"], TableTarget())
    with remembered_decoding(), Replayer(case) as replayer:
        # Without the defect more is durable, so a power cut leaves what is nearest to its choice.
        result = replayer.play(DecisionLog.of_document(finding.evidence["log"]), adapts=True)
    if result.violations:
        return Verdict.INVALID
    return Verdict.UNKNOWN if result.dropped else Verdict.VALID


def _loaded_again(finding: Finding, target: TableTarget | None) -> Finding | None:
    """Return the finding that the loads of a memory explorer's finding give now; raises what `seen_again` does."""
    case = case_of(finding.evidence["test_case"], target)
    assert isinstance(case.target, TableTarget)
    operations = tuple(case.operations[number] for number in case.first_session)
    return seen_again(case.target, operations, finding, start=case.start, path=case.path)
