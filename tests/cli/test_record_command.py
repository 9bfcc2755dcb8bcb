"""`tornproof record` and `tornproof power` as their users meet them: from a program to a finding that replays."""

import hashlib
import json
import shlex
import subprocess
from pathlib import Path

import pytest
from command_line import WarmRunner
from recorded_programs import NEEDS_STRACE, PYTHON

from tornproof.cli.commands.power import CHECK_SECONDS, _with_lines
from tornproof.cli.output import visible
from tornproof.harness.common.verdict import Finding, Phase, Verdict
from tornproof.harness.explorers.recorded.checker import Checker

pytestmark = NEEDS_STRACE
PROGRAM = """import os, sys
os.chdir(sys.argv[1])
for number in range(3):
    file = os.open("new", os.O_CREAT | os.O_WRONLY); os.write(file, b"%d" % number); os.fsync(file); os.close(file)
    os.rename("new", "current")
    if "sync" in sys.argv:
        directory = os.open(".", os.O_RDONLY); os.fsync(directory); os.close(directory)
    os.write(1, b"saved %d\\n" % number); os.write(5, b"%d\\n" % number) if "five" in sys.argv else None
sys.exit(7 if "fail" in sys.argv else 0)
"""
CHECKER = 'test "$(cat $0/current 2>/dev/null || echo -1)" -ge $(($(wc -l < $1) - 1))'
CHECK = f"sh -c {shlex.quote(CHECKER)} {{dir}} {{acks}}"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def record(tornproof: WarmRunner, data: Path, *words: str, options: tuple[str, ...] = ("--ack", "^saved")) -> Path:
    trace = data.parent / "trace"
    run = tornproof("record", "--dir", data, "--out", trace, *options, "--", *PYTHON, "-c", PROGRAM, data, *words)
    assert run.code == 0, run
    return trace


def test_a_program_is_recorded_and_counted(tornproof: WarmRunner, data: Path) -> None:
    trace, told = data.parent / "trace", data.parent / "told.json"
    run = tornproof(
        *("record", "--dir", data, "--out", trace, "--ack", "^saved", "--json", told),
        *("--", *PYTHON, "-c", PROGRAM, data, "sync"),
    )
    assert run.code == 0 and "saved 2\n" in run.out
    assert f"{trace}: 18 calls, 3 bytes written, 6 syncs, 3 acknowledgements" in run.out
    assert json.loads(told.read_text()) == {
        "format": 1,
        "trace": str(trace),
        "exit_code": 0,
        "notes": [],
        "calls": 18,
        "bytes": 3,
        "syncs": 6,
        "acknowledgements": 3,
    }


def test_json_on_standard_output_is_alone_there(tornproof: WarmRunner, data: Path) -> None:
    """What the program printed came before it, and acknowledgements are printed."""
    run = tornproof(
        *("record", "--dir", data, "--out", data.parent / "trace", "--ack", "^saved", "--json", "-"),
        *("--", *PYTHON, "-c", PROGRAM, data),
    )
    assert run.code == 0 and run.document["acknowledgements"] == 3
    assert "saved 2\n" in run.err


@pytest.mark.parametrize("command", ["", " "])
def test_an_empty_check_is_rejected(tornproof: WarmRunner, tmp_path: Path, command: str) -> None:
    """A shell ends with 0 for it, so that it accepted every state."""
    run = tornproof("power", tmp_path, "--check", command)
    assert run.code == 2 and "--check: the command is empty" in run.err


@pytest.mark.nightly
def test_a_program_that_fails_is_recorded_and_said_to_have_failed(tornproof: WarmRunner, data: Path) -> None:
    trace = data.parent / "trace"
    run = tornproof("record", "--dir", data, "--out", trace, "--", *PYTHON, "-c", PROGRAM, data, "fail")
    assert run.code == 1 and "the program ended with exit code 7" in run.out
    assert tornproof("power", trace, "--check", "true {dir}").code == 0


def test_acknowledgements_can_come_by_a_descriptor(tornproof: WarmRunner, data: Path) -> None:
    trace = record(tornproof, data, "five", options=("--ack-fd", "5"))
    assert trace.read_text().count('"acknowledge"') == 3


