"""Replays a finding from the files that it started from."""

from __future__ import annotations

from tornproof.harness.check import ASKED, DIED, ENDLESS, MAKING, CheckQuestion, make_table, start_error_of
from tornproof.harness.common.effort import Bounds
from tornproof.harness.common.verdict import Finding, Verdict
from tornproof.harness.counterexamples.replay import UNUSABLE, is_simulated
from tornproof.harness.explorers.corruption.judge import FOUND, Judge
from tornproof.harness.explorers.corruption.plan import damage_of, is_inside
from tornproof.harness.explorers.kills.explorer import replay_crash
from tornproof.harness.explorers.model_based.explorer import replay_stateful
from tornproof.harness.explorers.roundtrip.explorer import replay_roundtrip
from tornproof.harness.explorers.server.judge import replay_server
from tornproof.harness.explorers.simulated_phases import replay_case
from tornproof.harness.explorers.storage.explorer import replay_storage
from tornproof.harness.mutation.replay import replay_planted
from tornproof.harness.mutation.seeded import replay_seeded
from tornproof.harness.simulator.filesystem.image import DiskImage
from tornproof.harness.simulator.filesystem.line_bound import bounded_computation
from tornproof.harness.simulator.filesystem.step_bound import EndlessError
from tornproof.harness.systems.table import TableTarget
from tornproof.harness.systems.workload import crash_operations
from tornproof.impl.errors import CorruptError, Problem
from tornproof.impl.table.table import open_table
from tornproof.impl.verify.verify import verify_table


def replay_finding(finding: Finding, image: DiskImage, path: str) -> Verdict:
    """Return INVALID if the same happens again, VALID if not, UNKNOWN if it cannot be tried."""
    with bounded_computation(image.size_bytes):
        return _replay(finding, image, path)


def _replay(finding: Finding, image: DiskImage, path: str) -> Verdict:
    if is_simulated(finding.evidence):
        return replay_planted(finding).verdict
    try:
        match finding.phase:
            case "verify":
                return _replay_problem(finding, image, path)
            case "storage":
                return replay_storage(finding)
            case "roundtrip":
                return replay_roundtrip(finding, image, path)
            case "damage":
                return _replay_damage(finding, image, path)
            case "stateful":
                return replay_stateful(image, path, finding)
            case "crash":
                operations = crash_operations(image, path)
                return replay_crash(TableTarget(), operations, finding, start=image, path=path)
            case "campaign":
                return replay_seeded(finding)
            case "server":
                return replay_server(finding)
            case "memory" | "schedules" | "power" | "product" | "random":
                return replay_case(finding)
            case _:
                return Verdict.UNKNOWN
    except UNUSABLE:
        # The file of a finding may be from anywhere.
        return Verdict.UNKNOWN


def _replay_problem(finding: Finding, image: DiskImage, path: str) -> Verdict:
    if MAKING in finding.evidence:
        # Older evidence has no question: it was always about a new table.
        asked = {"has_table": False} | {name: finding.evidence[name] for name in ASKED if name in finding.evidence}
        start_error = "" if asked["has_table"] else make_table()[1]
        error = start_error_of(
            CheckQuestion(image=image, path=path, start_error=start_error, bounds=Bounds.of(1), **asked)
        )
        return Verdict.VALID if not error else Verdict.INVALID if error == finding.evidence[MAKING] else Verdict.UNKNOWN
    try:
        problems = verify_table(open_table(image, path), whole=False).all_problems
    except CorruptError as error:
        problems = (error.problem,)
    except EndlessError:
        return Verdict.INVALID if ENDLESS in finding.evidence else Verdict.UNKNOWN
    except Exception as error:
        is_same = finding.evidence.get(DIED) == f"{type(error).__name__}: {error}"
        return Verdict.INVALID if is_same else Verdict.UNKNOWN
    if finding.evidence.keys() & {ENDLESS, DIED}:
        return Verdict.VALID
    wanted = Problem(**finding.evidence)
    return Verdict.INVALID if wanted in problems else Verdict.VALID


def _replay_damage(finding: Finding, image: DiskImage, path: str) -> Verdict:
    damage = damage_of(finding.evidence)
    judge = Judge(image, path)
    if not judge.files(damage.kind):
        return Verdict.UNKNOWN
    judge = judge.of(damage.kind)
    if not is_inside(damage, {file: judge.size_bytes(file) for file in judge.damaged_files}):
        return Verdict.UNKNOWN
    outcome, _ = judge.judge(damage)
    return Verdict.INVALID if outcome in FOUND else Verdict.VALID
