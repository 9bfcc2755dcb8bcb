"""`tornproof campaign` as its users meet it: what it prints, the JSON, the findings, and the exit codes."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tornproof.cli.commands.campaign as command
from tornproof.cli.app import app
from tornproof.cli.output import ExitCode, exit_code_of
from tornproof.pipeline.campaign import spec as campaign_spec
from tornproof.pipeline.campaign.job import claim, run_campaign
from tornproof.pipeline.campaign.results import Summary
from tornproof.pipeline.campaign.spec import CampaignError, Group, Seeds, Spec
from tornproof.pipeline.campaign.tasks import RESULTS, complete_task, plan_of
from tornproof.pipeline.files import Location
from tornproof.pipeline.spark.java import PipelineUnavailableError

CONTROL = Group(name="controls-x", faults=("prev is always 0",), seeds=Seeds(count=8), control=True)


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """All tasks are done here, one after the other; the tests of the pipeline run the command on Spark."""

    @contextmanager
    def session(master: str | None, *, name: str, settings: dict[str, str]) -> Iterator[None]:
        yield None

    def run(spark: Any, spec: Spec, out: Location, **reported: Any) -> Summary:
        claim(spec, out)
        for task in reversed(plan_of(spec)):
            if not task.path(out, RESULTS).exists():
                complete_task(task, out)
        return run_campaign(spark, spec, out, **reported)

    monkeypatch.setattr(command, "spark_session", session)
    monkeypatch.setattr(command, "run_campaign", run)
    monkeypatch.setattr(campaign_spec, "CONTROL_GROUPS", (CONTROL,))


def spec_file(folder: Path, rest: str) -> str:
    file = folder / "spec.toml"
    file.write_text(f'format = 1\nname = "small"\n\n[[groups]]\nname = "g"\nseeds = {{ count = 8 }}\n{rest}\n')
    return str(file)


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["campaign", *arguments], standalone_mode=False)
    assert result.exception is None, result.exception
    return result.return_value, result.stdout


def test_a_sound_campaign_says_valid_with_its_denominators(tmp_path: Path) -> None:
    spec = spec_file(tmp_path, 'scenarios = ["append-and-power-cut", "sync-fails"]')
    code, out = run("--spec", spec, "--out", str(tmp_path / "out"))
    assert code == ExitCode.VALID
    assert "24 runs of 3 test cases in 3 tasks" in out and "0 findings; result hash " in out
    assert "positive controls: 1 of 1 detected" in out and out.endswith("small: VALID\n")
    assert not (tmp_path / "out" / "findings").exists()


def test_findings_are_shown_written_and_replayed_and_a_rerun_writes_none_anew(tmp_path: Path) -> None:
    spec = spec_file(tmp_path, 'scenarios = ["append-and-power-cut"]\npresets = ["specification"]')
    arguments = ("--spec", spec, "--out", str(tmp_path / "out"), "--json", str(tmp_path / "out.json"))
    code, out = run(*arguments)
    assert code == ExitCode.INVALID and out.endswith("small: INVALID\n")
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["verdict"] == "INVALID" and document["groups"]["g"]["INVALID"] >= len(document["findings"]) > 0
    assert sum(each["runs"] for each in document["coverage"]) == document["runs"] == 16
    times = {}
    for finding in document["findings"]:
        assert f"replay: tornproof replay {finding['file']}" in out
        assert f"append-and-power-cut, specification, seed {finding['seed']}" in out
        again = CliRunner().invoke(app, ["replay", finding["file"]], standalone_mode=False)
        assert again.return_value == ExitCode.INVALID and "it happens again" in again.stdout
        times[finding["file"]] = Path(finding["file"]).stat().st_mtime_ns
    assert run(*arguments)[0] == ExitCode.INVALID
    assert json.loads((tmp_path / "out.json").read_text()) == document
    assert {file: Path(file).stat().st_mtime_ns for file in times} == times


@pytest.mark.nightly
def test_a_finding_that_was_made_of_another_run_is_made_anew(tmp_path: Path) -> None:
    spec = spec_file(tmp_path, 'scenarios = ["append-and-power-cut"]\npresets = ["specification"]')
    arguments = ("--spec", spec, "--out", str(tmp_path / "out"), "--json", "-")
    document = json.loads(run(*arguments)[1])
    file = Path(document["findings"][0]["file"])
    content = file.read_text()
    for wrong in ("{", content.replace('"seed": ', '"seed": 1')):
        file.write_text(wrong)
        assert json.loads(run(*arguments)[1]) == document
        assert file.read_text() == content


def test_without_a_verdict_the_exit_code_is_that_of_unknown(tmp_path: Path) -> None:
    spec = spec_file(tmp_path, 'scenarios = ["two-orphans"]\npresets = ["questdb-9.4.2"]')
    code, out = run("--spec", spec, "--out", str(tmp_path / "out"))
    assert code == ExitCode.UNKNOWN and "8 runs did not complete" in out and out.endswith("small: UNKNOWN\n")


def rejection(*arguments: str) -> BaseException | None:
    return CliRunner().invoke(app, ["campaign", *arguments], standalone_mode=False).exception


def test_what_cannot_be_run_is_wrong_usage_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_file(tmp_path, 'scenarios = ["sync-fails"]')
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    rejected = [
        rejection("--spec", str(tmp_path / "none"), "--out", str(tmp_path / "out")),
        rejection("--spec", spec, "--out", str(tmp_path / "full")),
    ]

    @contextmanager
    def missing(master: str | None, *, name: str, settings: dict[str, str]) -> Iterator[None]:
        raise PipelineUnavailableError("Spark needs Java")
        yield

    monkeypatch.setattr(command, "spark_session", missing)
    rejected.append(rejection("--spec", spec, "--out", str(tmp_path / "out")))
    assert [type(each) for each in rejected] == [CampaignError, CampaignError, PipelineUnavailableError]
    for each in rejected:
        assert isinstance(each, CampaignError | PipelineUnavailableError)
        assert exit_code_of(each) is ExitCode.USAGE and "\n" not in str(each)