def test_a_finding_says_what_is_lost_and_replays_by_its_line(tornproof: WarmRunner, data: Path) -> None:
    trace, findings = record(tornproof, data), data.parent / "findings"
    run = tornproof("power", trace, "--check", CHECK, "--models", "A,B", "--findings", findings, "--workers", "1")
    assert run.code == 1 and "INVALID" in run.out
    assert "rename of new to current is not on disk" in run.out
    assert "One sync closes it: fsync of . after call 4, rename of new to current" in run.out
    (line,) = [line.strip() for line in run.out.splitlines() if "--only-state" in line]
    again = tornproof(*shlex.split(line)[1:])
    assert again.code == 1 and "INVALID: it happens again" in again.out
    mended = tornproof(*shlex.split(line)[1:-1], '5:["B",null,{}]')
    assert mended.code == 0 and "VALID: it does not happen any more" in mended.out
    (file,) = findings.iterdir()
    by_file = tornproof("replay", file)
    assert by_file.code == 3 and f"it needs its trace and its checker, or run its checker by --run-checker: {line}" in (
        by_file.out
    )
    asked = tornproof("replay", file, "--run-checker")
    assert asked.code == 1 and "The checker: exit code 1." in asked.out and "INVALID: it happens again" in asked.out
    whole = trace.read_bytes()
    trace.write_bytes(whole.replace(b'"name":"rename"', b'"name":"renameat"'))
    other = tornproof("replay", file, "--run-checker")
    assert other.code == 3 and f"{trace} is not the trace that it was found in" in other.out
    evidence = json.loads(file.read_text())["evidence"]
    older = data.parent / "older.json"
    older.write_text(file.read_text().replace(evidence["trace_digest"], "").replace('"trace_digest": "",', ""))
    assert tornproof("replay", older, "--run-checker").code == 1
    older.write_text(
        older.read_text().replace(json.dumps(evidence["state"]), json.dumps('5:["B",null,{"x":[0,0,[]]}]'))
    )
    gone = tornproof("replay", older, "--run-checker")
    assert gone.code == 2 and "no state of this trace: there is no file x then" in gone.err
    trace.rename(trace.with_name("elsewhere"))
    assert tornproof("replay", file, "--run-checker").code == 2
    file.write_text(file.read_text().replace('"check"', '"other"'))
    assert f"it needs its trace and its checker: {line}" in tornproof("replay", file, "--run-checker").out
    assert evidence["state"] in shlex.split(line) and evidence["model"] == "B" and evidence["lost"]


def test_a_finding_of_relative_paths_replays_from_any_directory(tornproof: WarmRunner, data: Path) -> None:
    """The trace and the checker were looked for in the directory of the replay."""
    trace, other = record(tornproof, data), data.parent / "other"
    project, moved = data.parent / "project", data.parent / "moved"
    for folder in (project, other):
        folder.mkdir()
    trace.rename(project / "run.trace")
    (project / "check.sh").write_text(CHECKER.replace("$1", "$2").replace("$0", "$1"))
    check, options = "sh check.sh {dir} {acks}", ("--models", "B", "--workers", "1")
    run = tornproof("power", "run.trace", "--check", check, *options, "--findings", "the/found", folder=project)
    assert run.code == 1, run
    (other / "link").symlink_to(project / "the/found")
    (file,) = (other / "link").iterdir()
    again = tornproof("replay", file, "--run-checker", folder=other)
    assert again.code == 1 and "The checker: exit code 1." in again.out, again
    project.rename(moved)
    file = moved / "the/found" / file.name
    assert "The checker: exit code 1." in tornproof("replay", file, "--run-checker", folder=other).out
    for name in ("run.trace", "check.sh"):
        (moved / name).rename(other / name)
    (moved / "run.trace").write_text("of another run")
    assert "The checker: exit code 1." in tornproof("replay", file, "--run-checker", folder=other).out
    (moved / "run.trace").write_bytes((other / "run.trace").read_bytes())
    blind = tornproof("replay", file, "--run-checker", folder=data)
    assert (
        blind.code == 3 and "the checker rejects the end of the run, of which nothing is lost: exit code" in blind.out
    )
    (moved / "run.trace").write_text("of another run")
    (other / "run.trace").unlink()
    unlike = tornproof("replay", file, "--run-checker", folder=other)
    assert unlike.code == 3 and f"{moved / 'run.trace'} is not the trace that it was found in" in unlike.out
    (moved / "run.trace").unlink()
    gone = tornproof("replay", file, "--run-checker", folder=other)
    assert gone.code == 2 and all(f"{folder}/run.trace: cannot read" in gone.err for folder in (moved, other))


def test_a_trace_that_is_removed_while_it_is_explored_takes_nothing_away(tornproof: WarmRunner, data: Path) -> None:
    """The command ended with "cannot read", and the findings of maybe hours were lost."""
    trace, findings = record(tornproof, data), data.parent / "findings"
    digest = hashlib.sha256(trace.read_bytes()).hexdigest()
    check = f"sh -c {shlex.quote(f'rm -f {trace}; {CHECKER}')} {{dir}} {{acks}}"
    run = tornproof("power", trace, "--check", check, "--models", "B", "--findings", findings, "--workers", "1")
    assert run.code == 1 and not trace.exists(), run
    (file,) = findings.iterdir()
    assert json.loads(file.read_text())["evidence"]["trace_digest"] == digest


