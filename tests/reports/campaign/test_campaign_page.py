"""The page of a campaign from files as its tasks write them: what it says, and what it says of files that are wrong."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import page_text
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from markupsafe import Markup

from tornproof.pipeline.campaign.directory import directory_sums
from tornproof.pipeline.campaign.tally import Signature
from tornproof.pipeline.campaign.tasks import RESULT_SCHEMA
from tornproof.pipeline.files import location_of
from tornproof.reports.campaign import data as campaign_data
from tornproof.reports.campaign import page as campaign
from tornproof.reports.campaign.data import CampaignData
from tornproof.reports.kit.json_fields import ResultError
from tornproof.reports.kit.page import Page, as_document

if TYPE_CHECKING:
    from playwright.sync_api import Page as BrowserPage

HOSTILE = "<script>alert(1)</script>\"'\x1b[31m\u202e$\\frac$"
KILL = {"injected_fault": "process killed", "model": "A", "step": "writer@commit 0: store a word 2024-01-01T00/_pm #3"}
CUT = {"injected_fault": "power cut", "model": "B", "step": "writer@open: read _txn #1", "disk": "a mixture"}
BROKEN = {"verdict": "INVALID", "property": "a reader gets an answer", "part": "reader", "kind": "CorruptError: é <#>"}
Rows = list[dict[str, Any]]


def row(seed: int, **changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        **dict.fromkeys(RESULT_SCHEMA.names, ""),
        **{"scenario": "append", "preset": "hardened", "seed": seed, "verdict": "VALID", "step_count": 100},
        **{"injected_fault": "nothing befell the writer", "is_seen_kept": True, "reached": ["a point"], "moves": "[]"},
        **{"turn_count": 1, "event_count": 2},
    }
    return values | changes


def group(name: str, *, control: bool = False, seeds: int = 4) -> dict[str, Any]:
    return {"name": name, "control": control, "seeds": {"first": 0, "count": seeds}, "seeds_a_task": 4}


def write_task(directory: Path, number: int, name: str, rows: Rows, schema: pa.Schema = RESULT_SCHEMA) -> Path:
    path = directory / "results" / f"group={name}" / f"task-{number:07}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema), path, compression="zstd")
    return path


def write_spec(directory: Path, *groups: dict[str, Any], name: str = "mine") -> None:
    spec = {"format": 1, "name": name, "seed": 7, "groups": groups}
    (directory / "campaign.json").write_text(json.dumps({"format": 2, "name": name, "digest": "d", "spec": spec}))


def write_end(directory: Path, runs: int, tasks: int, verdict: str = "VALID", notes: tuple[str, ...] = ()) -> None:
    end = {"verdict": verdict, "runs": runs, "tasks": tasks, "result_hash": "abc123", "notes": notes}
    (directory / "summary.json").write_text(json.dumps(end))


@pytest.fixture
def with_plots() -> None:
    """Draw the plots, too; that takes longer than all the rest."""


@pytest.fixture(autouse=True)
def without_plots(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "with_plots" not in request.fixturenames:
        for name in ("behaviours_plot", "chance_plot", "survival_plot"):
            monkeypatch.setattr(campaign, name, lambda *_: Markup("<figure></figure>"))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign that came to its end, with a control that was convicted, and nothing else."""
    directory = tmp_path_factory.mktemp("campaign")
    write_spec(directory, group("ours"))
    write_task(directory, 0, "controls-release", [row(0), row(1, preset="old", **BROKEN) | {"preset": "hardened"}])
    write_task(directory, 1, "ours", [row(0), row(1, **KILL), row(2, **KILL), row(3, **CUT)])
    write_end(directory, 6, 2)
    return directory


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    return shutil.copytree(sound, tmp_path / "copy")


def campaign_page(directory: Path) -> Page:
    return campaign.campaign_page(directory, directory_sums(location_of(directory)))


def read_campaign(directory: Path) -> CampaignData:
    return campaign_data.read_campaign(directory, directory_sums(location_of(directory)))


