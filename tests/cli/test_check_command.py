"""`tornproof check` as its users meet it: verdicts as exit codes, the JSON contract, a table that stays as it was."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pm_builder as pm
import pytest
import table_builder as tb
from command_line import Run, WarmRunner, cold_run, run_here, sentence_of
from depth import nightly
from golden_data import CHAIN, CUT_DATA, LEGACY, CopyOf

from tornproof.cli.check_report import ALWAYS_SHOWN
from tornproof.cli.numbers import CORES, WORKERS_MAX
from tornproof.harness.common.effort import DEFAULT, EFFORTS, Bounds
from tornproof.harness.explorers.corruption.judge import Outcome
from tornproof.harness.parallel.tasks import Outcome as CheckOutcome
from tornproof.impl.errors import UsageError

TABLE = tb.SMALL
# The explorers that only read, not in the order in which they begin.
READING = ("--only", "roundtrip", "--only", "damage", "--only", "verify")
KEYS = {"format", "target", "preset", "seed", "effort", "bounds", "cut_by", "verdict", "phases", "findings"}
KEYS |= {"path", "times", "varying"}
PHASE_KEYS = {
    "name",
    "explored",
    "complete",
    "bound",
    "verdict",
    "counts",
    "exposures",
    "reached",
    "controls",
}
PHASE_KEYS |= {"note", "fields", "test_cases"}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return TABLE.write_to(tmp_path / "table")


def content_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def phases_of(run: Run) -> dict[str, dict[str, object]]:
    return {phase["name"]: phase for phase in run.document["phases"]}


@dataclass(frozen=True)
class Checked:
    """What one check by those who read left, and what it found where it started."""

    run: Run
    document: Any
    folder: Path
    table: Path
    before: dict[Path, bytes]


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    """A sound table checked from a shell once, because to try every damage takes long."""
    folder, result = tmp_path_factory.mktemp("checked"), tmp_path_factory.mktemp("result") / "out.json"
    table = TABLE.write_to(folder / "table")
    before = content_of(table)
    asked = ("--only", "verify", "--only", "damage", "--workers", "2", "--bounds")
    run = cold_run("check", table, *asked, "--json", result, folder=folder)
    return Checked(run, json.loads(result.read_text()), folder, table, before)


def test_a_sound_table_is_valid_from_a_shell_and_stays_as_it_was(checked: Checked) -> None:
    assert (checked.run.code, checked.run.err) == (0, "")
    cases = sum(phase["explored"] for phase in checked.document["phases"])
    assert checked.run.out.startswith(f"sound and hardened: 0 findings in {cases:,} cases\n\nphase ")
    assert checked.run.out.endswith(
        f"next: tornproof check {checked.table} --only verify --only damage --effort large\n"
    )
    assert max(map(len, checked.run.out.splitlines()[:-1])) <= 80
    assert not {"\x1b", "\r"} & set(checked.run.out)
    assert content_of(checked.table) == checked.before
    assert list(checked.folder.iterdir()) == [checked.table]


def test_json_has_the_keys_of_the_contract(checked: Checked) -> None:
    document = checked.document
    assert document.keys() == KEYS
    assert (document["format"], document["target"], document["verdict"]) == (2, str(checked.table), "VALID")
    assert document["findings"] == [] and document["cut_by"] is None
    bounds = asdict(Bounds.of(document["effort"]))
    assert document["effort"] == EFFORTS[DEFAULT] and document["bounds"] == bounds
    times = document["times"]
    assert times["workers"] == 2 and list(times["phases"]) == ["verify", "damage"]
    assert all(each.keys() == {"seconds", "cpu_seconds"} for each in times["phases"].values())
    assert [phase["name"] for phase in document["phases"]] == ["verify", "damage"]
    assert all(phase.keys() == PHASE_KEYS for phase in document["phases"])
    assert all(phase["complete"] and phase["verdict"] == "VALID" for phase in document["phases"])
    _, damage = document["phases"]
    outcomes = {outcome.value: damage["counts"][outcome.value] for outcome in Outcome}
    assert damage["explored"] == sum(outcomes.values()) > 5_000
    assert set(outcomes) == {
        *("rejected", "harmless", "legal state", "rollback", "exposure", "forged", "silent", "nonconforming")
    }
    assert damage["controls"] == "passed"
    by_field = sum(sum(found.values()) for fields in damage["fields"].values() for found in fields.values())
    assert by_field == damage["explored"]


def test_text_adds_up_to_what_json_says(checked: Checked) -> None:
    (damage,) = (phase for phase in checked.document["phases"] if phase["name"] == "damage")
    (totals,) = (line.split()[1:] for line in checked.run.out.splitlines() if line.startswith("all "))
    shown = [damage["counts"][outcome.value] for outcome in Outcome]
    assert [int(total.replace(",", "")) for total in totals] == [
        count for count, outcome in zip(shown, Outcome, strict=True) if count or outcome in ALWAYS_SHOWN
    ]


def test_one_explorer_can_run_alone(tornproof: WarmRunner, table: Path) -> None:
    run = tornproof("check", table, "--only", "verify", "--workers", "1", "--json", "-")
    assert run.code == 0
    assert phases_of(run).keys() == {"verify"}


def test_a_damaged_table_is_exit_1_whatever_was_asked_for(
    tornproof: WarmRunner, copy_of: CopyOf, tmp_path: Path
) -> None:
    damaged, findings = copy_of(CUT_DATA), tmp_path / "findings"
    before = content_of(damaged)
    run = tornproof("check", damaged, "--only", "damage", "--findings", findings, "--json", "-")
    assert run.code == 1
    assert run.document["verdict"] == "INVALID"
    assert phases_of(run).keys() == {"verify"}
    (found,) = run.document["findings"]
    assert found.keys() == {"file", "property", "phase", "sentence", "causes"}
    assert [str(path) for path in findings.iterdir()] == [found["file"]]
    assert "size: expected 6667 bytes or more" in found["sentence"]
    assert content_of(damaged) == before


def test_metadata_that_is_encoded_differently_is_invalid(tornproof: WarmRunner, tmp_path: Path) -> None:
    # A count that no flag declares: no reader looks at it, and our writer would have left it zero.
    odd = TABLE.with_file(tb.PM, pm.set_chunk(TABLE.files[tb.PM], "distinct_count", 7))
    folder = odd.write_to(tmp_path / "table")
    assert tornproof("verify", folder).code == 0
    asked = ("--only", "roundtrip", "--effort", "small", "--workers", "1", "--fail-fast")
    run = tornproof("check", folder, *asked, "--findings", tmp_path / "findings")
    assert run.code == 1
    assert "is encoded differently from byte" in " ".join(run.out.split())
    assert run.out.startswith("broken: 1 finding in ")
    assert "next: tornproof replay" in run.out


@pytest.mark.nightly
def test_a_ceiling_makes_the_bound_smaller_and_says_so(tornproof: WarmRunner, questdb_data: Path) -> None:
    table = questdb_data / "tables/9.4.2/history/table"
    run = tornproof(
        "check", table, "--only", "stateful", "--effort", "10000", "--seconds", "1", "--workers", "1", "--json", "-"
    )
    (phase,) = run.document["phases"]
    assert (run.document["cut_by"], phase["complete"]) == ("seconds", False)
    assert run.code == (0 if phase["explored"] and phase["controls"] == "passed" else 3)


def test_a_check_that_fails_fast_ends_with_the_first_finding_and_says_so(tornproof: WarmRunner, tmp_path: Path) -> None:
    asked = ("check", "--preset", "questdb-9.4.2-async", "--only", "product", "--only", "schedules", "--workers", "1")
    run = tornproof(*asked, "--effort", "small", "--fail-fast", "--findings", tmp_path, "--json", "-")
    assert (run.code, run.document["cut_by"], len(run.document["findings"])) == (1, "finding", 1)
    schedules, product = run.document["phases"]
    assert schedules["verdict"] == "INVALID" and (product["name"], product["explored"]) == ("product", 0)
    times = run.document["times"]
    assert 0 < times["first_finding_cpu_seconds"] < times["phases"]["schedules"]["cpu_seconds"]


@pytest.mark.nightly
def test_a_table_without_parquet_partitions_is_exit_3(tornproof: WarmRunner, tmp_path: Path) -> None:
    empty = TABLE.with_file("_txn", tb.txn(rows=0, token=0, entries=[])).write_to(tmp_path / "table")
    run = tornproof("check", empty, *READING, "--workers", "1", "--json", "-")
    assert run.code == 3
    assert {name: phase["verdict"] for name, phase in phases_of(run).items()} == {
        "verify": "VALID",
        "roundtrip": "UNKNOWN",
        "damage": "UNKNOWN",
    }


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "bounds"),
    [("", replace(Bounds.of(1), damages=100)), ("tables/9.4.2/allnull/table", Bounds.of(1))],
    ids=["less than small", "small"],
)
def test_damage_of_a_table_that_is_large_for_the_effort_is_a_sample_and_said_to_be_one(
    questdb_data: Path, table: Path, monkeypatch: pytest.MonkeyPatch, name: str, bounds: Bounds
) -> None:
    monkeypatch.setattr(Bounds, "of", lambda effort: bounds)
    asked = ("--only", "damage", "--effort", "small", "--workers", "1", "--json", "-")
    run = run_here("check", questdb_data / name if name else table, *asked)
    assert (run.code, run.err, run.document["effort"]) == (0, "", 1)
    assert phases_of(run).keys() == {"damage"}
    damage = phases_of(run)["damage"]
    assert not damage["complete"] and "data.parquet: one of " in str(damage["bound"])


@pytest.mark.parametrize("asked", [("verify", "damage"), nightly(("verify", "roundtrip"))], ids=" ".join)
def test_a_table_from_before_pm_is_exit_3(tornproof: WarmRunner, questdb_data: Path, asked: tuple[str, str]) -> None:
    only = [argument for phase in asked for argument in ("--only", phase)]
    run = tornproof("check", questdb_data / LEGACY, *only, "--effort", "small", "--workers", "1", "--json", "-")
    assert run.code == 3
    phases = phases_of(run)
    assert {name: phase["verdict"] for name, phase in phases.items()} == dict(
        zip(asked, ("VALID", "UNKNOWN"), strict=True)
    )
    assert "a release before 9.4.0 wrote it, and it can be migrated" in str(phases["verify"]["note"])
    notes = {
        "roundtrip": "the table has no _pm, so there was nothing to encode",
        "damage": "was not migrated",
    }
    assert notes[asked[1]] in str(phases[asked[1]]["note"])


@pytest.mark.parametrize(
    "arguments",
    [
        ("--only", "nope"),
        ("--seconds", "0"),
        ("--seconds", "1e308"),
        ("--seconds", "inf"),
        ("--seconds", "nan"),
        ("--seed", "-1"),
        ("--seed", "9" * 20),
        ("--workers", "0"),
        ("--workers", "100000"),
        ("--effort", "0"),
        ("--effort", "10001"),
        ("--effort", "9" * 20),
        ("--effort", "tiny"),
        ("--seconds", "soon"),
        ("more",),
    ],
    ids=" ".join,
)
def test_arguments_that_make_no_sense_are_exit_2(
    tornproof: WarmRunner, table: Path, arguments: tuple[str, ...]
) -> None:
    run = tornproof("check", table, *arguments)
    assert (run.code, run.out) == (2, "")
    assert sentence_of(run)


def test_a_number_that_no_run_can_take_is_rejected_with_those_that_one_can(tornproof: WarmRunner, table: Path) -> None:
    run = tornproof("check", table, "--workers", WORKERS_MAX + 1)
    assert (run.code, run.out) == (2, "")
    assert f"{WORKERS_MAX + 1} is not from 1 to {WORKERS_MAX:,} (four times the {CORES} cores" in sentence_of(run)


def test_json_to_a_place_that_cannot_be_written_is_exit_2(tornproof: WarmRunner, table: Path, tmp_path: Path) -> None:
    target = tmp_path / "missing" / "out.json"
    run = tornproof("check", table, "--only", "verify", "--json", target)
    assert run.code == 2
    assert sentence_of(run) == f"{target}: cannot write: No such file or directory"


def test_findings_that_cannot_be_written_are_exit_2(tornproof: WarmRunner, copy_of: CopyOf, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("")
    run = tornproof("check", copy_of(CUT_DATA), "--findings", taken)
    assert run.code == 2
    assert sentence_of(run) == f"{taken}: cannot write: Not a directory"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "tornproof-findings: it is in the table "),
        (("--findings", "/proc/foo"), "/proc/foo: cannot write: "),
        (("--findings", "../findings", "--json", "../missing/out.json"), "../missing/out.json: cannot write: "),
        (("--report", "rep"), "rep: it is in the table "),
        (("--report", "../rep", "--findings", "findings"), "findings: it is in the table "),
        (("--report", "../rep", "--json", "../rep/report.html"), "two outputs cannot both go to "),
        (("--report", "../rep", "--json", "../missing/out.json"), "../missing/out.json: cannot write: "),
    ],
    ids=" ".join,
)
def test_an_output_without_a_place_is_rejected_before_anything_is_done(
    tornproof: WarmRunner, table: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    """The table was explored to the end, and then findings and verdict were lost."""
    before = sorted(table.parent.rglob("*"))
    run = tornproof("check", ".", *arguments, folder=table)
    assert (run.code, run.out) == (2, "") and sentence_of(run).startswith(sentence)
    assert sorted(table.parent.rglob("*")) == before


def test_json_may_go_into_the_folder_that_a_report_makes(tornproof: WarmRunner, table: Path, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    assert tornproof("check", table, "--only", "verify", "--report", folder, "--json", folder / "a.json").code == 0
    assert (folder / "a.json").is_file()


def test_a_verdict_is_printed_although_it_cannot_be_saved(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise UsageError("no space left")

    printed: list[object] = []
    monkeypatch.setattr("tornproof.cli.commands.check.write_json", fail)
    monkeypatch.setattr(
        "tornproof.cli.commands.check.print_check", lambda console, asked, outcome, saved, **_: printed.append(outcome)
    )
    with pytest.raises(UsageError, match="no space left"):
        run_here("check", table, "--only", "verify", "--workers", "1")
    assert len(printed) == 1


def test_a_run_is_saved_before_standard_output_can_end(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `| head -1` no run was saved."""

    def end(*arguments: object, **others: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("tornproof.cli.commands.check.print_check", end)
    with pytest.raises(BrokenPipeError):
        run_here("check", table, "--only", "verify", "--workers", "1", "--report", tmp_path / "report")
    assert (tmp_path / "report/runs/run-0001.json").is_file() and (tmp_path / "report/report.html").is_file()


def test_the_next_command_asks_the_same_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """It left out the preset, the scenarios and the phases."""
    monkeypatch.setattr("tornproof.cli.commands.check.check_image", lambda *arguments, **others: CheckOutcome())
    given = ("--preset", "hardened", "--scenario", "reader-falls-behind", "--only", "schedules")
    run = run_here("check", *given, "--seed", "7")
    assert run.out.endswith(f"next: tornproof check {' '.join(given)} --seed 7 --effort medium --bounds\n")


@pytest.mark.parametrize(("name", "word"), [("a\tb", "$'a\\x09b'"), ("a b", "'a b'")])
def test_the_next_command_names_a_table_so_that_a_shell_finds_it(
    tmp_path: Path, name: str, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tab was printed as spaces."""
    monkeypatch.chdir(tmp_path)
    TABLE.write_to(tmp_path / name)
    run = run_here("check", name, "--only", "verify", "--workers", "1")
    assert run.out.endswith(f"next: tornproof check {word} --only verify --effort large\n")


def test_a_seed_is_kept_in_the_answer(tornproof: WarmRunner, table: Path) -> None:
    run = tornproof("check", table, "--only", "verify", "--seed", "7", "--json", "-")
    assert (run.code, run.document["seed"]) == (0, 7)


@pytest.mark.parametrize("only", ["stateful", nightly("crash"), nightly("processes")])
def test_a_table_that_cannot_be_written_to_is_unknown_to_those_who_commit(
    tornproof: WarmRunner, questdb_data: Path, only: str
) -> None:
    run = tornproof("check", questdb_data / LEGACY, "--only", only, "--json", "-")
    assert run.code == 3
    (phase,) = (phase for phase in run.document["phases"] if phase["name"] == only)
    assert phase["explored"] == 0 and phase["note"]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "is_complete"),
    [(CHAIN, True), ("crashes/9.4.2/sync-1-00/table", False)],
)
def test_every_damage_of_a_real_table_is_rejected_or_harmless(
    tornproof: WarmRunner, questdb_data: Path, name: str, is_complete: bool
) -> None:
    run = tornproof("check", questdb_data / name, *READING, "--json", "-", timeout_seconds=1800)
    assert run.code == 0
    damage = phases_of(run)["damage"]
    assert (damage["complete"], damage["verdict"], damage["note"]) == (is_complete, "VALID", "")
    assert "not tried" not in str(damage["bound"])
