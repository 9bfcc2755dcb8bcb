"""`tornproof check` with presets and scenarios: what it finds blind, how it says what it covered, and wrong usage."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from command_line import Run, WarmRunner, sentence_of
from depth import drawn, nightly
from golden_data import CopyOf

from tornproof.harness.systems.releases import PRESETS
from tornproof.harness.systems.scenario import scenario_names

REJECTED = "column chunk range"
H1 = "token at byte"
JULY = ("--preset", "questdb-2026-07")
POWER_CUT = "append-and-power-cut"
# Small enough to be explored whole.
FEW = ("one-commit-one-reader", "reader-lives-through-a-kill")
MORE = (*FEW, *drawn(4, sorted({*scenario_names()} - {*FEW})))


def scenarios(names: Sequence[str]) -> tuple[str, ...]:
    """Arguments that ask for scenarios."""
    return tuple(part for name in names for part in ("--scenario", name))


def check(tornproof: WarmRunner, folder: Path, *arguments: object) -> Run:
    return tornproof("check", *arguments, "--findings", folder, "--json", "-")


def sentences(run: Run, phase: str) -> list[str]:
    return [finding["sentence"] for finding in run.document["findings"] if finding["phase"] == phase]


FEW_OR_MORE = pytest.mark.parametrize(
    "asked",
    [
        scenarios(FEW),
        nightly((*scenarios(MORE), "--only", "schedules", "--only", "product")),
    ],
    ids=["two test_cases", "six test_cases"],
)


@pytest.mark.nightly
@FEW_OR_MORE
def test_9_4_2_rejects_reads_without_any_fault_and_loses_a_table_by_a_kill(
    tornproof: WarmRunner, tmp_path: Path, asked: tuple[str, ...]
) -> None:
    run = check(tornproof, tmp_path, "--preset", "questdb-9.4.2", *asked)
    assert run.code == 1 and run.document["preset"] == "questdb-9.4.2"
    assert [phase["name"] for phase in run.document["phases"]] == ["schedules", "product"]
    assert any(REJECTED in sentence for sentence in sentences(run, "schedules"))
    assert any(sentence.startswith("writer") and REJECTED in sentence for sentence in sentences(run, "product"))
    killed = []
    for finding in run.document["findings"]:
        document = json.loads(Path(finding["file"]).read_text())
        if finding["phase"] == "schedules" and REJECTED in finding["sentence"]:
            assert len(document["test_case"]["operations"]) == 1 and not crashes(document)
        if finding["phase"] == "product" and REJECTED in finding["sentence"] and crashes(document) == ["kill"]:
            killed.append(len(document["test_case"]["operations"]))
        again = tornproof("replay", finding["file"])
        assert again.code == 1 and again.out.rstrip().endswith("INVALID: it happens again")
    assert killed and min(killed) <= 3, "the orphan of a killed writer"


def crashes(document: dict[str, object]) -> list[str]:
    log = document["log"]
    assert isinstance(log, list)
    return [each["kind"] for each in log if each["kind"] in ("kill", "power")]


@pytest.mark.nightly
@FEW_OR_MORE
def test_2026_07_has_neither_but_its_own(tornproof: WarmRunner, tmp_path: Path, asked: tuple[str, ...]) -> None:
    run = check(tornproof, tmp_path, *JULY, *asked)
    assert run.code == 1 and any(H1 in sentence for sentence in sentences(run, "product"))
    assert not any(REJECTED in finding["sentence"] for finding in run.document["findings"])


@pytest.mark.nightly
def test_2026_07_tears_by_a_power_cut_what_it_has_acknowledged(tornproof: WarmRunner, tmp_path: Path) -> None:
    run = check(tornproof, tmp_path, *JULY, "--only", "power", "--scenario", POWER_CUT, "--effort", "small")
    assert run.code == 1 and any("before the file ends" in sentence for sentence in sentences(run, "power"))
    assert not any(REJECTED in finding["sentence"] for finding in run.document["findings"])


@pytest.mark.parametrize(
    ("scenario", "bound"),
    [
        (
            "one-commit-one-reader",
            "1 commits beside 1 fresh reader x 1 reads: every order of dependent calls",
        ),
        nightly("orphan-and-smaller-commit", "A complete: "),
        nightly("words-of-two-commits", "every execution of 2 commits"),
    ],
)
def test_one_scenario_is_complete_and_says_so(tornproof: WarmRunner, tmp_path: Path, scenario: str, bound: str) -> None:
    target = tmp_path / "out.json"
    asked = ("--scenario", scenario, "--bounds", "--findings", tmp_path / "findings", "--json", target)
    run = tornproof("check", *asked)
    ran = json.loads(target.read_text())["phases"]
    assert len(ran) == 1, "the other explorers have nothing to do"
    assert (ran[0]["verdict"], ran[0]["complete"], ran[0]["controls"]) == ("VALID", True, "passed"), ran[0]
    assert list(ran[0]["test_cases"]) == [scenario]
    assert run.code == 0 and run.out.startswith("sound and hardened: 0 findings in ")
    assert bound in run.out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--preset", "questdb-1"), f"there is no preset 'questdb-1'; there are {', '.join(PRESETS)}"),
        (("--scenario", "none"), f"there is no scenario 'none'; there are {', '.join(scenario_names())}"),
        (
            ("--preset", "questdb-9.4.2", "--only", "damage"),
            "--only damage: the phases that apply here are schedules, product, power, memory, random",
        ),
        (
            ("--scenario", "one-commit-one-reader", "--only", "power"),
            "--only power: the phases that apply here are schedules",
        ),
    ],
)
def test_wrong_usage_is_one_sentence(
    tornproof: WarmRunner, tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    run = tornproof("check", *arguments, "--findings", tmp_path)
    assert run.code == 2 and sentence_of(run) == sentence


def test_a_table_and_a_scenario_exclude_each_other(tornproof: WarmRunner, tmp_path: Path) -> None:
    run = tornproof("check", tmp_path, "--scenario", "one-commit-one-reader", "--findings", tmp_path)
    assert run.code == 2 and "name either a TABLE or scenarios" in sentence_of(run)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "explorers",
    # Those of schedules have most to do, and those of the product go through schedules too.
    [("memory",), nightly(("schedules", "product", "memory"))],
    ids=" ".join,
)
def test_a_real_table_is_explored_from_a_copy(
    tornproof: WarmRunner, tmp_path: Path, copy_of: CopyOf, explorers: tuple[str, ...]
) -> None:
    table = copy_of("tables/9.4.2/chain/table")
    before = {file: file.read_bytes() for file in table.rglob("*") if file.is_file()}
    only = [argument for name in explorers for argument in ("--only", name)]
    # It ends when all is explored, on a slow machine too.
    run = check(tornproof, tmp_path, table, *only, "--seconds", "250")
    assert run.code == 0
    assert [phase["name"] for phase in run.document["phases"]] == list(explorers)
    for phase in run.document["phases"]:
        # Of the disks that N-512 leaves only a sample is read, which the bound says.
        is_complete = phase["name"] != "product"
        assert (phase["verdict"], phase["complete"], phase["controls"]) == ("VALID", is_complete, "passed"), phase
        assert is_complete or phase["bound"].endswith("complete under A, D; a sample of them under N-512")
        assert all(name.startswith("the table, ") for name in phase["test_cases"])
    assert {file: file.read_bytes() for file in table.rglob("*") if file.is_file()} == before


def test_drawn_tables_are_new_ones(tornproof: WarmRunner, tmp_path: Path, copy_of: CopyOf) -> None:
    table = copy_of("tables/9.4.2/chain/table")
    run = tornproof("check", table, "--only", "random", "--findings", tmp_path)
    assert run.code == 2 and sentence_of(run).startswith("--only random: the phases that apply here are verify, ")