def text_of(directory: Path) -> str:
    """What a reader of the page sees, as one line."""
    return text_in(campaign_page(directory))


def text_in(page: Page) -> str:
    return page_text.text_of(page.body)


def test_a_sound_campaign_is_valid_with_its_denominators(sound: Path, with_plots: None) -> None:
    page = campaign_page(sound)
    assert (page.key, page.verdict, page.title) == ("campaign", "VALID", "Campaign mine")
    text = text_in(page)
    assert "None of 4 runs violates a property." in text and "What is missing" not in text and "abc123" in text
    assert "ours test 0 to 3 1 4 0 0 4" in text and "controls-release control 1 1 0 1 2" in text
    assert page.body == campaign_page(sound).body


def test_without_its_end_a_campaign_is_unknown(copy: Path) -> None:
    (copy / "summary.json").unlink()
    assert campaign_page(copy).verdict == "UNKNOWN"
    assert "is not complete" in text_of(copy)


def test_a_campaign_without_any_results_says_so(tmp_path: Path) -> None:
    write_spec(tmp_path, group("ours"))
    page = campaign_page(tmp_path)
    assert page.verdict == "UNKNOWN"
    assert "There is no run to judge." in page.body and "groups have no results: ours" in page.body


def test_results_that_are_gone_are_missed(copy: Path) -> None:
    write_task(copy, 4, "ours", [row(4)])
    write_end(copy, 9, 6)
    text = text_of(copy)
    assert "At its end there were 9 runs in 6 tasks; now 7 runs in 3 tasks." in text
    assert "3 tasks of the plan have no results" in text
    assert campaign_page(copy).verdict == "UNKNOWN"


def test_a_run_that_breaks_a_property_makes_it_invalid_whatever_the_end_says(copy: Path) -> None:
    write_task(copy, 2, "ours", [row(4, sentence="reader 1: x < y", **BROKEN), row(5, **BROKEN)])
    write_end(copy, 8, 3)
    assert campaign_page(copy).verdict == "INVALID"
    text = text_of(copy)
    assert "2 of 6 runs violate a property, in one way." in text and "reader 1: x < y append, hardened 4 2" in text


def test_a_finding_is_linked_by_the_name_that_the_campaign_gives_its_file(copy: Path) -> None:
    signed = Signature("hardened", 'a "fault" \\ é\n', BROKEN["property"], BROKEN["part"], BROKEN["kind"])
    write_task(copy, 2, "ours", [row(4, **BROKEN, fault=signed.fault)])
    assert "#finding-" not in campaign_page(copy).body
    (copy / "findings").mkdir()
    (copy / "findings" / f"campaign-{signed.digest()}.json").write_text("{}")
    assert f'href="#finding-campaign-{signed.digest()}"' in campaign_page(copy).body


def test_a_control_that_is_not_detected_is_named(copy: Path) -> None:
    write_spec(copy, group("ours"), group("planted", control=True))
    write_task(copy, 2, "planted", [row(0, fault="left out")])
    (copy / "summary.json").unlink()
    assert "A positive control failed: planted: left out." in text_of(copy)
    assert "1 of 2 were detected." in text_of(copy)


def test_controls_say_nothing_of_what_is_judged(copy: Path) -> None:
    data = read_campaign(copy)
    assert not data.signatures and data.behaviours[-1].run_count == 4 and sum(data.crash_points.values()) == 3


def test_a_run_that_stands_in_two_groups_is_one_behaviour_that_came_once(copy: Path) -> None:
    write_spec(copy, group("ours"), group("more"))
    write_task(copy, 2, "more", [row(3, **CUT), row(4, **CUT)])
    now = read_campaign(copy).behaviours[-1]
    assert (now.run_count, now.behaviour_count, now.once_count) == (5, 3, 1)
    assert (now.held_out_count, now.held_out_new_count) == (2, 0)


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def without_column(path: Path) -> None:
    pq.write_table(pq.ParquetFile(path).read().drop_columns(["step"]), path)


