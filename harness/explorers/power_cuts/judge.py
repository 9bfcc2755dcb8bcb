"""What a crash left, judged: every disk by a reader and recoveries, and by commits on top of what was recovered."""

from __future__ import annotations

from tornproof.harness.explorers.power_cuts.examination import (
    Bounds,
    Facts,
    Verdict,
    committing,
    judge,
    judge_commit,
    settling,
)
from tornproof.harness.explorers.power_cuts.memo import Examiner
from tornproof.harness.simulator.filesystem.kernel_calls import apply
from tornproof.harness.simulator.persistence.legal_disks import Disk
from tornproof.harness.simulator.persistence.legal_names import tree_of
from tornproof.harness.simulator.process.case import TestCase

SESSION = 0


class PowerJudge:
    """Judges disks of one situation; what it learns serves all models and all writers of the same files."""

    def __init__(self, case: TestCase) -> None:
        """Start the programs that disks are examined with."""
        self.case = case
        operations = [case.operations[number] for number in case.second_session]
        self.settling = Examiner(settling(case.target, case.path))
        self.committing = Examiner(committing(case.target, case.path, operations))
        self._verdicts: dict[tuple[Facts, Bounds], Verdict] = {}
        self._commits: dict[tuple[Facts, tuple[int, ...]], Verdict] = {}

    def close(self) -> None:
        """End all greenlets."""
        self.settling.close()
        self.committing.close()

    def judge(self, disk: Disk, bounds: Bounds, *, commits: bool = True) -> tuple[Verdict, Facts]:
        """Judge a disk on which these commits may be; `commits` asks for the commits on top, too."""
        facts = self.settling.examine(disk)
        verdict = self._verdicts.get((facts, bounds))
        if verdict is None:
            verdict = self._verdicts[facts, bounds] = judge(facts, bounds, self.case.oracle)
        if commits and not verdict.violated:
            verdict = self._judge_commit(recovered(disk, facts), verdict)
        return verdict, facts

    def _judge_commit(self, disk: Disk, verdict: Verdict) -> Verdict:
        facts = self.committing.examine(disk)
        found = verdict.found
        known = self._commits.get((facts, found))
        if known is None:
            case = self.case
            known = judge_commit(facts, found, case.oracle, case.second_session)
            self._commits[facts, found] = known
        return known


def recovered(disk: Disk, facts: Facts) -> Disk:
    """Return the disk after its recovery."""
    if not facts.recovery:
        return disk
    kernel = disk.kernel()
    for call in facts.recovery:
        # One that was refused is refused again.
        apply(kernel, SESSION, call)
    tree, numbers = tree_of(kernel.directories)
    return Disk(tree, tuple(kernel.files[number].content for number in numbers))
