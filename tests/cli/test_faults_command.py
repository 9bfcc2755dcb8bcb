"""`tornproof faults`: which faults it tries, what it prints and writes, and its exit code."""

import re
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from command_line import run_here
from depth import nightly
from golden_data import CHAIN

from tornproof import harness
from tornproof.cli.interruption import SIGNAL_BASE
from tornproof.cli.output import ExitCode
from tornproof.harness.mutation.fault_file import BENIGN, JUDGES, FaultFile, FaultFileError, fault_files
from tornproof.harness.trial import SCHEMA, Row, Trials, is_set_aside
from tornproof.impl.errors import NotATableError, UsageError

NAME, MISSED = "merge loses a row", "data not synced (F1)"
MEMORY = ("--only", "memory", "--effort", "small", "--replays", 1)


def listed(*arguments: object) -> list[str]:
    run = run_here("faults", "--list", "--json", "-", *arguments)
    assert run.code == ExitCode.VALID
    return [each["name"] for each in run.document["faults"]]


def test_all_faults_are_listed_but_judges_and_benign_changes_only_when_they_are_named() -> None:
    others = {each.name for each in fault_files() if each.family in (JUDGES, BENIGN)}
    names = {each.name for each in fault_files()}
    assert {*listed()} == names - others and NAME in names
    assert {*listed("--family", "updates")} == {each.name for each in fault_files() if each.family == "updates"}
    assert {*listed("--set-aside")} == {name for name in names - others if is_set_aside(name)}
    assert listed(NAME) == [NAME]


def test_faults_of_a_folder_are_tried_instead_of_ours(tmp_path: Path) -> None:
    family = tmp_path / "own"
    family.mkdir()
    (family / "a-mistake.toml").write_text(
        """story = "a constant is another one"
file = "impl/limits.py"
before = "GENERATION_COUNT_LIMIT = 65_536"
after = "GENERATION_COUNT_LIMIT = 65_535"
"""
    )
    assert listed("--from", tmp_path) == ["a mistake"]
    (family / "b.toml").write_text("story = 1")
    with pytest.raises(FaultFileError, match=r"own/b\.toml"):
        listed("--from", tmp_path, "--family", "own")


def test_a_folder_without_faults_is_said_to_hold_none(tmp_path: Path) -> None:
    """It was said that no fault is both in these families and set aside, without a word of either."""
    with pytest.raises(UsageError, match=rf"^{tmp_path}: holds no faults; each is a file in the folder of its family"):
        listed("--from", tmp_path)
    copy_of_one(JUDGES, tmp_path)
    with pytest.raises(UsageError, match="all of its faults are in judges and benign, which are tried only when named"):
        listed("--from", tmp_path)
    with pytest.raises(UsageError, match=r"^none of these faults is set aside$"):
        listed("--set-aside", next(each.name for each in fault_files() if not is_set_aside(each.name)))


def copy_of_one(family: str, folder: Path) -> None:
    """Copy the first fault of a family into a folder of families."""
    source = min((Path(harness.__file__).parent / "faults" / family).glob("*.toml"))
    (folder / family).mkdir()
    shutil.copy(source, folder / family)


def test_a_table_that_is_not_there_is_said_before_any_fault_is_tried(tmp_path: Path) -> None:
    """Each fault was tried on it, and reported as reached, triggered and missed."""
    with pytest.raises(NotATableError):
        run_here("faults", NAME, "--table", tmp_path / "table", "--report", tmp_path / "report")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [("nothing of the kind",), ("--family", "nothing of the kind")])
def test_a_name_that_does_not_exist_is_rejected_in_a_sentence(arguments: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="tornproof faults --list names all"):
        run_here("faults", *arguments)


@pytest.mark.parametrize("more", [(), ("--all-phases",), ("--list",), ("--only", "memory")])
@pytest.mark.parametrize("phase", ["verify", "random", "server"])
def test_a_phase_that_explores_no_given_table_is_rejected(
    monkeypatch: pytest.MonkeyPatch, phase: str, more: tuple[str, ...]
) -> None:
    """All phases were tried instead, and with --all-phases none, which was said to be VALID."""
    monkeypatch.setattr(Trials, "rows", lambda *_: iter(()))
    with pytest.raises(UsageError, match=f"^--only {phase}: the phases that are tried are storage, .*, processes$"):
        run_here("faults", NAME, "--only", phase, *more)


@pytest.mark.parametrize("is_real", [False, nightly(True)], ids=["rows of the test", "a check"])
def test_what_is_found_told_and_missed_told_nothing_is_printed_and_written(
    questdb_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_real: bool
) -> None:
    """The orders of stores and loads, a cheap phase, do not show what a missing sync loses."""

    def missed(trials: Trials, fault: FaultFile, seed: int) -> Iterator[Row]:
        yield {**row_of(fault, seed), "argument": "", "phase": "memory", "reached": True}

    if not is_real:
        monkeypatch.setattr(Trials, "rows", missed)
    folder = tmp_path / "report"
    run = run_here("faults", MISSED, "--told", "--table", questdb_data / CHAIN, *MEMORY, "--report", folder)
    assert run.code == ExitCode.INVALID
    assert "told the scenario" in run.out and "told nothing" in run.out
    assert f"missed {MISSED} (barriers, seed 0): reached" in run.out
    # Where standard error is no terminal, each trial that has ended has its line.
    ends = [
        re.fullmatch(rf"(\d) of 2: {re.escape(MISSED)}: (\w+) in (\w+) after [\d.]+ s of CPU time", line)
        for line in run.err.splitlines()
    ]
    assert sorted(end[2] for end in ends if end) == ["INVALID", "VALID"] and [end[1] for end in ends if end] == [
        "1",
        "2",
    ]
    rows = pq.read_table(folder / "faults.parquet", schema=SCHEMA).to_pylist()
    assert [(each["phase"], each["verdict"]) for each in rows] == [("told", "INVALID"), ("memory", "VALID")]
    assert "finds 0 of 1 planted fault" in (folder / "report.html").read_text()