def of_two_cells(path: Path) -> None:
    write_task(path.parents[2], 1, "ours", [row(0), row(1, scenario="other")])


def with_seeds_apart(path: Path) -> None:
    write_task(path.parents[2], 1, "ours", [row(0), row(2)])


def with_another_verdict(path: Path) -> None:
    write_task(path.parents[2], 1, "ours", [row(0, verdict="FINE\x1b")])


def with_null(path: Path) -> None:
    schema = pa.schema([field.with_nullable(True) for field in RESULT_SCHEMA])
    write_task(path.parents[2], 1, "ours", [row(0, injected_fault=None)], schema)


def with_bad_text(path: Path) -> None:
    table = pq.ParquetFile(path).read()
    broken = pa.Array.from_buffers(
        pa.string(), 4, [None, pa.array([0, 1, 2, 3, 4], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xfe\xfd\xfc")]
    )
    position = table.schema.get_field_index("disk")
    pq.write_table(table.set_column(position, table.schema.field(position), broken), path)


def without_rows(path: Path) -> None:
    write_task(path.parents[2], 1, "ours", [])


@pytest.mark.parametrize(
    "damage",
    [
        truncated,
        without_column,
        of_two_cells,
        with_seeds_apart,
        with_another_verdict,
        with_null,
        with_bad_text,
        without_rows,
    ],
)
def test_a_file_that_no_task_writes_is_named_and_counts_nowhere(copy: Path, damage: Callable[[Path], None]) -> None:
    path = copy / "results" / "group=ours" / "task-0000001.parquet"
    damage(path)
    page = campaign_page(copy)
    assert page.verdict == "UNKNOWN" and "\x1b" not in page.body
    assert "1 file of results cannot be read" in page.body and str(path) in page.body
    assert "There is no run to judge." in page.body


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "the file"),
        ("{", "JSON"),
        ("[]", "an object"),
        ('{"format": 1, "spec": {}}', "format: expected 2, found 1"),
        ('{"format": 2, "spec": {"name": 3}}', "name"),
        ('{"format": 2, "spec": {"name": "x", "groups": [{"name": "ours", "seeds": []}]}}', "groups"),
    ],
)
def test_a_directory_that_is_no_campaign_is_rejected_in_one_sentence(
    tmp_path: Path, content: str | None, told: str
) -> None:
    if content is not None:
        (tmp_path / "campaign.json").write_text(content)
    with pytest.raises(ResultError, match=told) as caught:
        campaign_page(tmp_path)
    assert str(tmp_path / "campaign.json") in str(caught.value)


def test_an_end_that_says_nothing_is_rejected(copy: Path) -> None:
    write_end(copy, 6, 2, verdict="FINE")
    with pytest.raises(ResultError, match=r"summary\.json: verdict: expected one of"):
        campaign_page(copy)


def write_hostile(directory: Path) -> None:
    """Write a campaign whose every name would run script if it were markup."""
    write_spec(directory, group(HOSTILE), name=HOSTILE)
    names = [
        "scenario",
        "preset",
        "fault",
        "property",
        "kind",
        "part",
        "sentence",
        "injected_fault",
        "model",
        "step",
        "disk",
    ]
    hostile = row(0, verdict="INVALID", reached=[HOSTILE], error=HOSTILE, **dict.fromkeys(names, HOSTILE))
    for number, fault in enumerate((HOSTILE, f"2{HOSTILE}", f"3{HOSTILE}")):
        write_task(directory, number, HOSTILE.replace("/", ""), [hostile | {"fault": fault}])
    write_task(directory, 3, "x", [hostile | {"step": f"writer@{HOSTILE}: {HOSTILE} #1"}])
    (directory / "findings").mkdir()
    write_end(directory, 4, 4, notes=(HOSTILE,))


