"""Seeing a finding again from the files that it started from."""

from __future__ import annotations

from harness.disk.image import DiskImage
from harness.explore.crash import replay_crash
from harness.explore.damage_judge import Judge, Outcome
from harness.explore.damage_plan import Cut, Damage, Flip
from harness.explore.roundtrip import Mismatch, reencode_generations
from harness.explore.stateful import replay_stateful
from harness.targets.table import TableTarget
from harness.verdict import Finding, Verdict
from harness.workload import crash_operations
from impl.errors import CorruptError, Problem, TornproofError
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
                return _replay_mismatch(finding, image, path)
            case "damage":
                return _replay_damage(finding, image, path)
            case "stateful":
                return replay_stateful(image, path, finding)
            case "crash":
                operations = crash_operations(image, path)
                return replay_crash(TableTarget(), operations, finding, start=image, path=path)
            case _:
                return Verdict.UNKNOWN
    except (TornproofError, KeyError, TypeError, ValueError, IndexError, OverflowError):
        # The finding is a file that anybody may have written.
        return Verdict.UNKNOWN


def _replay_problem(finding: Finding, image: DiskImage, path: str) -> Verdict:
    wanted = Problem(**finding.evidence)
    try:
        problems = verify_table(open_table(image, path)).all_problems
    except CorruptError as error:
        problems = (error.problem,)
    return Verdict.INVALID if wanted in problems else Verdict.VALID


def _replay_mismatch(finding: Finding, image: DiskImage, path: str) -> Verdict:
    evidence = finding.evidence
    wanted = Mismatch(generation_end_bytes=evidence["generation_end_bytes"], offset_bytes=evidence["offset_bytes"])
    name = str(evidence["file"]).partition("/")[0]
    files = PartitionFiles(storage=image, path=f"{path}/{name}", name=name)
    result = reencode_generations(read_published(files).content, file=files.pm_label)
    return Verdict.INVALID if wanted in result.mismatches else Verdict.VALID


def _replay_damage(finding: Finding, image: DiskImage, path: str) -> Verdict:
    judge, damage = Judge(image, path), _damage_of(finding)
    if not 0 <= damage.offset_bytes < judge.size_bytes(damage.file):
        # Beyond the file's end nothing can be flipped or cut off.
        return Verdict.UNKNOWN
    outcome, _ = judge.judge(damage)
    return Verdict.INVALID if outcome is Outcome.SILENT else Verdict.VALID


def _damage_of(finding: Finding) -> Damage:
    evidence = finding.evidence
    match evidence["kind"]:
        case "flip":
            return Flip(str(evidence["file"]), int(evidence["bit"]))
        case "cut":
            return Cut(str(evidence["file"]), int(evidence["size_bytes"]))
        case kind:
            raise ValueError(f"no damage of kind {kind!r}")