@pytest.mark.nightly
def test_without_seeds_only_those_that_are_told_are_tried(tmp_path: Path) -> None:
    run = run_here("faults", NAME, "--told", "--seeds", "0", "--report", tmp_path)
    assert run.code == ExitCode.VALID
    rows = pq.read_table(tmp_path / "faults.parquet", schema=SCHEMA).to_pylist()
    assert [(each["phase"], each["verdict"]) for each in rows] == [("told", "INVALID")]
    with pytest.raises(UsageError, match="--seeds 0: nothing is tried"):
        run_here("faults", NAME, "--seeds", "0")


def row_of(fault: FaultFile, seed: int) -> Row:
    """Return a row of a fault that is not reached and not found."""
    values = {"seed": seed, "case_count": 1, "replayed_count": 0, "replay_count": 0, "cpu_seconds": 1.0}
    texts = {**dict.fromkeys(("fault", "argument", "phase", "property", "cause"), fault.name), "family": fault.family}
    flags = dict.fromkeys(("is_set_aside", "reached", "triggered"), False)
    return {**texts, **values, **flags, "verdict": "VALID", "sentence": ""}


def test_trials_that_have_ended_are_on_disk_when_a_later_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows(trials: Trials, fault: FaultFile, seed: int) -> Iterator[Row]:
        if fault.name == NAME:
            raise OSError("no space left on device")
        yield {**row_of(fault, seed), "sentence": "half a character \udc80"}

    monkeypatch.setattr(Trials, "rows", rows)
    with pytest.raises(OSError, match="no space"):
        run_here("faults", NAME, "token forgotten", "--workers", 1, "--report", tmp_path)
    (row,) = pq.read_table(tmp_path / "faults.parquet").to_pylist()
    assert row["fault"] == "token forgotten" and row["sentence"].endswith("\\udc80")


OTHER = "token forgotten"
INTERRUPTED = SIGNAL_BASE + signal.SIGINT


def test_an_interrupt_before_any_trial_ended_leaves_the_earlier_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of trials was replaced by an empty one, and the report turned from INVALID to VALID."""
    monkeypatch.setattr(Trials, "rows", lambda _, fault, seed: iter([row_of(fault, seed) | {"argument": ""}]))
    assert run_here("faults", NAME, "--report", tmp_path).code == ExitCode.INVALID
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    monkeypatch.setattr(Trials, "rows", interrupted_at(NAME))
    assert run_here("faults", NAME, "--report", tmp_path).code == INTERRUPTED
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert run_here("faults", NAME, "--report", tmp_path / "new").code == INTERRUPTED
    assert list((tmp_path / "new").iterdir()) == []


def interrupted_at(name: str) -> Callable[[Trials, FaultFile, int], Iterator[Row]]:
    """Return what finds each fault, but is interrupted at the one of this name."""

    def rows(trials: Trials, fault: FaultFile, seed: int) -> Iterator[Row]:
        if fault.name == name:
            raise KeyboardInterrupt
        yield {**row_of(fault, seed), "argument": "", "verdict": "INVALID"}

    return rows


def test_a_report_of_fewer_trials_than_were_wanted_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trials, "rows", interrupted_at(NAME))
    run = run_here("faults", OTHER, NAME, "--workers", 1, "--report", tmp_path)
    assert run.code == INTERRUPTED
    assert "1 of 2 trials have ended" in (tmp_path / "report.html").read_text()
    assert run_here("report", tmp_path).code == ExitCode.UNKNOWN
    assert run_here("faults", OTHER, "--workers", 1, "--report", tmp_path).code == ExitCode.VALID
    assert run_here("report", tmp_path).code == ExitCode.VALID


def test_with_one_seed_each_fault_has_another_of_those_that_are_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trials, "rows", lambda _, fault, seed: iter([row_of(fault, seed)]))
    run_here("faults", "--seeds", 30, "--one-seed", "--report", tmp_path)
    rows = pq.read_table(tmp_path / "faults.parquet").to_pylist()
    assert len({row["fault"] for row in rows}) == len(rows) > 700
    counts = Counter(row["seed"] for row in rows)
    assert sorted(counts) == [*range(30)] and max(counts.values()) < 50
    with pytest.raises(UsageError, match="--seeds 0: nothing is tried"):
        run_here("faults", NAME, "--seeds", 0, "--one-seed")


def test_a_told_trial_that_misses_counts_for_the_command_and_for_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command ended with INVALID, and the report on the same trials with VALID."""
    monkeypatch.setattr(Trials, "told_row", lambda _, fault: {**row_of(fault, 0), "argument": "", "phase": "told"})
    run = run_here("faults", NAME, "--told", "--seeds", "0", "--report", tmp_path)
    assert run.code == ExitCode.INVALID and f"missed {NAME} (updates, told): not reached" in run.out
    assert f"{NAME} (updates), told: not reached" in (tmp_path / "report.html").read_text()
    assert "<failure" in (tmp_path / "junit.xml").read_text()
    assert run_here("report", tmp_path).code == ExitCode.INVALID