def test_names_from_files_are_text_wherever_they_stand(tmp_path: Path, with_plots: None) -> None:
    write_hostile(tmp_path)
    body = campaign_page(tmp_path).body
    assert "<script" not in body and "&lt;script&gt;" in body
    assert "\x1b" not in body and "\u202e" not in body


@pytest.mark.nightly
def test_a_browser_shows_a_sound_and_a_hostile_campaign_to_everybody_and_runs_nothing_of_them(
    sound: Path,
    tmp_path: Path,
    with_plots: None,
    open_report: Callable[..., BrowserPage],
    axe_violations: Callable[[BrowserPage], list[str]],
) -> None:
    write_hostile(tmp_path)
    for directory, theme, width in ((sound, "light", 1280), (tmp_path, "dark", 390)):
        page = open_report(as_document("campaigns", [campaign_page(directory)]), theme=theme, width=width)
        assert page.is_visible("#campaign h2 >> nth=0")
        assert page.locator("#campaign img, #campaign script").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out"
        assert axe_violations(page) == []
    assert "<script>alert(1)</script>" in page.inner_text("#campaign")


@pytest.mark.nightly
def test_a_phone_and_a_screen_show_all_columns_of_the_tables_and_the_whole_plots(
    tmp_path: Path, with_plots: None, open_report: Callable[..., BrowserPage]
) -> None:
    cuts = [
        {"injected_fault": "power cut", "model": model, "disk": disk}
        for model in ("B", "C-4096", "C-512", "C-8", "Cdir", "N-512", "W-512")
        for disk in ("a mixture", "all that was written", "as little as is legal")
    ]
    crashes = [
        {"step": f"writer@commit 0: {call} 2024-01-01T00/data.parquet #1", **each}
        for call in ("store a word", "sync the data", "open for writing")
        for each in (KILL, *cuts, {"injected_fault": "sync failed", "model": "D", "disk": "a mixture"})
    ]
    rows = [row(seed, **crash) for seed, crash in enumerate([*crashes, *crashes, *crashes] * 20)]
    planted = [row(seed, fault="size from the file", scenario="a-rewrite-a-commit-and-a-crash") for seed in range(60)]
    planted[30] |= BROKEN
    write_spec(tmp_path, group("ours", seeds=len(rows)), group("controls-release", control=True, seeds=len(planted)))
    write_task(tmp_path, 0, "ours", rows)
    write_task(tmp_path, 1, "controls-release", planted)
    write_end(tmp_path, len(rows) + len(planted), 2)
    document = as_document("campaigns", [campaign_page(tmp_path)])
    for width in (390, 1280):
        page = open_report(document, width=width)
        boxes = page.locator("#campaign :is(.scroll, .plot)")
        assert boxes.count() > 5
        cut = boxes.evaluate_all(
            "boxes => boxes.filter(box => box.scrollWidth > box.clientWidth).map(box => box.ariaLabel)"
        )
        assert cut == [], width


@pytest.mark.nightly
def test_a_large_campaign_gives_a_small_page_that_says_what_it_leaves_out(tmp_path: Path) -> None:
    long = "x" * 3000
    write_spec(tmp_path, *(group(f"group {number} {long}") for number in range(200)), group("ours"))
    for number in range(160):
        rows = [
            row(
                seed,
                scenario=f"{number} {long}",
                fault=f"fault {number} {long}",
                injected_fault=f"fault {number % 9}",
                model=f"model {number % 7} {long}",
                disk=f"disk {seed % 5} {long}",
                step=f"writer@commit {number}: call {seed} {long} #1",
                reached=[f"point {number} {seed} {long}"],
                **BROKEN | {"kind": f"{number} {long}"},
            )
            for seed in range(8)
        ]
        write_task(tmp_path, number, "ours", rows)
    page = campaign_page(tmp_path)
    assert len(page.body.encode()) < 500_000 and page.verdict == "INVALID"
    text = text_of(tmp_path)
    assert "60 more are not listed." in text and "10 more faults are not listed." in text
    assert "101 more groups are not listed." in text and "Not shown are" in text
