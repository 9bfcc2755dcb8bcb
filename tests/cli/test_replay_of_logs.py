"""`tornproof replay` of a finding of the simulator: explained on a terminal, data for machines, from its file alone."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import WarmRunner, sentence_of
from random_runs import cut_finding, switched_finding

from tornproof.cli.findings import load_finding, save_findings
from tornproof.harness.common.verdict import Finding, Phase, Verdict
from tornproof.harness.counterexamples.older_words import FORMAT
from tornproof.harness.simulator.persistence.models import B
from tornproof.harness.systems.workload import made_image

TIMES = 3


def saved(folder: Path, finding: Finding | None = None) -> Path:
    findings = (finding or switched_finding(),)
    phase = Phase(
        name="schedules", explored=1, complete=True, bound="", verdict=Verdict.INVALID, seconds=0, findings=findings
    )
    (entry,) = save_findings([phase], "made", "made", made_image(), folder)
    return Path(entry["file"])


def edited(file: Path, **changes: Any) -> Path:
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    return file


def test_a_finding_of_a_log_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    file = saved(tmp_path)
    document = json.loads(file.read_text())
    assert document["format"] == FORMAT
    assert {"scenario", "test_case", "log", "property", "evidence"} < document.keys()
    assert "start_files" not in document
    loaded, _, _ = load_finding(file)
    assert loaded == switched_finding()


def test_it_is_seen_again_each_time_with_the_same_evidence(tornproof: WarmRunner, tmp_path: Path) -> None:
    file = saved(tmp_path)
    runs = [tornproof("replay", file, "--json", "-") for _ in range(TIMES)]
    assert {run.code for run in runs} == {1}
    assert len({run.out for run in runs}) == 1
    document = runs[0].document
    assert (document["verdict"], document["same_evidence"], document["note"]) == ("INVALID", True, "")
    assert document["explanation"] == switched_finding().evidence["explanation"]


def test_it_is_explained(tornproof: WarmRunner, tmp_path: Path) -> None:
    run = tornproof("replay", saved(tmp_path))
    assert (run.code, run.err) == (1, "")
    for part in (
        switched_finding().sentence,
        "Broken: ",
        "Let a writer",
        "Then reader 1",
        "It does not happen when",
        "Nearest run",
        "writer",
        "disk",
    ):
        assert part in run.out
    assert "The run differs" not in run.out
    assert run.out.endswith("INVALID: it happens again\n")


@pytest.mark.nightly
def test_the_bytes_of_a_power_cut_are_shown(tornproof: WarmRunner, tmp_path: Path) -> None:
    run = tornproof("replay", saved(tmp_path, cut_finding(B)))
    assert run.code == 1
    assert "kept  2024-01-01T" in run.out and "lost  2024-01-01T" in run.out and "PARQUET_META_FILE_SIZE" in run.out
    assert "Bytes that were not durable" not in tornproof("replay", saved(tmp_path)).out


def test_other_evidence_is_said(tornproof: WarmRunner, tmp_path: Path) -> None:
    file = saved(tmp_path)
    evidence = json.loads(file.read_text())["evidence"]
    evidence["explanation"]["trace"] = "another"
    run = tornproof("replay", edited(file, evidence=evidence))
    assert run.code == 1
    assert "The run differs from the one in the file." in run.out


def test_a_log_that_breaks_nothing_is_exit_0(tornproof: WarmRunner, tmp_path: Path) -> None:
    run = tornproof("replay", edited(saved(tmp_path), log=[]))
    assert (run.code, run.err) == (0, "")
    assert run.out.endswith("VALID: it does not happen any more\n")


def test_a_log_that_does_not_apply_is_exit_3_and_says_so(tornproof: WarmRunner, tmp_path: Path) -> None:
    log = [{**switched_finding().evidence["log"][0], "to": "reader 7"}]
    run = tornproof("replay", edited(saved(tmp_path), log=log))
    assert (run.code, run.err) == (3, "")
    assert "1 of its decisions does not apply: writer@commit 0" in run.out
    assert run.out.endswith("UNKNOWN: this release cannot replay it\n")


@pytest.mark.parametrize("changes", [{"format": 5}, {"format": "2"}, {"format": None}, {"evidence": 7}], ids=str)
def test_a_format_of_another_release_is_exit_2(
    tornproof: WarmRunner, tmp_path: Path, changes: dict[str, object]
) -> None:
    file = edited(saved(tmp_path), **changes)
    run = tornproof("replay", file)
    assert (run.code, run.out) == (2, "")
    assert sentence_of(run).startswith(f"{file}: ")


@pytest.mark.parametrize("name", ["log", "test_case", "scenario"])
def test_a_file_without_its_log_is_exit_2(tornproof: WarmRunner, tmp_path: Path, name: str) -> None:
    file = saved(tmp_path)
    document = json.loads(file.read_text())
    del document[name]
    file.write_text(json.dumps(document))
    assert tornproof("replay", file).code == 2
