"""Seeing a finding again from the files that it started from."""

from __future__ import annotations

from harness.disk.image import DiskImage
from harness.explore.damage_judge import Judge, Outcome
from harness.explore.damage_plan import Cut, Damage, Flip
from harness.explore.roundtrip import reencode_generations
from harness.verdict import Finding, Verdict
from impl.errors import ProblemError, TornproofError
from impl.partition import PartitionFiles, read_published
from impl.table import open_table
from impl.verify import verify_table


def replay_finding(finding: Finding, image: DiskImage, path: str) -> Verdict:
    """Return INVALID when the same thing happens again, VALID when not, UNKNOWN when it cannot be tried."""
    try:
        match finding.phase:
            case "verify":
                return _replay_problem(finding, image, path)
            case "roundtrip":
                name = str(finding.evidence["file"]).partition("/")[0]
                files = PartitionFiles(storage=image, path=f"{path}/{name}", name=name)
                result = reencode_generations(read_published(files).content, file=files.pm_label)
                return Verdict.INVALID if result.mismatches else Verdict.VALID
            case "damage":
                judge, damage = Judge(image, path), _damage_of(finding)
                if not 0 <= damage.offset_bytes < judge.size_bytes(damage.file):
                    return Verdict.UNKNOWN
                outcome, _ = judge.judge(damage)
                return Verdict.INVALID if outcome is Outcome.SILENT else Verdict.VALID
            case _:
                return Verdict.UNKNOWN
    except (TornproofError, KeyError, TypeError, ValueError, IndexError, OverflowError):
        # The finding is a file that anybody may have written.
        return Verdict.UNKNOWN


def _replay_problem(finding: Finding, image: DiskImage, path: str) -> Verdict:
    try:
        problems = [str(problem) for problem in verify_table(open_table(image, path)).all_problems]
    except ProblemError as error:
        problems = [str(error.problem)]
    return Verdict.INVALID if finding.sentence in problems else Verdict.VALID


def _damage_of(finding: Finding) -> Damage:
    evidence = finding.evidence
    if evidence["kind"] == "flip":
        return Flip(str(evidence["file"]), int(evidence["bit"]))
    return Cut(str(evidence["file"]), int(evidence["size_bytes"]))