def test_a_program_that_syncs_is_valid_within_a_bound_that_is_printed(tornproof: WarmRunner, data: Path) -> None:
    trace = record(tornproof, data, "sync")
    run = tornproof("power", trace, "--check", CHECK, "--workers", "2", "--findings", data.parent / "findings")
    assert run.code == 0
    assert run.out.startswith("VALID: ") and "bound: every disk under A, B, C-4096, C-512" in run.out
    assert "at 19 crash points" in run.out and "controls: passed" in run.out
    assert not (data.parent / "findings").exists()


@pytest.mark.parametrize(("seconds", "limit"), [(CHECK_SECONDS, []), (1.5, ["--check-seconds", "1.5"])])
def test_the_line_of_a_finding_is_what_was_asked_as_a_shell_takes_it(
    tmp_path: Path, seconds: float, limit: list[str]
) -> None:
    """A check that took too long was replayed with the usual limit, and accepted the state; a tab became spaces."""
    trace, check = tmp_path / "a\ttrace", "sh -c 'test\t-e $0' {dir}"
    found = Finding(property="", phase="power", sentence="", evidence={"state": '5:["B",null,{}]'})
    phase = Phase(name="power", explored=1, complete=True, bound="", verdict=Verdict.INVALID, findings=(found,))
    (finding,) = _with_lines(phase, trace, "", Checker(command=check, seconds=seconds)).findings
    line = visible(finding.evidence["replay"])
    script = f"tornproof() {{ printf '%s\\0' \"$@\"; }}; {line}"
    said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout
    assert said.split("\0")[:-1] == ["power", str(trace), "--check", check, *limit, "--only-state", '5:["B",null,{}]']


@pytest.mark.nightly
def test_the_result_does_not_depend_on_the_number_of_workers(tornproof: WarmRunner, data: Path) -> None:
    trace = record(tornproof, data)
    told = []
    for workers in ("1", "2"):
        findings = data.parent / "findings"
        run = tornproof(
            *("power", trace, "--check", CHECK, "--models", "B,Cdir", "--effort", "small", "--json", "-"),
            *("--workers", workers, "--findings", findings),
        )
        document = run.document
        del document["times"]
        told.append(document)
    assert told[0] == told[1] and told[0]["findings"]


@pytest.mark.nightly
def test_on_spark_the_result_is_the_same(tornproof: WarmRunner, data: Path) -> None:
    trace, told = record(tornproof, data), []
    for where in (("--workers", "1"), ("--master", "local[1]")):
        run = tornproof("power", trace, "--check", CHECK, "--json", "-", "--findings", data.parent / "found", *where)
        assert run.code == 1
        told.append({name: value for name, value in run.document.items() if name not in ("times", "workers")})
    assert told[0] == told[1] and told[0]["findings"]


@pytest.mark.nightly
def test_a_report_has_the_findings(tornproof: WarmRunner, data: Path) -> None:
    trace, report = record(tornproof, data), data.parent / "report"
    findings = data.parent / "findings"
    run = tornproof("power", trace, "--check", CHECK, "--models", "B", "--report", report, "--findings", findings)
    assert run.code == 1
    assert [file.name for file in findings.iterdir()] == [file.name for file in (report / "findings").iterdir()]
    page = (report / "report.html").read_text()
    assert "rename of new to current is not on disk" in page


@pytest.mark.nightly
def test_an_end_that_the_checker_rejects_gives_no_verdict(tornproof: WarmRunner, data: Path) -> None:
    trace = record(tornproof, data)
    run = tornproof("power", trace, "--check", "test -e {dir}/other")
    assert run.code == 3 and "the checker rejects the end of the run" in run.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("record", "--dir", "none", "--out", "t", "--", "true"), "none: not a directory"),
        (("record", "--dir", ".", "--out", "t", "--ack", "(", "--", "true"), "--ack '('"),
        (("record", "--dir", ".", "--out", "t", "--ack-fd", "1", "--", "true"), "1 is not from 3 to 9"),
        (("record", "--dir", ".", "--out", "t"), "Missing argument"),
        (("power", "none", "--check", "true {dir}"), "none: cannot read"),
        (("power", "bad", "--check", "true {dir}"), "bad: line 1"),
        (("power", "bad", "--check", "true"), "it must name the directory that it is to check as {dir}"),
        (("power", "bad", "--check", "true {dir}", "--models", "D"), "--models 'D': there are A, B"),
        (
            ("power", "bad", "--check", "true {dir}", "--master", "local", "--workers", "2"),
            "--workers and --seconds are for this machine",
        ),
    ],
)
def test_wrong_usage_is_a_sentence(
    tornproof: WarmRunner, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "bad").write_text("{}\n{}\n")
    run = tornproof(*arguments, folder=tmp_path)
    assert run.code == 2 and said in run.err and "Traceback" not in run.err, run
