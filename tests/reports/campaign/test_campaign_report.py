"""`campaign` leaves what its page needs, and makes the report where it is asked to; here without Spark."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tornproof.cli.app import app
from tornproof.cli.commands import campaign
from tornproof.pipeline.campaign import spec as campaign_spec
from tornproof.pipeline.campaign.directory import directory_sums
from tornproof.pipeline.campaign.job import run_campaign
from tornproof.pipeline.campaign.results import Summary, control_names
from tornproof.pipeline.campaign.spec import Group, Seeds, Spec
from tornproof.pipeline.campaign.tasks import complete_task, plan_of
from tornproof.pipeline.files import Location, location_of
from tornproof.reports.campaign.page import campaign_page

CONTROL = Group(name="controls-x", faults=("decoded by the newest footer",), seeds=Seeds(count=2), control=True)
SPEC = """
format = 1
name = "small"
[[groups]]
name = "ours"
scenarios = ["append-and-power-cut"]
seeds = { count = 4 }
"""


def run_here(_: Any, spec: Spec, out: Location, **reported: Any) -> Summary:
    for task in plan_of(spec):
        complete_task(task, out)
    assert control_names(spec) == {CONTROL.name}
    return run_campaign(None, spec, out, **reported)


@pytest.fixture
def run_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(campaign_spec, "CONTROL_GROUPS", (CONTROL,))
    monkeypatch.setattr(campaign, "run_campaign", run_here)
    monkeypatch.setattr(campaign, "spark_session", lambda *_, **__: contextlib.nullcontext())
    (tmp_path / "spec.toml").write_text(SPEC)

    def run(*options: str) -> Result:
        named = ["--spec", str(tmp_path / "spec.toml"), "--out", str(tmp_path / "out")]
        return CliRunner().invoke(app, ["campaign", *named, *options], catch_exceptions=False, standalone_mode=False)

    return run


def test_campaign_leaves_its_end_and_with_report_the_page_of_it(run_command: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = run_command()
    assert ran.return_value == 0 and not (out / "report.html").exists()
    end = json.loads((out / "summary.json").read_text())
    assert (end["verdict"], end["runs"], end["tasks"]) == ("VALID", 6, 2)
    page = campaign_page(out, directory_sums(location_of(out)))
    assert page.verdict == "VALID" and "What is missing" not in page.body and end["result_hash"] in page.body

    again = run_command("--report")
    assert again.return_value == 0 and "report.html" in again.output
    html = (out / "report.html").read_text()
    assert 'id="campaign"' in html and "Campaign small" in html
