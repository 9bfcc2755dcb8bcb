"""SQLite and git, recorded: settings that are documented as weak are found, those documented as safe are not."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from depth import nightly
from recorded_programs import NEEDS_STRACE, PYTHON, recorded

from tornproof.harness.common.verdict import Phase, Verdict
from tornproof.harness.explorers.recorded.checker import Checker
from tornproof.harness.explorers.recorded.explorer import RecordedQuestion, explore_recorded
from tornproof.harness.parallel.tasks import explore_here
from tornproof.harness.recording.steps import Trace

pytestmark = NEEDS_STRACE
JOURNALLED = ("A", "B", "C-4096", "C-512")
STATES_MAX = 400
SQLITE = """import sqlite3, sys
base = sqlite3.connect("base", isolation_level=None)
base.execute(f"pragma journal_mode = {sys.argv[1]}"); base.execute(f"pragma synchronous = {sys.argv[2]}")
base.execute("create table rows (number integer primary key, text)")
for number in range(3):
    base.execute("begin")
    for part in (0, 1000):
        base.execute("insert into rows values (?, ?)", (part + number, "x" * 600))
    base.execute("commit")
    print("saved", flush=True)
"""
SQLITE_CHECKER = """import sqlite3, sys
acknowledged = len(open(sys.argv[2]).readlines())
base = sqlite3.connect(sys.argv[1] + "/base")
try:
    assert base.execute("pragma integrity_check").fetchall() == [("ok",)], "integrity"
    numbers = {row[0] for row in base.execute("select number from rows")}
except sqlite3.Error as error:
    sys.exit(str(error) if acknowledged or "no such table" not in str(error) else 0)
count = len(numbers) // 2
assert numbers == {*range(count), *range(1000, 1000 + count)}, "a part of a transaction"
assert count >= acknowledged, "a transaction is lost"
"""
GIT = """for number in 1 2 3; do
  echo $number > file; git add file; git -c user.name=a -c user.email=a@b commit -qm $number; echo saved
done"""
GIT_CHECKER = """cd "$0" && git fsck --full >out 2>&1 || { tail -1 out; exit 1; }
test "$(git rev-list --count HEAD 2>/dev/null || echo 0)" -ge "$(wc -l < "$1")" """


def explored(trace: Trace, checker: str, models: tuple[str, ...]) -> Phase:
    question = RecordedQuestion(
        trace=trace, checker=Checker(command=checker, seconds=60), models=models, states_max=STATES_MAX
    )
    return explore_here(explore_recorded(question), question)


@pytest.mark.parametrize(
    ("journal", "synchronous", "found"),
    [
        nightly("delete", "off", " of base-journal is not on disk"),
        nightly("delete", "full", "unlink of base-journal is not on disk"),
        nightly("delete", "extra", None),
        nightly("wal", "normal", "of base-wal is "),
        nightly("wal", "full", None),
    ],
)
def test_sqlite_is_as_safe_as_its_documentation_says(
    tmp_path: Path, journal: str, synchronous: str, found: str | None
) -> None:
    trace = recorded(tmp_path, *PYTHON, "-c", SQLITE, journal, synchronous, acknowledges="^saved")
    phase = explored(trace, shlex.join([*PYTHON, "-c", SQLITE_CHECKER, "{dir}", "{acks}"]), JOURNALLED)
    said = [finding.sentence for finding in phase.findings]
    assert phase.explored == STATES_MAX and phase.controls == "passed"
    if found is None:
        assert (phase.verdict, said) == (Verdict.VALID, [])
    else:
        assert phase.verdict is Verdict.INVALID and any(found in sentence for sentence in said), said


@pytest.mark.parametrize(
    ("setting", "models", "found"),
    [
        nightly("none", JOURNALLED, "tmp_obj_"),
        nightly("all", JOURNALLED, None),
        nightly("all", ("Cdir",), ".git/objects"),
    ],
)
def test_git_loses_what_its_settings_do_not_sync(
    tmp_path: Path, setting: str, models: tuple[str, ...], found: str | None
) -> None:
    if shutil.which("git") is None:
        pytest.skip("needs git")
    for words in ("init -q", f"config core.fsync {setting}", "config gc.auto 0"):
        subprocess.run(["git", *words.split()], cwd=tmp_path, check=True)
    trace = recorded(tmp_path, "sh", "-c", GIT, acknowledges="^saved")
    phase = explored(trace, shlex.join(["sh", "-c", GIT_CHECKER, "{dir}", "{acks}"]), models)
    said = [finding.sentence for finding in phase.findings]
    assert phase.explored == STATES_MAX and phase.controls == "passed"
    if found is None:
        assert (phase.verdict, said) == (Verdict.VALID, [])
    else:
        assert phase.verdict is Verdict.INVALID and any(found in sentence for sentence in said), said
