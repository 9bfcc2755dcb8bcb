"""Judges what a crash left: each disk by a reader and recoveries, and by commits after the recovery."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tornproof.harness.explorers.power_cuts.examination import (
    Bounds,
    Facts,
    Ruling,
    commit_body,
    judge,
    judge_commit,
    judge_unread,
    recovery_body,
)
from tornproof.harness.explorers.power_cuts.memo import Examiner
from tornproof.harness.simulator.persistence.legal_disks import Disk
from tornproof.harness.simulator.process.case import TestCase
from tornproof.harness.simulator.process.observer import RECOVERIES_MAX, Oracle, Property


class PowerJudge:
    """Judges disks of one test case; its caches serve all models and all writers of the same files."""

    def __init__(self, case: TestCase) -> None:
        """Start the processes that examine disks."""
        self.case = case
        operations = [case.operations[number] for number in case.second_session]
        self._recovery = Examiner(recovery_body(case.target, case.path))
        self._unread = Examiner(recovery_body(case.target, case.path, reads_first=False))
        self._commit = Examiner(commit_body(case.target, case.path, operations))
        self._recovery_verdicts: dict[tuple[Facts, Bounds], Ruling] = {}
        self._commit_verdicts: dict[tuple[Facts, tuple[int, ...]], Ruling] = {}
        self.used: set[Facts] = set()
        """All facts that verdicts were taken from, until somebody empties it."""

    def close(self) -> None:
        """End all greenlets."""
        self._recovery.close()
        self._unread.close()
        self._commit.close()

    def judge(self, disk: Disk, bounds: Bounds, *, commits: bool = True) -> tuple[Ruling, Facts]:
        """Judge a disk that may hold these commits; with `commits`, also commit after its recovery."""
        verdict, facts = self._judge_recovery(disk, bounds, self._recovery, judge)
        if facts.reader_repairs and not verdict.violated:
            # A reader that repairs hides what a recovery does that comes first.
            unread, _ = self._judge_recovery(disk, bounds, self._unread, judge_unread)
            verdict = unread if unread.violated else verdict
        if commits and not verdict.violated:
            verdict = self._judge_repetitions(disk, facts, verdict)
        if commits and not verdict.violated:
            verdict = self._judge_commit(recovered(disk, facts), verdict)
        return verdict, facts

    def repetitions(self, disk: Disk, facts: Facts) -> Iterator[tuple[Disk, Facts]]:
        """Yield the disk after each recovery with the facts about it, as long as recoveries change its files.

        Those of tornproof's own tables change none a second time, which is a fact about the first disk.
        """
        if not self.case.target.only_reads_count:
            return
        # The facts about a disk are those of two recoveries.
        for _ in range(RECOVERIES_MAX - 2):
            before, disk = disk, recovered(disk, facts)
            if disk == before:
                return
            facts = self._recovery.examine(disk)
            yield disk, facts

    def _judge_repetitions(self, disk: Disk, facts: Facts, verdict: Ruling) -> Ruling:
        """Judge what recoveries leave of what the first one found."""
        bounds = Bounds(verdict.found, len(verdict.found))
        for number, (again, _) in enumerate(self.repetitions(disk, facts), start=1):
            later, _ = self._judge_recovery(again, bounds, self._recovery, judge)
            if later.violated:
                return later._replace(sentence=f"after recovery {number}, {later.sentence}")
        return verdict

    def reads_of(self, facts: Facts) -> tuple[tuple[str, int, int], ...]:
        """Return the ranges of files that some facts depend on, each as a path, start, stop."""
        examiners = self._recovery, self._unread, self._commit
        return next((examiner.reads[facts] for examiner in examiners if facts in examiner.reads), ())

    def _judge_recovery(
        self, disk: Disk, bounds: Bounds, examiner: Examiner, judged: Callable[[Facts, Bounds, Oracle], Ruling]
    ) -> tuple[Ruling, Facts]:
        facts = examiner.examine(disk)
        self.used.add(facts)
        known = self._recovery_verdicts.get((facts, bounds))
        if known is None:
            known = self._recovery_verdicts[facts, bounds] = judged(facts, bounds, self.case.oracle)
        return known, facts

    def _judge_commit(self, disk: Disk, verdict: Ruling) -> Ruling:
        facts = self._commit.examine(disk)
        self.used.add(facts)
        found = verdict.found
        known = self._commit_verdicts.get((facts, found))
        if known is None:
            case = self.case
            known = judge_commit(facts, found, case.oracle, case.second_session, case.rejection)
            difference = "" if known.violated else case.difference((*found, *case.second_session))
            if difference:
                known = Ruling(found, Property.CONTENT, difference)
            self._commit_verdicts[facts, found] = known
        return known


def recovered(disk: Disk, facts: Facts) -> Disk:
    """Return the disk after its recovery."""
    if not facts.recovery:
        return disk
    contents = disk.by_number()
    for write in facts.writes:
        contents[write.file] = write.on(contents.get(write.file, b""))
    tree, numbers = facts.files
    return Disk(tree, tuple([contents.get(number, b"") for number in numbers]))
