"""Programs in C with each kind of crash vulnerability are convicted, and when they are mended acquitted."""

import shlex
from pathlib import Path

import pytest
from depth import sampled
from recorded_programs import NEEDS_STRACE, compiled, recorded

from tornproof.harness.common.verdict import Phase, Verdict
from tornproof.harness.explorers.recorded.checker import Checker
from tornproof.harness.explorers.recorded.explorer import RecordedQuestion, explore_recorded
from tornproof.harness.parallel.tasks import explore_here

pytestmark = NEEDS_STRACE
CAUSES = {
    "append": "The program is killed after the first 4096 bytes of call 2, pwrite64 of 8192 bytes at 8192 of cur",
    "overwrite": "pwrite64 of 8192 bytes at 0 of cur is on disk in part",
    "data before rename": "write of 8192 bytes at 0 of tmp is on disk in part",
    "rename without directory sync": "rename of tmp to cur is not on disk",
    "creat": "openat of new is not on disk",
    "unlink before rename": "The program is killed after call 5, unlink of cur",
    "truncate": "The program is killed after call 2, ftruncate of cur to 0 bytes",
}
CLOSED_BY = {
    "data before rename": "fsync of tmp after call 3, write",
    "rename without directory sync": "fsync of . after call 5, rename",
    "creat": "fsync of . after call 2, openat of new",
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("compiled"))


def explored(program: Path, folder: Path, name: str, kind: str) -> Phase:
    (folder / "data").mkdir()
    (folder / "data" / "cur").write_bytes(b"a" * 8192)
    trace = recorded(folder / "data", program, name, kind)
    checker = Checker(command=f"{shlex.quote(str(program))} check {shlex.quote(name)} {{dir}} {{acks}}", seconds=60)
    question = RecordedQuestion(trace=trace, checker=checker, states_max=600)
    return explore_here(explore_recorded(question), question)


@pytest.mark.nightly
@pytest.mark.parametrize("name", sampled(2, list(CAUSES)))
def test_rejects_a_program_with_the_vulnerability_and_names_it(program: Path, tmp_path: Path, name: str) -> None:
    phase = explored(program, tmp_path, name, "bad")
    assert phase.verdict is Verdict.INVALID and phase.controls == "passed"
    said = [finding.sentence for finding in phase.findings]
    assert any(CAUSES[name] in sentence for sentence in said), said
    closing = [finding for finding in phase.findings if finding.evidence["closed_by"]]
    if name in CLOSED_BY:
        assert any(CLOSED_BY[name] in finding.sentence for finding in closing), said
    else:
        # A torn write, or a wrong order, is no missing sync.
        assert not any(CAUSES[name] in finding.sentence for finding in closing), said


@pytest.mark.parametrize("name", sampled(2, list(CAUSES)))
def test_accepts_the_mended_program(program: Path, tmp_path: Path, name: str) -> None:
    phase = explored(program, tmp_path, name, "good")
    assert (phase.verdict, phase.findings, phase.note) == (Verdict.VALID, (), "")
    assert phase.counts["different states"] >= phase.explored > phase.counts["crash points"]
